"""Svmlight text as a matrix and labels, with every number as it is written."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from momentron.data.exactness.decimals import describe_change, first_changed, may_change
from momentron.data.files.columns import is_number
from momentron.errors import InputError, one_line


def parse_svmlight(text: bytes, line: int = 1, **options: Any) -> tuple[Any, np.ndarray]:
    """Return (X, y) as scikit-learn reads them, or raise for the first number that is not kept.

    `line` is the number of the first line, for the message; the options are those of
    `sklearn.datasets.load_svmlight_file`.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(text), **options)
    except (ValueError, OverflowError) as error:
        _require_sound(text, line)
        raise InputError(f"cannot be read as svmlight: {one_line(error)}") from error
    is_sound = b"_" not in text and np.isfinite(X.data).all() and np.isfinite(y).all()
    if not is_sound or may_change(text):
        _require_sound(text, line, are_numbers=is_sound)
    return X, y


def _require_sound(text: bytes, line: int, *, are_numbers: bool = False) -> None:
    """Raise for the first label, index or value that cannot be one, or that float64 changes."""
    for number, content in enumerate(text.decode("latin-1").split("\n"), start=line):
        content = content.split("#", 1)[0]
        if not are_numbers and (fault := _fault_of(content.split())):
            raise InputError(f"line {number}: {fault}")
        label, *cells = content.replace(":", " ").split() or ["0"]
        texts = [label, *cells[3 if cells[:1] == ["qid"] else 1 :: 2]]
        numbers = np.array(texts, np.float64)
        changed = first_changed(texts, numbers)
        if changed is not None:
            kind = "value" if changed else "label"
            change = describe_change(texts[changed], float(numbers[changed]))
            raise InputError(f"line {number}: the {kind} {change}")


def _fault_of(cells: list[str]) -> str | None:
    """What is wrong with the first cell of a line that is not a label, or index:value."""
    last = -1
    for place, cell in enumerate(cells):
        index, _, text = cell.partition(":")
        text = text if place else cell
        is_finite = is_number(text) and math.isfinite(float(text))
        what = None
        if "_" in cell:  # Python reads 1_000, files do not mean it
            what = "has an underscore; write plain numbers"
        elif place == 0 and not is_finite:
            what = "is not a number, so it cannot be a label"
        elif place == 0 or index == "qid":
            continue
        elif not (index.isdecimal() and is_finite):
            what = "is not index:value with a finite value"
        elif int(index) <= last:
            what = f"comes after index {last}; sort the indices"
        if what is not None:
            return f"{one_line(repr(cell), 40)} {what}"
        last = int(index)
    return None
