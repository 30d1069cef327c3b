"""What users say of a table, and what a model keeps of the columns of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated

from momentron.errors import InputError, short

DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "whitespace": " "}


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
            found += dummies if name in self.levels else [name]
        return found


@dataclass(frozen=True)
class TableOptions:
    """What a user says of a table; what is left out is found in the file, and reported.

    The sentence next to a type is the help of the option of that name on the command line.
    """

    target: Annotated[str | int | None, "Label column: a name or a position."] = None
    columns: Annotated[
        Sequence[str | int],
        "Features to use: names or positions, separated by commas or one per option.",
    ] = ()
    drop: Annotated[Sequence[str | int], "Columns to leave out, such as an identifier."] = ()
    delimiter: Annotated[  # a space stands for any number of spaces and tabs
        str | None, "Cell delimiter: , ; | tab or space; detected automatically by default."
    ] = None
    decimal: Annotated[
        str | None, "Decimal mark: . or , (detected automatically where it is clear)."
    ] = None
    na: Annotated[
        Sequence[str], "Text of a missing value; by default NA, NaN, null, . and an empty cell."
    ] = ()
    drop_na: Annotated[bool, "Leave out rows with a missing value."] = False
    dummies: Annotated[bool, "One-hot encode text columns, dropping one level."] = False
    weight: Annotated[
        str | int | None, "Column of weights or frequencies; rows of weight 0 are left out."
    ] = None
    failures: Annotated[
        str | int | None,
        "For grouped data: the column with the number of failures; --target is the column with "
        "the number of successes.",
    ] = None
    # Of a model whose rows are read to be classified: other columns are ignored, and labels may be
    # missing; y is then text, empty where one is.
    fitted: FeatureColumns | None = None
    has_labels: bool = True  # else all columns are features

    def __post_init__(self) -> None:
        mark = DELIMITERS.get(self.delimiter or "", self.delimiter)
        if mark is not None and (len(mark) != 1 or mark in '"\n\r' or mark.isalnum()):
            raise InputError(f"delimiter={mark!r} must be one character, such as ; or tab")
        object.__setattr__(self, "delimiter", mark)
        if self.decimal not in (None, ".", ","):
            raise InputError(f"decimal={short(self.decimal)} must be '.' or ','")
        if self.decimal is not None and self.decimal == mark:
            raise InputError(f"delimiter and decimal are both {mark!r}; they must differ")

    def require_plain(self, why: str, *, but: tuple[str, ...] = ("target",)) -> None:
        """Raise where more than what is named is said of a file."""
        for part in fields(TableOptions):
            given = getattr(self, part.name)
            if part.name not in but and given != part.default:
                option = "--" * (part.name != "target") + part.name.replace("_", "-")
                raise InputError(f"takes no {option} ({short(given)} given): {why}")
