"""What the readers share: what users say of a file, the result, its name in errors, labels."""

from __future__ import annotations

import bz2
import gzip
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from decimal import Decimal
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.safefiles import reason, require_regular
from momentron.errors import InputError, counted, one_line, short

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "."})  # in any case
Target = str | int | None
MARKS = {"tab": "\t", "\\t": "\t", "space": " ", "whitespace": " "}


@dataclass(frozen=True)
class FeatureColumns:
    """The columns of the table that a model was fitted to, by which it finds them in another."""

    names: Sequence[str] | None = None  # what became features, in order; None: by position
    target: str | None = None  # the column of labels
    # of the columns that became dummies, the first left out
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def features(self) -> list[str]:
        """The names of the features, with a dummy for each level but the first."""
        found: list[str] = []
        for name in self.names or ():
            dummies = [f"{name}[{level}]" for level in self.levels.get(name, ())[1:]]
            found += dummies or [name]
        return found


@dataclass(frozen=True)
class TableOptions:
    """What a user says of a table; what is left out is found in the file, and reported."""

    target: Target = None  # the column of labels, by name or position
    columns: tuple[str | int, ...] = ()  # the features; empty: all other columns
    drop: tuple[str | int, ...] = ()  # columns to leave out
    delimiter: str | None = None  # one character; a space stands for any number of spaces and tabs
    decimal: str | None = None  # "." or ","
    na: tuple[str, ...] | None = None  # text of missing values, in place of `MISSING`
    drop_na: bool = False  # leave out rows with a missing value in a column that is used
    dummies: bool = False  # one-hot encode text columns, dropping the first level
    weight: str | int | None = None  # a column of weights or frequencies
    failures: str | int | None = None  # of grouped data, whose target has the successes
    # Of a model whose rows are read to be classified: other columns are ignored, and labels may be
    # missing; y is then text, empty where one is.
    fitted: FeatureColumns | None = None
    has_labels: bool = True  # else all columns are features

    def __post_init__(self) -> None:
        mark = MARKS.get(self.delimiter or "", self.delimiter)
        if mark is not None and (len(mark) != 1 or mark in '"\n\r' or mark.isalnum()):
            raise InputError(f"delimiter={mark!r} must be one character, such as ; or tab")
        object.__setattr__(self, "delimiter", mark)
        if self.decimal not in (None, ".", ","):
            raise InputError(f"decimal={short(self.decimal)} must be '.' or ','")
        if self.decimal is not None and self.decimal == mark:
            raise InputError(f"delimiter and decimal are both {mark!r}; they must differ")

    @property
    def levels(self) -> Mapping[str, Sequence[str]]:
        """The levels of text columns in an earlier reading, by column."""
        return {} if self.fitted is None else self.fitted.levels

    def is_missing(self, cell: str) -> bool:
        """Whether a cell, without white space around it, stands for a missing value."""
        return cell in self.na if self.na is not None else cell.lower() in MISSING

    def require_plain(self, why: str, *, but: tuple[str, ...] = ("target",)) -> None:
        """Raise where more than what is named is said of a file."""
        for part in fields(self):
            given = getattr(self, part.name)
            if part.name not in but and given != getattr(_DEFAULTS, part.name):
                option = "--" * (part.name != "target") + part.name.replace("_", "-")
                raise InputError(f"takes no {option} ({short(given)} given): {why}")


_DEFAULTS = TableOptions()


LABEL_NAMES = frozenset({"target", "label", "class", "y"})
COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, eq=False)
class DataFile:
    """A data file in memory."""

    X: Any  # ndarray of float64 or csr_matrix of shape (n_samples, n_features), all finite
    y: NDArray[Any]  # labels, as `labels` has them; or (n_samples, 2): successes and failures
    feature_names: list[str] | None = None  # where the file names its columns
    row_names: list[str] | None = None  # of a table; or row numbers, if some rows were left out
    weights: NDArray[np.float64] | None = None
    taken: list[str] = field(default_factory=list)  # what was taken as what, for a user to see
    columns: FeatureColumns | None = None  # which columns of a table are the features
    ignored: list[str] = field(default_factory=list)  # columns that are not features of the model
    kept: NDArray[np.bool_] | None = None  # which rows these are, where some were left out


@contextmanager
def naming(path: Any) -> Iterator[None]:
    """Put the name of a file before what is wrong with it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{one_line(path, 120)} {error}") from error.__cause__


def require_file(path: str | Path) -> None:
    """Refuse what is not a regular file before it is opened: a pipe would block for ever."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        raise InputError(f"{one_line(path, 120)} does not exist; check the path") from None
    except (OSError, ValueError) as error:  # a folder on the way that may not be entered
        raise InputError(f"{one_line(path, 120)} cannot be reached: {reason(error)}") from error
    require_regular(found, path)


def unpacked(path: Path) -> bytes:
    """The content of a file, decompressed by its suffix."""
    content = path.read_bytes()
    unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(path.suffix.lower())
    return unpack(content) if unpack and content else content


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


def is_number(cell: str) -> bool:
    """Say whether a cell reads as a number, nan and inf among them."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000, files do not mean it


def labels(values: Any) -> NDArray[Any]:
    """Return labels as int where all are whole, as float where all are numbers, else as str."""
    found = np.asarray(values)
    if found.dtype.kind in "iu":
        return found
    if found.dtype.kind not in "bfUS":
        raise InputError(f"has labels of type {found.dtype}; give numbers or text")
    if found.dtype.kind == "f":
        if not np.isfinite(found).all():
            raise InputError("has a missing or infinite label; remove that row")
        # Above 2^53 distinct whole numbers share a float.
        is_whole = (found == np.rint(found)).all() and (np.abs(found) < 2.0**53).all()
        return found.astype(np.int64) if is_whole else found
    texts, codes = np.unique(found.astype(str), return_inverse=True)
    return _as_numbers(texts)[codes.ravel()]


def _as_numbers(texts: NDArray[np.str_]) -> NDArray[Any]:
    """Return texts as numbers where each is one, and different ones stay different."""
    cells = texts.tolist()
    if not all(is_number(cell) and np.isfinite(float(cell)) for cell in cells):
        return texts
    numbers = np.array([float(cell) for cell in cells])
    exact = {exact_key(cell) for cell in cells}
    # Above 2^53 distinct whole numbers share a float, so long identifiers stay text.
    if not (np.abs(numbers) < 2.0**53).all() or len(exact) > np.unique(numbers).size:
        return texts
    is_whole = all(number == int(number) for number in exact)
    return numbers.astype(np.int64) if is_whole else numbers


def exact_key(label: Any) -> Any:
    """Return what tells a label from others: its value where it reads as a number ("1" is 1.0)."""
    text = str(label).strip()
    return Decimal(text) if is_number(text) and np.isfinite(float(text)) else text


def chosen_labels(present: list[Any], classes: Any, names: Mapping[Any, str] | None = None) -> list:
    """The labels, two at least, that a user chooses by their values or names."""
    by_key = {exact_key(label): label for label in present}
    by_key |= {name: label for label, name in (names or {}).items() if label in present}
    chosen = {}
    for wanted in [classes] if isinstance(classes, str) else classes:
        if exact_key(wanted) not in by_key:
            raise InputError(f"has no label {short(wanted)}; its labels: {some(present)}")
        label = by_key[exact_key(wanted)]
        chosen[label] = True
    if len(chosen) < 2:
        raise InputError(f"would keep {len(chosen)} class; give at least 2 of: {some(present)}")
    return sorted(chosen)


def some(names: Sequence[Any], limit: int = 12, width: int = 160) -> str:
    """Return the first few names, and how many there are."""
    listed: list[str] = []
    for name in names[:limit]:
        listed.append(one_line(name, 40))
        if sum(map(len, listed)) > width:
            break
    return ", ".join(listed) + (f", … ({len(names)} in all)" if len(names) > len(listed) else "")
