"""X as a matrix, whose rows can be read."""

from abc import abstractmethod
from typing import Any

import numpy as np

from momentron.rows.base import Operator


class MatrixOperator(Operator):
    """An operator that holds the matrix X itself.

    Attributes
    ----------
    X : ndarray or sparse matrix of shape (n, d)
        As it was passed: never copied, never written to.
    is_sparse : bool
    """

    X: Any
    is_sparse: bool

    def as_matrix(self) -> "MatrixOperator":
        return self

    @property
    def is_single_precision(self) -> bool:
        """Whether products at the data's own precision are in float32."""
        return self.X.dtype == np.float32

    def keep_gram(self) -> None:
        """Keep XXᵀ of all the rows once it is computed, if the kind of matrix does: several fits
        are to come."""

    @abstractmethod
    def rows(self, index: np.ndarray) -> np.ndarray:
        """The named rows of X, dense, in float64."""

    @abstractmethod
    def working_rows(self, index: np.ndarray) -> Any:
        """The named rows in float64 for a working set: dense in C order, or CSR."""

    def passed_rows(self, index: np.ndarray) -> Any:
        """The same for a solve that reads them in passes, where fewer entries count."""
        return self.working_rows(index)

    @abstractmethod
    def some(self, index: np.ndarray) -> "MatrixOperator":
        """An operator of the named rows alone, in float64."""

    def products_at(self, rows: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.asarray(self.some(rows).X @ w)
