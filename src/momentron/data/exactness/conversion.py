"""Arrays, frames, lists, sparse matrices and buffers, as floats with the same values."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import date, time, timedelta
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from momentron.data.exactness.decimals import as_decimal, first_changed, widened
from momentron.data.exactness.tensors import as_host, is_tensor
from momentron.errors import InputError, InputTypeError, one_line, short

LARGEST_SAFE = 2**53
_DATES = (date, time, timedelta, np.datetime64, np.timedelta64)


def as_exact(X: Any, decimals: str = "binary") -> Any:
    """X in float32 or float64 with unchanged values, or InputError with the first that changes.

    X is an array, sparse matrix, tensor, data frame, nested lists, a buffer or anything that numpy
    can read, and is read once; floats are returned without a copy. A sparse matrix comes back as
    CSR or CSC, whose indices are sorted and come once. `decimals` says what a float stands for: its
    own value ("binary"), or the shortest decimal that prints as it ("shortest").
    """
    if type(X) is np.ndarray:
        return _as_floats(X, decimals)
    if sp.issparse(X):
        X = _canonical(X)
        data = _as_floats(X.data, decimals)
        return X if data is X.data else type(X)((data, X.indices, X.indptr), shape=X.shape)
    if isinstance(X, np.ma.MaskedArray):
        if np.ma.is_masked(X):
            raise InputError(
                "X is a masked array with masked entries; drop those rows or impute them"
            )
        return _as_floats(np.asarray(X.data), decimals)
    if is_tensor(X):
        return as_exact(as_host(X), decimals)
    columns = _columns_of(X)
    if columns is None:
        return _as_floats(_as_array(X), decimals)
    return _from_columns(X, columns, decimals)


def _as_floats(values: np.ndarray, decimals: str = "binary") -> np.ndarray:
    _require(values, decimals)
    if values.dtype.kind == "f" and values.dtype.itemsize < 8 and decimals == "shortest":
        return widened(values)
    if values.dtype.kind == "f" and values.dtype.itemsize in (4, 8):
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    return values.astype(np.float64)


def _require(values: np.ndarray, decimals: str = "binary") -> None:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind in "OUST":
        _require_objects(values.ravel().tolist(), decimals)
    elif kind in "iu" and size == 8:
        if values.size and (values.max() > LARGEST_SAFE or values.min() < -LARGEST_SAFE):
            large = (values > LARGEST_SAFE) | (values < -LARGEST_SAFE)
            _require_objects(values[large].tolist(), decimals)
    elif kind == "f" and size > 8:
        with np.errstate(over="ignore"):
            back = values.astype(np.float64).astype(values.dtype)
        changed = np.flatnonzero((back != values) & (values == values))
        if changed.size:
            _refuse(values.ravel()[changed[0]])
    elif kind == "c":
        _refuse_complex()
    elif kind in "mM":
        _refuse_date(values.dtype)
    elif kind not in "biuf":
        raise InputError(f"X has entries of type {values.dtype}; pass real numbers")


def _require_objects(values: Iterable[Any], decimals: str = "binary") -> None:
    """Python's own comparison of a number with a float is exact, numpy's is not."""
    stands_for = as_decimal if decimals == "shortest" else Fraction
    texts = []
    for given in values:
        if isinstance(given, _DATES):
            _refuse_date(type(given).__name__)
        value = given.item() if hasattr(given, "item") and np.ndim(given) == 0 else given
        if isinstance(value, float) or value is None:
            continue
        if isinstance(value, complex | np.complexfloating):
            _refuse_complex()
        if isinstance(value, str | bytes):
            texts.append(value.decode("latin-1") if isinstance(value, bytes) else value)
            continue
        try:
            is_same = value != value or bool(stands_for(float(value)) == value)
        except OverflowError:
            is_same = False
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InputTypeError(
                f"X holds {short(value)}, which is not a number: {one_line(error)}"
            ) from error
        if not is_same:
            _refuse(value)
    _require_texts(texts)


def _require_texts(texts: list[str]) -> None:
    values = np.empty(len(texts))
    for i, text in enumerate(texts):
        try:
            values[i] = float(text)
        except ValueError:
            raise InputError(
                f"could not convert {short(text[:40])} in X to a number; encode text as numbers "
                "first"
            ) from None
    changed = first_changed(texts, values)
    if changed is not None:
        _refuse(texts[changed])


def _as_array(X: Any) -> np.ndarray:
    """What numpy reads of lists, an object or a buffer, in the type that it has there."""
    is_list = isinstance(X, list | tuple)
    if is_list and len(X) and is_tensor(X[0]):
        X = [as_host(row) if is_tensor(row) else row for row in X]
    try:
        values = np.asarray(X)
        if values.dtype.kind == "O" and values.ndim == 0 and hasattr(X, "__dlpack__"):
            return np.from_dlpack(X)
        # a large integer next to a float is a float by now, and a number next to text is text
        kind = values.dtype.kind
        is_large = is_list and kind == "f" and bool((np.abs(values) >= LARGEST_SAFE).any())
        is_mixed = is_large or (is_list and kind in "US")
        return np.asarray(X, dtype=object) if is_mixed else values
    except (TypeError, ValueError, BufferError) as error:
        remedy = "; give each row the same number of entries" if is_list else ""
        raise InputError(
            f"X of type {type(X).__name__} cannot be read as an array: {one_line(error)}{remedy}"
        ) from error


def _columns_of(X: Any) -> list[Any] | None:
    """The columns of a data frame or table, each of which has its own type."""
    if hasattr(X, "iloc") and hasattr(X, "dtypes"):  # pandas
        return [X.iloc[:, j] for j in range(X.shape[1])] if X.ndim == 2 else None
    if hasattr(X, "get_columns"):  # polars
        return list(X.get_columns())
    if hasattr(X, "collect_schema"):
        raise InputError(
            f"X is a {type(X).__name__}, a query without values: call .collect() first"
        )
    return list(X.itercolumns()) if hasattr(X, "itercolumns") else None  # pyarrow


def _from_columns(X: Any, columns: list[Any], decimals: str) -> Any:
    kinds = {getattr(column, "dtype", None) for column in columns}
    if len(kinds) == 1 and kinds <= {np.dtype(np.float32), np.dtype(np.float64)}:
        return _as_floats(np.asarray(X), decimals)
    if hasattr(X, "iloc") and hasattr(X, "sparse"):  # pandas, and every column is sparse
        for column in columns:
            _require(_column(column), decimals)
        return as_exact(X.sparse.to_coo(), decimals)
    out = np.empty((X.shape[0], len(columns)))
    for j, column in enumerate(columns):
        out[:, j] = _as_floats(_column(column), decimals)
    return out


def _column(column: Any) -> np.ndarray:
    """A column as an array of its own type; of objects where values are missing."""
    kind = getattr(getattr(column, "dtype", None), "kind", None)
    if not hasattr(column, "iloc") or isinstance(column.dtype, np.dtype):
        return np.asarray(column)
    if kind == "M":
        _refuse_date(column.dtype)
    if kind in ("b", "i", "u", "f") and not column.isna().any():
        return column.to_numpy(dtype=np.dtype(bool if kind == "b" else f"{kind}8"))
    return column.to_numpy(dtype=object, na_value=np.nan)


# --- sparse matrices: entries that share a place are summed exactly, or refused -------------------


def _canonical(X: Any) -> Any:
    """X as CSR or CSC with sorted indices, each once: itself, if it is one."""
    if X.ndim != 2:
        raise InputError(f"Expected 2D array, got a sparse array of shape {X.shape}; pass (n, d)")
    if X.format in ("csr", "csc"):
        try:
            # a new one, since what X says of itself may be out of date
            found = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
            found.check_format()  # products would read other memory
        except ValueError as error:
            raise InputError(
                f"X is a damaged {X.format.upper()} matrix of shape {X.shape}: its indptr or "
                f"indices point outside it ({one_line(error)}); build it again"
            ) from error
        if found.has_canonical_format:
            return X
    X = X.tocoo()
    order = np.lexsort((X.col, X.row))
    row, col, data = X.row[order], X.col[order], X.data[order]
    is_first = np.ones(data.size, bool)
    is_first[1:] = (row[1:] != row[:-1]) | (col[1:] != col[:-1])
    starts = np.flatnonzero(is_first)
    row, col = row[starts], col[starts]
    if starts.size < data.size:
        if data.dtype.kind in "iu" and data.dtype.itemsize < 8:
            data = data.astype(np.int64)  # sums of small integers would wrap around
        data, wrong = _sums(data, starts)
        if wrong is not None:
            raise InputError(
                f"X has several entries at X[{row[wrong]}, {col[wrong]}], and {data.dtype} cannot "
                f"hold their sum exactly (it is about {data[wrong]}); sum them yourself in a type "
                "that can, before you pass X"
            )
    kind = sp.csr_array if isinstance(X, sp.sparray) else sp.csr_matrix
    return kind((data, (row, col)), shape=X.shape)


def _sums(data: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, int | None]:
    """(the sums of data from each start to the next, the first that its type does not hold)."""
    sizes = np.diff(np.append(starts, data.size))
    totals = data[starts]
    largest = max(abs(float(data.max())), abs(float(data.min())))
    is_whole = data.dtype.kind != "f" or bool((data == np.trunc(data)).all())
    if is_whole and largest * float(sizes.max()) < 2.0**52:  # sums of floats are exact, too
        sums = np.add.reduceat(data.astype(np.float64), starts)
        totals = sums.astype(data.dtype)
        return totals, next(iter(np.flatnonzero(totals != sums).tolist()), None)
    for i in np.flatnonzero(sizes > 1).tolist():
        entries = data[starts[i] : starts[i] + sizes[i]].tolist()
        if not np.isfinite(entries).all():
            totals[i] = np.nan  # refused by whoever looks for finite numbers
            continue
        exact = sum(map(Fraction, entries))
        with np.errstate(over="ignore"), suppress(OverflowError):
            totals[i] = float(exact) if data.dtype.kind == "f" else int(exact)
        if not np.isfinite(totals[i]) or Fraction(totals[i].item()) != exact:
            return totals, i
    return totals, None


# --- what is refused -------------------------------------------------------------------------


def _refuse_complex() -> NoReturn:
    raise InputError("Complex data not supported: X has complex entries; pass real numbers")


def _refuse_date(kind: Any) -> NoReturn:
    raise InputError(
        f"X has dates or times ({kind}), which are not numbers; pass a difference in a unit of "
        "your choice, such as (t - t.min()) / numpy.timedelta64(1, 'D')"
    )


def _refuse(value: Any) -> NoReturn:
    shown = short(value) if isinstance(value, int) else one_line(value, 40)
    raise InputError(
        f"X holds {shown}, which float64 cannot hold exactly (integers are safe up to 2**53, "
        "text up to 15 digits); rescale X, or round it to floats yourself"
    )
