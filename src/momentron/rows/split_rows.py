"""Products with a sparse matrix in threads of our own: scipy's have one."""

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.threads import in_threads, own_threads

WORK = 50.0  # of a stored entry, in multiplications of a dense product


class SplitRows:
    """A CSR matrix A, in runs of rows with about as many entries each; these share its memory.

    Parameters
    ----------
    A : csr_array or csr_matrix of shape (n, d)
    """

    def __init__(self, A: Any) -> None:
        self.A = A
        self.shape = A.shape
        count = min(own_threads(WORK * A.nnz), A.shape[0])
        self._runs = [slice(0, A.shape[0])]
        self._parts = [A]
        if count > 1:
            cuts = np.searchsorted(A.indptr, A.nnz * np.arange(1, count) // count)
            bounds = [0, *map(int, cuts), A.shape[0]]
            self._runs = [slice(low, high) for low, high in pairwise(bounds)]
            self._parts = [_run(A, run) for run in self._runs]
        self._transposed = [_transposed(part) for part in self._parts]

    def times(self, v: np.ndarray) -> np.ndarray:
        """A v, for v of shape (d,) or (d, k)."""
        if len(self._parts) == 1:
            return self.A @ v
        out = np.empty((self.shape[0], *v.shape[1:]), np.result_type(self.A.dtype, v.dtype))

        def fill(i: int) -> None:
            out[self._runs[i]] = self._parts[i] @ v

        in_threads(fill, range(len(self._parts)))
        return out

    def transposed_times(self, v: np.ndarray) -> np.ndarray:
        """Aᵀ v, for v of shape (n,) or (n, k)."""
        if len(self._parts) == 1:
            return self._transposed[0] @ v
        sums: list[np.ndarray] = [np.empty(0)] * len(self._parts)

        def fill(i: int) -> None:
            sums[i] = self._transposed[i] @ v[self._runs[i]]

        in_threads(fill, range(len(self._parts)))
        total = sums[0]
        for part in sums[1:]:
            total += part
        return total


def _run(A: Any, rows: slice) -> Any:
    """Some successive rows, without a copy of their entries."""
    begin, end = A.indptr[rows.start], A.indptr[rows.stop]
    part = sp.csr_array((rows.stop - rows.start, A.shape[1]), dtype=A.dtype)
    # set one by one: the constructor copies views of much larger arrays
    part.data, part.indices = A.data[begin:end], A.indices[begin:end]
    part.indptr = A.indptr[rows.start : rows.stop + 1] - begin
    return part


def _transposed(A: Any) -> Any:
    """Aᵀ by columns, without a copy."""
    columns = sp.csc_array((A.shape[1], A.shape[0]), dtype=A.dtype)
    columns.data, columns.indices, columns.indptr = A.data, A.indices, A.indptr
    return columns
