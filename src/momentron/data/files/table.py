"""A table on its way in: what users say of it, what is read from it, and its file."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.safefiles import reason, require_regular
from momentron.errors import InputError, one_line, short

TEXT_TABLES = {".csv": ",", ".tsv": "\t", ".txt": None}  # and their usual delimiters
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
IN_BLOCKS = (".npy", ".parquet", *SVMLIGHT)  # files that can be read in blocks, too
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "."})  # in any case
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
