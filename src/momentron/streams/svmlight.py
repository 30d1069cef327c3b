"""Svmlight text, converted once to binary parts beside it."""

import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from momentron.datafiles._common import labels as as_labels
from momentron.datafiles._common import one_line, require_file
from momentron.datafiles.svmlight import parse_svmlight
from momentron.errors import InputError
from momentron.streams.source import BLOCK_BYTES, NpyFile, rows_of

VERSION = 1
TEXT_BYTES = 8 * 2**20  # of text parsed at a time


class SvmlightSource:
    """Lines of `label index:value …`, as sparse blocks.

    The text is parsed once into a folder beside it, name.momentron-cache, with the rows' values,
    indices and labels in numpy's format; parsed again when the text's size or time changes. The
    folder appears at once and whole. Where the text's own folder cannot be written to, say so by
    converting the file yourself.

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
        header = _read_header(self.folder)
        if header is None or header["text"] != _stamp(path):
            convert(path, self.folder)
            header = _read_header(self.folder)
            assert header is not None
        self.width, self.base = int(header["width"]), int(header["base"])
        self.indptr = np.load(self.folder / "indptr.npy")
        self.labels = NpyFile(self.folder / "labels.npy")
        stored = 12.0 * self.indptr[-1] / max(self.indptr.size - 1, 1)
        self.rows = rows_of(block_size, stored)

    def __len__(self) -> int:
        return math.ceil((self.indptr.size - 1) / self.rows)

    def block(self, i: int) -> tuple[Any, np.ndarray]:
        start = i * self.rows
        stop = min(start + self.rows, self.indptr.size - 1)
        begin, end = int(self.indptr[start]), int(self.indptr[stop])
        data = self._part("values.bin", np.float64, begin, end)
        indices = self._part("indices.bin", np.int32, begin, end) - np.int32(self.base)
        indptr = (self.indptr[start : stop + 1] - begin).astype(np.int32)
        X = sp.csr_array((data, indices, indptr), shape=(stop - start, self.width))
        return X, self.labels.read(start, stop)

    def _part(self, name: str, dtype: Any, begin: int, end: int) -> np.ndarray:
        offset = begin * np.dtype(dtype).itemsize
        return np.fromfile(self.folder / name, dtype, end - begin, offset=offset)


def convert(path: Path, folder: Path) -> None:
    """Write the parts of a text's matrix to a folder, which appears when it is complete."""
    part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir()
    except OSError as error:
        raise InputError(
            f"{path} cannot be converted: {part} cannot be made ({one_line(error)}); copy the text "
            "to a folder that you may write to"
        ) from error
    try:
        stamp = _stamp(path)
        header = _write_parts(path, part) | {"version": VERSION, "text": stamp}
        (part / "header.json").write_text(json.dumps(header))
        if _stamp(path) != stamp:
            raise InputError(f"{path} changed while it was read; try again")
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_parts(path: Path, folder: Path) -> dict[str, int]:
    lengths, labels, top, least, line = [np.zeros(1, np.int64)], [], -1, 2**31, 1
    with (folder / "values.bin").open("wb") as values, (folder / "indices.bin").open("wb") as out:
        for text in _pieces(path):
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
    np.save(folder / "indptr.npy", np.cumsum(np.concatenate(lengths)))
    np.save(folder / "labels.npy", as_labels(str(path), np.concatenate(labels)))
    base = 0 if least == 0 else 1  # indices count from 1, unless one is 0
    return {"width": top + 1 - base, "base": base}


def _pieces(path: Path) -> Iterator[bytes]:
    """The text in pieces that end at line ends."""
    with path.open("rb") as file:
        while True:
            text = _piece(file)
            if not text:
                return
            yield text


def _piece(file: BinaryIO) -> bytes:
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


def _stamp(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _read_header(folder: Path) -> dict[str, Any] | None:
    """The header of a complete cache of this version, or None."""
    try:
        header = json.loads((folder / "header.json").read_text())
    except (OSError, ValueError):
        return None
    return header if header.get("version") == VERSION else None
