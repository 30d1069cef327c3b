"""Kernel values in single precision, at less than half the cost, and what they may be wrong by.

The rows are scaled by a power of two, so that the longest has a length between ½ and 1, and rounded
to single precision, u = 2⁻²⁴. Inner products are summed in runs of at most SINGLE_RUN terms, so
that their error is γ_k ‖x‖‖x′‖ with k little more than that, whatever the number of features and
the order of BLAS.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from momentron.arithmetic.rounding import SINGLE_ROUNDOFF, gamma
from momentron.arithmetic.threads import WORTH_FILLING, in_threads, shares_of
from momentron.certificate import read_only
from momentron.rows.column_cache import RUN, ColumnCache, Index
from momentron.rows.operator import row_blocks

if TYPE_CHECKING:
    from momentron.rows.kernels.pairwise import BoundPairwise

VANISHED = 2.0**-100  # far above what underflow may cost, in units of the largest terms
MOST_WEIGHED = 0.75  # the share of rows with weight up to which few enough are left to be rough
WIDER = 1.001  # for the roundings of the bounds themselves, which are sums of few signs
SMALL_PART = 1 << 19  # entries that are rounded at a time: 4 MB in float64
MOST_USED = 0.95  # the share of features beyond which leaving out the others does not pay


class SingleScores:
    """Ka for coefficients a on some columns, from K in single precision, and a bound on its error.

    |K̂_ij − K_ij| ≤ h_i h_j |K̂_ij|, or h_i h_j where not relative. What is too small for single
    precision may vanish besides: 2⁻¹²⁵ at most.

    Parameters
    ----------
    bound : BoundPairwise
        The kernel over its rows, dense or nearly so.
    weights : ndarray of shape (n,)
        h, rounded up.
    is_relative : bool
    max_bytes : int
        Memory for columns, and for the rows in single precision.
    """

    def __init__(
        self, bound: "BoundPairwise", weights: np.ndarray, is_relative: bool, max_bytes: int
    ) -> None:
        self.weights, self.is_relative = read_only(weights), is_relative
        self._bound = bound
        longest = math.sqrt(float(bound.points.squares.max())) * (1.0 + 1e-6)
        self.scale = math.ldexp(1.0, -math.frexp(longest)[1])  # takes it below 1, not below ½
        self._held: np.ndarray | None = None
        rows_bytes = 4 * bound.points.n * bound.points.d
        self._taken = rows_bytes if 4 * rows_bytes <= max_bytes else 0
        self._cache = ColumnCache(self.block, bound.n, max_bytes - self._taken, is_single=True)

    # --- values ------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether the rows are kept in single precision."""
        return self._held is not None

    def hold(self) -> None:
        """Keep the rows themselves in single precision, without features that are 0 in all."""
        points = self._bound.points
        held = np.empty((points.n, points.d), np.float32)
        parts = shares_of(points.n, held.size, SMALL_PART, WORTH_FILLING)
        is_used = np.zeros((len(parts), points.d), bool)

        def fill(place: int) -> None:
            held[parts[place]] = self._rounded(parts[place])
            is_used[place] = held[parts[place]].any(axis=0)

        in_threads(fill, range(len(parts)))
        used = np.flatnonzero(is_used.any(axis=0))
        if used.size <= MOST_USED * points.d:
            for part in row_blocks(points.n, points.d):  # in its place
                held[part, : used.size] = held[part].take(used, axis=1)
            held = held[:, : used.size]
        self._held = held  # only now: Ctrl-C leaves no half of it

    def _rounded(self, index: Index) -> np.ndarray:
        rows = self._bound.points.take(index, as_dense=True)
        return (rows * self.scale).astype(np.float32)

    def rows(self, index: Index) -> np.ndarray:
        """The named rows, scaled, in single precision."""
        return self._rounded(index) if self._held is None else self._held[index]

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        """K[rows][:, cols] in single precision."""
        return self._bound.values(self._bound.points, rows, cols, self)

    # --- scores ------------------------------------------------------------------------------

    @property
    def cache(self) -> ColumnCache:
        """The columns, ready to be asked for: the rows are rounded once, at the first time."""
        if self._taken and self._held is None:
            self.hold()
        return self._cache

    @property
    def evaluations(self) -> int:
        """How many values were computed so far."""
        return self._cache.evaluations

    def resize(self, max_bytes: int) -> None:
        """Allow less memory."""
        self._cache.resize(max(0, max_bytes - self._taken))

    def serves(self, index: np.ndarray) -> bool:
        """Whether solvers take columns from here, and there are others than these."""
        return self._cache.size > 0 and index.size <= MOST_WEIGHED * self._bound.n

    def product(self, index: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(K[:, index] @ a, its error at most) for distinct columns; a of shape (l,) or (l, k).

        Each value errs by h_i h_j, times |K̂_ij| where that bound is relative; a is rounded to
        single precision, and a run of m terms errs by γ_{m+1} Σ |K̂_ij| |a_j|.
        """
        shape = (self._bound.n, *a.shape[1:])
        top = float(np.max(np.abs(a), initial=0.0))
        if top == 0.0:
            return np.zeros(shape), np.zeros(shape)
        # so that none over- or underflows; 2^1024 itself is not a float
        unit = math.ldexp(1.0, min(math.frexp(top)[1], 1023))
        a = np.asarray(a, np.float64).reshape(index.size, -1) / unit
        h, size, k = self.weights, np.abs(a), a.shape[1]
        sums = gamma(RUN + 4, SINGLE_ROUNDOFF)
        if self.is_relative:
            stacked = np.concatenate([a, size * h[index][:, None], size], axis=1)
            found = self.cache.product(index, stacked)
            scores, spread, mass = found[:, :k], found[:, k : 2 * k], found[:, 2 * k :]
            errors = h[:, None] * spread + sums * mass
        else:
            scores, norms = self.cache.product(index, a), self._bound.row_norms
            errors = np.outer(h, h[index] @ size)
            errors += 1.01 * sums * np.outer(norms, norms[index] @ size)
        lost = index.size * VANISHED * float(self._bound.row_norms.max()) ** 2
        errors = WIDER * errors + lost
        return (scores * unit).reshape(shape), (errors * unit).reshape(shape)
