"""Kernel values in single precision, at less than half the price, and what they may be wrong by.

The rows are scaled by a power of two, so that the longest has a length between ½ and 1, and rounded
to single precision, u = 2⁻²⁴. Inner products are summed in runs of at most SINGLE_RUN terms, so
that their error is γ_k ‖x‖‖x′‖ with k little more than that, whatever the number of features and
the order of BLAS.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from momentron.arithmetic.rounding import SINGLE_ROUNDOFF, gamma, up
from momentron.arithmetic.threads import in_threads, shares_of
from momentron.certificate import read_only
from momentron.rows.base import row_blocks
from momentron.rows.kernels.base import Index
from momentron.rows.kernels.points import SINGLE_RUN

if TYPE_CHECKING:
    from momentron.rows.kernels.pairwise import BoundPairwise

SMALL_PART = 1 << 19  # entries that are rounded at a time: 4 MB in float64
MOST_USED = 0.95  # the share of features beyond which leaving out the others does not pay
LARGEST_EXPONENT_ERROR = 0.01  # beyond it, values in single precision tell too little
SMALLEST, LARGEST = 1e-10, 1e15  # a kernel's diagonal between which nothing over- or underflows


class SingleValues:
    """K in single precision: |K̂_ij − K_ij| ≤ h_i h_j |K̂_ij|, or h_i h_j where not relative.

    What is too small for single precision may vanish besides: 2⁻¹²⁵ at most.

    Parameters
    ----------
    bound : BoundPairwise
        The kernel over its rows, dense or nearly so.
    weights : ndarray of shape (n,)
        h, rounded up.
    is_relative : bool
    """

    def __init__(self, bound: "BoundPairwise", weights: np.ndarray, is_relative: bool) -> None:
        self.weights, self.is_relative = read_only(weights), is_relative
        self._bound = bound
        longest = math.sqrt(float(bound.points.squares.max())) * (1.0 + 1e-6)
        self.scale = math.ldexp(1.0, -math.frexp(longest)[1])  # takes it below 1, not below ½
        self._held: np.ndarray | None = None

    @property
    def rows_nbytes(self) -> int:
        """What the rows themselves take in single precision."""
        return 4 * self._bound.points.n * self._bound.points.d

    @property
    def is_held(self) -> bool:
        """Whether the rows are kept in single precision."""
        return self._held is not None

    def hold(self) -> None:
        """Keep the rows themselves in single precision, without features that are 0 in all."""
        points = self._bound.points
        held = np.empty((points.n, points.d), np.float32)
        parts = shares_of(points.n, held.size, SMALL_PART)
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

    def block(self, rows: Index, cols: Index, out: np.ndarray | None = None) -> np.ndarray:
        """K[rows][:, cols] in single precision; in `out`, where that is given."""
        return self._bound.values(self._bound.points, rows, cols, self, out)


def inner_roundings(d: int) -> int:
    """How many roundings an inner product of d terms has, those of the rows included."""
    return min(d, SINGLE_RUN) + -(-d // SINGLE_RUN) + 4


def gaussian_weights(g: float, squares: np.ndarray, d: int, other: float) -> np.ndarray | None:
    """h of exp(−g‖x − x′‖²), relative to K̂; None where single precision tells too little.

    t = g(2⟨x, x′⟩ − ‖x‖² − ‖x′‖²) has the inner product's error 2g γ_k ‖x‖‖x′‖, and, with r the
    lengths, at most eight roundings u of terms that add up to g(r² + r′²) ≤ gR(r + r′). Values
    underflow by less than u. So t errs by Δ ≤ 2g γ_k r r′ + 8ugR(r + r′) + δ, with δ for what
    double precision has rounded before. For Δ ≤ 0.01 the error of exp(t), relative to its computed
    value, is at most 1.02 (Δ + 9u): e^Δ − 1 ≤ 1.006 Δ, and exp itself rounds by 8u
    (numpy's is right to four units in the last place). That is at most
    1.02 (p r + q)(p r′ + q), with p² = 2g γ_k and q the larger of 8ugR/p and √(9u + δ).
    """
    longest = math.sqrt(float(squares.max()))
    p = math.sqrt(2.0 * g * gamma(inner_roundings(d), SINGLE_ROUNDOFF))
    if not (1e-12 < g * longest * longest < 1e6 and p > 0.0):
        return None
    q = max(
        8.0 * SINGLE_ROUNDOFF * g * longest / p,
        math.sqrt(9.0 * SINGLE_ROUNDOFF + other),
    )
    if not (p * longest + q) ** 2 <= LARGEST_EXPONENT_ERROR:
        return None
    return 1.02 * (p * np.sqrt(squares) + q)


def power_weights(degree: int, diagonal: np.ndarray, d: int) -> np.ndarray | None:
    """h of (g⟨x, x′⟩ + c)^p, an absolute error; None where values leave single precision's range.

    As in double precision, the error is at most γ_{p(k+4)} √(K_ii K_jj), with u = 2⁻²⁴; what
    underflows is a small part of the longest row's.
    """
    top = float(diagonal.max())
    error = gamma(degree * (inner_roundings(d) + 4), SINGLE_ROUNDOFF)
    if not (SMALLEST < top < LARGEST and error <= LARGEST_EXPONENT_ERROR):
        return None
    return up(math.sqrt(error), 8) * (np.sqrt(diagonal) * (1.0 + 1e-6) + 1e-9 * math.sqrt(top))
