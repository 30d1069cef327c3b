"""Svmlight text as a matrix and labels, with every number as it is written."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from momentron.data.exactness import describe_change, first_changed, may_change
from momentron.data.files._common import DataFile, fail, is_number, labels
from momentron.data.files.options import TableOptions
from momentron.errors import InputError, one_line, short

PIECE = 1 << 16  # numbers compared with what was read of them at a time


def read_svmlight(shown: str, text: str, options: TableOptions) -> DataFile:
    """Read lines of `label index:value ...`."""
    why = "svmlight puts the label first in each line, and names no columns"
    options.require_plain(shown, why, but=("drop_na", "open_labels"))
    try:
        X, y = parse_svmlight(text.encode())
    except InputError as error:
        fail(shown, f"cannot be used: {error}", error)
    except (ValueError, OverflowError) as error:
        _locate_fault(shown, text)
        fail(shown, f"cannot be read as svmlight: {one_line(error)}", error)
    if not len(y) or X.shape[1] == 0:
        fail(shown, "has no rows with features; give at least one 'label index:value' line")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        _locate_fault(shown, text)
    return DataFile(X, labels(shown, y))


def _locate_fault(shown: str, text: str) -> None:
    """Raise for the first label, index or value that cannot be one."""
    for number, line in enumerate(text.split("\n"), start=1):
        cells = line.split("#", 1)[0].split()
        if cells and not (is_number(cells[0]) and np.isfinite(float(cells[0]))):
            fail(shown, f"line {number}: label {one_line(repr(cells[0]), 40)} is not a number")
        last = -1
        for cell in cells[1:]:
            index, _, value = cell.partition(":")
            if index == "qid":
                continue
            bad = one_line(repr(cell), 40)
            if not index.isdecimal() or not is_number(value) or not np.isfinite(float(value)):
                fail(shown, f"line {number}: {bad} is not index:value with a finite value")
            if int(index) <= last:
                fail(shown, f"line {number}: {bad} comes after index {last}; sort the indices")
            last = int(index)


def parse_svmlight(text: bytes, line: int = 1, **options: Any) -> tuple[Any, np.ndarray]:
    """Return (X, y) as scikit-learn reads them, or raise where float64 does not hold a number.

    Parameters
    ----------
    text : bytes
    line : int
        The number of its first line, for the message.
    **options
        Passed to `sklearn.datasets.load_svmlight_file`.
    """
    from sklearn.datasets import load_svmlight_file

    if b"_" in text:
        _refuse_underscores(text, line)
    X, y = load_svmlight_file(io.BytesIO(text), **options)
    if may_change(text):
        _require_kept(text, X, y, line)
    return X, y


def _refuse_underscores(text: bytes, line: int) -> None:
    """Raise for 1_000, which Python reads as a number and files do not mean as one."""
    for number, content in enumerate(text.split(b"\n"), start=line):
        for cell in content.split(b"#", 1)[0].split():
            if b"_" in cell:
                shown = cell[:40].decode("latin-1")
                raise InputError(
                    f"line {number}: {short(shown)} has an underscore; write plain numbers"
                )


def _require_kept(text: bytes, X: Any, y: np.ndarray, line: int) -> None:
    """Raise for the first number of the text that is not kept; y and X are what was read of it."""
    if b"#" in text or b"qid" in text:
        text = re.sub(rb"#[^\n]*|qid:\S*", b"", text)
    cells = text.replace(b":", b" ").split()
    if len(cells) != y.size + 2 * X.data.size:
        raise InputError(
            f"{len(cells)} cells are written after line {line - 1}, but {y.size} labels and "
            f"{X.data.size} entries were read; check the text"
        )
    # a label, then an index and a value for each entry of the row
    labels = np.arange(y.size) + 2 * X.indptr[:-1].astype(np.int64)
    values = np.arange(X.data.size) * 2 + 2 + np.repeat(np.arange(y.size), np.diff(X.indptr))
    for places, numbers, name in ((values, X.data, "value"), (labels, y, "label")):
        for start in range(0, places.size, PIECE):
            texts = [cells[place].decode("latin-1") for place in places[start : start + PIECE]]
            changed = first_changed(texts, numbers[start : start + PIECE])
            if changed is not None:
                row = int(np.searchsorted(labels, places[start + changed], side="right"))
                change = describe_change(texts[changed], float(numbers[start + changed]))
                raise InputError(f"row {row} after line {line - 1}: the {name} {change}")
