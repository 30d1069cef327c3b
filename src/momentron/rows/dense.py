"""The rows of a matrix, and of a dense one: in any layout, possibly read-only or memory-mapped."""

from typing import Any

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.rounding import EXTENDED_ROUNDOFF, UNDERFLOW, gamma, norm_bounds, up
from momentron.arithmetic.threads import in_threads, shares_of, sum_in_threads
from momentron.certificate import read_only
from momentron.rows.operator import (
    Operator,
    nonzero_rows,
    norm_upper_bounds,
    read_only_copy,
    row_blocks,
    squared_row_norms,
)


def matvec(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """X w, of one vector or several, in threads where that pays.

    The result is in float64, but computed in the precision of X.
    """
    w = w.astype(X.dtype, copy=False) if X.dtype == np.float32 else w
    parts = shares_of(X.shape[0], float(X.size) * w[:1].size)
    if len(parts) == 1:
        products = X @ w
    else:
        products = np.empty((X.shape[0], *w.shape[1:]), np.result_type(X, w))
        in_threads(lambda rows: np.matmul(X[rows], w, out=products[rows]), parts)
    return products.astype(np.float64) if X.dtype == np.float32 else products


def rmatvec(X: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Xᵀ a in float64, of one vector or several, in threads where that pays."""

    def combine(rows: slice) -> np.ndarray:
        return (X[rows].T @ a[rows]).astype(np.float64, copy=False)

    return sum_in_threads(combine, shares_of(X.shape[0], float(X.size) * a[:1].size))


class MatrixOperator(Operator):
    """An operator that holds the matrix X itself, whose rows can be read.

    What is here is for an array, float32 or float64. `apply` and `adjoint` are one BLAS call per
    thread, on X as given.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
        Never copied, never written to.
    squares : ndarray of shape (n,), optional
        ‖x_i‖² where they are known already.
    """

    is_sparse = False
    shared_gram: list[np.ndarray] | None = None  # XXᵀ of sparse rows, once it is computed

    def __init__(self, X: Any, squares: np.ndarray | None = None) -> None:
        self.X = X = read_only_copy(X)
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        squares = squared_row_norms(X) if squares is None else squares
        row_norms = norm_upper_bounds(squares, self.row_length)
        self.row_norms = read_only(row_norms)
        self.radius = float(row_norms.max(initial=0.0))

    @property
    def row_length(self) -> int:
        """The largest number of entries in a row, zeros left out if X is sparse."""
        return self.shape[1]

    def score_depth(self, w: np.ndarray) -> int:
        return self.row_length

    def as_matrix(self) -> "MatrixOperator":
        return self

    def keep_gram(self) -> None:
        """Keep XXᵀ of all the rows, if sparse, once it is computed: several fits are to come."""
        self.shared_gram = []

    def rows(self, index: np.ndarray) -> np.ndarray:
        """The named rows of X, dense, in float64."""
        rows = self.stored_rows(index)
        return rows.toarray() if self.is_sparse else rows

    def stored_rows(self, index: np.ndarray) -> Any:
        """The named rows in float64: dense, or CSR if X is sparse."""
        return self.X[index].astype(np.float64, copy=False)

    def working_rows(self, index: np.ndarray) -> Any:
        """The named rows in float64 for a working set: dense in C order, or CSR.

        A dense array that can be written to is a copy, and the caller's own.
        """
        if index.size == self.shape[0] and self.X.dtype == np.float64:
            return np.ascontiguousarray(self.X)  # all of them: most often no copy
        return np.ascontiguousarray(self.rows(index))

    def some(self, index: np.ndarray) -> "MatrixOperator":
        """An operator of the named rows alone, in float64."""
        return DenseOperator(self.rows(index))

    def apply(self, w: np.ndarray) -> np.ndarray:
        self.passes += 1
        return matvec(self.X, w.astype(np.float64, copy=False))

    def adjoint(self, a: np.ndarray) -> np.ndarray:
        self.passes += 1
        return rmatvec(self.X, a.astype(self.X.dtype, copy=False))

    def combine(self, rows: np.ndarray, a: np.ndarray) -> np.ndarray:
        return self.stored_rows(rows).T @ a

    def products_at(self, rows: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.asarray(self.stored_rows(rows) @ w)

    def scores_in_double(self, w: np.ndarray) -> np.ndarray:
        if self.X.dtype == np.float64:
            return matvec(self.X, w)
        scores = np.empty((self.shape[0], *w.shape[1:]))

        def multiply(rows: slice) -> None:
            scores[rows] = self.X[rows].astype(np.float64) @ w

        in_threads(multiply, row_blocks(*self.shape))
        return scores

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        scores = np.empty((index.size, *w.shape[1:]), np.longdouble)
        for part in row_blocks(index.size, self.row_length):
            scores[part] = self.stored_rows(index[part]).astype(np.longdouble) @ w
        return scores

    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        total = np.zeros((self.shape[1], *a.shape[1:]))
        nonzero = nonzero_rows(a)
        reads_all = self._reads_all(nonzero.size)
        for rows in row_blocks(self.shape[0] if reads_all else nonzero.size, self.shape[1]):
            require_time()
            index = rows if reads_all else nonzero[rows]
            total += self.X[index].astype(np.float64, copy=False).T @ a[index]
        return total

    def _reads_all(self, n_nonzero: int) -> bool:
        """Whether reading every row, zero weights too, is cheaper than copying those that count."""
        return 3 * n_nonzero >= self.shape[0]

    def adjoint_depth(self, n_nonzero: int) -> int:
        """The longest chain of roundings in one entry of `exact_adjoint`."""
        n = self.shape[0] if self._reads_all(n_nonzero) else max(n_nonzero, 1)
        blocks = row_blocks(n, self.shape[1])
        return blocks[0].stop + len(blocks)

    def adjoint_norm_bound(
        self, a: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        nonzero = nonzero_rows(a)
        if sharp:
            # one rounding per row for the products; as many again for the mass of a
            vector = np.zeros((self.shape[1], *a.shape[1:]), np.longdouble)
            for part in row_blocks(nonzero.size, self.row_length):
                index = nonzero[part]
                vector += self.stored_rows(index).astype(np.longdouble).T @ a[index]
            error = gamma(2 * nonzero.size + 8, EXTENDED_ROUNDOFF) * weighted_norms
        else:
            vector = self.exact_adjoint(a)
            error = gamma(self.adjoint_depth(nonzero.size)) * weighted_norms
        # weights and entries below the smallest float may have vanished
        underflow = nonzero.size * vector.size * UNDERFLOW * (1.0 + self.radius)
        return up(norm_bounds(vector)[1] + error + underflow)


class DenseOperator(MatrixOperator):
    """The rows of an array."""
