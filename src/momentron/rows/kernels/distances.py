"""Kernels of distances: Gaussian and Laplacian, with their rounding bounds."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.rounding import UNDERFLOW, UNIT_ROUNDOFF, gamma, up
from momentron.rows.kernels.base import require_finite_values
from momentron.rows.kernels.pairwise import BoundPairwise, PairwiseKernel
from momentron.rows.kernels.parameters import require_positive_gamma
from momentron.rows.kernels.points import TILE_VALUES, Points, as_rows, inner_products
from momentron.rows.kernels.single import gaussian_weights, single_products

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
    Where Δ would still hide the answer, differences are squared one by one, at ten times the price.
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

    def fill(
        self, A: Any, B: Any, squares_a: np.ndarray, squares_b: np.ndarray, out: np.ndarray
    ) -> None:
        inner_products(A, B, out)
        # a large γ comes last, a small one first: then nothing overflows that is finite in the end
        first, last = (1.0, self.gamma) if self.gamma > 1.0 else (self.gamma, 1.0)
        out *= 2.0 * first
        out -= (first * squares_a)[:, None]
        out -= first * squares_b
        np.minimum(out, 0.0, out=out)
        if last != 1.0:
            out *= last
        np.exp(out, out=out)

    def fill_single(
        self,
        A: np.ndarray,
        B: np.ndarray,
        squares_a: np.ndarray,
        squares_b: np.ndarray,
        out: np.ndarray,
        scale: float,
    ) -> None:
        single_products(A, B, out)
        out *= np.float32(2.0 * self.gamma / scale / scale)  # scale² may overflow
        out -= (self.gamma * squares_a).astype(np.float32)[:, None]
        out -= (self.gamma * squares_b).astype(np.float32)
        np.minimum(out, np.float32(0.0), out=out)
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
class DifferenceKernel(PairwiseKernel):
    """K(x, x′) = exp(−γ D(x, x′)), with D a sum of the differences of coordinates, as they are.

    Notes
    -----
    t = γD has a relative error of δ = γ_{m+4}, m the number of terms, however far the rows lie from
    the origin. So exp(−t) errs by at most δ t exp(−(1−δ)t) ≤ δ/(e(1 − δ)), besides what exp itself
    rounds.
    """

    is_bounded = True
    uses_squares = False
    gamma: float

    @abstractmethod
    def distances(self, A: Any, B: Any) -> np.ndarray:
        """D of all rows of A and of B."""

    @abstractmethod
    def n_terms(self, points: Points) -> int:
        """How many differences a sum has that are not zero, at most."""

    def tile_values(self, points: Points) -> int:
        return min(TILE_VALUES, DIFFERENCES // max(points.length, 1))

    def fill(
        self, A: Any, B: Any, squares_a: np.ndarray, squares_b: np.ndarray, out: np.ndarray
    ) -> None:
        out[...] = self.distances(A, B)
        out *= -self.gamma
        np.exp(out, out=out)

    def errors(self, points: Points) -> tuple[float, float, float]:
        terms = self.n_terms(points)
        error = up(0.37 * gamma(terms + 6) + 2.0 * EXP_ERROR)
        return _of_unit_rows(error, (terms + 1) * max(1.0, self.gamma) * UNDERFLOW)

    def diagonal_of(self, points: Points) -> np.ndarray:
        return np.ones(points.n)


@dataclass(frozen=True)
class GaussianOfDifferences(DifferenceKernel):
    """K(x, x′) = exp(−γ‖x − x′‖²) from the differences of coordinates."""

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        return left.is_sparse, right.is_sparse

    def distances(self, A: Any, B: Any) -> np.ndarray:
        from scipy.spatial.distance import cdist  # takes longer to load than all kernels together

        return cdist(A, B, "sqeuclidean")

    def n_terms(self, points: Points) -> int:
        return points.d


@dataclass(frozen=True)
class LaplacianKernel(DifferenceKernel):
    """K(x, x′) = exp(−γ‖x − x′‖₁).

    Parameters
    ----------
    gamma : float
        γ > 0.
    """

    def __post_init__(self) -> None:
        require_positive_gamma(self.gamma)

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        mixed = left.is_sparse != right.is_sparse
        return mixed, mixed

    def distances(self, A: Any, B: Any) -> np.ndarray:
        if sp.issparse(A) and sp.issparse(B):
            from sklearn.metrics.pairwise import manhattan_distances

            return manhattan_distances(A, B)
        from scipy.spatial.distance import cdist

        return cdist(A, B, "cityblock")

    def n_terms(self, points: Points) -> int:
        return min(points.d, 2 * points.length)

    def diagonal_of(self, points: Points) -> np.ndarray:
        largest = max(abs(float(points.X.max())), abs(float(points.X.min())))
        # a sum of differences that overflows would vanish in exp, whatever γ
        require_finite_values(np.array(2.0 * points.d * largest), "a sum of differences of rows")
        return super().diagonal_of(points)


def _of_unit_rows(relative: float, absolute: float) -> tuple[float, float, float]:
    """The errors of a kernel with K(x, x) = 1: both kinds add up, and no value leaves [0, 1]."""
    return min(1.0, up(relative + 4.0 * absolute)), 0.0, 0.0
