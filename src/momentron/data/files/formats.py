"""Files that say what their columns are: numpy arrays, Parquet and svmlight."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from momentron.data.exactness.conversion import as_exact
from momentron.data.exactness.decimals import describe_change, first_changed, may_change
from momentron.data.files.columns import (
    FileColumns,
    Table,
    as_labels,
    is_number,
    label_position,
    match_columns,
    position,
)
from momentron.data.safefiles import naming
from momentron.data.table_options import FeatureColumns, TableOptions
from momentron.errors import InputError, counted, one_line, short, some

SVMLIGHT = (".svm", ".svmlight", ".libsvm")
IN_BLOCKS = (".npy", ".parquet", *SVMLIGHT)  # files that can be read in blocks, too
CSR_PARTS = ("X_data", "X_indices", "X_indptr", "X_shape")
NO_LABELS = np.empty(0, int)


def array_of(content: bytes) -> NDArray[Any]:
    """The array of a .npy file; objects are never unpickled."""
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def read_npy(content: bytes, options: TableOptions) -> Table:
    """Read a 2-D array, one column of which is the label."""
    why = "an array has no named columns; select them before you save it"
    options.require_plain(why, but=("target", "weight", "has_labels", "fitted"))
    array = array_of(content)
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError(f"has shape {array.shape}; give 2-D with a feature and a label column")
    if not options.has_labels:
        return Table(_finite(array), NO_LABELS)
    width, weight = array.shape[1], None
    target = position(-1 if options.target is None else options.target, None, width)
    if options.weight is not None:
        weight = position(options.weight, None, width, what="weight")
        if weight == target:
            raise InputError(f"has its labels in column {target}; weights need another column")
    X = _finite(array, [place for place in range(width) if place not in (target, weight)])
    weights = None if weight is None else _finite(array, [weight]).ravel()
    return Table(X, as_labels(array[:, target]), weights=weights)


def read_npz(content: bytes, options: TableOptions) -> Table:
    """Read X and y, or the parts of a CSR matrix and y; rows to be classified need no y."""
    why = "an npz has its features under the key X and its labels under y"
    options.require_plain(why, but=("fitted",))
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        keys = set(archive.files)
        lacks_labels = "y" not in keys and options.fitted is None
        if lacks_labels or not ("X" in keys or keys.issuperset(CSR_PARTS)):
            needed = ", ".join(CSR_PARTS)
            raise InputError(f"has keys {some(sorted(keys))}; it needs y, and X or {needed}")
        found = {key: archive[key] for key in keys & {"X", "y", "feature_names", *CSR_PARTS}}
    if "X" in found:
        X = _finite(found["X"])
    else:
        *parts, shape = (found[part] for part in CSR_PARTS)
        X = exact(csr_matrix(tuple(parts), shape=tuple(map(int, shape)))).astype(np.float64)
        if not np.isfinite(X.data).all():
            raise InputError("has a missing or infinite value in X_data; remove that row")
    y = as_labels(found["y"]) if "y" in found else NO_LABELS
    if "y" in found and y.shape != (X.shape[0],):
        raise InputError(
            f"has X of shape {X.shape} and y of shape {y.shape}; give one label per row"
        )
    if "feature_names" not in found:
        return Table(X, y)
    names = [str(name) for name in found["feature_names"]]
    if len(names) != X.shape[1]:
        raise InputError(f"names {len(names)} of {counted(X.shape[1], 'feature')} in feature_names")
    columns, ignored = options.fitted or FeatureColumns(names), list[str]()
    if columns.names is not None:
        X = X[:, match_columns(columns.features, names)]
        ignored = [name for name in names if name not in columns.features]
    return Table(X, y, columns.features, columns=columns, ignored=ignored)


def read_parquet(content: bytes, options: TableOptions) -> Table:
    """Read a table of typed columns, one of which is the label, by name or position."""
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError("needs pyarrow to be read; run: pip install pyarrow") from error
    table = pq.read_table(io.BytesIO(content))
    names = [str(name) for name in table.column_names]
    if len(names) < 2 - (options.fitted is not None) or table.num_rows == 0:
        size = f"{counted(table.num_rows, 'row')} and {counted(len(names), 'column')}"
        raise InputError(f"has {size}; it needs at least 1 row and 2 columns")
    if options.delimiter is not None or options.decimal is not None or options.na:
        raise InputError("takes no --delimiter, --decimal or --na: its columns have types")
    target, why = label_position(names, options)
    label = target if options.failures is None else None  # else the target counts successes
    columns = [
        _typed(name, place, table.column(place), place == label) for place, name in enumerate(names)
    ]
    rows = range(table.num_rows)
    return FileColumns(names, True, target, why, None, rows, "row", columns).table(options)


def _typed(name: str, place: int, values: Any, is_label: bool) -> NDArray[Any]:
    """A column of a Parquet file."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    missing = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if is_label or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = np.array(values.to_pylist(), object)
        found[missing] = None
        return found
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.bool_()):
        raise InputError(
            f"column {short(name)} (position {place}): {kind} is not a number; encode it"
        )
    if pa.types.is_integer(kind):
        exact(values.drop_null().to_numpy())
    numbers = values.cast(pa.float64(), safe=False).to_numpy()  # nulls become nan
    bad = np.flatnonzero(~np.isfinite(numbers) & ~missing)
    if bad.size:
        raise InputError(
            f"row {bad[0]}, column {short(name)}: {numbers[bad[0]]} is not finite; remove it"
        )
    return numbers


def _finite(array: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[np.float64]:
    """Some columns of an array as float64, or the first cell that is not a finite number."""
    X = array if places is None else array[:, places]
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(f"has X of shape {X.shape}; give 2-D with at least one row and feature")
    if X.dtype.kind not in "biuf":
        raise InputError(f"has values of type {X.dtype}; give real numbers")
    out = exact(X).astype(np.float64, copy=False)
    if not np.isfinite(out).all():
        i, j = np.argwhere(~np.isfinite(out))[0]
        place = j if places is None else places[j]
        raise InputError(f"row {i}, column {place}: {out[i, j]} is not finite; remove the row")
    return out


def exact(values: Any) -> Any:
    """Return values as floats; refuse the file where float64 would round one."""
    with naming("cannot be used:"):
        return as_exact(values)


# --- svmlight -----------------------------------------------------------------------------------


def read_svmlight(text: str, options: TableOptions) -> Table:
    """Read lines of `label index:value ...`."""
    why = "svmlight puts the label first in each line, and names no columns"
    options.require_plain(why, but=("drop_na", "fitted"))
    X, y = parse_svmlight(text.encode())
    if not len(y) or X.shape[1] == 0:
        raise InputError("has no rows with features; give at least one 'label index:value' line")
    return Table(X, as_labels(y))


def parse_svmlight(text: bytes, line: int = 1, **options: Any) -> tuple[Any, np.ndarray]:
    """Return (X, y) as scikit-learn reads them, or raise for the first number that is not kept.

    `line` is the number of the first line, for the message; the options are those of
    `sklearn.datasets.load_svmlight_file`.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(text), **options)
    except (ValueError, OverflowError) as error:
        _require_sound(text, line)
        raise InputError(f"cannot be read as svmlight: {one_line(error)}") from error
    is_sound = b"_" not in text and np.isfinite(X.data).all() and np.isfinite(y).all()
    if not is_sound or may_change(text):
        _require_sound(text, line, are_numbers=is_sound)
    return X, y


def _require_sound(text: bytes, line: int, *, are_numbers: bool = False) -> None:
    """Raise for the first label, index or value that cannot be one, or that float64 changes."""
    for number, content in enumerate(text.decode("latin-1").split("\n"), start=line):
        content = content.split("#", 1)[0]
        if not are_numbers and (fault := _fault_of(content.split())):
            raise InputError(f"line {number}: {fault}")
        label, *cells = content.replace(":", " ").split() or ["0"]
        texts = [label, *cells[3 if cells[:1] == ["qid"] else 1 :: 2]]
        numbers = np.array(texts, np.float64)
        changed = first_changed(texts, numbers)
        if changed is not None:
            kind = "value" if changed else "label"
            change = describe_change(texts[changed], float(numbers[changed]))
            raise InputError(f"line {number}: the {kind} {change}")


def _fault_of(cells: list[str]) -> str | None:
    """What is wrong with the first cell of a line that is not a label, or index:value."""
    last = -1
    for place, cell in enumerate(cells):
        index, _, text = cell.partition(":")
        text = text if place else cell
        is_finite = is_number(text) and math.isfinite(float(text))
        what = None
        if "_" in cell:  # Python reads 1_000, files do not mean it
            what = "has an underscore; write plain numbers"
        elif place == 0 and not is_finite:
            what = "is not a number, so it cannot be a label"
        elif place == 0 or index == "qid":
            continue
        elif not (index.isdecimal() and is_finite):
            what = "is not index:value with a finite value"
        elif int(index) <= last:
            what = f"comes after index {last}; sort the indices"
        if what is not None:
            return f"{one_line(repr(cell), 40)} {what}"
        last = int(index)
    return None
