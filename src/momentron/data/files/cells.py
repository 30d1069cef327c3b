"""Text tables: from lines to columns of numbers, truth values and text."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from momentron.data.exactness import describe_change, first_changed, may_change
from momentron.data.files._common import COMMA_NUMBER, fail, is_number
from momentron.data.files.columns import Column, Table
from momentron.data.files.layout import (
    count_cells,
    find_delimiter,
    split_lines,
    table_of,
)
from momentron.data.files.table_options import TableOptions
from momentron.errors import counted, short

TRUTH = {"true": 1.0, "false": 0.0, "t": 1.0, "f": 0.0}
FEW = 100  # rows up to which pandas would spend its time on each column
LONG = 16  # characters from which a decimal may not be the shortest of its float


def read_table(
    shown: str, text: str, options: TableOptions, usual: str | None, *, labels_as_text: bool
) -> Table:
    """The columns of a table of text; `usual` is the delimiter that its suffix suggests."""
    lines = split_lines(shown, text)
    delimiter = find_delimiter(shown, lines, options, usual)
    counts = count_cells(shown, text, lines, delimiter)
    numbers: Sequence[int] = range(1, len(lines) + 1)
    if 0 in counts:
        numbers = [number for number, count in zip(numbers, counts, strict=True) if count]
        lines = [lines[number - 1] for number in numbers]
        counts = [count for count in counts if count]
    table = table_of(shown, lines, numbers, delimiter, options)
    width = len(table.names)
    if table.is_named:
        lines, counts = lines[1:], counts[1:]
    if not lines:
        fail(shown, "has a header and no rows; give at least one row")
    if counts.count(width) < len(counts):
        uneven = next(i for i, count in enumerate(counts) if count != width)
        found = counted(counts[uneven], "column")
        fail(shown, f"line {table.rows[uneven]}: {found} where the first line has {width}")
    if delimiter != usual:
        mark = {"\t": "tab", " ": "white space"}.get(delimiter, repr(delimiter))
        table.notes.append(f"delimiter {mark}")
    text_columns = (table.target if labels_as_text else None, table.row_names)
    words = {place for place in text_columns if place is not None}
    columns = _parse(lines, delimiter, width, words, options)
    decimal = options.decimal or "."
    if options.decimal is None and delimiter != ",":
        decimal = _decimal_mark(table, columns)
    if decimal == ",":
        table.notes.append("decimal comma")
    for place, cells in enumerate(columns):
        if cells.dtype == object:
            is_word = place in words
            cells = _as_values(table, place, cells, None if is_word else decimal, options)
        table.columns.append(cells)
    if table.row_names is not None:
        table.notes.append("row names from the first column")
    return table


def _parse(
    lines: list[str], delimiter: str, width: int, words: Collection[int], options: TableOptions
) -> list[Column]:
    """The columns of lines that have as many cells each.

    Columns of nothing but finite numbers or truth values are of that type, except for those of
    `words`, unless their text is needed: to see the decimals, or what stands for missing values.
    Others are of text.
    """
    content = "\n".join(lines).encode()
    has_commas = delimiter != "," and (options.decimal == "," or b"," in content)
    if options.na is not None or has_commas or may_change(content):
        return _read_csv(content, delimiter, width, None)
    if len(lines) <= max(FEW, width) and delimiter != " " and b'"' not in content:
        columns = _read_numbers(lines, delimiter, width, words)
        if columns is not None:
            return columns
    columns = _read_csv(content, delimiter, width, words)
    if all(column.dtype == object or np.isfinite(column).all() for column in columns):
        return columns
    return _read_csv(content, delimiter, width, None)


def _read_numbers(
    lines: list[str], delimiter: str, width: int, words: Collection[int]
) -> list[Column] | None:
    """The columns of a few lines; None where a cell outside `words` is not a finite number."""
    others = [place for place in range(width) if place not in words]
    try:
        values = np.loadtxt(lines, delimiter=delimiter, comments=None, usecols=others, ndmin=2)
    except ValueError:
        return None
    if not np.isfinite(values).all():
        return None
    columns = dict(zip(others, values.T, strict=True))
    for place in words:
        columns[place] = np.array([line.split(delimiter)[place] for line in lines], object)
    return [columns[place] for place in range(width)]


def _read_csv(
    content: bytes, delimiter: str, width: int, words: Collection[int] | None
) -> list[Column]:
    """The columns as pandas reads them, text for those of `words`, or for all if it is None."""
    import pandas as pd

    # since 3.1 the nearest float64 is the only way in which pandas reads a number
    is_old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    frame = pd.read_csv(
        io.BytesIO(content),
        sep=r"\s+" if delimiter == " " else delimiter,
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
    columns = [values.to_numpy() for _, values in frame.items()]
    return [c.astype(np.float64, copy=False) if c.dtype.kind in "iu" else c for c in columns]


def _decimal_mark(table: Table, columns: list[Column]) -> str:
    """The mark before decimals, as the cells show it."""
    commas = {
        place: found
        for place, column in enumerate(columns)
        if column.dtype == object and place != table.row_names
        if (found := [cell for cell in map(str.strip, column) if COMMA_NUMBER.fullmatch(cell)])
    }
    if not commas:
        return "."
    place, found = next(iter(commas.items()))
    name = short(table.names[place])
    where = f"column {name} has {counted(len(found), 'cell')} such as {found[0]}"
    points = sum("." in cell and is_number(cell) for column in columns for cell in column)
    if points:
        fail(
            table.shown,
            f"{where}, and {counted(points, 'cell')} with a decimal point; say --decimal , or .",
        )
    if all(_may_be_thousands(cell) for found in commas.values() for cell in found):
        fail(table.shown, f"{where}, decimals or thousands; say --decimal , or remove the commas")
    return ","


def _may_be_thousands(cell: str) -> bool:
    before, _, after = cell.lstrip("+-").partition(",")
    return len(after) == 3 and 1 <= len(before) <= 3 and not before.startswith("0")


def _as_values(
    table: Table, place: int, column: Column, decimal: str | None, options: TableOptions
) -> Column:
    """Numbers, truth values or text of a column; text alone where there is no mark of decimals."""
    import pandas as pd

    codes, found = pd.factorize(column)
    cells = np.array([cell.strip() for cell in found], object)
    if place == table.row_names:
        return cells[codes]
    missing = np.array([options.is_missing(cell) for cell in cells], bool)
    given = cells[~missing].tolist()
    cells[missing] = None
    texts = given
    if decimal == ",":
        texts = [cell.replace(",", ".") if COMMA_NUMBER.fullmatch(cell) else cell for cell in given]
    values = np.full(len(cells), np.nan)
    if decimal is not None and all(map(is_number, texts)):
        values[~missing] = numbers = np.array([float(text) for text in texts])
        name, rows = table.names[place], np.flatnonzero(~missing)
        if fault := _fault_of(given, texts, numbers, decimal):
            line = table.rows[int(np.argmax(codes == rows[fault[0]]))]
            fail(table.shown, f"line {line}, column {short(name)}: {fault[1]}")
        is_longer = [
            len(text) >= LONG and text != shortest and Decimal(text) != Decimal(shortest)
            for text, shortest in zip(texts, map(repr, numbers.tolist()), strict=True)
        ]
        if any(is_longer):
            longer = int(np.isin(codes, rows[is_longer]).sum())
            table.notes.append(
                f"{counted(longer, 'cell')} of {name} with more digits than float64 keeps, taken "
                "as the shortest decimals of their floats"
            )
        return values[codes]
    if decimal is not None and all(cell.lower() in TRUTH for cell in given):
        values[~missing] = [TRUTH[cell.lower()] for cell in given]
        return values[codes] if missing.any() else values.astype(bool)[codes]
    return cells[codes]


def _fault_of(
    given: list[str], texts: list[str], numbers: NDArray[np.float64], decimal: str
) -> tuple[int, str] | None:
    """(the place of the first cell that is not the number it was read as, why), if there is one."""
    pointed = next((i for i, cell in enumerate(given) if decimal == "," and "." in cell), None)
    if pointed is not None:
        what = "has a point, but decimals have commas here; remove points between thousands"
        return pointed, f"{short(given[pointed])} {what}"
    infinite = np.flatnonzero(~np.isfinite(numbers))
    if infinite.size:
        return infinite[0], f"{short(given[infinite[0]])} is not finite; remove the row"
    changed = first_changed(texts, numbers)
    if changed is not None:
        return changed, describe_change(texts[changed], float(numbers[changed]))
    return None
