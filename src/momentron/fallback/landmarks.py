"""A kernel's rows as vectors."""

import numpy as np
from scipy.linalg import lapack

from momentron.clock import require_time
from momentron.operators import DenseOperator, KernelOperator, Operator

RIDGE = 1e-10  # added to the diagonal of a kernel's matrix, in units of its mean


class Landmarks:
    """Nyström's features: the rows' images as far as those of some rows span them."""

    def __init__(self, operator: KernelOperator, index: np.ndarray) -> None:
        self.operator, self.index = operator, index
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

    def features(self, index: np.ndarray) -> Operator:
        """Those of the named rows."""
        values = self.operator.block(index, self.index)
        return DenseOperator(
            np.ascontiguousarray(lapack.dtrtrs(self._factor, values.T, lower=1)[0].T)
        )

    def combine(self, W: np.ndarray) -> np.ndarray:
        """The classifier of these coefficients, as the operator has it."""
        return self.operator.combine(
            self.index, lapack.dtrtrs(self._factor, W, lower=1, trans=1)[0]
        )
