"""The examples as rows a with one question: is there a w with a·w > 0 for all of them?

For an example x of class c and another class j, a is the vector with a·w = (w_c − w_j)·x̃, where
w_0 = 0 and x̃ is x, with a last 1 where there is an intercept. Two classes give one row a for each
example, ±x̃; k classes give k − 1 of them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError
from momentron.separability.canonical import fingerprint, label_texts, whole_rows
from momentron.validation import _require_finite, as_matrix, clean_targets

MAX_ENTRIES = 1 << 28  # of the float matrix of all pairs: 2 GB


@dataclass(frozen=True)
class Examples:
    """X and y, checked, with the names under which a proof knows them.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d), float32 or float64
    codes : ndarray of shape (n,)
        The class of each row, as an index into `classes`.
    classes : list of str
    lift : int
        1 with an intercept, else 0.
    digest : str
        SHA-256 of the canonical form.
    unit : int
        Every entry of X is a whole number times 2^unit.
    """

    X: Any
    codes: np.ndarray
    classes: list[str]
    lift: int
    digest: str
    unit: int

    @classmethod
    def from_data(cls, X: Any, y: Any, *, fit_intercept: bool) -> "Examples":
        """Check X and y, and hash them."""
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
        index = {label: c for c, label in enumerate(classes)}
        codes = np.array([index[label] for label in labels])
        return cls(X, codes, classes, int(fit_intercept), *fingerprint(X, labels))

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def width(self) -> int:
        """Weights a class: features, and the intercept."""
        return self.shape[1] + self.lift

    @cached_property
    def whole(self) -> list[tuple[list[int], list[int]]]:
        """Every row as (columns, integers in units of 2^unit)."""
        return list(whole_rows(self.X, self.unit, self.lift))


def _as_exact_matrix(X: Any) -> Any:
    """X as a matrix of floats, refused where that would change an entry."""
    try:
        return as_matrix(X)
    except TypeError as error:
        raise InputError(f"X has an entry that is no real number: {error}") from None


def _ordered(classes: list[str]) -> list[str]:
    """Numbers by value, other labels as text: the order that `max_margin` uses."""
    try:
        return sorted(classes, key=float)
    except ValueError:
        return classes


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
        A = self._binary() if k == 2 else self._multiclass(k)
        top = np.asarray(abs(A).max(axis=0).todense() if sp.issparse(A) else abs(A).max(axis=0))
        top = top.ravel()
        self.columns = np.flatnonzero(top)
        self.exponents = np.frexp(top[self.columns])[1].astype(np.int64)
        A = A[:, self.columns]
        if sp.issparse(A):
            self.A = sp.csr_array(A)
            self.A.data = np.ldexp(self.A.data, -self.exponents[self.A.indices])
        else:
            self.A = np.ldexp(A, -self.exponents)

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
        if 2 * lifted.nnz * (k - 1) > MAX_ENTRIES:
            raise MemoryError(
                f"{k} classes with {lifted.nnz} entries make {2 * lifted.nnz * (k - 1)} entries of "
                f"pairs; at most {MAX_ENTRIES} are built: check the classes two by two"
            )
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
        columns, values = self.examples.whole[i]
        own, row = int(self.examples.codes[i]), {}
        for block, sign in ((own, 1), (j, -1)):
            if block:
                shift = (block - 1) * width
                row.update({shift + c: sign * v for c, v in zip(columns, values, strict=True)})
        return row

    def combine(self, pairs: np.ndarray, q: list[int]) -> list[int]:
        """Σ q a over some pairs, in whole numbers, by coordinate."""
        total = [0] * self.n_coordinates
        for pair, weight in zip(pairs.tolist(), q, strict=True):
            for coordinate, value in self.whole_row(pair).items():
                total[coordinate] += weight * value
        return total

    def to_whole(self, w: np.ndarray) -> list[int]:
        """Float weights for the columns of A as whole weights for all coordinates, exactly."""
        mantissas, exponents = np.frexp(w)
        integers = (mantissas * 2.0**53).astype(np.int64).tolist()
        shifts = np.where(w != 0.0, exponents - self.exponents, np.iinfo(np.int64).max)
        least = int(shifts.min())
        full = [0] * self.n_coordinates
        for c, m, e in zip(self.columns.tolist(), integers, shifts.tolist(), strict=True):
            full[c] = m << (e - least) if m else 0
        return full
