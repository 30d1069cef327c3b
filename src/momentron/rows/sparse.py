"""A sparse X in CSR or CSC format."""

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.squares import gram_product
from momentron.arithmetic.threads import in_threads, own_threads, sum_in_threads
from momentron.rows.dense import MatrixOperator

WORK = 50.0  # of a stored entry, in multiplications of a dense product
THIN = 8  # entries of a dense matrix that are worked on as fast as a stored one
SMALL = 200_000  # entries up to which dense products take less than scipy's preparations
NEW_COLUMNS = 1024  # of a Gram matrix at a time: they take memory in addition to it
FEW = 8  # if fewer than one row in this many counts, picking rows is cheaper than reading all


class SplitRows:
    """A CSR matrix A, in runs of rows with about as many entries each; these share its memory."""

    def __init__(self, A: Any) -> None:
        self.shape = A.shape
        count = max(1, min(own_threads(WORK * A.nnz), A.shape[0]))
        cuts = np.searchsorted(A.indptr, A.nnz * np.arange(1, count) // count).tolist()
        self._runs = [slice(*run) for run in pairwise([0, *cuts, A.shape[0]])]
        self._parts, self._transposed = [], []
        for run in self._runs:
            indptr = A.indptr[run.start : run.stop + 1]
            own, shape = slice(indptr[0], indptr[-1]), (indptr.size - 1, A.shape[1])
            self._parts.append(sp.csr_array(shape, dtype=A.dtype))
            self._transposed.append(sp.csc_array(shape[::-1], dtype=A.dtype))
            for view in (self._parts[-1], self._transposed[-1]):
                # set one by one: the constructor copies views of much larger arrays
                view.data, view.indices = A.data[own], A.indices[own]
                view.indptr = indptr - own.start

    def times(self, v: np.ndarray) -> np.ndarray:
        """A v, for v of shape (d,) or (d, k)."""
        if len(self._parts) == 1:
            return self._parts[0] @ v
        out = np.empty((self.shape[0], *v.shape[1:]), np.result_type(self._parts[0].dtype, v))

        def fill(i: int) -> None:
            out[self._runs[i]] = self._parts[i] @ v

        in_threads(fill, range(len(self._parts)))
        return out

    def transposed_times(self, v: np.ndarray) -> np.ndarray:
        """Aᵀ v, for v of shape (n,) or (n, k)."""
        numbers = range(len(self._parts))
        return sum_in_threads(lambda i: self._transposed[i] @ v[self._runs[i]], numbers)


class SparseOperator(MatrixOperator):
    """X as a CSR or CSC matrix; the cost of a pass is its number of stored entries."""

    is_sparse = True

    def __init__(self, X: Any, squares: np.ndarray | None = None) -> None:
        self._is_by_rows = X.format == "csr"
        along = int(np.diff(X.indptr).max(initial=0))
        across = int(np.bincount(X.indices).max(initial=0)) if X.nnz else 0
        self._lengths = (along, across) if self._is_by_rows else (across, along)
        super().__init__(X, squares)
        self._lines = SplitRows(self.X if self._is_by_rows else self.X.T)  # they share its entries
        products = self._lines.times, self._lines.transposed_times
        self._times, self._transposed_times = products if self._is_by_rows else products[::-1]

    @property
    def row_length(self) -> int:
        return self._lengths[0]

    def apply(self, w: np.ndarray) -> np.ndarray:
        self.passes += 1
        return self._times(w.astype(self.X.dtype, copy=False)).astype(np.float64, copy=False)

    def adjoint(self, a: np.ndarray) -> np.ndarray:
        self.passes += 1
        a = a.astype(self.X.dtype, copy=False)
        return self._transposed_times(a).astype(np.float64, copy=False)

    def some(self, index: np.ndarray) -> "SparseOperator":
        return SparseOperator(self.stored_rows(index))

    def stored_rows(self, index: np.ndarray) -> Any:
        """The named rows as a CSR array in float64."""
        return sp.csr_array(self.X[index]).astype(np.float64, copy=False)

    def working_rows(self, index: np.ndarray) -> Any:
        n, d = self.shape
        if THIN * self.X.nnz >= n * d or index.size * d <= SMALL:
            return self.rows(index)
        if index.size < n:
            return self.stored_rows(index)
        rows = sp.csr_array(self.X).astype(np.float64, copy=False)
        rows.shared_gram = self.shared_gram
        return rows

    def scores_in_double(self, w: np.ndarray) -> np.ndarray:
        return self._times(w.astype(np.float64, copy=False))

    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        a = a.astype(np.float64, copy=False)
        if self._is_by_rows and a.ndim == 1:
            nonzero = np.flatnonzero(a)
            if FEW * nonzero.size < self.shape[0]:
                return self.combine(nonzero, a[nonzero])
        return self._transposed_times(a)

    def adjoint_depth(self, n_nonzero: int) -> int:
        return min(n_nonzero, self._lengths[1])


def gram_of(X: Any) -> np.ndarray:
    """XXᵀ, dense."""
    if not sp.issparse(X):
        return gram_product(X)
    shared = getattr(X, "shared_gram", None)
    if shared is None:
        return sparse_gram(X)
    if not shared:  # the first of several fits to the same rows
        shared.append(sparse_gram(X))
    return shared[0].copy()


def sparse_gram(X: Any) -> np.ndarray:
    """The same of sparse rows."""
    gram = np.empty((X.shape[0], X.shape[0]))
    for start in range(0, X.shape[0], NEW_COLUMNS):
        require_time()
        part, other = slice(start, start + NEW_COLUMNS), slice(start, None)
        gram[part, other] = (X[part] @ X[other].T).toarray()
        gram[other, part] = gram[part, other].T
    return gram
