"""X, y and weights as users pass them, and the `Table` that a proof is about.

The prover reads y and weights with the same functions: labels are text, rows of weight 0 are left
out, and counts make one row per outcome that was seen.
"""

from typing import Any

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.errors import InputError, counted, short
from momentron.verify.exact_table import Table


def read_table(
    X: Any, y: Any, weights: Any = None, *, decimals: str = "binary", rows: Any = None
) -> Table:
    """Some rows of X, by default all, and y; refused unless float64 holds every entry exactly."""
    from momentron.data.exactness.conversion import as_exact  # needs scipy

    X = as_exact(X, decimals)
    X = X.tocsr() if hasattr(X, "tocsr") else X
    X, left_out = X if rows is None else X[rows], zero_weight_rows(weights, len(y))
    return Table(X, label_texts(y), decimals, left_out, require_time)


def label_texts(y: Any) -> list[str]:
    """The labels as text: 3, 3.0 and "3" are the same, and no others are."""
    from momentron.data.exactness.tensors import as_host, is_tensor  # needs scipy

    if is_tensor(y):
        y = as_host(y)
    # a list goes to objects: numpy rounds large integers next to a float, and cut "a\\0" to "a"
    array = np.ma.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    values = array.ravel().tolist()
    if array.dtype.kind not in "biuU":  # where equal values may have different texts
        return [_label_text(v) for v in values]
    texts = {v: _label_text(v) for v in set(values)}
    return [texts[v] for v in values]


def _label_text(label: Any) -> str:
    if isinstance(label, float | np.floating) and label.is_integer():
        label = int(label)
    elif isinstance(label, np.float32 | np.float16):
        label = float(label)  # as an array of them reads
    try:
        text = str(label)
    except Exception:  # an integer beyond Python's limit of digits, or a class of the user's
        raise InputError(f"y has a label that has no text: {short(label)}; rename it") from None
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"y has the label {text!r}, a lone surrogate; rename it") from None
    return text


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a frame or table; None where X is not one."""
    if hasattr(X, "itercolumns"):  # pyarrow
        return [str(name) for name in X.column_names]
    if hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_columns")):
        return [column_name(name) for name in X.columns]  # pandas, polars
    return None


def column_name(name: Any) -> str:
    """The name of a column as text; its parts are joined where it has several."""
    return "_".join(map(str, name)) if isinstance(name, tuple) else str(name)


def own_order(y: Any) -> list[str] | None:
    """The labels from lowest to highest, if they have an order; None of other text.

    An ordered pandas categorical has its own; numbers are ordered by value, False is below True.
    """
    given = getattr(y, "cat", y)
    if getattr(given, "ordered", False):
        return label_texts(given.categories)
    labels = sorted(set(label_texts(y)))
    if set(labels) <= {"False", "True"}:
        return labels
    try:
        return sorted(labels, key=float)
    except ValueError:
        return None


def zero_weight_rows(sample_weight: Any, n: int) -> list[int]:
    """The rows of weight 0, which count as if they were not there; the others count alike."""
    if sample_weight is None:
        return []
    weights = _not_negative(sample_weight, "sample_weight", "weight", "one number ≥ 0 per row")
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}; X has {counted(n, 'row')}")
    if not weights.any():
        raise InputError("sample_weight is 0 on every row; at least one row must count")
    return [int(i) for i in np.flatnonzero(weights == 0.0)]


def _not_negative(values: Any, name: str, noun: str, wanted: str) -> np.ndarray:
    try:
        found = np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must hold {wanted}") from None
    if not (np.isfinite(found).all() and (found >= 0.0).all()):
        raise InputError(f"{name} has a negative, infinite or missing {noun}; all must be ≥ 0")
    return found


def ungrouped(y: Any, sample_weight: Any) -> tuple[np.ndarray, Any, Any] | None:
    """(rows, labels, weights): a row for each outcome that was seen; None unless y has counts.

    y of shape (n, k) has counts of k outcomes per row: of two, successes (label 1) and failures
    (label 0), as in R's cbind; of more, the columns are the classes, by name if they have any.
    """
    try:
        shape = np.shape(y)
    except ValueError:
        raise InputError("y has rows of different lengths; pass one label or count each") from None
    if len(shape) != 2 or shape[1] < 2:
        return None
    counts = _not_negative(y, "y", "count", "counts, if it has several columns, one per outcome")
    rows, columns = np.nonzero(counts)
    named = [str(name) for name in y.columns] if hasattr(y, "columns") else range(shape[1])
    labels = np.array([1, 0] if shape[1] == 2 else named)
    if sample_weight is None:
        return rows, labels[columns], None
    weights = np.asarray(sample_weight)
    if weights.shape != counts.shape[:1]:
        rows_of_y = counted(len(counts), "row")
        raise InputError(f"sample_weight has shape {weights.shape}; y has {rows_of_y}")
    return rows, labels[columns], weights[rows]
