"""Rows of X for products that decide nothing but a direction: contiguous, most often float32."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.threads import in_threads, own_threads
from momentron.rows import MatrixOperator, dense, sparse
from momentron.rows.base import row_blocks


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


class ActiveRows(ABC):
    """Some examples as a linear map, with a column of ones behind them if there are intercepts.

    Vectors have shape (width, k), or (width + 1, k) with the intercepts in the last row.

    Attributes
    ----------
    index : ndarray of shape (m,)
        Which examples they are.
    width : int
        How many numbers a vector has for each class.
    n_features : int or None
        The order of a matrix XᵀX of features; None where there are none to be had.
    dtype : numpy.dtype
        The precision of products.
    has_border : bool
        Whether there are intercepts.
    """

    width: int
    n_features: int | None
    dtype: np.dtype

    def __init__(self, index: np.ndarray, has_border: bool) -> None:
        self.index, self.has_border = index, has_border
        self.m = index.size

    @abstractmethod
    def outputs(self, V: np.ndarray) -> np.ndarray:
        """X V for V of shape (width, k), in the rows' own precision."""

    @abstractmethod
    def inputs(self, A: np.ndarray) -> np.ndarray:
        """Xᵀ A for A of shape (m, k) in the rows' own precision."""

    @abstractmethod
    def squares(self) -> np.ndarray:
        """‖x‖² of each row."""

    @abstractmethod
    def gram(self, S: np.ndarray) -> np.ndarray:
        """Inner products of the named rows, in the rows' own precision and to be overwritten."""

    @abstractmethod
    def covariance(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ w x xᵀ over the named rows; only where there are features."""

    @abstractmethod
    def curvatures(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The diagonal of that, or numbers that do in its place."""

    def dots(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The inner products of two vectors without intercepts, class by class."""
        return np.einsum("ij,ij->j", U, V)

    def dot(self, U: np.ndarray, V: np.ndarray) -> float:
        """The inner product of two vectors."""
        return float(np.vdot(U, V))

    def times(self, V: np.ndarray) -> np.ndarray:
        """X V, shape (m, k)."""
        require_time()
        V = V.astype(self.dtype, copy=False)
        if not self.has_border:
            return self.outputs(V)
        products = self.outputs(V[:-1])
        products += V[-1]
        return products

    def adjoint(self, A: np.ndarray) -> np.ndarray:
        """Xᵀ A, as float64."""
        require_time()
        A = A.astype(self.dtype, copy=False)
        image = self.inputs(A).astype(np.float64, copy=False)
        if not self.has_border:
            return image
        return np.concatenate([image, A.sum(axis=0, dtype=np.float64)[None]])


class ActiveDense(ActiveRows):
    """Some rows of a dense matrix.

    Parameters
    ----------
    X : ndarray or CentredRows of shape (m, d)
    index : ndarray of shape (m,)
    has_border : bool
    """

    def __init__(self, X: Any, index: np.ndarray, has_border: bool) -> None:
        super().__init__(index, has_border)
        self.X, self.dtype = X, X.dtype
        self.width = self.n_features = X.shape[1]
        self.is_copy = not isinstance(X, CentredRows)

    def squares(self) -> np.ndarray:
        squares = np.empty(self.m)
        for part in row_blocks(*self.X.shape):
            squares[part] = dense.squared_row_norms(self.X[part])
        return squares

    def gram(self, S: np.ndarray) -> np.ndarray:
        X = self.X[S]
        return X @ X.T

    def curvatures(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        X = self.X[S]
        return np.einsum("ij,ij,i->j", X, X, weights)

    def covariance(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """That, a piece of the rows at a time."""
        root = np.sqrt(weights).astype(self.dtype)[:, None]
        total = np.zeros((self.width, self.width), self.dtype)
        for part in row_blocks(S.size, self.width):
            require_time()
            rows = self.X[S[part]] * root[part]
            total += rows.T @ rows
        return total

    def outputs(self, V: np.ndarray) -> np.ndarray:
        products = np.empty((self.m, V.shape[1]), self.dtype)

        def multiply(part: slice) -> None:
            products[part] = self.X[part] @ V

        parts = self._parts(self.m, V.shape[1]) if self.is_copy else row_blocks(self.m, self.width)
        in_threads(multiply, list(parts))
        return products

    def inputs(self, A: np.ndarray) -> np.ndarray:
        image = np.zeros((self.width, A.shape[1]), self.dtype)
        if not self.is_copy:
            for part in row_blocks(self.m, self.width):
                image += self.X[part].T @ A[part]
            return image

        def multiply(part: slice) -> None:
            np.matmul(self.X[:, part].T, A, out=image[part])

        in_threads(multiply, self._parts(self.width, A.shape[1]))
        return image

    def _parts(self, length: int, k: int) -> list[slice]:
        """Runs of rows or columns, one for each thread that is worth waking."""
        return even_parts(length, 2.0 * self.X.size * k)


class ActiveSparse(ActiveRows):
    """Some rows of a sparse matrix, less a centre that is never taken off their zeros.

    Parameters
    ----------
    X : csr_array of shape (m, d)
    index : ndarray of shape (m,)
    centre : ndarray of shape (d,), or None
    has_border : bool
    """

    def __init__(
        self, X: sp.csr_array, index: np.ndarray, centre: np.ndarray | None, has_border: bool
    ) -> None:
        super().__init__(index, has_border)
        self.X, self.dtype = X, X.dtype
        self.width = self.n_features = X.shape[1]
        self._centre = None if centre is None else centre.astype(self.dtype)

    def squares(self) -> np.ndarray:
        squares = sparse.squared_row_norms(self.X)
        if self._centre is None:
            return squares
        longer = 2.0 * (self.X @ self._centre) - self._centre @ self._centre
        return np.maximum(squares - longer, 0.0)

    def gram(self, S: np.ndarray) -> np.ndarray:
        X = self.X[S]
        K = np.asarray((X @ X.T).toarray())
        if self._centre is not None:
            products = X @ self._centre
            K -= products[:, None] - self._centre @ self._centre
            K -= products
        return K

    def curvatures(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        X, c = self.X[S], self._centre
        squares = np.asarray(X.multiply(X).T @ weights)
        if c is None:
            return squares
        return np.maximum(squares - c * (2.0 * (X.T @ weights) - weights.sum() * c), 0.0)

    def covariance(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        X, c = self.X[S], self._centre
        scaled: Any = X.multiply(np.sqrt(weights).astype(self.dtype)[:, None]).tocsr()
        total = np.asarray((scaled.T @ scaled).toarray())
        if c is not None:
            sums = (X.T @ weights).astype(self.dtype)
            total -= np.outer(c, sums - weights.sum().astype(self.dtype) * c)
            total -= np.outer(sums, c)
        return total

    def outputs(self, V: np.ndarray) -> np.ndarray:
        products = np.empty((self.m, V.shape[1]), self.dtype)

        def multiply(part: slice) -> None:
            products[part] = self.X[part] @ V

        in_threads(multiply, even_parts(self.m, 2.0 * self.X.nnz * V.shape[1]))
        if self._centre is not None:
            products -= self._centre @ V
        return products

    def inputs(self, A: np.ndarray) -> np.ndarray:
        image = np.asarray(self.X.T @ A)
        if self._centre is not None:
            image -= np.outer(self._centre, A.sum(axis=0))
        return image


def active_rows(
    operator: MatrixOperator,
    index: np.ndarray,
    centre: np.ndarray | None,
    has_border: bool,
    precision: type,
    memory: int,
) -> ActiveRows:
    """The named rows of an operator's matrix, less the centre if there is one.

    Dense ones are copied where the memory allows it.
    """
    if operator.is_sparse:
        some = sp.csr_array(operator.X[index]).astype(precision, copy=False)
        return ActiveSparse(some, index, centre, has_border)
    rows = CentredRows(operator.X, index, centre, precision)
    fits = rows.size * rows.dtype.itemsize <= memory
    return ActiveDense(rows.copied() if fits else rows, index, has_border)


def even_parts(length: int, flops: float) -> list[slice]:
    """Runs of rows or columns, one for each thread that is worth waking."""
    count = min(length, own_threads(4.0 * flops))
    return [slice(length * i // count, length * (i + 1) // count) for i in range(count)]
