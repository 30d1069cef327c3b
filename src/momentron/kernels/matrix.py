"""A kernel whose values the user has computed: K itself in place of X."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.certificate import read_only
from momentron.errors import InputError
from momentron.exactness import as_exact
from momentron.kernels.base import BoundKernel, Index, Kernel, require_features
from momentron.operators.base import row_blocks
from momentron.rounding import UNIT_ROUNDOFF, up

ASYMMETRY = {"f4": 1e-5, "f8": 1e-8}  # what is refused, relative to √(K_ii K_jj)
EXCESS = {"f4": 1e-5, "f8": 1e-6}  # by how much |K_ij| may exceed √(K_ii K_jj)
TILE = 1024
FLOAT_ERROR = 16.0 * UNIT_ROUNDOFF


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

    def bind(self, X: Any) -> "BoundMatrix":
        return BoundMatrix(_as_square(X))


class BoundMatrix(BoundKernel):
    """The matrix K, checked once: finite, symmetric, and no entry beyond √(K_ii K_jj).

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Held, not copied.
    """

    is_semidefinite = False

    def __init__(self, K: np.ndarray) -> None:
        self.K = K = read_only(K)
        self.n = K.shape[0]
        if K.dtype == np.float64 and (K.flags.c_contiguous or K.flags.f_contiguous):
            self.matrix = K
        diagonal = np.diagonal(K).astype(np.float64)
        _require_finite(K)
        _require_nonnegative(diagonal)
        asymmetry, excess = _irregularity(K, np.sqrt(diagonal))
        error = up(FLOAT_ERROR + 0.5 * asymmetry + excess, 8)
        self._set_errors(diagonal, error, on_diagonal=FLOAT_ERROR, absolute=0.0)

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        if isinstance(rows, slice) or isinstance(cols, slice):
            values = self.K[rows, cols]
        else:
            values = self.K[np.ix_(rows, cols)]
        return values.astype(np.float64, copy=False)

    def cross(self, B: Any, index: Index = slice(None)) -> np.ndarray:
        B = B.toarray() if sp.issparse(B) else np.asarray(B)
        if B.ndim != 2:
            raise InputError(f"the kernel values have shape {B.shape}; pass (rows, {self.n})")
        require_features(B, self.n)
        return B[:, index].astype(np.float64, copy=False)


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


def _require_finite(K: np.ndarray) -> None:
    for part in row_blocks(*K.shape):
        bad = np.argwhere(~np.isfinite(K[part]))
        if bad.size:
            i, j = int(bad[0, 0]) + part.start, int(bad[0, 1])
            raise InputError(
                f"the kernel matrix contains K[{i}, {j}] = {K[i, j]}; every entry must be finite"
            )


def _require_nonnegative(diagonal: np.ndarray) -> None:
    i = int(diagonal.argmin())
    if diagonal[i] < 0.0:
        raise InputError(
            f"the kernel matrix has K[{i}, {i}] = {float(diagonal[i])!r}; the diagonal of a "
            "positive semidefinite matrix is at least 0: check the kernel"
        )


def _irregularity(K: np.ndarray, roots: np.ndarray) -> tuple[float, float]:
    """(asymmetry, excess): max |K_ij − K_ji| and |K_ij| − √(K_ii K_jj), both over √(K_ii K_jj).

    Refused if large; looked at a pair of tiles at a time.
    """
    kind = K.dtype.str[1:]
    asymmetry, excess = 0.0, 0.0
    for a in range(0, K.shape[0], TILE):
        rows = slice(a, a + TILE)
        for b in range(a, K.shape[0], TILE):
            cols = slice(b, b + TILE)
            upper = K[rows, cols].astype(np.float64)
            lower = K[cols, rows].T
            limits = np.outer(roots[rows], roots[cols])
            difference = np.abs(upper - lower)
            largest = np.maximum(np.abs(upper), np.abs(lower))
            _refuse_first(K, difference > ASYMMETRY[kind] * limits, (a, b), _refuse_asymmetry)
            _refuse_first(K, largest > (1.0 + EXCESS[kind]) * limits, (a, b), _refuse_excess)
            np.divide(difference, limits, out=difference, where=limits > 0.0)
            asymmetry = max(asymmetry, float(difference.max()))
            np.divide(largest, limits, out=largest, where=limits > 0.0)
            excess = max(excess, float(largest.max()) - 1.0 if limits.any() else 0.0)
    return asymmetry, excess


def _refuse_first(K: np.ndarray, bad: np.ndarray, corner: tuple[int, int], refuse: Any) -> None:
    if bad.any():
        i, j = np.argwhere(bad)[0]
        refuse(K, int(i) + corner[0], int(j) + corner[1])


def _refuse_asymmetry(K: np.ndarray, i: int, j: int) -> None:
    raise InputError(
        f"the kernel matrix is not symmetric: K[{i}, {j}] = {float(K[i, j])!r} but K[{j}, {i}] = "
        f"{float(K[j, i])!r}; pass (K + K.T)/2, or check the kernel"
    )


def _refuse_excess(K: np.ndarray, i: int, j: int) -> None:
    raise InputError(
        f"the kernel matrix is not positive semidefinite: K[{i}, {j}] = {float(K[i, j])!r}, but "
        f"K[{i}, {i}] = {float(K[i, i])!r} and K[{j}, {j}] = {float(K[j, j])!r} allow at most the "
        "root of their product: check the kernel"
    )
