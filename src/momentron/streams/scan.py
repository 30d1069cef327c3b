"""One scan of the rows: everything a step or a certificate needs of them, in one read.

For a classifier w, a block of rows gives on each arc (see `momentron.dual.labels`) a sure upper
bound of its largest score; and the triple of attention with a single query: the largest score, the
sum of exp(score − largest), and the rows summed with these weights. Two such findings merge into
that of all the rows, in any order; what is exchanged is as large as w, whatever the block.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.arithmetic.rounding import (
    EXTENDED_ROUNDOFF,
    SINGLE_ROUNDOFF,
    UNDERFLOW,
    UNIT_ROUNDOFF,
    gamma,
    norm_bounds,
    up,
)
from momentron.dual.labels import Labels
from momentron.rows import as_operator
from momentron.streams.blocks import Block, in_float64, large_tiles, tiles
from momentron.streams.shortlist import Shortlist

MOST_SHARPENED = 2048  # rows of a tile that are worth extended precision


@dataclass
class ScanResult:
    """What the rows of one or more blocks show.

    Attributes
    ----------
    tops : ndarray of shape (n_arcs,)
        Sure upper bounds of the largest scores, in the units of X.
    peaks, totals : ndarray of shape (n_arcs,)
        The largest scores over R, and Σ exp(score/R − peak).
    vectors : ndarray of shape (d, n_sums)
        Rows summed with those weights; none where nobody asked.
    depth : int
        The longest chain of roundings in an entry of `totals` and `vectors`.
    worst : Shortlist
        The rows of each class that w serves worst.
    """

    tops: np.ndarray
    peaks: np.ndarray
    totals: np.ndarray
    vectors: np.ndarray
    depth: int
    worst: Shortlist
    n_rows: int = 0


class Scan:
    """The task of a pass.

    Parameters
    ----------
    w : ndarray of shape (d,), or (d, k)
    labels : Labels
    classes : ndarray of shape (k,)
    radius : float
        An upper bound of max‖z‖, in the units of X.
    depth : int
        The most entries that a row of X holds.
    divisor : float
        R, the unit of the scores whose exponentials are taken.
    has_weights : bool
        Take the exponentials, and the sums of the rows unless `labels.circulates`.
    log_factors : ndarray of shape (n_arcs,), optional
        Where the balance of many classes is known: take exp(score/R + factor), and sum the rows.
    n_worst : int
        How many rows to bring back, as many of each class.
    b : ndarray of shape (k,)
        The intercepts that rank those rows, for many classes.
    bars : ndarray of shape (k,), optional
        Bring back only rows that rank higher, class by class: those whose margin is too small.
    is_compact : bool
        For a network: of k columns, send the differences of the first k − 1 from the last.
    """

    def __init__(
        self,
        w: np.ndarray,
        labels: Labels,
        classes: np.ndarray,
        *,
        radius: float,
        depth: int,
        divisor: float = 1.0,
        has_weights: bool = False,
        log_factors: np.ndarray | None = None,
        n_worst: int = 0,
        b: np.ndarray | None = None,
        bars: np.ndarray | None = None,
        is_compact: bool = False,
    ) -> None:
        self.labels, self.classes = labels, classes
        self.divisor, self.has_weights, self.log_factors = divisor, has_weights, log_factors
        self.n_worst = n_worst
        self.b = np.zeros(labels.n_classes) if b is None else b
        self._bars = {} if bars is None else dict(enumerate(bars.tolist()))
        self.is_compact = is_compact and labels.is_paired
        self.w = w[:, :-1] - w[:, -1:] if self.is_compact else w
        # one more rounding for the difference, one for score + error, one for what is sent
        self._roundings = depth + labels.roundings + 3
        self._reach = up(radius * norm_bounds(self.w)[1])
        self._sent = up(gamma(2) * self._reach) if self.is_compact else 0.0

    def error(self, unit: float) -> float:
        """How far a score may be from the true one, computed with this unit roundoff."""
        # |fl(x·w) − x·w| ≤ γ_d ‖x‖ ‖w‖; underflow costs at most one unit per rounding
        vanished = self._roundings * (2.0**-100 if unit == SINGLE_ROUNDOFF else UNDERFLOW)
        return up(gamma(self._roundings, unit) * self._reach + vanished + self._sent)

    @property
    def sums_rows(self) -> bool:
        return self.log_factors is not None or (self.has_weights and not self.labels.circulates)

    def nothing(self, width: int) -> ScanResult:
        """What no rows show."""
        n = self.labels.n_arcs
        shape = (width, self.labels.n_sums if self.sums_rows else 0)
        low = np.full(n, -np.inf)
        return ScanResult(low, low.copy(), np.zeros(n), np.zeros(shape), 0, self._shortlist())

    def _shortlist(self) -> Shortlist:
        return Shortlist(self.n_worst, self._bars)

    def __call__(self, block: Block, so_far: ScanResult | None = None) -> ScanResult:
        """What the block shows; `so_far` is what others have shown, which saves work."""
        found = self.nothing(block.X.shape[1])
        if so_far is not None:
            found.worst = so_far.worst.begun()
        known = None if so_far is None else so_far.tops
        codes = block.codes(self.classes)
        for rows in self._tiles(block.X):
            _add(found, self._tile(block, rows, codes[rows], found, known))
        found.n_rows = block.y.size
        return found

    @staticmethod
    def merge(a: ScanResult, b: ScanResult) -> ScanResult:
        """Both, in a."""
        _add(a, b)
        a.worst.take(b.worst)
        a.n_rows += b.n_rows
        return a

    # --- one tile ------------------------------------------------------------------------------

    def _tiles(self, X: Any) -> Iterable[slice]:
        """Small tiles where the rows are read twice, or copied."""
        if self.sums_rows or self._is_copied(X):
            return tiles(X)
        return large_tiles(X, self.labels.n_classes)

    def _is_copied(self, X: Any) -> bool:
        """Whether products take float64, though X does not."""
        return X.dtype == np.float32 and (self.sums_rows or self.labels.is_paired)

    def _tile(
        self,
        block: Block,
        rows: slice,
        codes: np.ndarray,
        found: ScanResult,
        known: np.ndarray | None,
    ) -> ScanResult:
        labels, X = self.labels, block.X[rows]
        if self._is_copied(X):
            X = in_float64(X)
        scores = labels.block_scores(self._products(X), codes)
        weights = np.zeros_like(scores) if self.sums_rows else scores
        part = self.nothing(X.shape[1])
        for arcs, index, code in labels.arcs_of(codes):
            mine = scores[index]
            bar = found.tops[arcs] if known is None else np.maximum(found.tops[arcs], known[arcs])
            part.tops[arcs] = self._tops(X, mine, codes, index, bar)
            if self.n_worst and code is not None:
                self._rank(mine, code, block, rows.start + index, found.worst)
            if self.has_weights or self.log_factors is not None:
                weighed = self._weigh(mine, arcs, part)
                if self.sums_rows:
                    weights[index] = weighed
        if self.n_worst and not labels.fit_intercept:
            for code in range(labels.n_classes):
                index = np.flatnonzero(codes == code)
                if index.size:
                    self._rank(scores[index], code, block, rows.start + index, found.worst)
        if self.log_factors is not None:
            part.peaks[:] = 0.0
        if self.sums_rows:
            part.vectors = X.T @ labels.block_mix(weights, codes)
        part.depth = codes.size + labels.roundings + 2
        return part

    def _products(self, X: Any) -> np.ndarray:
        products = np.asarray(X @ self.w.astype(X.dtype, copy=False)).astype(np.float64, copy=False)
        return self._completed(products)

    def _completed(self, products: np.ndarray) -> np.ndarray:
        """Products with all columns of a classifier, from those with what was sent of it."""
        if not self.is_compact:
            return products
        return np.column_stack([products, np.zeros(products.shape[0], products.dtype)])

    def _tops(
        self, X: Any, mine: np.ndarray, codes: np.ndarray, index: Any, bar: np.ndarray
    ) -> np.ndarray:
        """Sure upper bounds of the largest of some rows' scores; none below `bar` is sharpened.

        A row whose score is below the largest by more than twice the error is below it in truth.
        The others are looked at again, in float64 and then in extended precision.
        """
        labels, w = self.labels, self.w
        tops = mine.max(axis=0 if labels.circulates else None)
        error = self.error(SINGLE_ROUNDOFF if X.dtype == np.float32 else UNIT_ROUNDOFF)
        bounds = np.asarray(tops + error)
        if not np.any(bounds > bar):
            return bounds
        near = mine >= tops - 2.0 * error
        if labels.circulates:
            near &= bounds > bar
        place = np.argwhere(near)
        which = np.arange(codes.size)[index][place[:, 0]]
        if X.dtype == np.float32:  # two classes: those of many were turned into float64 before
            scores = labels.block_scores(np.asarray(in_float64(X[which]) @ w), codes[which])
            error, top = self.error(UNIT_ROUNDOFF), float(scores.max())
            bounds = np.minimum(bounds, top + error)
            which = which[scores >= top - 2.0 * error]
        if which.size > MOST_SHARPENED:
            return bounds
        few = as_operator(X[which], np.zeros(which.size))
        products = few.sharp_scores(np.arange(which.size), w.astype(np.longdouble))
        scores = labels.block_scores(self._completed(products), codes[which])
        if labels.is_paired:
            scores = scores[np.arange(which.size), place[:, 1]]
        rounded = scores.astype(np.float64)
        sharper = rounded + np.abs(rounded) * gamma(4) + up(self.error(EXTENDED_ROUNDOFF))
        if not labels.circulates:
            return np.minimum(bounds, sharper.max())
        best = np.full_like(bounds, -np.inf)
        np.maximum.at(best, place[:, 1], sharper)
        return np.where(np.isneginf(best), bounds, np.minimum(bounds, best))

    def _weigh(self, scores: np.ndarray, arcs: Any, part: ScanResult) -> np.ndarray:
        """The weights of rows that share arcs, and their sums."""
        along = 0 if self.labels.circulates else None
        heights = scores / self.divisor
        if self.log_factors is not None:
            weights = np.exp(heights + self.log_factors[arcs])
        else:
            part.peaks[arcs] = heights.max(axis=along)
            with np.errstate(invalid="ignore"):  # −inf less −inf, at the examples' own class
                weights = np.nan_to_num(np.exp(heights - part.peaks[arcs]), copy=False)
        part.totals[arcs] = weights.sum(axis=along)
        return weights

    def _rank(
        self, scores: np.ndarray, code: int, block: Block, place: np.ndarray, worst: Shortlist
    ) -> None:
        """Offer rows of one class to the list of those that w serves worst."""
        if self.labels.is_paired:
            scores = (scores + self.b).max(axis=1) - self.b[code]
        worst.offer(code, scores, place, block.X, block.first)


def _add(a: ScanResult, b: ScanResult) -> None:
    """The triple and the bounds of b, added to a."""
    np.maximum(a.tops, b.tops, out=a.tops)
    peaks = np.maximum(a.peaks, b.peaks)
    with np.errstate(invalid="ignore"):
        mine = np.where(np.isneginf(a.peaks), 0.0, np.exp(a.peaks - peaks))
        theirs = np.where(np.isneginf(b.peaks), 0.0, np.exp(b.peaks - peaks))
    a.totals = a.totals * mine + b.totals * theirs
    if a.vectors.shape[1] == mine.size:
        a.vectors = a.vectors * mine + b.vectors * theirs
    elif a.vectors.size:  # many sums under one peak
        a.vectors = a.vectors * mine[0] + b.vectors * theirs[0]
    a.peaks = peaks
    a.depth = max(a.depth, b.depth) + 3
