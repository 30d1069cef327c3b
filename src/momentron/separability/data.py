"""The data a proof speaks of: their canonical form, and their rows in whole numbers.

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


def fingerprint(X: Any, labels: list[str], version: int = 1) -> tuple[str, int]:
    """(SHA-256 of the canonical form, E): all of X is whole in units of 2^E, E ≤ 0."""
    data = Data(X, labels)
    return data.digest(version), data.unit


class Data:
    """X and labels, checked: finite, and float64 holds every entry exactly.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
    labels : list of str
    n, d : int
    lengths : ndarray of shape (n,)
        How many entries of each row are not zero.
    used : ndarray
        The columns that hold anything but zeros, in order. A row's columns are places in it.
    unit : int
        Every entry is a whole number times 2^unit, unit ≤ 0,
    bits : int
        of at most so many bits.
    """

    def __init__(self, X: Any, labels: list[str]) -> None:
        self.is_sparse = hasattr(X, "tocsr")
        self.X: Any = as_exact(X).tocsr() if self.is_sparse else as_exact(X)
        if self.X.ndim != 2:
            raise ValueError(f"X has {self.X.ndim} dimensions; it must be a matrix")
        self.labels = labels
        self.n, self.d = (int(size) for size in self.X.shape)
        if self.n != len(labels):
            raise ValueError(f"X has {self.n} rows and y has {len(labels)} labels; they must agree")
        self._digests: dict[int, str] = {}
        self._survey()

    def _survey(self) -> None:
        """One pass: finiteness, row lengths, columns in use, the range of exponents."""
        self.lengths = np.zeros(self.n, np.int64)
        low, high = 1, 0
        for values, is_entry in self._sparse_survey() if self.is_sparse else self._dense_survey():
            if not np.isfinite(values).all():
                raise ValueError("X contains NaN or infinity; every entry must be finite")
            exponents = np.frexp(values)[1]
            low = int(exponents.min(initial=low, where=is_entry))
            high = int(exponents.max(initial=high, where=is_entry))
        self.unit = min(0, low - 53)
        self.bits = max(1, high - self.unit)

    def _dense_survey(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(values, which are not zero), block by block; notes row lengths and columns in use."""
        seen = np.zeros(self.d, bool)
        for row, column, block in self._blocks():
            is_entry = block != 0
            self.lengths[row : row + len(block)] += np.count_nonzero(is_entry, axis=1)
            seen[column : column + block.shape[1]] |= is_entry.any(axis=0)
            yield block, is_entry
        self.used = np.flatnonzero(seen)

    def _sparse_survey(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The same for the stored entries of a sparse matrix."""
        found = [np.zeros(0, np.int64)]
        for rows, columns, values in self._entries():
            found.append(np.unique(columns))
            if rows.size:
                self.lengths[rows[0] : rows[-1] + 1] += np.bincount(rows - rows[0])
            yield values, np.ones(values.shape, bool)
        self.used = np.unique(np.concatenate(found))

    @property
    def entries(self) -> int:
        """How many entries of X are not zero."""
        return int(self.lengths.sum())

    def _entries(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(rows, columns, values) of the entries that are not zero, row by row, in blocks."""
        if not self.is_sparse:
            for row, column, block in self._blocks():
                i, j = np.nonzero(block)
                yield i + row, j + column, block[i, j]
            return
        rows = np.repeat(np.arange(self.n), np.diff(self.X.indptr))
        for start in range(0, self.X.data.size, BLOCK_ENTRIES):
            require_time()
            part = slice(start, start + BLOCK_ENTRIES)
            values = self.X.data[part]
            keep = values != 0
            columns = self.X.indices[part][keep].astype(np.int64)
            yield rows[part][keep], columns, np.asarray(values[keep], "<f8")

    def _blocks(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """(first row, first column, block): X as dense float64, row by row, without −0.0."""
        height = max(1, BLOCK_ENTRIES // max(1, self.d))
        for row in range(0, self.n, height):
            part = self.X[row : row + height]
            for column in range(0, self.d, BLOCK_ENTRIES):  # once, unless a row is very long
                require_time()
                block = part[:, column : column + BLOCK_ENTRIES]
                block = block.toarray() if self.is_sparse else block
                yield row, column, np.ascontiguousarray(block, "<f8") + 0.0

    def digest(self, version: int) -> str:
        """SHA-256 of the canonical form (docs/proof-format.md).

        Version 1 has every entry of X, version 2 those that are not zero.
        """
        if version in self._digests:
            return self._digests[version]
        form = hashlib.sha256(f"momentron-data {version}\n{self.n} {self.d}\n".encode())
        if version == 1:
            for _, _, block in self._blocks():
                form.update(block.data)
        else:
            form.update(self.lengths.astype("<u8").data)
            for _, columns, _ in self._entries():
                form.update(columns.astype("<u8").data)
            for _, _, values in self._entries():
                form.update(np.ascontiguousarray(values).data)
        for text in self.labels:
            form.update(f"{len(text.encode())}:{text}\n".encode())
        self._digests[version] = form.hexdigest()
        return self._digests[version]

    def row_digests(self) -> Iterator[bytes]:
        """A name for each row: equal for equal rows, and for no others that anybody can find."""
        for first, last in self._row_blocks():
            columns, values = self._nonzero(first, last)
            start, values = 0, np.ascontiguousarray(values)
            columns = np.ascontiguousarray(columns, np.int64)
            for length in self.lengths[first:last].tolist():
                require_time()
                here = slice(start, start + length)
                yield hashlib.blake2b(columns[here].tobytes() + values[here].tobytes()).digest()
                start += length

    def row(self, i: int, lift: int) -> tuple[list[int], list[int]]:
        """Row i as (places in `used`, integers in units of 2^unit), with a last 1 if lifted."""
        return next(self._whole(i, i + 1, lift))

    def rows(self, lift: int) -> Iterator[tuple[list[int], list[int]]]:
        """Every row, as `row` gives it."""
        for first, last in self._row_blocks():
            yield from self._whole(first, last, lift)

    def _row_blocks(self) -> Iterator[tuple[int, int]]:
        """(first, last + 1) of rows that are read together."""
        if self.is_sparse:
            ends = np.searchsorted(self.X.indptr, np.arange(0, self.X.indptr[-1], BLOCK_ENTRIES))
            starts = np.unique(np.r_[0, ends, np.arange(0, self.n, BLOCK_ENTRIES)])
            starts = starts[starts < self.n]
        else:
            starts = np.arange(0, self.n, max(1, BLOCK_ENTRIES // max(1, self.d)))
        yield from zip(starts.tolist(), [*starts[1:].tolist(), self.n], strict=True)

    def _nonzero(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """(columns, values) of the entries of some rows that are not zero, row by row."""
        require_time()
        if self.is_sparse:
            part = slice(self.X.indptr[first], self.X.indptr[last])
            values = self.X.data[part]
            keep = values != 0
            return self.X.indices[part][keep], np.asarray(values[keep], np.float64)
        block = np.asarray(self.X[first:last], np.float64)
        rows, columns = np.nonzero(block)
        return columns, block[rows, columns]

    def _whole(self, first: int, last: int, lift: int) -> Iterator[tuple[list[int], list[int]]]:
        """The rows from first to last, in whole numbers."""
        columns, values = self._nonzero(first, last)
        if self.used.size < self.d:
            columns = np.searchsorted(self.used, columns)
        mantissas, exponents = np.frexp(values)
        integers = (mantissas * 2.0**53).astype(np.int64).tolist()
        shifts = (exponents - (53 + self.unit)).tolist()
        places, start = columns.tolist(), 0
        last_place, one = [self.used.size] * lift, [1 << -self.unit] * lift
        for length in self.lengths[first:last].tolist():
            require_time()
            stop = start + length
            x = [a << b for a, b in zip(integers[start:stop], shifts[start:stop], strict=True)]
            yield places[start:stop] + last_place, x + one
            start = stop
