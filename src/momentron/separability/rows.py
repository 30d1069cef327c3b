"""The examples as rows a with one question: is there a w with a·w > 0 for all of them?

For an example x of class c and another class j, a is the vector with a·w = (w_c − w_j)·x̃, where
w_0 = 0 and x̃ is x, with a last 1 where there is an intercept. Two classes give one row a for each
example, ±x̃; k classes give k − 1 of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.clock import require_time
from momentron.errors import InputError
from momentron.separability.data import Data, label_texts
from momentron.separability.limits import memory_cap, require_memory
from momentron.validation import _require_finite, as_matrix, clean_targets

BYTES_PER_PAIR_ENTRY = 64  # while the sparse matrix of many classes' pairs is put together
BYTES_PER_WHOLE = 100  # of an integer with its column, in Python's lists
FEW_ROWS = 64  # that are converted one by one
DENSE_COPIES = 5  # of the float matrix, at the worst moment of a proposal


@dataclass(frozen=True)
class Examples:
    """X and y, checked, with the names under which a proof knows them.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d), float32 or float64
        The columns of X that hold anything but zeros (the first, if none does).
    codes : ndarray of shape (n,)
        The class of each row, as an index into `classes`.
    classes : list of str
    lift : int
        1 with an intercept, else 0.
    data : Data
        All of X, as a proof speaks of it.
    columns : ndarray
        Which column of the user's X each column of X is.
    """

    X: Any
    codes: np.ndarray
    classes: list[str]
    lift: int
    data: Data
    columns: np.ndarray

    @classmethod
    def from_data(cls, X: Any, y: Any, *, fit_intercept: bool) -> "Examples":
        """Check X and y, and leave out columns of zeros."""
        X = _as_exact_matrix(X)
        _require_finite(X)
        X = X.tocsr() if sp.issparse(X) else X
        clean_targets(y, X.shape[0])  # only a check: as an array, labels of a list may merge
        labels = label_texts(y)
        classes = _ordered(sorted(set(labels)))
        if len(classes) < 2:
            raise InputError(
                f"y has {len(classes)} class; check_separability needs at least 2: pass rows of "
                "another class"
            )
        _require_few_pairs(len(labels), len(classes))
        index = {label: c for c, label in enumerate(classes)}
        codes = np.array([index[label] for label in labels])
        data = Data(X, labels)
        columns = data.used if data.used.size else np.zeros(1, np.int64)
        X = X if columns.size == data.d else _with_columns(X, columns)
        return cls(X, codes, classes, int(fit_intercept), data, columns)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def width(self) -> int:
        """Weights a class: features, and the intercept."""
        return self.shape[1] + self.lift

    @property
    def unit(self) -> int:
        """Every entry of X is a whole number times 2^unit."""
        return self.data.unit

    @cached_property
    def _kept(self) -> list[tuple[list[int], list[int]]] | None:
        """All rows in whole numbers, if there is room for them."""
        if self.data.entries * BYTES_PER_WHOLE > memory_cap() / 4:
            return None
        return [self._row(row) for row in self.data.rows(self.lift)]

    def keep_whole_rows(self) -> None:
        """Convert all rows at once, if there is room: much faster than one by one."""
        _ = self._kept

    def whole(self, i: int) -> tuple[list[int], list[int]]:
        """Row i as (columns, integers in units of 2^unit)."""
        kept = self.__dict__.get("_kept")  # only where all rows have been asked for
        return kept[i] if kept is not None else self._row(self.data.row(i, self.lift))

    def whole_rows(self) -> Iterator[tuple[list[int], list[int]]]:
        """Every row as (columns, integers in units of 2^unit)."""
        if self._kept is not None:
            yield from self._kept
            return
        for row in self.data.rows(self.lift):
            yield self._row(row)

    def _row(self, row: tuple[list[int], list[int]]) -> tuple[list[int], list[int]]:
        """With the intercept in its place where a column of zeros was kept."""
        if self.lift and self.data.used.size == 0:
            return [self.width - 1], row[1]
        return row


def _with_columns(X: Any, columns: np.ndarray) -> Any:
    """Some columns of X, all others being zero, at a cost that does not depend on how many."""
    if not sp.issparse(X):
        return X[:, columns]
    keep = X.data != 0
    counts = np.add.reduceat(np.append(keep, 0), X.indptr[:-1]) * (np.diff(X.indptr) > 0)
    places = np.searchsorted(columns, X.indices[keep])
    parts = X.data[keep], places, np.append(0, np.cumsum(counts))
    return sp.csr_array(parts, shape=(X.shape[0], columns.size))


def _require_few_pairs(n: int, k: int) -> None:
    if n * k * 64 > memory_cap():
        raise InputError(
            f"{n} rows of {k} classes make {n * (k - 1)} pairs, more than fit into "
            f"{memory_cap() / 2**30:.1f} GB; check the classes two by two"
        )


def _as_exact_matrix(X: Any) -> Any:
    """X as a matrix of floats, refused where that would change an entry."""
    try:
        X = as_matrix(X)
        return X.tocsr() if sp.issparse(X) else X
    except TypeError as error:
        raise InputError(f"X has an entry that is no real number: {error}") from None


def _ordered(classes: list[str]) -> list[str]:
    """Numbers by value, other labels as text: the order that `max_margin` uses."""
    try:
        return sorted(classes, key=float)
    except ValueError:
        return classes


def _by_column(ends: Any) -> np.ndarray:
    return np.asarray(ends.todense() if sp.issparse(ends) else ends).ravel()


class PairRows:
    """The rows a of all pairs (example, other class).

    Attributes
    ----------
    example, other : ndarray of shape (n_pairs,)
        Of which example, and against which class, a row is.
    A : ndarray or csr_array of shape (n_pairs, n_columns)
        The rows in floats, each column divided by a power of two; columns of zeros are left out.
    columns : ndarray
        Which coordinate (class − 1)·width + feature each column of A is.
    exponents : ndarray
        The powers of two.
    """

    def __init__(self, examples: Examples) -> None:
        self.examples = examples
        n, k = examples.shape[0], len(examples.classes)
        everything = np.indices((n, k)).reshape(2, -1)
        keep = examples.codes[everything[0]] != everything[1]
        self.example, self.other = everything[0][keep], everything[1][keep]

    @property
    def A(self) -> Any:
        return self._scaled[0]

    @property
    def columns(self) -> np.ndarray:
        return self._scaled[1]

    @property
    def exponents(self) -> np.ndarray:
        return self._scaled[2]

    @cached_property
    def _scaled(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """(A, columns, exponents), built when first asked for, if there is room."""
        (n, _), k = self.examples.shape, len(self.examples.classes)
        entries = self.examples.data.entries + n * self.examples.lift
        if k > 2:
            size = 2.0 * entries * (k - 1) * BYTES_PER_PAIR_ENTRY
        elif sp.issparse(self.examples.X):
            size = float(entries * BYTES_PER_PAIR_ENTRY)
        else:
            size = 8.0 * DENSE_COPIES * n * self.examples.width
        require_memory(size, f"{self.example.size} pairs with {self.n_coordinates} coordinates")
        A = self._binary() if k == 2 else self._multiclass(k)
        top = np.maximum(_by_column(A.max(axis=0)), -_by_column(A.min(axis=0)))
        columns = np.flatnonzero(top)
        exponents = np.frexp(top[columns])[1].astype(np.int64)
        A = A if columns.size == top.size else A[:, columns]
        if sp.issparse(A):
            A = sp.csr_array(A)
            A.data = np.ldexp(A.data, -exponents[A.indices])
        else:
            A = np.ldexp(A, -exponents, out=A)
        return A, columns, exponents

    @property
    def n_coordinates(self) -> int:
        return (len(self.examples.classes) - 1) * self.examples.width

    def _lifted(self) -> Any:
        X, n = self.examples.X, self.examples.shape[0]
        if not self.examples.lift:
            return X.astype(np.float64)
        if sp.issparse(X):
            return sp.csr_array(sp.hstack([X.astype(np.float64), np.ones((n, 1))]))
        return np.column_stack([X.astype(np.float64), np.ones(n)])

    def _binary(self) -> Any:
        signs = np.where(self.examples.codes == 1, 1.0, -1.0)
        lifted = self._lifted()
        if sp.issparse(lifted):
            return sp.csr_array(sp.diags_array(signs) @ lifted)
        lifted *= signs[:, None]
        return lifted

    def _multiclass(self, k: int) -> Any:
        """x̃ in the block of the own class, −x̃ in that of the other; class 0 has no block."""
        lifted = sp.coo_array(self._lifted())
        i, column = lifted.coords
        own, width = self.examples.codes, self.examples.width
        parts = []
        for j in range(k):
            at = np.flatnonzero(own[i] != j)
            pair = i[at] * (k - 1) + j - (j > own[i[at]])
            for block, sign in ((own[i[at]], 1.0), (np.full(at.size, j), -1.0)):
                inside = block > 0
                where = (block[inside] - 1) * width + column[at][inside]
                parts.append((pair[inside], where, sign * lifted.data[at][inside]))
        rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        shape = (self.example.size, self.n_coordinates)
        return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=shape))

    def dense(self, pairs: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Some rows and columns of A (by position) as a dense array."""
        part = self.A[pairs][:, columns]
        return part.toarray() if sp.issparse(part) else part

    def whole_row(self, pair: int) -> dict[int, int]:
        """A row by coordinate, in whole numbers, units of 2^unit."""
        i, j, width = int(self.example[pair]), int(self.other[pair]), self.examples.width
        columns, values = self.examples.whole(i)
        own, row = int(self.examples.codes[i]), {}
        for block, sign in ((own, 1), (j, -1)):
            if block:
                shift = (block - 1) * width
                row.update({shift + c: sign * v for c, v in zip(columns, values, strict=True)})
        return row

    def combine(self, pairs: np.ndarray, q: list[int]) -> list[int]:
        """Σ q a over some pairs, in whole numbers, by coordinate."""
        if len(q) > FEW_ROWS:
            self.examples.keep_whole_rows()
        total = [0] * self.n_coordinates
        for pair, weight in zip(pairs.tolist(), q, strict=True):
            require_time()
            for coordinate, value in self.whole_row(pair).items():
                total[coordinate] += weight * value
        return total

    def to_whole(self, w: np.ndarray) -> list[int]:
        """Float weights for the columns of A as whole weights for all coordinates, exactly."""
        full = [0] * self.n_coordinates
        whole = whole_multiples(w, -self.exponents)
        for c, v in zip(self.columns.tolist(), whole, strict=True):
            full[c] = v
        return full


def whole_multiples(w: np.ndarray, exponents: np.ndarray) -> list[int]:
    """w·2^exponents, each with its own, times the least power of two that makes all whole."""
    mantissas, powers = np.frexp(w)
    integers = (mantissas * 2.0**53).astype(np.int64).tolist()
    shifts = np.where(w != 0.0, powers + exponents, np.iinfo(np.int64).max)
    least = int(shifts.min(initial=np.iinfo(np.int64).max))
    return [m << (e - least) if m else 0 for m, e in zip(integers, shifts.tolist(), strict=True)]
