"""Rows of X for products that decide nothing but a direction: contiguous, most often float32."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.clock import require_time
from momentron.operators import MatrixOperator, dense, sparse
from momentron.operators.base import row_blocks
from momentron.threads import in_threads, own_threads


class ActiveRows:
    """Some rows of X as a linear map, with a column of ones behind them if there are intercepts.

    Vectors have shape (d, k), or (d + 1, k) with the intercepts in the last row.

    Parameters
    ----------
    X : ndarray or csr_array of shape (m, d)
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

    @classmethod
    def of(
        cls,
        operator: MatrixOperator,
        index: np.ndarray,
        centre: np.ndarray | None,
        has_border: bool,
        precision: type,
    ) -> "ActiveRows":
        """The named rows of an operator's matrix; dense ones less the centre, if there is one."""
        if operator.is_sparse:
            rows = sp.csr_array(operator.X[index])
            return cls(rows.astype(precision, copy=False), index, has_border)
        X: np.ndarray = np.empty((index.size, operator.shape[1]), precision)
        for part in row_blocks(*X.shape):
            require_time()
            block = operator.X[index[part]]
            X[part] = block if centre is None else block - centre
        return cls(X, index, has_border)

    def squares(self) -> np.ndarray:
        """‖x‖² of each row."""
        return (sparse if self.is_sparse else dense).squared_row_norms(self.X)

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

        in_threads(multiply, self._parts(self.m, V.shape[1]))
        return products

    def inputs(self, A: np.ndarray) -> np.ndarray:
        """Xᵀ A for A of shape (m, k) in the rows' own precision."""
        image = np.empty((self.d, A.shape[1]), self.X.dtype)
        if self.is_sparse:
            return np.asarray(self.X.T @ A)

        def multiply(part: slice) -> None:
            np.matmul(self.X[:, part].T, A, out=image[part])

        in_threads(multiply, self._parts(self.d, A.shape[1]))
        return image

    def _parts(self, length: int, k: int) -> list[slice]:
        """Runs of rows or columns, one for each thread that is worth waking."""
        flops = 2.0 * (self.X.nnz if self.is_sparse else self.X.size) * k
        count = min(length, own_threads(4.0 * flops))
        return [slice(length * i // count, length * (i + 1) // count) for i in range(count)]
