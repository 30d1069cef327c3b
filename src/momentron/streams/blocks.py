"""A block of rows with its labels: what is read at a time, and worked on a tile at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from xxhash import xxh3_64_intdigest

from momentron.arithmetic.clock import require_time
from momentron.errors import InputError, short
from momentron.rows.base import row_blocks
from momentron.rows.validation import as_matrix, clean_targets

LARGE = 256  # a large tile is this many times as large: a fraction of a second
_KINDS = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers"}


@dataclass(frozen=True)
class Block:
    """Rows in one piece.

    Attributes
    ----------
    X : ndarray or csr_array of shape (m, d)
        float32 or float64.
    y : ndarray of shape (m,)
        Labels as users gave them.
    number : int
        Which block of the stream this is.
    first : int
        The number of the first row, counted over the whole stream.
    """

    X: Any
    y: np.ndarray
    number: int
    first: int

    @property
    def nbytes(self) -> int:
        X = self.X
        parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
        return sum(part.nbytes for part in parts) + self.y.nbytes

    def checksum(self) -> int:
        """What tells a block from one that was changed by accident: the same in every process.

        A pass reads 3 to 5 GB/s, where SHA-256 and BLAKE2b hash less than 2, and XXH3 70.
        """
        X, y = self.X, self.y
        y = y.astype(str) if y.dtype.kind == "O" else y
        arrays = [X, y] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr, y]
        total = 0
        for array in map(np.ascontiguousarray, arrays):
            total = xxh3_64_intdigest(f"{array.dtype.str}{array.shape}".encode(), total)
            total = xxh3_64_intdigest(array.data, total)
        return total

    @property
    def values(self) -> np.ndarray:
        """The entries of X, or those that it stores."""
        return self.X if isinstance(self.X, np.ndarray) else self.X.data

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the rows, counted over the whole stream."""
        return np.arange(self.first, self.first + self.y.size)

    def kept(self, wanted: np.ndarray) -> "Rows | None":
        """The rows whose numbers are among the wanted ones, which are sorted; or None."""
        start, stop = np.searchsorted(wanted, [self.first, self.first + self.y.size])
        if start == stop:
            return None
        rows = wanted[start:stop] - self.first
        return Rows(self.X[rows], self.y[rows], wanted[start:stop])

    def weighted(self, is_kept: np.ndarray, first: int) -> "Block":
        """The rows that have a weight, numbered from `first` on."""
        rows = np.flatnonzero(is_kept[self.first : self.first + self.y.size])
        return Block(self.X[rows], self.y[rows], self.number, first)

    def codes(self, classes: np.ndarray) -> np.ndarray:
        """The place of each label in the sorted classes."""
        if classes.size == 2:
            places = (self.y == classes[1]).view(np.int8)
            known = places | (self.y == classes[0])
        else:
            places = np.minimum(np.searchsorted(classes, self.y), classes.size - 1)
            known = classes[places] == self.y
        if not known.all():
            label = self.y[~known.astype(bool)].tolist()[0]
            raise InputError(
                f"block {self.number} has label {short(label)}, which the first pass over the data "
                "did not contain; a source must give the same blocks in every pass"
            )
        return places


@dataclass(frozen=True)
class Rows:
    """Rows X with their codes, or labels, and their numbers in the stream; all of it read-only."""

    X: Any
    codes: np.ndarray
    numbers: np.ndarray

    def __post_init__(self) -> None:
        values = self.X if isinstance(self.X, np.ndarray) else self.X.data
        for array in (values, self.codes, self.numbers):
            array.flags.writeable = False

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
        return cls(
            stack([part.X for part in parts]),
            np.concatenate([part.codes for part in parts]),
            np.concatenate([part.numbers for part in parts]),
        )

    def coded(self, classes: np.ndarray) -> "Rows":
        """The same with the places of the labels among the classes."""
        return Rows(self.X, np.searchsorted(classes, self.codes), self.numbers)


def as_block(X: Any, y: Any, number: int, first: int, width: int | None = None) -> Block:
    """A block from what a source gives, checked for its shape and type."""
    try:
        X = as_matrix(X)
        X = sp.csr_array(X) if sp.issparse(X) else np.ascontiguousarray(X)
        y = clean_targets(y, X.shape[0])
    except ValueError as error:
        raise InputError(f"block {number}: {error}") from error
    if width is not None and X.shape[1] != width:
        raise InputError(
            f"block {number} has {X.shape[1]} features but the first has {width}; they must agree"
        )
    return Block(X, y, number, first)


def kind_of(labels: np.ndarray) -> str:
    """Whether labels are numbers, booleans or text, which must not be mixed in a stream."""
    return _KINDS.get(labels.dtype.kind, "text")


def tiles(X: Any) -> Iterator[slice]:
    """Slices of rows small enough to stay in the cache between two products."""
    return _in_time(row_blocks(X.shape[0], 2 * _stored(X) if sp.issparse(X) else X.shape[1]))


def large_tiles(X: Any, n_outputs: int = 1) -> Iterator[slice]:
    """Slices of rows that are read once: most often the whole block, if it takes no time."""
    return _in_time(row_blocks(X.shape[0], _stored(X) * n_outputs // LARGE))


def _stored(X: Any) -> int:
    """Entries in a row, on average."""
    return max(-(-X.nnz // X.shape[0]), 1) if sp.issparse(X) else int(X.shape[1])


def _in_time(parts: Iterator[slice]) -> Iterator[slice]:
    """The slices; between two of them the deadline is looked at, and Ctrl-C is heard."""
    for rows in parts:
        require_time()
        yield rows


def in_float64(X: Any) -> Any:
    """X in float64, without a copy where it is so already."""
    return X.astype(np.float64, copy=False)


def stack(parts: list[Any]) -> Any:
    """Rows of several pieces as one piece."""
    if len(parts) == 1:
        return parts[0]
    if sp.issparse(parts[0]):
        return sp.csr_array(sp.vstack(parts, format="csr"))
    return np.concatenate(parts)
