"""The cone K = {w : a·w ≥ 0 for all pairs}: the directions along which no row's likelihood falls.

`family` says which pairs a row makes. A verdict of any family is made from its cone alone: in
floats, which propose, and in integers, which prove.
"""

from collections.abc import Hashable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.data.exactness.conversion import as_exact
from momentron.data.exactness.decimals import shortest_decimals
from momentron.errors import InputError, one_line, short
from momentron.rows.validation import clean_matrix, clean_targets
from momentron.separability.designs.design import Design
from momentron.separability.family import COUNTS, LEFT_OUT, link_of, modelled
from momentron.separability.projection import Rows
from momentron.solvers.rational import PRIME, Vector, memory_cap, require_memory
from momentron.verify.exact_table import Table
from momentron.verify.outcomes import label_texts, zero_weight_rows

PIECE = 1 << 19  # entries that are multiplied at a time
SECONDS_PER_ENTRY = 1.2e-6  # of three exact products, with all that belongs to them
BYTES_PER_ENTRY = 40  # of the matrix of all pairs, at the worst moment of a proposal


class ExactRows:
    """Rows of integers m·base^e in units of 1/scale, each e ≥ 0: floats, exactly.

    A float is an integer times a power of two or, as a decimal, of ten.

    Attributes
    ----------
    places : csr_array of shape (n, width)
        Which of the floats an entry is, counted from 1; negative if its sign is the other one.
    """

    def __init__(self, X: Any, decimals: str) -> None:
        places = np.arange(1, X.nnz + 1, dtype=X.indptr.dtype)
        self.places = sp.csr_array((places, X.indices, X.indptr), shape=X.shape)
        self.values, self.base = X.data, 10 if decimals == "shortest" else 2
        if decimals == "shortest":
            integers, powers = shortest_decimals(X.data)
        else:
            mantissas, powers = np.frexp(X.data)
            integers = (mantissas * 2.0**53).astype(np.int64)
            zeros = np.frexp((integers & -integers).astype(np.float64))[1] - 1
            integers, powers = integers >> zeros, powers - 53 + zeros
        unit = min(0, int(powers.min(initial=0)))
        self.integers, self.powers = integers, (powers - unit).astype(np.int16)
        self.scale = int(self.base**-unit)
        high = int(np.frexp(np.abs(X.data).max(initial=0.0))[1])
        self.bits = max(0, high) + self.scale.bit_length()  # of the longest integer, at most

    def floats(self) -> Any:
        places = self.places
        values = self.values[np.abs(places.data) - 1] * np.sign(places.data)
        return sp.csr_array((values, places.indices, places.indptr), shape=places.shape)

    def residues(self, rows: np.ndarray) -> Any:
        """Some rows modulo PRIME."""
        places = self.places[rows]
        values = (self._entries(places, np.int64, PRIME) % PRIME).astype(np.float64)
        return sp.csr_array((values, places.indices, places.indptr), shape=places.shape)

    def _entries(self, places: Any, kind: Any, modulus: int | None = None) -> np.ndarray:
        """Integers of a type; modulo a prime, these are products of two residues."""
        at = np.abs(places.data) - 1
        integers, powers = self.integers[at], self.powers[at]
        integers = integers.astype(kind) if modulus is None else integers % modulus
        factors = [pow(self.base, e, modulus) for e in range(int(powers.max(initial=0)) + 1)]
        return integers * np.array(factors, kind)[powers] * np.sign(places.data)

    def _pieces(self, rows: Any, bits: int) -> Iterator[tuple[int, Any]]:
        """(position of the first, integers) of some rows, a piece at a time.

        Sums of their products with numbers of this many bits fit into their type.
        """
        every = self.places if rows is None else self.places[rows]
        n = every.shape[0]
        step = max(1, PIECE * n // max(1, every.nnz))
        for start in range(0, n, step):
            require_time()
            places = every[start : start + step]
            is_short = self.bits + bits + int(places.nnz).bit_length() < 62
            values = self._entries(places, np.int64 if is_short else object)
            yield start, (places.indptr, places.indices, values)

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
    X : csr_array of shape (n, n_features)
        The columns `table.used` in floats: the others hold zeros only.
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
        self, design: Design, decimals: str = "binary", order: Sequence[Any] | None = None
    ) -> None:
        if design.family is not None:  # one that is not supported is refused before y is read
            link_of(design.family, design.link)
        X = _as_floats(design.X, decimals)
        self.n = X.shape[0]
        # only a check: as an array, labels of a list may merge
        clean_targets(design.y, self.n, are_classes=design.family not in COUNTS)
        left_out = zero_weight_rows(design.sample_weight, self.n)
        self.table = Table(X, label_texts(design.y), decimals, left_out, require_time)
        self.family = modelled(self.table, design, order)
        self.classes, self.k = self.family.classes, self.family.k
        self.reference = self._reference(design.reference)
        if self.n * max(2, self.k) * 64 > memory_cap():
            raise InputError(
                f"{self.n} rows of {self.k} classes make {self.n * (self.k - 1)} pairs, more than "
                f"fit into {memory_cap() / 2**30:.1f} GB; check the classes two by two"
            )
        self.fit_intercept = self.family.fit_intercept
        self.codes = self._codes()
        self.kept = np.flatnonzero(self.codes >= 0)
        self.X, self.n_features = X, int(self.table.used.size)
        if self.n_features < X.shape[1]:  # at a cost that does not depend on how many they are
            parts = X.data, np.searchsorted(self.table.used, X.indices), X.indptr
            self.X = sp.csr_array(parts, shape=(self.n, self.n_features))
        self.width = self.n_features + self.family.n_intercepts
        self.n_coordinates = self.family.n_blocks * self.width
        # (block, sign, shift) by class, other class and term; the sign is 0 if there is none
        self._terms = np.zeros((self.k, self.k, 2, 3), np.int32)
        for c in range(self.k):
            for j, terms in self.family.pairs(c).items():
                self._terms[c, j, : len(terms)] = terms
        makes = self._terms[:, :, 0, 1] != 0  # which classes a row of a class is paired with
        at, self.other = np.nonzero(makes[self.codes[self.kept]])
        self.example = self.kept[at]
        self.own = self.codes[self.example]
        self.size = int(self.example.size)

    def _codes(self) -> np.ndarray:
        code_of = {label: self.family.code_of(label) for label in {*self.table.kept_labels}}
        codes = np.array([code_of.get(label, LEFT_OUT) for label in self.table.labels], np.int64)
        codes[self.table.left_out] = LEFT_OUT
        if self.family.name == "negative-binomial" and not (codes == 1).any():
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

    @property
    def closing_seconds(self) -> float:
        """About how long it takes to use every entry of X in whole numbers, and to verify that."""
        n_entries = int(self.table.ends[-1]) + self.n * (1 + self.k)
        return n_entries * self.family.n_blocks * SECONDS_PER_ENTRY

    def between(self, c: int, j: int) -> np.ndarray:
        """The pairs of examples of class c with class j."""
        return np.flatnonzero((self.own == c) & (self.other == j))

    def pairs_of(self, rows: Any, others: Any) -> np.ndarray:
        """The pairs of some rows, each with a class."""
        wanted = self.k * np.asarray(rows, np.int64) + others
        return np.searchsorted(self.k * self.example + self.other, wanted)

    @cached_property
    def design(self) -> ExactRows:
        """x̃ of all rows."""
        X = self.X
        if self.fit_intercept:
            X = sp.hstack([X, np.ones((self.n, 1))], format="csr")
        return ExactRows(X, self.table.decimals)

    @property
    def scale(self) -> int:
        """Every entry of X is an integer over it: a power of two, or of ten."""
        return self.design.scale

    def pair_rows(self, pairs: np.ndarray) -> ExactRows:
        """The vectors a of some pairs."""
        examples, terms = self.example[pairs], self._terms[self.own[pairs], self.other[pairs]]
        n_terms = 2 if self.family.n_blocks > 1 else 1
        parts = []
        for block, sign, shift in terms.transpose(1, 2, 0)[:n_terms]:
            part = self.design.places[examples]
            lengths = np.diff(part.indptr)
            part.data *= np.repeat(sign, lengths)
            coordinates = part.indices + np.repeat(block * self.width, lengths)
            if self.fit_intercept:
                coordinates[part.indices == self.n_features] += shift
            shape = (pairs.size, self.n_coordinates)
            parts.append(sp.csr_array((part.data, coordinates, part.indptr), shape=shape))
        found = copy(self.design)  # the same floats, in other rows
        found.places = sum(parts[1:], parts[0])
        return found

    @cached_property
    def pairs(self) -> ExactRows:
        """The vectors a of all pairs, built when first asked for, if there is room."""
        n_entries = float(np.diff(self.design.places.indptr)[self.example].sum())
        n_entries *= 2 if self.family.n_blocks > 1 else 1
        words = f"{self.size} pairs with {self.n_coordinates} coordinates"
        require_memory(BYTES_PER_ENTRY * n_entries, words)
        return self.pair_rows(np.arange(self.size))

    @cached_property
    def rows(self) -> Rows:
        """The vectors a in floats, in columns of one order of magnitude."""
        A = self.pairs.floats()
        exponents = np.frexp(abs(A).max(axis=0).toarray().ravel())[1].astype(np.int64)
        A.data = np.ldexp(A.data, -exponents[A.indices])
        return Rows(A.toarray() if 2 * A.nnz > A.shape[0] * A.shape[1] else A, exponents)


def _as_floats(X: Any, decimals: str) -> Any:
    """X as a sparse matrix of finite floats, none of them 0; refused if that changes an entry."""
    X = sp.csr_array(clean_matrix(as_exact(X, decimals)), dtype=np.float64)
    if not X.data.all():
        X = X.copy()
        X.eliminate_zeros()
    return X
