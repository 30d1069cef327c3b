"""All the examples as the joint engine sees them: the rows of a matrix, or inner products of rows.

A classifier, and every direction, is an array of shape (width, k): of a matrix its d features, of
inner products the coefficients of the n examples and, below them, the outputs that follow from
these. Inner products are a kernel's values, or those of rows that have more features than there are
rows.
"""

import math
from abc import ABC, abstractmethod

import numpy as np

from momentron.arithmetic.threads import in_threads
from momentron.rows import KernelOperator, MatrixOperator, Operator
from momentron.solvers.auto.active_rows import ActiveRows, active_rows, even_parts
from momentron.solvers.auto.rows import gram_of
from momentron.solvers.auto.settings import AutoSettings

ALL_SINGLE = (1e-15, 1e15)  # mean K_ii with which single precision holds C, K and their products
LONG_CENTRE = 0.1  # ‖mean‖² over mean‖x‖² from which sparse rows are centred


class JointRows(ABC):
    """What Newton's method asks of the examples.

    Attributes
    ----------
    n, width : int
    row_norms : ndarray of shape (n,)
    fits_intercept : bool
        Whether directions have a last row for the intercepts, as seen from a centre of the rows.
    """

    n: int
    width: int

    def __init__(self, row_norms: np.ndarray, fits_intercept: bool) -> None:
        self.n, self.row_norms, self.fits_intercept = row_norms.size, row_norms, fits_intercept

    @staticmethod
    def of(
        operator: Operator, fits_intercept: bool, settings: AutoSettings, *, is_warm: bool = False
    ) -> "JointRows":
        """Those of an operator that is a matrix, or a kernel with all its values in memory."""
        matrix, kernel = operator.as_matrix(), operator.as_kernel()
        if matrix is None:
            assert kernel is not None and kernel.kernel.matrix is not None
            return GramRows(kernel.kernel.matrix, kernel.row_norms, fits_intercept)
        if WideRows.suit(matrix, settings, is_warm=is_warm):
            return WideRows(matrix, fits_intercept)
        return MatrixRows(matrix, fits_intercept)

    @abstractmethod
    def some(self, index: np.ndarray) -> "JointRows":
        """The same for some of the examples."""

    @abstractmethod
    def active(
        self, index: np.ndarray, precision: type, memory: int, settings: AutoSettings
    ) -> ActiveRows:
        """The named rows for products that decide nothing but a direction."""

    @abstractmethod
    def largest_single(self, settings: AutoSettings) -> float:
        """The trace of a Hessian's block up to which single precision serves."""

    @abstractmethod
    def least_products(self, settings: AutoSettings) -> int:
        """The products for one direction before an old preconditioner may be given up."""

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

    @abstractmethod
    def classifier(self, W: np.ndarray) -> np.ndarray:
        """W in the shape that the operator has for it."""

    def from_classifier(self, w: np.ndarray) -> np.ndarray:
        """The inverse of `classifier`."""
        return w.reshape(self.width, -1)


class MatrixRows(JointRows):
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

    def active(
        self, index: np.ndarray, precision: type, memory: int, settings: AutoSettings
    ) -> ActiveRows:
        return active_rows(
            self.operator, index, self._centre, self.fits_intercept, precision, memory
        )

    def largest_single(self, settings: AutoSettings) -> float:
        return settings.joint_single

    def least_products(self, settings: AutoSettings) -> int:
        return settings.joint_least_products

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

    def classifier(self, W: np.ndarray) -> np.ndarray:
        return W


class GramRows(JointRows):
    """Examples whose inner products are all in memory, K, and once more in float32.

    The centre is the mean of the examples: its output is the mean output.
    """

    def __init__(self, K: np.ndarray, row_norms: np.ndarray, fits_intercept: bool) -> None:
        super().__init__(row_norms, fits_intercept)
        self.K, self.width = K, 2 * self.n
        self.means = self.K.mean(axis=1) if fits_intercept else np.zeros(self.n)
        self._single: np.ndarray | None = None
        self._fits_single = ALL_SINGLE[0] < float(K.diagonal().mean()) < ALL_SINGLE[1]

    def some(self, index: np.ndarray) -> "GramRows":
        K = self.K[index[:, None], index]
        return GramRows(K, self.row_norms[index], self.fits_intercept)

    def values(self, precision: type) -> np.ndarray:
        """K in the given precision."""
        if precision == np.float64:
            return self.K
        if self._single is None:
            self._single = self.K.astype(np.float32)
        return self._single

    def active(
        self, index: np.ndarray, precision: type, memory: int, settings: AutoSettings
    ) -> ActiveRows:
        return ActiveGram(self, self.values(precision), index)

    def largest_single(self, settings: AutoSettings) -> float:
        return settings.tame_block if self._fits_single else 0.0  # blocks are held by their rows

    def least_products(self, settings: AutoSettings) -> int:
        return settings.kernel_least_products  # what blocks are made of is known already

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


class ActiveGram(ActiveRows):
    """Some examples by their inner products, less the mean of all where there are intercepts.

    Outputs of a vector are read off it; what brings in new coefficients is a product with K.
    """

    n_features = None

    def __init__(self, all_rows: GramRows, K: np.ndarray, index: np.ndarray) -> None:
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


def product(K: np.ndarray, A: np.ndarray) -> np.ndarray:
    """K A, the rows of K shared by threads."""
    result = np.empty((K.shape[0], A.shape[1]), K.dtype)

    def multiply(part: slice) -> None:
        np.matmul(K[part], A, out=result[part])

    in_threads(multiply, even_parts(K.shape[0], 2.0 * K.size * A.shape[1]))
    return result
