"""Svmlight text as a matrix and labels, with every number as it is written."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from momentron.data.exactness.decimals import describe_change, first_changed, may_change
from momentron.data.files._common import DataFile, TableOptions, is_number, labels
from momentron.errors import InputError, one_line


def read_svmlight(text: str, options: TableOptions) -> DataFile:
    """Read lines of `label index:value ...`."""
    why = "svmlight puts the label first in each line, and names no columns"
    options.require_plain(why, but=("drop_na", "fitted"))
    X, y = parse_svmlight(text.encode())
    if not len(y) or X.shape[1] == 0:
        raise InputError("has no rows with features; give at least one 'label index:value' line")
    return DataFile(X, labels(y))


def parse_svmlight(text: bytes, line: int = 1, **options: Any) -> tuple[Any, np.ndarray]:
    """Return (X, y) as scikit-learn reads them, or raise for the first number that is not kept.

    `line` is the number of the first line, for the message; the options are those of
    `sklearn.datasets.load_svmlight_file`.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(text), **options)
    except (ValueError, OverflowError) as error:
        _locate_fault(text, line)
        raise InputError(f"cannot be read as svmlight: {one_line(error)}") from error
    if b"_" in text or not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        _locate_fault(text, line)
    if may_change(text):
        _require_kept(text, line)
    return X, y


def _locate_fault(text: bytes, line: int) -> None:
    """Raise for the first label, index or value that cannot be one."""
    for number, content in enumerate(text.decode("latin-1").split("\n"), start=line):
        last = -1
        for place, cell in enumerate(content.split("#", 1)[0].split()):
            index, _, value = cell.partition(":")
            what = None
            if "_" in cell:  # Python reads 1_000, files do not mean it
                what = "has an underscore; write plain numbers"
            elif place == 0 and not _is_finite(cell):
                what = "is not a number, so it cannot be a label"
            elif place == 0 or index == "qid":
                continue
            elif not index.isdecimal() or not _is_finite(value):
                what = "is not index:value with a finite value"
            elif int(index) <= last:
                what = f"comes after index {last}; sort the indices"
            if what is not None:
                raise InputError(f"line {number}: {one_line(repr(cell), 40)} {what}")
            last = int(index)


def _is_finite(cell: str) -> bool:
    return is_number(cell) and bool(np.isfinite(float(cell)))


def _require_kept(text: bytes, line: int) -> None:
    """Raise for the first number of the text that float64 does not keep."""
    for number, content in enumerate(text.decode("latin-1").split("\n"), start=line):
        label, *cells = content.split("#", 1)[0].replace(":", " ").split() or ["0"]
        texts = [label, *cells[3 if cells[:1] == ["qid"] else 1 :: 2]]
        numbers = np.array(texts, np.float64)
        changed = first_changed(texts, numbers)
        if changed is not None:
            kind = "value" if changed else "label"
            change = describe_change(texts[changed], float(numbers[changed]))
            raise InputError(f"line {number}: the {kind} {change}")
