"""The cone K = {w : a·w ≥ 0 for all pairs}: the directions along which no row's likelihood falls.

Each row of X makes one or more pairs, and each pair has a vector a (`family`): two classes give one
vector per row, ±x̃, where x̃ is x with a last 1 if there is an intercept; k classes give k − 1 of
them, and counts and ordered classes have pairs of their own. A verdict of any family is made from
its cone alone: in floats, which propose, and in integers, which prove. A float is an integer times
a power of two or, as a decimal, of ten, so that all rows are integers in units of 1/scale.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.data.exactness import as_exact, require_reading, shortest_decimals
from momentron.errors import InputError, one_line, short
from momentron.rows.validation import clean_matrix, clean_targets
from momentron.separability.family import (
    COUNTS,
    LEFT_OUT,
    class_of,
    link_of,
    modelled,
)
from momentron.solvers.rational.memory import memory_cap, require_memory
from momentron.solvers.rational.systems import PRIME
from momentron.verify.exact_table import Table
from momentron.verify.outcomes import label_texts, zero_weight_rows

BYTES_PER_ENTRY = 64  # while the sparse matrix of all pairs is put together
SPARSE = 0.1  # share of entries below which X is kept sparse, if it is large
LARGE = 20_000  # entries of a large X
PIECE = 1 << 19  # entries of pairs that are multiplied at a time
DENSE_COPIES = 5  # of the float matrix, at the worst moment of a proposal


class Cone:
    """All pairs of some data, in floats and in integers.

    Attributes
    ----------
    table : Table
        All of X, as a proof describes it and the verifier reads it.
    family : Family
        Which pairs rows make.
    reference : int
        The class with which the others are contrasted.
    given : ndarray or csr_array of shape (n, table.d)
        X in floats.
    X : ndarray or csr_array of shape (n, d)
        The columns `table.used` of it: the others hold zeros only.
    classes : list of str
    codes : ndarray of shape (n,)
        The class of each row, as an index into `classes`; −1 if the row is left out.
    kept : ndarray
        The rows that are not left out.
    width, n_coordinates : int
        Weights per block, features and then intercepts; the length of w, all blocks together.
    example, own, other : ndarray of shape (size,)
        The row of each pair, its class, and the class that tells it from the row's other pairs.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        fit_intercept: bool = True,
        family: str | None = None,
        link: str | None = None,
        decimals: str = "binary",
        sample_weight: Any = None,
        order: Sequence[Any] | None = None,
        reference: Any = None,
    ) -> None:
        if family is not None:
            link_of(family, link)  # a model that is not supported is refused before y is read
        self.given = _thinned(_as_floats(X, require_reading(decimals)))
        self.n = self.given.shape[0]
        # only a check: as an array, labels of a list may merge
        clean_targets(y, self.n, are_classes=family not in COUNTS)
        left_out = zero_weight_rows(sample_weight, self.n)
        self.table = Table(self.given, label_texts(y), decimals, left_out, require_time)
        self.family, self.classes = modelled(self.table, y, family, link, fit_intercept, order)
        self.reference = self._reference(reference)
        self.k = len(self.classes)
        if self.n * max(2, self.k) * 64 > memory_cap():
            raise InputError(
                f"{self.n} rows of {self.k} classes make {self.n * (self.k - 1)} pairs, more than "
                f"fit into {memory_cap() / 2**30:.1f} GB; check the classes two by two"
            )
        self.fit_intercept = self.family.fit_intercept
        self.codes = self._codes()
        self.kept = np.flatnonzero(self.codes >= 0)
        self.X = self.given
        if self.table.used.size < self.table.d:
            self.X = _with_columns(self.given, self.table.used)
        self.n_features = int(self.X.shape[1])
        self.width = self.n_features + self.family.n_intercepts
        self.n_coordinates = self.family.n_blocks * self.width
        others = [list(self.family.pairs(c)) for c in range(self.k)]
        lists = np.array([row + [0] * (max(map(len, others)) - len(row)) for row in others])
        counts = np.array([*map(len, others), 0])[self.codes]  # code −1 has none
        self.starts = np.cumsum(counts) - counts
        self.example = np.repeat(np.arange(self.n), counts)
        self.own = self.codes[self.example]
        self.size = int(self.example.size)
        self.other = lists[self.own, np.arange(self.example.size) - self.starts[self.example]]

    def _codes(self) -> np.ndarray:
        index = {name: c for c, name in enumerate(self.classes)}
        name = self.family.name
        code_of = {label: index[class_of(name, label)] for label in {*self.table.kept_labels}}
        codes = np.array([code_of.get(label, LEFT_OUT) for label in self.table.labels], np.int64)
        codes[self.table.left_out] = LEFT_OUT
        if name == "negative-binomial" and not (codes == 1).any():
            raise InputError(
                "y has no count above 0; family='negative-binomial' needs one: zeros alone are "
                "explained by an infinite dispersion, whatever the coefficients"
            )
        return codes

    def _reference(self, label: Any) -> int:
        """The class with which others are contrasted, as an index; the first of an event's two."""
        if label is None:
            return 0
        if not (self.family.is_classifier or self.family.has_event):
            raise InputError(
                f"family={self.family.name!r} has no reference class; leave reference out"
            )
        text = label_texts([label])[0] if isinstance(label, Hashable) else ""
        if text not in self.classes:
            known = one_line(self.classes[:20])
            raise InputError(f"reference={short(label)} is not among the classes, {known}")
        if self.family.has_event:
            self.classes.sort(key=lambda name: name != text)
            return 0
        return self.classes.index(text)

    def between(self, c: int, j: int) -> np.ndarray:
        """The pairs of examples of class c with class j."""
        return np.flatnonzero((self.own == c) & (self.other == j))

    def pairs_of(self, rows: Any, others: Any) -> np.ndarray:
        """The pairs of some rows, each with a class."""
        places = np.zeros((self.k, self.k), np.int64)
        for c in range(self.k):
            listed = list(self.family.pairs(c))
            places[c, listed] = np.arange(len(listed))
        rows = np.asarray(rows, np.int64)
        return self.starts[rows] + places[self.codes[rows], np.asarray(others, np.int64)]

    # --- rows and pairs as entries ---------------------------------------------------------------

    @cached_property
    def design(self) -> Any:
        """x̃ of all rows, sparse."""
        X = sp.csr_array(self.X, dtype=np.float64)
        return sp.hstack([X, np.ones((self.n, 1))], format="csr") if self.fit_intercept else X

    @cached_property
    def _integers(self) -> tuple[np.ndarray, np.ndarray, int]:
        """(m, e, scale) with m·base^e the entries of all x̃ in units of 1/scale, each e ≥ 0."""
        values = self.design.data
        if self.table.decimals == "shortest":
            integers, powers = shortest_decimals(values)
        else:
            mantissas, powers = np.frexp(values)
            integers = (mantissas * 2.0**53).astype(np.int64)
            zeros = np.frexp((integers & -integers).astype(np.float64))[1] - 1
            integers, powers = integers >> zeros, powers - 53 + zeros
        unit = min(0, int(powers.min(initial=0)))
        return integers, (powers - unit).astype(np.int16), int(self.table.base**-unit)

    @property
    def scale(self) -> int:
        """Every entry of X is an integer over it: a power of two, or of ten."""
        return self._integers[2]

    @cached_property
    def _terms(self) -> np.ndarray:
        """(block, sign, shift) by class, other class and term; the sign is 0 if there is none."""
        table = np.zeros((self.k, self.k, 2, 3), np.int64)
        for own in range(self.k):
            for j, terms in self.family.pairs(own).items():
                table[own, j, : len(terms)] = terms
        return table

    def _entries(self, pairs: np.ndarray) -> tuple[np.ndarray, ...]:
        """(which of the pairs, coordinate, which entry of the rows, sign), of all vectors a."""
        ends, columns = self.design.indptr, self.design.indices
        terms = self._terms[self.own[pairs], self.other[pairs]]
        pair, which = np.nonzero(terms[:, :, 1])
        block, sign, shift = terms[pair, which].T
        rows = self.example[pairs[pair]]
        lengths = ends[rows + 1] - ends[rows]
        at = np.repeat(ends[rows] - np.cumsum(lengths) + lengths, lengths)
        at += np.arange(at.size)
        term = np.repeat(np.arange(pair.size), lengths)
        coordinate = block[term] * self.width + columns[at]
        coordinate += np.where(columns[at] == self.n_features, shift[term], 0)
        return pair[term], coordinate, at, sign[term]

    # --- in floats -------------------------------------------------------------------------------

    @property
    def A(self) -> Any:
        """The vectors a as rows, each column over a power of two."""
        return self._scaled[0]

    @property
    def exponents(self) -> np.ndarray:
        """The power of two by which each column of A was divided."""
        return self._scaled[1]

    @cached_property
    def _scaled(self) -> tuple[Any, np.ndarray]:
        """(A, exponents), built when first asked for, if there is room."""
        is_dense = self.family.n_blocks == 1 and self.family.n_intercepts <= 1
        is_dense = is_dense and not sp.issparse(self.X)
        n_entries = self.table.ends[-1] + self.n * self.fit_intercept
        size = 2.0 * n_entries * (self.k - 1) * BYTES_PER_ENTRY
        if is_dense:
            size = 8.0 * DENSE_COPIES * self.size * self.width
        require_memory(size, f"{self.size} pairs with {self.n_coordinates} coordinates")
        if is_dense:
            signs = self._terms[self.own, self.other, 0, 1]
            ones = np.ones((self.size, int(self.fit_intercept)))
            A: Any = np.column_stack([self.X[self.example], ones]).astype(np.float64, copy=False)
            A *= signs[:, None]
        else:
            A = self._sparse(np.arange(self.size), self.design.data)
        low, high = column_ends(A)
        exponents = np.frexp(np.maximum(high, -low))[1].astype(np.int64)
        if sp.issparse(A):
            A.data = np.ldexp(A.data, -exponents[A.indices])
        else:
            A = np.ldexp(A, -exponents, out=A)
        return A, exponents

    def _sparse(self, pairs: np.ndarray, values: np.ndarray) -> Any:
        """The vectors of some pairs as rows of a matrix, the entries of x̃ having these values."""
        at, coordinates, entries, signs = self._entries(pairs)
        shape = (pairs.size, self.n_coordinates)
        return sp.csr_array((signs * values[entries], (at, coordinates)), shape=shape)

    @cached_property
    def _residues(self) -> np.ndarray:
        """The entries of all x̃ as integers modulo PRIME."""
        integers, powers, _ = self._integers
        factors = np.array(
            [pow(self.table.base, e, PRIME) for e in range(int(powers.max(initial=0)) + 1)]
        )
        return ((integers % PRIME) * factors[powers] % PRIME).astype(np.float64)

    def residues(self, pairs: np.ndarray) -> Any:
        """The vectors a of some pairs as integers modulo PRIME, up to their signs."""
        return self._sparse(pairs, self._residues)

    def row_residues(self, rows: np.ndarray) -> Any:
        """x̃ of some rows as integers modulo PRIME."""
        parts = self._residues, self.design.indices, self.design.indptr
        return sp.csr_array(parts, shape=self.design.shape)[rows]

    # --- in integers -----------------------------------------------------------------------------

    def _whole(self, entries: np.ndarray, bits: int) -> np.ndarray:
        """Some entries of x̃ in integers; sums of products with numbers of so many bits fit."""
        integers, powers, _ = self._integers
        longest = self.table.bits + bits + int(entries.size).bit_length()
        kind: Any = np.int64 if longest < 62 else object
        different, which = np.unique(powers[entries], return_inverse=True)
        factors = np.array([self.table.base**e for e in different.tolist()], kind)
        return integers[entries].astype(kind) * factors[which]

    def whole_row(self, i: int) -> dict[int, int]:
        """x̃ of row i by place, in units of 1/scale."""
        at = np.arange(*self.design.indptr[i : i + 2])
        places = self.design.indices[at].tolist()
        return dict(zip(places, self._whole(at, 0).tolist(), strict=True))

    def vectors(self, pairs: np.ndarray) -> list[dict[int, int]]:
        """The vectors a of some pairs by coordinate, in integers, units of 1/scale."""
        at, coordinates, entries, signs = self._entries(pairs)
        values = (self._whole(entries, 0) * signs).tolist()
        found: list[dict[int, int]] = [{} for _ in range(pairs.size)]
        for pair, c, v in zip(at.tolist(), coordinates.tolist(), values, strict=True):
            found[pair][c] = v
        return found

    def _pieces(self, pairs: np.ndarray) -> Iterator[np.ndarray]:
        """Positions of some pairs, a piece at a time."""
        step = max(1, PIECE // (2 * (1 + int(self.table.ends[-1]) // max(1, self.n))))
        for start in range(0, pairs.size, step):
            require_time()
            yield np.arange(start, min(start + step, pairs.size))

    def sides(self, w: Sequence[int], pairs: np.ndarray | None = None) -> list[int]:
        """a·w for some pairs, by default all, in integers, units of 1/scale."""
        pairs = np.arange(self.size) if pairs is None else pairs
        bits = max((abs(v).bit_length() for v in w), default=0)
        found: list[int] = []
        for piece in self._pieces(pairs):
            at, coordinates, entries, signs = self._entries(pairs[piece])
            x = self._whole(entries, bits)
            products = x * signs * np.array(w, x.dtype)[coordinates]
            running = np.append(np.zeros(1, x.dtype), np.cumsum(products, dtype=x.dtype))
            ends = np.searchsorted(at, np.arange(piece.size + 1))
            found += (running[ends[1:]] - running[ends[:-1]]).tolist()
        return found

    def combine(self, pairs: np.ndarray, q: Sequence[int]) -> list[int]:
        """Σ q a over some pairs, in integers, by coordinate."""
        bits = max((abs(v).bit_length() for v in q), default=0)
        total = [0] * self.n_coordinates
        for piece in self._pieces(pairs):
            at, coordinates, entries, signs = self._entries(pairs[piece])
            x = self._whole(entries, bits)
            weights = np.array(q[piece[0] : piece[-1] + 1], x.dtype)[at]
            sums = np.zeros(self.n_coordinates, x.dtype)
            np.add.at(sums, coordinates, x * signs * weights)
            for c in np.flatnonzero(sums).tolist():
                total[c] += int(sums[c])
        return total

    def to_whole(self, w: np.ndarray) -> list[int]:
        """Float weights for the columns of A as integers for all coordinates, exactly."""
        return whole_multiples(w, -self.exponents)


def whole_multiples(w: np.ndarray, exponents: np.ndarray) -> list[int]:
    """w·2^exponents, each with its own, times the least power of two that makes all integers."""
    mantissas, powers = np.frexp(w)
    integers = (mantissas * 2.0**53).astype(np.int64).tolist()
    shifts = np.where(w != 0.0, powers + exponents, np.iinfo(np.int64).max)
    least = int(shifts.min(initial=np.iinfo(np.int64).max))
    return [m << (e - least) if m else 0 for m, e in zip(integers, shifts.tolist(), strict=True)]


def column_ends(A: Any) -> tuple[np.ndarray, np.ndarray]:
    """(least, largest) entries of the columns of a matrix, sparse or not."""
    if not sp.issparse(A):
        return A.min(axis=0), A.max(axis=0)
    return tuple(ends.toarray().ravel() for ends in (A.min(axis=0), A.max(axis=0)))


def _as_floats(X: Any, decimals: str) -> Any:
    """X as a finite matrix of floats, refused if that would change an entry."""
    try:
        return clean_matrix(as_exact(X, decimals))
    except TypeError as error:
        raise InputError(f"X has an entry that is not a real number: {error}") from None


def _thinned(X: Any) -> Any:
    """X, sparse if it is large and few of its entries are not zero."""
    if sp.issparse(X):
        X = X.tocsr()
        if not X.data.all():
            X = X.copy()
            X.eliminate_zeros()
        return X
    if X.size < LARGE or np.count_nonzero(X) > SPARSE * X.size:
        return X
    return sp.csr_array(X)


def _with_columns(X: Any, columns: np.ndarray) -> Any:
    """Some columns of X, all others being zero, at a cost that does not depend on how many."""
    if not sp.issparse(X):
        return X[:, columns]
    keep = X.data != 0
    ends = np.append(0, np.cumsum(keep))[X.indptr]
    parts = X.data[keep], np.searchsorted(columns, X.indices[keep]), ends
    return sp.csr_array(parts, shape=(X.shape[0], columns.size))
