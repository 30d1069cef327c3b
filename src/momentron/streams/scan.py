"""One pass over the rows of a stream: products with a classifier, sums, and rows that matter."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.dual.labels import Labels, as_labels
from momentron.rows.operator import nonzero_rows, row_blocks
from momentron.streams.blocks import Block, Shortlist, tiles

LOWEST = np.finfo(np.float64).min  # the largest score of no rows


@dataclass
class Findings:
    """What rows show of a classifier, and their sums with weights."""

    lists: tuple[Shortlist, ...]  # rows that were asked for
    # Xw from some row on; with k classes the differences of k − 1 columns from the last
    products: dict[int, np.ndarray] = field(default_factory=dict)
    # rows summed with weights, those given or exp(score − peak), of shape (d,), or with a column
    # for each of k − 1 classes, or group of rows
    sums: Any = 0.0
    peaks: Any = LOWEST  # the largest score of each group,
    totals: Any = 0.0  # and Σ exp(score − peak)
    depth: int = 0  # the longest chain of roundings in an entry of `sums` and `totals`
    # of a soft margin, sums over the rows below it, by class; see `SoftScan.moment`
    moments: list[Any] = field(default_factory=lambda: [0.0, 0.0])

    def all_products(self) -> np.ndarray:
        """Xw."""
        return np.concatenate([self.products[first] for first in sorted(self.products)])

    def add(self, other: "Findings") -> None:
        """Take what other rows show, but for the lists."""
        self.products |= other.products
        peaks = np.maximum(self.peaks, other.peaks)
        mine, theirs = np.exp(self.peaks - peaks), np.exp(other.peaks - peaks)
        self.sums = self.sums * mine + other.sums * theirs
        self.totals = self.totals * mine + other.totals * theirs
        self.peaks = peaks
        # exponentials are right to a few roundings besides those of their arguments
        self.depth = max(self.depth, other.depth) + (8 if np.ndim(peaks) else 2)
        self.moments = [a + b for a, b in zip(self.moments, other.moments, strict=True)]


@dataclass
class Scan:
    """The task of a pass: products, a sum of rows, and the rows that a classifier serves worst."""

    classes: np.ndarray
    fit_intercept: bool
    w: np.ndarray | None = None
    a: np.ndarray | None = None  # weights of all the rows, with which they are summed,
    is_softmax: bool = False  # or with exponentials of scores; intercepts of two classes at most
    b: Any = 0.0  # the intercepts that rank rows
    n_worst: int = 0  # rows to bring back, as many of each class,
    bar: float = -np.inf  # whose score is at least this; without w their weight is the score

    def lists(self) -> tuple[Shortlist, ...]:
        """Empty lists for the rows that are wanted."""
        return (Shortlist(self.n_worst, dict.fromkeys(range(self.classes.size), self.bar)),)

    def __call__(self, block: Block, so_far: Findings | None = None) -> Findings:
        lists = self.lists()
        if so_far is not None:  # rows that would not stay are not even copied
            lists = tuple(Shortlist(part.total, part.bars) for part in so_far.lists)
        found, codes = Findings(lists), block.codes(self.classes)
        for rows in tiles(block.X):
            X = block.X[rows].astype(np.float64, copy=False)
            found.add(self._of_tile(X, codes[rows], block.first + rows.start))
        if lists[0].total:
            self.offer(block, codes, self._scores_of(block, codes, found), found)
        return found

    def _scores_of(self, block: Block, codes: np.ndarray, found: Findings) -> np.ndarray:
        """The scores by which rows are ranked: of many classes the largest of each row."""
        if self.w is None:
            assert self.a is not None
            return self.a[block.first : block.first + codes.size]
        labels = as_labels(self.classes.size, self.fit_intercept, codes)
        scores = labels.scores(with_last_column(found.all_products()) + self.b)
        return scores.reshape(codes.size, -1).max(axis=1) if labels.is_paired else scores

    def _of_tile(self, X: Any, codes: np.ndarray, first: int) -> Findings:
        part = Findings(())
        if self.a is not None:
            a = self.a[first : first + codes.size]
            part.sums, part.peaks, part.depth = X.T @ a, 0.0, nonzero_rows(a).size
        if self.w is not None:
            products = np.asarray(X @ self.w)
            part.products[first] = products
            if self.is_softmax:
                labels = as_labels(self.classes.size, self.fit_intercept, codes)
                self._weigh(X, labels, labels.scores(with_last_column(products)), part)
        return part

    def _weigh(self, X: Any, labels: Labels, scores: np.ndarray, part: Findings) -> None:
        """Sum the rows of each group: of each class with intercepts, of all of them without."""
        groups = [np.ones(labels.size, bool)]
        if self.fit_intercept:
            groups = [labels.codes == 0, labels.codes == 1]
        part.peaks = np.array([scores[rows].max(initial=LOWEST) for rows in groups])
        weights = np.exp(scores - part.peaks[labels.codes if self.fit_intercept else 0])
        part.totals = np.array([weights[rows].sum() for rows in groups])
        a = labels.mix(weights)
        a = a[:, :-1] if labels.is_paired else a[:, None] * np.column_stack(groups)
        part.sums, part.depth = X.T @ a, scores.size + 2

    def offer(self, block: Block, codes: np.ndarray, scores: np.ndarray, found: Findings) -> None:
        """Offer the rows to the list of those that w serves worst."""
        found.lists[0].offer(block, scores, codes, range(self.classes.size))

    @staticmethod
    def merge(a: Findings, b: Findings) -> Findings:
        """Both, in a."""
        for mine, others in zip(a.lists, b.lists, strict=True):
            mine.take(others)
        a.add(b)
        return a


def with_last_column(products: np.ndarray) -> np.ndarray:
    """Products with differences of columns from the last one, which is then zero itself."""
    if products.ndim == 1:
        return products
    return np.column_stack([products, np.zeros(products.shape[0])])


@dataclass
class SoftScan(Scan):
    """The task of a pass: everything that a round of a soft margin needs of the rows.

    Its lists have the rows nearest to the margin, and those that crossed it, `n_worst` each; its
    moments sums that stand for the rows below the margin.
    """

    costs: np.ndarray | None = None  # C of all the rows
    order: int = 0  # of the sums over the rows below the margin: 1, 2, or 0 for none
    n_groups: int = 1  # sums of order 1 for each class, of every n_groups-th row each
    centre: Any = 0.0  # from which rows are seen in sums of order 2
    is_below: np.ndarray | None = None  # which rows were below the margin before

    def lists(self) -> tuple[Shortlist, ...]:
        return Shortlist(self.n_worst), Shortlist(self.n_worst, {0: 0.0, 1: 0.0})

    def offer(self, block: Block, codes: np.ndarray, scores: np.ndarray, found: Findings) -> None:
        """Offer the rows to the lists, and sum those below the margin, class by class."""
        slack, (near, crossed) = 1.0 + scores, found.lists
        near.offer(block, -np.abs(slack) if self.order else slack, codes, range(2))
        if self.is_below is not None:
            was_below = self.is_below[block.first : block.first + slack.size]
            crossed.offer(block, np.where(was_below, -slack, slack), codes, range(2))
        for code in range(2) if self.order else ():
            below = np.flatnonzero((slack > 0.0) & (codes == code))
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
