"""(K + ρI)⁻¹ in single precision, for a matrix K of inner products."""

import numpy as np

from momentron.arithmetic.cholesky import inverse_in_place
from momentron.arithmetic.submatrices import by_strips
from momentron.solvers.auto.joint_rows import product

SINGLE = np.float32
GROWTH = 10.0  # of ρ where rounding leaves no inverse,
TRIES = 10  # and how often it grows


class ShiftedInverse:
    """The inverse of K/unit + ρI.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Positive semidefinite.
    rho : float
    base : ShiftedInverse, optional
        That of the first rows and columns of K, which saves most of the work; its ρ and its unit
        are taken over.

    Attributes
    ----------
    unit : float
        The mean of K's diagonal.
    sums : ndarray of shape (n,)
        Those of the rows.
    """

    def __init__(self, K: np.ndarray, rho: float, base: "ShiftedInverse | None" = None) -> None:
        self.unit: float = base.unit if base else float(K.diagonal().mean()) or 1.0
        self.rho: float = base.rho if base else rho
        matrix = None if base is None else self._bordered(K, base.matrix)
        self.matrix: np.ndarray = self._whole(K) if matrix is None else matrix
        self.sums = self.matrix.sum(axis=0)

    def times(self, A: np.ndarray) -> np.ndarray:
        """Its product with a table."""
        return product(self.matrix, A)

    def _shifted(self, K: np.ndarray) -> np.ndarray:
        """K/unit + ρI, F-ordered."""
        n = K.shape[0]
        M = np.empty((n, n), SINGLE, "F")

        def copy(rows: slice) -> None:
            M.T[rows] = K[rows] / self.unit

        by_strips(copy, K.shape)
        M.flat[:: n + 1] += SINGLE(self.rho)
        return M

    def _whole(self, K: np.ndarray) -> np.ndarray:
        """From scratch, with a larger ρ where rounding has made the matrix indefinite."""
        for _ in range(TRIES):
            M = self._shifted(K)
            if inverse_in_place(M)[1]:
                return M.T
            self.rho *= GROWTH
        raise np.linalg.LinAlgError("inner products that are not positive semidefinite")

    def _bordered(self, K: np.ndarray, A: np.ndarray) -> np.ndarray | None:
        """From the inverse A of a leading block, if that goes well.

        With Y = AB, B what is beside the block, and G the inverse of the Schur complement, it is

            A + YGYᵀ   −YG
              −GYᵀ      G
        """
        m, n = A.shape[0], K.shape[0]
        if m == n:
            return A
        B = (K[:m, m:] / self.unit).astype(SINGLE)
        Y = product(A, B)
        G = self._shifted(K[m:, m:])
        G -= B.T @ Y
        if not inverse_in_place(G)[1]:
            return None
        inverse = np.empty((n, n), SINGLE)
        YG = product(Y, G)

        def fill(rows: slice) -> None:
            np.matmul(YG[rows], Y.T, out=inverse[rows, :m])
            inverse[rows, :m] += A[rows]

        by_strips(fill, A.shape)
        inverse[:m, m:] = -YG
        inverse[m:, :m] = -YG.T
        inverse[m:, m:] = G
        return inverse
