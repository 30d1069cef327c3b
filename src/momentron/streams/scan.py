"""One pass over the rows of a stream: products with a classifier, sums, and rows that matter."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.dual.labels import Labels, as_labels
from momentron.rows.operator import nonzero_rows
from momentron.streams.blocks import Block, Shortlist, tiles


@dataclass
class Findings:
    """What rows show of a classifier, and their sums with weights.

    Attributes
    ----------
    lists : tuple of Shortlist
        Rows that were asked for.
    products : list of (int, ndarray)
        Xw from some row on; with k classes the differences of k − 1 columns from the last.
    sums : ndarray of shape (d,), or with a column for each of k − 1 classes, or group of rows
        Rows summed with weights: those given, or exp(score − peak).
    peaks, totals : float, or ndarray of shape (n_groups,)
        The largest score of each group, and Σ exp(score − peak).
    depth : int
        The longest chain of roundings in an entry of `sums` and `totals`.
    moments : list
        Of a soft margin, sums over the rows below it, by class; see `SoftScan.moment`.
    """

    lists: tuple[Shortlist, ...]
    products: list[tuple[int, np.ndarray]] = field(default_factory=list)
    sums: Any = 0.0
    peaks: Any = -np.inf
    totals: Any = 0.0
    depth: int = 0
    moments: list[Any] = field(default_factory=lambda: [0.0, 0.0])

    def all_products(self) -> np.ndarray:
        """Xw."""
        return np.concatenate([part for _, part in sorted(self.products, key=lambda part: part[0])])

    def add(self, other: "Findings") -> None:
        """Take what other rows show, but for the lists."""
        self.products += other.products
        peaks = np.maximum(self.peaks, other.peaks)
        with np.errstate(invalid="ignore"):
            mine = np.where(np.isneginf(self.peaks), 0.0, np.exp(self.peaks - peaks))
            theirs = np.where(np.isneginf(other.peaks), 0.0, np.exp(other.peaks - peaks))
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
    bar: float = -np.inf  # whose score is at least this

    def lists(self) -> tuple[Shortlist, ...]:
        """Empty lists for the rows that are wanted."""
        return (Shortlist(self.n_worst, dict.fromkeys(range(self.classes.size), self.bar)),)

    def __call__(self, block: Block, so_far: Findings | None = None) -> Findings:
        lists = self.lists() if so_far is None else tuple(part.begun() for part in so_far.lists)
        found, codes = Findings(lists), block.codes(self.classes)
        for rows in tiles(block.X):
            X = block.X[rows].astype(np.float64, copy=False)
            found.add(self._of_tile(X, codes[rows], block.first + rows.start))
        if lists[0].total and self.w is not None:
            labels = as_labels(self.classes.size, self.fit_intercept, codes)
            products = with_last_column(found.all_products())
            self.rank(block, labels, labels.scores(products + self.b), found)
        return found

    def _of_tile(self, X: Any, codes: np.ndarray, first: int) -> Findings:
        part = Findings(())
        if self.a is not None:
            a = self.a[first : first + codes.size]
            part.sums, part.peaks, part.depth = X.T @ a, 0.0, nonzero_rows(a).size
        if self.w is not None:
            products = np.asarray(X @ self.w)
            part.products.append((first, products))
            if self.is_softmax:
                labels = as_labels(self.classes.size, self.fit_intercept, codes)
                self._weigh(X, labels, labels.scores(with_last_column(products)), part)
        return part

    def _weigh(self, X: Any, labels: Labels, scores: np.ndarray, part: Findings) -> None:
        """Sum the rows of each group: of each class with intercepts, of all of them without."""
        groups = [np.ones(labels.size, bool)]
        if self.fit_intercept:
            groups = [labels.codes == 0, labels.codes == 1]
        part.peaks = np.array([scores[rows].max(initial=-np.inf) for rows in groups])
        weights = np.exp(scores - part.peaks[labels.codes if self.fit_intercept else 0])
        part.totals = np.array([weights[rows].sum() for rows in groups])
        a = labels.mix(weights)
        a = a[:, :-1] if labels.is_paired else a[:, None] * np.column_stack(groups)
        part.sums, part.depth = X.T @ a, scores.size + 2

    def rank(self, block: Block, labels: Labels, scores: np.ndarray, found: Findings) -> None:
        """Offer rows to the list of those that w serves worst."""
        worst = scores
        if labels.is_paired:
            worst = scores.reshape(block.y.size, -1).max(axis=1)
        for code in range(self.classes.size):
            index = np.flatnonzero(labels.codes == code)
            if index.size:
                found.lists[0].offer(code, worst[index], index, block.X, block.first)

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


class Fetch:
    """The task of reading some rows again, whose sorted numbers are given."""

    def __init__(self, numbers: np.ndarray, classes: np.ndarray) -> None:
        self.numbers, self.classes = numbers, classes

    def __call__(self, block: Block, so_far: Any = None) -> list[Any]:
        rows = block.kept(self.numbers)
        return [] if rows is None else [rows.coded(self.classes)]

    @staticmethod
    def merge(a: list[Any], b: list[Any]) -> list[Any]:
        return a + b
