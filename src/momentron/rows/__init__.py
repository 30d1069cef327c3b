"""X as an operator: dense, sparse and computed rows, and kernels; nothing is copied."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.rows.computed import ComputedOperator, ComputedRows
from momentron.rows.dense import DenseOperator, MatrixOperator
from momentron.rows.kernel_rows import KernelOperator
from momentron.rows.operator import Operator
from momentron.rows.sparse import SparseOperator

__all__ = [
    "ComputedOperator",
    "ComputedRows",
    "DenseOperator",
    "KernelOperator",
    "MatrixOperator",
    "Operator",
    "SparseOperator",
    "as_operator",
]


def as_operator(X: Any, squares: np.ndarray | None = None) -> Operator:
    """The operator for validated data: a new kind of data is one line here."""
    if sp.issparse(X):
        return SparseOperator(X, squares)
    if isinstance(X, ComputedRows):
        return ComputedOperator(X, squares)
    return DenseOperator(X, squares)
