"""Text files: svmlight, and tables by another suffix."""

from __future__ import annotations

import re

import numpy as np

from momentron.data.files._common import (
    DataFile,
    fail,
    is_number,
    labels,
    no_target,
    no_weight,
)
from momentron.data.files.options import TableOptions
from momentron.data.files.svmlight import parse_svmlight
from momentron.data.files.table import read_table, text_of
from momentron.errors import InputError, one_line

_SVMLIGHT_LINE = re.compile(r"\s*[+-]?[\d.]\S*(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?$")


def read_svmlight(shown: str, content: bytes, options: TableOptions) -> DataFile:
    """Read lines of `label index:value ...`."""
    no_target(shown, options.target, "svmlight puts the label first in each line")
    no_weight(shown, options.weight)
    options.require_plain(shown, "svmlight has no named columns")
    text = text_of(shown, content)
    try:
        X, y = parse_svmlight(text.encode())
    except InputError as error:
        fail(shown, f"cannot be used: {error}", error)
    except (ValueError, OverflowError) as error:
        _locate_svmlight(shown, text)
        fail(shown, f"cannot be read as svmlight: {one_line(error)}", error)
    if not len(y) or X.shape[1] == 0:
        fail(shown, "has no rows with features; give at least one 'label index:value' line")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        _locate_svmlight(shown, text)
    return DataFile(X, labels(shown, y))


def _locate_svmlight(shown: str, text: str) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
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


def read_txt(shown: str, content: bytes, options: TableOptions) -> DataFile:
    """Read svmlight or a table, whichever the first line looks like."""
    text = text_of(shown, content).lstrip()
    first = re.split("[\r\n]", text, maxsplit=1)[0]
    if options.delimiter is None and _SVMLIGHT_LINE.match(first):
        return read_svmlight(shown, content, options)
    return read_table(shown, content, options, None)
