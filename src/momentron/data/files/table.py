"""Tables of text, and of typed columns: from cells to features, labels and weights."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.exactness import describe_change, first_changed, may_change
from momentron.data.files._common import DataFile, fail, is_number, labels, position, some
from momentron.data.files.layout import COMMA_NUMBER, Layout, find_layout, read_rows, split_lines
from momentron.data.files.options import TableOptions
from momentron.errors import one_line, short

TRUTH = {"true": 1.0, "false": 0.0, "t": 1.0, "f": 0.0}
ID_NAMES = frozenset({"id", "index", "row", "rownames", "row_names", "rowid", "unnamed: 0"})
LONG = 16  # characters from which a decimal may not be the shortest of its float

Column = NDArray[Any]  # numbers or truth values, NaN where one is missing; or text, None there


def read_table(shown: str, text: str, options: TableOptions, usual: str | None) -> DataFile:
    """Read a table of text; `usual` is the delimiter that its suffix suggests."""
    # labels are compared as they are written; counts of successes are numbers
    as_text = options.has_labels and options.failures is None
    return read_columns(shown, text, options, usual, labels_as_text=as_text).as_data(options)


# --- from text to columns -----------------------------------------------------------------------


def read_columns(
    shown: str, text: str, options: TableOptions, usual: str | None, *, labels_as_text: bool
) -> Table:
    """The columns of a table of text; `usual` is the delimiter that its suffix suggests."""
    lines = split_lines(shown, text)
    layout = find_layout(shown, lines, options, usual)
    words = {layout.target} if labels_as_text else set()
    words |= set() if layout.row_names is None else {layout.row_names}
    has_commas = layout.delimiter != "," and "," in text
    is_plain = options.na is None and not has_commas and not may_change(text.encode())
    cells, rows = _cells(shown, text, lines, layout, words if is_plain else None)
    decimal = _decimal_mark(shown, cells, layout, options)
    table = Table(shown, layout, [], rows)
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
        columns = _parse(text[start:], mark, width, words)
        if columns is not None and len(columns[0]) == n_rows:
            return columns, range(1 + layout.is_named, 1 + layout.is_named + n_rows)
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, row in enumerate(read_rows(shown, lines, mark), start=1):
        if row and len(row) != width and (numbers or not layout.is_named):
            fail(shown, f"line {number}: {len(row)} columns where the first line has {width}")
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
    where = f"column {name} has {len(texts)} cells such as {texts[0]}"
    points = sum("." in cell and is_number(cell) for column in cells for cell in column)
    if points:
        fail(shown, f"{where}, and {points} cells have decimal points; say --decimal , or .")
    if all(_may_be_thousands(cell) for texts in found.values() for cell in texts):
        fail(shown, f"{where}, decimals or thousands; say --decimal , or remove the commas")
    return ","


def _may_be_thousands(cell: str) -> bool:
    before, _, after = cell.lstrip("+-").partition(",")
    return len(after) == 3 and 1 <= len(before) <= 3 and not before.startswith("0")


def _as_values(table: Table, cells: Column, missing: NDArray[np.bool_], decimal: str) -> Column:
    """Numbers, truth values or text of the next column of a table."""
    given, places = cells[~missing].tolist(), np.flatnonzero(~missing)
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
            f"{longer} cells of {name} have more digits than float64 keeps, and are taken as the "
            "shortest decimals of their floats"
        )
    return values


# --- from columns to data -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of one file, on their way to features, labels and weights.

    Attributes
    ----------
    shown : str
        The file, as messages name it.
    layout : Layout
    columns : list of ndarray
    rows : sequence of int
        Where each row stands in the file, for messages.
    notes : list of str
        What was found in the file and nobody said.
    """

    shown: str
    layout: Layout
    columns: list[Column]
    rows: Sequence[int]
    notes: list[str] = field(default_factory=list)

    def as_data(self, options: TableOptions) -> DataFile:
        """Features, labels and weights, with what was taken as what."""
        layout, notes = self.layout, list(self.notes)
        places, weights, failures = self._roles(options)
        for place in places:
            self._require_numbers(place, options)
        row_names = None if layout.row_names is None else self.columns[layout.row_names].tolist()
        needs_label = options.has_labels and not options.open_labels
        others = [place for place in (weights, failures) if place is not None]
        used = [*[layout.target] * needs_label, *places, *others]
        kept = self.rows_kept(used, options, notes)
        columns = self.columns
        if kept is not None:
            columns = [column[kept] for column in columns]
            left = np.flatnonzero(kept).tolist()
            row_names = [str(i) if row_names is None else row_names[i] for i in left]
        names, features, levels = [], [], dict[str, list[str]]()
        for place in places:
            name, column = layout.names[place], columns[place]
            if column.dtype != object:
                names.append(name)
                features.append(column)
                continue
            levels[name] = self._levels(name, column, options)
            names += [f"{name}[{level}]" for level in levels[name][1:]]
            features += [column == level for level in levels[name][1:]]
            notes.append(f"dummies of {name} against {levels[name][0]}")
        if not features:
            fail(self.shown, "has no feature column left; check --columns and --drop")
        target, y = layout.names[layout.target], np.empty(0, int)
        if failures is not None:
            y = np.column_stack([self._numbers(columns, p) for p in (layout.target, failures)])
            notes.append(f"grouped: successes {target}, failures {layout.names[failures]}")
        elif options.has_labels:
            y = _labels(self.shown, columns[layout.target])
        if weights is not None:
            notes.append(f"weights {layout.names[weights]}")
        is_named = layout.is_named or bool(levels)
        return DataFile(
            np.column_stack(features).astype(np.float64, copy=False),
            y,
            names if is_named else None,
            target if is_named else None,
            row_names,
            None if weights is None else self._numbers(columns, weights),
            [f"target column: {target} ({layout.why})", f"features {some(names)}", *notes],
            levels,
            kept,
        )

    def _place_of(self, name: str | int) -> int:
        """The position of a column, by its name or position."""
        names = self.layout.names
        known = names if self.layout.is_named or name in names else None
        place = position(self.shown, name, known, len(names), what="column")
        if place == self.layout.row_names:
            fail(self.shown, f"column {place} has the row names; choose another")
        return place

    def _roles(self, options: TableOptions) -> tuple[list[int], int | None, int | None]:
        """The positions of (features, weights, failures), as the options say."""
        layout = self.layout

        def listed(given: Sequence[str | int]) -> list[str | int]:
            # "a,b" stands for two columns, unless one is called so
            found: list[str | int] = []
            for name in given:
                is_list = isinstance(name, str) and "," in name and name not in layout.names
                found += [part.strip() for part in str(name).split(",")] if is_list else [name]
            return found

        weights = None if options.weight is None else self._place_of(options.weight)
        failures = None if options.failures is None else self._place_of(options.failures)
        if weights == layout.target:
            fail(
                self.shown,
                f"has its labels in column {short(options.weight)}; weights need another column",
            )
        asked = listed(options.columns)
        dropped = {*map(self._place_of, listed(options.drop)), weights, failures, layout.row_names}
        dropped |= {layout.target} if options.has_labels else set()
        wanted = [self._place_of(name) for name in asked] or range(len(layout.names))
        features = [place for place in wanted if place not in dropped]
        for place in features:
            name = layout.names[place]
            if self._names_rows(place) and name not in map(str, asked):
                fail(
                    self.shown,
                    f"column {short(name)} has {len(_present(self.columns[place]))} different "
                    "values in as many rows, like an identifier; leave it out with --drop "
                    f"{one_line(name, 40)}, or list all features with --columns",
                )
        return features, weights, failures

    def _names_rows(self, place: int) -> bool:
        """Whether a column is called an identifier, with a whole number or text of its own each."""
        name = self.layout.names[place].lower()
        if name not in ID_NAMES and not name.endswith(("_id", ".id", " id")):
            return False
        values = _present(self.columns[place])
        is_whole = values.dtype == object or (values == np.trunc(values)).all()
        return bool(is_whole) and len(set(values.tolist())) == values.size > 1

    def _require_numbers(self, place: int, options: TableOptions) -> None:
        """Refuse a feature column of text, unless it is to become dummies."""
        name, column = self.layout.names[place], self.columns[place]
        if column.dtype != object or name in options.levels:
            return
        n_present = len(_present(column))
        words = [i for i, c in enumerate(column) if c is not None and not is_number(str(c))]
        if options.dummies and len(words) == n_present:
            return
        cell = str(column[words[0]])
        remedy = f"--na {short(cell)} if it stands for a missing value"
        if len(words) == n_present:
            remedy = f"--dummies for categories, {remedy}"
        elif COMMA_NUMBER.fullmatch(cell):
            remedy = "--decimal , for decimal commas"
        fail(
            self.shown,
            f"{self.layout.place_word} {self.rows[words[0]]}, column {short(name)} (position "
            f"{place}): {one_line(repr(cell), 40)} is not a number; "
            f"{_others(len(words), n_present)}; {remedy}, or --drop {one_line(name, 40)}",
        )

    def rows_kept(
        self, used: Sequence[int], options: TableOptions, notes: list[str]
    ) -> NDArray[np.bool_] | None:
        """Which rows lack no value in the columns used, if some do and may be left out."""
        import pandas as pd

        missing = {place: pd.isna(self.columns[place]) for place in used}
        counts = {place: int(np.count_nonzero(gone)) for place, gone in missing.items()}
        if not any(counts.values()):
            return None
        gone = np.any(list(missing.values()), axis=0)
        names = self.layout.names
        listed = some([f"{names[place]} {count}" for place, count in counts.items() if count])
        if not options.drop_na:
            fail(
                self.shown,
                f"has missing values in {int(gone.sum())} of {gone.size} rows, by column: {listed} "
                f"(the first in {self.layout.place_word} {self.rows[int(gone.argmax())]}); leave "
                "these rows out with --drop-na, or columns with --drop",
            )
        if gone.all():
            fail(self.shown, f"has a missing value in every row, by column: {listed}")
        notes.append(f"{int(gone.sum())} of {gone.size} rows left out, missing values: {listed}")
        return ~gone

    def _levels(self, name: str, column: Column, options: TableOptions) -> list[str]:
        """The levels of a text column, the one left out first; as an earlier reading had them."""
        found, known = set(column.tolist()), options.levels.get(name)
        if known is None and len(found) == len(column) > 2:
            fail(
                self.shown,
                f"column {short(name)} has {len(found)} different texts in as many rows, so it is "
                f"not a category; leave it out with --drop {one_line(name, 40)}",
            )
        unknown = sorted(found.difference(known or found))
        if unknown:
            fail(
                self.shown,
                f"column {short(name)} has {len(unknown)} levels that the model has not seen: "
                f"{some(unknown)}",
            )
        return list(known or sorted(found))

    def _numbers(self, columns: list[Column], place: int) -> NDArray[np.float64]:
        """A column of counts or weights."""
        if columns[place].dtype == object:
            cell = next(cell for cell in columns[place] if not is_number(str(cell)))
            name = short(self.layout.names[place])
            fail(
                self.shown,
                f"column {name} must have numbers; {one_line(repr(cell), 40)} is not one",
            )
        return columns[place].astype(np.float64)


def _present(column: Column) -> Column:
    return column[column != None] if column.dtype == object else column[~np.isnan(column)]  # noqa: E711


def _others(words: int, n_present: int) -> str:
    """How many of the other cells of a column are not numbers either."""
    rest = n_present - 1
    others, verb = ("the other cell", "is") if rest == 1 else (f"the other {rest} cells", "are")
    if not rest:
        return "it is the only cell of this column"
    if words == 1:
        return f"{others} of this column {verb}"
    if words == n_present:
        return f"nor {verb} {others} of this column"
    return f"nor are {words - 1} more of the {n_present} cells of this column"


def _labels(shown: str, column: Column) -> NDArray[Any]:
    """Labels; some may be missing in rows to be classified: as text then, empty where one is."""
    import pandas as pd

    codes, texts = pd.factorize(column)
    found = labels(shown, np.array(texts.tolist())) if len(texts) else np.empty(0, str)
    return found[codes] if (codes >= 0).all() else np.append(found.astype(str), "")[codes]
