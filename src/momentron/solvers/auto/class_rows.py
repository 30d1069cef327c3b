"""The examples of many classes: the rows of a matrix, or the inner products of rows.

A classifier, and every direction, is an array of shape (width, k): of a matrix its d features, of
inner products the coefficients of the n examples and, below them, the outputs that follow from
these. Inner products are a kernel's values, or those of rows that have more features than there are
rows. Where there are intercepts, directions have a last row for them, as seen from a centre of the
rows. `active` gives some of the rows for products that decide nothing but a direction: contiguous,
and most often in single precision.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.threads import in_threads, own_threads
from momentron.rows import KernelOperator, MatrixOperator, Operator, dense, sparse
from momentron.rows.base import row_blocks
from momentron.solvers.auto.rows import gram_of
from momentron.solvers.auto.settings import AutoSettings

ALL_SINGLE = (1e-15, 1e15)  # mean K_ii with which single precision holds C, K and their products
LONG_CENTRE = 0.1  # ‖mean‖² over mean‖x‖² from which sparse rows are centred
# The trace of a Hessian's block up to which single precision serves: of features, and of blocks
# that are held by their rows, where a difference must keep digits.
SINGLE_FEATURES, SINGLE_ROWS = 1e7, 1e5
# The products for one direction before an old preconditioner may be given up; fewer where what
# blocks are made of is known already.
LEAST_PRODUCTS, LEAST_GRAM_PRODUCTS = 12, 6


def even_parts(length: int, flops: float) -> list[slice]:
    """Runs of rows or columns, one for each thread that is worth waking."""
    count = min(length, own_threads(4.0 * flops))
    return [slice(length * i // count, length * (i + 1) // count) for i in range(count)]


def product(K: np.ndarray, A: np.ndarray) -> np.ndarray:
    """K A, the rows of K shared by threads."""
    result = np.empty((K.shape[0], A.shape[1]), K.dtype)

    def multiply(part: slice) -> None:
        np.matmul(K[part], A, out=result[part])

    in_threads(multiply, even_parts(K.shape[0], 2.0 * K.size * A.shape[1]))
    return result


# --- some of the rows ----------------------------------------------------------------------------


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


class LazyRows:
    """Some rows of a dense matrix, copied when asked for."""

    def __init__(self, X: np.ndarray, index: np.ndarray, precision: type) -> None:
        self._X, self._index = X, index
        self.shape, self.dtype = (index.size, X.shape[1]), np.dtype(precision)

    def __getitem__(self, part: Any) -> np.ndarray:
        return self._X[self._index[part]].astype(self.dtype, copy=False)


class ActiveMatrix(ActiveRows):
    """Some rows of a matrix.

    Parameters
    ----------
    X : ndarray, csr_array or LazyRows of shape (m, d)
    index : ndarray of shape (m,)
    has_border : bool
    centre : ndarray of shape (d,), optional
        What is taken off products, where it was not taken off the rows: the zeros of sparse rows
        stay, and so do rows that are not copied.
    """

    def __init__(
        self, X: Any, index: np.ndarray, has_border: bool, centre: np.ndarray | None = None
    ) -> None:
        super().__init__(index, has_border)
        self.X, self.dtype = X, X.dtype
        self.width = self.n_features = X.shape[1]
        self.is_sparse = sp.issparse(X)
        self.is_copy = isinstance(X, np.ndarray)
        self._centre = None if centre is None else centre.astype(self.dtype)

    def _blocks(self, flops: float) -> list[slice]:
        if self.is_copy or self.is_sparse:
            return even_parts(self.m, flops)
        return list(row_blocks(*self.X.shape))

    def _products(self, V: np.ndarray) -> np.ndarray:
        """X V of the rows as they are."""
        products = np.empty((self.m, V.shape[1]), self.dtype)

        def multiply(part: slice) -> None:
            products[part] = self.X[part] @ V

        size = self.X.nnz if self.is_sparse else self.m * self.width
        in_threads(multiply, self._blocks(2.0 * size * V.shape[1]))
        return products

    def outputs(self, V: np.ndarray) -> np.ndarray:
        products = self._products(V)
        if self._centre is not None:
            products -= self._centre @ V
        return products

    def inputs(self, A: np.ndarray) -> np.ndarray:
        image = np.zeros((self.width, A.shape[1]), self.dtype)
        if self.is_copy:

            def multiply(part: slice) -> None:
                np.matmul(self.X[:, part].T, A, out=image[part])

            in_threads(multiply, even_parts(self.width, 2.0 * self.X.size * A.shape[1]))
        else:
            parts = [slice(0, self.m)] if self.is_sparse else self._blocks(0.0)
            for part in parts:
                image += self.X[part].T @ A[part]
        if self._centre is not None:
            image -= np.outer(self._centre, A.sum(axis=0))
        return image

    def squares(self) -> np.ndarray:
        squares = np.empty(self.m)
        of = sparse if self.is_sparse else dense
        for part in row_blocks(*self.X.shape):
            squares[part] = of.squared_row_norms(self.X[part])
        c = self._centre
        if c is None:
            return squares
        return np.maximum(squares - 2.0 * self._products(c[:, None])[:, 0] + c @ c, 0.0)

    def gram(self, S: np.ndarray) -> np.ndarray:
        X, c = self.X[S], self._centre
        K = X @ X.T
        K = np.asarray(K.toarray()) if self.is_sparse else K
        if c is not None:
            products = X @ c
            K -= products[:, None] - c @ c
            K -= products
        return K

    def curvatures(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        X, c = self.X[S], self._centre
        squares = np.asarray((X.multiply(X) if self.is_sparse else X * X).T @ weights)
        if c is None:
            return squares
        return np.maximum(squares - c * (2.0 * (X.T @ weights) - weights.sum() * c), 0.0)

    def covariance(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """That, a piece of the rows at a time."""
        roots, c = np.sqrt(weights).astype(self.dtype)[:, None], self._centre
        total = np.zeros((self.width, self.width), self.dtype)
        sums = np.zeros(self.width, self.dtype)
        parts = [slice(0, S.size)] if self.is_sparse else row_blocks(S.size, self.width)
        for part in parts:
            require_time()
            X: Any = self.X[S[part]]
            rows = sp.csr_array(X.multiply(roots[part])) if self.is_sparse else X * roots[part]
            square = rows.T @ rows
            total += square.toarray() if self.is_sparse else square
            if c is not None:
                sums += X.T @ weights[part].astype(self.dtype)
        if c is not None:
            total -= np.outer(c, sums - self.dtype.type(weights.sum()) * c)
            total -= np.outer(sums, c)
        return total


def active_rows(
    operator: MatrixOperator,
    index: np.ndarray,
    centre: np.ndarray | None,
    has_border: bool,
    precision: type,
    memory: int,
) -> ActiveMatrix:
    """The named rows of an operator's matrix, less the centre if there is one.

    Dense ones are copied where the memory allows it.
    """
    if operator.is_sparse:
        some = sp.csr_array(operator.X[index]).astype(precision, copy=False)
        return ActiveMatrix(some, index, has_border, centre)
    n_bytes = index.size * operator.shape[1] * np.dtype(precision).itemsize
    if n_bytes > memory:
        return ActiveMatrix(LazyRows(operator.X, index, precision), index, has_border, centre)
    rows: np.ndarray = np.empty((index.size, operator.shape[1]), precision)
    for part in row_blocks(*rows.shape):
        require_time()
        rows[part] = operator.X[index[part]] if centre is None else operator.X[index[part]] - centre
    return ActiveMatrix(rows, index, has_border)


class ActiveGram(ActiveRows):
    """Some examples by their inner products, less the mean of all where there are intercepts.

    Outputs of a vector are read off it; what brings in new coefficients is a product with K.
    """

    n_features = None

    def __init__(self, all_rows: "GramRows", K: np.ndarray, index: np.ndarray) -> None:
        super().__init__(index, all_rows.fits_intercept)
        self.width, self.dtype = all_rows.width, K.dtype
        self._K, self._n, self._means = K, all_rows.n, all_rows.means
        self._mean = float(self._means.mean())

    def outputs(self, V: np.ndarray) -> np.ndarray:
        outputs = V[self._n + self.index]
        if self.has_border:
            outputs -= V[self._n :].mean(axis=0)
        return outputs

    def inputs(self, A: np.ndarray) -> np.ndarray:
        coef = np.zeros((self._n, A.shape[1]), self.dtype)
        coef[self.index] = A
        if self.has_border:
            coef -= A.sum(axis=0) / self._n
        return np.concatenate([coef, product(self._K, coef)])

    def squares(self) -> np.ndarray:
        centred = 2.0 * self._means[self.index] - self._mean
        return np.maximum(self._K.diagonal()[self.index] - centred, 0.0)

    def gram(self, S: np.ndarray) -> np.ndarray:
        index = self.index[S]
        K = self._K[index[:, None], index]
        if self.has_border:
            means = self._means[index].astype(self.dtype)
            K -= means[:, None] - self.dtype.type(self._mean)
            K -= means
        return K

    def covariance(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        raise AssertionError("a kernel has no matrix of features")

    def curvatures(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights @ self.squares()[S] / max(S.size, 1))

    def dots(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->j", U[: self._n], V[self._n :])

    def dot(self, U: np.ndarray, V: np.ndarray) -> float:
        n = self._n
        total = float(np.vdot(U[:n], V[n : 2 * n]))
        return total + float(U[-1] @ V[-1]) if self.has_border else total


# --- all the rows --------------------------------------------------------------------------------


class ClassRows(ABC):
    """What Newton's method asks of the examples.

    Attributes
    ----------
    n, width : int
    row_norms : ndarray of shape (n,)
    fits_intercept : bool
        Whether directions have a last row for the intercepts.
    largest_single : float
        The trace of a Hessian's block up to which single precision serves.
    least_products : int
        The products for one direction before an old preconditioner may be given up.
    """

    n: int
    width: int
    largest_single = SINGLE_FEATURES
    least_products = LEAST_PRODUCTS

    def __init__(self, row_norms: np.ndarray, fits_intercept: bool) -> None:
        self.n, self.row_norms, self.fits_intercept = row_norms.size, row_norms, fits_intercept

    @abstractmethod
    def some(self, index: np.ndarray) -> "ClassRows":
        """The same for some of the examples."""

    @abstractmethod
    def active(self, index: np.ndarray, precision: type, memory: int) -> ActiveRows:
        """The named rows for products that decide nothing but a direction."""

    @abstractmethod
    def scores(self, W: np.ndarray) -> np.ndarray:
        """The outputs of a classifier on all examples, in float64."""

    @abstractmethod
    def image(self, A: np.ndarray) -> np.ndarray:
        """Σ x_i A_i in float64."""

    def renewed(self, V: np.ndarray) -> np.ndarray:
        """V with what follows from its coefficients computed anew, in float64."""
        return V

    @abstractmethod
    def dot(self, U: np.ndarray, V: np.ndarray) -> float:
        """The inner product of two classifiers."""

    def norm(self, W: np.ndarray) -> float:
        """‖W‖."""
        return math.sqrt(max(self.dot(W, W), 0.0))

    @abstractmethod
    def of_centre(self, b: np.ndarray) -> np.ndarray | float:
        """The centre times the intercepts' row."""

    @abstractmethod
    def at_centre(self, V: np.ndarray) -> np.ndarray | float:
        """The outputs at the centre."""

    def classifier(self, W: np.ndarray) -> np.ndarray:
        """W in the shape that the operator has for it."""
        return W

    def from_classifier(self, w: np.ndarray) -> np.ndarray:
        """The inverse of `classifier`."""
        return w.reshape(self.width, -1)

    @property
    def inner_products(self) -> np.ndarray | None:
        """K, where it is in memory."""
        return None


class MatrixRows(ClassRows):
    """The rows of a matrix, centred where there are intercepts.

    Sparse ones only where their mean is long: it is a dense vector.
    """

    def __init__(self, operator: MatrixOperator, fits_intercept: bool) -> None:
        super().__init__(operator.row_norms, fits_intercept)
        self.operator, self.width = operator, operator.shape[1]
        self._centre: np.ndarray | None = None
        if fits_intercept:
            centre = operator.exact_adjoint(np.full(self.n, 1.0 / self.n))
            is_long = float(centre @ centre) > LONG_CENTRE * float(np.mean(self.row_norms**2))
            self._centre = centre if is_long or not operator.is_sparse else None

    def some(self, index: np.ndarray) -> "MatrixRows":
        return MatrixRows(self.operator.some(index), self.fits_intercept)

    def active(self, index: np.ndarray, precision: type, memory: int) -> ActiveRows:
        return active_rows(
            self.operator, index, self._centre, self.fits_intercept, precision, memory
        )

    def scores(self, W: np.ndarray) -> np.ndarray:
        return self.operator.exact_scores(W)

    def image(self, A: np.ndarray) -> np.ndarray:
        return self.operator.exact_adjoint(A)

    def dot(self, U: np.ndarray, V: np.ndarray) -> float:
        return float(np.vdot(U, V))

    def of_centre(self, b: np.ndarray) -> np.ndarray | float:
        return 0.0 if self._centre is None else np.outer(self._centre, b)

    def at_centre(self, V: np.ndarray) -> np.ndarray | float:
        return 0.0 if self._centre is None else self._centre @ V


class GramRows(ClassRows):
    """Examples whose inner products are all in memory, K, and once more in float32.

    The centre is the mean of the examples: its output is the mean output.
    """

    least_products = LEAST_GRAM_PRODUCTS

    def __init__(self, K: np.ndarray, row_norms: np.ndarray, fits_intercept: bool) -> None:
        super().__init__(row_norms, fits_intercept)
        self.K, self.width = K, 2 * self.n
        self.means = self.K.mean(axis=1) if fits_intercept else np.zeros(self.n)
        self._single: np.ndarray | None = None
        fits = ALL_SINGLE[0] < float(K.diagonal().mean()) < ALL_SINGLE[1]
        self.largest_single = SINGLE_ROWS if fits else 0.0

    def some(self, index: np.ndarray) -> "GramRows":
        K = self.K[index[:, None], index]
        return GramRows(K, self.row_norms[index], self.fits_intercept)

    def active(self, index: np.ndarray, precision: type, memory: int) -> ActiveRows:
        if precision == np.float64:
            return ActiveGram(self, self.K, index)
        if self._single is None:
            self._single = self.K.astype(np.float32)
        return ActiveGram(self, self._single, index)

    def scores(self, W: np.ndarray) -> np.ndarray:
        return W[self.n :]

    def image(self, A: np.ndarray) -> np.ndarray:
        return np.concatenate([A, product(self.K, A)])

    def renewed(self, V: np.ndarray) -> np.ndarray:
        return self.image(V[: self.n])

    def dot(self, U: np.ndarray, V: np.ndarray) -> float:
        return float(np.vdot(U[: self.n], V[self.n :]))

    def of_centre(self, b: np.ndarray) -> np.ndarray | float:
        return np.concatenate([np.tile(b / self.n, (self.n, 1)), np.outer(self.means, b)])

    def at_centre(self, V: np.ndarray) -> np.ndarray | float:
        return V[self.n :].mean(axis=0)

    def classifier(self, W: np.ndarray) -> np.ndarray:
        return KernelOperator.classifier(W[: self.n], W[self.n :])

    def from_classifier(self, w: np.ndarray) -> np.ndarray:
        return self.image(w[0])  # w may have had other examples, whose part in the outputs is gone

    @property
    def inner_products(self) -> np.ndarray | None:
        return self.K


class WideRows(GramRows):
    """The rows of a matrix with more features than rows: vectors are shorter than in features."""

    def __init__(self, operator: MatrixOperator, fits_intercept: bool) -> None:
        every = operator.working_rows(np.arange(operator.shape[0]))
        super().__init__(gram_of(every), operator.row_norms, fits_intercept)
        self.operator = operator

    @staticmethod
    def suit(matrix: MatrixOperator, settings: AutoSettings, *, is_warm: bool) -> bool:
        """Whether inner products are fewer than features, and fit the memory.

        A warm start is a classifier in features, which need not be a combination of the rows.
        """
        n, d = matrix.shape
        return n < d and not is_warm and settings.kernel_entry_bytes * n**2 <= settings.memory

    def classifier(self, W: np.ndarray) -> np.ndarray:
        return self.operator.exact_adjoint(W[: self.n])


def class_rows(
    operator: Operator, fits_intercept: bool, settings: AutoSettings, *, is_warm: bool = False
) -> ClassRows:
    """Those of an operator that is a matrix, or a kernel with all its values in memory."""
    matrix, kernel = operator.as_matrix(), operator.as_kernel()
    if matrix is None:
        assert kernel is not None and kernel.kernel.matrix is not None
        return GramRows(kernel.kernel.matrix, kernel.row_norms, fits_intercept)
    if WideRows.suit(matrix, settings, is_warm=is_warm):
        return WideRows(matrix, fits_intercept)
    return MatrixRows(matrix, fits_intercept)
