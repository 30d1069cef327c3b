"""One scan of the rows for a soft margin, and the rows of a stream as a linear map."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.rounding import UNDERFLOW, UNIT_ROUNDOFF, gamma, norm_bounds, up
from momentron.certificate import read_only
from momentron.rows import Operator
from momentron.rows.operator import norm_upper_bounds
from momentron.streams.blocks import Block, Shortlist, tiles
from momentron.streams.first_pass import FirstPassResult
from momentron.streams.stream import Stream

KNOWN = 3  # classifiers, and weights, whose last products are remembered
SAME = 16.0 * UNIT_ROUNDOFF  # relative differences of entries that the bounds allow for,
ALLOWED = 24  # as so many roundings


@dataclass
class SoftFindings:
    """What rows show of a classifier."""

    lists: tuple[Shortlist, Shortlist]  # rows nearest to the margin; rows that crossed it
    products: list[tuple[int, np.ndarray]] = field(default_factory=list)  # Xw, from some row on
    moments: list[Any] = field(default_factory=lambda: [0.0, 0.0])  # by class; see `moment`
    adjoint: Any = 0.0  # Xᵀa
    depth: int = 0  # the longest chain of roundings in one of its entries

    def all_products(self) -> np.ndarray:
        """Xw."""
        return np.concatenate([part for _, part in sorted(self.products, key=lambda part: part[0])])

    def add(self, other: "SoftFindings") -> None:
        """Take what other rows show, but for the lists."""
        self.products += other.products
        self.moments = [a + b for a, b in zip(self.moments, other.moments, strict=True)]
        self.adjoint = self.adjoint + other.adjoint
        self.depth = max(self.depth, other.depth) + 1


@dataclass
class SoftScan:
    """The task of a pass: everything that a round or a certificate needs of the rows."""

    classes: np.ndarray  # two of them
    w: np.ndarray
    b: float = 0.0
    a: np.ndarray | None = None  # weights of all the rows, with which they are summed
    costs: np.ndarray | None = None  # C of all the rows; None: products and that sum will do
    n_near: int = 0  # rows that each list may have
    order: int = 0  # of the sums over the rows below the margin: 1, 2, or 0 for none
    n_groups: int = 1  # sums of order 1 for each class, of every n_groups-th row each
    centre: Any = 0.0  # from which rows are seen in sums of order 2
    is_below: np.ndarray | None = None  # which rows were below the margin before

    def __call__(self, block: Block, so_far: SoftFindings | None = None) -> SoftFindings:
        lists = Shortlist(self.n_near), Shortlist(self.n_near, {0: 0.0, 1: 0.0})
        if so_far is not None:
            lists = so_far.lists[0].begun(), so_far.lists[1].begun()
        found, codes = SoftFindings(lists), block.codes(self.classes)
        for rows in tiles(block.X):
            X, first = block.X[rows].astype(np.float64, copy=False), block.first + rows.start
            products = np.asarray(X @ self.w)
            part = SoftFindings(lists, [(first, products)], depth=X.shape[0])
            if self.a is not None:
                part.adjoint = X.T @ self.a[first : first + X.shape[0]]
            if self.costs is not None:
                signs = np.where(codes[rows] == 1, 1.0, -1.0)
                slack = 1.0 - signs * (products + self.b)
                for code, sign in enumerate((-1.0, 1.0)):
                    self._rank(part, code, X, np.flatnonzero(signs == sign), slack, first)
            found.add(part)
        return found

    def _rank(
        self,
        found: SoftFindings,
        code: int,
        X: Any,
        index: np.ndarray,
        slack: np.ndarray,
        first: int,
    ) -> None:
        """Offer the rows X[index], of one class, to the lists, and sum those below the margin."""
        (near, crossed), own = found.lists, slack[index]
        near.offer(code, -np.abs(own) if self.order else own, index, X, first)
        if self.is_below is not None:
            ranks = np.where(self.is_below[first + index], -own, own)
            crossed.offer(code, ranks, index, X, first)
        below = index[own > 0.0]
        if self.order and below.size:
            found.moments[code] = self.moment(X[below], first + below)

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

    @staticmethod
    def merge(a: SoftFindings, b: SoftFindings) -> SoftFindings:
        """Both, in a."""
        for mine, others in zip(a.lists, b.lists, strict=True):
            mine.take(others)
        a.add(b)
        return a


class BlockOperator(Operator):
    """The rows of a stream as a linear map: each product is a pass, unless it is remembered.

    Parameters
    ----------
    stream : Stream
    found : FirstPassResult
    squares : ndarray of shape (n,)
        ‖x‖² of the rows.
    """

    def __init__(self, stream: Stream, found: FirstPassResult, squares: np.ndarray) -> None:
        self.stream, self._classes, self._stored = stream, found.classes, found.stored
        self.shape = (found.n_rows, found.width)
        self.row_norms = read_only(norm_upper_bounds(squares, found.stored))
        self.radius = float(self.row_norms.max())
        # copies for solvers share what is remembered
        self._products: list[tuple[np.ndarray, np.ndarray]] = []  # (w, Xw)
        self._sums: list[tuple[np.ndarray, np.ndarray, int]] = []  # (a, Xᵀa, its depth)

    @property
    def passes(self) -> int:  # type: ignore[override]
        return self.stream.passes

    def scan(self, w: np.ndarray, **options: Any) -> SoftFindings:
        """One pass, with options of `SoftScan`; its products are remembered."""
        task = SoftScan(self._classes, w, **options)
        found: SoftFindings = self.stream.run(task)
        self._products.insert(0, (w.copy(), read_only(found.all_products())))
        if task.a is not None:
            self._sums.insert(0, (task.a.copy(), read_only(found.adjoint), found.depth))
        del self._products[KNOWN:], self._sums[KNOWN:]
        return found

    def scores_in_double(self, w: np.ndarray) -> np.ndarray:
        if not w.any():
            return np.zeros(self.shape[0])
        for known, products in self._products:
            if (factor := multiple_of(known, w)) is not None:
                return factor * products
        return self.scan(w).all_products()

    def _sum(self, a: np.ndarray) -> tuple[np.ndarray, int]:
        """(Xᵀa, the longest chain of roundings in one of its entries)."""
        for known, total, depth in self._sums:
            if (factor := multiple_of(known, a)) is not None:
                return factor * total, depth
        found = self.scan(np.zeros(self.shape[1]), a=a)
        return found.adjoint, found.depth

    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        return self._sum(a)[0]

    apply, adjoint = scores_in_double, exact_adjoint

    def adjoint_norm_bound(
        self, a: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        vector, depth = self._sum(a)
        error = gamma(depth + ALLOWED) * weighted_norms
        underflow = self.shape[0] * vector.size * UNDERFLOW * (1.0 + self.radius)
        return up(norm_bounds(vector)[1] + error + underflow)

    def score_depth(self, w: np.ndarray) -> int:
        return self._stored + ALLOWED

    def _needs_rows(self, *_: Any) -> np.ndarray:
        raise NotImplementedError("rows in blocks cannot be read one by one")

    combine = products_at = sharp_scores = _needs_rows  # type: ignore[assignment]


def multiple_of(known: np.ndarray, vector: np.ndarray) -> float | None:
    """The factor that makes one vector the other but for roundings of its entries, or None."""
    place = int(np.argmax(np.abs(known)))
    factor = float(vector[place] / known[place]) if known[place] else 0.0
    is_same = np.abs(vector - factor * known) <= SAME * np.abs(vector)
    return factor if is_same.all() else None
