"""Sure bounds from rows that come in blocks: what a pass shows of a classifier.

On each arc (see `momentron.dual.labels`) the rows give a sure upper bound of the largest score; and
the triple of attention with a single query: the largest score, the sum of exp(score − largest), and
the rows summed with these weights. Two such findings merge into that of all the rows, in any order;
what is exchanged is as large as w, whatever the block.
"""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.arithmetic.rounding import (
    SINGLE_ROUNDOFF,
    UNDERFLOW,
    UNIT_ROUNDOFF,
    gamma,
    norm_bounds,
    up,
)
from momentron.certificate.bounds import score_bounds

if TYPE_CHECKING:
    from momentron.dual.labels import Labels
    from momentron.solvers.problem import Problem

MOST_SHARPENED = 2048  # rows of a tile that are worth extended precision


@dataclass
class Findings:
    """What some rows show of a classifier: a number for every arc, and sums of rows."""

    tops: np.ndarray  # sure upper bounds of the largest scores, in the units of X
    peaks: np.ndarray  # the largest scores over R
    totals: np.ndarray  # Σ exp(score/R − peak)
    vectors: np.ndarray  # rows summed with those weights, (d, n_sums); (d, 0) if nobody asked
    depth: int  # the longest chain of roundings in an entry of `totals` and `vectors`

    def add(self, other: "Findings") -> None:
        """Take what other rows show."""
        np.maximum(self.tops, other.tops, out=self.tops)
        peaks = np.maximum(self.peaks, other.peaks)
        with np.errstate(invalid="ignore"):
            mine = np.where(np.isneginf(self.peaks), 0.0, np.exp(self.peaks - peaks))
            theirs = np.where(np.isneginf(other.peaks), 0.0, np.exp(other.peaks - peaks))
        self.totals = self.totals * mine + other.totals * theirs
        if self.vectors.shape[1] != mine.size:  # many sums under one peak
            mine, theirs = mine[:1], theirs[:1]
        self.vectors = self.vectors * mine + other.vectors * theirs
        self.peaks = peaks
        self.depth = max(self.depth, other.depth) + 3


@dataclass(eq=False)
class ArcScores(ABC):
    """The scores of a classifier on tiles of rows, and what is sure of them."""

    w: np.ndarray  # of shape (d,), or (d, k)
    labels: "Labels"
    _: KW_ONLY
    radius: float  # an upper bound of max‖z‖, in the units of X
    depth: int  # the most entries that a row of X holds
    divisor: float = 1.0  # R, the unit of the scores whose exponentials are taken
    has_weights: bool = False  # take the exponentials, and sum the rows unless they circulate
    # one for each arc, if the balance of many classes is known: exp(score/R + factor) sums the rows
    log_factors: np.ndarray | None = None

    def __post_init__(self) -> None:
        is_balanced = self.log_factors is not None
        self.sums_rows = is_balanced or (self.has_weights and not self.labels.circulates)
        self.has_weights = self.has_weights or is_balanced
        # one more rounding for a difference of columns, one for score + error, one to spare
        self._roundings = self.depth + self.labels.roundings + 3
        self._norm = norm_bounds(self.w)[1]
        self._sent = 0.0  # what scores have lost on the way to a worker

    def __getstate__(self) -> dict[str, Any]:
        """For a network: of k columns, the differences of the first k − 1 from the last."""
        w = self.w[:, :-1] - self.w[:, -1:] if self.labels.is_paired else self.w
        return self.__dict__ | {"w": w}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.labels.is_paired:
            self.w = np.column_stack([self.w, np.zeros(self.w.shape[0])])
            self._norm = norm_bounds(self.w)[1]
            self._sent = up(gamma(2) * self.reach)  # a score has two of these columns

    @abstractmethod
    def problem_of(self, X: Any, codes: np.ndarray) -> "Problem":
        """The problem in memory of a few rows, as long as `radius` at most."""

    @property
    def reach(self) -> float:
        """A sure upper bound of |score|."""
        return up(self.radius * self._norm)

    def error(self, unit: float) -> float:
        """How far a score may be from the true one, computed with this unit roundoff."""
        # |fl(x·w) − x·w| ≤ γ_d ‖x‖ ‖w‖; underflow costs at most one unit per rounding
        vanished = self._roundings * (2.0**-100 if unit == SINGLE_ROUNDOFF else UNDERFLOW)
        return up(gamma(self._roundings, unit) * self.reach + vanished + self._sent)

    def nothing(self, width: int) -> Findings:
        """What no rows show."""
        n = self.labels.n_arcs
        vectors = np.zeros((width, self.labels.n_sums if self.sums_rows else 0))
        return Findings(np.full(n, -np.inf), np.full(n, -np.inf), np.zeros(n), vectors, 0)

    def is_copied(self, X: Any) -> bool:
        """Whether products take float64, though X does not."""
        return X.dtype == np.float32 and (self.sums_rows or self.labels.is_paired)

    def of_tile(self, X: Any, codes: np.ndarray, bars: np.ndarray) -> tuple[Findings, np.ndarray]:
        """(what some rows show, their scores); no top below its bar is sharpened."""
        labels, part = self.labels, self.nothing(X.shape[1])
        if self.is_copied(X):
            X = X.astype(np.float64)
        products = np.asarray(X @ self.w.astype(X.dtype, copy=False))
        scores = labels.block_scores(products.astype(np.float64, copy=False), codes)
        shared = [(arcs, index, scores[index]) for arcs, index in labels.arcs_of(codes)]
        part.tops = self._tops(X, codes, shared, bars)
        if self.has_weights:
            weights = np.zeros_like(scores)
            for arcs, index, mine in shared:
                weights[index] = self._weigh(mine, arcs, part)
            if self.sums_rows:
                part.vectors = X.T @ labels.block_mix(weights, codes)[:, : labels.n_sums]
        part.depth = codes.size + labels.roundings + 2
        return part, scores

    def _tops(
        self, X: Any, codes: np.ndarray, shared: list[tuple[Any, Any, np.ndarray]], bars: np.ndarray
    ) -> np.ndarray:
        """Sure upper bounds of the largest scores.

        A row whose score is below the largest by more than twice the error is below it in truth.
        The others are judged again as rows in memory are, where their arc is above its bar.
        """
        labels = self.labels
        error = self.error(SINGLE_ROUNDOFF if X.dtype == np.float32 else UNIT_ROUNDOFF)
        along = 0 if labels.circulates else None
        tops, is_near = np.full(labels.n_arcs, -np.inf), np.zeros(codes.size, bool)
        for arcs, index, mine in shared:
            highest = mine.max(axis=along)
            tops[arcs] = highest + error
            is_open = tops[arcs] > bars[arcs]
            if np.any(is_open):
                near = (mine >= highest - 2.0 * error) & is_open
                is_near[index] = near if near.ndim == 1 else near.any(axis=1)
        rows = np.flatnonzero(is_near)
        is_many = rows.size > MOST_SHARPENED
        if rows.size == 0 or (is_many and X.dtype == np.float64):
            return tops
        codes, is_open = codes[rows], tops > bars
        problem = self.problem_of(X[rows], codes)
        bounds = score_bounds(problem, self.w, self._norm, sharp=not is_many).astype(np.float64)
        bounds = problem.labels.dual_of(bounds + (np.abs(bounds) * gamma(4) + self._sent))
        if labels.is_paired:
            bounds[np.arange(codes.size), codes] = -np.inf
        for arcs, index in labels.arcs_of(codes):
            lower = np.minimum(tops[arcs], bounds[index].max(axis=along))
            tops[arcs] = np.where(is_open[arcs], lower, tops[arcs])
        return tops

    def _weigh(self, scores: np.ndarray, arcs: Any, part: Findings) -> np.ndarray:
        """The weights of rows that share arcs, and their sums."""
        along = 0 if self.labels.circulates else None
        heights = scores / self.divisor
        if self.log_factors is not None:
            part.peaks[:] = 0.0
            weights = np.exp(heights + self.log_factors[arcs])
        else:
            part.peaks[arcs] = heights.max(axis=along)
            with np.errstate(invalid="ignore"):  # −inf less −inf, at the examples' own class
                weights = np.nan_to_num(np.exp(heights - part.peaks[arcs]), copy=False)
        part.totals[arcs] = weights.sum(axis=along)
        return weights
