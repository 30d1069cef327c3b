"""A text as lines, and a line as cells: as they are written, or refused by line and column."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Any

from momentron.data.files._common import fail
from momentron.errors import one_line

# what some programs take for the end of a line, and others for a part of a cell
DOUBTFUL = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def split_lines(shown: str, text: str) -> list[str]:
    """The lines of a table, without their ends."""
    for character in DOUBTFUL:
        if character in text:
            before = re.split("\r\n|\r|\n", text[: text.index(character)])
            fail(
                shown,
                f"line {len(before)}, character {len(before[-1]) + 1}: {character!r} may be a line "
                "break or a part of a cell; remove it",
            )
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def is_blank(line: str) -> bool:
    """Whether a line has no cells."""
    return not line.strip(" ")


def read_rows(shown: str, lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    """The cells of each line, without white space around them; none where a line is blank.

    A cell stands in one line: quotes that are still open at the end of it are refused, and so is
    text after quotes have closed.
    """
    reader = _reader(lines, delimiter)
    for number, line in enumerate(lines, start=1):
        try:
            cells = next(reader)
        except csv.Error as error:
            _refuse(shown, number, line, delimiter, one_line(error))
        if reader.line_num != number:  # the reader went on to the next line
            _refuse(shown, number, line, delimiter, "a quoted cell is not closed")
        # one cell of white space is a blank line; one of quotes is a row that lacks cells
        yield [cell.strip() for cell in cells] if len(cells) > 1 or line.strip() else []


def try_rows(lines: Sequence[str], delimiter: str) -> list[list[str]] | None:
    """The cells of lines that are not blank; None where a delimiter does not fit the quotes."""
    reader = _reader(lines, delimiter)
    try:
        rows = [[cell.strip() for cell in row] for row in reader]
    except csv.Error:
        return None
    return rows if len(rows) == len(lines) else None


def without_quotes(
    shown: str, lines: Sequence[str], delimiter: str, width: int
) -> list[str] | None:
    """Lines that are not blank with bare cells; None where quotes are needed, or cells are missing.

    Delimiters then stand between cells and nowhere else.
    """
    bare = []
    for cells in filter(None, read_rows(shown, lines, delimiter)):
        if len(cells) != width or any(delimiter in cell for cell in cells):
            return None
        bare.append(delimiter.join(cells))
    return bare


def _reader(lines: Sequence[str], delimiter: str) -> Any:
    is_spaced = delimiter == " "
    texts = [line.strip() for line in lines] if is_spaced else lines
    return csv.reader(texts, delimiter=delimiter, skipinitialspace=is_spaced, strict=True)


def _refuse(shown: str, number: int, line: str, delimiter: str, why: str) -> None:
    """Raise for a line that is not cells between delimiters, and name the first that is not one."""
    mark = re.escape(delimiter)
    cell = re.compile(rf'(?:"(?:[^"]|"")*"|(?!")[^{mark}]*)(?={mark}|$)')
    line = line.strip() if delimiter == " " else line
    at = column = 0
    while (found := cell.match(line, at)) and found.end() < len(line):
        at, column = found.end() + 1, column + 1
        if delimiter == " ":
            at += len(line) - at - len(line[at:].lstrip(" "))
    rest = line[at:]
    if re.fullmatch(r'"(?:[^"]|"")*', rest):
        why = "its quotes are not closed in this line; a cell must stand in one line"
    elif re.match(r'"(?:[^"]|"")*"', rest):
        why = "text follows its closing quote; write a quote inside quotes as two"
    fail(shown, f"line {number}, column {column} ({one_line(repr(rest), 40)}): {why}")
