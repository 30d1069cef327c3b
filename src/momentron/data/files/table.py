"""Tables of text, and of typed columns: from cells to features, labels and weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.exactness import doubtful_cells, is_kept, may_change
from momentron.data.files._common import (
    DataFile,
    fail,
    is_number,
    labels,
    position,
    require_own,
    some,
)
from momentron.data.files.columns import Column, n_longer, read_column, require_numbers
from momentron.data.files.layout import COMMA_NUMBER, Layout, find_layout
from momentron.data.files.lines import is_blank, read_rows, split_lines, without_quotes
from momentron.data.files.options import TableOptions
from momentron.data.files.svmlight import describe_change
from momentron.errors import one_line, short

LINES = 4096  # of a table, compared with what was read of them at a time


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one file, of which one has labels.

    Attributes
    ----------
    columns : list of Column
    target : int
        The place of the labels among them.
    lines : sequence of int
        Where each row stands in the file, for messages.
    row_names : list of str or None
    notes : list of str
        What was found in the file and nobody said.
    is_named : bool
        Whether the file names its columns.
    place_word : str
        What `lines` count: "line" of a text, "row" of another file.
    kept : ndarray of bool, or None
        Which rows of the file these are, where some were left out.
    """

    columns: list[Column]
    target: int
    lines: Sequence[int]
    row_names: list[str] | None = None
    notes: list[str] = field(default_factory=list)
    is_named: bool = True
    place_word: str = "line"
    kept: NDArray[np.bool_] | None = None

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def text_of(shown: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(shown, f"is not UTF-8 text (byte {error.start}); save it as UTF-8", error)
    if "\0" in text:
        fail(shown, "has zero bytes, so it is not a text file; give it its true suffix")
    return text


def read_table(
    shown: str, content: bytes, options: TableOptions, usual: str | None = ","
) -> DataFile:
    """Read a table of text; `usual` is the delimiter that its suffix suggests."""
    lines = split_lines(shown, text_of(shown, content))
    layout = find_layout(shown, lines, options, usual)
    if _is_plain(layout, options, lines):
        found = _read_numbers(shown, content, lines, layout, options)
        if found is not None:
            return found
    # labels are compared as they are written; counts of successes are numbers
    as_text = options.has_labels and options.failures is None
    table = read_columns(shown, lines, layout, options, labels_as_text=as_text)
    return as_data(shown, table, options, layout.why)


# --- all numbers: fast --------------------------------------------------------------------------


def _is_plain(layout: Layout, options: TableOptions, lines: list[str]) -> bool:
    """Whether nothing but numbers is expected, so that numpy's parser may be tried."""
    asked = options.weight is not None or options.failures is not None
    asked = asked or bool(options.levels) or not options.has_labels
    has_commas = layout.delimiter != "," and any("," in line for line in lines[:LINES])
    return not (
        asked
        or has_commas
        or layout.delimiter == " "
        or layout.row_names is not None
        or options.decimal == ","
        or options.columns
        or options.drop
        or (options.na is not None and any(is_number(mark) for mark in options.na))
    )


def _read_numbers(
    shown: str, content: bytes, lines: list[str], layout: Layout, options: TableOptions
) -> DataFile | None:
    """The table, if every cell is a finite number and every label is there; else None."""
    if b'"' in content:
        bare = without_quotes(shown, lines, layout.delimiter, len(layout.first))
    else:
        bare = [line for line in lines if not is_blank(line)]
    body = [] if bare is None else bare[1:] if layout.is_header else bare
    if not body:
        return None
    codes: dict[str, int] = {}  # labels of any text pass through the number parser as codes
    column, names = layout.target, layout.names
    try:
        table = np.loadtxt(
            body,
            delimiter=layout.delimiter,
            comments=None,
            ndmin=2,
            encoding="utf-8",
            converters={column: lambda cell: codes.setdefault(cell.strip(), len(codes))},
        )
    except ValueError:
        return None
    X = np.delete(table, column, axis=1)
    is_whole = table.shape[1] == len(layout.first) and np.isfinite(X).all()
    if not is_whole or any(map(options.is_missing, codes)):
        return None
    longer: dict[int, int] = {}
    if may_change(content):
        longer = _require_kept(shown, body, layout, table)
    y = labels(shown, list(codes))[table[:, column].astype(np.int64)]
    places = [place for place in range(len(layout.first)) if place != column]
    kept = [
        Column(name_of(layout, place), place, "number", table[:, place], np.zeros(len(y), bool))
        for place in places
    ]
    for feature in kept:
        refuse_identifier(shown, feature, ())
    notes = _notes(layout) + [
        _note_longer(name_of(layout, place), count) for place, count in longer.items()
    ]
    chosen = None if names is None else [feature.name for feature in kept]
    target = None if names is None else names[column]
    taken = describe(target or str(column), layout.why, [c.name for c in kept], notes)
    return DataFile(X, y, chosen, target, taken=taken)


def _require_kept(
    shown: str, body: list[str], layout: Layout, table: NDArray[Any]
) -> dict[int, int]:
    """Refuse the first cell that float64 does not hold; count, by column, those too long for it."""
    width, longer = table.shape[1], dict[int, int]()
    for start in range(0, len(body), LINES):
        lines, values = body[start : start + LINES], table[start : start + LINES].ravel()
        cells = "\n".join(lines).replace(layout.delimiter, "\n").encode()
        if not may_change(cells):
            continue
        rows = [line.split(layout.delimiter) for line in lines]
        for place in doubtful_cells(cells, values):
            i, j = divmod(int(place), width)
            if j != layout.target and not is_kept(rows[i][j], float(values[place])):
                change = describe_change(rows[i][j], float(values[place]))
                fail(shown, f"row {start + i} of the data, column {layout.called(j)}: {change}")
        block = table[start : start + LINES]
        for j in range(width):
            if j != layout.target:
                count = n_longer([row[j].strip() for row in rows], block[:, j])
                if count:
                    longer[j] = longer.get(j, 0) + count
    return longer


# --- all else -----------------------------------------------------------------------------------


def read_columns(
    shown: str,
    texts: list[str],
    layout: Layout,
    options: TableOptions,
    *,
    labels_as_text: bool = True,
) -> Table:
    """Every column of a table's lines, as numbers, truth values or text."""
    rows, lines = _cells(shown, texts, layout)
    cells = [list(column) for column in zip(*rows, strict=True)]
    decimal, note = _decimal(shown, cells, layout, options)
    columns = [
        read_column(shown, name_of(layout, place), place, column, lines, options, decimal)
        for place, column in enumerate(cells)
    ]
    notes = _notes(layout) + note
    for column, written in zip(columns, cells, strict=True):
        if column.kind == "number" and column.place != layout.target:
            dotted = [cell.replace(",", ".") if decimal == "," else cell for cell in written]
            if count := n_longer(dotted, column.values):
                notes.append(_note_longer(column.name, count))
    row_names = None
    if layout.row_names is not None:
        row_names = cells[layout.row_names]
        del columns[layout.row_names]
        notes.append("row names from the first column")
    target = next(i for i, column in enumerate(columns) if column.place == layout.target)
    if labels_as_text:
        values = np.array(cells[layout.target], object)
        columns[target] = replace(columns[target], kind="text", values=values)
    return Table(columns, target, lines, row_names, notes, layout.is_header)


def _cells(shown: str, texts: list[str], layout: Layout) -> tuple[list[list[str]], list[int]]:
    """(rows of cells without white space around them, their lines in the file)."""
    found = [
        (row, number)
        for number, row in enumerate(read_rows(shown, texts, layout.delimiter), start=1)
        if row
    ]
    body = found[1:] if layout.is_header else found
    if not body:
        fail(shown, "has a header and no rows; give at least one row")
    for row, number in body:
        if len(row) != len(layout.first):
            what = f"{len(row)} columns where the first line has {len(layout.first)}"
            fail(shown, f"line {number}: {what}")
    return [row for row, _ in body], [number for _, number in body]


def _decimal(
    shown: str, cells: list[list[str]], layout: Layout, options: TableOptions
) -> tuple[str, list[str]]:
    """(the mark before decimals, what to say of it)."""
    if options.decimal is not None or layout.delimiter == ",":
        mark = options.decimal or "."
        return mark, ["decimal comma"] if mark == "," else []
    commas = {
        place: [cell for cell in column if COMMA_NUMBER.fullmatch(cell)]
        for place, column in enumerate(cells)
        if place != layout.row_names
    }
    found = {place: texts for place, texts in commas.items() if texts}
    if not found:
        return ".", []
    place, texts = next(iter(found.items()))
    where = f"column {layout.called(place)} has {len(texts)} cells such as {texts[0]}"
    points = sum("." in cell and is_number(cell) for column in cells for cell in column)
    if points:
        fail(shown, f"{where}, and {points} cells have decimal points; say --decimal , or .")
    if all(_may_be_thousands(cell) for texts in found.values() for cell in texts):
        fail(shown, f"{where}, decimals or thousands; say --decimal , or remove the commas")
    return ",", ["decimal comma"]


def _may_be_thousands(cell: str) -> bool:
    before, _, after = cell.lstrip("+-").partition(",")
    return len(after) == 3 and 1 <= len(before) <= 3 and not before.startswith("0")


# --- from columns to data -----------------------------------------------------------------------


def as_data(shown: str, table: Table, options: TableOptions, why: str) -> DataFile:
    """Features, labels and weights of a table, with what was taken as what."""
    chosen = Roles.of(shown, table, options)
    for column in chosen.features:
        require_numbers(shown, column, table.lines, options, table.place_word)
    table, notes = _without_missing(shown, table, chosen, options)
    chosen = Roles.of(shown, table, options)
    names, columns, levels = [], [], dict[str, list[str]]()
    for column in chosen.features:
        if column.kind != "text":
            names.append(column.name)
            columns.append(column.values)
            continue
        known = options.levels.get(column.name)
        more, parts = column.dummies(shown, known)
        levels[column.name] = list(known or sorted(set(column.values.tolist())))
        names += more
        columns += parts
        notes.append(f"dummies of {column.name} against {levels[column.name][0]}")
    if not columns:
        fail(shown, "has no feature column left; check --columns and --drop")
    target = table.columns[table.target]
    y = np.empty(0, int)
    if options.has_labels and chosen.failures is None:
        y = _open_labels(shown, target) if options.open_labels else _labels(shown, target)
    if chosen.failures is not None:
        y = np.column_stack([_numbers(shown, target), _numbers(shown, chosen.failures)])
        notes.append(f"grouped: successes {target.name}, failures {chosen.failures.name}")
    weights = None if chosen.weights is None else _numbers(shown, chosen.weights)
    if chosen.weights is not None:
        notes.append(f"weights {chosen.weights.name}")
    X = np.column_stack(columns).astype(np.float64)
    taken = describe(target.name, why, names, table.notes + notes)
    is_named = table.is_named or bool(levels)
    return DataFile(
        X,
        y,
        names if is_named else None,
        target.name if is_named else None,
        table.row_names,
        weights,
        taken,
        levels,
        table.kept,
    )


def _labels(shown: str, target: Column) -> NDArray[Any]:
    return labels(shown, np.array(target.values.tolist()))


def _open_labels(shown: str, target: Column) -> NDArray[Any]:
    """Labels some of which may be missing: as text then, empty where one is."""
    if not target.missing.any():
        return _labels(shown, target)
    found = np.full(target.missing.size, "", object)
    if not target.missing.all():
        found[~target.missing] = _labels(shown, target.rows(~target.missing)).astype(str)
    return found.astype(str)


@dataclass(frozen=True, eq=False)
class Roles:
    """Which columns of a table are features, weights and failures."""

    features: list[Column]
    weights: Column | None
    failures: Column | None

    @classmethod
    def of(cls, shown: str, table: Table, options: TableOptions) -> Roles:
        """As the options say; columns that name rows must be spoken of."""

        def place_of(name: str | int) -> int:
            return table_place(shown, table, name)

        given = [table.target] if options.has_labels else []
        weights = failures = None
        if options.weight is not None:
            given.append(place_of(options.weight))
            require_own(shown, options.weight, given[-1], table.target, len(table.columns))
            weights = table.columns[given[-1]]
        if options.failures is not None:
            given.append(place_of(options.failures))
            failures = table.columns[given[-1]]
        chosen = _listed(options.columns, table)
        wanted = [place_of(n) for n in chosen] or list(range(len(table.columns)))
        dropped = {place_of(n) for n in _listed(options.drop, table)} | set(given)
        features = [table.columns[place] for place in wanted if place not in dropped]
        for column in features:
            refuse_identifier(shown, column, chosen)
        return cls(features, weights, failures)

    @property
    def used(self) -> list[Column]:
        more = [column for column in (self.weights, self.failures) if column is not None]
        return [*self.features, *more]


def _listed(names: Sequence[str | int], table: Table) -> list[str | int]:
    """Names of columns, where "a,b" stands for two unless one column is called so."""
    found: list[str | int] = []
    for name in names:
        is_list = isinstance(name, str) and "," in name and name not in table.names
        found += [part.strip() for part in str(name).split(",")] if is_list else [name]
    return found


def table_place(shown: str, table: Table, name: str | int) -> int:
    """The place of a column of a table, by its name or its position in the file."""
    if isinstance(name, str) and name in table.names:
        return position(shown, name, table.names)
    by_position = {column.place: i for i, column in enumerate(table.columns)}
    width = max(by_position) + 1
    place = position(shown, name, table.names if table.is_named else None, width, what="column")
    if place not in by_position:
        fail(shown, f"column {place} has the row names; name another")
    return by_position[place]


def refuse_identifier(shown: str, column: Column, asked: Sequence[str | int]) -> None:
    """Refuse a column that names rows as a feature, unless it is asked for."""
    if column.is_identifier and column.name not in map(str, asked):
        fail(
            shown,
            f"column {short(column.name)} has {column.present.size} different values in as many "
            f"rows: it names rows; leave it out with --drop {one_line(column.name, 40)}, or list "
            "all features with --columns",
        )


def _without_missing(
    shown: str, table: Table, chosen: Roles, options: TableOptions
) -> tuple[Table, list[str]]:
    """The table without rows that lack a value, if that was asked for; refused if it was not."""
    needs_label = options.has_labels and not options.open_labels
    used = [*[table.columns[table.target]] * needs_label, *chosen.used]
    counts = {column.name: int(column.missing.sum()) for column in used}
    if not any(counts.values()):
        return table, []
    gone = np.any([column.missing for column in used], axis=0)
    listed = [f"{name} {count}" for name, count in counts.items() if count]
    line = table.lines[int(gone.argmax())]
    if not options.drop_na:
        fail(
            shown,
            f"has missing values in {int(gone.sum())} of {gone.size} rows, by column: "
            f"{some(listed)} (the first in {table.place_word} {line}); leave these rows out with "
            "--drop-na, or columns with --drop",
        )
    if gone.all():
        fail(shown, f"has a missing value in every row, by column: {some(listed)}")
    keep = ~gone
    rows = np.flatnonzero(keep).tolist()
    names = table.row_names
    kept = replace(
        table,
        columns=[column.rows(keep) for column in table.columns],
        lines=[table.lines[i] for i in rows],
        row_names=[str(i) if names is None else names[i] for i in rows],
        kept=keep,
    )
    note = f"{int(gone.sum())} of {gone.size} rows left out, missing values: {some(listed)}"
    return kept, [note]


def _numbers(shown: str, column: Column) -> NDArray[np.float64]:
    """A column of counts or weights."""
    if column.kind == "text":
        cell = next(cell for cell in column.values.tolist() if not is_number(str(cell)))
        fail(
            shown,
            f"column {short(column.name)} must have numbers; {one_line(repr(cell), 40)} is not",
        )
    return column.values.astype(np.float64)


def name_of(layout: Layout, place: int) -> str:
    """The name of a column; its position where it has none."""
    return layout.first[place] if layout.is_header and layout.first[place] else str(place)


def describe(target: str, why: str, features: Iterable[str], notes: list[str]) -> list[str]:
    """What was taken as what, as short phrases."""
    listed = list(features)
    return [f"target {target} ({why})", f"features {some(listed)}", *notes]


def _notes(layout: Layout) -> list[str]:
    shown = {"\t": "tab", " ": "white space"}.get(layout.delimiter, repr(layout.delimiter))
    return [f"delimiter {shown}"] if layout.is_sniffed else []


def _note_longer(name: str, count: int) -> str:
    return (
        f"{count} cells of {name} have more digits than float64 keeps, and are taken as the "
        "shortest decimals of their floats"
    )
