"""Columns of a table: numbers, truth values or text, with what is missing in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.exactness import as_decimal, first_changed
from momentron.data.files._common import fail, is_number, some
from momentron.data.files.layout import COMMA_NUMBER
from momentron.data.files.options import TableOptions
from momentron.data.files.svmlight import describe_change
from momentron.errors import one_line, short

TRUTH = {"true": 1.0, "false": 0.0, "t": 1.0, "f": 0.0}
ID_NAMES = frozenset({"id", "index", "row", "rownames", "row_names", "rowid", "unnamed: 0"})
LONG = 16  # characters from which a decimal may not be the shortest of its float


@dataclass(frozen=True, eq=False)
class Column:
    """One column, read.

    Attributes
    ----------
    name : str
    place : int
        Its position in the file.
    kind : {"number", "boolean", "text"}
    values : ndarray
        float64, NaN where a value is missing; of text, objects.
    missing : ndarray of bool
    """

    name: str
    place: int
    kind: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]

    @property
    def present(self) -> NDArray[Any]:
        return self.values[~self.missing]

    @property
    def is_identifier(self) -> bool:
        """Whether it names rows: called so, with a whole number or text of its own per row."""
        word = self.name.lower()
        if not (word in ID_NAMES or word.endswith(("_id", ".id", " id"))):
            return False
        values = self.present
        is_whole = self.kind == "text" or (values == np.trunc(values)).all()
        return bool(is_whole) and len(set(values.tolist())) == values.size > 1

    def rows(self, keep: NDArray[np.bool_]) -> Column:
        """Some rows of it."""
        return Column(self.name, self.place, self.kind, self.values[keep], self.missing[keep])

    def dummies(self, shown: str, levels: Sequence[str] | None) -> tuple[list[str], list[Any]]:
        """(names, columns) of its levels but the first; those of an earlier reading if given."""
        found = sorted(set(self.present.tolist()))
        if levels is None:
            levels = found
            if len(found) == self.present.size > 2:
                fail(
                    shown,
                    f"column {short(self.name)} has {len(found)} different texts in as many rows, "
                    f"so it is no category; leave it out with --drop {one_line(self.name, 40)}",
                )
        unknown = [level for level in found if level not in levels]
        if unknown:
            fail(
                shown,
                f"column {short(self.name)} has {len(unknown)} levels that the model has not seen: "
                f"{some(unknown)}",
            )
        names = [f"{self.name}[{level}]" for level in levels[1:]]
        return names, [(self.values == level).astype(np.float64) for level in levels[1:]]


def read_column(
    shown: str,
    name: str,
    place: int,
    cells: list[str],
    lines: Sequence[int],
    options: TableOptions,
    decimal: str,
) -> Column:
    """A column of cells, each of which has a line number for messages."""
    missing = np.array([options.is_missing(cell) for cell in cells], bool)
    given = [cell for cell, is_gone in zip(cells, missing.tolist(), strict=True) if not is_gone]
    if decimal == ",":
        given = [cell.replace(",", ".") if COMMA_NUMBER.fullmatch(cell) else cell for cell in given]
    kept = np.flatnonzero(~missing)
    if all(map(is_number, given)):
        numbers = np.array([float(cell) for cell in given])
        values = np.full(len(cells), np.nan)
        values[kept] = numbers
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            line, cell = lines[kept[bad[0]]], given[bad[0]]
            fail(
                shown,
                f"line {line}, column {short(name)}: {short(cell)} is not finite; remove the row",
            )
        changed = first_changed(given, numbers)
        if changed is not None:
            change = describe_change(given[changed], float(numbers[changed]))
            fail(shown, f"line {lines[kept[changed]]}, column {short(name)}: {change}")
        return Column(name, place, "number", values, missing)
    if all(cell.lower() in TRUTH for cell in given):
        values = np.full(len(cells), np.nan)
        values[kept] = [TRUTH[cell.lower()] for cell in given]
        return Column(name, place, "boolean", values, missing)
    return Column(name, place, "text", np.array(cells, object), missing)


def require_numbers(
    shown: str, column: Column, lines: Sequence[int], options: TableOptions, place_word: str
) -> None:
    """Refuse a feature column of text, unless it is to become dummies."""
    if column.kind != "text":
        return
    is_word = np.array([not is_number(str(cell)) for cell in column.values]) & ~column.missing
    words, n_present = int(is_word.sum()), column.present.size
    if column.name in options.levels or (options.dummies and words == n_present):
        return
    at = int(is_word.argmax())
    cell = str(column.values[at])
    remedy = f"--dummies for categories, --na {short(cell)} if it stands for a missing value"
    if words < n_present:
        remedy = f"--na {short(cell)} if it stands for a missing value"
        if COMMA_NUMBER.fullmatch(cell):
            remedy = "--decimal , for decimal commas"
    fail(
        shown,
        f"{place_word} {lines[at]}, column {short(column.name)} (position {column.place}): "
        f"{one_line(repr(cell), 40)} is not a number; {_others(words, n_present)}; {remedy}, or "
        f"--drop {one_line(column.name, 40)}",
    )


def _others(words: int, n_present: int) -> str:
    """How many of the other cells of a column are no numbers either."""
    rest = n_present - 1
    others, verb = ("the other cell", "is") if rest == 1 else (f"the other {rest} cells", "are")
    if not rest:
        return "it is the only cell of this column"
    if words == 1:
        return f"{others} of this column {verb}"
    if words == n_present:
        return f"nor {verb} {others} of this column"
    return f"nor are {words - 1} more of the {n_present} cells of this column"


def n_longer(cells: Sequence[str], values: NDArray[Any]) -> int:
    """How many cells are written with more digits than the shortest decimal of their float."""
    count = 0
    for cell, value in zip(cells, values.tolist(), strict=True):
        if len(cell) >= LONG and is_number(cell):
            count += Fraction(cell) != as_decimal(value)
    return count
