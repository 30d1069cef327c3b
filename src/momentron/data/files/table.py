"""A table on its way in: what is read from it, and its file."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.safefiles import reason, require_regular
from momentron.data.table_options import FeatureColumns
from momentron.errors import InputError, one_line

TEXT_TABLES = {".csv": ",", ".tsv": "\t", ".txt": None}  # and their usual delimiters
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
IN_BLOCKS = (".npy", ".parquet", *SVMLIGHT)  # files that can be read in blocks, too
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "."})  # in any case


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
