"""Rows of X for products that decide nothing but a direction: contiguous, most often float32."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.clock import require_time
from momentron.operators import MatrixOperator, dense, sparse
from momentron.operators.base import row_blocks
from momentron.threads import in_threads, own_threads


class CentredRows:
    """Rows of a dense matrix less a centre, made when asked for: slower than a copy, and no copy.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    index : ndarray of shape (m,)
    centre : ndarray of shape (d,), or None
    precision : type
    """

    def __init__(
        self, X: np.ndarray, index: np.ndarray, centre: np.ndarray | None, precision: type
    ) -> None:
        self._X, self._index, self._centre = X, index, centre
        self.shape, self.dtype = (index.size, X.shape[1]), np.dtype(precision)
        self.size = index.size * X.shape[1]

    def __getitem__(self, part: Any) -> np.ndarray:
        rows = self._X[self._index[part]]
        rows = rows if self._centre is None else rows - self._centre
        return rows.astype(self.dtype, copy=False)

    def copied(self) -> np.ndarray:
        """All of them."""
        rows = np.empty(self.shape, self.dtype)
        for part in row_blocks(*self.shape):
            require_time()
            rows[part] = self[part]
        return rows


class ActiveRows:
    """Some rows of X as a linear map, with a column of ones behind them if there are intercepts.

    Vectors have shape (d, k), or (d + 1, k) with the intercepts in the last row.

    Parameters
    ----------
    X : ndarray, csr_array or CentredRows of shape (m, d)
    index : ndarray of shape (m,)
        Which examples they are.
    has_border : bool
        Whether there are intercepts.
    """

    def __init__(self, X: Any, index: np.ndarray, has_border: bool) -> None:
        self.X = X
        self.index = index
        self.m, self.d = X.shape
        self.has_border = has_border
        self.is_sparse = sp.issparse(X)
        self.is_copy = not isinstance(X, CentredRows)

    @classmethod
    def of(
        cls,
        operator: MatrixOperator,
        index: np.ndarray,
        centre: np.ndarray | None,
        has_border: bool,
        precision: type,
        memory: int,
    ) -> "ActiveRows":
        """The named rows of an operator's matrix; dense ones less the centre, if there is one.

        They are copied where the memory allows it.
        """
        if operator.is_sparse:
            rows = sp.csr_array(operator.X[index])
            return cls(rows.astype(precision, copy=False), index, has_border)
        rows = CentredRows(operator.X, index, centre, precision)
        fits = rows.size * rows.dtype.itemsize <= memory
        return cls(rows.copied() if fits else rows, index, has_border)

    def squares(self) -> np.ndarray:
        """‖x‖² of each row."""
        if self.is_sparse:
            return sparse.squared_row_norms(self.X)
        squares = np.empty(self.m)
        for part in row_blocks(self.m, self.d):
            squares[part] = dense.squared_row_norms(self.X[part])
        return squares

    def covariance(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ w x xᵀ over the named rows, a piece of them at a time."""
        root = np.sqrt(weights).astype(self.X.dtype)[:, None]
        if self.is_sparse:
            scaled: Any = self.X[S].multiply(root).tocsr()
            return np.asarray((scaled.T @ scaled).toarray())
        total = np.zeros((self.d, self.d), self.X.dtype)
        for part in row_blocks(S.size, self.d):
            require_time()
            rows = self.X[S[part]] * root[part]
            total += rows.T @ rows
        return total

    def times(self, V: np.ndarray) -> np.ndarray:
        """X V, shape (m, k)."""
        require_time()
        V = V.astype(self.X.dtype, copy=False)
        if not self.has_border:
            return self.outputs(V)
        products = self.outputs(V[:-1])
        products += V[-1]
        return products

    def adjoint(self, A: np.ndarray) -> np.ndarray:
        """Xᵀ A, as float64."""
        require_time()
        A = A.astype(self.X.dtype, copy=False)
        image = self.inputs(A).astype(np.float64, copy=False)
        if not self.has_border:
            return image
        return np.concatenate([image, A.sum(axis=0, dtype=np.float64)[None]])

    def outputs(self, V: np.ndarray) -> np.ndarray:
        """X V for V of shape (d, k) in the rows' own precision."""
        products = np.empty((self.m, V.shape[1]), self.X.dtype)

        def multiply(part: slice) -> None:
            products[part] = self.X[part] @ V

        parts = self._parts(self.m, V.shape[1]) if self.is_copy else row_blocks(self.m, self.d)
        in_threads(multiply, list(parts))
        return products

    def inputs(self, A: np.ndarray) -> np.ndarray:
        """Xᵀ A for A of shape (m, k) in the rows' own precision."""
        if self.is_sparse:
            return np.asarray(self.X.T @ A)
        image = np.zeros((self.d, A.shape[1]), self.X.dtype)
        if not self.is_copy:
            for part in row_blocks(self.m, self.d):
                image += self.X[part].T @ A[part]
            return image

        def multiply(part: slice) -> None:
            np.matmul(self.X[:, part].T, A, out=image[part])

        in_threads(multiply, self._parts(self.d, A.shape[1]))
        return image

    def _parts(self, length: int, k: int) -> list[slice]:
        """Runs of rows or columns, one for each thread that is worth waking."""
        flops = 2.0 * (self.X.nnz if self.is_sparse else self.X.size) * k
        count = min(length, own_threads(4.0 * flops))
        return [slice(length * i // count, length * (i + 1) // count) for i in range(count)]
