"""Text tables: from lines to columns of numbers, truth values and text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from momentron.data.exactness.decimals import describe_change, first_changed, may_change
from momentron.data.files.columns import (
    COMMA_NUMBER,
    LABEL_NAMES,
    Column,
    FileColumns,
    is_number,
    label_position,
    position,
)
from momentron.data.table_options import TableOptions
from momentron.errors import InputError, counted, one_line, short

# what some programs take for the end of a line, and others for a part of a cell
DOUBTFUL = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
SAMPLE, SAMPLE_CHARACTERS = 50, 100_000  # lines from which a delimiter is told, fewer if long
TEXT_TABLES = {".csv": ",", ".tsv": "\t", ".txt": None}  # and their usual delimiters
DELIMITERS = (",", ";", "\t", "|")
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "."})  # in any case
LOOKS_MISSING = MISSING | {"none", "?", "-"}
ROW_NAMES = frozenset({"", "rownames", "row_names", "row.names", "unnamed: 0"})
SPACED = re.compile(r"[^ \t]+")  # other white space is a part of cells, as for pandas
TRUTH = {"true": 1.0, "false": 0.0, "t": 1.0, "f": 0.0}
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
FEW = 100  # rows up to which pandas would spend its time on each column
LONG = 16  # characters from which a decimal may not be the shortest of its float


# --- lines and cells ----------------------------------------------------------------------------


def text_of(content: bytes) -> str:
    """The text of a file, whose lines end in line feeds."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    if "\0" in text:
        raise InputError("has zero bytes, so it is not a text file; give it the right suffix")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def split_lines(text: str) -> list[str]:
    """The lines of a table, without their ends."""
    for character in DOUBTFUL:
        if character in text:
            before = text[: text.index(character)].split("\n")
            raise InputError(
                f"line {len(before)}, character {len(before[-1]) + 1}: {character!r} may be a line "
                "break or a part of a cell; remove it"
            )
    return text.removesuffix("\n").split("\n")


def cells_of(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    """The cells of lines, without white space around them."""
    if delimiter == " ":
        lines = (" ".join(SPACED.findall(line)) for line in lines)
    return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)]


def count_cells(text: str, lines: list[str], delimiter: str) -> list[int]:
    """The number of cells of each line of a text; 0 where it is blank.

    A cell stands in one line: quotes that are still open at the end of it are refused, and so is
    text after quotes have closed.
    """
    if '"' in text:
        marks = " \t" if delimiter == " " else re.escape(delimiter)
        opening = rf'"(?<![^{marks}\n]")'
        text = re.sub(rf'{opening}[^"\n]*(?:""[^"\n]*)*"(?![^{marks}\n])', "x", text)
        lines = text.split("\n")[: len(lines)]  # without what follows the last line feed
        if fault := re.search(rf"{opening}[^\n]*", text):
            rest, before = fault.group(), text[: fault.start()].split("\n")
            why = "text follows its closing quote; write a quote inside quotes as two"
            if re.fullmatch(r'"[^"]*(?:""[^"]*)*', rest):
                why = "its quote is not closed; a cell must end on the line on which it begins"
            column = len(cells_of([before[-1] + "x"], delimiter)[0]) - 1
            cell = one_line(repr(rest.split(delimiter)[0]), 40)
            raise InputError(f"line {len(before)}, column {column} ({cell}): {why}")
    if delimiter == " ":
        return [len(SPACED.findall(line)) for line in lines]
    counts = [line.count(delimiter) + 1 for line in lines]
    if 1 not in counts:
        return counts
    return [n if n > 1 or line.strip() else 0 for n, line in zip(counts, lines, strict=True)]


def sniff(lines: list[str], usual: str | None) -> str | None:
    """The delimiter that gives every line as many cells, most of them numbers."""
    sample = list(islice((line for line in lines if line.strip(" ")), SAMPLE))
    sample = sample[: max(3, SAMPLE_CHARACTERS // len(sample[0]))]
    scores = {}
    for mark in DELIMITERS:
        try:
            first, *others = count_cells("\n".join(sample), sample, mark)
        except InputError:
            continue  # it does not fit the quotes
        widths = {count for count in others if count} or {first}
        if first >= 2 and widths in ({first}, {first + 1}):
            cells = [cell for row in cells_of(sample, mark) for cell in row]
            good = sum(is_number(cell) or bool(COMMA_NUMBER.fullmatch(cell)) for cell in cells)
            scores[mark] = (good / len(cells), mark == usual)
    if scores:
        return max(scores, key=lambda mark: scores[mark])
    if usual is not None:
        return usual
    return " " if all(len(line.split()) > 1 for line in sample) else None


# --- header and labels --------------------------------------------------------------------------


def read_heading(
    lines: list[str], numbers: Sequence[int], delimiter: str, options: TableOptions
) -> FileColumns:
    """The names of the columns of lines that are not blank and have these numbers."""
    sample = cells_of(lines[:3], delimiter)
    first, second = sample[0], sample[min(1, len(sample) - 1)]
    if len(second) == len(first) + 1 and all(map(_is_text, first)):
        starts = [row[0] for row in sample[1:]]
        if len(set(starts)) == len(starts):
            first = ["", *first]  # R leaves out the heading of row names
    if len(first) < 2 and options.fitted is None:
        other = sniff(lines, None)
        hint = "" if other in (None, delimiter) else f"; the cells look separated by {other!r}"
        raise InputError(
            f"has 1 column (delimiter {delimiter!r}); it needs a feature and a label{hint}"
        )
    target, is_named, why = _label_column(first, second, options)
    # a first column without a heading has row names, as R and pandas write them
    has_row_names = is_named and target != 0 and first[0].lower() in ROW_NAMES
    names = [name if is_named and name else str(place) for place, name in enumerate(first)]
    rows = numbers[1:] if is_named else numbers
    return FileColumns(names, is_named, target, why, 0 if has_row_names else None, rows)


def _label_column(
    first: list[str], second: list[str], options: TableOptions
) -> tuple[int | None, bool, str]:
    """(position of the label column, whether the first line is a header, why that column)."""
    target, fitted = options.target, options.fitted
    known = None if fitted is None else fitted.names
    has_all = known is not None and set(known) <= set(first)  # names may be numbers
    if len(first) == 1:
        return None, has_all or _is_text(first[0]), ""
    is_named = has_all or _is_header(first, second, len(first) - 1)
    if not options.has_labels or (is_named and known is not None):
        column, why = label_position(first, options)
        return column, is_named, why
    if target is None:
        column, why = label_position(first, options)
        if column is not None and _is_header(first, second, column):
            return column, True, why
        return len(first) - 1, is_named, "the last column"
    # "-1" may be a position, and a label of the first row as well: it is a name in a header only.
    named = first.index(target) if isinstance(target, str) and target in first else None
    if named is not None and (not is_number(str(target)) or _is_header(first, second, named)):
        return position(target, first), True, "from --target"
    has_names = any(map(_is_text, first)) and not is_number(str(target))
    column = position(target, first if has_names else None, len(first))
    return column, _is_header(first, second, column), "from --target"


def _is_header(first: list[str], second: list[str], column: int) -> bool:
    features = first[:column] + first[column + 1 :]
    below = second[:column] + second[column + 1 :]
    if any(map(_is_text, features)):
        # text above text may be a row without a header, if a number is next to it
        return (
            not any(map(is_number, first))
            or len(below) != len(features)
            or any(_is_text(a) and not _is_text(b) for a, b in zip(features, below, strict=True))
        )
    word = first[column].lower()
    if word not in LABEL_NAMES:
        return False
    # Numbers above a word: columns numbered by a program, or a first row of class "y" or
    # "target". A number as the next label tells; else only 0, 1, 2, … passes for names.
    if len(second) == len(first) and is_number(second[column]):
        return True
    return word != "y" and features == [str(i) for i in range(len(features))]


def _is_text(cell: str) -> bool:
    return not (cell.lower() in LOOKS_MISSING or is_number(cell) or COMMA_NUMBER.fullmatch(cell))


# --- values -------------------------------------------------------------------------------------


def read_columns(text: str, options: TableOptions, usual: str | None) -> FileColumns:
    """The columns of a table of text; `usual` is the delimiter that its suffix suggests."""
    lines = split_lines(text)
    delimiter = options.delimiter or sniff(lines, usual)
    if delimiter is None:
        raise InputError("has no delimiter that fits every line; name one with --delimiter")
    counts = count_cells(text, lines, delimiter)
    numbers: Sequence[int] = range(1, len(lines) + 1)
    if 0 in counts:
        numbers = [number for number, count in zip(numbers, counts, strict=True) if count]
        lines = [lines[number - 1] for number in numbers]
        counts = [count for count in counts if count]
    found = read_heading(lines, numbers, delimiter, options)
    width = len(found.names)
    if found.is_named:
        lines, counts = lines[1:], counts[1:]
    if not lines:
        raise InputError("has a header and no rows; give at least one row")
    if counts.count(width) < len(counts):
        uneven = next(i for i, count in enumerate(counts) if count != width)
        cells = counted(counts[uneven], "column")
        raise InputError(f"line {found.rows[uneven]}: {cells} where the first line has {width}")
    if delimiter != usual:
        mark = {"\t": "tab", " ": "white space"}.get(delimiter, repr(delimiter))
        found.notes.append(f"delimiter {mark}")
    # labels are compared as they are written; counts of successes are numbers
    label = found.target if options.failures is None else None
    words = {place for place in (label, found.row_names) if place is not None}
    columns = _parse(lines, delimiter, width, words, options)
    decimal = options.decimal or "."
    if options.decimal is None and delimiter != ",":
        decimal = _decimal_mark(found, columns)
    if decimal == ",":
        found.notes.append("decimal comma")
    for place, column in enumerate(columns):
        if column.dtype == object:
            column = _as_values(found, place, column, None if place in words else decimal, options)
        found.columns.append(column)
    if found.row_names is not None:
        found.notes.append("row names from the first column")
    return found


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
    if options.na or has_commas or may_change(content):
        words = range(width)
    elif len(lines) <= max(FEW, width) and delimiter != " " and b'"' not in content:
        with suppress(ValueError):
            return _read_numbers(lines, delimiter, width, words)
    columns = _read_csv(content, delimiter, width, words)
    if all(column.dtype == object or np.isfinite(column).all() for column in columns):
        return columns
    return _read_csv(content, delimiter, width, range(width))


def _read_numbers(
    lines: list[str], delimiter: str, width: int, words: Collection[int]
) -> list[Column]:
    """The columns of a few lines, finite numbers but for those of `words`; or a ValueError."""
    others = [place for place in range(width) if place not in words]
    values = np.loadtxt(lines, delimiter=delimiter, comments=None, usecols=others, ndmin=2)
    if not np.isfinite(values).all():
        raise ValueError
    columns = dict(zip(others, values.T, strict=True))
    for place in words:
        columns[place] = np.array([line.split(delimiter)[place] for line in lines], object)
    return [columns[place] for place in range(width)]


def _read_csv(content: bytes, delimiter: str, width: int, words: Collection[int]) -> list[Column]:
    """The columns as pandas reads them, text for those of `words`."""
    import pandas as pd

    # since 3.1 the nearest float64 is the only way in which pandas reads a number
    is_old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    frame = pd.read_csv(
        io.BytesIO(content),
        sep=r"\s+" if delimiter == " " else delimiter,
        header=None,
        names=range(width),
        index_col=False,
        dtype=dict.fromkeys(words, object),
        na_filter=False,
        skip_blank_lines=False,
        low_memory=False,
        lineterminator="\n",
        **({"float_precision": "round_trip"} if is_old else {}),
    )
    columns = [values.to_numpy() for _, values in frame.items()]
    return [c.astype(np.float64, copy=False) if c.dtype.kind in "iu" else c for c in columns]


def _decimal_mark(found: FileColumns, columns: list[Column]) -> str:
    """The mark before decimals, as the cells show it."""
    commas = {
        place: cells
        for place, column in enumerate(columns)
        if column.dtype == object and place != found.row_names
        if (cells := [cell for cell in map(str.strip, column) if COMMA_NUMBER.fullmatch(cell)])
    }
    if not commas:
        return "."
    place, cells = next(iter(commas.items()))
    name = short(found.names[place])
    where = f"column {name} has {counted(len(cells), 'cell')} such as {cells[0]}"
    points = sum("." in cell and is_number(cell) for column in columns for cell in column)
    if points:
        raise InputError(
            f"{where}, and {counted(points, 'cell')} with a decimal point; pass --decimal , or ."
        )
    if all(THOUSANDS.fullmatch(cell) for cells in commas.values() for cell in cells):
        raise InputError(f"{where}, decimals or thousands; pass --decimal , or remove the commas")
    return ","


def _as_values(
    found: FileColumns, place: int, column: Column, decimal: str | None, options: TableOptions
) -> Column:
    """Numbers, truth values or text of a column; text alone where there is no mark of decimals."""
    import pandas as pd

    codes, different = pd.factorize(column)
    cells = np.array([cell.strip() for cell in different], object)
    if place == found.row_names:
        return cells[codes]
    na = options.na
    missing = np.array([cell in na if na else cell.lower() in MISSING for cell in cells], bool)
    given = cells[~missing].tolist()
    cells[missing] = None
    texts = given
    if decimal == ",":
        texts = [cell.replace(",", ".") if COMMA_NUMBER.fullmatch(cell) else cell for cell in given]
    values = np.full(len(cells), np.nan)
    if decimal is not None and all(map(is_number, texts)):
        values[~missing] = numbers = np.array([float(text) for text in texts])
        name, rows = found.names[place], np.flatnonzero(~missing)
        if fault := _fault_of(given, texts, numbers, decimal):
            line = found.rows[int(np.argmax(codes == rows[fault[0]]))]
            raise InputError(f"line {line}, column {short(name)}: {fault[1]}")
        is_longer = [
            len(text) >= LONG and text != shortest and Decimal(text) != Decimal(shortest)
            for text, shortest in zip(texts, map(repr, numbers.tolist()), strict=True)
        ]
        if any(is_longer):
            longer = int(np.isin(codes, rows[is_longer]).sum())
            found.notes.append(
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
