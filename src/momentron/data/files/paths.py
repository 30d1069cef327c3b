"""Files that are read at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import index
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from momentron.data.exactness import as_exact
from momentron.data.files._common import DataFile, fail, require_file
from momentron.data.files.arrays import array_of
from momentron.data.files.options import TableOptions
from momentron.data.files.readers import read_data, restrict
from momentron.errors import one_line


def is_path(X: Any) -> bool:
    """Whether X names a file or a folder."""
    return isinstance(X, str | PathLike)


def read_whole(
    path: str | PathLike[str],
    y: Any = None,
    classes: Sequence[Any] | None = None,
    weight: str | int | None = None,
    options: TableOptions | None = None,
) -> DataFile:
    """Read a file at once.

    y is the label column, by name or position, or None for the usual one. Beside a .npy file of
    features alone it may be the labels themselves, or the path of a .npy file of them. `classes`
    are the labels of the rows to keep, `options` what else is known of a table, and
    `weight` its column of weights.
    """
    if weight is not None:
        options = replace(options or TableOptions(), weight=weight)
    if y is None:
        return read_data(path, classes=classes, options=options)
    if isinstance(y, int | np.integer):
        return read_data(path, target=index(y), classes=classes, options=options)
    names_file = is_path(y) and str(y).lower().endswith(".npy")
    if is_path(y) and not names_file:
        return read_data(path, target=str(y), classes=classes, options=options)
    if Path(path).suffix.lower() != ".npy":
        fail(
            str(path),
            "has its labels in a column, whose name or position y must be; labels of their own go "
            "with a .npy file of features",
        )
    if options is not None:
        options.require_plain(str(path), "it has features alone")
    data = DataFile(as_exact(_read_npy(path)), _read_npy(y) if names_file else y)
    return data if classes is None else restrict(str(path), data, classes)


def _read_npy(path: str | PathLike[str]) -> np.ndarray:
    require_file(Path(path).expanduser(), str(path))
    try:
        return array_of(Path(path).expanduser().read_bytes())
    except Exception as error:  # a damaged file can raise anything
        fail(str(path), f"cannot be read as .npy: {one_line(error)}", error)
