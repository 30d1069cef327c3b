"""Rows of X for products that decide nothing but a direction: contiguous, most often float32."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.clock import require_time
from momentron.operators import MatrixOperator
from momentron.operators.base import row_blocks


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

    def times(self, V: np.ndarray) -> np.ndarray:
        """X V, shape (m, k)."""
        require_time()
        V = V.astype(self.X.dtype, copy=False)
        if not self.has_border:
            return self.X @ V
        products = self.X @ V[:-1]
        products += V[-1]
        return products

    def adjoint(self, A: np.ndarray) -> np.ndarray:
        """Xᵀ A, as float64."""
        require_time()
        A = A.astype(self.X.dtype, copy=False)
        image = (self.X.T @ A).astype(np.float64, copy=False)
        if not self.has_border:
            return image
        return np.concatenate([image, A.sum(axis=0, dtype=np.float64)[None]])
