"""Large square matrices: parts, mirror images, products, factors and systems, in our own threads.

Parts and mirror images wait for memory, which one processor does not use up. For factors, one call
of LAPACK for ten thousand rows would take ten seconds in which no deadline and no Ctrl-C is heard,
and scipy holds the interpreter all the while. Here the work is cut into products of numpy's, each a
fraction of a second, as fast as the one call.
"""

from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.threads import MOST_PARTS, in_threads, own_threads, sum_in_threads

ROWS = 128  # gathered at a time; whole rows are gathered at twice the speed of entries
WORTH_DIVIDING = 1_000_000  # entries from which a second thread is worth waking
ONE_CALL = 1024  # rows up to which LAPACK factors at once
PANEL = 192  # columns that are factored together
STRIP = 512  # columns of a panel updated at a time by one thread
GRAM_STRIP = 256  # rows of a large Gram matrix computed at a time, at most
PIECE = 4e9  # flops of a product between two looks at the clock: a tenth of a second


def strips_of(start: int, stop: int, height: int) -> list[slice]:
    """Runs of `height` rows, and a shorter last one, from start to stop."""
    return [slice(low, min(low + height, stop)) for low in range(start, stop, height)]


def submatrix(K: np.ndarray, index: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """K[index][:, index] for a C-ordered K; out may be of another precision."""
    if out is None:
        if index.size <= ROWS:
            return K.take(index, axis=0).take(index, axis=1)
        out = np.empty((index.size, index.size), K.dtype)

    def gather(rows: slice) -> None:
        out[rows] = K.take(index[rows], axis=0).take(index, axis=1)

    height = ROWS if out.size >= WORTH_DIVIDING else max(index.size, 1)
    in_threads(gather, strips_of(0, index.size, height))
    return out


def gram_product(A: np.ndarray) -> np.ndarray:
    """AAᵀ, both halves, in threads; what takes long some rows at a time up to the diagonal."""
    m, depth = A.shape[0], max(A.shape[1], 1)
    flops = float(m) ** 2 * depth
    if flops <= MOST_PARTS * PIECE:
        # numpy sees that each product is symmetric, and computes half of it
        parts = strips_of(0, depth, -(-depth // own_threads(flops)))
        return sum_in_threads(lambda part: A[:, part] @ A[:, part].T, parts)
    out = np.empty((m, m))

    def fill(rows: slice) -> None:
        np.matmul(A[rows], A[: rows.stop].T, out=out[rows, : rows.stop])
        out[: rows.start, rows] = out[rows, : rows.start].T

    height = max(1, min(GRAM_STRIP, -(-m // (2 * MOST_PARTS)), int(PIECE / (2.0 * m * depth))))
    in_threads(fill, strips_of(0, m, height)[::-1])  # the long ones first
    return out


def symmetric_product(A: np.ndarray) -> np.ndarray:
    """AᵀA, both halves, F-ordered as factors want it."""
    return gram_product(A.T).T


def factor_in_place(M: np.ndarray) -> tuple[np.ndarray, bool]:
    """(L, exists): the lower Cholesky factor of M, in its place; only lower halves count.

    Parameters
    ----------
    M : ndarray of shape (n, n), float32 or float64, F-ordered
        Overwritten, also where it is not positive definite.
    """
    n = M.shape[0]
    potrf, trsm = _routines(M)
    if n <= ONE_CALL:
        factor, info = potrf(M, lower=1, clean=0, overwrite_a=1)
        return factor, info == 0
    U = M.T  # in C order: the upper half of it is what counts
    for own in strips_of(0, n, PANEL):

        def update(rows: slice, own: slice = own) -> None:
            done = slice(0, own.start)
            U[own, rows] -= U[done, own].T @ U[done, rows]

        in_threads(update, strips_of(own.start, n, STRIP))
        corner, info = potrf(M[own, own], lower=1)
        if info != 0:
            return M, False
        M[own, own] = corner
        below = slice(own.stop, n)
        M[below, own] = trsm(1.0, corner, M[below, own], side=1, lower=1, trans_a=1)
    return M, True


def inverse_in_place(M: np.ndarray) -> tuple[np.ndarray, bool]:
    """(M⁻¹, exists), both halves of it, in the place of M: L⁻ᵀL⁻¹, some columns at a time.

    Parameters
    ----------
    M : ndarray of shape (n, n), float32 or float64, F-ordered
        Positive definite, or the inverse does not exist; its lower half counts.
    """
    L, exists = factor_in_place(M)
    if not exists:
        return M, False
    n, (_, trsm) = M.shape[0], _routines(M)
    strips = strips_of(0, n, PANEL)
    inverses: list[np.ndarray] = [M] * len(strips)  # of L: each from its own first row on

    def invert(number: int) -> None:
        start = strips[number].start
        Y = np.zeros((n - start, strips[number].stop - start), M.dtype)
        np.fill_diagonal(Y, 1.0)
        for rows in strips[number:]:
            own, before = slice(rows.start - start, rows.stop - start), rows.start - start
            Y[own] -= L[rows, start : rows.start] @ Y[:before]
            Y[own] = trsm(1.0, L[rows, rows], Y[own], lower=1)
        inverses[number] = Y

    def multiply(pair: tuple[int, int]) -> None:
        below, beside = pair
        rows, columns = strips[below], strips[beside]
        left, right = inverses[below], inverses[beside][rows.start - columns.start :]
        M[rows, columns] = left.T @ right
        if below > beside:
            M[columns, rows] = M[rows, columns].T

    numbers = range(len(strips))
    in_threads(invert, numbers)
    in_threads(multiply, [(i, j) for i in numbers for j in range(i + 1)])
    return M, True


class Factor:
    """Systems of a positive definite matrix, by its lower Cholesky factor and our own threads.

    Parameters
    ----------
    L : ndarray of shape (n, n), float32 or float64, F-ordered
        Of which only the lower half counts.
    """

    def __init__(self, L: np.ndarray) -> None:
        self.L, strips = L, strips_of(0, L.shape[0], PANEL)
        self._panels = [(own, np.linalg.inv(np.tril(L[own, own]))) for own in strips]

    def solve(self, B: np.ndarray) -> np.ndarray:
        """The inverse times B, whose columns threads share, in the precision of L."""
        X = B.astype(self.L.dtype)

        def finish(part: slice) -> None:
            Z = X[:, part]
            self.substitute(Z)
            for own, corner in self._panels[::-1]:
                below = slice(own.stop, None)
                Z[own] = corner.T @ (Z[own] - self.L[below, own].T @ Z[below])

        width = -(-X.shape[1] // own_threads(float(self.L.size) * X.shape[1]))
        in_threads(finish, strips_of(0, X.shape[1], width))
        return X

    def substitute(self, X: np.ndarray) -> None:
        """L⁻¹X, in the place of X."""
        for own, corner in self._panels:
            require_time()
            X[own] = corner @ (X[own] - self.L[own, : own.start] @ X[: own.start])


def _routines(M: np.ndarray) -> tuple[Any, Any]:
    """LAPACK's Cholesky factorisation and BLAS's triangular solve, in the precision of M."""
    if M.dtype == np.float32:
        return lapack.spotrf, blas.strsm
    return lapack.dpotrf, blas.dtrsm
