"""Svmlight text, converted once to binary parts beside it."""

import hashlib
import math
import os
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from momentron.clock import require_time
from momentron.datafiles._common import labels as as_labels
from momentron.datafiles._common import require_file
from momentron.datafiles.svmlight import parse_svmlight
from momentron.errors import InputError, WriteWarning, one_line
from momentron.safefiles import create_private, open_regular, reason
from momentron.streams import converted
from momentron.streams.converted import Header, NotKept
from momentron.streams.source import BLOCK_BYTES, NpyFile, rows_of

TEXT_BYTES = 8 * 2**20  # of text parsed at a time


class SvmlightSource:
    """Lines of `label index:value …`, as sparse blocks.

    The text is parsed once into a folder beside it, name.momentron-cache, with the rows' values,
    indices and labels in binary. The folder is bound to the content of the text: opening it reads
    the text and the folder once, at the speed of SHA-256, some fifteen times faster than parsing.
    It is believed only where this user's momentron wrote it, and parsed anew otherwise. Where the
    folder cannot be kept, a private one serves as long as the source lives.

    Parameters
    ----------
    path : path
    block_size : int
        Bytes of a block.
    """

    def __init__(self, path: str | Path, block_size: int = BLOCK_BYTES) -> None:
        path = Path(path)
        require_file(path)
        self.folder = path.with_name(path.name + ".momentron-cache")
        header = converted.read_header(self.folder)
        if header is None or not _is_current(path, self.folder, header):
            header = self._convert(path)
        self.width, self.base = header.width, header.base
        self.indptr = np.load(self.folder / "indptr.npy", allow_pickle=False)
        self.labels = NpyFile(self.folder / "labels.npy")
        stored = 12.0 * self.indptr[-1] / max(self.indptr.size - 1, 1)
        self.rows = rows_of(block_size, stored)

    def _convert(self, path: Path) -> Header:
        """Parse the text; its parts go to their place, or stay in a folder of this source's own."""
        fresh, header = convert(path)
        try:
            converted.keep(fresh, self.folder, header)
        except NotKept as error:
            self.folder = fresh
            weakref.finalize(self, _remove_own, fresh, os.getpid())
            warnings.warn(
                f"the conversion of {path} is not kept for another run: {error}",
                WriteWarning,
                stacklevel=4,
            )
        except BaseException:
            converted.remove(fresh)
            raise
        return header

    def __len__(self) -> int:
        return math.ceil((self.indptr.size - 1) / self.rows)

    def block(self, i: int) -> tuple[Any, np.ndarray]:
        start = i * self.rows
        stop = min(start + self.rows, self.indptr.size - 1)
        begin, end = int(self.indptr[start]), int(self.indptr[stop])
        data = self._part("values.bin", np.float64, begin, end)
        indices = self._part("indices.bin", np.int32, begin, end) - np.int32(self.base)
        if indices.size and not (indices.min() >= 0 and indices.max() < self.width):
            raise self._changed()  # compiled code would read and write outside its arrays
        indptr = (self.indptr[start : stop + 1] - begin).astype(np.int32)
        X = sp.csr_array((data, indices, indptr), shape=(stop - start, self.width))
        return X, self.labels[start:stop]

    def _part(self, name: str, dtype: Any, begin: int, end: int) -> np.ndarray:
        offset = begin * np.dtype(dtype).itemsize
        with open_regular(self.folder / name, follow_links=False) as file:
            values = np.fromfile(file, dtype, end - begin, offset=offset)
        if values.size != end - begin:
            raise self._changed()
        return values

    def _changed(self) -> InputError:
        return InputError(f"{self.folder} changed while it was in use; run again")


def _is_current(path: Path, folder: Path, header: Header) -> bool:
    """Whether the folder is of the text as it is now, and whole."""
    try:
        _, digest = converted.digest_of_file(path, follow_links=True)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from error
    return digest == header.text and converted.is_whole(folder, header)


def _remove_own(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a fork must not take the folder from its parent
        converted.remove(folder)


def convert(path: Path) -> tuple[Path, Header]:
    """Parse a text into a new folder of its own: beside the text, or where temporary files go."""
    failure: OSError | None = None
    for parent in (path.absolute().parent, None):
        fresh = None
        try:
            fresh = Path(tempfile.mkdtemp(prefix=".momentron-", dir=parent))
            return fresh, _write_parts(path, fresh)
        except OSError as error:
            failure = error
            if fresh is not None:
                converted.remove(fresh)
        except BaseException:
            if fresh is not None:
                converted.remove(fresh)
            raise
    assert failure is not None
    raise InputError(
        f"{path} cannot be converted: {reason(failure)}; copy the text to a folder that you may "
        "write to, with room for its numbers in binary"
    ) from failure


def _write_parts(path: Path, folder: Path) -> Header:
    lengths, labels, top, least, line = [np.zeros(1, np.int64)], [], -1, 2**31, 1
    text_hash = hashlib.sha256()
    with (
        open_regular(path) as file,
        create_private(folder / "values.bin") as values,
        create_private(folder / "indices.bin") as out,
    ):
        while text := _piece(file):
            require_time()
            text_hash.update(text)
            X, y = _parse(path, text, line)
            line += text.count(b"\n")
            values.write(X.data.astype(np.float64).tobytes())
            out.write(X.indices.astype(np.int32).tobytes())
            lengths.append(np.diff(X.indptr).astype(np.int64))
            labels.append(y)
            if X.nnz:
                top, least = max(top, int(X.indices.max())), min(least, int(X.indices.min()))
    if not labels or top < 0:
        raise InputError(f"{path} has no rows with features; give 'label index:value' lines")
    with create_private(folder / "indptr.npy") as file:
        np.save(file, np.cumsum(np.concatenate(lengths)))
    with create_private(folder / "labels.npy") as file:
        np.save(file, as_labels(str(path), np.concatenate(labels)))
    base = 0 if least == 0 else 1  # indices count from 1, unless one is 0
    return Header(text_hash.hexdigest(), top + 1 - base, base, converted.measured(folder))


def _piece(file: IO[bytes]) -> bytes:
    """The next lines of the text, whole ones."""
    return file.read(TEXT_BYTES) + file.readline()


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
