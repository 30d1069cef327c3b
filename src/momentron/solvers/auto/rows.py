"""The signed rows a_i = y_i x_i of a working set."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas

from momentron.solvers.auto.linear_algebra import matvec, mirror, rmatvec
from momentron.threads import threads_for_factor


class Rows:
    """Rows of a working set in float64, dense (C order) or CSR, with their labels.

    Parameters
    ----------
    X : ndarray or csr_array of shape (m, d)
        Own copy of the rows: they are few.
    signs : ndarray of shape (m,)
        y_i = ±1.
    """

    def __init__(self, X: Any, signs: np.ndarray) -> None:
        self.X = X
        self.signs = signs
        self.is_sparse = sp.issparse(X)
        self.m, self.d = X.shape

    def products(self, w: np.ndarray) -> np.ndarray:
        """A w."""
        return self.signs * (self.X @ w if self.is_sparse else matvec(self.X, w))

    def combine(self, v: np.ndarray) -> np.ndarray:
        """Aᵀ v."""
        v = self.signs * v
        return self.X.T @ v if self.is_sparse else rmatvec(self.X, v)

    def take(self, index: Any) -> np.ndarray:
        """Some of the signed rows, dense."""
        rows = self.X[index]
        return (rows.toarray() if self.is_sparse else rows) * self.signs[index][:, None]

    def squares(self) -> np.ndarray:
        """‖a_i‖²."""
        if self.is_sparse:
            lengths = np.diff(self.X.indptr)
            return np.bincount(np.repeat(np.arange(self.m), lengths), self.X.data**2, self.m)
        return np.einsum("ij,ij->i", self.X, self.X)

    def gram(self) -> np.ndarray:
        """K = AAᵀ, C-ordered."""
        if self.is_sparse:
            K = (self.X @ self.X.T).toarray()
        else:
            with threads_for_factor(float(self.m) ** 2 * self.d):
                K = mirror(blas.dsyrk(1.0, self.X.T, trans=1, lower=1))
        return np.ascontiguousarray(K * self.signs[:, None] * self.signs)

    def extend_gram(self, last: np.ndarray, at: np.ndarray, known: np.ndarray) -> np.ndarray:
        """K, given that K[known, known] is last[at, at]: only the new rows cost products."""
        K = np.empty((self.m, self.m))
        K[known[:, None], known] = last[at[:, None], at]
        new = np.setdiff1d(np.arange(self.m), known, assume_unique=True)
        if new.size:
            X = self.X
            if self.is_sparse:
                block = (X @ X[new].T).toarray()
            else:
                block = blas.dgemm(1.0, X.T, X[new].T, trans_a=1)
            block = block * self.signs[:, None] * self.signs[new]
            K[:, new] = block
            K[new] = block.T
        return K
