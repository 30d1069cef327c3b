"""The signed rows of a working set: a matrix, or the examples and labels behind them."""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.submatrices import sign_in_place
from momentron.dual.dualsets import DualSet
from momentron.rows import KernelOperator, MatrixOperator, dense, sparse
from momentron.rows.sparse import SplitRows
from momentron.solvers.auto.linear_algebra import (
    gram_product,
    matvec,
    rmatvec,
)

NEW_COLUMNS = 1024  # of a Gram matrix at a time: they take memory beside it
MAX_WRITTEN = 20_000_000  # entries of pairs that are written out as rows of length d·k


class WorkingRows(ABC):
    """The rows of a working set, −z in the usual sign of support vector machines.

    Attributes
    ----------
    m : int
    dual_set : DualSet
        What the intercepts ask of the multipliers of these rows.
    is_explicit : bool
        Whether there is more to know than the Gram matrix: margins can be had from the rows.
    shares : float, or ndarray of shape (m,)
        The rows' own penalties of slack over the mean one: 1 where all are alike.
    """

    m: int
    dual_set: DualSet
    shares: float | np.ndarray
    is_explicit: bool = True

    @abstractmethod
    def products(self, w: np.ndarray) -> np.ndarray:
        """A w."""

    @abstractmethod
    def combine(self, v: np.ndarray) -> np.ndarray:
        """Aᵀ v."""

    @abstractmethod
    def gram(self) -> np.ndarray:
        """K = AAᵀ, C-ordered."""

    def written_out(
        self, widest: float = math.inf, most: float = MAX_WRITTEN
    ) -> "SignedRows | None":
        """The rows as those of a matrix; None where that is not known, too large or too wide."""
        return None


class SignedRows(WorkingRows):
    """Rows as a matrix in float64, dense (C order) or CSR, with a sign each.

    Parameters
    ----------
    X : ndarray or csr_array of shape (m, d)
        Own copy of the rows: they are few.
    signs : ndarray of shape (m,)
    dual_set : DualSet
    shares : float, or ndarray of shape (m,)
    """

    def __init__(
        self, X: Any, signs: np.ndarray, dual_set: DualSet, shares: float | np.ndarray = 1.0
    ) -> None:
        self.X, self.shares = X, shares
        self.signs = signs
        self.dual_set = dual_set
        self.is_sparse = sp.issparse(X)
        self._lines = SplitRows(X) if self.is_sparse else None
        self.m, self.d = X.shape

    def products(self, w: np.ndarray) -> np.ndarray:
        return self.signs * (matvec(self.X, w) if self._lines is None else self._lines.times(w))

    def combine(self, v: np.ndarray) -> np.ndarray:
        v = self.signs * v
        return rmatvec(self.X, v) if self._lines is None else self._lines.transposed_times(v)

    def written_out(
        self, widest: float = math.inf, most: float = MAX_WRITTEN
    ) -> "SignedRows | None":
        return self

    def take(self, index: Any) -> np.ndarray:
        """Some of the signed rows, dense."""
        rows = self.X[index]
        return (rows.toarray() if self.is_sparse else rows) * self.signs[index][:, None]

    def some(self, index: np.ndarray) -> "SignedRows":
        """Some of the rows, as they are."""
        return SignedRows(
            self.X[index], self.signs[index], self.dual_set.some(index), self.shares_at(index)
        )

    def shares_at(self, index: Any) -> float | np.ndarray:
        """Of the named rows."""
        return self.shares if isinstance(self.shares, float) else self.shares[index]

    def weighed(self, rows: Any, index: np.ndarray) -> Any:
        """Copies of the named rows, times the roots of their shares."""
        if isinstance(self.shares, float):
            return rows
        roots = np.sqrt(self.shares[index])
        return (
            sp.csr_array(rows.multiply(roots[:, None]))
            if sp.issparse(rows)
            else (rows * roots[:, None])
        )

    def squares(self) -> np.ndarray:
        """‖a_i‖²."""
        return (sparse if self.is_sparse else dense).squared_row_norms(self.X)

    def gram(self) -> np.ndarray:
        K = np.ascontiguousarray(gram_of(self.X))
        sign_in_place(K, self.signs)
        return K


class MatrixSource:
    """Examples as the rows of a matrix, dense or CSR."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.size = X.shape[0]

    def products(self, w: np.ndarray) -> np.ndarray:
        """X w."""
        return self.X @ w

    def combine(self, a: np.ndarray) -> np.ndarray:
        """Xᵀ a."""
        return self.X.T @ a

    def gram(self) -> np.ndarray:
        """⟨x, x′⟩ of all the examples."""
        return gram_of(self.X)

    def matrix(self) -> Any:
        """X, if there is such a matrix."""
        return self.X


class KernelSource:
    """Some examples of a kernel, known by their inner products alone."""

    def __init__(self, kernel: KernelOperator, examples: np.ndarray, is_rough: bool) -> None:
        self.kernel, self.examples, self.is_rough = kernel, examples, is_rough
        self.size = examples.size

    def products(self, w: np.ndarray) -> np.ndarray:
        return self.kernel.products_at(self.examples, w)

    def combine(self, a: np.ndarray) -> np.ndarray:
        return self.kernel.rough_combine(self.examples, a)

    def gram(self) -> np.ndarray:
        return self.kernel.square(self.examples, rough=self.is_rough)

    def matrix(self) -> Any:
        return None


class PairRows(WorkingRows):
    """a_p = x_e(p) ⊗ v_p: an example e, and how its outputs enter the constraint.

    With many classes v = e_c − e_j; with two, of a kernel, v = y. Rows of length d·k are not built:
    ⟨a_p, a_r⟩ = ⟨x_e(p), x_e(r)⟩ ⟨v_p, v_r⟩.

    Parameters
    ----------
    source : MatrixSource or KernelSource
        The examples in the working set.
    place : ndarray of shape (m,)
        e(p) as a position among them.
    outputs : ndarray of shape (m, k)
        v_p.
    dual_set : DualSet
    shares : float, or ndarray of shape (m,)
    """

    def __init__(
        self,
        source: MatrixSource | KernelSource,
        place: np.ndarray,
        outputs: np.ndarray,
        dual_set: DualSet,
        shares: float | np.ndarray = 1.0,
    ) -> None:
        self.source, self.place, self.shares = source, place, shares
        self.outputs, self.dual_set = outputs, dual_set
        self.m = place.size
        self._is_paired = outputs.shape[1] > 1
        self.is_explicit = source.matrix() is not None

    def products(self, w: np.ndarray) -> np.ndarray:
        outputs = self.source.products(w)
        if not self._is_paired:
            return outputs * self.outputs[:, 0]
        return np.einsum("pk,pk->p", outputs[self.place], self.outputs)

    def combine(self, v: np.ndarray) -> np.ndarray:
        if not self._is_paired:
            return self.source.combine(v * self.outputs[:, 0])
        weights = np.zeros((self.source.size, self.outputs.shape[1]))
        np.add.at(weights, self.place, v[:, None] * self.outputs)
        return self.source.combine(weights)

    def gram(self) -> np.ndarray:
        K = self.source.gram()
        if self._is_paired:
            K = K[self.place[:, None], self.place]
            K *= self.outputs @ self.outputs.T
            return K
        K = K if K.flags.owndata else K.copy()  # a view of the user's own matrix stays as it is
        sign_in_place(K, self.outputs[:, 0].astype(K.dtype))
        return K

    def written_out(self, widest: float = math.inf, most: float = MAX_WRITTEN) -> SignedRows | None:
        X = self.source.matrix()
        if X is None:
            return None
        width = X.shape[1] * self.outputs.shape[1]
        if width > widest or self.m * width > most:
            return None
        X = X.toarray() if sp.issparse(X) else X
        flat = X[self.place][:, :, None] * self.outputs[:, None, :]
        flat = flat.reshape(self.m, width)
        return SignedRows(flat, np.ones(self.m), self.dual_set, self.shares)


def gram_of(X: Any) -> np.ndarray:
    """XXᵀ, dense."""
    if not sp.issparse(X):
        return gram_product(X)
    shared = getattr(X, "shared_gram", None)
    return sparse_gram(X) if shared is None else shared.copy(lambda: sparse_gram(X))


def sparse_gram(X: Any) -> np.ndarray:
    """The same of sparse rows."""
    gram = np.empty((X.shape[0], X.shape[0]))
    for start in range(0, X.shape[0], NEW_COLUMNS):
        require_time()
        part = slice(start, start + NEW_COLUMNS)
        gram[part] = (X[part] @ X.T).toarray()
    return gram


def sample(
    labels: np.ndarray, size: int, rng: np.random.Generator, least: float = 0.25
) -> np.ndarray:
    """About `size` row numbers in order: the classes in proportion, none below a share `least`."""
    parts = []
    for label in np.flatnonzero(np.bincount(labels))[::-1]:
        rows = np.flatnonzero(labels == label)
        share = max(int(size * rows.size / labels.size), int(least * size), 1)
        parts.append(rng.choice(rows, share, replace=False) if share < rows.size else rows)
    return np.sort(np.concatenate(parts))


def smallest(dual_set: DualSet, p: np.ndarray, size: int, kept: np.ndarray) -> np.ndarray:
    """The rows with the smallest margins, some of every class that has an intercept, and those
    kept; in order.
    """
    pick = np.zeros(p.size, bool)
    pick[dual_set.lowest(p, size)] = True
    pick[kept] = True
    return np.flatnonzero(pick)


def on_support(lam: np.ndarray, p: np.ndarray, squares: np.ndarray, most: int) -> np.ndarray:
    """λ where it outweighs the slack p − 1, on no more rows than so many; zero elsewhere.

    An interior point leaves some weight on every row. `squares` are those of the rows' lengths, in
    which λ is a number like p.
    """
    weight = lam * squares / np.maximum(p - 1.0, 1e-15)
    support = np.flatnonzero(weight > 1.0)
    if support.size > most:
        support = support[np.argpartition(weight[support], -most)[-most:]]
    kept = np.zeros_like(lam)
    kept[support] = lam[support]
    return kept


def opposite_twins(matrix: MatrixOperator, signs: np.ndarray, p: np.ndarray) -> np.ndarray | None:
    """Two equal rows with opposite labels, if equal scores x·w + b betray any.

    Whatever w is, one of the two has p ≤ 0: only such rows are looked at, with the rows of the
    other label whose scores are among theirs.
    """
    scores = signs * p
    wrong = np.flatnonzero(p <= 0.0)
    if wrong.size == 0:
        return None
    wrong = wrong[np.argsort(scores[wrong])]
    known = scores[wrong]
    slack = 1e-12 * max(abs(float(known[0])), abs(float(known[-1])))
    others = np.flatnonzero((scores >= known[0] - slack) & (scores <= known[-1] + slack))
    place = np.searchsorted(known, scores[others] - slack)
    place = np.minimum(place, known.size - 1)
    close = np.abs(known[place] - scores[others]) <= slack
    suspects = np.flatnonzero(close & (signs[wrong[place]] != signs[others]))[:50]
    for k in suspects:
        pair = np.array([wrong[place[k]], others[k]])
        first, second = matrix.rows(pair)
        if np.array_equal(first, second):
            return pair
    return None
