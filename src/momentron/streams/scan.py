"""One scan of the rows: everything a step or a certificate needs of them, in one read."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.certificate.passes import ArcScores, Findings
from momentron.dual.labels import Labels, as_labels
from momentron.dual.losses import Exponential
from momentron.rows import as_operator
from momentron.solvers.problem import Problem
from momentron.streams.blocks import Block, Shortlist, large_tiles, tiles


@dataclass
class ScanResult(Findings):
    """What the rows of one or more blocks show, and the rows of each class that w serves worst."""

    worst: Shortlist


class Scan(ArcScores):
    """The task of a pass.

    Parameters
    ----------
    w : ndarray of shape (d,), or (d, k)
    labels : Labels
    classes : ndarray of shape (k,)
    n_worst : int
        How many rows to bring back, as many of each class.
    b : ndarray of shape (k,)
        The intercepts that rank those rows, for many classes.
    bars : ndarray of shape (k,), optional
        Bring back only rows that rank higher, class by class: those whose margin is too small.
    **options
        Those of `ArcScores`.
    """

    def __init__(
        self,
        w: np.ndarray,
        labels: Labels,
        classes: np.ndarray,
        *,
        n_worst: int = 0,
        b: np.ndarray | None = None,
        bars: np.ndarray | None = None,
        **options: Any,
    ) -> None:
        super().__init__(w, labels, **options)
        self.classes, self.n_worst = classes, n_worst
        self.b = np.zeros(labels.n_classes) if b is None else b
        self._bars = {} if bars is None else dict(enumerate(bars.tolist()))

    def __call__(self, block: Block, so_far: ScanResult | None = None) -> ScanResult:
        """What the block shows; `so_far` is what others have shown, which saves work."""
        if so_far is None:
            worst, known = Shortlist(self.n_worst, self._bars), np.full(self.labels.n_arcs, -np.inf)
        else:
            worst, known = so_far.worst.begun(), so_far.tops
        found = ScanResult(**vars(self.nothing(block.X.shape[1])), worst=worst)
        codes = block.codes(self.classes)
        for rows in self._tiles(block.X):
            bars = np.maximum(found.tops, known)
            part, scores = self.of_tile(block.X[rows], codes[rows], bars)
            found.add(part)
            if self.n_worst:
                self._rank(scores, codes[rows], block, rows.start, worst)
        return found

    @staticmethod
    def merge(a: ScanResult, b: ScanResult) -> ScanResult:
        """Both, in a."""
        a.add(b)
        a.worst.take(b.worst)
        return a

    def problem_of(self, X: Any, codes: np.ndarray) -> Problem:
        labels = self.labels
        has_all = labels.is_paired or np.unique(codes).size == labels.n_classes
        few = as_labels(labels.n_classes, labels.fit_intercept and has_all, codes)
        length = self.radius / labels.radius_factor
        squares = np.full(codes.size, length**2)
        return Problem(as_operator(X, squares), few, few.dual_set(Exponential()))

    def _tiles(self, X: Any) -> Iterable[slice]:
        """Small tiles where the rows are read twice, or copied."""
        if self.sums_rows or self.is_copied(X):
            return tiles(X)
        return large_tiles(X, self.labels.n_classes)

    def _rank(
        self, scores: np.ndarray, codes: np.ndarray, block: Block, start: int, worst: Shortlist
    ) -> None:
        """Offer rows to the list of those that w serves worst."""
        if self.labels.is_paired:
            scores = (scores + self.b).max(axis=1) - self.b[codes]
        for code in range(self.labels.n_classes):
            index = np.flatnonzero(codes == code)
            if index.size:
                worst.offer(code, scores[index], start + index, block.X, block.first)
