"""Read a user's data file: tables, svmlight, numpy and parquet.

Every failure is one line that names the file, and where it can the place and the column. Lines of
a text file count from 1, header included, as editors have it; rows of data and positions of columns
count from 0, as everywhere in momentron.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.data.exactness import as_exact
from momentron.data.files._common import DataFile, exact_key, fail, require_file, some, unpacked
from momentron.data.files.binary import array_of, read_npy, read_npz, read_parquet
from momentron.data.files.cells import read_table
from momentron.data.files.layout import text_of
from momentron.data.files.svmlight import read_svmlight
from momentron.data.files.table_options import FeatureColumns, TableOptions, Target
from momentron.errors import InputError, one_line, short

BINARY = {".npy": read_npy, ".npz": read_npz, ".parquet": read_parquet}
TABLES = {".csv": ",", ".tsv": "\t", ".txt": None}  # and their usual delimiters
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_SVMLIGHT_LINE = re.compile(r"\s*[+-]?[\d.]\S*(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?$")


def read_data(
    path: str | PathLike[str],
    target: Any = None,
    *,
    classes: Sequence[Any] | None = None,
    weight: str | int | None = None,
    options: TableOptions | None = None,
) -> DataFile:
    """Read features and labels from a file, by its suffix.

    Parameters
    ----------
    path : path
        .csv, .tsv, .svm, .svmlight, .libsvm, .txt (svmlight if its first line looks so, else a
        table) or .npy, each also with .gz or .bz2; .npz (keys X and y, or CSR parts X_data,
        X_indices, X_indptr, X_shape and y); .parquet (needs pyarrow). Pickles are never loaded.
    target : str, int, array or None
        The label column of a table, by name or position (negative from the end). By default
        the only column called target, label, class or y, else the last one. For a .npy file with
        only features: the labels themselves, or the path of a .npy file of them.
    classes : sequence of labels or None
        Keep only the rows with these labels, two at least; text and numbers match ("1" is 1).
    weight : str, int or None
        The column of weights.
    options : TableOptions or None
        What else is known of a table; `target` and `weight` are put into it.

    Returns
    -------
    DataFile

    Raises
    ------
    InputError
        One line for any file that cannot be read as finite numbers with labels.

    Notes
    -----
    The first row of a table is a header if a feature column has text in it above something else,
    or nothing but text, or if its label cell reads target, label, class or y above numbers (or
    next to the names 0, 1, 2, …). Empty cells and markers such as NA do not count as text, so a
    missing value in a first row is reported, not taken for a name. A first column without a heading
    has row names. TRUE and FALSE are 1 and 0.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = file.write_text("height,label\\n1.5,yes\\n0.5,no\\n")
    >>> read_data(file).y.tolist()
    ['yes', 'no']
    """
    shown, options = str(path), options or TableOptions()
    if weight is not None:
        options = replace(options, weight=weight)
    names_file = is_path(target) and str(target).lower().endswith(".npy")
    if (is_path(target) or np.isscalar(target)) and not names_file:
        options = replace(options, target=str(target) if is_path(target) else target)
    elif target is not None:
        data = _read_apart(path, target, options)
        return data if classes is None else restrict(shown, data, classes)
    plain, content = open_file(path)
    try:
        data = _read(shown, plain, content, options)
    except InputError:
        raise
    except Exception as error:  # a damaged file can raise anything inside its parser
        fail(shown, f"cannot be read as {plain}: {one_line(error)}", error)
    return data if classes is None else restrict(shown, data, classes)


def _read_apart(path: str | PathLike[str], y: Any, options: TableOptions) -> DataFile:
    """A .npy file of features, with its labels or the path of a .npy file of them."""
    if Path(path).suffix.lower() != ".npy":
        fail(
            str(path),
            "has its labels in a column; pass its name or position as y (separate labels are "
            "supported for .npy files only)",
        )
    options.require_plain(str(path), "it has only features")
    return DataFile(as_exact(_read_array(path)), _read_array(y) if is_path(y) else y)


def _read(shown: str, plain: str, content: bytes, options: TableOptions) -> DataFile:
    if plain in BINARY:
        return BINARY[plain](shown, content, options)
    text = text_of(shown, content)
    is_svmlight = plain in SVMLIGHT
    if plain == ".txt" and options.delimiter is None:
        is_svmlight = bool(_SVMLIGHT_LINE.match(text.lstrip().split("\n", 1)[0]))
    if is_svmlight:
        return read_svmlight(shown, text, options)
    # labels are compared as they are written; counts of successes are numbers
    as_text = options.failures is None
    table = read_table(shown, text, options, TABLES[plain], labels_as_text=as_text)
    return table.as_data(options)


def open_file(path: str | PathLike[str]) -> tuple[str, bytes]:
    """(suffix of a file that can be read, its content unpacked)."""
    shown, file = str(path), Path(path).expanduser()
    require_file(file, shown)
    plain, packing = split_suffix(file)
    known = [*BINARY, *TABLES, *SVMLIGHT]
    if plain not in known or (packing and plain in (".npz", ".parquet")):
        listed = ", ".join(sorted(known))
        fail(
            shown, f"has suffix {plain + packing!r}; give one of {listed} (text and .npy also .gz)"
        )
    try:
        content = unpacked(file)
    except Exception as error:  # zlib.error, EOFError, OSError, ValueError: all mean the same
        fail(shown, f"cannot be read: {one_line(error)}; is it complete?", error)
    if not content or content.isspace():
        fail(shown, "is empty; give at least one row")
    return plain, content


def split_suffix(path: Path) -> tuple[str, str]:
    """(suffix, suffix of the packing): of data.csv.gz, .csv and .gz."""
    first, last = ["", "", *(suffix.lower() for suffix in path.suffixes)][-2:]
    return (first, last) if last in (".gz", ".bz2") else (last, "")


def restrict(shown: str, data: DataFile, classes: Sequence[Any]) -> DataFile:
    """Keep the rows of the classes named."""
    if np.ndim(data.y) != 1:
        fail(shown, "has counts, not labels; leave --classes out")
    present = np.unique(data.y)
    by_key = {exact_key(label): label for label in present}
    wanted = {
        exact_key(label): label for label in ([classes] if isinstance(classes, str) else classes)
    }
    for key, label in wanted.items():
        if key not in by_key:
            fail(shown, f"has no label {short(label)}; its labels: {some(present.tolist())}")
    if len(wanted) < 2:
        fail(shown, f"would keep {len(wanted)} class; give at least 2 of: {some(present.tolist())}")
    keep = np.isin(data.y, [by_key[key] for key in wanted])
    names, weights = data.row_names, data.weights
    return replace(
        data,
        X=data.X[keep],
        y=data.y[keep],
        row_names=None if names is None else [names[i] for i in np.flatnonzero(keep)],
        weights=None if weights is None else weights[keep],
    )


def is_path(X: Any) -> bool:
    """Whether X names a file or a folder."""
    return isinstance(X, str | PathLike)


def _read_array(path: str | PathLike[str]) -> np.ndarray:
    content = open_file(path)[1]
    try:
        return array_of(content)
    except Exception as error:  # a damaged file can raise anything
        fail(str(path), f"cannot be read as .npy: {one_line(error)}", error)


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

    shown = str(path)
    why = "a formula names its own columns"
    options.require_plain(shown, why, but=("delimiter", "decimal", "na", "drop_na", "weight"))
    plain, content = open_file(path)
    if plain not in TABLES:
        fail(shown, f"has suffix {plain!r}; --formula reads .csv, .tsv and .txt")
    text = text_of(shown, content)
    table = read_table(shown, text, options, TABLES[plain], labels_as_text=False)
    names, row_names = table.names, table.row_names
    if not table.is_named:
        fail(shown, "has no header, so a formula cannot name its columns")
    columns = {i: column for i, column in enumerate(table.columns) if i != row_names}
    twice = [name for name, n in Counter(names[i] for i in columns).items() if n > 1]
    if twice:
        fail(shown, f"has several columns called {some(twice)}; a formula needs one name for each")
    frame = pd.DataFrame({names[i]: column for i, column in columns.items()})
    if row_names is not None:
        frame.index = table.columns[row_names]
    named = {*columns_used(list(frame.columns)), options.weight}
    kept = table.rows_kept([i for i in columns if names[i] in named], options, table.notes)
    return (frame if kept is None else frame[kept]), table.notes


def read_rows(
    path: str | PathLike[str],
    n_features: int,
    fitted: FeatureColumns = FeatureColumns(),  # noqa: B008 (it is frozen)
    *,
    target: Target = None,
    options: TableOptions | None = None,
) -> DataFile:
    """Read rows to be classified by a model of `n_features`, with labels or without.

    Where both the model and the file name their columns, features are found by name, and the
    labels under the name that they had in the fit; other columns are ignored. Otherwise columns are
    taken in their order: a table with that many has no labels, one with a column more has them.

    `y` is empty if there are no labels, and a label may be missing. Rows with a missing feature are
    left out of X; `kept` says which rows remain. An .npz needs no y. Columns that svmlight leaves
    out at the end are zero.

    Parameters
    ----------
    path : path
        As for `read_data`.
    n_features : int
    fitted : FeatureColumns
        The columns that the model was fitted to.
    target : str, int or None
        The label column of a table that has one.
    options : TableOptions or None
        What else is known of a table.
    """
    shown, plain = str(path), split_suffix(Path(path))[0]
    is_table = plain in TABLES or plain == ".parquet"
    options = replace(options or TableOptions(), drop_na=is_table, fitted=fitted)
    data = read_data(path, target=target, options=options)
    n, found = data.X.shape
    if sp.issparse(data.X) and found < n_features:
        X = data.X.tocsr()  # rows end at the last entry that is not zero
        X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(n, n_features))
        data = replace(data, X=X)
    elif found == n_features - 1 and target is None and (is_table or plain == ".npy"):
        data = read_data(path, options=replace(options, has_labels=False))
    if data.X.shape[1] != n_features:
        words = "a label column" if data.y.size else "no label column"
        fail(shown, f"has {found} features ({words}); the model was fitted to {n_features}")
    return data
