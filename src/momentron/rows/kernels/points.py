"""Rows of data, dense or sparse, handed out in float64 a few at a time."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.certificate import read_only
from momentron.data.exactness import as_exact
from momentron.errors import InputError
from momentron.rows.kernels.bound import Index
from momentron.rows.operator import read_only_rows, row_blocks, squared_row_norms

TILE_BYTES = 1 << 23  # rows copied or converted at a time, on either side of a block
TILE_VALUES = 1 << 20  # values of a block worked on at a time: as many bytes
SINGLE_RUN = 400  # terms of an inner product in single precision that are summed at a time
DENSE_ENOUGH = 0.05  # the share of stored entries from which dense arithmetic is faster


def as_rows(X: Any) -> Any:
    """X as a 2-D array or canonical CSR matrix of floats: itself, if it is one."""
    X = as_exact(X)
    X = X.tocsr() if sp.issparse(X) else X
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise InputError(
            f"X has shape {X.shape}; a kernel by name needs a 2-D array of at least one row and "
            "one column"
        )
    return X


def pieces(index: Index, n: int, size: int) -> Iterator[tuple[slice, Index]]:
    """The index cut into parts of `size` rows: (where the part lies in the index, the part)."""
    if isinstance(index, slice) and index.step not in (None, 1):
        index = np.arange(n)[index]
    whole = range(n)[index] if isinstance(index, slice) else index
    for start in range(0, len(whole), size):
        place = slice(start, min(start + size, len(whole)))
        part = whole[place]
        yield place, part if isinstance(part, np.ndarray) else slice(part.start, part.stop)


class Points:
    """The rows of X, or of X less a centre.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Held, not copied.
    centre : ndarray of shape (d,), optional
        Taken from each row as it is handed out, which makes it dense.
    """

    def __init__(self, X: Any, centre: np.ndarray | None = None) -> None:
        self.X = read_only_rows(X)
        self.n, self.d = int(X.shape[0]), int(X.shape[1])
        self.centre = None if centre is None else read_only(centre)
        self.is_sparse = sp.issparse(X) and centre is None

    def take(self, index: Index, *, as_dense: bool = False) -> Any:
        """The named rows in float64: a view where X has them so."""
        rows = self.X[index]
        if sp.issparse(rows) and (as_dense or self.centre is not None):
            rows = rows.toarray()
        rows = rows.astype(np.float64, copy=False)
        return rows if self.centre is None else rows - self.centre

    @cached_property
    def squares(self) -> np.ndarray:
        """‖x‖² of every row."""
        if self.centre is None:
            return read_only(squared_row_norms(self.X))
        parts = row_blocks(self.n, self.d)
        return read_only(np.concatenate([squared_row_norms(self.take(p)) for p in parts]))

    @cached_property
    def length(self) -> int:
        """The most entries in a row: no inner product has more terms that are not zero."""
        return int(np.diff(self.X.indptr).max(initial=0)) if self.is_sparse else self.d

    @property
    def is_crowded(self) -> bool:
        """Whether sparse rows have so many entries that dense arithmetic is faster."""
        return self.is_sparse and self.X.nnz >= DENSE_ENOUGH * self.n * self.d

    def tile(self, *, as_dense: bool = False) -> int:
        """How many rows to take at a time."""
        width = 2 * self.X.nnz // self.n + 1 if self.is_sparse and not as_dense else self.d
        return max(1, TILE_BYTES // (8 * width))

    def mean(self) -> np.ndarray:
        """The mean of the rows of a dense X."""
        total = np.zeros(self.d)
        for part in row_blocks(self.n, self.d):
            total += self.X[part].sum(axis=0, dtype=np.float64)
        return total / self.n


def inner_products(A: Any, B: Any, out: np.ndarray) -> None:
    """⟨a, b⟩ for all rows of A and of B, into out; in single precision, in runs of terms."""
    if sp.issparse(A) and sp.issparse(B):
        out[...] = (A @ B.T).toarray()
    elif sp.issparse(A) or sp.issparse(B):
        out[...] = A @ B.T
    elif out.dtype == np.float32:
        runs = single_runs(A.shape[1])
        np.matmul(A[:, runs[0]], B[:, runs[0]].T, out=out)
        for run in runs[1:]:
            out += A[:, run] @ B[:, run].T
    else:
        np.matmul(A, B.T, out=out)


def single_runs(d: int) -> list[slice]:
    """Equal runs of at most SINGLE_RUN terms into which sums in single precision are cut."""
    count = max(1, -(-d // SINGLE_RUN))
    return [slice(d * i // count, d * (i + 1) // count) for i in range(count)]


def single_roundings(d: int) -> int:
    """How many roundings an inner product of d terms then has, those of the rows included."""
    return min(d, SINGLE_RUN) + -(-d // SINGLE_RUN) + 4
