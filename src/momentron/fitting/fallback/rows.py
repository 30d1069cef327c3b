"""Where the rows of a sample come from: a matrix, or the images of a kernel."""

import numpy as np
from scipy.linalg import lapack

from momentron.arithmetic.clock import require_time
from momentron.rows import DenseOperator, KernelOperator, MatrixOperator

RIDGE = 1e-10  # added to the diagonal of a kernel's matrix, in units of its mean


class PlainRows:
    """The rows of a matrix.

    Attributes
    ----------
    n_columns : int
    width : float
        The mean number of entries that are stored for a row.
    are_alike : bool
        Whether columns have no meaning one by one.
    """

    are_alike = False

    def __init__(self, operator: MatrixOperator) -> None:
        self.operator = operator
        n, self.n_columns = operator.shape
        self.width = operator.X.nnz / n if operator.is_sparse else float(self.n_columns)

    def some(self, index: np.ndarray) -> MatrixOperator:
        """The named rows; all of them without a copy."""
        return self.operator if index.size == self.operator.shape[0] else self.operator.some(index)

    def combine(self, W: np.ndarray) -> np.ndarray:
        """The classifier of these coefficients, as the problem's operator has it."""
        return W


class Landmarks:
    """Nyström's features: the rows' images as far as those of some rows span them."""

    are_alike = True

    def __init__(self, operator: KernelOperator, index: np.ndarray) -> None:
        self.operator, self.index = operator, index
        self.n_columns, self.width = index.size, float(index.size)
        require_time(float(index.size) ** 3 / 3e10)
        K = operator.block(index, index)
        ridge = RIDGE * float(np.trace(K)) / index.size
        for _ in range(5):
            A = K.copy()
            A.flat[:: index.size + 1] += ridge
            self._factor, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
            if info == 0:
                return
            ridge *= 100.0
        raise np.linalg.LinAlgError("the kernel's matrix is not positive definite")

    def some(self, index: np.ndarray) -> MatrixOperator:
        """The features of the named rows."""
        values = self.operator.block(index, self.index)
        return DenseOperator(
            np.ascontiguousarray(lapack.dtrtrs(self._factor, values.T, lower=1)[0].T)
        )

    def combine(self, W: np.ndarray) -> np.ndarray:
        """The classifier of these coefficients, as the problem's operator has it."""
        return self.operator.combine(
            self.index, lapack.dtrtrs(self._factor, W, lower=1, trans=1)[0]
        )
