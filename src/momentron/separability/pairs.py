"""The pairs (example, other class), with one question: is there a w with a·w > 0 for all of them?

For an example x of class c and another class j, a is the vector with a·w = (w_c − w_j)·x̃, where
w_0 = 0 and x̃ is x, with a last 1 where there is an intercept. Two classes give one vector a per
example, ±x̃; k classes give k − 1 of them.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.clock import require_time
from momentron.errors import InputError
from momentron.separability.memory import memory_cap, require_memory
from momentron.validation import clean_matrix, clean_targets
from momentron.verify.data import Data, WholeRow, label_texts

BYTES_PER_PAIR_ENTRY = 64  # while the sparse matrix of many classes' pairs is put together
BYTES_PER_WHOLE = 100  # of an integer with its column, in Python's lists
FEW_ROWS = 64  # that are converted one by one
DENSE_COPIES = 5  # of the float matrix, at the worst moment of a proposal


class Pairs:
    """All pairs of some data, in floats and in whole numbers.

    Attributes
    ----------
    data : Data
        All of X, as a proof describes it.
    X : ndarray or csr_array of shape (n, d)
        The columns `data.used` of X: the others hold zeros only.
    classes : list of str
    codes : ndarray of shape (n,)
        The class of each row, as an index into `classes`.
    fit_intercept : bool
    example, other : ndarray of shape (size,)
        The row of each pair, and the class against which it stands.
    """

    def __init__(self, X: Any, y: Any, *, fit_intercept: bool) -> None:
        X = _as_floats(X)
        clean_targets(y, X.shape[0])  # only a check: as an array, labels of a list may merge
        labels = label_texts(y)
        self.classes = _ordered(sorted(set(labels)))
        self.k, self.n = len(self.classes), len(labels)
        if self.k < 2:
            raise InputError(
                f"y has {self.k} class; check_separability needs at least 2: add rows of another "
                "class"
            )
        if self.n * self.k * 64 > memory_cap():
            raise InputError(
                f"{self.n} rows of {self.k} classes make {self.n * (self.k - 1)} pairs, more than "
                f"fit into {memory_cap() / 2**30:.1f} GB; check the classes two by two"
            )
        index = {label: c for c, label in enumerate(self.classes)}
        self.codes = np.array([index[label] for label in labels])
        self.data = Data(X, labels)
        self.X = X if self.data.used.size == self.data.d else _with_columns(X, self.data.used)
        self.fit_intercept = fit_intercept
        everything = np.indices((self.n, self.k)).reshape(2, -1)
        keep = self.codes[everything[0]] != everything[1]
        self.example, self.other = everything[0][keep], everything[1][keep]

    @property
    def size(self) -> int:
        return int(self.example.size)

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def width(self) -> int:
        """Weights per class: features, and the intercept."""
        return self.n_features + self.fit_intercept

    @property
    def n_coordinates(self) -> int:
        """The length of w = (w_1, …, w_{k−1})."""
        return (self.k - 1) * self.width

    @property
    def own(self) -> np.ndarray:
        """The class of each pair's example."""
        return self.codes[self.example]

    def between(self, c: int, j: int) -> np.ndarray:
        """The pairs of examples of class c with class j."""
        return np.flatnonzero((self.own == c) & (self.other == j))

    def pair_of(self, i: int, j: int) -> int:
        """The pair of example i with class j."""
        return i * (self.k - 1) + j - int(j > self.codes[i])

    # --- in floats -------------------------------------------------------------------------------

    @property
    def A(self) -> Any:
        """The vectors a as rows, each column over a power of two; columns of zeros left out."""
        return self._scaled[0]

    @property
    def columns(self) -> np.ndarray:
        """Which coordinate of w each column of A stands for."""
        return self._scaled[1]

    @property
    def exponents(self) -> np.ndarray:
        """The power of two by which each column of A was divided."""
        return self._scaled[2]

    @cached_property
    def _scaled(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """(A, columns, exponents), built when first asked for, if there is room."""
        n_entries = self.data.n_entries + self.n * self.fit_intercept
        if self.k > 2:
            size = 2.0 * n_entries * (self.k - 1) * BYTES_PER_PAIR_ENTRY
        elif sp.issparse(self.X):
            size = float(n_entries * BYTES_PER_PAIR_ENTRY)
        else:
            size = 8.0 * DENSE_COPIES * self.n * self.width
        require_memory(size, f"{self.size} pairs with {self.n_coordinates} coordinates")
        A = self._two_classes() if self.k == 2 else self._many_classes()
        top = np.maximum(by_column(A.max(axis=0)), -by_column(A.min(axis=0)))
        columns = np.flatnonzero(top)
        exponents = np.frexp(top[columns])[1].astype(np.int64)
        A = A if columns.size == top.size else A[:, columns]
        if sp.issparse(A):
            A = sp.csr_array(A)
            A.data = np.ldexp(A.data, -exponents[A.indices])
        else:
            A = np.ldexp(A, -exponents, out=A)
        return A, columns, exponents

    def _with_intercept(self) -> Any:
        """x̃ for each row, in float64."""
        X = self.X.astype(np.float64)
        if not self.fit_intercept:
            return X
        if sp.issparse(X):
            return sp.csr_array(sp.hstack([X, np.ones((self.n, 1))]))
        return np.column_stack([X, np.ones(self.n)])

    def _two_classes(self) -> Any:
        signs = np.where(self.codes == 1, 1.0, -1.0)
        rows = self._with_intercept()
        if sp.issparse(rows):
            return sp.csr_array(sp.diags_array(signs) @ rows)
        rows *= signs[:, None]
        return rows

    def _many_classes(self) -> Any:
        """x̃ in the block of the own class, −x̃ in that of the other; class 0 has no block."""
        rows = sp.coo_array(self._with_intercept())
        i, column = rows.coords
        parts = []
        for j in range(self.k):
            at = np.flatnonzero(self.codes[i] != j)
            own = self.codes[i[at]]
            pair = i[at] * (self.k - 1) + j - (j > own)
            for block, sign in ((own, 1.0), (np.full(at.size, j), -1.0)):
                inside = block > 0
                where = (block[inside] - 1) * self.width + column[at][inside]
                parts.append((pair[inside], where, sign * rows.data[at][inside]))
        pairs, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        shape = (self.size, self.n_coordinates)
        return sp.csr_array(sp.coo_array((values, (pairs, columns)), shape=shape))

    # --- in whole numbers ------------------------------------------------------------------------

    @cached_property
    def _kept(self) -> list[WholeRow] | None:
        """All rows of X in whole numbers, if there is room for them."""
        if self.data.n_entries * BYTES_PER_WHOLE > memory_cap() / 4:
            return None
        return list(self.data.rows(self.fit_intercept))

    def keep_whole_rows(self) -> None:
        """Convert all rows at once, if there is room: much faster than one by one."""
        _ = self._kept

    def whole_rows(self) -> Iterator[WholeRow]:
        """Every row of X as (columns, whole numbers in units of 2^unit)."""
        if self._kept is not None:
            return iter(self._kept)
        return self.data.rows(self.fit_intercept)

    def vector(self, pair: int) -> dict[int, int]:
        """The vector a of a pair by coordinate, in whole numbers, units of 2^unit."""
        i, j = int(self.example[pair]), int(self.other[pair])
        kept = self.__dict__.get("_kept")  # only where all rows have been asked for
        columns, values = kept[i] if kept is not None else self.data.row(i, self.fit_intercept)
        own, a = int(self.codes[i]), {}
        for block, sign in ((own, 1), (j, -1)):
            if block:
                shift = (block - 1) * self.width
                a.update({shift + c: sign * v for c, v in zip(columns, values, strict=True)})
        return a

    def combine(self, pairs: np.ndarray, q: list[int]) -> list[int]:
        """Σ q a over some pairs, in whole numbers, by coordinate."""
        if len(q) > FEW_ROWS:
            self.keep_whole_rows()
        total = [0] * self.n_coordinates
        for pair, weight in zip(pairs.tolist(), q, strict=True):
            require_time()
            for coordinate, value in self.vector(pair).items():
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


def by_column(ends: Any) -> np.ndarray:
    """The largest or least entries of the columns of a matrix, sparse or not, as an array."""
    return np.asarray(ends.todense() if sp.issparse(ends) else ends).ravel()


def _as_floats(X: Any) -> Any:
    """X as a finite matrix of floats, refused where that would change an entry."""
    try:
        return clean_matrix(X)
    except TypeError as error:
        raise InputError(f"X has an entry that is not a real number: {error}") from None


def _with_columns(X: Any, columns: np.ndarray) -> Any:
    """Some columns of X, all others being zero, at a cost that does not depend on how many."""
    if not sp.issparse(X):
        return X[:, columns]
    keep = X.data != 0
    counts = np.add.reduceat(np.append(keep, 0), X.indptr[:-1]) * (np.diff(X.indptr) > 0)
    places = np.searchsorted(columns, X.indices[keep])
    parts = X.data[keep], places, np.append(0, np.cumsum(counts))
    return sp.csr_array(parts, shape=(X.shape[0], columns.size))


def _ordered(classes: list[str]) -> list[str]:
    """Numbers by value, other labels as text: the order that `max_margin` uses."""
    try:
        return sorted(classes, key=float)
    except ValueError:
        return classes
