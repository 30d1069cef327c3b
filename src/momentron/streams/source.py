"""Where blocks of rows come from: the protocol, and arrays, files and users' own objects."""

import math
import mmap
import sys
import threading
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from momentron.data.exactness import as_exact, as_host, is_tensor
from momentron.data.exactness.tensors import host_itemsize, is_dense
from momentron.data.files._common import require_file
from momentron.errors import InputError
from momentron.rows import ComputedRows
from momentron.rows.validation import clean_targets

BLOCK_BYTES = 16 * 2**20


@runtime_checkable
class Source(Protocol):
    """Data in blocks of rows: the protocol that any store of data can follow.

    `len(source)` is the number of blocks, at least 1. `source.block(i)` gives (X, y): X of shape
    (m, d), m ≥ 1, dense or sparse, with the same d and the same kind in every block, and y with m
    labels. It is called from one thread at a time, in order, once per pass, and must give the same
    rows each time. Blocks of 4 to 64 MB serve best. For a Dask cluster the source is pickled.

    Examples
    --------
    >>> import numpy as np
    >>> from momentron import max_margin
    >>> class Noise:
    ...     def __len__(self):
    ...         return 3
    ...     def block(self, i):
    ...         rng = np.random.default_rng(i)
    ...         y = rng.choice([-1, 1], 50)
    ...         return rng.uniform(1, 2, (50, 2)) * y[:, None], y
    >>> max_margin(Noise(), None).gap <= 1e-6
    True
    """

    def __len__(self) -> int: ...

    def block(self, i: int) -> tuple[Any, Any]: ...


def rows_of(block_size: int, row_bytes: float) -> int:
    """How many rows make a block."""
    return max(1, int(block_size / max(row_bytes, 1.0)))


def cut_sizes(n: int, rows: int) -> list[int]:
    """The sizes of the blocks into which n rows are cut."""
    return [min(rows, n - start) for start in range(0, n, rows)]


class ArraySource:
    """An array, memory-map or sparse matrix that is there already, in blocks.

    Parameters
    ----------
    X : ndarray, memmap, sparse matrix, tensor or data frame of shape (n, d)
        Of a dense tensor each block is converted when it is read, on whatever device it is.
    y : array of shape (n,)
    block_size : int
        Bytes of a block.
    """

    def __init__(self, X: Any, y: Any, block_size: int = BLOCK_BYTES) -> None:
        self._is_tensor = is_tensor(X) and is_dense(X)
        if is_tensor(X):
            X = X.detach() if self._is_tensor else as_host(X)
        if sp.issparse(X):
            X = sp.csr_array(as_exact(X))
            row_bytes = 12.0 * X.nnz / max(X.shape[0], 1)
        else:
            is_by_block = self._is_tensor or isinstance(X, np.ndarray | ComputedRows)
            X = X if is_by_block else as_exact(X)
            if X.ndim != 2 or 0 in X.shape:
                raise InputError(f"X has shape {tuple(X.shape)}; give 2-D with at least one row")
            row_bytes = (host_itemsize(X) if self._is_tensor else X.itemsize) * X.shape[1]
        self.X, self.y = X, clean_targets(y, X.shape[0])
        self.rows = rows_of(block_size, row_bytes)

    def __len__(self) -> int:
        return math.ceil(self.y.size / self.rows)

    def block_sizes(self) -> list[int]:
        """The rows of each block."""
        return cut_sizes(self.y.size, self.rows)

    def block(self, i: int) -> tuple[Any, Any]:
        rows = slice(i * self.rows, (i + 1) * self.rows)
        X = self.X[rows]
        if self._is_tensor:
            X = as_exact(X)
        if isinstance(self.X, np.memmap):
            X = np.array(X)
            _forget(self.X)
        return X, self.y[rows]


def _forget(mapped: np.memmap) -> None:
    """Give the pages of a read-only map back: they would count as this process's memory."""
    pages = getattr(mapped, "_mmap", None)
    if mapped.mode == "r" and pages is not None and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


class NpySource:
    """A 2-D .npy file in C order, read with plain reads: pages of a map would count as memory.

    Parameters
    ----------
    path : path
    labels : array of shape (n,), or path of a .npy file, optional
        Where absent, a column of the file holds the labels.
    column : int
        That column; the last where none is named.
    block_size : int
        Bytes of a block.
    """

    def __init__(
        self,
        path: str | Path,
        labels: Any = None,
        *,
        column: int = -1,
        block_size: int = BLOCK_BYTES,
    ) -> None:
        self.table = NpyFile(path)
        if len(self.table.shape) != 2 or 0 in self.table.shape:
            raise InputError(f"{path} has shape {self.table.shape}; give 2-D with a row at least")
        n, width = self.table.shape
        self.labels: Any = None
        self.column: int | None = None
        if labels is None:
            if width < 2:
                raise InputError(f"{path} has 1 column; labels and features need at least 2")
            if not -width <= column < width:
                raise InputError(
                    f"{path} has {width} columns; the label column {column} must be from {-width} "
                    f"to {width - 1}"
                )
            self.column = column % width
        elif isinstance(labels, str | Path):
            self.labels = NpyFile(labels)
            _require_length(self.labels.shape, n, str(labels))
        else:
            self.labels = clean_targets(labels, n)
        self.rows = rows_of(block_size, width * self.table.dtype.itemsize)

    def __len__(self) -> int:
        return math.ceil(self.table.shape[0] / self.rows)

    def block_sizes(self) -> list[int]:
        """The rows of each block."""
        return cut_sizes(self.table.shape[0], self.rows)

    def block(self, i: int) -> tuple[Any, Any]:
        start = i * self.rows
        stop = min(start + self.rows, self.table.shape[0])
        X = self.table[start:stop]
        if self.column is not None:
            y = X[:, self.column].copy()
            X = np.delete(X, self.column, axis=1)
        else:
            y = self.labels[start:stop]
        return as_exact(X), y


class NpyFile:
    """A .npy file whose rows are read without a map; holds no open file, so that it pickles."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        require_file(path)
        try:
            with Path(path).open("rb") as file:
                version = np.lib.format.read_magic(file)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                self.shape, is_fortran, self.dtype = read(file)
                self.offset = file.tell()
        except ValueError as error:
            raise InputError(f"{path} is not a .npy file: {error}") from error
        if is_fortran and len(self.shape) > 1:
            raise InputError(
                f"{path} is in Fortran order, whose rows are scattered over the file; save it "
                "with np.save(path, np.ascontiguousarray(X))"
            )
        if self.dtype.hasobject:
            raise InputError(f"{path} holds pickled objects; save numbers or short texts")
        self._buffers = Buffers()
        expected = self.offset + math.prod(self.shape) * self.dtype.itemsize
        if Path(path).stat().st_size < expected:
            raise InputError(f"{path} ends before its {self.shape[0]} rows do; is it complete?")

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows start:stop, read from the file."""
        start, stop, _ = rows.indices(self.shape[0])
        width = math.prod(self.shape[1:])
        row_bytes = width * self.dtype.itemsize
        raw = self._buffers.take((stop - start) * row_bytes)
        with Path(self.path).open("rb", buffering=0) as file:
            file.seek(self.offset + start * row_bytes)
            done, rest = 0, raw.data
            while done < raw.size:
                count = file.readinto(rest[done:])
                if not count:
                    raise InputError(f"{self.path} ends before row {stop}; is it complete?")
                done += count
        values = raw.view(self.dtype).reshape(stop - start, *self.shape[1:])
        return values.astype(values.dtype.newbyteorder("="), copy=False)


class Buffers:
    """Memory for blocks, used again once nobody holds a view of it.

    Fresh memory of this size costs a page fault for every 4 KB, more than reading a file that is
    in the page cache.
    """

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._pool: list[np.ndarray] = []
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> np.ndarray:
        """So many bytes, of any content."""
        with self._lock:
            for i in range(len(self._pool)):
                # the list's own reference, and that of the argument; a view would be another
                if sys.getrefcount(self._pool[i]) <= 2 and self._pool[i].size >= nbytes:
                    return self._pool[i][:nbytes]
            fresh = np.empty(nbytes, np.uint8)
            if len(self._pool) < self._most:
                self._pool.append(fresh)
            return fresh[:nbytes]

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return Buffers, (self._most,)


def _require_length(shape: tuple[int, ...], n: int, name: str) -> None:
    if shape != (n,):
        raise InputError(f"X has {n} rows but {name} has shape {shape}; they must agree")
