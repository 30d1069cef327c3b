"""Some of the examples of many classes, for products that decide nothing but a direction."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.rows import dense
from momentron.rows.operator import row_blocks, squared_row_norms
from momentron.rows.sparse import SplitRows


class ActiveRows:
    """Some rows as a linear map, with a column of ones behind them if there are intercepts.

    Vectors have shape (width, k), or (width + 1, k) with the intercepts in the last row. Dense rows
    are copied where the memory allows it, and else gathered again for each product.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        All the rows.
    index : ndarray of shape (m,)
        Which examples they are.
    has_border : bool
        Whether there are intercepts.
    centre : ndarray of shape (d,), optional
        What is taken off the rows, which are dense then.
    precision : type
        That of products, most often single.
    memory : int
        Bytes for a copy.
    """

    def __init__(
        self,
        X: Any,
        index: np.ndarray,
        has_border: bool,
        centre: np.ndarray | None = None,
        precision: type = np.float64,
        memory: float = math.inf,
    ) -> None:
        self.index, self.has_border, self.m = index, has_border, index.size
        self.dtype, self.width = np.dtype(precision), int(X.shape[1])
        self.is_sparse = sp.issparse(X)
        self._X, self._centre = X, centre
        self._copy: Any = None
        self._lines: SplitRows | None = None
        if self.is_sparse:
            self._copy = sp.csr_array(X[index]).astype(precision, copy=False)
            self._lines = SplitRows(self._copy)
        elif self.m * self.width * self.dtype.itemsize <= memory:
            copy: np.ndarray = np.empty((self.m, self.width), precision)
            for part in row_blocks(*copy.shape):
                require_time()
                copy[part] = self._rows(part)
            self._copy = copy

    @property
    def is_copy(self) -> bool:
        """Whether all the rows are in memory at the precision of products."""
        return self._copy is not None

    def _parts(self, size: int) -> list[slice]:
        """Runs of places whose rows are taken at once."""
        return [slice(0, size)] if self.is_copy else row_blocks(size, self.width)

    def _rows(self, part: Any) -> Any:
        """The rows at some of the places."""
        if self._copy is not None:
            return self._copy[part]
        rows = self._X[self.index[part]]
        return (rows if self._centre is None else rows - self._centre).astype(self.dtype)

    def times(self, V: np.ndarray) -> np.ndarray:
        """X V, shape (m, k), with the intercepts if V has any."""
        V = V.astype(self.dtype, copy=False)
        W, products = V[: self.width], np.empty((self.m, V.shape[1]), self.dtype)
        for part in self._parts(self.m):
            require_time()
            rows, lines = self._rows(part), self._lines
            products[part] = dense.matvec(rows, W) if lines is None else lines.times(W)
        if V.shape[0] > self.width:
            products += V[-1]
        return products

    def adjoint(self, A: np.ndarray) -> np.ndarray:
        """The transpose, as float64, with a row for the intercepts if there are any."""
        A = A.astype(self.dtype, copy=False)
        image = np.zeros((self.width, A.shape[1]))
        for part in self._parts(self.m):
            require_time()
            rows, lines = self._rows(part), self._lines
            image += dense.rmatvec(rows, A[part]) if lines is None else lines.transposed_times(A)
        if not self.has_border:
            return image
        return np.concatenate([image, A.sum(axis=0, dtype=np.float64)[None]])

    def squares(self) -> np.ndarray:
        """‖x‖² of each row."""
        squares = np.empty(self.m)
        for part in self._parts(self.m):
            squares[part] = squared_row_norms(self._rows(part))
        return squares

    def gram(self, S: np.ndarray) -> np.ndarray:
        """Inner products of the named rows, in the rows' own precision and to be overwritten."""
        X = self._rows(S)
        K = X @ X.T
        return np.asarray(K.toarray()) if self.is_sparse else K

    def covariance(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ w x xᵀ over the named rows, a piece of them at a time."""
        roots = np.sqrt(weights).astype(self.dtype)[:, None]
        total = np.zeros((self.width, self.width), self.dtype)
        for part in [slice(0, S.size)] if self.is_sparse else row_blocks(S.size, self.width):
            require_time()
            X = self._rows(S[part])
            rows = sp.csr_array(X.multiply(roots[part])) if self.is_sparse else X * roots[part]
            square = rows.T @ rows
            total += square.toarray() if self.is_sparse else square
        return total

    def curvatures(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The diagonal of that."""
        X = self._rows(S)
        return np.asarray((X.multiply(X) if self.is_sparse else X * X).T @ weights)
