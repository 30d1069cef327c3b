"""Text files: tables split by a delimiter, and svmlight."""

from __future__ import annotations

import csv
import io
import re

import numpy as np

from momentron.datafiles._common import (
    LABEL_NAMES,
    DataFile,
    Target,
    fail,
    is_number,
    labels,
    no_target,
    one_line,
    position,
)
from momentron.datafiles.svmlight import describe_change, parse_svmlight
from momentron.errors import InputError
from momentron.exactness import doubtful_cells, is_kept, may_change

LINES = 4096  # of a table, compared with what was read of them at a time
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
_SVMLIGHT_LINE = re.compile(r"\s*[+-]?[\d.]\S*(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?$")


def _text(shown: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(shown, f"is not UTF-8 text (byte {error.start}); save it as UTF-8", error)
    if "\0" in text:
        fail(shown, "has zero bytes, so it is not a text file; give it its true suffix")
    return text


def read_table(shown: str, content: bytes, target: Target, delimiter: str = ",") -> DataFile:
    """Read a table with numeric features and a label column."""
    text = _text(shown, content)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    filled = [line for line in lines if line.strip(" ")]
    first, second = (
        [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
        for line in (filled[0], filled[min(1, len(filled) - 1)])
    )
    if len(first) < 2:
        fail(shown, f"has 1 column (delimiter {delimiter!r}); it needs a feature and a label")
    column, named = _label_column(shown, first, second, target)
    names = first if named else None
    body = filled[1:] if named else filled
    if not body:
        fail(shown, "has a header and no rows; give at least one row")

    codes: dict[str, int] = {}  # labels of any text pass through the number parser as codes
    try:
        table = np.loadtxt(
            body,
            delimiter=delimiter,
            comments=None,
            quotechar='"',
            ndmin=2,
            encoding="utf-8",
            converters={column: lambda cell: codes.setdefault(cell.strip(), len(codes))},
        )
    except ValueError as error:
        _locate(shown, text, delimiter, column, first, names)
        fail(shown, f"cannot be read as a table: {one_line(error)}", error)
    X = np.delete(table, column, axis=1)
    unlabelled = any(label.lower() in ("", "nan") for label in codes)
    if table.shape[1] != len(first) or unlabelled or not np.isfinite(X).all():
        _locate(shown, text, delimiter, column, first, names)
        fail(shown, "has a missing or infinite value; remove that row")
    if may_change(content):
        _require_kept(shown, body, delimiter, table, column, names)
    y = labels(shown, list(codes))[table[:, column].astype(np.int64)]
    if names is None:
        return DataFile(X, y)
    return DataFile(X, y, names[:column] + names[column + 1 :], names[column])


def _require_kept(
    shown: str,
    body: list[str],
    delimiter: str,
    table: np.ndarray,
    column: int,
    names: list[str] | None,
) -> None:
    """Refuse the first cell that float64 does not hold as it is written."""
    width = table.shape[1]
    for start in range(0, len(body), LINES):
        lines, values = body[start : start + LINES], table[start : start + LINES].ravel()
        # where a cell is quoted the count of cells may be wrong, and then all of them are in doubt
        cells = "\n".join(lines).replace(delimiter, "\n").encode()
        rows: list[list[str]] = []
        for place in doubtful_cells(cells, values):
            i, j = divmod(int(place), width)
            rows = rows or list(csv.reader(lines, delimiter=delimiter))
            if j != column and not is_kept(rows[i][j], float(values[place])):
                called = f"column {names[j]!r}" if names else f"column {j}"
                change = describe_change(rows[i][j], float(values[place]))
                fail(shown, f"row {start + i + 1} of the data, {called}: {change}")


def _label_column(
    shown: str, first: list[str], second: list[str], target: Target
) -> tuple[int, bool]:
    """Return the position of the label column, and whether the first row is a header."""
    # "-1" may be a position, and a label of the first row as well: it is a name in a header only.
    if isinstance(target, str) and target in first:
        column = first.index(target)
        if not is_number(target) or _is_header(first, second, column):
            return position(shown, target, first), True
    if target is not None:
        names = first if any(_is_text(cell) for cell in first) else None
        names = None if is_number(str(target)) else names
        column = position(shown, target, names, len(first))
        return column, _is_header(first, second, column)
    named = [i for i, cell in enumerate(first) if cell.lower() in LABEL_NAMES]
    if len(named) == 1 and _is_header(first, second, named[0]):
        return named[0], True
    return len(first) - 1, _is_header(first, second, len(first) - 1)


def _is_header(first: list[str], second: list[str], column: int) -> bool:
    features = first[:column] + first[column + 1 :]
    if any(_is_text(cell) for cell in features):
        return True
    word = first[column].lower()
    if word not in LABEL_NAMES:
        return False
    # Numbers above a word: columns numbered by a program, or a first row of class "y" or
    # "target". A number as the next label tells; else only 0, 1, 2, … passes for names.
    if len(second) == len(first) and is_number(second[column]):
        return True
    return word != "y" and features == [str(i) for i in range(len(features))]


def _is_text(cell: str) -> bool:
    return cell.lower() not in _MISSING and not is_number(cell)


def _locate(
    shown: str, text: str, delimiter: str, column: int, first: list[str], names: list[str] | None
) -> None:
    """Raise for the first bad cell; the slow reading that only a failed fast one pays for."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    skip = names is not None
    for row in reader:
        if not row or (len(row) == 1 and not row[0].strip()):
            continue
        if skip:
            skip = False
            continue
        where = f"row {reader.line_num}"
        if len(row) != len(first):
            fail(shown, f"{where}: {len(row)} columns where the first row has {len(first)}")
        for j, cell in enumerate(row):
            at = f"{where}, column {names[j]!r} (position {j})" if names else f"{where}, column {j}"
            value = cell.strip()
            if value.lower() in ("", "nan"):
                fail(shown, f"{at}: missing value {value!r}; fill it or remove the row")
            if j != column and not is_number(value):
                fail(shown, f"{at}: {one_line(repr(value), 40)} is not a number; encode it")
            if j != column and not np.isfinite(float(value)):
                fail(shown, f"{at}: {value!r} is not finite; remove the row")


def read_svmlight(shown: str, content: bytes, target: Target) -> DataFile:
    """Read lines of `label index:value ...`."""
    no_target(shown, target, "svmlight puts the label first in each line")
    text = _text(shown, content)
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
            fail(shown, f"row {number}: label {one_line(repr(cells[0]), 40)} is not a number")
        last = -1
        for cell in cells[1:]:
            index, _, value = cell.partition(":")
            if index == "qid":
                continue
            bad = one_line(repr(cell), 40)
            if not index.isdecimal() or not is_number(value) or not np.isfinite(float(value)):
                fail(shown, f"row {number}: {bad} is not index:value with a finite value")
            if int(index) <= last:
                fail(shown, f"row {number}: {bad} comes after index {last}; sort the indices")
            last = int(index)


def read_txt(shown: str, content: bytes, target: Target) -> DataFile:
    """Read svmlight or a table, whichever the first line looks like."""
    first = _text(shown, content).lstrip().splitlines()[0]
    if _SVMLIGHT_LINE.match(first):
        return read_svmlight(shown, content, target)
    delimiter = next((mark for mark in ("\t", ",") if mark in first), None)
    if delimiter is None:
        fail(shown, "is neither svmlight nor split by tabs or commas; convert it to .csv")
    return read_table(shown, content, target, delimiter)
