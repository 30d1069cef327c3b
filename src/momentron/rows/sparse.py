"""A sparse X in CSR or CSC format."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.submatrices import copied
from momentron.rows.base import read_only_rows, shallow_copy
from momentron.rows.matrix import MatrixOperator
from momentron.rows.split_rows import SplitRows


def squared_row_norms(X: Any) -> np.ndarray:
    """‖x_i‖² in float64 for a CSR or CSC matrix."""
    data = X.data.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(data, data, out=data)
        if X.format == "csr":
            return _sum_rows(data, X.indptr)
        return np.bincount(X.indices, weights=data, minlength=X.shape[0])


def _sum_rows(entries: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Sums of the entries between successive pointers, in the entries' own precision."""
    sums = np.zeros(indptr.size - 1, entries.dtype)
    occupied = np.flatnonzero(np.diff(indptr))
    if occupied.size:
        sums[occupied] = np.add.reduceat(entries, indptr[occupied])
    return sums


def _products(lines: Any, entries: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Each compressed line of a matrix times v, of shape (·,) or (·, k), a column at a time."""
    if v.ndim == 1:
        return _sum_rows(entries * v[lines.indices], lines.indptr)
    columns = [_sum_rows(entries * column[lines.indices], lines.indptr) for column in v.T]
    return np.stack(columns, axis=1)


THIN = 4  # entries of a dense matrix that are read as fast as a stored one
SMALL = 200_000  # entries up to which dense products take less than scipy's preparations
FEW = 8  # of so many rows one counts: then picking those is cheaper than reading all


class SharedGram:
    """XXᵀ of all the rows, computed when it is first asked for and kept for further fits."""

    is_lent_whole = True  # what it returns is always a copy

    def __init__(self) -> None:
        self._K: np.ndarray | None = None

    def copy(self, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """A copy of it."""
        if self._K is None:
            self._K = compute()
        return copied(self._K)


class SparseOperator(MatrixOperator):
    """X as a CSR or CSC matrix; the cost of a pass is its number of stored entries.

    Parameters
    ----------
    X : csr_array, csr_matrix, csc_array or csc_matrix of shape (n, d)
        Never copied, never written to.
    squares : ndarray of shape (n,), optional
        ‖x_i‖² where they are known already.
    """

    is_sparse = True
    _shared_gram: SharedGram | None = None

    def __init__(self, X: Any, squares: np.ndarray | None = None) -> None:
        self.X = X = read_only_rows(X)
        self._is_by_rows = X.format == "csr"
        self._lines = SplitRows(X if self._is_by_rows else X.T)  # they share the entries of X
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        if squares is None:
            squares = squared_row_norms(X)
        self._row_length, self._column_length = self._longest(X)
        self._set_norms(squares, self._row_length)

    @staticmethod
    def _longest(X: Any) -> tuple[int, int]:
        """The largest number of stored entries in a row, and in a column."""
        along = int(np.diff(X.indptr).max(initial=0))
        across = int(np.bincount(X.indices).max(initial=0)) if X.nnz else 0
        return (along, across) if X.format == "csr" else (across, along)

    def apply(self, w: np.ndarray) -> np.ndarray:
        self.passes += 1
        return self._times(w.astype(self.X.dtype, copy=False)).astype(np.float64, copy=False)

    def adjoint(self, a: np.ndarray) -> np.ndarray:
        self.passes += 1
        a = a.astype(self.X.dtype, copy=False)
        return self._transposed_times(a).astype(np.float64, copy=False)

    def _times(self, w: np.ndarray) -> np.ndarray:
        lines = self._lines
        return lines.times(w) if self._is_by_rows else lines.transposed_times(w)

    def _transposed_times(self, a: np.ndarray) -> np.ndarray:
        lines = self._lines
        return lines.transposed_times(a) if self._is_by_rows else lines.times(a)

    def for_solver(self) -> "SparseOperator":
        other = shallow_copy(self)
        other.X = read_only_rows(self.X)
        return other

    def keep_gram(self) -> None:
        self._shared_gram = SharedGram()

    def combine(self, rows: np.ndarray, a: np.ndarray) -> np.ndarray:
        return self.sparse_rows(rows).T @ a

    def some(self, index: np.ndarray) -> "SparseOperator":
        return SparseOperator(self.sparse_rows(index))

    def sparse_rows(self, index: np.ndarray) -> Any:
        """The named rows as a CSR array in float64."""
        return sp.csr_array(self.X[index]).astype(np.float64)

    def rows(self, index: np.ndarray) -> np.ndarray:
        return self.sparse_rows(index).toarray()

    def working_rows(self, index: np.ndarray) -> Any:
        # dense rows are faster wherever they are small
        d = self.shape[1]
        if d <= 3000 and index.size * d <= 4_000_000:
            return self.rows(index)
        return self._csr_rows(index)

    def passed_rows(self, index: np.ndarray) -> Any:
        n, d = self.shape
        is_thin = THIN * self.X.nnz < n * d and index.size * d > SMALL
        return self._csr_rows(index) if is_thin else self.working_rows(index)

    def _csr_rows(self, index: np.ndarray) -> Any:
        if index.size == self.shape[0]:
            rows = sp.csr_array(self.X).astype(np.float64, copy=False)
            rows.shared_gram = self._shared_gram
            return rows
        return self.sparse_rows(index)

    def exact_scores(self, w: np.ndarray) -> np.ndarray:
        return self._times(w.astype(np.float64, copy=False))

    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        a = a.astype(np.float64, copy=False)
        if self._is_by_rows and a.ndim == 1:
            nonzero = np.flatnonzero(a)
            if FEW * nonzero.size < self.shape[0]:
                return self.combine(nonzero, a[nonzero])
        return self._transposed_times(a)

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        rows = self.sparse_rows(index)
        return _products(rows, rows.data.astype(np.longdouble), w)

    def sharp_adjoint(self, a: np.ndarray) -> np.ndarray:
        nonzero = np.flatnonzero(a if a.ndim == 1 else a.any(axis=1))
        columns = self.sparse_rows(nonzero).tocsc()
        return _products(columns, columns.data, a[nonzero].astype(np.longdouble))

    def score_depth(self, w: np.ndarray) -> int:
        return self._row_length

    def adjoint_depth(self, n_nonzero: int) -> int:
        return min(n_nonzero, self._column_length)
