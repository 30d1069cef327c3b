"""The signed rows of a working set: a matrix, or the examples and labels behind them.

Their sign is the usual one of support vector machines: rows of A are −z.
"""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.dual.dualsets import DualSet
from momentron.rows import KernelOperator
from momentron.rows.dense import matvec, rmatvec
from momentron.rows.operator import squared_row_norms
from momentron.rows.sparse import SplitRows
from momentron.solvers.auto.linear_algebra import gram_product

NEW_COLUMNS = 1024  # of a Gram matrix at a time: they take memory in addition to it
MAX_WRITTEN = 20_000_000  # entries of pairs that are written out as rows of length d·k


class SignedRows:
    """Rows as a matrix in float64, dense (C order) or CSR, with a sign each.

    The dual set is what the intercepts ask of the multipliers of these rows; shares are the rows'
    penalties of slack over the mean one: 1 where all are alike.
    """

    is_explicit = True

    def __init__(
        self, X: Any, signs: np.ndarray, dual_set: DualSet, shares: float | np.ndarray = 1.0
    ) -> None:
        self.X, self.signs = X, signs
        self.dual_set, self.shares = dual_set, shares
        self.is_sparse = sp.issparse(X)
        self._lines = SplitRows(X) if self.is_sparse else None
        self.m, self.d = X.shape

    def products(self, w: np.ndarray) -> np.ndarray:
        """A w."""
        return self.signs * (matvec(self.X, w) if self._lines is None else self._lines.times(w))

    def combine(self, v: np.ndarray) -> np.ndarray:
        """Aᵀ v."""
        v = self.signs * v
        return rmatvec(self.X, v) if self._lines is None else self._lines.transposed_times(v)

    def written_out(
        self, widest: float = math.inf, most: float = MAX_WRITTEN
    ) -> "SignedRows | None":
        """The rows of a matrix: these."""
        return self

    def take(self, index: Any) -> np.ndarray:
        """Some of the signed rows, dense."""
        rows = self.X[index]
        return (rows.toarray() if self.is_sparse else rows) * self.signs[index][:, None]

    def shares_at(self, index: Any) -> float | np.ndarray:
        """The shares of some of the rows."""
        return self.shares if isinstance(self.shares, float) else self.shares[index]

    def squares(self) -> np.ndarray:
        """‖a_i‖²."""
        return squared_row_norms(self.X)

    def gram(self) -> np.ndarray:
        """K = AAᵀ, C-ordered."""
        K = np.ascontiguousarray(gram_of(self.X))
        K *= self.signs
        K *= self.signs[:, None]
        return K


class PairRows:
    """a_p = x_e(p) ⊗ v_p: an example e, and how its outputs enter the constraint.

    With many classes v = e_c − e_j; with two, of a kernel, v = y. Rows of length d·k are not built:
    ⟨a_p, a_r⟩ = ⟨x_e(p), x_e(r)⟩ ⟨v_p, v_r⟩.

    Here X are the examples in the working set, place are the e(p) as positions among them, and
    outputs the v_p. See also `SignedRows`.
    """

    is_explicit = True  # whether margins can be computed from the rows, not from K alone

    def __init__(
        self,
        X: Any,
        place: np.ndarray,
        outputs: np.ndarray,
        dual_set: DualSet,
        shares: float | np.ndarray = 1.0,
    ) -> None:
        self.X, self.place, self.outputs = X, place, outputs
        self.dual_set, self.shares = dual_set, shares
        self.m = place.size
        self._is_paired = outputs.shape[1] > 1

    def _example_products(self, w: np.ndarray) -> np.ndarray:
        return self.X @ w

    def _combined_examples(self, a: np.ndarray) -> np.ndarray:
        return self.X.T @ a

    def _example_gram(self) -> np.ndarray:
        return gram_of(self.X)

    def products(self, w: np.ndarray) -> np.ndarray:
        """A w."""
        outputs = self._example_products(w)
        if not self._is_paired:
            return outputs * self.outputs[:, 0]
        return np.einsum("pk,pk->p", outputs[self.place], self.outputs)

    def combine(self, v: np.ndarray) -> np.ndarray:
        """Aᵀ v."""
        if not self._is_paired:
            return self._combined_examples(v * self.outputs[:, 0])
        weights = np.zeros((self.place.max() + 1, self.outputs.shape[1]))
        np.add.at(weights, self.place, v[:, None] * self.outputs)
        return self._combined_examples(weights)

    def gram(self) -> np.ndarray:
        """K = AAᵀ, C-ordered."""
        K = self._example_gram()
        if self._is_paired:
            K = K[self.place[:, None], self.place]
            K *= self.outputs @ self.outputs.T
            return K
        K = K if K.flags.owndata else K.copy()  # a view of the user's own matrix stays as it is
        signs = self.outputs[:, 0].astype(K.dtype)
        K *= signs
        K *= signs[:, None]
        return K

    def written_out(self, widest: float = math.inf, most: float = MAX_WRITTEN) -> SignedRows | None:
        """The rows as those of a matrix; None where that is too large or too wide."""
        width = self.X.shape[1] * self.outputs.shape[1]
        if width > widest or self.m * width > most:
            return None
        X = self.X.toarray() if sp.issparse(self.X) else self.X
        flat = X[self.place][:, :, None] * self.outputs[:, None, :]
        flat = flat.reshape(self.m, width)
        return SignedRows(flat, np.ones(self.m), self.dual_set, self.shares)


class KernelRows(PairRows):
    """The same of a kernel, whose examples, row numbers, are known by their inner products alone.

    `is_rough` asks for a Gram matrix in single precision, where available.
    """

    is_explicit = False

    def __init__(
        self, kernel: KernelOperator, examples: np.ndarray, is_rough: bool, *rows: Any
    ) -> None:
        super().__init__(None, *rows)
        self.kernel, self.examples, self.is_rough = kernel, examples, is_rough

    def _example_products(self, w: np.ndarray) -> np.ndarray:
        return self.kernel.products_at(self.examples, w)

    def _combined_examples(self, a: np.ndarray) -> np.ndarray:
        return self.kernel.combine(self.examples, a, rough=True)

    def _example_gram(self) -> np.ndarray:
        return self.kernel.square(self.examples, rough=self.is_rough)

    def written_out(self, widest: float = math.inf, most: float = MAX_WRITTEN) -> None:
        """There are no such rows."""
        return


WorkingRows = SignedRows | PairRows


def gram_of(X: Any) -> np.ndarray:
    """XXᵀ, dense."""
    if not sp.issparse(X):
        return gram_product(X)
    shared = getattr(X, "shared_gram", None)
    if shared is None:
        return sparse_gram(X)
    if not shared:  # the first of several fits to the same rows
        shared.append(sparse_gram(X))
    return shared[0].copy()


def sparse_gram(X: Any) -> np.ndarray:
    """The same of sparse rows."""
    gram = np.empty((X.shape[0], X.shape[0]))
    for start in range(0, X.shape[0], NEW_COLUMNS):
        require_time()
        part, other = slice(start, start + NEW_COLUMNS), slice(start, None)
        gram[part, other] = (X[part] @ X[other].T).toarray()
        gram[other, part] = gram[part, other].T
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


def on_support(lam: np.ndarray, p: np.ndarray, squares: np.ndarray, most: int) -> np.ndarray:
    """λ where it outweighs the slack p − 1, on at most `most` rows; zero elsewhere.

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
