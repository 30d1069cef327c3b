"""Users' data files: tables, svmlight, numpy and parquet; which are read whole, and how.

Every failure is one line that names the file, and where it can the place and the column. Lines of
a text file count from 1, header included, as editors have it; rows of data and positions of columns
count from 0, as everywhere in momentron.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.data.files.columns import Table, chosen_labels
from momentron.data.files.formats import (
    SVMLIGHT,
    array_of,
    exact,
    read_npy,
    read_npz,
    read_parquet,
    read_svmlight,
)
from momentron.data.files.text_tables import TEXT_TABLES, read_columns, text_of
from momentron.data.safefiles import naming, require_file, unpacked
from momentron.data.table_options import FeatureColumns, TableOptions
from momentron.errors import InputError, one_line, some

__all__ = ["FeatureColumns", "Table", "TableOptions", "read_data", "read_frame", "read_rows"]

BINARY = {".npy": read_npy, ".npz": read_npz, ".parquet": read_parquet}
_SVMLIGHT_LINE = re.compile(r"\s*[+-]?[\d.]\S*(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?$")


def read_data(
    path: str | PathLike[str],
    target: Any = None,
    *,
    classes: Sequence[Any] | None = None,
    weight: str | int | None = None,
    options: TableOptions | None = None,
) -> Table:
    """Features and labels of a file, all numbers finite.

    Its suffix is .csv, .tsv, .svm, .svmlight, .libsvm, .txt (svmlight if its first line looks so,
    else a table) or .npy, each also with .gz or .bz2; .npz (keys X and y, or CSR parts X_data,
    X_indices, X_indptr, X_shape and y); or .parquet (needs pyarrow). Pickles are never loaded.

    `target` is the label column of a table, by name or position (negative from the end): by default
    the only column called target, label, class or y, else the last one. For a .npy file with only
    features, `target` is an array of the labels, or the path of a .npy file of them. Only rows with
    labels among `classes` are kept; text and numbers match ("1" is 1).

    The first row of a table is a header if a feature column has text in it above something else,
    or nothing but text, or if its label cell reads target, label, class or y above numbers (or
    next to the names 0, 1, 2, …). Empty cells and markers such as NA do not count as text, so a
    missing value in a first row is reported, not taken for a name. A first column without a heading
    has row names. TRUE and FALSE are 1 and 0.
    """
    options, y = options or TableOptions(), None
    if weight is not None:
        options = replace(options, weight=weight)
    target = str(target) if isinstance(target, PathLike) else target
    if isinstance(target, str) and target.lower().endswith(".npy"):
        with _opened(target) as (_, content):
            y = array_of(content)
    elif bool(np.isscalar(target)):
        options = replace(options, target=target)
    else:
        y = target
    with _opened(path) as (suffix, content):
        table = _read(suffix, content, options, y)
        if classes is None:
            return table
        if np.ndim(table.y) != 1:
            raise InputError("has counts, not labels; leave --classes out")
        rows = np.isin(table.y, chosen_labels(np.unique(table.y).tolist(), classes))
    names, weights = table.row_names, table.weights
    return replace(
        table,
        X=table.X[rows],
        y=table.y[rows],
        row_names=None if names is None else [names[i] for i in np.flatnonzero(rows)],
        weights=None if weights is None else weights[rows],
    )


@contextmanager
def _opened(path: str | PathLike[str]) -> Iterator[tuple[str, bytes]]:
    """(suffix, unpacked content) of a file, whose name stands before all that is wrong with it."""
    file = Path(path).expanduser()
    require_file(file)
    first, suffix = ["", "", *(suffix.lower() for suffix in file.suffixes)][-2:]
    packing = ""
    if suffix in (".gz", ".bz2"):
        suffix, packing = first, suffix
    known = [*BINARY, *TEXT_TABLES, *SVMLIGHT]
    with naming(path):
        if suffix not in known or (packing and suffix in (".npz", ".parquet")):
            listed = ", ".join(sorted(known))
            raise InputError(
                f"has suffix {suffix + packing!r}; give one of {listed} (text and .npy also .gz)"
            )
        try:
            content = unpacked(file)
        except Exception as error:  # zlib.error, EOFError, OSError, ValueError: all mean the same
            raise InputError(f"cannot be read: {one_line(error)}; is it complete?") from error
        if not content or content.isspace():
            raise InputError("is empty; give at least one row")
        try:
            yield suffix, content
        except InputError:
            raise
        except Exception as error:  # a damaged file can raise anything inside its parser
            raise InputError(f"cannot be read as {suffix}: {one_line(error)}") from error


def _read(suffix: str, content: bytes, options: TableOptions, y: Any) -> Table:
    """Features and labels; y has the labels of a .npy file that has only features."""
    if y is not None:
        if suffix != ".npy":
            raise InputError(
                "has its labels in a column; pass its name or position as y (separate labels are "
                "supported for .npy files only)"
            )
        options.require_plain("it has only features")
        return Table(exact(array_of(content)), y)
    if suffix in BINARY:
        return BINARY[suffix](content, options)
    text = text_of(content)
    is_svmlight = suffix in SVMLIGHT
    if suffix == ".txt" and options.delimiter is None:
        is_svmlight = bool(_SVMLIGHT_LINE.match(text.lstrip().split("\n", 1)[0]))
    if is_svmlight:
        return read_svmlight(text, options)
    return read_columns(text, options, TEXT_TABLES[suffix]).table(options)


def read_frame(
    path: str | PathLike[str],
    options: TableOptions,
    columns_used: Callable[[list[str]], list[str]],
) -> tuple[Any, list[str]]:
    """(a data frame of a CSV, TSV or TXT file with a header, what was found in it), for formulas.

    Rows with a missing value in a column that is used, of all that there are, or in the weights
    are refused, or left out if the options say so.
    """
    import pandas as pd

    with _opened(path) as (suffix, content):
        why = "a formula names its own columns"
        options.require_plain(why, but=("delimiter", "decimal", "na", "drop_na", "weight"))
        if suffix not in TEXT_TABLES:
            raise InputError(f"has suffix {suffix!r}; --formula reads .csv, .tsv and .txt")
        options = replace(options, has_labels=False)
        found = read_columns(text_of(content), options, TEXT_TABLES[suffix])
        if not found.is_named:
            raise InputError("has no header, so a formula cannot name its columns")
        columns = dict(enumerate(found.columns))
        row_names = None if found.row_names is None else columns.pop(found.row_names)
        names = [found.names[place] for place in columns]
        twice = [name for name, n in Counter(names).items() if n > 1]
        if twice:
            raise InputError(
                f"has several columns called {some(twice)}; a formula needs one name for each"
            )
        frame = pd.DataFrame(dict(zip(names, columns.values(), strict=True)), index=row_names)
    named = {*columns_used(names), options.weight}
    with naming(path):
        used = [place for place in columns if found.names[place] in named]
        kept = found.complete_rows(used, options)
    return (frame if kept is None else frame[kept]), found.notes


def read_rows(
    path: str | PathLike[str],
    n_features: int,
    fitted: FeatureColumns = FeatureColumns(),  # noqa: B008 (it is frozen)
    *,
    target: str | int | None = None,
    options: TableOptions | None = None,
) -> Table:
    """Read rows to be classified by a model of `n_features`, with labels or without.

    Where both the model and the file name their columns, features are found by name, and the
    labels under the name that they had in the fit; other columns are ignored. Otherwise columns are
    taken in their order: a table with that many has no labels, one with a column more has them.

    `y` is empty if there are no labels, and a label may be missing. Rows with a missing feature are
    left out of X; `kept` says which rows remain. An .npz needs no y. Columns that svmlight leaves
    out at the end are zero.
    """
    options = replace(options or TableOptions(), fitted=fitted)
    table = read_data(path, target=target, options=options)
    if fitted.levels and table.feature_names is None:
        raise InputError(f"{one_line(path, 120)} has no header; dummies need the names of columns")
    found = table.X.shape[1]
    if sp.issparse(table.X) and found < n_features:
        table.X.resize(table.X.shape[0], n_features)  # rows end at the last entry that is not zero
    elif found == n_features - 1 and target is None and Path(path).suffix.lower() != ".npz":
        table = read_data(path, options=replace(options, has_labels=False))
    if table.X.shape[1] != n_features:
        words = "a label column" if table.y.size else "no label column"
        fault = f"has {found} features ({words}); the model was fitted to {n_features}"
        raise InputError(f"{one_line(path, 120)} {fault}")
    return table
