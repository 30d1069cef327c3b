"""The layout of a text table: its lines and cells, its delimiter, its header, its row names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from itertools import islice

from momentron.data.files._common import COMMA_NUMBER, LABEL_NAMES, fail, is_number, position
from momentron.data.files.columns import Table
from momentron.data.files.table_options import TableOptions
from momentron.errors import InputError, one_line

# what some programs take for the end of a line, and others for a part of a cell
DOUBTFUL = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
SAMPLE, SAMPLE_CHARACTERS = 50, 100_000  # lines from which a delimiter is told, fewer if long
MARKS = (",", ";", "\t", "|")
ROW_NAMES = frozenset({"", "rownames", "row_names", "row.names", "unnamed: 0"})
_SPACED = re.compile(r"[^ \t]+")  # other white space is a part of cells, as for pandas
_LOOKS_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-", "."})


# --- lines and cells ----------------------------------------------------------------------------


def text_of(shown: str, content: bytes) -> str:
    """The text of a file, whose lines end in line feeds."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(shown, f"is not UTF-8 text (byte {error.start}); save it as UTF-8", error)
    if "\0" in text:
        fail(shown, "has zero bytes, so it is not a text file; give it the right suffix")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def split_lines(shown: str, text: str) -> list[str]:
    """The lines of a table, without their ends."""
    for character in DOUBTFUL:
        if character in text:
            before = text[: text.index(character)].split("\n")
            fail(
                shown,
                f"line {len(before)}, character {len(before[-1]) + 1}: {character!r} may be a line "
                "break or a part of a cell; remove it",
            )
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def cells_of(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    """The cells of lines, without white space around them."""
    if delimiter == " ":
        lines = (" ".join(_SPACED.findall(line)) for line in lines)
    return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)]


def count_cells(shown: str, text: str, lines: list[str], delimiter: str) -> list[int]:
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
            _refuse_quotes(shown, text[: fault.end()].split("\n"), fault.group(), delimiter)
    if delimiter == " ":
        return [len(_SPACED.findall(line)) for line in lines]
    counts = [line.count(delimiter) + 1 for line in lines]
    if 1 not in counts:
        return counts
    return [n if n > 1 or line.strip() else 0 for n, line in zip(counts, lines, strict=True)]


def _refuse_quotes(shown: str, lines: list[str], rest: str, delimiter: str) -> None:
    """Raise for the cell with which the last of some lines ends."""
    before = cells_of([lines[-1].removesuffix(rest) + "x"], delimiter)[0]
    why = "text follows its closing quote; write a quote inside quotes as two"
    if re.fullmatch(r'"[^"]*(?:""[^"]*)*', rest):
        why = "its quote is not closed; a cell must end on the line on which it begins"
    where = f"line {len(lines)}, column {len(before) - 1}"
    fail(shown, f"{where} ({one_line(repr(rest.split(delimiter)[0]), 40)}): {why}")


# --- delimiter, header, labels ------------------------------------------------------------------


def find_delimiter(shown: str, lines: list[str], options: TableOptions, usual: str | None) -> str:
    """The delimiter that was said, or that fits the lines; `usual` is that of the suffix."""
    delimiter = options.delimiter or sniff(lines, usual)
    if delimiter is None:
        fail(shown, "has no delimiter that fits every line; name one with --delimiter")
    return delimiter


def sniff(lines: list[str], usual: str | None) -> str | None:
    """The delimiter that gives every line as many cells, most of them numbers."""
    sample = list(islice((line for line in lines if line.strip(" ")), SAMPLE))
    sample = sample[: max(3, SAMPLE_CHARACTERS // len(sample[0]))]
    scores = {}
    for mark in MARKS:
        try:
            first, *others = count_cells("", "\n".join(sample), sample, mark)
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


def table_of(
    shown: str, lines: list[str], numbers: Sequence[int], delimiter: str, options: TableOptions
) -> Table:
    """A table without its columns yet, of lines that are not blank and have these numbers."""
    sample = cells_of(lines[:3], delimiter)
    first, second = sample[0], sample[min(1, len(sample) - 1)]
    if len(second) == len(first) + 1 and all(_is_text(cell) for cell in first):
        starts = [row[0] for row in sample[1:]]
        if len(set(starts)) == len(starts):
            first = ["", *first]  # R leaves out the heading of row names
    if len(first) < 2 and options.fitted is None:
        other = sniff(lines, None)
        hint = "" if other in (None, delimiter) else f"; the cells look separated by {other!r}"
        fail(shown, f"has 1 column (delimiter {delimiter!r}); it needs a feature and a label{hint}")
    target, is_named, why = _label_column(shown, first, second, options)
    # a first column without a heading has row names, as R and pandas write them
    has_row_names = is_named and target != 0 and first[0].lower() in ROW_NAMES
    names = [name if is_named and name else str(place) for place, name in enumerate(first)]
    rows = numbers[1:] if is_named else numbers
    return Table(shown, names, is_named, target, why, 0 if has_row_names else None, rows)


def label_position(shown: str, names: list[str], options: TableOptions) -> tuple[int | None, str]:
    """(the column of labels, if there is one; why that one), where columns have names."""
    fitted = options.fitted
    if not options.has_labels:
        return None, ""
    if options.target is not None:
        return position(shown, options.target, names), "from --target"
    if fitted is not None and fitted.names is not None:
        return (names.index(fitted.target) if fitted.target in names else None), "by its name"
    named = [place for place, name in enumerate(names) if name.lower() in LABEL_NAMES]
    return (named[0], "by its name") if len(named) == 1 else (len(names) - 1, "the last column")


def _label_column(
    shown: str, first: list[str], second: list[str], options: TableOptions
) -> tuple[int | None, bool, str]:
    """(position of the label column, whether the first line is a header, why that column)."""
    target, fitted = options.target, options.fitted
    known = None if fitted is None else fitted.names
    has_all = known is not None and set(known) <= set(first)  # names may be numbers
    if len(first) == 1:
        return None, has_all or _is_text(first[0]), ""
    is_named = has_all or _is_header(first, second, len(first) - 1)
    if not options.has_labels or (is_named and known is not None):
        column, why = label_position(shown, first, options)
        return column, is_named, why
    if target is None:
        labels = [i for i, cell in enumerate(first) if cell.lower() in LABEL_NAMES]
        if len(labels) == 1 and _is_header(first, second, labels[0]):
            return labels[0], True, "by its name"
        return len(first) - 1, is_named, "the last column"
    # "-1" may be a position, and a label of the first row as well: it is a name in a header only.
    named = first.index(target) if isinstance(target, str) and target in first else None
    if named is not None and (not is_number(str(target)) or _is_header(first, second, named)):
        return position(shown, target, first), True, "from --target"
    has_names = any(map(_is_text, first)) and not is_number(str(target))
    column = position(shown, target, first if has_names else None, len(first))
    return column, _is_header(first, second, column), "from --target"


def _is_header(first: list[str], second: list[str], column: int) -> bool:
    features = first[:column] + first[column + 1 :]
    below = second[:column] + second[column + 1 :]
    if any(_is_text(cell) for cell in features):
        # text above text may be a row without a header, if a number is next to it
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
