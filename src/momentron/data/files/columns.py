"""The columns of a table, of text or of typed values: from columns to features and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.files._common import (
    COMMA_NUMBER,
    DataFile,
    FeatureColumns,
    TableOptions,
    is_number,
    labels,
    match_columns,
    position,
    some,
)
from momentron.errors import InputError, counted, one_line, short

ID_NAMES = frozenset({"id", "index", "row", "rownames", "row_names", "rowid", "unnamed: 0"})

Column = NDArray[Any]  # numbers or truth values, NaN where one is missing; or text, None there


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of one file, on their way to features, labels and weights."""

    names: list[str]  # of the columns; their positions where the file has none
    is_named: bool  # whether the file names its columns
    target: int | None  # the position of the labels, if there are any
    why: str  # why that column was taken
    row_names: int | None  # the position of row names
    rows: Sequence[int]  # where each row stands in the file, for messages
    place_word: str = "line"  # what rows are counted by: lines of a text, rows of another file
    columns: list[Column] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was found in the file and nobody said

    def as_data(self, options: TableOptions) -> DataFile:
        """Features, labels and weights, with what was taken as what."""
        taken = list(self.notes)
        places, weights, failures, ignored = self._roles(options)
        for place in places:
            self._require_numbers(place, options)
        row_names = None if self.row_names is None else self.columns[self.row_names].tolist()
        label = self.target if options.fitted is None else None  # else it may be missing
        used = [place for place in (label, *places, weights, failures) if place is not None]
        kept = self.rows_kept(used, options, taken)
        columns = self.columns
        if kept is not None:
            columns = [column[kept] for column in columns]
            left = np.flatnonzero(kept).tolist()
            row_names = [str(i) if row_names is None else row_names[i] for i in left]
        names, features, levels = [], [], dict[str, list[str]]()
        for place in places:
            name, column = self.names[place], columns[place]
            if column.dtype != object:
                names.append(name)
                features.append(column)
                continue
            levels[name] = self._levels(name, column, options)
            names += [f"{name}[{level}]" for level in levels[name][1:]]
            features += [column == level for level in levels[name][1:]]
            taken.append(f"dummies of {name} against {levels[name][0]}")
        if not features:
            raise InputError("has no feature column left; check --columns and --drop")
        taken.insert(0, f"features {some(names)}")
        target, y = None, np.empty(0, int)
        if self.target is not None:
            target = self.names[self.target]
            taken.insert(0, f"target column: {target} ({self.why})")
            if failures is None:
                y = _labels(columns[self.target])
            else:
                y = np.column_stack([self._numbers(columns, p) for p in (self.target, failures)])
                taken.append(f"grouped: successes {target}, failures {self.names[failures]}")
        if weights is not None:
            taken.append(f"weights {self.names[weights]}")
        sources = [self.names[place] for place in places]
        has_own_names = self.is_named and len(set(sources)) == len(sources)
        return DataFile(
            np.column_stack(features).astype(np.float64, copy=False),
            y,
            names if self.is_named or levels else None,
            row_names,
            None if weights is None else self._numbers(columns, weights),
            taken,
            FeatureColumns(
                sources if has_own_names else None, target if self.is_named else None, levels
            ),
            ignored,
            kept,
        )

    def _place_of(self, name: str | int) -> int:
        """The position of a column, by its name or position."""
        names = self.names
        known = names if self.is_named or name in names else None
        place = position(name, known, len(names), what="column")
        if place == self.row_names:
            raise InputError(f"column {place} has the row names; choose another")
        return place

    def _roles(self, options: TableOptions) -> tuple[list[int], int | None, int | None, list[str]]:
        """The positions of (features, weights, failures), and the names of columns ignored."""
        fitted = options.fitted

        def listed(given: Sequence[str | int]) -> list[str | int]:
            # "a,b" stands for two columns, unless one is called so
            found: list[str | int] = []
            for name in given:
                is_list = isinstance(name, str) and "," in name and name not in self.names
                found += [part.strip() for part in str(name).split(",")] if is_list else [name]
            return found

        weights = None if options.weight is None else self._place_of(options.weight)
        failures = None if options.failures is None else self._place_of(options.failures)
        if weights is not None and weights == self.target:
            raise InputError(
                f"has its labels in column {short(options.weight)}; weights need another column"
            )
        asked = listed(options.columns)
        dropped = {*map(self._place_of, listed(options.drop)), weights, failures}
        dropped |= {self.row_names, self.target}
        wanted = [self._place_of(name) for name in asked] or range(len(self.names))
        features = [place for place in wanted if place not in dropped]
        if fitted is not None and fitted.names is not None and self.is_named:
            present = [self.names[place] for place in features]
            matched = match_columns(fitted.names, present)
            ignored = [name for name in present if name not in fitted.names]
            return [features[i] for i in matched], weights, failures, ignored
        for place in features:
            name = self.names[place]
            if self._names_rows(place) and name not in map(str, asked):
                raise InputError(
                    f"column {short(name)} has {len(_present(self.columns[place]))} different "
                    "values in as many rows, like an identifier; leave it out with --drop "
                    f"{one_line(name, 40)}, or list all features with --columns"
                )
        return features, weights, failures, []

    def _names_rows(self, place: int) -> bool:
        """Whether a column is called an identifier, with a whole number or text of its own each."""
        name = self.names[place].lower()
        if name not in ID_NAMES and not name.endswith(("_id", ".id", " id")):
            return False
        values = _present(self.columns[place])
        is_whole = values.dtype == object or (values == np.trunc(values)).all()
        return bool(is_whole) and len(set(values.tolist())) == values.size > 1

    def _require_numbers(self, place: int, options: TableOptions) -> None:
        """Refuse a feature column of text, unless it is to become dummies."""
        name, column = self.names[place], self.columns[place]
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
        raise InputError(
            f"{self.place_word} {self.rows[words[0]]}, column {short(name)} (position "
            f"{place}): {one_line(repr(cell), 40)} is not a number, like {len(words)} of the "
            f"{counted(n_present, 'cell')} of this column; {remedy}, or --drop {one_line(name, 40)}"
        )

    def rows_kept(
        self, used: Sequence[int], options: TableOptions, notes: list[str]
    ) -> NDArray[np.bool_] | None:
        """Which rows lack no value in the columns used, if some do and may be left out."""
        missing = {place: _is_missing(self.columns[place]) for place in used}
        counts = {place: int(np.count_nonzero(gone)) for place, gone in missing.items()}
        if not any(counts.values()):
            return None
        gone = np.any(list(missing.values()), axis=0)
        listed = some([f"{self.names[place]} {count}" for place, count in counts.items() if count])
        if not options.drop_na:
            raise InputError(
                f"has missing values in {int(gone.sum())} of {gone.size} rows, by column: {listed} "
                f"(the first in {self.place_word} {self.rows[int(gone.argmax())]}); leave "
                "these rows out with --drop-na, or columns with --drop"
            )
        if gone.all():
            raise InputError(f"has a missing value in every row, by column: {listed}")
        notes.append(f"{int(gone.sum())} of {gone.size} rows left out, missing values: {listed}")
        return ~gone

    def _levels(self, name: str, column: Column, options: TableOptions) -> list[str]:
        """The levels of a text column, the one left out first; as an earlier reading had them."""
        found, known = set(column.tolist()), options.levels.get(name)
        if known is None and len(found) == len(column) > 2:
            raise InputError(
                f"column {short(name)} has {len(found)} different texts in as many rows, so it is "
                f"not a category; leave it out with --drop {one_line(name, 40)}"
            )
        unknown = sorted(found.difference(known or found))
        if unknown:
            raise InputError(
                f"column {short(name)} has levels that the model has not seen: {some(unknown)}"
            )
        return list(known or sorted(found))

    def _numbers(self, columns: list[Column], place: int) -> NDArray[np.float64]:
        """A column of counts or weights."""
        if columns[place].dtype == object:
            cell = next(cell for cell in columns[place] if not is_number(str(cell)))
            name = short(self.names[place])
            raise InputError(
                f"column {name} must have numbers; {one_line(repr(cell), 40)} is not one"
            )
        return columns[place].astype(np.float64)


def _is_missing(column: Column) -> NDArray[np.bool_]:
    return column == None if column.dtype == object else column != column  # noqa: E711


def _present(column: Column) -> Column:
    return column[~_is_missing(column)]


def _labels(column: Column) -> NDArray[Any]:
    """Labels; some may be missing in rows to be classified: as text then, empty where one is."""
    import pandas as pd

    codes, texts = pd.factorize(column)
    found = labels(np.array(texts.tolist())) if len(texts) else np.empty(0, str)
    return found[codes] if (codes >= 0).all() else np.append(found.astype(str), "")[codes]
