"""Named arrays and a few words in one file, checked in full when it is read.

    a line that says what the file is
    the SHA-256 of all that follows
    a line of JSON: the words, and each array's name, type and shape
    the arrays' bytes, one after the other

Nothing is unpacked or unpickled, and nothing larger than the file is ever made from it.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

Arrays = dict[str, np.ndarray]
HEADER_LIMIT = 2**20
_DIGEST = re.compile(rb"[0-9a-f]{64}\n")
_DTYPE = re.compile(r"[<>|][biufUS][0-9]{1,9}")


class ForeignFile(ValueError):
    """The file begins with another line."""


class DamagedFile(ValueError):
    """The file is not as it was written."""


def write_arrays(
    stream: IO[bytes], title: bytes, words: Mapping[str, str], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a file of this title."""
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in plain.items():
        if not _DTYPE.fullmatch(array.dtype.str):
            raise TypeError(f"array {name!r} has type {array.dtype}, which no file can hold")
    table = [[name, array.dtype.str, list(array.shape)] for name, array in plain.items()]
    header = json.dumps({"words": dict(words), "arrays": table}).encode() + b"\n"
    total = hashlib.sha256(header)
    for array in plain.values():
        total.update(bytes_of(array))
    stream.write(title + total.hexdigest().encode() + b"\n" + header)
    for array in plain.values():
        stream.write(bytes_of(array))


def read_arrays(stream: IO[bytes], title: bytes) -> tuple[dict[str, str], Arrays]:
    """The words and the arrays of a file of this title.

    Raises
    ------
    ForeignFile, DamagedFile
    MemoryError
        If the arrays would take more than the memory that is free; nothing was read then.
    """
    if stream.read(len(title)) != title:
        raise ForeignFile
    digest, header = stream.read(65), stream.readline(HEADER_LIMIT)
    if not _DIGEST.fullmatch(digest) or not header.endswith(b"\n"):
        raise DamagedFile
    total = hashlib.sha256(header)
    words, table = _parse(header)
    sizes = [np.dtype(kind).itemsize * math.prod(shape) for _, kind, shape in table]
    if os.fstat(stream.fileno()).st_size - stream.tell() != sum(sizes):
        raise DamagedFile
    free = free_memory()
    if sum(sizes) > free:
        raise MemoryError(f"takes {sum(sizes)} bytes, but only {free:.0f} are free")
    arrays: Arrays = {}
    try:
        for name, kind, shape in table:
            arrays[name] = np.empty(shape, kind)
    except ValueError as error:  # more dimensions than numpy has, or sizes that overflow
        raise DamagedFile from error
    for array in arrays.values():
        into = bytes_of(array)
        if _read_into(stream, into) != into.nbytes:
            raise DamagedFile
        total.update(into)
    if total.hexdigest().encode() != digest[:64]:
        raise DamagedFile
    if not all(map(_is_valid, arrays.values())):
        raise DamagedFile
    return words, arrays


def bytes_of(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, where they are."""
    if array.nbytes == 0:
        return memoryview(b"")
    return array.reshape(-1).view(np.uint8).data


def free_memory() -> float:
    """Bytes that may be taken without driving others out, as far as the system says."""
    try:
        with open("/proc/meminfo", "rb") as file:  # noqa: PTH123 - not a file, and never large
            found = re.search(rb"MemAvailable:\s+(\d+) kB", file.read(4096))
        return int(found[1]) * 1024.0 if found else math.inf
    except OSError:
        return math.inf


def _parse(header: bytes) -> tuple[dict[str, str], list[tuple[str, str, tuple[int, ...]]]]:
    try:
        content = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise DamagedFile from error
    if not isinstance(content, dict) or content.keys() != {"words", "arrays"}:
        raise DamagedFile
    words, table = content["words"], content["arrays"]
    if not isinstance(words, dict) or not all(isinstance(v, str) for v in words.values()):
        raise DamagedFile
    if not isinstance(table, list) or not all(map(_is_entry, table)):
        raise DamagedFile
    if len({name for name, _, _ in table}) != len(table):
        raise DamagedFile
    return words, [(name, kind, tuple(shape)) for name, kind, shape in table]


def _is_entry(entry: Any) -> bool:
    """Whether it is a name, a type and a shape."""
    if not isinstance(entry, list) or len(entry) != 3:
        return False
    name, kind, shape = entry
    if not (isinstance(name, str) and isinstance(kind, str) and _DTYPE.fullmatch(kind)):
        return False
    try:
        np.dtype(kind)
    except (TypeError, ValueError):
        return False
    return isinstance(shape, list) and all(
        type(length) is int and 0 <= length < 2**63 for length in shape
    )


def _is_valid(array: np.ndarray) -> bool:
    """Whether each entry is one of its type: truth values are 0 or 1, characters are Unicode."""
    if array.nbytes == 0:
        return True
    if array.dtype.kind == "b":
        return int(array.view(np.uint8).max()) <= 1
    if array.dtype.kind == "U":
        points = np.ascontiguousarray(array).reshape(-1)
        return int(points.view(array.dtype.str[0] + "u4").max()) <= 0x10FFFF
    return True


def _read_into(stream: IO[bytes], into: memoryview) -> int:
    done = 0
    while done < into.nbytes:
        count = stream.readinto(into[done:])  # type: ignore[attr-defined]
        if not count:
            break
        done += count
    return done
