"""Text tables: from lines to columns of numbers, truth values and text."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.exactness import describe_change, first_changed, may_change
from momentron.data.files._common import DataFile, fail, is_number
from momentron.data.files.columns import Column, TableColumns
from momentron.data.files.layout import COMMA_NUMBER, Layout, find_layout, read_rows, split_lines
from momentron.data.files.table_options import TableOptions
from momentron.errors import counted, short

TRUTH = {"true": 1.0, "false": 0.0, "t": 1.0, "f": 0.0}
FEW = 100  # rows up to which cells are converted one by one
LONG = 16  # characters from which a decimal may not be the shortest of its float


def read_table(shown: str, text: str, options: TableOptions, usual: str | None) -> DataFile:
    """Read a table of text; `usual` is the delimiter that its suffix suggests."""
    # labels are compared as they are written; counts of successes are numbers
    as_text = options.failures is None
    return read_columns(shown, text, options, usual, labels_as_text=as_text).as_data(options)


def read_columns(
    shown: str, text: str, options: TableOptions, usual: str | None, *, labels_as_text: bool
) -> TableColumns:
    """The columns of a table of text; `usual` is the delimiter that its suffix suggests."""
    lines = split_lines(shown, text)
    layout = find_layout(shown, lines, options, usual)
    text_columns = (layout.target if labels_as_text else None, layout.row_names)
    words = {place for place in text_columns if place is not None}
    has_commas = layout.delimiter != "," and (options.decimal == "," or "," in text)
    is_plain = options.na is None and not has_commas and not may_change(text.encode())
    cells, rows = _cells(shown, text, lines, layout, words if is_plain else None)
    decimal = _decimal_mark(shown, cells, layout, options)
    table = TableColumns(shown, layout, [], rows)
    if layout.is_sniffed:
        mark = {"\t": "tab", " ": "white space"}.get(layout.delimiter, repr(layout.delimiter))
        table.notes.append(f"delimiter {mark}")
    if decimal == ",":
        table.notes.append("decimal comma")
    for place, column in enumerate(cells):
        if column.dtype == object and place != layout.row_names:
            missing = _each(options.is_missing, column, bool)
            if place in words:
                column[missing] = None
            else:
                column = _as_values(table, column, missing, decimal)
        table.columns.append(column)
    if layout.row_names is not None:
        table.notes.append("row names from the first column")
    return table


def _cells(
    shown: str, text: str, lines: list[str], layout: Layout, words: Collection[int] | None
) -> tuple[list[Column], Sequence[int]]:
    """(columns, the lines in which their rows stand).

    Columns of nothing but finite numbers or truth values are of that type, except for those of
    `words`, or for all if it is None; others have text without white space around it.
    """
    mark, width = layout.delimiter, len(layout.names)
    start, n_rows = 0, len(lines) - (not lines[-1])
    if layout.is_named:
        start, n_rows = len(lines[0]) + 1, n_rows - 1
    # pandas fills up rows that are too short, and refuses those that are longer than the first
    is_even = n_rows > 0 and lines[layout.is_named].count(mark) == width - 1
    is_even = is_even and text.count(mark, start) == n_rows * (width - 1)
    if is_even and lines[0].strip() and mark != " " and '"' not in text[start:]:
        few = lines[layout.is_named :][:n_rows]
        columns = _parse_few(few, mark, words) if n_rows <= FEW and words is not None else None
        columns = columns or _parse(text[start:], mark, width, words)
        if columns is not None and len(columns[0]) == n_rows:
            return columns, range(1 + layout.is_named, 1 + layout.is_named + n_rows)
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, row in enumerate(read_rows(shown, lines, mark), start=1):
        if row and len(row) != width and (numbers or not layout.is_named):
            fail(
                shown,
                f"line {number}: {counted(len(row), 'column')} where the first line has {width}",
            )
        if row:
            numbers.append(number)
            rows += [row] if mark == " " else []
    del numbers[: layout.is_named]
    if not numbers:
        fail(shown, "has a header and no rows; give at least one row")
    if mark == " ":
        columns = [
            np.array(column, object) for column in zip(*rows[layout.is_named :], strict=True)
        ]
        return [_each(str.strip, column, object) for column in columns], numbers
    columns = _parse("\n".join(lines[number - 1] for number in numbers), mark, width, words)
    assert columns is not None, "all rows are equally long"
    return columns, numbers


def _parse_few(lines: list[str], mark: str, words: Collection[int]) -> list[Column] | None:
    """The columns of a few lines, where pandas would spend its time on each column.

    None where a cell outside of `words` is not a finite number.
    """
    if any("_" in line or not line.isascii() for line in lines):
        return None  # Python reads 1_000 as a number, and digits of all scripts
    rows, texts = [line.split(mark) for line in lines], dict[int, Column]()
    try:
        for place in words:
            texts[place] = np.array([row[place].strip() for row in rows], object)
            for row in rows:
                row[place] = "0"
        values = np.array([list(map(float, row)) for row in rows])
    except (IndexError, ValueError):  # lines of different lengths, or text
        return None
    if not np.isfinite(values).all():
        return None
    return [texts.get(place, values[:, place]) for place in range(values.shape[1])]


def _parse(text: str, mark: str, width: int, words: Collection[int] | None) -> list[Column] | None:
    """The columns of lines whose quotes are in order; None where one has too many cells."""
    import pandas as pd

    # since 3.1 the nearest float64 is the only way in which pandas reads a number
    is_old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    try:
        frame = pd.read_csv(
            io.BytesIO(text.encode()),
            sep=mark,
            header=None,
            names=range(width),
            index_col=False,
            dtype=object if words is None else dict.fromkeys(words, object),
            na_filter=False,
            skip_blank_lines=False,
            low_memory=False,
            lineterminator="\n",
            **({"float_precision": "round_trip"} if is_old else {}),
        )
    except pd.errors.ParserError:
        return None
    columns: list[Column] = []
    for _, values in frame.items():
        column = values.to_numpy()
        if column.dtype.kind in "iuf":
            column = column.astype(np.float64, copy=False)
            if not np.isfinite(column).all():
                return _parse(text, mark, width, None)
        columns.append(_each(str.strip, column, object) if column.dtype == object else column)
    return columns


def _each(function: Callable[[str], Any], cells: NDArray[Any], dtype: type) -> NDArray[Any]:
    """A function of each cell, which is called once for all that are equal."""
    import pandas as pd

    codes, found = pd.factorize(cells)
    return np.array([function(cell) for cell in found], dtype)[codes]


def _decimal_mark(shown: str, cells: list[Column], layout: Layout, options: TableOptions) -> str:
    """The mark before decimals, as it is said or as the cells show it."""
    if options.decimal is not None or layout.delimiter == ",":
        return options.decimal or "."
    found = {
        place: texts
        for place, column in enumerate(cells)
        if column.dtype == object
        and place != layout.row_names
        and (texts := [cell for cell in column if COMMA_NUMBER.fullmatch(cell)])
    }
    if not found:
        return "."
    place, texts = next(iter(found.items()))
    name = short(layout.names[place]) if layout.is_named else str(place)
    where = f"column {name} has {counted(len(texts), 'cell')} such as {texts[0]}"
    points = sum("." in cell and is_number(cell) for column in cells for cell in column)
    if points:
        fail(
            shown,
            f"{where}, and {counted(points, 'cell')} with a decimal point; say --decimal , or .",
        )
    if all(_may_be_thousands(cell) for texts in found.values() for cell in texts):
        fail(shown, f"{where}, decimals or thousands; say --decimal , or remove the commas")
    return ","


def _may_be_thousands(cell: str) -> bool:
    before, _, after = cell.lstrip("+-").partition(",")
    return len(after) == 3 and 1 <= len(before) <= 3 and not before.startswith("0")


def _as_values(
    table: TableColumns, cells: Column, missing: NDArray[np.bool_], decimal: str
) -> Column:
    """Numbers, truth values or text of the next column of a table."""
    given, places = cells[~missing].tolist(), np.flatnonzero(~missing)
    pointed = next((i for i, cell in enumerate(given) if decimal == "," and "." in cell), None)
    if decimal == ",":
        given = [cell.replace(",", ".") if COMMA_NUMBER.fullmatch(cell) else cell for cell in given]
    values = np.full(len(cells), np.nan)
    if not all(map(is_number, given)):
        if not all(cell.lower() in TRUTH for cell in given):
            cells[missing] = None
            return cells
        values[places] = [TRUTH[cell.lower()] for cell in given]
        return values if missing.any() else values.astype(bool)
    values[places] = numbers = np.array([float(cell) for cell in given])
    name = table.layout.names[len(table.columns)]
    if pointed is not None:
        fail(
            table.shown,
            f"line {table.rows[places[pointed]]}, column {short(name)}: {short(given[pointed])} "
            "has a point, but decimals have commas here; remove points between thousands",
        )
    infinite, changed = np.flatnonzero(~np.isfinite(numbers)), first_changed(given, numbers)
    wrong = int(infinite[0]) if infinite.size else changed
    if wrong is not None:
        what = f"{short(given[wrong])} is not finite; remove the row"
        if not infinite.size:
            what = describe_change(given[wrong], float(numbers[wrong]))
        fail(table.shown, f"line {table.rows[places[wrong]]}, column {short(name)}: {what}")
    pairs = zip(given, map(repr, numbers.tolist()), strict=True)
    longer = sum(Decimal(a) != Decimal(b) for a, b in pairs if len(a) >= LONG and a != b)
    if longer:
        table.notes.append(
            f"{counted(longer, 'cell')} of {name} with more digits than float64 keeps, taken as "
            "the shortest decimals of their floats"
        )
    return values
