"""Svmlight text, parsed once to binary parts in a folder that lives as long as the source."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.data.files._common import labels as as_labels
from momentron.data.files._common import require_file
from momentron.data.files.svmlight import parse_svmlight
from momentron.data.safefiles import open_regular, reason
from momentron.errors import InputError, one_line
from momentron.streams.source import BLOCK_BYTES, TableSource

TEXT_BYTES = 8 * 2**20  # of text parsed at a time
VALUES, INDICES = "values.bin", "indices.bin"


class SvmlightSource(TableSource):
    """Lines of `label index:value …`, as sparse blocks.

    The text is parsed once, when it is opened: the values and indices of the rows go to a folder
    next to the text, or where temporary files go, in binary. The folder is removed with the source.

    Parameters
    ----------
    path : path
    block_size : int
        Bytes of a block.
    """

    def __init__(self, path: str | Path, block_size: int = BLOCK_BYTES) -> None:
        path = Path(path)
        require_file(path)
        failure: OSError | None = None
        for parent in (path.absolute().parent, None):
            try:
                self.folder = Path(tempfile.mkdtemp(prefix=".momentron-", dir=parent))
                remove = weakref.finalize(self, _remove, self.folder, os.getpid())
            except OSError as error:
                failure = error
                continue
            try:
                self._convert(path)
                break
            except BaseException as error:
                remove()
                if not isinstance(error, OSError):
                    raise
                failure = error
        else:
            assert failure is not None
            raise InputError(
                f"{path} cannot be converted: {reason(failure)}; copy the text to a folder that "
                "you may write to, with room for its numbers in binary"
            ) from failure
        self.cut(self.labels.size, 12.0 * self.indptr[-1] / self.labels.size, block_size)

    def _convert(self, path: Path) -> None:
        """Write the values and indices of the text, and keep where its rows begin."""
        lengths, labels, top, least, line = [np.zeros(1, np.int64)], [], -1, 2**31, 1
        with (
            open_regular(path) as file,
            (self.folder / VALUES).open("xb") as values,
            (self.folder / INDICES).open("xb") as indices,
        ):
            while text := file.read(TEXT_BYTES) + file.readline():  # whole lines
                require_time()
                X, y = _parse(path, text, line)
                line += text.count(b"\n")
                values.write(X.data.astype(np.float64).tobytes())
                indices.write(X.indices.astype(np.int32).tobytes())
                lengths.append(np.diff(X.indptr).astype(np.int64))
                labels.append(y)
                if X.nnz:
                    top, least = max(top, int(X.indices.max())), min(least, int(X.indices.min()))
        if not labels or top < 0:
            raise InputError(f"{path} has no rows with features; give 'label index:value' lines")
        self.base = 0 if least == 0 else 1  # indices count from 1, unless one is 0
        self.width = top + 1 - self.base
        self.indptr = np.cumsum(np.concatenate(lengths))
        self.labels = as_labels(str(path), np.concatenate(labels))

    def read(self, rows: slice) -> tuple[Any, np.ndarray]:
        begin, end = int(self.indptr[rows.start]), int(self.indptr[rows.stop])
        data = self._part(VALUES, np.float64, begin, end)
        indices = self._part(INDICES, np.int32, begin, end) - np.int32(self.base)
        if indices.size and not (indices.min() >= 0 and indices.max() < self.width):
            raise self._changed()  # compiled code would read and write outside its arrays
        indptr = (self.indptr[rows.start : rows.stop + 1] - begin).astype(np.int32)
        X = sp.csr_array((data, indices, indptr), shape=(rows.stop - rows.start, self.width))
        return X, self.labels[rows]

    def _part(self, name: str, dtype: Any, begin: int, end: int) -> np.ndarray:
        offset = begin * np.dtype(dtype).itemsize
        values = np.fromfile(self.folder / name, dtype, end - begin, offset=offset)
        if values.size != end - begin:
            raise self._changed()
        return values

    def _changed(self) -> InputError:
        return InputError(f"{self.folder} changed while it was in use; run again")


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a fork must not take the folder from its parent
        shutil.rmtree(folder, ignore_errors=True)


def _parse(path: Path, text: bytes, line: int) -> tuple[Any, np.ndarray]:
    try:
        X, y = parse_svmlight(text, line, zero_based=True)
    except InputError as error:
        raise InputError(f"{path} {error}") from error
    except (ValueError, OverflowError) as error:
        last = line + text.count(b"\n")
        raise InputError(
            f"{path} cannot be read as svmlight between lines {line} and {last}: {one_line(error)}"
        ) from error
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise InputError(f"{path} has a value or label that is not finite after line {line}")
    return X, y
