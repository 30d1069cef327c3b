"""Factors and products for the working-set solves: scipy's BLAS and LAPACK, with one thread each.

Products that are worth dividing are numpy's, in threads of our own.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.linalg import blas, lapack

from momentron.threads import in_threads, own_threads, threads_for_factor

GATHERED = 128  # rows of a matrix picked at a time


def matvec(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A v for a C-ordered A."""
    if A.shape[0] == 0 or A.shape[1] == 0:
        return np.zeros(A.shape[0])
    return blas.dgemv(1.0, A.T, v, trans=1)


def rmatvec(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Aᵀ v for a C-ordered A."""
    if A.shape[0] == 0 or A.shape[1] == 0:
        return np.zeros(A.shape[1])
    return blas.dgemv(1.0, A.T, v)


def add_to_diagonal(M: np.ndarray, values: np.ndarray | float) -> None:
    """M += diag(values), in place."""
    index = np.arange(M.shape[0])
    M[index, index] += values


def submatrix(K: np.ndarray, index: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """K[index][:, index] for a C-ordered K; out may be of another precision.

    Whole rows first: numpy picks single entries at half the speed. A few rows at a time, since a
    second matrix may be more than memory allows.
    """
    if out is None:
        if index.size <= GATHERED:
            return K.take(index, axis=0).take(index, axis=1)
        out = np.empty((index.size, index.size))
    for start in range(0, index.size, GATHERED):
        rows = K.take(index[start : start + GATHERED], axis=0)
        out[start : start + GATHERED] = rows.take(index, axis=1)
    return out


def cholesky(M: np.ndarray) -> np.ndarray:
    """The lower Cholesky factor of M (F-ordered, lower half read).

    Where rounding has made M indefinite, its diagonal is raised until the factor exists:
    rank-deficient working sets are ordinary, and the steps that use the factor correct themselves.
    """
    with threads_for_factor(M.shape[0] ** 3 / 3.0):
        factor, info = lapack.dpotrf(M, lower=1, clean=0, overwrite_a=0)
    if info == 0:
        return factor
    diagonal = M.diagonal().copy()
    top = float(diagonal.max())
    if not np.isfinite(top):
        raise FloatingPointError("the matrix of a Newton step is not finite")
    raised, index = 0.0, np.arange(M.shape[0])
    while info != 0:
        raised = max(100.0 * raised, 1e-15 * max(top, 1e-300))
        if raised > 1e3 * max(top, 1e-300):
            raise FloatingPointError("the matrix of a Newton step has no Cholesky factor")
        M[index, index] = diagonal + raised
        factor, info = lapack.dpotrf(M, lower=1, clean=0, overwrite_a=0)
    return factor


def cholesky_of(make: Callable[[], np.ndarray]) -> np.ndarray:
    """The factor of the matrix that `make` returns, in its place: no second copy of it."""
    M = make()
    with threads_for_factor(M.shape[0] ** 3 / 3.0):
        factor, info = lapack.dpotrf(M, lower=1, clean=0, overwrite_a=1)
    return factor if info == 0 else cholesky(make())


def solve_definite(M: np.ndarray, rhs: np.ndarray, smallest: float) -> np.ndarray | None:
    """M⁻¹ rhs, factored in the matrix's place; None where a pivot is not above the smallest."""
    with threads_for_factor(M.shape[0] ** 3 / 3.0):
        factor, solution, info = lapack.dposv(M, rhs, lower=1, overwrite_a=1)
    if info != 0 or factor.diagonal().min() ** 2 < smallest:
        return None
    return solution


def single_cholesky(M: np.ndarray) -> np.ndarray | None:
    """The factor in single precision, at half the price; None where it does not exist."""
    with threads_for_factor(M.shape[0] ** 3 / 6.0):
        factor, info = lapack.spotrf(M, lower=1, clean=0, overwrite_a=1)
    return factor if info == 0 else None


def back_solve(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solve with a factor of either precision."""
    potrs = lapack.spotrs if factor.dtype == np.float32 else lapack.dpotrs
    return potrs(factor, rhs, lower=1)[0].astype(np.float64, copy=False)


def gram_product(A: np.ndarray) -> np.ndarray:
    """AAᵀ, both halves."""
    count = own_threads(float(A.shape[0]) ** 2 * A.shape[1])
    return _sum_of_squares([A[:, part] for part in parts_of(A.shape[1], count)])


def symmetric_product(A: np.ndarray) -> np.ndarray:
    """AᵀA, both halves, F-ordered as factors want it."""
    count = own_threads(float(A.shape[1]) ** 2 * A.shape[0])
    return _sum_of_squares([A[part].T for part in parts_of(A.shape[0], count)]).T


def parts_of(size: int, count: int) -> list[slice]:
    """Runs of nearly equal length that cover 0..size."""
    bounds = [size * i // count for i in range(count + 1)]
    return [slice(low, high) for low, high in pairwise(bounds)]


def _sum_of_squares(parts: list[np.ndarray]) -> np.ndarray:
    """Σ PPᵀ, a thread for each; numpy's product, since scipy's holds on to the interpreter."""
    if len(parts) == 1:
        return parts[0] @ parts[0].T
    products: list[np.ndarray] = [np.empty(0)] * len(parts)

    def multiply(i: int) -> None:
        products[i] = parts[i] @ parts[i].T  # numpy sees that this is symmetric

    in_threads(multiply, range(len(parts)))
    total = products[0]
    for product in products[1:]:
        total += product
    return total
