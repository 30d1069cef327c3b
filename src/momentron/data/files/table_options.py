"""How a table is to be read: what its cells mean, and which columns are what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from momentron.errors import InputError, short

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

    def require_plain(self, shown: str, why: str, *, but: tuple[str, ...] = ("target",)) -> None:
        """Raise where more than what is named is said of a file."""
        for part in fields(self):
            given = getattr(self, part.name)
            if part.name not in but and given != getattr(_DEFAULTS, part.name):
                option = "--" * (part.name != "target") + part.name.replace("_", "-")
                raise InputError(f"{shown} takes no {option} ({short(given)} given): {why}")


_DEFAULTS = TableOptions()
