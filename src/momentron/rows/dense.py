"""A dense X, float32 or float64, in C or Fortran order, possibly read-only or memory-mapped."""

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.threads import in_threads, shares_of, sum_in_threads
from momentron.rows.operator import MatrixOperator, block_rows, nonzero_rows, row_blocks


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


class DenseOperator(MatrixOperator):
    """X as an array. `apply` and `adjoint` are one BLAS call per thread, on X as given."""

    is_sparse = False

    @property
    def row_length(self) -> int:
        return self.shape[1]

    def apply(self, w: np.ndarray) -> np.ndarray:
        self.passes += 1
        return matvec(self.X, w.astype(np.float64, copy=False))

    def adjoint(self, a: np.ndarray) -> np.ndarray:
        self.passes += 1
        return rmatvec(self.X, a.astype(self.X.dtype, copy=False))

    def stored_rows(self, index: np.ndarray) -> np.ndarray:
        return self.X[index].astype(np.float64, copy=False)

    def working_rows(self, index: np.ndarray) -> np.ndarray:
        if index.size == self.shape[0] and self.X.dtype == np.float64:
            return np.ascontiguousarray(self.X)  # all of them: most often no copy
        return np.ascontiguousarray(self.rows(index))

    def some(self, index: np.ndarray) -> "DenseOperator":
        return DenseOperator(self.rows(index))

    def scores_in_double(self, w: np.ndarray) -> np.ndarray:
        if self.X.dtype == np.float64:
            return matvec(self.X, w)
        scores = np.empty((self.shape[0], *w.shape[1:]))

        def multiply(rows: slice) -> None:
            scores[rows] = self.X[rows].astype(np.float64) @ w

        in_threads(multiply, row_blocks(*self.shape))
        return scores

    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        total: np.ndarray | None = None
        nonzero = nonzero_rows(a)
        reads_all = self._reads_all(nonzero.size)
        for rows in row_blocks(self.shape[0] if reads_all else nonzero.size, self.shape[1]):
            require_time()
            index = rows if reads_all else nonzero[rows]
            part = self.X[index].astype(np.float64, copy=False).T @ a[index]
            total = part if total is None else np.add(total, part, out=total)
        return np.zeros((self.shape[1], *a.shape[1:])) if total is None else total

    def _reads_all(self, n_nonzero: int) -> bool:
        """Whether reading every row, zero weights too, is cheaper than copying those that count."""
        return 3 * n_nonzero >= self.shape[0]

    def adjoint_depth(self, n_nonzero: int) -> int:
        n = self.shape[0] if self._reads_all(n_nonzero) else max(n_nonzero, 1)
        size = block_rows(n, self.shape[1])
        return size + -(-n // size)
