"""The examples of many classes: the rows of a matrix, or the inner products of rows.

A classifier, and every direction, is an array of shape (width, k): for a matrix its d features, for
inner products the coefficients of the n examples and, below them, the outputs that follow from
these. Inner products are a kernel's values, or those of rows that have more features than there are
rows. Where there are intercepts, directions have a last row for them, as seen from a centre of the
rows. `active` gives some of the rows for products that decide nothing but a direction: contiguous,
and most often in single precision.
"""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.threads import in_threads, own_threads
from momentron.rows import KernelOperator, MatrixOperator, Operator, dense, sparse
from momentron.rows.operator import row_blocks
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_rows import gram_of

ALL_SINGLE = (1e-15, 1e15)  # mean K_ii with which single precision holds C, K and their products
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


class ActiveRows:
    """Some examples as a linear map, with a column of ones behind them if there are intercepts.

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
        That of products.
    memory : int
        Bytes for a copy.

    Attributes
    ----------
    width : int
        The numbers that a vector has for each class.
    n_features : int or None
        The order of a matrix XᵀX of features; None if there are only inner products.
    """

    width: int
    n_features: int | None

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
        self.dtype = np.dtype(precision)
        self.width = self.n_features = X.shape[1]
        self.is_sparse = sp.issparse(X)
        self._X, self._centre = X, centre
        self._copy: Any = None
        if self.is_sparse:
            self._copy = sp.csr_array(X[index]).astype(precision, copy=False)
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

    def _rows(self, part: Any) -> Any:
        """The rows at some of the places."""
        if self._copy is not None:
            return self._copy[part]
        rows = self._X[self.index[part]]
        return (rows if self._centre is None else rows - self._centre).astype(self.dtype)

    def outputs(self, V: np.ndarray) -> np.ndarray:
        """X V for V of shape (width, k), in the rows' own precision."""
        products = np.empty((self.m, V.shape[1]), self.dtype)

        def multiply(part: slice) -> None:
            products[part] = self._rows(part) @ V

        size = self._copy.nnz if self.is_sparse else self.m * self.width
        evenly = even_parts(self.m, 2.0 * size * V.shape[1])
        in_threads(multiply, evenly if self.is_copy else list(row_blocks(self.m, self.width)))
        return products

    def inputs(self, A: np.ndarray) -> np.ndarray:
        """Xᵀ A for A of shape (m, k) in the rows' own precision."""
        if self.is_sparse:
            return self._copy.T @ A
        image = np.zeros((self.width, A.shape[1]), self.dtype)
        if self._copy is None:
            for part in row_blocks(self.m, self.width):
                image += self._rows(part).T @ A[part]
            return image
        X = self._copy

        def multiply(part: slice) -> None:
            np.matmul(X[:, part].T, A, out=image[part])

        in_threads(multiply, even_parts(self.width, 2.0 * X.size * A.shape[1]))
        return image

    def squares(self) -> np.ndarray:
        """‖x‖² of each row."""
        squares = np.empty(self.m)
        of = sparse if self.is_sparse else dense
        for part in row_blocks(self.m, self.width):
            squares[part] = of.squared_row_norms(self._rows(part))
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
        parts = [slice(0, S.size)] if self.is_sparse else row_blocks(S.size, self.width)
        for part in parts:
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

    def dots(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The inner products of two vectors without intercepts, class by class."""
        return np.einsum("ij,ij->j", U, V)

    def dot(self, U: np.ndarray, V: np.ndarray) -> float:
        """The inner product of two vectors."""
        return float(np.vdot(U, V))

    def times(self, V: np.ndarray) -> np.ndarray:
        """X V, shape (m, k), with the intercepts if there are any."""
        require_time()
        V = V.astype(self.dtype, copy=False)
        if not self.has_border:
            return self.outputs(V)
        products = self.outputs(V[:-1])
        products += V[-1]
        return products

    def adjoint(self, A: np.ndarray) -> np.ndarray:
        """The transpose of `times`, as float64."""
        require_time()
        A = A.astype(self.dtype, copy=False)
        image = self.inputs(A).astype(np.float64, copy=False)
        if not self.has_border:
            return image
        return np.concatenate([image, A.sum(axis=0, dtype=np.float64)[None]])


class ActiveGram(ActiveRows):
    """Some examples by their inner products, less the mean of all where there are intercepts.

    Outputs of a vector are read off it; what brings in new coefficients is a product with K.
    """

    def __init__(self, every: "GramRows", K: np.ndarray, index: np.ndarray) -> None:
        self.index, self.has_border, self.m = index, every.fits_intercept, index.size
        self.width, self.dtype, self.n_features = every.width, K.dtype, None
        self._K, self._n, self._means = K, every.n, every.means
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

    def curvatures(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The mean of a diagonal that inner products do not tell."""
        return np.asarray(weights @ self.squares()[S] / max(S.size, 1))

    def dots(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->j", U[: self._n], V[self._n :])

    def dot(self, U: np.ndarray, V: np.ndarray) -> float:
        n = self._n
        total = float(np.vdot(U[:n], V[n : 2 * n]))
        return total + float(U[-1] @ V[-1]) if self.has_border else total


# --- all the rows --------------------------------------------------------------------------------


class ClassRows:
    """The rows of a matrix; dense ones are seen from their mean where there are intercepts.

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
    inner_products : ndarray of shape (n, n) or None
        K, where it is in memory.
    """

    largest_single = SINGLE_FEATURES
    least_products = LEAST_PRODUCTS
    inner_products: np.ndarray | None = None

    def __init__(self, operator: MatrixOperator, fits_intercept: bool) -> None:
        self.operator, self.fits_intercept = operator, fits_intercept
        self.n, self.width = operator.shape
        self.row_norms = operator.row_norms
        self._centre: np.ndarray | None = None
        if fits_intercept and not operator.is_sparse:
            self._centre = operator.exact_adjoint(np.full(self.n, 1.0 / self.n))

    def some(self, index: np.ndarray) -> "ClassRows":
        """The same for some of the examples."""
        return ClassRows(self.operator.some(index), self.fits_intercept)

    def active(self, index: np.ndarray, precision: type, memory: float) -> ActiveRows:
        """The named rows for products that decide nothing but a direction."""
        X, has_border = self.operator.X, self.fits_intercept
        return ActiveRows(X, index, has_border, self._centre, precision, memory)

    def scores(self, W: np.ndarray) -> np.ndarray:
        """The outputs of a classifier on all examples, in float64."""
        return self.operator.exact_scores(W)

    def image(self, A: np.ndarray) -> np.ndarray:
        """Σ x_i A_i in float64."""
        return self.operator.exact_adjoint(A)

    def renewed(self, V: np.ndarray) -> np.ndarray:
        """V with what follows from its coefficients computed again, in float64."""
        return V

    def dot(self, U: np.ndarray, V: np.ndarray) -> float:
        """The inner product of two classifiers."""
        return float(np.vdot(U, V))

    def norm(self, W: np.ndarray) -> float:
        """‖W‖."""
        return math.sqrt(max(self.dot(W, W), 0.0))

    def of_centre(self, b: np.ndarray) -> np.ndarray | float:
        """The centre times the intercepts' row."""
        return 0.0 if self._centre is None else np.outer(self._centre, b)

    def at_centre(self, V: np.ndarray) -> np.ndarray | float:
        """The outputs at the centre."""
        return 0.0 if self._centre is None else self._centre @ V

    def classifier(self, W: np.ndarray) -> np.ndarray:
        """W in the shape that the operator has for it."""
        return W

    def from_classifier(self, w: np.ndarray) -> np.ndarray:
        """The inverse of `classifier`."""
        return w.reshape(self.width, -1)


class GramRows(ClassRows):
    """Examples whose inner products are all in memory, K, and once more in float32.

    They are a kernel's, or those of an operator's rows. The centre is the mean of the examples: its
    output is the mean output.
    """

    least_products = LEAST_GRAM_PRODUCTS

    def __init__(
        self,
        K: np.ndarray,
        row_norms: np.ndarray,
        fits_intercept: bool,
        operator: MatrixOperator | None = None,
    ) -> None:
        self.inner_products, self.row_norms, self.fits_intercept = K, row_norms, fits_intercept
        self.n, self.width, self._matrix = row_norms.size, 2 * row_norms.size, operator
        self.means = K.mean(axis=1) if fits_intercept else np.zeros(self.n)
        self._single: np.ndarray | None = None
        fits = ALL_SINGLE[0] < float(K.diagonal().mean()) < ALL_SINGLE[1]
        self.largest_single = SINGLE_ROWS if fits else 0.0

    @property
    def K(self) -> np.ndarray:
        assert self.inner_products is not None
        return self.inner_products

    def some(self, index: np.ndarray) -> "GramRows":
        K = self.K[index[:, None], index]
        return GramRows(K, self.row_norms[index], self.fits_intercept)

    def active(self, index: np.ndarray, precision: type, memory: float) -> ActiveRows:
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
        coef, outputs = W[: self.n], W[self.n :]
        if self._matrix is not None:
            return self._matrix.exact_adjoint(coef)
        return KernelOperator.classifier(coef, outputs)

    def from_classifier(self, w: np.ndarray) -> np.ndarray:
        return self.image(w[0])  # w may have had other examples, whose part in the outputs is gone


def are_wide(matrix: MatrixOperator, settings: AutoSettings, *, is_warm: bool) -> bool:
    """Whether inner products are fewer than features, and fit the memory.

    A warm start is a classifier in features, which need not be a combination of the rows.
    """
    n, d = matrix.shape
    return n < d and not is_warm and settings.kernel_entry_bytes * n**2 <= settings.memory


def class_rows(
    operator: Operator, fits_intercept: bool, settings: AutoSettings, *, is_warm: bool = False
) -> ClassRows:
    """Those of an operator that is a matrix, or a kernel with all its values in memory."""
    matrix, kernel = operator.as_matrix(), operator.as_kernel()
    if matrix is None:
        assert kernel is not None and kernel.kernel.matrix is not None
        return GramRows(kernel.kernel.matrix, kernel.row_norms, fits_intercept)
    if are_wide(matrix, settings, is_warm=is_warm):
        K = gram_of(matrix.working_rows(np.arange(matrix.shape[0])))
        return GramRows(K, matrix.row_norms, fits_intercept, matrix)
    return ClassRows(matrix, fits_intercept)
