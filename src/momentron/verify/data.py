"""The data that a proof is for: their canonical form, and their rows in whole numbers.

A float is an integer times a power of two, so in units of 2^E every row of X is a row of integers.
X is read some rows at a time and never copied as a whole; zeros cost nothing where X is sparse.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from momentron.clock import require_time
from momentron.errors import InputError
from momentron.exactness import as_exact

BLOCK_ENTRIES = 1 << 19  # 4 MB of float64
MANTISSA = 53  # bits of a float64

WholeRow = tuple[list[int], list[int]]  # (places, whole numbers in units of 2^unit)


def label_texts(y: Any) -> list[str]:
    """The labels as text: 3, 3.0 and "3" are the same, and no others are."""
    # a list goes to objects: numpy would round large integers beside a float, and cut "a\\0" to "a"
    array = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    return [_label_text(v) for v in array.ravel().tolist()]


def _label_text(label: Any) -> str:
    if isinstance(label, float | np.floating) and label.is_integer():
        label = int(label)
    elif isinstance(label, np.float32 | np.float16):
        label = float(label)  # as an array of them reads
    text = str(label)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"y has the label {text!r}, a lone surrogate; rename it") from None
    return text


class Data:
    """X and the labels of its rows.

    Columns that are zero in every row can be left out of all arithmetic, so rows are given by
    *places*: place p stands for the column `used[p]`, and the last place, `used.size`, for the
    intercept.

    Parameters
    ----------
    X : ndarray or csr matrix of shape (n, d), float32 or float64
    labels : list of str

    Attributes
    ----------
    n, d : int
    lengths : ndarray of shape (n,)
        How many entries of each row are not zero.
    used : ndarray
        The columns that hold anything but zeros, in order; the first where there are none.
    unit : int
        Every entry of X is a whole number times 2^unit; unit ≤ 0.
    bits : int
        Of the longest of these whole numbers, at most.
    """

    def __init__(self, X: Any, labels: list[str]) -> None:
        if X.ndim != 2:
            raise InputError(f"X has {X.ndim} dimensions; it must be a matrix")
        self.X, self.labels = X, labels
        self.n, self.d = (int(size) for size in X.shape)
        if self.n != len(labels):
            raise InputError(f"X has {self.n} rows but y has {len(labels)} labels; they must agree")
        self.is_sparse = hasattr(X, "tocsr")
        self._digests: dict[int, str] = {}
        self._survey()

    @classmethod
    def read(cls, X: Any, y: Any) -> "Data":
        """X and y as users pass them; refused unless float64 holds every entry exactly."""
        X = as_exact(X)
        return cls(X.tocsr() if hasattr(X, "tocsr") else X, label_texts(y))

    def _survey(self) -> None:
        """One pass: finiteness, row lengths, columns in use, the range of exponents."""
        self.lengths = np.zeros(self.n, np.int64)
        used = np.zeros(0 if self.is_sparse else self.d, bool)
        found = [np.zeros(0, np.int64)]
        low, high = 1, 0
        for first, last, rows, columns, values in self.blocks():
            if not np.isfinite(values).all():
                raise InputError("X contains NaN or infinity; every entry must be finite")
            self.lengths[first:last] = np.bincount(rows, minlength=last - first)
            if self.is_sparse:  # may have far more columns than entries
                found.append(np.unique(columns))
            else:
                used[columns] = True
            exponents = np.frexp(values)[1]
            low = int(exponents.min(initial=low))
            high = int(exponents.max(initial=high))
        self.used = np.unique(np.concatenate([*found, np.flatnonzero(used)]))
        if self.used.size == 0 < self.d:
            self.used = np.zeros(1, np.int64)
        self.unit = min(0, low - MANTISSA)
        self.bits = max(1, high - self.unit)

    @property
    def n_entries(self) -> int:
        """How many entries of X are not zero."""
        return int(self.lengths.sum())

    def blocks(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]]:
        """All rows, some at a time: see `_block`."""
        if self.is_sparse:
            ends = np.searchsorted(self.X.indptr, np.arange(0, self.X.indptr[-1], BLOCK_ENTRIES))
            starts = np.unique(np.r_[0, ends, np.arange(0, self.n, BLOCK_ENTRIES)])
            starts = starts[starts < self.n]
        else:
            starts = np.arange(0, self.n, max(1, BLOCK_ENTRIES // max(1, self.d)))
        for first, last in zip(starts.tolist(), [*starts[1:].tolist(), self.n], strict=True):
            yield first, last, *self._block(first, last)

    def _block(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows less `first`, columns, values) of the entries that are not zero, row by row."""
        require_time()
        if not self.is_sparse:
            block = np.asarray(self.X[first:last], np.float64)
            rows, columns = np.nonzero(block)
            return rows, columns, block[rows, columns]
        ends = self.X.indptr[first : last + 1]
        values = self.X.data[ends[0] : ends[-1]]
        keep = values != 0
        rows = np.repeat(np.arange(last - first), np.diff(ends))[keep]
        columns = self.X.indices[ends[0] : ends[-1]][keep].astype(np.int64)
        return rows, columns, np.asarray(values[keep], np.float64)

    def digest(self, version: int) -> str:
        """SHA-256 of the canonical form (docs/proof-format.md).

        Version 1 has every entry of X, version 2 those that are not zero.
        """
        if version not in self._digests:
            form = hashlib.sha256(f"momentron-data {version}\n{self.n} {self.d}\n".encode())
            for part in self._every_entry() if version == 1 else self._nonzero_entries():
                form.update(part.data)
            for text in self.labels:
                form.update(f"{len(text.encode())}:{text}\n".encode())
            self._digests[version] = form.hexdigest()
        return self._digests[version]

    def _every_entry(self) -> Iterator[np.ndarray]:
        """X row by row, zeros included, as little-endian float64."""
        height = max(1, BLOCK_ENTRIES // max(1, self.d))
        for first in range(0, self.n, height):
            rows = self.X[first : first + height]
            for column in range(0, self.d, BLOCK_ENTRIES):  # once, unless a row is very long
                require_time()
                part = rows[:, column : column + BLOCK_ENTRIES]
                part = part.toarray() if self.is_sparse else part
                yield np.ascontiguousarray(part, "<f8") + 0.0  # −0.0 + 0.0 is 0.0

    def _nonzero_entries(self) -> Iterator[np.ndarray]:
        """Row lengths, then columns, then values, all little-endian."""
        yield self.lengths.astype("<u8")
        for _, _, _, columns, _ in self.blocks():
            yield columns.astype("<u8")
        for _, _, _, _, values in self.blocks():
            yield np.ascontiguousarray(values, "<f8")

    def rows(self, fit_intercept: bool) -> Iterator[WholeRow]:
        """Every row in whole numbers, with a last 1 if there is an intercept."""
        for first, last, _, columns, values in self.blocks():
            yield from self._whole(self.lengths[first:last], columns, values, fit_intercept)

    def row(self, i: int, fit_intercept: bool) -> WholeRow:
        """Row i, as `rows` gives it."""
        _, columns, values = self._block(i, i + 1)
        return next(self._whole(self.lengths[i : i + 1], columns, values, fit_intercept))

    def _whole(
        self, lengths: np.ndarray, columns: np.ndarray, values: np.ndarray, fit_intercept: bool
    ) -> Iterator[WholeRow]:
        if self.used.size < self.d:
            columns = np.searchsorted(self.used, columns)
        # value = mantissa · 2^exponent, and mantissa · 2^53 is whole
        mantissas, exponents = np.frexp(values)
        integers = (mantissas * 2.0**MANTISSA).astype(np.int64).tolist()
        shifts = (exponents - (MANTISSA + self.unit)).tolist()
        places = columns.tolist()
        last_place = [self.used.size] if fit_intercept else []
        one = [1 << -self.unit] if fit_intercept else []
        start = 0
        for length in lengths.tolist():
            require_time()
            stop = start + length
            x = [
                v << shift
                for v, shift in zip(integers[start:stop], shifts[start:stop], strict=True)
            ]
            yield places[start:stop] + last_place, x + one
            start = stop
