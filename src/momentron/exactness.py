"""Whether numbers survive the conversion to float64 unchanged.

Certificates and proofs speak of the data as float64. Integers beyond 2⁵³, decimals, fractions and
long doubles may round on the way, silently, and then the proof would be of other data.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError

LARGEST_SAFE = 2**53


def require_exact(X: Any) -> None:
    """Raise InputError with the first entry of X that float64 cannot hold exactly.

    Takes arrays, sparse matrices, data frames and nested lists. Text and other things that are no
    numbers are left to whoever converts them.
    """
    if np.ma.is_masked(X):
        raise InputError("X is a masked array with masked entries; drop those rows or impute them")
    if sp.issparse(X):
        _require_array(X.tocoo().data)
    elif hasattr(X, "iloc") and hasattr(X, "dtypes"):
        for j in range(X.shape[1] if X.ndim == 2 else 0):
            column = X.iloc[:, j]
            kind = getattr(column.dtype, "kind", "O")
            if kind in "iuO" or getattr(column.dtype, "itemsize", 0) > 8:
                _require_array(np.asarray(column, dtype=object if kind == "O" else None))
    elif hasattr(X, "dtype"):
        _require_array(np.asarray(X))
    elif isinstance(X, list | tuple):
        # numpy would round a large integer that shares its list with a float
        try:
            entries = np.asarray(X, dtype=object)
        except ValueError:
            return  # ragged: whoever converts it says so
        _require_objects(entries)


def _require_array(values: np.ndarray) -> None:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "O":
        _require_objects(values)
    elif kind in "iu" and size == 8:
        large = (values > LARGEST_SAFE) | (values < -LARGEST_SAFE)
        _require_objects(values[large].astype(object))
    elif kind == "f" and size > 8:
        with np.errstate(over="ignore"):
            back = values.astype(np.float64).astype(values.dtype)
        changed = np.flatnonzero((back != values) & (values == values))
        if changed.size:
            _refuse(values.ravel()[changed[0]])
    elif kind == "c":
        _refuse_complex()


def _require_objects(values: np.ndarray) -> None:
    """Python's own comparison of a number with a float is exact."""
    for value in values.ravel():
        if isinstance(value, complex):
            _refuse_complex()
        if isinstance(value, float | str | bytes) or value is None:
            continue
        try:
            is_same = bool(float(value) == value) or value != value
        except OverflowError:
            is_same = False
        except (TypeError, ValueError, ArithmeticError):
            continue
        if not is_same:
            _refuse(value)


def _refuse_complex() -> None:
    raise InputError("Complex data not supported: X has complex entries; pass real numbers")


def _refuse(value: Any) -> None:
    raise InputError(
        f"X holds {value!s}, which float64 cannot hold exactly (integers are safe up to 2**53); "
        "rescale X, or round it to floats yourself"
    )
