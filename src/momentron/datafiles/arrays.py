"""Binary files: numpy arrays and parquet."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.datafiles._common import (
    LABEL_NAMES,
    DataFile,
    Target,
    fail,
    labels,
    no_target,
    position,
    some,
)
from momentron.errors import InputError
from momentron.exactness import as_exact


def read_npy(shown: str, content: bytes, target: Target) -> DataFile:
    """Read a 2-D array, one column of which is the label."""
    table = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    if table.ndim != 2 or table.shape[1] < 2:
        fail(shown, f"has shape {table.shape}; give 2-D with a feature and a label column")
    column = position(shown, -1 if target is None else target, None, table.shape[1])
    X = _finite(shown, np.delete(table, column, axis=1), skipped=column)
    return DataFile(X, labels(shown, table[:, column]))


def read_npz(shown: str, content: bytes, target: Target) -> DataFile:
    """Read X and y, or the parts of a CSR matrix and y."""
    no_target(shown, target, "an npz keeps its labels under the key y")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        keys = set(archive.files)
        parts = ("X_data", "X_indices", "X_indptr", "X_shape")
        if "y" not in keys or not ("X" in keys or keys.issuperset(parts)):
            fail(shown, f"has keys {some(sorted(keys))}; it needs y, and X or {', '.join(parts)}")
        y = archive["y"]
        X = archive["X"] if "X" in keys else _csr(shown, *(archive[part] for part in parts))
        names = (
            [str(name) for name in archive["feature_names"]] if "feature_names" in keys else None
        )
    if isinstance(X, np.ndarray):
        X = _finite(shown, X)
    elif not np.isfinite(X.data).all():
        fail(shown, "has a missing or infinite value in X_data; remove that row")
    if y.shape != (X.shape[0],):
        fail(shown, f"has X of shape {X.shape} and y of shape {y.shape}; give one label a row")
    if names is not None and len(names) != X.shape[1]:
        fail(shown, f"has {len(names)} feature_names for {X.shape[1]} features")
    return DataFile(X, labels(shown, y), names)


def _csr(shown: str, data: Any, indices: Any, indptr: Any, shape: Any) -> Any:
    from scipy.sparse import csr_matrix

    rows, columns = (int(size) for size in shape)
    X = csr_matrix((data, indices, indptr), shape=(rows, columns))
    X.check_format(full_check=True)
    return _exact(shown, X).astype(np.float64)


def read_parquet(shown: str, content: bytes, target: Target) -> DataFile:
    """Read a table of numeric features and a label column, by name or position."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        fail(shown, "needs pyarrow to be read; run: pip install pyarrow", error)
    table = pq.read_table(io.BytesIO(content))
    names = [str(name) for name in table.column_names]
    if len(names) < 2 or table.num_rows == 0:
        fail(shown, f"has {table.num_rows} rows and {len(names)} columns; give 1 and 2 at least")
    named = [name for name in names if name.lower() in LABEL_NAMES]
    default = named[0] if len(named) == 1 else -1
    column = position(shown, default if target is None else target, names)
    X = np.empty((table.num_rows, len(names) - 1))
    features = names[:column] + names[column + 1 :]
    for j, i in enumerate(i for i in range(len(names)) if i != column):
        kind = table.column(i).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.bool_()):
            fail(shown, f"column {names[i]!r} (position {i}): {kind} is not a number; encode it")
        if pa.types.is_integer(kind):
            _exact(shown, table.column(i).drop_null().to_numpy())
        X[:, j] = table.column(i).cast(pa.float64(), safe=False).to_numpy()  # nulls become nan
    _finite(shown, X, names=features)
    found = table.column(column).to_pylist()
    if None in found:
        fail(shown, f"row {found.index(None) + 1}, column {names[column]!r}: missing label")
    return DataFile(X, labels(shown, np.array(found)), features, names[column])


def _finite(
    shown: str, X: NDArray[Any], names: list[str] | None = None, skipped: int | None = None
) -> NDArray[np.float64]:
    """Return X as float64, or name its first cell that is not a finite number."""
    if X.ndim != 2 or 0 in X.shape:
        fail(shown, f"has X of shape {X.shape}; give 2-D with at least one row and feature")
    if X.dtype.kind not in "biuf":
        fail(shown, f"has values of type {X.dtype}; give real numbers")
    out = _exact(shown, X).astype(np.float64, copy=False)
    if not np.isfinite(out).all():
        i, j = np.argwhere(~np.isfinite(out))[0]
        place = int(j) + (skipped is not None and j >= skipped)
        called = repr(names[j]) if names else str(place)
        fail(shown, f"row {i + 1}, column {called}: {out[i, j]} is not finite; remove the row")
    return out


def _exact(shown: str, values: Any) -> Any:
    """Return values as floats; refuse the file where float64 would round one."""
    try:
        return as_exact(values)
    except InputError as error:
        fail(shown, f"cannot be used: {error}", error)
