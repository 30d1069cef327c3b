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
    """The columns of the table that a model was fitted to, by which it finds them in another.

    Attributes
    ----------
    names : sequence of str or None
        The columns that became features, in their order; None: they are found by position.
    target : str or None
        The column of labels.
    levels : mapping of str to sequence of str
        The levels of the columns that became dummies; the first is left out.
    """

    names: Sequence[str] | None = None
    target: str | None = None
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
    """What a user says of a table; what is left out is found in the file, and reported.

    Attributes
    ----------
    target : str, int or None
        The column of labels, by name or position.
    columns, drop : tuple of str or int
        The columns to use as features (empty: all), and those to leave out.
    delimiter : str or None
        One character; a space stands for any white space.
    decimal : {".", ","} or None
    na : tuple of str or None
        Text of missing values; None: empty cells, NA, N/A, NaN, null and a point.
    drop_na : bool
        Leave out rows with a missing value in a column that is used; else they are an error.
    dummies : bool
        One-hot encode text columns, dropping the first level.
    weight : str, int or None
        A column of weights or frequencies.
    failures : str, int or None
        A column of failures; the target then has the successes of grouped data.
    fitted : FeatureColumns or None
        Those of a model, if its rows are read to be classified: other columns are ignored, and
        labels may be missing: y is then text, empty where one is.
    has_labels : bool
        Whether a column has labels; else all are features.
    """

    target: Target = None
    columns: tuple[str | int, ...] = ()
    drop: tuple[str | int, ...] = ()
    delimiter: str | None = None
    decimal: str | None = None
    na: tuple[str, ...] | None = None
    drop_na: bool = False
    dummies: bool = False
    weight: str | int | None = None
    failures: str | int | None = None
    fitted: FeatureColumns | None = None
    has_labels: bool = True

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
