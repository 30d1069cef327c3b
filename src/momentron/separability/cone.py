"""The cone K = {w : a·w ≥ 0 for all pairs}: the directions along which no row's likelihood falls.

Each row of X makes one or more pairs, and each pair has a vector a (`momentron.verify.family`): two
classes give one vector per row, ±x̃, where x̃ is x with a last 1 if there is an intercept; k classes
give k − 1 of them, and counts and ordered classes have pairs of their own. A verdict of any family
is made from its cone alone. A row that must stay where it is (a positive count) makes two opposite
pairs.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.data.exactness import as_exact, require_reading
from momentron.errors import InputError, one_line, short
from momentron.rows.validation import clean_matrix, clean_targets
from momentron.solvers.rational.memory import memory_cap, require_memory
from momentron.solvers.rational.systems import PRIME
from momentron.verify.data import Data, WholeRow, label_texts, own_order, zero_weight_rows
from momentron.verify.family import MODELS, Family, default_family, family_named, link_of
from momentron.verify.format import read_codes

BYTES_PER_PAIR_ENTRY = 64  # while the sparse matrix of many classes' pairs is put together
BYTES_PER_WHOLE = 100  # of an integer with its column, in Python's lists
SPARSE = 0.1  # share of entries below which X is kept sparse, if it is large
LARGE = 20_000  # entries of a large X
NAMED = 12  # labels that a message lists
FEW_ROWS = 64  # that are converted one by one
DENSE_COPIES = 5  # of the float matrix, at the worst moment of a proposal


class Cone:
    """All pairs of some data, in floats and in whole numbers.

    Attributes
    ----------
    data : Data
        All of X, as a proof describes it.
    family : Family
        Which pairs rows make.
    reference : int
        The class with which the others are contrasted.
    X : ndarray or csr_array of shape (n, d)
        The columns `data.used` of X: the others hold zeros only.
    classes : list of str
    codes : ndarray of shape (n,)
        The class of each row, as an index into `classes`; −1 where the row is left out.
    example, other : ndarray of shape (size,)
        The row of each pair, and the class that tells it from the row's other pairs.
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
        self._given = (y, family, link, sample_weight, order, reference)
        if family is not None:
            link_of(family, link)  # a model that is not supported is refused before y is read
        X = _thinned(_as_floats(X, require_reading(decimals)))
        n = X.shape[0]
        kind = next(iter(MODELS.get(family or "", {}).values()), Family)
        # only a check: as an array, labels of a list may merge
        clean_targets(y, n, are_classes=not kind.has_counts)
        labels = label_texts(y)
        left_out = zero_weight_rows(sample_weight, n)
        self.data = Data(X, labels, decimals=decimals, left_out=left_out)
        self.family, self.classes = _modelled(self.data, y, family, link, fit_intercept, order)
        self.reference = self._reference(reference)
        self.k, self.n = len(self.classes), n
        if self.n * max(2, self.k) * 64 > memory_cap():
            raise InputError(
                f"{self.n} rows of {self.k} classes make {self.n * (self.k - 1)} pairs, more than "
                f"fit into {memory_cap() / 2**30:.1f} GB; check the classes two by two"
            )
        self.codes = np.array(read_codes(self.data, self.family, self.classes), np.int64)
        self.X = X if self.data.used.size == self.data.d else _with_columns(X, self.data.used)
        others = [list(self.family.others(c)) for c in range(self.k)]
        table = np.array([row + [0] * (max(map(len, others)) - len(row)) for row in others])
        counts = np.array([*map(len, others), 0])[self.codes]  # code −1 has none
        self.starts = np.cumsum(counts) - counts
        self.example = np.repeat(np.arange(n), counts)
        self.other = table[self.own, np.arange(self.example.size) - self.starts[self.example]]

    def reread(self, decimals: str) -> "Cone":
        """The cone of the same floats in another reading."""
        y, family, link, weights, order, reference = self._given
        return Cone(
            self.data.X,
            y,
            fit_intercept=self.fit_intercept,
            family=family,
            link=link,
            decimals=decimals,
            sample_weight=weights,
            order=order,
            reference=reference,
        )

    def _reference(self, label: Any) -> int:
        """The class with which others are contrasted, as an index; the first of an event's two."""
        if label is None:
            return 0
        if not (self.family.has_reference or self.family.has_event):
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
    def fit_intercept(self) -> bool:
        return self.family.fit_intercept

    @property
    def size(self) -> int:
        return int(self.example.size)

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def width(self) -> int:
        """Weights per block: features, and intercepts."""
        return self.n_features + self.family.n_intercepts

    @property
    def n_coordinates(self) -> int:
        """The length of w: all blocks together."""
        return self.family.n_blocks * self.width

    @property
    def own(self) -> np.ndarray:
        """The class of each pair's example."""
        return self.codes[self.example]

    @property
    def kept(self) -> np.ndarray:
        """The rows that are not left out."""
        return np.flatnonzero(self.codes >= 0)

    def between(self, c: int, j: int) -> np.ndarray:
        """The pairs of examples of class c with class j."""
        return np.flatnonzero((self.own == c) & (self.other == j))

    def pair_of(self, i: int, j: int) -> int:
        """The pair of example i with class j."""
        return int(self.starts[i]) + list(self.family.others(int(self.codes[i]))).index(j)

    def pairs_of(self, named: list[tuple[int, int]]) -> np.ndarray:
        """The pairs with these rows and classes."""
        places = np.zeros((self.k, self.k), np.int64)
        for c in range(self.k):
            for place, j in enumerate(self.family.others(c)):
                places[c, j] = place
        rows, others = np.array(named, np.int64).reshape(-1, 2).T
        return self.starts[rows] + places[self.codes[rows], others]

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
        if not self._is_simple:
            size = 2.0 * n_entries * (self.k - 1) * BYTES_PER_PAIR_ENTRY
        elif sp.issparse(self.X):
            size = float(n_entries * BYTES_PER_PAIR_ENTRY)
        else:
            size = 8.0 * DENSE_COPIES * self.size * self.width
        require_memory(size, f"{self.size} pairs with {self.n_coordinates} coordinates")
        rows = self._with_intercept()
        if self.size != self.n or (self.codes < 0).any():
            rows = rows[self.example]
        A = self._assembled(rows, np.arange(self.size))
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

    @property
    def _is_simple(self) -> bool:
        """Whether every vector is x̃ or −x̃."""
        return self.family.n_blocks == 1 and self.family.n_intercepts <= 1

    def _terms(self, pairs: np.ndarray) -> np.ndarray:
        """(block, sign, shift) of each term of some pairs; the sign is 0 where there is none."""
        table = np.zeros((self.k, self.k, 2, 3), np.int64)
        for own in range(self.k):
            for j in self.family.others(own):
                terms = self.family.terms(own, j)
                table[own, j, : len(terms)] = terms
        return table[self.codes[self.example[pairs]], self.other[pairs]]

    def _assembled(self, rows: Any, pairs: np.ndarray) -> Any:
        """The vectors a of some pairs, from a matrix with the x̃ of each; it may be overwritten."""
        terms = self._terms(pairs)
        if self._is_simple:
            signs = terms[:, 0, 1].astype(np.float64)
            if sp.issparse(rows):
                return sp.csr_array(sp.diags_array(signs) @ rows)
            rows *= signs[:, None]
            return rows
        rows, parts = sp.csr_array(rows), []
        for block, sign, shift in (terms[:, 0].T, terms[:, 1].T):
            chosen = np.flatnonzero(sign)
            part = sp.coo_array(rows[chosen])
            i, column = part.coords
            pair = chosen[i]
            where = block[pair] * self.width + column
            where[column == self.n_features] += shift[pair][column == self.n_features]
            parts.append((pair, where, sign[pair] * part.data))
        at, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        shape = (pairs.size, self.n_coordinates)
        return sp.csr_array(sp.coo_array((values, (at, columns)), shape=shape))

    def residues(self, pairs: np.ndarray) -> Any:
        """The vectors a of some pairs, over the columns of A, as whole numbers modulo PRIME."""
        return self._assembled(self.row_residues(self.example[pairs]), pairs)[:, self.columns]

    def row_residues(self, examples: np.ndarray) -> Any:
        """x̃ of some rows as whole numbers modulo PRIME."""
        rows = self.X[examples].astype(np.float64)
        values = rows.data if sp.issparse(rows) else rows
        found = self.data.residues(values.ravel(), PRIME).astype(np.float64).reshape(values.shape)
        if sp.issparse(rows):
            rows = sp.csr_array((found, rows.indices, rows.indptr), shape=rows.shape)
        else:
            rows = found
        if self.fit_intercept:
            one = np.full((examples.size, 1), float(self.data.scale % PRIME))
            stacked = sp.hstack([rows, one]) if sp.issparse(rows) else np.column_stack([rows, one])
            rows = sp.csr_array(stacked) if sp.issparse(stacked) else stacked
        return rows

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

    def whole_row(self, i: int) -> WholeRow:
        """Row i of X as (columns, whole numbers in units of 1/scale)."""
        kept = self.__dict__.get("_kept")  # only where all rows have been asked for
        return kept[i] if kept is not None else self.data.row(i, self.fit_intercept)

    def whole_rows(self) -> Iterator[WholeRow]:
        """Every row of X as (columns, whole numbers in units of 1/scale)."""
        if self._kept is not None:
            return iter(self._kept)
        return self.data.rows(self.fit_intercept)

    def sides(self, w: list[int]) -> Iterator[tuple[int, int]]:
        """(pair, a·w) for all pairs, in whole numbers, units of 1/scale."""
        blocks = [w[c : c + self.width] for c in range(0, len(w), self.width)]
        at, pair = self.n_features, 0
        for own, (columns, x) in zip(self.codes.tolist(), self.whole_rows(), strict=True):
            require_time()
            one = x[-1] if self.fit_intercept else 0
            if self.fit_intercept:
                columns, x = columns[:-1], x[:-1]
            products = [sum(map(int.__mul__, x, map(b.__getitem__, columns))) for b in blocks]
            for j in self.family.others(own):
                s = 0
                for block, sign, shift in self.family.terms(own, j):
                    s += sign * products[block]
                    if one:
                        s += sign * one * blocks[block][at + shift]
                yield pair, s
                pair += 1

    def vector(self, pair: int) -> dict[int, int]:
        """The vector a of a pair by coordinate, in whole numbers, units of 1/scale."""
        i, j = int(self.example[pair]), int(self.other[pair])
        columns, values = self.whole_row(i)
        a = {}
        for block, sign, shift in self.family.terms(int(self.codes[i]), j):
            start = block * self.width
            a.update({start + c: sign * v for c, v in zip(columns, values, strict=True)})
            if shift:
                last = start + columns[-1]
                a[last + shift] = a.pop(last)
        return a

    def combine(self, pairs: np.ndarray, q: list[int]) -> list[int]:
        """Σ q a over some pairs, in whole numbers, by coordinate."""
        if len(q) > FEW_ROWS and max(q) < 1 << 62:
            return self._sum(pairs, q)
        total = [0] * self.n_coordinates
        for pair, weight in zip(pairs.tolist(), q, strict=True):
            require_time()
            for coordinate, value in self.vector(pair).items():
                total[coordinate] += weight * value
        return total

    def _sum(self, pairs: np.ndarray, q: list[int]) -> list[int]:
        """Σ q a over many pairs, short q: products of 16-bit limbs, whose sums floats hold."""
        weights = np.array(q, np.int64)
        total = [0] * self.n_coordinates
        for term in range(2):
            for block in range(self.family.n_blocks):
                terms = self._terms(pairs)[:, term]
                at = np.flatnonzero((terms[:, 0] == block) & (terms[:, 1] != 0))
                if not at.size:
                    continue
                signed = weights[at] * terms[at, 1]
                rows = self.example[pairs[at]]
                for place, value in enumerate(self._weighted_rows(rows, signed)):
                    total[block * self.width + place] += value
                if self.fit_intercept:
                    for shift, v in zip(terms[at, 2].tolist(), signed.tolist(), strict=True):
                        place = block * self.width + self.n_features + shift
                        total[place] += v * self.data.scale
        return total

    def _weighted_rows(self, rows: np.ndarray, weights: np.ndarray) -> list[int]:
        """Σ weight · x over some rows, a row perhaps twice, by column in use, in whole numbers."""
        if np.abs(weights).max(initial=0) < 1 << 50:  # sums of a few of them are below 2^62
            whole = np.zeros(self.n, np.int64)
            np.add.at(whole, rows, weights)
            return self.data.weighted_sum(whole)
        high, low = np.zeros(self.n, np.int64), np.zeros(self.n, np.int64)
        np.add.at(high, rows, weights >> 32)
        np.add.at(low, rows, weights & 0xFFFFFFFF)
        sums = zip(self.data.weighted_sum(low), self.data.weighted_sum(high), strict=True)
        return [below + (above << 32) for below, above in sums]

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


def _as_floats(X: Any, decimals: str) -> Any:
    """X as a finite matrix of floats, refused where that would change an entry."""
    try:
        return clean_matrix(as_exact(X, decimals))
    except TypeError as error:
        raise InputError(f"X has an entry that is not a real number: {error}") from None


def _thinned(X: Any) -> Any:
    """X, sparse where it is large and few of its entries are not zero."""
    if sp.issparse(X) or X.size < LARGE or np.count_nonzero(X) > SPARSE * X.size:
        return X
    return sp.csr_array(X)


def _with_columns(X: Any, columns: np.ndarray) -> Any:
    """Some columns of X, all others being zero, at a cost that does not depend on how many."""
    if not sp.issparse(X):
        return X[:, columns]
    keep = X.data != 0
    counts = np.add.reduceat(np.append(keep, 0), X.indptr[:-1]) * (np.diff(X.indptr) > 0)
    places = np.searchsorted(columns, X.indices[keep])
    parts = X.data[keep], places, np.append(0, np.cumsum(counts))
    return sp.csr_array(parts, shape=(X.shape[0], columns.size))


def _modelled(
    data: Data,
    y: Any,
    name: str | None,
    link: str | None,
    fit_intercept: bool,
    order: Sequence[Any] | None,
) -> tuple[Family, list[str]]:
    """(family, classes in order); without a name the family is that of the number of classes."""
    name = name or default_family(data.kept_labels)
    link = link_of(name, link)
    classes = MODELS[name][link].class_names(data.kept_labels)
    family = family_named(name, link, len(classes), fit_intercept)
    if order is not None:
        return family, _as_ordered(classes, order, name, data.labels)
    if name != "ordinal" and not getattr(getattr(y, "cat", y), "ordered", False):
        return family, classes
    own = own_order(y)
    if own is None:
        listed = one_line(", ".join(map(repr, classes[:NAMED])), 80) + (
            ", …" if len(classes) > NAMED else ""
        )
        raise InputError(
            f"family='ordinal': the labels {listed} have no order of their own; give it, lowest "
            "first, as order=[…] (--order on the command line), or make y an ordered categorical, "
            "pd.Categorical(y, […], ordered=True), or numbers"
        )
    places = {label: place for place, label in enumerate(own)}
    return family, sorted(classes, key=lambda label: places.get(label, len(places)))


def _as_ordered(
    classes: list[str], order: Sequence[Any], name: str, labels: list[str]
) -> list[str]:
    """The classes in the order that the user gives, which must name each label once."""
    if name != "ordinal":
        raise InputError(f"family={name!r} has no order of classes; order goes with 'ordinal'")
    if isinstance(order, str) or not np.iterable(order):
        raise InputError(f"order={short(order)} must be a sequence of labels, lowest first")
    given, known = label_texts(list(order)), set(labels)
    for label in given:
        if label not in known:
            raise InputError(
                f"order has {short(label)}, which is no label in y: {one_line(sorted(known)[:20])}"
            )
        if given.count(label) > 1:
            raise InputError(f"order has {short(label)} twice; name each label once, lowest first")
    missing = sorted(known - set(given))
    if missing:
        raise InputError(f"order lacks the label {short(missing[0])}; name each label once")
    return sorted(classes, key=given.index)
