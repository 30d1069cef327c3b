"""Named arrays and a few words in one file, checked in full when it is read.

    a line that says what the file is
    the SHA-256 of all that follows
    a `.npz` of the arrays; the words are one of them, as JSON

Nothing is unpacked or unpickled, and nothing larger than the file is ever made from it.
"""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import IO

import numpy as np

from momentron.data.arguments import machine_memory

Arrays = dict[str, np.ndarray]
WORDS = "words"


class UnreadableFile(ValueError):
    """The file is of another kind or damaged, or larger than memory; its text goes on after the
    name of the file.
    """


def write_arrays(
    stream: IO[bytes], title: bytes, words: Mapping[str, str], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a file of this title."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.kind not in "biuf":
            raise TypeError(f"array {name!r} has type {array.dtype}, which no file can hold")
    packed = io.BytesIO()
    text = np.frombuffer(json.dumps(dict(words)).encode(), np.uint8)
    np.savez(packed, **{WORDS: text}, **arrays)  # type: ignore[arg-type]
    body = packed.getbuffer()
    stream.write(title + hashlib.sha256(body).hexdigest().encode() + b"\n")
    stream.write(body)


def read_arrays(stream: IO[bytes], title: bytes) -> tuple[dict[str, str], Arrays]:
    """The words and the arrays of a file of this title; nothing is read if memory is too small."""
    if stream.read(len(title)) != title:
        raise UnreadableFile("is not a checkpoint of this version")
    digest = stream.read(65)  # in hexadecimal, and the end of its line
    size, memory = os.fstat(stream.fileno()).st_size, machine_memory()
    if size > memory:
        raise UnreadableFile(f"takes {size} bytes, but only {memory:.0f} fit into memory")
    body = stream.read()
    try:
        if hashlib.sha256(body).hexdigest().encode() + b"\n" != digest:
            raise ValueError
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            members = archive.infolist()
        is_plain = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not is_plain or sum(member.file_size for member in members) > size:
            raise ValueError
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        words = json.loads(arrays.pop(WORDS).tobytes())
        is_sound = len(arrays) == len(members) - 1 and all(map(_is_numbers, arrays.values()))
        if not (is_sound and all(type(word) is str for word in words.values())):
            raise ValueError
    except Exception as error:  # zipfile, numpy and json raise anything for files nobody wrote
        raise UnreadableFile("is damaged") from error
    return words, arrays


def _is_numbers(array: np.ndarray) -> bool:
    """Whether an array has numbers, or flags that are 0 or 1."""
    if array.dtype.kind == "b":
        return int(array.view(np.uint8).max(initial=0)) <= 1
    return array.dtype.kind in "iuf"
