"""Kernels by formula: linear, polynomial, Gaussian and Laplacian, with their rounding bounds.

All bounds are for any order of summation, so that they hold for every BLAS, and for d the largest
number of entries in a row. The true kernel is the formula for the float parameters as they are.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.rounding import SINGLE_ROUNDOFF, UNDERFLOW, UNIT_ROUNDOFF, gamma, up
from momentron.data.arguments import as_count, as_number, is_positive
from momentron.errors import InputError, short
from momentron.rows.kernels.bound import require_finite_values
from momentron.rows.kernels.pairwise import (
    BoundPairwise,
    PairwiseKernel,
    Points,
    as_rows,
    inner_products,
    single_roundings,
)

EXP_ERROR = 8.0 * UNIT_ROUNDOFF  # numpy's exp is right to four units in the last place
LARGEST_SQUARE = 2.0**1020  # squared differences of rows up to this length do not overflow
LARGE_ERROR = 1e-9  # from which its differences are squared one by one
SMALL_ERROR = 1e-12  # a Gaussian kernel's error up to which its points may lie where they are
LARGEST_SINGLE_ERROR = 0.01  # beyond it, values in single precision tell too little
SMALLEST, LARGEST = 1e-10, 1e15  # a diagonal between them: single precision loses nothing


def require_gamma(gamma: Any, rules: tuple[str, ...] = ()) -> None:
    """Raise unless γ is a positive number, or the name of one of these rules for one."""
    wanted = "'scale', 'auto' or a number above 0"
    if not (isinstance(gamma, str) and gamma in rules):
        as_number("gamma", gamma, wanted, is_positive)


@dataclass(frozen=True)
class LinearKernel(PairwiseKernel):
    """K(x, x′) = ⟨x, x′⟩.

    Notes
    -----
    A sum of d products has an error of at most γ_d Σ|x_k x′_k| ≤ γ_d ‖x‖‖x′‖, and of one unit of
    underflow for each product.
    """

    is_linear = True
    name_in_libsvm = "linear"

    def fill(self, A: Any, B: Any, a2: Any, b2: Any, out: Any) -> None:
        inner_products(A, B, out)

    def measured(self, points: Points) -> tuple[np.ndarray, float, float, float]:
        error = gamma(points.length + 2)
        return points.squares, error, error, 4.0 * (points.length + 1) * UNDERFLOW


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

    name_in_libsvm = "poly"
    gamma: float
    degree: int = 3
    coef0: float = 0.0

    def __post_init__(self) -> None:
        require_gamma(self.gamma)
        as_count("degree", self.degree)
        if not 0.0 <= as_number("coef0", self.coef0, "a number of at least 0") < math.inf:
            raise InputError(
                f"coef0={short(self.coef0)} gives a polynomial that is not positive semidefinite; "
                "pass a number of at least 0"
            )

    def fill(self, A: Any, B: Any, a2: Any, b2: Any, out: Any) -> None:
        inner_products(A, B, out)
        self._of_products(out)

    def _of_products(self, values: np.ndarray) -> None:
        values *= values.dtype.type(self.gamma)
        values += values.dtype.type(self.coef0)
        square, remaining = values.copy(), self.degree - 1
        while remaining:  # by repeated squaring: no more roundings than degree − 1
            if remaining % 2:
                values *= square
            remaining //= 2
            if remaining:
                square *= square

    def single_weights(self, points: Points) -> tuple[np.ndarray, bool] | None:
        """An absolute error, as in double precision: γ_{p(k+4)} √(K_ii K_jj), with u = 2⁻²⁴.

        What underflows is a small part of the longest row's.
        """
        diagonal = self._diagonal_of(points)
        top, scaled = float(diagonal.max()), self.gamma * float(points.squares.max())
        error = gamma(self.degree * (single_roundings(points.d) + 4), SINGLE_ROUNDOFF)
        if not (SMALLEST < top < LARGEST and scaled > 0.0 and error <= LARGEST_SINGLE_ERROR):
            return None
        roots = np.sqrt(diagonal) * (1.0 + 1e-6) + 1e-9 * math.sqrt(top)
        return up(math.sqrt(error), 8) * roots, False

    def measured(self, points: Points) -> tuple[np.ndarray, float, float, float]:
        diagonal, error = self._diagonal_of(points), gamma(self.degree * (points.length + 3))
        largest = max(1.0, float(diagonal.max()))
        lost = 8.0 * self.degree * (points.length + 2) * max(1.0, self.gamma) * UNDERFLOW
        return diagonal, error, error, lost * largest

    def _diagonal_of(self, points: Points) -> np.ndarray:
        diagonal = points.squares.copy()
        self._of_products(diagonal)
        require_finite_values(diagonal, short(self))  # before a degree is taken for a float
        return diagonal


@dataclass(frozen=True)
class RadialKernel(PairwiseKernel):
    """K(x, x′) = exp(−γ · a distance), which is at most 1.

    Parameters
    ----------
    gamma : float
        γ > 0.
    """

    is_bounded = True
    gamma: float

    def __post_init__(self) -> None:
        require_gamma(self.gamma)

    def measured(self, points: Points) -> tuple[np.ndarray, float, float, float]:
        # both errors add up, and no value leaves [0, 1]
        relative, absolute = self.errors(points)
        return np.ones(points.n), min(1.0, up(relative + 4.0 * absolute)), 0.0, 0.0

    @abstractmethod
    def errors(self, points: Points) -> tuple[float, float]:
        """(a relative and an absolute error of the values, whose sum they do not exceed)."""


@dataclass(frozen=True)
class GaussianKernel(RadialKernel):
    """K(x, x′) = exp(−γ‖x − x′‖²), by name "rbf".

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

    name_in_libsvm = "rbf"

    def bind(self, X: Any) -> BoundPairwise:
        points = Points(as_rows(X))
        if not points.is_sparse and self._exponent_error(points) > SMALL_ERROR:
            moved = Points(points.X, points.X.mean(axis=0, dtype=np.float64))
            points = moved if moved.squares.max() < 0.25 * points.squares.max() else points
        safe = points.squares.max() < LARGEST_SQUARE
        if safe and self._exponent_error(points) > LARGE_ERROR:
            return BoundPairwise(GaussianOfDifferences(self.gamma), Points(points.X))
        return BoundPairwise(self, points)

    def _exponent_error(self, points: Points) -> float:
        """Δ, rounded up."""
        d = points.length
        squared_radius = float(points.squares.max()) * (1.0 + gamma(d + 2)) + d * UNDERFLOW
        lost = 8.0 * (d + 2) * UNDERFLOW * max(1.0, self.gamma)
        return up(self.gamma * 4.0 * squared_radius * gamma(d + 8) + lost, 8)

    def fill(self, A: Any, B: Any, a2: Any, b2: Any, out: Any) -> None:
        inner_products(A, B, out)
        # a large γ comes last, a small one first: then nothing overflows that is finite in the end
        is_last = self.gamma > 1.0 and out.dtype == np.float64
        first = 1.0 if is_last else self.gamma
        out *= out.dtype.type(2.0 * first)
        out -= (first * a2).astype(out.dtype, copy=False)[:, None]
        out -= (first * b2).astype(out.dtype, copy=False)
        np.minimum(out, 0.0, out=out)
        if is_last:
            out *= self.gamma
        np.exp(out, out=out)

    def single_weights(self, points: Points) -> tuple[np.ndarray, bool] | None:
        """An error relative to K̂, from that of the exponent t = γ(2⟨x, x′⟩ − ‖x‖² − ‖x′‖²).

        It has the inner product's error 2γ γ_k ‖x‖‖x′‖, and, with r the lengths, at most eight
        roundings u of terms that add up to γ(r² + r′²) ≤ γR(r + r′). Values underflow by less than
        u. So t errs by Δ ≤ 2γ γ_k r r′ + 8uγR(r + r′) + δ, with δ for what double precision has
        rounded before. For Δ ≤ 0.01 the error of exp(t), relative to its computed value, is at most
        1.02 (Δ + 9u): e^Δ − 1 ≤ 1.006 Δ, and exp itself rounds by 8u (numpy's is right to four
        units in the last place). That is at most 1.02 (p r + q)(p r′ + q), with p² = 2γ γ_k and q
        the larger of 8uγR/p and √(9u + δ).
        """
        longest = math.sqrt(float(points.squares.max()))
        p = math.sqrt(2.0 * self.gamma * gamma(single_roundings(points.d), SINGLE_ROUNDOFF))
        if not (1e-12 < self.gamma * longest * longest < 1e6 and p > 0.0):
            return None
        q = max(
            8.0 * SINGLE_ROUNDOFF * self.gamma * longest / p,
            math.sqrt(9.0 * SINGLE_ROUNDOFF + self._exponent_error(points)),
        )
        if not (p * longest + q) ** 2 <= LARGEST_SINGLE_ERROR:
            return None
        return 1.02 * (p * np.sqrt(points.squares) + q), True

    def errors(self, points: Points) -> tuple[float, float]:
        require_finite_values(points.squares, "the squared norm of a row")
        error = min(1.0, self._exponent_error(points))
        return up(math.expm1(error) + EXP_ERROR * math.exp(error), 8), UNDERFLOW


@dataclass(frozen=True)
class LaplacianKernel(RadialKernel):
    """K(x, x′) = exp(−γ‖x − x′‖₁), from the differences of coordinates as they are.

    Notes
    -----
    t = γ‖x − x′‖₁ has a relative error of δ = γ_{m+4}, m the number of terms that are not zero,
    however far the rows lie from the origin. So exp(−t) errs by at most δ t exp(−(1−δ)t) ≤
    δ/(e(1 − δ)), besides what exp itself rounds.
    """

    most_coordinates = 1 << 27  # a tenth of a second
    metric = "cityblock"

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        mixed = left.is_sparse != right.is_sparse
        return mixed, mixed

    def fill(self, A: Any, B: Any, a2: Any, b2: Any, out: Any) -> None:
        if sp.issparse(A) and sp.issparse(B):
            from sklearn.metrics.pairwise import manhattan_distances

            out[...] = manhattan_distances(A, B)
        else:
            from scipy.spatial.distance import cdist  # loads longer than all kernels together

            out[...] = cdist(A, B, self.metric)
        out *= -self.gamma
        np.exp(out, out=out)

    def errors(self, points: Points) -> tuple[float, float]:
        largest = max(abs(float(points.X.max())), abs(float(points.X.min())))
        # a sum of differences that overflows would vanish in exp, whatever γ
        require_finite_values(np.array(2.0 * points.d * largest), "a sum of differences of rows")
        terms = min(points.d, 2 * points.length)
        error = up(0.37 * gamma(terms + 6) + 2.0 * EXP_ERROR)
        return error, (terms + 1) * max(1.0, self.gamma) * UNDERFLOW


@dataclass(frozen=True)
class GaussianOfDifferences(LaplacianKernel):
    """K(x, x′) = exp(−γ‖x − x′‖²) from the differences of coordinates, for rows of safe length."""

    metric = "sqeuclidean"

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        return left.is_sparse, right.is_sparse
