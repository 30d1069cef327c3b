"""Rows to be classified: a file with labels, or without."""

from __future__ import annotations

import io
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from momentron.data.files import read_data
from momentron.data.files._common import DataFile, fail, require_file
from momentron.data.files.options import TableOptions, Target
from momentron.data.files.readers import is_table


def read_rows(
    path: str | PathLike[str],
    n_features: int,
    *,
    target: Target = None,
    options: TableOptions | None = None,
) -> DataFile:
    """Read a file for a model of so many features.

    A table with that many columns has no labels, one with a column more has them; `y` is then empty
    or theirs. Rows with a missing feature are left out of X; `kept` says which rows remain, and a
    label may be missing. An .npz needs no y. Columns that svmlight leaves out at the end are zero.

    Parameters
    ----------
    path : path
        As for `read_data`.
    n_features : int
    target : str, int or None
        The label column of a table that has one.
    options : TableOptions or None
        What else is known of a table.
    """
    shown = str(path)
    require_file(Path(path).expanduser(), shown)
    if shown.lower().endswith(".npz"):
        labelled = _with_labels(shown, Path(path).expanduser())
        if not labelled:
            return _fitting(shown, _bare_npz(shown, Path(path).expanduser()), n_features)
    if is_table(path):
        options = replace(options or TableOptions(), drop_na=True, open_labels=True)
    data = read_data(path, target=target, options=options)
    if sp.issparse(data.X):
        data = _padded(data, n_features)
    if target is None and data.X.shape[1] == n_features - 1:
        if data.taken and data.y.ndim == 1:  # a table
            unlabelled = replace(options or TableOptions(), has_labels=False, open_labels=False)
            data = read_data(path, options=unlabelled)
        elif data.y.dtype.kind in "iuf":
            data = _unlabelled(read_data(path, target=-1, options=options))
    return _fitting(shown, data, n_features)


def _fitting(shown: str, data: DataFile, n_features: int) -> DataFile:
    found = data.X.shape[1]
    if found != n_features:
        labels = "no label column" if not data.y.size else "a label column"
        fail(shown, f"has {found} features ({labels}); the model was fitted to {n_features}")
    return data


def _padded(data: DataFile, n_features: int) -> DataFile:
    """Sparse rows end at the last entry that is not zero; the model may know further columns."""
    n, d = data.X.shape
    if d >= n_features:
        return data
    X = data.X.tocsr()
    wider = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(n, n_features))
    return replace(data, X=wider)


def _unlabelled(data: DataFile) -> DataFile:
    """The last column was no label but a feature."""
    X = np.column_stack([data.X, data.y.astype(np.float64)])
    names = data.feature_names
    if names is not None and data.target_name is not None:
        names = [*names, data.target_name]
    return DataFile(X, np.empty(0, int), names)


def _with_labels(shown: str, path: Path) -> bool:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return "y" in archive.files or "X" not in archive.files
    except Exception:  # a damaged file: the reader of labelled files says what is wrong
        return True


def _bare_npz(shown: str, path: Path) -> DataFile:
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
        X = archive["X"]
    if X.ndim != 2 or X.dtype.kind not in "biuf" or not np.isfinite(X).all():
        fail(shown, f"has X of shape {X.shape} and type {X.dtype}; give finite numbers in 2-D")
    return DataFile(X.astype(np.float64), np.empty(0, int))
