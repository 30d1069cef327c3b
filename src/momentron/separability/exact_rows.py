"""Sparse rows of integers: what every proof is made of, and nothing in them is rounded."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.data.exactness.decimals import shortest_decimals
from momentron.solvers.rational.systems import PRIME, Vector

PIECE = 1 << 19  # entries that are multiplied at a time


class Numbers:
    """Floats as integers m·base^e in units of 1/scale, each e ≥ 0.

    A float is an integer times a power of two or, as a decimal, of ten.
    """

    def __init__(self, values: np.ndarray, decimals: str) -> None:
        self.values, self.base = values, 10 if decimals == "shortest" else 2
        if decimals == "shortest":
            integers, powers = shortest_decimals(values)
        else:
            mantissas, powers = np.frexp(values)
            integers = (mantissas * 2.0**53).astype(np.int64)
            zeros = np.frexp((integers & -integers).astype(np.float64))[1] - 1
            integers, powers = integers >> zeros, powers - 53 + zeros
        unit = min(0, int(powers.min(initial=0)))
        self.integers, self.powers = integers, (powers - unit).astype(np.int16)
        self.scale = int(self.base**-unit)
        high = int(np.frexp(np.abs(values).max(initial=0.0))[1])
        self.bits = max(0, high) + self.scale.bit_length()  # of the longest integer, at most

    def residues(self, at: np.ndarray) -> np.ndarray:
        """Some of the integers modulo PRIME."""
        powers = self.powers[at]
        factors = [pow(self.base, e, PRIME) for e in range(int(powers.max(initial=0)) + 1)]
        return self.integers[at] % PRIME * np.array(factors)[powers] % PRIME

    def whole(self, at: np.ndarray, bits: int) -> np.ndarray:
        """Some of the integers; sums of their products with numbers of so many bits fit."""
        powers = self.powers[at]
        kind: Any = np.int64 if self.bits + bits + at.size.bit_length() < 62 else object
        factors = [self.base**e for e in range(int(powers.max(initial=0)) + 1)]
        return self.integers[at].astype(kind) * np.array(factors, kind)[powers]


class ExactRows:
    """Rows of integers, in units of 1/scale.

    Attributes
    ----------
    numbers : Numbers
    places : csr_array of shape (n, width)
        Which of the numbers an entry is, counted from 1; negative if its sign is the other one.
    """

    def __init__(self, places: Any, numbers: Numbers) -> None:
        self.places, self.numbers = places, numbers

    def _with(self, places: Any, values: np.ndarray) -> Any:
        """Values for the entries, with their signs."""
        parts = values * np.sign(places.data), places.indices, places.indptr
        return sp.csr_array(parts, shape=places.shape)

    def floats(self) -> Any:
        return self._with(self.places, self.numbers.values[np.abs(self.places.data) - 1])

    def residues(self, rows: np.ndarray) -> Any:
        """Some rows modulo PRIME."""
        places = self.places[rows]
        found = self._with(places, self.numbers.residues(np.abs(places.data) - 1))
        found.data = (found.data % PRIME).astype(np.float64)
        return found

    def _pieces(self, rows: Any, bits: int) -> Iterator[tuple[int, Any]]:
        """(position of the first, integers) of some rows, a piece at a time."""
        places = self.places if rows is None else self.places[rows]
        n = places.shape[0]
        step = max(1, PIECE * n // max(1, places.nnz))
        for start in range(0, n, step):
            require_time()
            piece = places[start : start + step]
            values = self.numbers.whole(np.abs(piece.data) - 1, bits)
            yield start, (piece.indptr, piece.indices, values * np.sign(piece.data))

    def vectors(self, rows: np.ndarray) -> list[Vector]:
        """Some rows by coordinate."""
        found: list[Vector] = []
        for _, (ends, columns, values) in self._pieces(rows, 0):
            entries = list(zip(columns.tolist(), values.tolist(), strict=True))
            found += [dict(entries[a:b]) for a, b in pairwise(ends)]
        return found

    def sides(self, w: Sequence[int], rows: np.ndarray | None = None) -> list[int]:
        """a·w for some rows a, by default all."""
        found: list[int] = []
        for _, (ends, columns, values) in self._pieces(rows, _bits(w)):
            running = np.cumsum(values * np.array(w, values.dtype)[columns], dtype=values.dtype)
            found += np.diff(np.append(np.zeros(1, values.dtype), running)[ends]).tolist()
        return found

    def combine(self, q: Sequence[int], rows: np.ndarray | None = None) -> list[int]:
        """Σ q a over some rows a, by default all, by coordinate."""
        total = np.zeros(self.places.shape[1], object)
        for start, (ends, columns, values) in self._pieces(rows, _bits(q)):
            weights = np.array(q[start : start + ends.size - 1], values.dtype)
            sums = np.zeros(total.size, values.dtype)
            np.add.at(sums, columns, values * np.repeat(weights, np.diff(ends)))
            total += sums
        return [int(v) for v in total]


def _bits(numbers: Sequence[int]) -> int:
    return max(map(int.bit_length, numbers), default=0)
