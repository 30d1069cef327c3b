"""The columns of a file, of text or of typed values: from columns to features and labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.table_options import FeatureColumns, TableOptions
from momentron.errors import InputError, counted, one_line, short, some

LABEL_NAMES = frozenset({"target", "label", "class", "y"})
ID_NAMES = frozenset({"id", "index", "row", "rownames", "row_names", "rowid", "unnamed: 0"})
EXACT = 2**53  # from here on distinct whole numbers share a float
COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")

Column = NDArray[Any]  # numbers or truth values, NaN where one is missing; or text, None there


@dataclass(frozen=True, eq=False)
class Table:
    """Features and labels of a file, in memory."""

    X: Any  # ndarray of float64 or csr_matrix of shape (n_samples, n_features), all finite
    y: NDArray[Any]  # labels, as `as_labels` has them; or (n_samples, 2): successes and failures
    feature_names: list[str] | None = None  # where the file names its columns
    row_names: list[str] | None = None  # or row numbers, if some rows were left out
    weights: NDArray[np.float64] | None = None
    taken: list[str] = field(default_factory=list)  # what was taken as what, for a user to see
    columns: FeatureColumns | None = None  # which columns of the file are the features
    ignored: list[str] = field(default_factory=list)  # columns that are not features of the model
    kept: NDArray[np.bool_] | None = None  # which rows these are, where some were left out


@dataclass(frozen=True, eq=False)
class FileColumns:
    """The columns of one file, from which a table is made."""

    names: list[str]  # of the columns; their positions where the file has none
    is_named: bool  # whether the file names its columns
    target: int | None  # the position of the labels, if there are any
    why: str  # why that column was taken
    row_names: int | None  # the position of row names
    rows: Sequence[int]  # where each row stands in the file, for messages
    place_word: str = "line"  # what rows are counted by: lines of a text, rows of another file
    columns: list[Column] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was found in the file, or taken as what

    def table(self, options: TableOptions) -> Table:
        """Features, labels and weights, with what was taken as what."""
        weight = None if options.weight is None else self._place(options.weight)
        failures = None if options.failures is None else self._place(options.failures)
        if weight is not None and weight == self.target:
            raise InputError(
                f"has its labels in column {short(options.weight)}; weights need another column"
            )
        places, ignored = self._features(options, {weight, failures})
        known = {} if options.fitted is None else options.fitted.levels
        for place in places:
            if self.names[place] not in known:
                self._require_numbers(place, options.dummies)
        counts = [weight] if failures is None else [weight, failures, self.target]
        for count in counts:
            if count is not None:
                self._require_numbers(count, is_feature=False)
        label = self.target if options.fitted is None else None  # else it may be missing
        used = [place for place in (label, *places, weight, failures) if place is not None]
        kept, taken = self.complete_rows(used, options), self.notes
        columns = self.columns if kept is None else [column[kept] for column in self.columns]
        row_names = None if self.row_names is None else columns[self.row_names].tolist()
        if kept is not None and row_names is None:
            row_names = [str(i) for i in np.flatnonzero(kept)]
        names, features, levels = [], [], dict[str, list[str]]()
        for place in places:
            name, column = self.names[place], columns[place]
            if column.dtype != object:
                names.append(name)
                features.append(column)
                continue
            levels[name] = _levels(name, column, known.get(name))
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
            y = columns[self.target]
            if failures is None:
                y = _labels(y)
            else:
                y = np.column_stack([y, columns[failures]]).astype(np.float64)
                taken.append(f"grouped: successes {target}, failures {self.names[failures]}")
        if weight is not None:
            taken.append(f"weights {self.names[weight]}")
        sources = [self.names[place] for place in places]
        has_own_names = self.is_named and len(set(sources)) == len(sources)
        return Table(
            np.column_stack(features).astype(np.float64, copy=False),
            y,
            names if self.is_named or levels else None,
            row_names,
            None if weight is None else columns[weight].astype(np.float64),
            taken,
            FeatureColumns(
                sources if has_own_names else None, target if self.is_named else None, levels
            ),
            ignored,
            kept,
        )

    def complete_rows(self, used: Sequence[int], options: TableOptions) -> Column | None:
        """Which rows lack no value in the columns used, if some do and may be left out."""
        missing = {place: _is_missing(self.columns[place]) for place in used}
        counts = {place: int(np.count_nonzero(gone)) for place, gone in missing.items()}
        if not any(counts.values()):
            return None
        gone = np.any(list(missing.values()), axis=0)
        listed = some([f"{self.names[place]} {count}" for place, count in counts.items() if count])
        if not options.drop_na and options.fitted is None:
            raise InputError(
                f"has missing values in {int(gone.sum())} of {gone.size} rows, by column: {listed} "
                f"(the first in {self.place_word} {self.rows[int(gone.argmax())]}); leave "
                "these rows out with --drop-na, or columns with --drop"
            )
        if gone.all():
            raise InputError(f"has a missing value in every row, by column: {listed}")
        self.notes.append(
            f"{int(gone.sum())} of {gone.size} rows left out, missing values: {listed}"
        )
        return ~gone

    def _place(self, name: str | int) -> int:
        """The position of a column, by its name or position."""
        known = self.names if self.is_named or name in self.names else None
        place = position(name, known, len(self.names), what="column")
        if place == self.row_names:
            raise InputError(f"column {place} has the row names; choose another")
        return place

    def _places(self, given: Sequence[str | int]) -> list[int]:
        """The positions of columns; "a,b" stands for two of them, unless one is called so."""
        found: list[int] = []
        for name in given:
            is_list = isinstance(name, str) and "," in name and name not in self.names
            parts = [part.strip() for part in str(name).split(",")] if is_list else [name]
            found += map(self._place, parts)
        return found

    def _features(
        self, options: TableOptions, others: set[int | None]
    ) -> tuple[list[int], list[str]]:
        """(the positions of the features, the names of columns that are ignored)."""
        dropped = {self.row_names, self.target, *others, *self._places(options.drop)}
        wanted = self._places(options.columns) or range(len(self.names))
        features = [place for place in wanted if place not in dropped]
        fitted = options.fitted
        if fitted is not None and fitted.names is not None and self.is_named:
            present = [self.names[place] for place in features]
            matched = match_columns(fitted.names, present)
            return [features[i] for i in matched], [n for n in present if n not in fitted.names]
        if not options.columns:
            for place in features:
                self._require_feature(place)
        return features, []

    def _require_feature(self, place: int) -> None:
        """Refuse an identifier: called so, with a whole number or a text of its own in each row."""
        name = self.names[place]
        if name.lower() not in ID_NAMES and not name.lower().endswith(("_id", ".id", " id")):
            return
        values = self.columns[place]
        values = values[~_is_missing(values)]
        is_whole = values.dtype == object or bool((values == np.trunc(values)).all())
        if is_whole and len(set(values.tolist())) == values.size > 1:
            raise InputError(
                f"column {short(name)} has {values.size} different values in as many rows, like an "
                f"identifier; leave it out with --drop {one_line(name, 40)}, or list all features "
                "with --columns"
            )

    def _require_numbers(
        self, place: int, may_be_text: bool = False, *, is_feature: bool = True
    ) -> None:
        """Refuse a column of text, unless it is a feature that is to become dummies."""
        name, column = self.names[place], self.columns[place]
        if column.dtype != object:
            return
        n_present = int(np.count_nonzero(~_is_missing(column)))
        words = [i for i, c in enumerate(column) if c is not None and not is_number(str(c))]
        is_category = is_feature and len(words) == n_present
        if may_be_text and is_category:
            return
        cell = str(column[words[0]])
        remedies = [f"--na {short(cell)} if it stands for a missing value"]
        if is_category:
            remedies.insert(0, "--dummies for categories")
        elif COMMA_NUMBER.fullmatch(cell):
            remedies = ["--decimal , for decimal commas"]
        if is_feature:
            remedies.append(f"or --drop {one_line(name, 40)}")
        raise InputError(
            f"{self.place_word} {self.rows[words[0]]}, column {short(name)} (position "
            f"{place}): {one_line(repr(cell), 40)} is not a number, like {len(words)} of the "
            f"{counted(n_present, 'cell')} of this column; {', '.join(remedies)}"
        )


def _is_missing(column: Column) -> NDArray[np.bool_]:
    return column == None if column.dtype == object else column != column  # noqa: E711


def _levels(name: str, column: Column, known: Sequence[str] | None) -> list[str]:
    """The levels of a text column, the one left out first; as an earlier reading had them."""
    found = set(column.tolist())
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


def position(
    target: str | int, names: list[str] | None, width: int = 0, what: str = "target"
) -> int:
    """Return the column that a target names, or counts to."""
    if isinstance(target, str) and names is not None and target in names:
        if names.count(target) > 1:
            raise InputError(
                f"has {names.count(target)} columns called {short(target)}; give a position"
            )
        return names.index(target)
    width = width or len(names or ())
    try:
        # A command line has only strings: "-1" is a position.
        place = int(target) if isinstance(target, str) else index(target)
    except (ValueError, TypeError):
        listed = some(names) if names else "it has no header, so give a position"
        raise InputError(f"has no column {short(target)}; its columns: {listed}") from None
    if not -width <= place < width:
        raise InputError(
            f"has {counted(width, 'column')}; {what} {place} must be from {-width} to {width - 1}"
        )
    return place % width


def label_position(names: list[str], options: TableOptions) -> tuple[int | None, str]:
    """(the column of labels, if there is one; why that one), where columns have names."""
    fitted = options.fitted
    if not options.has_labels:
        return None, ""
    if options.target is not None:
        return position(options.target, names), "from --target"
    if fitted is not None and fitted.names is not None:
        return (names.index(fitted.target) if fitted.target in names else None), "by its name"
    named = [place for place, name in enumerate(names) if name.lower() in LABEL_NAMES]
    return (named[0], "by its name") if len(named) == 1 else (len(names) - 1, "the last column")


def match_columns(wanted: Sequence[str], present: Sequence[str]) -> list[int]:
    """Return the positions of the columns that a model was fitted to, in the model's order."""
    counts = Counter(present)
    missing = [name for name in wanted if not counts[name]]
    if missing:
        raise InputError(
            f"lacks {len(missing)} of the {len(wanted)} columns that the model was fitted to: "
            f"{some(missing)}; its columns: {some(present)}"
        )
    twice = [name for name in wanted if counts[name] > 1]
    if twice:
        raise InputError(f"has several columns called {some(twice)}; the model was fitted to one")
    places = {name: place for place, name in enumerate(present)}
    return [places[name] for name in wanted]


# --- labels -------------------------------------------------------------------------------------


def is_number(cell: str) -> bool:
    """Say whether a cell reads as a number, nan and inf among them."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000, files do not mean it


def as_labels(values: Any) -> NDArray[Any]:
    """Labels as int where all are whole, as float where all are numbers, else as str."""
    found = np.asarray(values)
    if found.dtype.kind in "iu":
        return found
    if found.dtype.kind not in "bfUS":
        raise InputError(f"has labels of type {found.dtype}; give numbers or text")
    if found.dtype.kind == "f":
        if not np.isfinite(found).all():
            raise InputError("has a missing or infinite label; remove that row")
        is_whole = (found == np.rint(found)).all() and (np.abs(found) < EXACT).all()
        return found.astype(np.int64) if is_whole else found
    texts, codes = np.unique(found.astype(str), return_inverse=True)
    keys = [exact_key(text) for text in texts.tolist()]
    if all(isinstance(key, Decimal) for key in keys):
        numbers = np.array(keys, np.float64)
        is_distinct = np.unique(numbers).size == len(set(keys))
        if is_distinct and (np.abs(numbers) < EXACT).all():
            is_whole = all(key == int(key) for key in keys)
            texts = numbers.astype(np.int64) if is_whole else numbers
    return texts[codes.ravel()]


def exact_key(label: Any) -> Any:
    """Return what tells a label from others: its value where it reads as a number ("1" is 1.0)."""
    text = str(label).strip()
    return Decimal(text) if is_number(text) and np.isfinite(float(text)) else text


def chosen_labels(present: list[Any], classes: Any, names: Mapping[Any, str] | None = None) -> list:
    """The labels, two at least, that a user chooses by their values or names."""
    by_key = {exact_key(label): label for label in present}
    by_key |= {name: label for label, name in (names or {}).items() if label in present}
    chosen = set()
    for label in [classes] if isinstance(classes, str) else classes:
        if exact_key(label) not in by_key:
            raise InputError(f"has no label {short(label)}; its labels: {some(present)}")
        chosen.add(by_key[exact_key(label)])
    if len(chosen) < 2:
        kept = counted(len(chosen), "class")
        raise InputError(f"would keep {kept} of {some(present)}; give at least 2")
    return sorted(chosen)


def _labels(column: Column) -> NDArray[Any]:
    """Labels; some may be missing in rows to be classified: as text then, empty where one is."""
    import pandas as pd

    codes, texts = pd.factorize(column)
    found = as_labels(np.array(texts.tolist())) if len(texts) else np.empty(0, str)
    return found[codes] if (codes >= 0).all() else np.append(found.astype(str), "")[codes]
