"""Kernels of distances: Gaussian and Laplacian, with their rounding bounds."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.rounding import UNDERFLOW, UNIT_ROUNDOFF, gamma, up
from momentron.rows.kernels.base import require_finite_values
from momentron.rows.kernels.pairwise import BoundPairwise, PairwiseKernel
from momentron.rows.kernels.parameters import require_positive_gamma
from momentron.rows.kernels.points import TILE_VALUES, Points, as_rows, inner_products
from momentron.rows.kernels.single import gaussian_weights

EXP_ERROR = 8.0 * UNIT_ROUNDOFF  # numpy's exp is right to four units in the last place
LARGEST_SQUARE = 2.0**1020  # squared differences of rows up to this length do not overflow
DIFFERENCES = 1 << 27  # of coordinates in a tile: a tenth of a second
LARGE_ERROR = 1e-9  # from which its differences are squared one by one
SMALL_ERROR = 1e-12  # a Gaussian kernel's error up to which its points may lie where they are


@dataclass(frozen=True)
class GaussianKernel(PairwiseKernel):
    """K(x, x′) = exp(−γ‖x − x′‖²), by name "rbf".

    Parameters
    ----------
    gamma : float
        γ > 0.

    Notes
    -----
    ‖x − x′‖² = ‖x‖² + ‖x′‖² − 2⟨x, x′⟩ is one matrix product for many pairs. Each term has d + 3
    roundings with those of γ and of the sum, so that the exponent has an error of at most
    Δ = 4γR²γ_{d+3}, R = max‖x‖; and K, which is at most one, of e^Δ − 1 and what exp itself rounds.

    Far from the origin that would cost digits: where Δ counts, and dense rows are much shorter as
    seen from their mean, they are moved there as they are read. Each coordinate is then rounded
    once, which moves a point by at most uR and ‖x − x′‖² by 8uR²: five more roundings cover it.
    Where Δ would still hide the answer, differences are squared one by one, at ten times the cost.
    """

    is_bounded = True
    gamma: float

    def __post_init__(self) -> None:
        require_positive_gamma(self.gamma)

    def bind(self, X: Any) -> BoundPairwise:
        points = self.points(as_rows(X))
        safe = points.squares.max() < LARGEST_SQUARE
        if safe and self._exponent_error(points) > LARGE_ERROR:
            return BoundPairwise(GaussianOfDifferences(self.gamma), Points(points.X))
        return BoundPairwise(self, points)

    def points(self, X: Any) -> Points:
        points = Points(X)
        if points.is_sparse or self._exponent_error(points) <= SMALL_ERROR:
            return points
        moved = Points(X, points.mean())
        return moved if moved.squares.max() < 0.25 * points.squares.max() else points

    def _exponent_error(self, points: Points) -> float:
        """Δ, rounded up."""
        d = points.length
        squared_radius = float(points.squares.max()) * (1.0 + gamma(d + 2)) + d * UNDERFLOW
        lost = 8.0 * (d + 2) * UNDERFLOW * max(1.0, self.gamma)
        return up(self.gamma * 4.0 * squared_radius * gamma(d + 8) + lost, 8)

    def fill(self, A: Any, B: Any, a2: Any, b2: Any, out: Any, scale: float = 1.0) -> None:
        inner_products(A, B, out)
        # a large γ comes last, a small one first: then nothing overflows that is finite in the end
        is_last = self.gamma > 1.0 and out.dtype == np.float64
        first = 1.0 if is_last else self.gamma
        out *= out.dtype.type(2.0 * first / scale / scale)  # scale² may overflow
        out -= (first * a2).astype(out.dtype, copy=False)[:, None]
        out -= (first * b2).astype(out.dtype, copy=False)
        np.minimum(out, 0.0, out=out)
        if is_last:
            out *= self.gamma
        np.exp(out, out=out)

    def single_weights(self, points: Points) -> tuple[np.ndarray, bool] | None:
        weights = gaussian_weights(
            self.gamma, points.squares, points.d, self._exponent_error(points)
        )
        return None if weights is None else (weights, True)

    def errors(self, points: Points) -> tuple[float, float, float]:
        error = min(1.0, self._exponent_error(points))
        return _of_unit_rows(up(math.expm1(error) + EXP_ERROR * math.exp(error), 8), UNDERFLOW)

    def diagonal_of(self, points: Points) -> np.ndarray:
        require_finite_values(points.squares, "the squared norm of a row")
        return np.ones(points.n)


@dataclass(frozen=True)
class LaplacianKernel(PairwiseKernel):
    """K(x, x′) = exp(−γ‖x − x′‖₁), from the differences of coordinates as they are.

    Parameters
    ----------
    gamma : float
        γ > 0.

    Notes
    -----
    t = γ‖x − x′‖₁ has a relative error of δ = γ_{m+4}, m the number of terms that are not zero,
    however far the rows lie from the origin. So exp(−t) errs by at most δ t exp(−(1−δ)t) ≤
    δ/(e(1 − δ)), besides what exp itself rounds.
    """

    is_bounded = True
    metric = "cityblock"
    gamma: float

    def __post_init__(self) -> None:
        require_positive_gamma(self.gamma)

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        mixed = left.is_sparse != right.is_sparse
        return mixed, mixed

    def tile_values(self, points: Points) -> int:
        return min(TILE_VALUES, DIFFERENCES // max(points.length, 1))

    def fill(self, A: Any, B: Any, a2: Any, b2: Any, out: Any, scale: float = 1.0) -> None:
        if sp.issparse(A) and sp.issparse(B):
            from sklearn.metrics.pairwise import manhattan_distances

            out[...] = manhattan_distances(A, B)
        else:
            from scipy.spatial.distance import cdist  # loads longer than all kernels together

            out[...] = cdist(A, B, self.metric)
        out *= -self.gamma
        np.exp(out, out=out)

    def errors(self, points: Points) -> tuple[float, float, float]:
        terms = min(points.d, 2 * points.length)
        error = up(0.37 * gamma(terms + 6) + 2.0 * EXP_ERROR)
        return _of_unit_rows(error, (terms + 1) * max(1.0, self.gamma) * UNDERFLOW)

    def diagonal_of(self, points: Points) -> np.ndarray:
        largest = max(abs(float(points.X.max())), abs(float(points.X.min())))
        # a sum of differences that overflows would vanish in exp, whatever γ
        require_finite_values(np.array(2.0 * points.d * largest), "a sum of differences of rows")
        return np.ones(points.n)


@dataclass(frozen=True)
class GaussianOfDifferences(LaplacianKernel):
    """K(x, x′) = exp(−γ‖x − x′‖²) from the differences of coordinates, for rows of safe length."""

    metric = "sqeuclidean"

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        return left.is_sparse, right.is_sparse


def _of_unit_rows(relative: float, absolute: float) -> tuple[float, float, float]:
    """The errors of a kernel with K(x, x) = 1: both kinds add up, and no value leaves [0, 1]."""
    return min(1.0, up(relative + 4.0 * absolute)), 0.0, 0.0
