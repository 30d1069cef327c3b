"""One scan of the rows for a soft margin: the rows near it, and sums that stand for the others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.dual.labels import Labels
from momentron.rows.operator import row_blocks
from momentron.streams.blocks import Block, Shortlist
from momentron.streams.scan import Findings, Scan


@dataclass
class SoftScan(Scan):
    """The task of a pass: everything that a round of a soft margin needs of the rows.

    Its lists have the rows nearest to the margin, and those that crossed it, `n_worst` each.
    """

    costs: np.ndarray | None = None  # C of all the rows
    order: int = 0  # of the sums over the rows below the margin: 1, 2, or 0 for none
    n_groups: int = 1  # sums of order 1 for each class, of every n_groups-th row each
    centre: Any = 0.0  # from which rows are seen in sums of order 2
    is_below: np.ndarray | None = None  # which rows were below the margin before

    def lists(self) -> tuple[Shortlist, ...]:
        return Shortlist(self.n_worst), Shortlist(self.n_worst, {0: 0.0, 1: 0.0})

    def rank(self, block: Block, labels: Labels, scores: np.ndarray, found: Findings) -> None:
        """Offer rows to the lists, and sum those below the margin."""
        slack, (near, crossed) = 1.0 + scores, found.lists
        for code in range(2):
            index = np.flatnonzero(labels.codes == code)
            own = slack[index]
            ranks = -np.abs(own) if self.order else own
            near.offer(code, ranks, index, block.X, block.first)
            if self.is_below is not None:
                ranks = np.where(self.is_below[block.first + index], -own, own)
                crossed.offer(code, ranks, index, block.X, block.first)
            if not self.order:
                continue
            below = index[own > 0.0]
            for part in row_blocks(below.size, block.X.shape[1]):
                X = block.X[below[part]].astype(np.float64, copy=False)
                found.moments[code] += self.moment(X, block.first + below[part])

    def moment(self, X: Any, numbers: np.ndarray) -> np.ndarray:
        """Σ C x over each group of some rows; or Σ C (x, 1)(x, 1)ᵀ over all, x less the centre."""
        assert self.costs is not None
        costs = self.costs[numbers]
        if self.order == 1:
            places = numbers % self.n_groups, np.arange(numbers.size)
            total = sp.csr_array((costs, places), (self.n_groups, numbers.size)) @ X
            return np.asarray(total.toarray() if sp.issparse(total) else total)
        roots = np.sqrt(costs)[:, None]
        if sp.issparse(X):
            B = sp.hstack([X.multiply(roots), sp.csr_array(roots)], format="csr")
            return np.asarray((B.T @ B).toarray())
        B = roots * np.hstack([X - self.centre, np.ones_like(roots)])
        return B.T @ B
