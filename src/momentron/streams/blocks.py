"""A block of rows with its labels: what is read at a time, and worked on a tile at a time.

And the rows of blocks that are kept.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from xxhash import xxh3_64_intdigest

from momentron.arithmetic.clock import require_time
from momentron.errors import InputError
from momentron.rows.operator import row_blocks
from momentron.rows.validation import as_matrix, clean_targets


@dataclass(frozen=True)
class Block:
    """Rows in one piece."""

    X: Any  # an array or csr_array of shape (m, d), in float32 or float64
    y: np.ndarray  # the labels as users gave them
    number: int  # which block of the stream this is
    first: int  # the number of the first row, counted over the whole stream

    @property
    def arrays(self) -> list[np.ndarray]:
        """What it is made of: the entries of X first, or those that X stores."""
        X = self.X
        return [X, self.y] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr, self.y]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def checksum(self) -> int:
        """What tells a block from one that was changed by accident: the same in every process.

        A pass reads 3 to 5 GB/s, where SHA-256 and BLAKE2b hash less than 2, and XXH3 70.
        """
        total = 0
        for array in self.arrays:
            array = np.ascontiguousarray(array.astype(str) if array.dtype.hasobject else array)
            total = xxh3_64_intdigest(f"{array.dtype.str}{array.shape}".encode(), total)
            total = xxh3_64_intdigest(array.data, total)
        return total

    def weighted(self, is_kept: np.ndarray) -> "Block":
        """The rows of the block that have a weight, numbered among all that have."""
        rows = np.flatnonzero(is_kept[self.first : self.first + self.y.size])
        first = int(np.count_nonzero(is_kept[: self.first]))
        return Block(self.X[rows], self.y[rows], self.number, first)

    def codes(self, classes: np.ndarray) -> np.ndarray:
        """The place of each label in the sorted classes, among which checksums say that it is."""
        if classes.size == 2:  # a twentieth of a pass faster
            return (self.y == classes[1]).view(np.int8)
        return np.minimum(np.searchsorted(classes, self.y), classes.size - 1)


@dataclass(frozen=True)
class Rows:
    """Rows X with their codes, or labels, and their numbers in the stream."""

    X: Any
    codes: np.ndarray
    numbers: np.ndarray

    @property
    def size(self) -> int:
        return self.numbers.size

    def chosen(self, index: np.ndarray) -> "Rows":
        """Some of the rows."""
        index = np.array(index, np.int64)
        return Rows(self.X[index], self.codes[index], self.numbers[index])

    @classmethod
    def joined(cls, parts: "list[Rows]") -> "Rows":
        """The rows of all the parts, one part after another."""
        pieces = [part.X for part in parts]
        is_sparse = sp.issparse(pieces[0])
        return cls(
            sp.csr_array(sp.vstack(pieces, format="csr")) if is_sparse else np.concatenate(pieces),
            np.concatenate([part.codes for part in parts]),
            np.concatenate([part.numbers for part in parts]),
        )

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """Where the rows with these numbers are."""
        order = np.argsort(self.numbers)
        return order[np.searchsorted(self.numbers, numbers, sorter=order)]

    def joined_by(self, lists: "Iterable[Shortlist]") -> "Rows":
        """These rows, and the others of some lists."""
        rows = self
        for found in lists:
            others = found.chosen()
            if others is not None:
                is_new = ~np.isin(others.numbers, rows.numbers)
                rows = Rows.joined([rows, others.chosen(np.flatnonzero(is_new))])
        return rows

    def trimmed(self, distances: np.ndarray, stays: np.ndarray, room: int) -> "Rows":
        """Those that stay, and the nearest, if there is no room for more; some of each class."""
        if self.size <= room:
            return self
        kept, order = stays.copy(), np.argsort(np.where(stays, -np.inf, distances), kind="stable")
        kept[order[:room]] = True
        for code in np.unique(self.codes):
            rows = np.flatnonzero(self.codes == code)
            kept[rows[np.argmin(distances[rows])]] = True
        return self.chosen(np.flatnonzero(kept))


class Shortlist:
    """The rows of highest rank, about `total` of them, as many of each class.

    `bars` are ranks below which rows of a class are not wanted at all.
    As classes appear the room of each shrinks; what was dropped before would have been dropped
    after. Rows are kept as they come and trimmed when there are twice as many, so that a row costs
    a comparison and, rarely, a copy. Two lists merge into the list of all their rows, the same in
    whatever order they come.
    """

    def __init__(self, total: int, bars: Mapping[Any, float] | None = None) -> None:
        self.total, self.bars = total, dict(bars or {})
        self._kept: dict[Any, list[tuple[np.ndarray, Rows]]] = {}  # with their ranks, by class

    @property
    def capacity(self) -> int:
        """Rows that each class may keep."""
        return max(1, self.total // max(2, len(self.bars)))

    def offer(
        self, block: Block, ranks: np.ndarray, codes: np.ndarray, labels: Iterable[Hashable]
    ) -> None:
        """Take the rows of a block that rank high enough; codes are places among the labels."""
        for code, label in enumerate(labels):
            index = np.flatnonzero(codes == code)
            index = index[ranks[index] >= self.bars.setdefault(label, -np.inf)]
            if index.size:
                rows = Rows(block.X[index], np.full(index.size, label), block.first + index)
                self._add(label, ranks[index], rows)

    def take(self, other: "Shortlist") -> None:
        """Merge another list into this one; the smaller room counts."""
        self.total = min(self.total, other.total)
        for label, bar in other.bars.items():
            self.bars[label] = max(bar, self.bars.get(label, -np.inf))
        for label, kept in other._kept.items():
            for ranks, rows in kept:
                self._add(label, ranks, rows)

    def _add(self, label: Hashable, ranks: np.ndarray, rows: Rows) -> None:
        kept = self._kept.setdefault(label, [])
        kept.append((ranks, rows))
        if sum(part.size for _, part in kept) >= 2 * self.capacity:
            self._trim(label)

    def _trim(self, label: Hashable) -> None:
        """Keep the highest ranks of a class, and of equal ones the earliest rows."""
        kept = self._kept[label]
        ranks = np.concatenate([part for part, _ in kept])
        rows = Rows.joined([part for _, part in kept])
        if ranks.size > self.capacity:
            best = np.lexsort((rows.numbers, -ranks))[: self.capacity]
            ranks, rows = ranks[best], rows.chosen(best)
            self.bars[label] = float(ranks.min())
        self._kept[label] = [(ranks, rows)]

    def chosen(self) -> Rows | None:
        """The rows kept, if any, class by class, with their labels as codes."""
        for label in self._kept:
            self._trim(label)
        parts = [self._kept[label][0][1] for label in sorted(self._kept, key=str)]
        return Rows.joined(parts) if parts else None


def as_block(X: Any, y: Any, number: int, first: int) -> Block:
    """A block from what a source gives, checked for its shape and type."""
    try:
        X = as_matrix(X)
        X = sp.csr_array(X) if sp.issparse(X) else np.ascontiguousarray(X)
        y = clean_targets(y, X.shape[0])
    except ValueError as error:
        raise InputError(f"block {number}: {error}") from error
    return Block(X, y, number, first)


def tiles(X: Any) -> Iterator[slice]:
    """Slices of rows small enough to stay in the cache between two products.

    Between two of them the deadline is looked at, and Ctrl-C is heard.
    """
    for rows in row_blocks(X.shape[0], (1 + sp.issparse(X)) * entries_per_row(X)):
        require_time()
        yield rows


def entries_per_row(X: Any) -> int:
    """Features, or the entries that a sparse row stores on average."""
    return max(-(-X.nnz // X.shape[0]), 1) if sp.issparse(X) else int(X.shape[1])
