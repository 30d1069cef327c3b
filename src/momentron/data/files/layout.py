"""The layout of a text table: its delimiter, its header, its row names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from momentron.data.files._common import LABEL_NAMES, fail, is_number, position
from momentron.data.files.lines import is_blank, read_rows, try_rows
from momentron.data.files.options import TableOptions
from momentron.errors import short

SAMPLE = 50  # lines from which a delimiter is told
MARKS = (",", ";", "\t", "|")
ROW_NAMES = frozenset({"", "rownames", "row_names", "row.names", "unnamed: 0"})
COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_LOOKS_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-", "."})


@dataclass(frozen=True)
class Layout:
    """How the cells of a table are arranged.

    Attributes
    ----------
    delimiter : str
    is_sniffed : bool
        Whether the delimiter is not the one that the suffix names, and was found in the lines.
    first : list of str
        The cells of the first line, with an empty one above row names that have no heading.
    is_header : bool
        Whether the first line has names.
    target : int
        The position of the labels.
    why : str
        Why that column was taken.
    """

    delimiter: str
    is_sniffed: bool
    first: list[str]
    is_header: bool
    target: int
    why: str

    @property
    def names(self) -> list[str] | None:
        return self.first if self.is_header else None

    @property
    def row_names(self) -> int | None:
        """The position of row names: a first column without a heading, as R and pandas write."""
        is_first = self.first[0].lower() in ROW_NAMES
        return 0 if self.is_header and is_first and self.target != 0 else None

    def called(self, place: int) -> str:
        """What to call a column in a message."""
        if self.is_header and self.first[place]:
            return short(self.first[place])
        return str(place)


def find_layout(shown: str, lines: list[str], options: TableOptions, usual: str | None) -> Layout:
    """The layout of a table's lines, one of which is not blank; `usual` is what the suffix says."""
    filled = list(islice((line for line in lines if not is_blank(line)), SAMPLE))
    if not filled:
        fail(shown, "is empty; give at least one row")
    delimiter = options.delimiter or sniff(filled, usual)
    if delimiter is None:
        fail(shown, "has no delimiter that fits every line; name one with --delimiter")
    sample = list(islice(filter(None, read_rows(shown, lines, delimiter)), 3))
    first, second = sample[0], sample[min(1, len(sample) - 1)]
    if len(second) == len(first) + 1 and all(_is_text(cell) for cell in first):
        starts = [row[0] for row in sample[1:] if row]
        if len(set(starts)) == len(starts):
            first = ["", *first]  # R leaves out the heading of row names
    if len(first) < 2:
        other = sniff(filled, None)
        hint = "" if other in (None, delimiter) else f"; the cells look separated by {other!r}"
        fail(shown, f"has 1 column (delimiter {delimiter!r}); it needs a feature and a label{hint}")
    column, is_header, why = _label_column(shown, first, second, options)
    return Layout(delimiter, delimiter != usual, first, is_header, column, why)


def sniff(lines: list[str], usual: str | None) -> str | None:
    """The delimiter that gives every line as many cells, most of them numbers."""
    scores = {}
    for mark in MARKS:
        rows = try_rows(lines, mark)
        if rows is None:
            continue
        widths = {len(row) for row in rows[1:] if row} or {len(rows[0])}
        width = max(widths)
        if len(widths) == 1 and len(rows[0]) >= 2 and width - len(rows[0]) in (0, 1):
            cells = [cell for row in rows for cell in row]
            good = sum(is_number(cell) or bool(COMMA_NUMBER.fullmatch(cell)) for cell in cells)
            scores[mark] = (good / len(cells), mark == usual)
    if scores:
        return max(scores, key=lambda mark: scores[mark])
    if usual is not None:
        return usual
    return " " if all(len(line.split()) > 1 for line in lines) else None


def _label_column(
    shown: str, first: list[str], second: list[str], options: TableOptions
) -> tuple[int, bool, str]:
    """(position of the label column, whether the first line is a header, why that column)."""
    target = options.target
    # "-1" may be a position, and a label of the first row as well: it is a name in a header only.
    if isinstance(target, str) and target in first:
        column = first.index(target)
        if not is_number(target) or _is_header(first, second, column):
            return position(shown, target, first), True, "as asked"
    if target is not None:
        names = first if any(_is_text(cell) for cell in first) else None
        names = None if is_number(str(target)) else names
        column = position(shown, target, names, len(first))
        return column, _is_header(first, second, column), "as asked"
    named = [i for i, cell in enumerate(first) if cell.lower() in LABEL_NAMES]
    if len(named) == 1 and _is_header(first, second, named[0]):
        return named[0], True, "by its name"
    return len(first) - 1, _is_header(first, second, len(first) - 1), "the last column"


def _is_header(first: list[str], second: list[str], column: int) -> bool:
    features = first[:column] + first[column + 1 :]
    below = second[:column] + second[column + 1 :]
    if any(_is_text(cell) for cell in features):
        # text above text may be a row without a header, if a number is beside it
        has_number = any(is_number(cell) for cell in first)
        changes = len(below) != len(features) or any(
            _is_text(cell) and not _is_text(under)
            for cell, under in zip(features, below, strict=True)
        )
        return changes or not has_number
    word = first[column].lower()
    if word not in LABEL_NAMES:
        return False
    # Numbers above a word: columns numbered by a program, or a first row of class "y" or
    # "target". A number as the next label tells; else only 0, 1, 2, … passes for names.
    if len(second) == len(first) and is_number(second[column]):
        return True
    return word != "y" and features == [str(i) for i in range(len(features))]


def _is_text(cell: str) -> bool:
    is_number_here = is_number(cell) or COMMA_NUMBER.fullmatch(cell)
    return cell.lower() not in _LOOKS_MISSING and not is_number_here
