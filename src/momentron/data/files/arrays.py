"""Binary files: numpy arrays and parquet."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentron.data.exactness import as_exact
from momentron.data.files._common import (
    LABEL_NAMES,
    DataFile,
    fail,
    labels,
    no_target,
    no_weight,
    position,
    require_own,
    some,
)
from momentron.data.files.columns import Column
from momentron.data.files.options import TableOptions
from momentron.data.files.table import Table, as_data
from momentron.errors import InputError, short

NO_NAMES = "an array has no named columns; select them before you save it"


def read_npy(shown: str, content: bytes, options: TableOptions) -> DataFile:
    """Read a 2-D array, one column of which is the label."""
    options.require_plain(shown, NO_NAMES, but=("weight",))
    table = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    if table.ndim != 2 or table.shape[1] < 2:
        fail(shown, f"has shape {table.shape}; give 2-D with a feature and a label column")
    target = -1 if options.target is None else options.target
    column = position(shown, target, None, table.shape[1])
    y, weights, gone = labels(shown, table[:, column]), None, [column]
    if options.weight is not None:
        place = position(shown, options.weight, None, table.shape[1], what="weight")
        require_own(shown, options.weight, place, column, table.shape[1])
        weights = _finite(shown, table[:, [place]]).ravel()
        gone.append(place)
    X = _finite(shown, np.delete(table, gone, axis=1), skipped=gone)
    return DataFile(X, y, weights=weights)


def read_npz(shown: str, content: bytes, options: TableOptions) -> DataFile:
    """Read X and y, or the parts of a CSR matrix and y."""
    no_target(shown, options.target, "an npz keeps its labels under the key y")
    no_weight(shown, options.weight)
    options.require_plain(shown, NO_NAMES)
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


def read_parquet(shown: str, content: bytes, options: TableOptions) -> DataFile:
    """Read a table of typed columns, one of which is the label, by name or position."""
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        fail(shown, "needs pyarrow to be read; run: pip install pyarrow", error)
    table = pq.read_table(io.BytesIO(content))
    names = [str(name) for name in table.column_names]
    if len(names) < 2 or table.num_rows == 0:
        fail(shown, f"has {table.num_rows} rows and {len(names)} columns; give 1 and 2 at least")
    if options.delimiter is not None or options.decimal is not None or options.na is not None:
        fail(shown, "takes no --delimiter, --decimal or --na: parquet has types of its own")
    named = [name for name in names if name.lower() in LABEL_NAMES]
    default = named[0] if len(named) == 1 else -1
    target = position(shown, default if options.target is None else options.target, names)
    why = (
        "as asked" if options.target is not None else "by its name" if named else "the last column"
    )
    is_label = options.failures is None  # else the target counts successes
    columns = [
        _typed_column(shown, name, place, table.column(place), place == target and is_label)
        for place, name in enumerate(names)
    ]
    rows = range(table.num_rows)
    return as_data(shown, Table(columns, target, rows, place_word="row"), options, why)


def _typed_column(shown: str, name: str, place: int, values: Any, is_label: bool) -> Column:
    """A column of a parquet file."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    missing = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_text or is_label:
        found = np.empty(len(missing), object)
        found[:] = values.to_pylist()
        return Column(name, place, "text", found, missing)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.bool_()):
        fail(shown, f"column {short(name)} (position {place}): {kind} is not a number; encode it")
    if pa.types.is_integer(kind):
        _exact(shown, values.drop_null().to_numpy())
    numbers = values.cast(pa.float64(), safe=False).to_numpy()  # nulls become nan
    bad = np.flatnonzero(~np.isfinite(numbers) & ~missing)
    if bad.size:
        fail(
            shown, f"row {bad[0]}, column {short(name)}: {numbers[bad[0]]} is not finite; remove it"
        )
    return Column(name, place, "boolean" if kind == pa.bool_() else "number", numbers, missing)


def _finite(
    shown: str, X: NDArray[Any], names: list[str] | None = None, skipped: Sequence[int] = ()
) -> NDArray[np.float64]:
    """Return X as float64, or name its first cell that is not a finite number."""
    if X.ndim != 2 or 0 in X.shape:
        fail(shown, f"has X of shape {X.shape}; give 2-D with at least one row and feature")
    if X.dtype.kind not in "biuf":
        fail(shown, f"has values of type {X.dtype}; give real numbers")
    out = _exact(shown, X).astype(np.float64, copy=False)
    if not np.isfinite(out).all():
        i, j = np.argwhere(~np.isfinite(out))[0]
        place = int(j)
        for column in sorted(skipped):
            place += place >= column
        called = repr(names[j]) if names else str(place)
        fail(shown, f"row {i}, column {called}: {out[i, j]} is not finite; remove the row")
    return out


def _exact(shown: str, values: Any) -> Any:
    """Return values as floats; refuse the file where float64 would round one."""
    try:
        return as_exact(values)
    except InputError as error:
        fail(shown, f"cannot be used: {error}", error)
