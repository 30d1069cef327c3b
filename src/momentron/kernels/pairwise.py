"""Kernels by formula: linear, polynomial, Gaussian and Laplacian, with their rounding bounds.

All bounds are for any order of summation, so that they hold for every BLAS, and for d the largest
number of entries in a row. The true kernel is the formula for the float parameters as they are.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.kernels.base import (
    BoundKernel,
    Index,
    Kernel,
    require_features,
    require_finite_values,
)
from momentron.kernels.parameters import require_polynomial, require_positive_gamma
from momentron.kernels.points import (
    TILE_VALUES,
    Points,
    as_rows,
    index_size,
    inner_products,
    pieces,
)
from momentron.rounding import UNDERFLOW, UNIT_ROUNDOFF, gamma, up
from momentron.threads import in_threads

TILE_SIDE = 256  # the shorter side of a tile: long enough for a matrix product
DIFFERENCES = 1 << 27  # of coordinates in a tile: a tenth of a second
FEW_ROWS = 4
EXP_ERROR = 8.0 * UNIT_ROUNDOFF  # numpy's exp is right to four units in the last place
LARGEST_SQUARE = 2.0**1020  # squared differences of rows up to this length do not overflow
LARGE_ERROR = 1e-9  # from which its differences are squared one by one
SMALL_ERROR = 1e-12  # a Gaussian kernel's error up to which its points may lie where they are


class PairwiseKernel(Kernel):
    """A formula in ⟨x, x′⟩ and the squared norms, or in the differences of two rows."""

    is_bounded = False  # whether every value is finite for finite rows
    uses_squares = True

    def bind(self, X: Any) -> "BoundPairwise":
        return BoundPairwise(self, self.points(as_rows(X)))

    def points(self, X: Any) -> Points:
        """The rows of X, placed where the formula loses the fewest digits."""
        return Points(X)

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        """Whether to turn the sparse rows on either side into dense ones, for a block so large."""
        if not (left.is_sparse and right.is_sparse):
            return False, False
        # one side is enough, and for a few rows it is faster however sparse they are
        on_left = shape[0] <= shape[1]
        pays = min(shape) <= FEW_ROWS or (left if on_left else right).is_crowded
        return pays and on_left, pays and not on_left

    def tile_values(self, points: Points) -> int:
        """How many values to compute at a time: few enough for deadlines and Ctrl-C to wait."""
        return TILE_VALUES

    @abstractmethod
    def fill(
        self, A: Any, B: Any, squares_a: np.ndarray, squares_b: np.ndarray, out: np.ndarray
    ) -> None:
        """K(a, b) for all rows of A and of B, into out; the squares are there if it uses them."""

    @abstractmethod
    def errors(self, points: Points) -> tuple[float, float, float]:
        """(relative, on the diagonal, absolute) as `BoundKernel` explains them."""

    @abstractmethod
    def diagonal_of(self, points: Points) -> np.ndarray:
        """K(x, x) of every row."""


class BoundPairwise(BoundKernel):
    """A formula over the rows of X. Memory beyond a result: some 32 MB.

    Parameters
    ----------
    kernel : PairwiseKernel
    points : Points
    """

    def __init__(self, kernel: PairwiseKernel, points: Points) -> None:
        self.kernel = kernel
        self.points = points
        self.n = points.n
        with np.errstate(over="ignore", invalid="ignore"):
            diagonal = kernel.diagonal_of(points)
        require_finite_values(diagonal, repr(kernel))
        relative, on_diagonal, absolute = kernel.errors(points)
        if not diagonal.any() and not points.X.max() and not points.X.min():
            absolute = 0.0  # X is zero, so that nothing can have vanished
        self._set_errors(diagonal, relative, on_diagonal=on_diagonal, absolute=absolute)

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        return self._values(self.points, rows, cols)

    def cross(self, B: Any, index: Index = slice(None)) -> np.ndarray:
        B = as_rows(B)
        require_features(B, self.points.d)
        return self._values(Points(B, self.points.centre), slice(None), index)

    def _values(self, left: Points, rows: Index, cols: Index) -> np.ndarray:
        """K of some rows on the left with some of the bound ones, a tile at a time."""
        right = self.points
        n_rows, n_cols = index_size(rows, left.n), index_size(cols, right.n)
        out = np.empty((n_rows, n_cols))
        dense_left, dense_right = self.kernel.as_dense(left, right, out.shape)
        height, width = left.tile(as_dense=dense_left), right.tile(as_dense=dense_right)
        most = self.kernel.tile_values(right)
        # long and narrow, since strided memory is slow to work on
        if n_rows <= n_cols:
            height = max(1, min(height, n_rows, TILE_SIDE))
            width = min(width, max(1, most // height))
        else:
            width = max(1, min(width, n_cols, TILE_SIDE))
            height = min(height, max(1, most // width))
        nothing, uses_squares = np.empty(0), self.kernel.uses_squares

        def fill(tile: tuple[tuple[slice, Any], tuple[slice, Any]]) -> None:
            (across, some_cols), (along, some_rows) = tile
            a = left.squares[some_rows] if uses_squares else nothing
            b = right.squares[some_cols] if uses_squares else nothing
            A = left.take(some_rows, as_dense=dense_left)
            B = right.take(some_cols, as_dense=dense_right)
            with np.errstate(over="ignore", invalid="ignore"):
                self.kernel.fill(A, B, a, b, out[along, across])
                if not self.kernel.is_bounded:
                    require_finite_values(out[along, across], repr(self.kernel))

        parts = product(pieces(cols, right.n, width), pieces(rows, left.n, height))
        in_threads(fill, list(parts))
        return out


@dataclass(frozen=True)
class LinearKernel(PairwiseKernel):
    """K(x, x′) = ⟨x, x′⟩.

    Notes
    -----
    A sum of d products has an error of at most γ_d Σ|x_k x′_k| ≤ γ_d ‖x‖‖x′‖, and of one unit of
    underflow for each product.
    """

    uses_squares = False

    def fill(
        self, A: Any, B: Any, squares_a: np.ndarray, squares_b: np.ndarray, out: np.ndarray
    ) -> None:
        inner_products(A, B, out)

    def errors(self, points: Points) -> tuple[float, float, float]:
        error = gamma(points.length + 2)
        return error, error, 4.0 * (points.length + 1) * UNDERFLOW

    def diagonal_of(self, points: Points) -> np.ndarray:
        return points.squares


@dataclass(frozen=True)
class PolynomialKernel(PairwiseKernel):
    """K(x, x′) = (γ⟨x, x′⟩ + c)^p.

    Parameters
    ----------
    gamma : float
        γ > 0.
    degree : int
        p ≥ 1.
    coef0 : float
        c ≥ 0, so that K is positive semidefinite.

    Notes
    -----
    Let t = γ⟨x, x′⟩ + c, with t_i its value for a row and itself. Two roundings follow the inner
    product, so that t has an error of at most γ_{d+2}(γ‖x‖‖x′‖ + c) ≤ γ_{d+2} √(t_i t_j), by
    Cauchy and Schwarz. With |t| ≤ √(t_i t_j) that becomes (1 + γ_{d+2})^p − 1 ≤ γ_{p(d+2)} after
    the power, relative to √(K_ii K_jj); the p − 1 products of the power add γ_{p−1}.
    """

    gamma: float
    degree: int = 3
    coef0: float = 0.0

    uses_squares = False

    def __post_init__(self) -> None:
        require_positive_gamma(self.gamma)
        require_polynomial(self.degree, self.coef0)

    def fill(
        self, A: Any, B: Any, squares_a: np.ndarray, squares_b: np.ndarray, out: np.ndarray
    ) -> None:
        inner_products(A, B, out)
        self._of_products(out)

    def _of_products(self, values: np.ndarray) -> None:
        values *= self.gamma
        values += self.coef0
        _raise_to(values, self.degree)

    def errors(self, points: Points) -> tuple[float, float, float]:
        error = gamma(self.degree * (points.length + 3))
        largest = max(1.0, float(self.diagonal_of(points).max()))
        lost = 8.0 * self.degree * (points.length + 2) * max(1.0, self.gamma) * UNDERFLOW
        return error, error, lost * largest

    def diagonal_of(self, points: Points) -> np.ndarray:
        diagonal = points.squares.copy()
        self._of_products(diagonal)
        return diagonal


def _raise_to(values: np.ndarray, power: int) -> None:
    """values^power in place, by repeated squaring: no more roundings than power − 1."""
    if power == 1:
        return
    square = values.copy()
    remaining = power - 1
    while remaining:
        if remaining % 2:
            values *= square
        remaining //= 2
        if remaining:
            square *= square


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
    Where Δ would still blur the answer, differences are squared one by one, at ten times the price.
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

    def errors(self, points: Points) -> tuple[float, float, float]:
        error = min(1.0, self._exponent_error(points))
        return _of_unit_rows(up(math.expm1(error) + EXP_ERROR * math.exp(error), 8), UNDERFLOW)

    def diagonal_of(self, points: Points) -> np.ndarray:
        require_finite_values(points.squares, "the squared norm of a row")
        return np.ones(points.n)


@dataclass(frozen=True)
class GaussianOfDifferences(PairwiseKernel):
    """K(x, x′) = exp(−γ‖x − x′‖²) from the differences of coordinates, as `LaplacianKernel`.

    Notes
    -----
    ‖x − x′‖² has a relative error of γ_{d+3}, however far the rows lie from the origin, and t =
    γ‖x − x′‖² one of δ = γ_{d+4}: so exp(−t) errs by at most δ/(e(1 − δ)), beside what exp rounds.
    """

    is_bounded = True
    gamma: float

    uses_squares = False

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        return left.is_sparse, right.is_sparse

    def fill(
        self, A: Any, B: Any, squares_a: np.ndarray, squares_b: np.ndarray, out: np.ndarray
    ) -> None:
        from scipy.spatial.distance import cdist

        out[...] = cdist(A, B, "sqeuclidean")
        out *= -self.gamma
        np.exp(out, out=out)

    def errors(self, points: Points) -> tuple[float, float, float]:
        error = up(0.37 * gamma(points.d + 6) + 2.0 * EXP_ERROR)
        return _of_unit_rows(error, (points.d + 1) * max(1.0, self.gamma) * UNDERFLOW)

    def diagonal_of(self, points: Points) -> np.ndarray:
        return np.ones(points.n)


@dataclass(frozen=True)
class LaplacianKernel(PairwiseKernel):
    """K(x, x′) = exp(−γ‖x − x′‖₁).

    Parameters
    ----------
    gamma : float
        γ > 0.

    Notes
    -----
    Differences are summed as they are: t = γ‖x − x′‖₁ has a relative error of δ = γ_{d+1} (2d for
    sparse rows, which differ in that many places). So exp(−t) has one of at most δ t exp(−(1−δ)t)
    ≤ δ/(e(1 − δ)), beside what exp itself rounds.
    """

    is_bounded = True
    gamma: float

    uses_squares = False

    def __post_init__(self) -> None:
        require_positive_gamma(self.gamma)

    def tile_values(self, points: Points) -> int:
        return min(TILE_VALUES, DIFFERENCES // max(points.length, 1))

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        mixed = left.is_sparse != right.is_sparse
        return mixed, mixed

    def fill(
        self, A: Any, B: Any, squares_a: np.ndarray, squares_b: np.ndarray, out: np.ndarray
    ) -> None:
        out[...] = _manhattan(A, B)
        out *= -self.gamma
        np.exp(out, out=out)

    def errors(self, points: Points) -> tuple[float, float, float]:
        terms = min(points.d, 2 * points.length)
        error = up(0.37 * gamma(terms + 4) + 2.0 * EXP_ERROR)
        return _of_unit_rows(error, (terms + 1) * max(1.0, self.gamma) * UNDERFLOW)

    def diagonal_of(self, points: Points) -> np.ndarray:
        largest = max(abs(float(points.X.max())), abs(float(points.X.min())))
        # a sum of differences that overflows would vanish in exp, whatever γ
        require_finite_values(np.array(2.0 * points.d * largest), "a sum of differences of rows")
        return np.ones(points.n)


def _of_unit_rows(relative: float, absolute: float) -> tuple[float, float, float]:
    """The errors of a kernel with K(x, x) = 1: both kinds add up, and no value leaves [0, 1]."""
    return min(1.0, up(relative + 4.0 * absolute)), 0.0, 0.0


def _manhattan(A: Any, B: Any) -> np.ndarray:
    """‖a − b‖₁ for all rows of A and of B."""
    # imported here, for they take longer to load than all kernels together
    if sp.issparse(A) and sp.issparse(B):
        from sklearn.metrics.pairwise import manhattan_distances

        return manhattan_distances(A, B)
    from scipy.spatial.distance import cdist

    return cdist(A, B, "cityblock")
