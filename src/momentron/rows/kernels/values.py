"""Kernels whose values are the user's: a matrix that is passed as X, or a function of two rows.

And whether such values can be a kernel's: is there a positive semidefinite matrix within the error
of K? Eigenvalues here are those of N = K_ij/√(K_ii K_jj). Where a positive semidefinite matrix is
within ε√(K_ii K_jj) of K, entry by entry, those of m rows are at least −mε. Where they are at least
−μ, one is within μ√(K_ii K_jj): K with (1 + μ) times its diagonal.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from momentron.arithmetic.rounding import UNIT_ROUNDOFF, up
from momentron.arithmetic.squares import factor_in_place, strips_of
from momentron.certificate import read_only
from momentron.data.exactness.conversion import as_exact
from momentron.errors import InputError, InputTypeError, one_line
from momentron.rows.kernels.bound import (
    BoundKernel,
    Kernel,
    require_features,
    require_finite_values,
)
from momentron.rows.validation import first_not_finite

ASYMMETRY = {"f4": 1e-5, "f8": 1e-8}  # what is refused, relative to √(K_ii K_jj)
EXCESS = {"f4": 1e-5, "f8": 1e-6}  # by how much |K_ij| may exceed √(K_ii K_jj)
TILE = 1024
FLOAT_ERROR = 16.0 * UNIT_ROUNDOFF  # of an entry as given, and what eigenvalues may add to it
DIAGONAL_ROWS = 32  # rows per call for the diagonal: only one value of each row is used
SAMPLE_ROWS = 31  # odd, so that the two halves differ in size
LARGEST_NOISE = 1e-4  # what is refused, relative to √(K_ii K_jj)
TOLERANCE = 1e-8  # negative eigenvalues beyond this share of the largest are not rounding


@dataclass(frozen=True)
class PrecomputedKernel(Kernel):
    """K is the matrix that is passed as X, of shape (n, n).

    Notes
    -----
    The matrix is taken as it is, whatever the type of its entries. Certificates hold for every
    positive semidefinite matrix that differs from its symmetric part by at most ε√(K_ii K_jj) an
    entry. ε is 16u, u = 2⁻⁵³, and what was found of asymmetry, of entries beyond √(K_ii K_jj), and
    of negative eigenvalues among 200 rows spread over all of them, if these are beyond rounding.
    That there is such a matrix is checked on those rows, and by method="auto" on the rows that it
    works with: where there is none, K is refused. So a Gram matrix in float32 has a wider interval
    where its rows are dependent, or is refused; one in float64 has not.
    """

    def bind(self, X: Any) -> BoundKernel:
        """The matrix, checked once: finite, symmetric, and no entry beyond √(K_ii K_jj)."""
        K = read_only(_as_square(X))
        diagonal = np.diagonal(K).astype(np.float64)
        found = first_not_finite(K)
        if found is not None:
            i, j, value = found
            raise InputError(
                f"the kernel matrix contains K[{i}, {j}] = {value}; every entry must be finite"
            )
        _require_nonnegative(diagonal, "the kernel matrix has K[{0}, {0}] = {1}")
        irregularity = _irregularity(K, np.sqrt(diagonal))

        def block(rows: Any, cols: Any) -> np.ndarray:
            is_run = isinstance(rows, slice) or isinstance(cols, slice)
            values = K[rows, cols] if is_run else K[np.ix_(rows, cols)]
            return values.astype(np.float64, copy=False)

        def cross(B: Any, index: Any) -> np.ndarray:
            B = B.toarray() if sp.issparse(B) else np.asarray(B)
            if B.ndim != 2:
                raise InputError(f"the kernel values have shape {B.shape}; pass (rows, {len(K)})")
            require_features(B, len(K))
            return B[:, index].astype(np.float64, copy=False)

        is_ready = K.dtype == np.float64 and (K.flags.c_contiguous or K.flags.f_contiguous)
        bound = BoundKernel(block, cross, K if is_ready else None)
        bound.is_semidefinite = False
        bound.set_errors(diagonal, up(FLOAT_ERROR + irregularity, 8), on_diagonal=FLOAT_ERROR)
        return bound


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """K(a, b) = f(A, B) for a row of A and one of B, as scikit-learn's callable kernels.

    Parameters
    ----------
    function : callable
        f(A, B) of shape (len(A), len(B)); A and B are rows of X as it was passed.

    Notes
    -----
    The values are taken as they are. Certificates hold for every positive semidefinite matrix that
    differs from theirs by at most ε√(K_ii K_jj) an entry: ε is 16u, u = 2⁻⁵³, and four times what
    the values for one pair of rows were found to differ from call to call, and what was found of
    negative eigenvalues, as `PrecomputedKernel` says. For a function that computes in float32 that
    is some 1e-7; the matrix of its values, computed once and passed as "precomputed", has no such
    noise.
    """

    function: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        try:
            inspect.signature(self.function).bind(None, None)
        except TypeError as error:
            raise InputTypeError(
                f"the kernel {one_line(self.name, 40)} cannot be called as f(A, B): "
                f"{one_line(error)}; pass a function of two arrays of rows"
            ) from None
        except ValueError:
            pass  # written in another language, it has no signature

    @property
    def name(self) -> str:
        """What the function calls itself."""
        return str(getattr(self.function, "__qualname__", type(self.function).__qualname__))

    def bind(self, X: Any) -> BoundKernel:
        """The function over the rows of X, which are held but not copied."""
        rows = _rows_of(X)
        if rows.ndim == 0 or rows.shape[0] == 0:
            raise InputError(f"X has shape {rows.shape}; a kernel needs at least one row")

        def block(index: Any, others: Any) -> np.ndarray:
            return self.values(rows[index], rows[others])

        def cross(B: Any, index: Any) -> np.ndarray:
            return self.values(_rows_of(B), rows[index])

        bound = BoundKernel(block, cross)
        bound.is_semidefinite = False
        diagonal = np.empty(rows.shape[0])
        for part in strips_of(0, rows.shape[0], DIAGONAL_ROWS):
            values = self.values(rows[part], rows[part])
            diagonal[part] = np.diagonal(values)
            bound.diagonal_evaluations += values.size
        _require_nonnegative(
            diagonal, f"the kernel {self.name} gives {{1}} for row {{0}} with itself"
        )
        noise = self._measured_noise(rows, np.sqrt(diagonal), bound)
        bound.set_errors(diagonal, up(FLOAT_ERROR + 4.0 * noise, 8), on_diagonal=FLOAT_ERROR)
        return bound

    def values(self, A: Any, B: Any) -> np.ndarray:
        """f(A, B), checked."""
        values = np.asarray(self.function(A, B))
        shape = (A.shape[0], B.shape[0])
        if values.shape != shape:
            raise InputError(
                f"the kernel {self.name} returned an array of shape {values.shape} for {shape[0]} "
                f"and {shape[1]} rows; it must have shape {shape}"
            )
        if values.dtype.kind not in "biuf":
            raise InputError(
                f"the kernel {self.name} returned entries of type {values.dtype}; they must be "
                "real numbers"
            )
        values = values.astype(np.float64, copy=False)
        require_finite_values(values, f"the kernel {self.name}")
        return values

    def _measured_noise(self, X: Any, roots: np.ndarray, bound: BoundKernel) -> float:
        """By how much values for one pair of rows differ from call to call, over √(K_ii K_jj).

        A few rows are asked for in either order, and all together.
        """
        n = X.shape[0]
        sample = np.unique(np.linspace(0, n - 1, min(SAMPLE_ROWS, n)).astype(np.intp))
        half = (sample.size + 1) // 2
        if half == sample.size:
            return 0.0
        A, B = sample[:half], sample[half:]
        forth, back, rows = bound.block(A, B), bound.block(B, A), X[sample]
        whole = self.values(rows, rows)
        bound.diagonal_evaluations += forth.size + back.size + whole.size
        several = np.stack([forth, back.T, whole[:half, half:], whole[half:, :half].T])
        low, high = several.min(axis=0), several.max(axis=0)
        limits = np.outer(roots[A], roots[B])
        bad = np.argwhere(high - low > LARGEST_NOISE * limits)
        if bad.size:
            i, j = bad[0]
            raise InputError(
                f"the kernel {self.name} gives {float(low[i, j])!r} and "
                f"{float(high[i, j])!r} for rows {A[i]} and {B[j]}, depending on the order or "
                "number of rows in the call; it must be a symmetric function of two rows"
            )
        return float(((high - low)[limits > 0.0] / limits[limits > 0.0]).max(initial=0.0))


def _rows_of(X: Any) -> Any:
    return X.tocsr() if sp.issparse(X) else np.asarray(X)


def _as_square(X: Any) -> np.ndarray:
    """X as a square array of floats: itself, if it is one."""
    if sp.issparse(X):
        raise InputError(
            "kernel='precomputed' was given a sparse matrix; pass the dense one, X.toarray()"
        )
    K = as_exact(X)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.shape[0] == 0:
        raise InputError(
            f"kernel='precomputed' was given an X of shape {K.shape}; pass the square matrix of "
            "kernel values of all pairs of rows"
        )
    return K


def _require_nonnegative(diagonal: np.ndarray, what: str) -> None:
    i = int(diagonal.argmin())
    if diagonal[i] < 0.0:
        raise InputError(
            f"{what.format(i, float(diagonal[i]))}; the diagonal of a positive semidefinite kernel "
            "is at least 0: check it"
        )


def _irregularity(K: np.ndarray, roots: np.ndarray) -> float:
    """Half of max |K_ij − K_ji|, and by how much |K_ij| exceeds √(K_ii K_jj), both over that root.

    Refused if large; looked at a pair of tiles at a time.
    """
    kind = K.dtype.str[1:]
    asymmetry = excess = 0.0
    for rows, cols in combinations_with_replacement(strips_of(0, len(K), TILE), 2):
        first = np.array([rows.start, cols.start])
        upper, lower = K[rows, cols].astype(np.float64), K[cols, rows].T
        limits = np.outer(roots[rows], roots[cols])
        difference = np.abs(upper - lower)
        largest = np.maximum(np.abs(upper), np.abs(lower))
        for i, j in first + np.argwhere(difference > ASYMMETRY[kind] * limits)[:1]:
            raise InputError(
                f"the kernel matrix is not symmetric: K[{i}, {j}] = {float(K[i, j])!r} but "
                f"K[{j}, {i}] = {float(K[j, i])!r}; pass (K + K.T)/2, or check the kernel"
            )
        for i, j in first + np.argwhere(largest > (1.0 + EXCESS[kind]) * limits)[:1]:
            raise InputError(
                f"the kernel matrix is not positive semidefinite: K[{i}, {j}] = "
                f"{float(K[i, j])!r}, but K[{i}, {i}] = {float(K[i, i])!r} and K[{j}, {j}] = "
                f"{float(K[j, j])!r} allow at most the root of their product: check the kernel"
            )
        limits[limits == 0.0] = np.inf  # where nothing differs, and nothing exceeds
        asymmetry = max(asymmetry, float((difference / limits).max()))
        excess = max(excess, float((largest / limits).max()) - 1.0)
    return 0.5 * asymmetry + excess


def negative_part(
    K: np.ndarray, rows: np.ndarray, error: float, tolerance: float = TOLERANCE
) -> float:
    """μ ≥ 0 by which the error of K must grow for a positive semidefinite matrix to be within it.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel values of the named rows; only one triangle is read.
    rows : ndarray of shape (m,)
        Their numbers, for the message.
    error : float
        ε of the values: 0 is returned where it explains what is negative.
    tolerance : float
        The share of the largest eigenvalue that a negative one may have.

    Raises
    ------
    InputError
        Where a negative eigenvalue is beyond that.
    """
    diagonal = np.diagonal(K).astype(np.float64)
    m = diagonal.size
    if m == 0:
        return 0.0
    # a row of length 0 has zeros alone, and stands for itself: any diagonal will do
    diagonal[diagonal <= 0.0] = diagonal.max() if diagonal.max() > 0.0 else 1.0
    explained = m * (error + FLOAT_ERROR)  # what these errors can take eigenvalues below 0
    shifted = np.array(K, dtype=np.float64, order="F")
    shifted[np.diag_indices(m)] += 0.5 * explained * diagonal
    if factor_in_place(shifted)[1]:
        return 0.0
    roots = np.sqrt(diagonal)
    values, vectors = eigh(K / roots / roots[:, None], check_finite=False)
    smallest, allowed = float(values[0]), max(explained, tolerance * float(np.abs(values).max()))
    if smallest >= -explained:
        return 0.0
    if smallest >= -allowed:
        return up(-smallest + FLOAT_ERROR * m)
    vector = vectors[:, 0]
    order = np.argsort(-np.abs(vector), kind="stable")[:2]
    named = ", ".join(f"{vector[i]:.3g} of row {rows[i]}" for i in order)
    raise InputError(
        f"the kernel is not positive semidefinite: on {m} rows its matrix, scaled to the "
        f"diagonal 1, has the eigenvalue {smallest:.6g}, below the {-allowed:.2g} that rounding "
        f"explains (the unit vector with {named} shows it); compute it in float64, or add "
        f"{-2.0 * smallest:.1g} times its diagonal"
    )


def require_semidefinite(K: np.ndarray, rows: np.ndarray, error: float) -> None:
    """Raise InputError if no positive semidefinite matrix is within ε√(K_ii K_jj) of K.

    Parameters as in `negative_part`. Costs one Cholesky factorisation where all is well.
    """
    negative_part(K, rows, error, tolerance=0.0)
