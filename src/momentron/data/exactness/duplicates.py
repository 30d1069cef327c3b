"""Sparse matrices without an entry twice: duplicates are summed exactly, or refused."""

from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError, one_line


def canonical(X: Any) -> Any:
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
    return _merged(X.tocoo())


def _merged(X: Any) -> Any:
    """A CSR matrix of the sums of what a COO matrix has at each place."""
    order = np.lexsort((X.col, X.row))
    row, col, data = X.row[order], X.col[order], X.data[order]
    is_first = np.ones(data.size, bool)
    is_first[1:] = (row[1:] != row[:-1]) | (col[1:] != col[:-1])
    starts = np.flatnonzero(is_first)
    row, col = row[starts], col[starts]
    if starts.size < data.size:
        if data.dtype.kind in "iu" and data.dtype.itemsize < 8:
            data = data.astype(np.int64)  # sums of small integers would wrap around
        data = _sums(data, starts, lambda i: (int(row[i]), int(col[i])))
    pointers = np.searchsorted(row, np.arange(X.shape[0] + 1)).astype(col.dtype)
    kind = sp.csr_array if isinstance(X, sp.sparray) else sp.csr_matrix
    return kind((data, col, pointers), shape=X.shape)


def _sums(data: np.ndarray, starts: np.ndarray, place_of: Any) -> np.ndarray:
    """The sum of data from each start to the next, each exact in the type of data."""
    sizes = np.diff(np.append(starts, data.size))
    totals = data[starts]
    many = np.flatnonzero(sizes > 1)
    if _adds_exactly(data, int(sizes.max())):
        sums = np.add.reduceat(data.astype(np.int64), starts)[many]
        kept = sums.astype(data.dtype)
        wrong = np.flatnonzero(kept.astype(np.int64) != sums)
        if wrong.size:
            _refuse(place_of(many[wrong[0]]), int(sums[wrong[0]]), data.dtype)
        totals[many] = kept
        return totals
    for i in many.tolist():
        entries = data[starts[i] : starts[i] + sizes[i]].tolist()
        if not np.isfinite(entries).all():
            totals[i] = np.nan  # refused by whoever looks for finite numbers
            continue
        exact = sum(Fraction(*entry.as_integer_ratio()) for entry in entries)
        nearest = float(exact) if data.dtype.kind == "f" else int(exact)
        try:
            totals[i] = nearest
            is_kept = Fraction(*totals[i].item().as_integer_ratio()) == exact
        except OverflowError:
            is_kept = False
        if not is_kept:
            _refuse(place_of(i), nearest, data.dtype)
    return totals


def _adds_exactly(data: np.ndarray, most: int) -> bool:
    """Whether data are whole numbers so small that sums of `most` of them are exact in int64."""
    if data.dtype.kind == "f" and not (data == np.trunc(data)).all():
        return False
    largest = max(abs(float(data.max())), abs(float(data.min())))
    return largest * most < 2.0**52


def _refuse(place: tuple[int, int], total: Any, dtype: np.dtype) -> None:
    raise InputError(
        f"X has several entries at X[{place[0]}, {place[1]}], and {dtype} cannot hold their sum, "
        f"{total}, exactly; sum them yourself in a type that can, before you pass X"
    )
