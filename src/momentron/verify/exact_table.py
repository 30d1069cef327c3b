"""The data of a proof: their canonical form, and their rows in integers. Nothing is rounded.

A float is an integer times a power of two, and the shortest decimal that prints as it an integer
times a power of ten: with either reading all rows of X are rows of integers over one denominator.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from momentron.verify.proof import Refused

PIECE = 1 << 19  # entries that are read at a time


class Table:
    """X and the labels of its rows; the rows in integers, in units of 1/scale.

    Columns that are zero in every row can be left out of all arithmetic: place p stands for the
    column `used[p]`.

    Parameters
    ----------
    X : ndarray of shape (n, d), or a matrix in CSR format
    labels : list of str
    decimals : {"binary", "shortest"}
        Whether a float stands for its own value or for the shortest decimal that prints as it.
    left_out : sequence of int
        Rows that count as if they were not there, in increasing order.
    tick : callable
        Called before work that takes some seconds; it may raise if there are not as many left.
    """

    def __init__(
        self,
        X: Any,
        labels: list[str],
        decimals: str = "binary",
        left_out: Sequence[int] = (),
        tick: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        if X.ndim != 2:
            raise Refused(f"X has shape {X.shape}; it must be a matrix")
        self.n, self.d = (int(size) for size in X.shape)
        if self.n != len(labels):
            raise Refused(f"rows of X: {self.n}, labels in y: {len(labels)}; they must agree")
        self.labels, self.decimals, self.left_out = labels, decimals, list(left_out)
        self.tick, self.base = tick, 2 if decimals == "binary" else 10
        lengths, columns, values = _entries(X, tick)
        if not np.isfinite(values).all():
            raise Refused("X contains NaN or infinity; every entry must be finite")
        self.ends = np.append(0, np.cumsum(lengths))
        self.sha256 = self._digest(lengths, columns, values)
        is_wide = self.d > columns.size
        self.used = np.unique(columns) if is_wide else np.flatnonzero(np.bincount(columns))
        self._places = np.searchsorted(self.used, columns).astype(np.int32)
        if self.used.size == 0 < self.d:
            self.used = np.zeros(1, np.int64)
        self._integers = np.empty(values.size, np.int64)
        self._powers = np.empty(values.size, np.int16)
        parsed = _binary if self.base == 2 else _shortest
        for at in _slices(values.size):
            tick(0.0)
            self._integers[at], self._powers[at] = parsed(values[at])
        self._unit = min(0, int(self._powers.min(initial=0)))
        self.scale = self.base**-self._unit
        high = int(np.frexp(np.abs(values).max(initial=0.0))[1])
        self.bits = max(0, high) + self.scale.bit_length()  # of the longest integer, at most

    def _digest(self, lengths: np.ndarray, columns: np.ndarray, values: np.ndarray) -> str:
        """SHA-256 of the canonical form."""
        form = hashlib.sha256(f"momentron-data 3\n{self.n} {self.d}\n{self.decimals}\n".encode())
        for part, kind in ((lengths, "<u8"), (columns, "<u8"), (values, "<f8")):
            for at in _slices(part.size):
                self.tick(0.0)
                form.update(np.ascontiguousarray(part[at], kind).data)
        for text in self.labels:
            form.update(f"{len(text.encode())}:{text}\n".encode())
        return form.hexdigest()

    @property
    def kept_labels(self) -> list[str]:
        """The labels of the rows that are not left out."""
        gone = set(self.left_out)
        return [label for i, label in enumerate(self.labels) if i not in gone]

    def pieces(self, rows: np.ndarray, bits: int = 0) -> Iterator[tuple[np.ndarray, ...]]:
        """(rows, ends, places, integers) for some rows, in pieces: row m has ends[m] to ends[m+1].

        `bits` of the numbers with which the integers will be multiplied: long ones make pieces
        shorter, and a sum of products that could leave int64 makes integers Python's own.
        """
        n_entries = int((self.ends[rows + 1] - self.ends[rows]).sum())
        n_pieces = 1 + n_entries * (1 + bits // 512) // PIECE
        for part in np.array_split(rows, min(n_pieces, max(1, rows.size))):
            self.tick(0.0)
            starts = self.ends[part]
            ends = np.append(0, np.cumsum(self.ends[part + 1] - starts))
            at = np.repeat(starts - ends[:-1], np.diff(ends)) + np.arange(ends[-1])
            longest = self.bits + bits + int(ends[-1] + part.size).bit_length()
            kind: Any = np.int64 if longest < 62 else object
            powers, which = np.unique(self._powers[at], return_inverse=True)
            factors = [self.base ** (p - self._unit) for p in powers.tolist()]
            x = self._integers[at].astype(kind) * np.array(factors, kind)[which]
            yield part, ends, self._places[at], x


def _slices(size: int) -> list[slice]:
    return [slice(start, start + PIECE) for start in range(0, size, PIECE)]


def _entries(X: Any, tick: Callable[[float], None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(how many entries of each row are not zero, their columns, their values), row by row."""
    n, d = X.shape
    if hasattr(X, "indptr"):
        keep = X.data != 0
        ends = np.append(0, np.cumsum(keep))[X.indptr]
        return np.diff(ends), X.indices[keep], np.asarray(X.data[keep], np.float64)
    lengths = np.count_nonzero(X, axis=1)
    columns = np.empty(lengths.sum(), np.int32)
    values = np.empty(columns.size)
    done, step = 0, max(1, PIECE // max(1, d))
    for start in range(0, n, step):
        tick(0.0)
        block = X[start : start + step]
        at = np.nonzero(block)
        stop = done + at[0].size
        columns[done:stop], values[done:stop] = at[1], block[at]
        done = stop
    return lengths, columns, values


def _binary(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, e): odd integers with m·2^e the values."""
    mantissas, exponents = np.frexp(values)
    integers = (mantissas * 2.0**53).astype(np.int64)
    zeros = np.frexp((integers & -integers).astype(np.float64))[1] - 1
    return integers >> zeros, exponents - 53 + zeros


def _shortest(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, e): integers with m·10^e the shortest decimals that print as the values.

    If m / 10^p, both exact floats, rounds to the value and m has at most 15 digits, then no other
    decimal of so few digits does. Longer ones are printed.
    """
    integers, powers = np.zeros(values.size, np.int64), np.zeros(values.size, np.int64)
    left = np.arange(values.size)
    for p in range(16):
        tens, v = 10.0**p, values[left]
        with np.errstate(over="ignore"):
            whole = np.rint(v * tens)
        found = (np.abs(whole) < 1e15) & (whole / tens == v)
        integers[left[found]], powers[left[found]] = whole[found], -p
        left = left[~found]
        if not left.size:
            break
    for i, text in zip(left.tolist(), map(repr, values[left].tolist()), strict=True):
        mantissa, _, power = text.partition("e")
        before, _, after = mantissa.partition(".")
        after = "" if after == "0" else after
        integers[i], powers[i] = int(before + after), int(power or 0) - len(after)
    return integers, powers
