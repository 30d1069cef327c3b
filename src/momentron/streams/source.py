"""Where blocks of rows come from: the protocol, and arrays, files and users' own objects."""

import math
import mmap
import os
import tempfile
import weakref
from abc import ABC, abstractmethod
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.data.exactness.conversion import as_exact
from momentron.data.exactness.tensors import as_host, host_itemsize, is_dense, is_tensor
from momentron.data.files.columns import as_labels, position
from momentron.data.files.formats import parse_svmlight
from momentron.data.safefiles import naming, open_regular, reason, require_file
from momentron.errors import InputError, short
from momentron.rows import ComputedRows
from momentron.rows.validation import clean_targets

BLOCK_BYTES = 16 * 2**20
TEXT_BYTES = 8 * 2**20  # of svmlight text parsed at a time
ENTRY = np.dtype([("value", np.float64), ("index", np.int32)])  # of svmlight text, in binary


@runtime_checkable
class Source(Protocol):
    """Data in blocks of rows: the protocol that any store of data can follow.

    `len(source)` is the number of blocks, at least 1. `source.block(i)` gives (X, y): X of shape
    (m, d), m ≥ 1, dense or sparse, with the same d and the same kind in every block, and y with m
    labels. It is called from one thread at a time, in order, once per pass, and must give the same
    rows each time. Blocks of 4 to 64 MB work best. For a Dask cluster the source is pickled.

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


class TableSource(ABC):
    """A table whose rows can be read in any run, cut into blocks of about `block_size` bytes."""

    def cut(self, n_rows: int, row_bytes: float, block_size: int) -> None:
        """Choose how many rows make a block."""
        self.n_rows = n_rows
        self.rows = max(1, int(block_size / max(row_bytes, 1.0)))

    def __len__(self) -> int:
        return math.ceil(self.n_rows / self.rows)

    def block(self, i: int) -> tuple[Any, Any]:
        return self.read(slice(i * self.rows, min((i + 1) * self.rows, self.n_rows)))

    @abstractmethod
    def read(self, rows: slice) -> tuple[Any, Any]:
        """Some successive rows, and their labels."""


class ArraySource(TableSource):
    """An array, memory-map or sparse matrix that is there already, in blocks.

    Parameters
    ----------
    X : ndarray, memmap, sparse matrix, tensor or data frame of shape (n, d)
        For a dense tensor, each block is converted when it is read, on whatever device it is.
    y : array of shape (n,)
    block_size : int
        Bytes of a block.
    """

    def __init__(self, X: Any, y: Any, block_size: int = BLOCK_BYTES) -> None:
        if is_tensor(X):
            X = X.detach() if is_dense(X) else as_host(X)
        if sp.issparse(X):
            X = sp.csr_array(as_exact(X))
            row_bytes = 12.0 * X.nnz / max(X.shape[0], 1)
        else:
            is_by_block = is_tensor(X) or isinstance(X, np.ndarray | ComputedRows)
            X = X if is_by_block else as_exact(X)
            if X.ndim != 2 or 0 in X.shape:
                raise InputError(f"X has shape {tuple(X.shape)}; give 2-D with at least one row")
            row_bytes = (host_itemsize(X) if is_tensor(X) else X.itemsize) * X.shape[1]
        self.X, self.y = X, clean_targets(y, X.shape[0])
        self.cut(X.shape[0], row_bytes, block_size)

    def read(self, rows: slice) -> tuple[Any, Any]:
        X = self.X[rows]
        if isinstance(self.X, np.memmap):
            X, pages = np.array(X), getattr(self.X, "_mmap", None)
            if self.X.mode == "r" and pages is not None and hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED)  # they would count as this process's memory
        return X, self.y[rows]


class NpySource(TableSource):
    """A 2-D .npy file in C order, read with plain reads: pages of a map would count as memory.

    Parameters
    ----------
    path : path
    y : array of shape (n,), path of a .npy file, or position, optional
        The labels, or which column of the file holds them: by default the last.
    block_size : int
        Bytes of a block.
    """

    def __init__(self, path: str | Path, y: Any = None, block_size: int = BLOCK_BYTES) -> None:
        self.table, self.labels = NpyFile(path), y
        if len(self.table.shape) != 2 or 0 in self.table.shape:
            raise InputError(f"{path} has shape {self.table.shape}; give 2-D with at least one row")
        n, width = self.table.shape
        if isinstance(y, Path) or (isinstance(y, str) and y.lower().endswith(".npy")):
            self.labels = NpyFile(Path(y).expanduser())
            if self.labels.shape != (n,):
                raise InputError(
                    f"X has {n} rows but {y} has shape {self.labels.shape}; they must agree"
                )
        elif y is None or isinstance(y, str | Integral):
            if width < 2:
                raise InputError(f"{path} has 1 column; labels and features need at least 2")
            try:
                column = -1 if y is None else int(y)
            except ValueError:
                raise InputError(
                    f"y={short(y)} is neither a .npy file nor a position; a .npy file has no "
                    "column names"
                ) from None
            with naming(path):
                self.column = position(column, None, width, "the label column")
            self.labels = None
        else:
            self.labels = clean_targets(y, n)
        self.cut(n, width * self.table.dtype.itemsize, block_size)

    def read(self, rows: slice) -> tuple[Any, Any]:
        X = self.table[rows]
        if self.labels is not None:
            return as_exact(X), self.labels[rows]
        return as_exact(np.delete(X, self.column, axis=1)), X[:, self.column].copy()


class NpyFile:
    """A .npy file whose rows are read without a map; holds no open file, so that it pickles."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        require_file(path)
        try:
            mapped = np.lib.format.open_memmap(self.path, mode="r")
        except ValueError as error:
            raise InputError(
                f"{path} is not a .npy file that can be read in blocks: {error}; is it complete, "
                "and without pickled objects?"
            ) from error
        self.shape, self.dtype, self.offset = mapped.shape, mapped.dtype, mapped.offset
        if not mapped.flags.c_contiguous:
            raise InputError(
                f"{path} is in Fortran order, whose rows are scattered over the file; save it "
                "with np.save(path, np.ascontiguousarray(X))"
            )

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows start:stop, read from the file."""
        start, stop, _ = rows.indices(self.shape[0])
        width = math.prod(self.shape[1:])
        offset = self.offset + start * width * self.dtype.itemsize
        values = np.fromfile(self.path, self.dtype, (stop - start) * width, offset=offset)
        if values.size < (stop - start) * width:
            raise InputError(f"{self.path} ends before row {stop}; is it complete?")
        values = values.reshape(stop - start, *self.shape[1:])
        return values.astype(values.dtype.newbyteorder("="), copy=False)


class SvmlightSource(TableSource):
    """Lines of `label index:value …`, as sparse blocks.

    The text is parsed once, when it is opened: its entries go in binary to a private file next to
    the text, or where temporary files go. That file is removed with the source.
    """

    def __init__(self, path: str | Path, block_size: int = BLOCK_BYTES) -> None:
        require_file(path)
        folder = Path(path).absolute().parent
        try:
            self._convert(path, folder if os.access(folder, os.W_OK) else None)
        except OSError as error:
            raise InputError(
                f"{path} cannot be converted: {reason(error)}; copy the text to a folder that you "
                "may write to, with room for its numbers in binary"
            ) from error
        self.cut(self.labels.size, 12.0 * self.indptr[-1] / self.labels.size, block_size)

    def _convert(self, path: str | Path, folder: Path | None) -> None:
        """Write the entries of the text, and keep where its rows begin."""
        handle, self.file = tempfile.mkstemp(prefix=".momentron-", dir=folder)
        remove = weakref.finalize(self, _remove, self.file, os.getpid())
        try:
            with os.fdopen(handle, "wb") as binary:
                self._write_entries(path, binary)
        except BaseException:
            remove()
            raise

    def _write_entries(self, path: str | Path, binary: Any) -> None:
        lengths, labels, top, least, line = [np.zeros(1, np.int64)], [], -1, 2**31, 1
        with open_regular(path) as file:
            while text := file.read(TEXT_BYTES) + file.readline():  # whole lines
                require_time()
                with naming(path):
                    X, y = parse_svmlight(text, line, zero_based=True)
                line += text.count(b"\n")
                entries = np.empty(X.nnz, ENTRY)
                entries["value"], entries["index"] = X.data, X.indices
                binary.write(entries.tobytes())
                lengths.append(np.diff(X.indptr).astype(np.int64))
                labels.append(y)
                if X.nnz:
                    top, least = max(top, int(X.indices.max())), min(least, int(X.indices.min()))
        if not labels or top < 0:
            raise InputError(f"{path} has no rows with features; give 'label index:value' lines")
        self.base = 0 if least == 0 else 1  # indices count from 1, unless one is 0
        self.width = top + 1 - self.base
        self.indptr = np.cumsum(np.concatenate(lengths))
        with naming(path):
            self.labels = as_labels(np.concatenate(labels))

    def read(self, rows: slice) -> tuple[Any, np.ndarray]:
        begin, end = int(self.indptr[rows.start]), int(self.indptr[rows.stop])
        entries = np.fromfile(self.file, ENTRY, end - begin, offset=begin * ENTRY.itemsize)
        indices = entries["index"] - np.int32(self.base)
        is_whole = entries.size == end - begin
        # compiled code would read and write outside its arrays
        if not is_whole or indices.min(initial=0) < 0 or indices.max(initial=0) >= self.width:
            raise InputError(f"{self.file} changed while it was in use; run again")
        indptr = (self.indptr[rows.start : rows.stop + 1] - begin).astype(np.int32)
        shape = rows.stop - rows.start, self.width
        return sp.csr_array((entries["value"].copy(), indices, indptr), shape), self.labels[rows]


def _remove(file: str, process: int) -> None:
    if os.getpid() == process:  # a fork must not take the file from its parent
        Path(file).unlink(missing_ok=True)
