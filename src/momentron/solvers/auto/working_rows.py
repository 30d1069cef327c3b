"""The rows of a working set: a matrix with signs, or the examples and labels behind them.

Their sign is the usual one of support vector machines: rows of A are −z.
"""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.squares import PIECE, strips_of, symmetric_product
from momentron.arithmetic.threads import own_threads
from momentron.dual.dualsets import DualSet
from momentron.rows import KernelOperator
from momentron.rows.dense import matvec, rmatvec
from momentron.rows.operator import squared_row_norms
from momentron.rows.sparse import SplitRows, gram_of

BLOCK_ENTRIES = 4_000_000  # entries of rows that are densified or copied at a time
MAX_WRITTEN = 20_000_000  # entries of pairs that are written out as rows of length d·k


class SignedRows:
    """Examples in float64, dense (C order) or CSR, as rows of the constraints.

    The dual set is what the intercepts ask of the multipliers of these rows; shares are the rows'
    penalties of slack over the mean one: 1 where all are alike.

    Of two classes, each example is a row, with its sign, and a further column may be `border` times
    the signs. With many classes a row is a_p = x_e(p) ⊗ v_p: `place` are the e(p), and `signs` the
    v_p = e_c − e_j, how outputs enter the constraint. Rows of length d·k are not built:
    ⟨a_p, a_r⟩ = ⟨x_e(p), x_e(r)⟩ ⟨v_p, v_r⟩.
    """

    is_explicit = True  # whether margins can be computed from the rows, not from K alone

    def __init__(
        self,
        X: Any,
        signs: np.ndarray,
        dual_set: DualSet,
        shares: float | np.ndarray = 1.0,
        *,
        place: np.ndarray | None = None,
        border: float = 0.0,
    ) -> None:
        self.X, self.signs, self.place, self.border = X, signs, place, border
        self.dual_set, self.shares = dual_set, shares
        self.is_sparse = sp.issparse(X)
        self._lines = SplitRows(X) if self.is_sparse else None
        self.m, self.d = signs.shape[0], X.shape[1]
        self.k = self.d + (border > 0.0)

    def _times(self, w: np.ndarray) -> np.ndarray:
        return matvec(self.X, w) if self._lines is None else self._lines.times(w)

    def _transposed_times(self, a: np.ndarray) -> np.ndarray:
        return rmatvec(self.X, a) if self._lines is None else self._lines.transposed_times(a)

    def _example_gram(self) -> np.ndarray:
        return np.ascontiguousarray(gram_of(self.X))

    def products(self, w: np.ndarray) -> np.ndarray:
        """A w."""
        if self.place is not None:
            return np.einsum("pk,pk->p", self._times(w)[self.place], self.signs)
        if self.border:
            return self.signs * (self._times(w[:-1]) + self.border * w[-1])
        return self.signs * self._times(w)

    def combine(self, v: np.ndarray) -> np.ndarray:
        """Aᵀ v."""
        if self.place is None:
            v = self.signs * v
            g = self._transposed_times(v)
            return np.append(g, self.border * v.sum()) if self.border else g
        weights = np.zeros((self.place.max() + 1, self.signs.shape[1]))
        np.add.at(weights, self.place, v[:, None] * self.signs)
        return self._transposed_times(weights)

    def gram(self) -> np.ndarray:
        """K = AAᵀ, C-ordered."""
        K = self._example_gram()
        if self.place is not None:
            K = K[self.place[:, None], self.place]
            K *= self.signs @ self.signs.T
            return K
        signs = self.signs.astype(K.dtype)
        K *= signs
        K *= signs[:, None]
        return K

    def written_out(
        self, widest: float = math.inf, most: float = MAX_WRITTEN
    ) -> "SignedRows | None":
        """The rows as those of a matrix; None where that is too large or too wide."""
        if self.place is None:
            return self
        width = self.d * self.signs.shape[1]
        if width > widest or self.m * width > most:
            return None
        X = self.X.toarray() if self.is_sparse else self.X
        flat = (X[self.place][:, :, None] * self.signs[:, None, :]).reshape(self.m, width)
        return SignedRows(flat, np.ones(self.m), self.dual_set, self.shares)

    # --- of a matrix ---------------------------------------------------------------------------

    def take(self, index: Any) -> np.ndarray:
        """Some of the signed rows, dense and without a border."""
        rows = self.X[index]
        return (rows.toarray() if self.is_sparse else rows) * self.signs[index][:, None]

    def some(self, index: np.ndarray) -> "SignedRows":
        """Some of the rows, as they are."""
        shares = self.shares if isinstance(self.shares, float) else self.shares[index]
        X, signs = self.X[index], self.signs[index]
        return SignedRows(X, signs, self.dual_set, shares, border=self.border)

    def bordered(self, beta: float, *, is_copied: bool) -> "SignedRows":
        """The same with the columns βY of the intercepts, if any.

        Copied, they are a matrix without signs, which makes every product one BLAS call. Others are
        read as they are; they are of two classes.
        """
        if not is_copied:
            return SignedRows(self.X, self.signs, self.dual_set, self.shares, border=beta)
        X = np.column_stack([self.take(slice(None)), beta * self.dual_set.columns])
        return SignedRows(X, np.ones(self.m), self.dual_set, self.shares)

    def squares(self) -> np.ndarray:
        """‖a_i‖², without a border."""
        return squared_row_norms(self.X)

    def add_square(
        self, M: np.ndarray, index: np.ndarray, weights: float | np.ndarray, sign: float = 1.0
    ) -> np.ndarray:
        """M + sign · Σ w a aᵀ over some of the rows, in the lower half and if possible in place."""
        size = max(1, BLOCK_ENTRIES // self.k)
        for start in range(0, index.size, size):
            require_time()
            part = slice(start, start + size)
            roots = None if isinstance(weights, float) else np.sqrt(weights[part])[:, None]
            M = self._add_block(M, index[part], roots, sign)
        return M

    def _add_block(
        self, M: np.ndarray, index: np.ndarray, roots: np.ndarray | None, sign: float
    ) -> np.ndarray:
        """The same of some rows as they are, since the labels cancel (y² = 1)."""
        X: Any = self.X[index]
        # few entries compared with d
        is_thin = self.is_sparse and 100.0 * (X.nnz / index.size) ** 2 < self.d**2
        X = X.toarray() if self.is_sparse and not is_thin else X
        if self.border:
            border = np.full((index.size, 1), self.border)
            X = sp.hstack([X, border], format="csr") if is_thin else np.hstack([X, border])
        if is_thin:
            X = X if roots is None else sp.csr_array(X.multiply(roots))
            for part in strips_of(0, self.k, 1 + BLOCK_ENTRIES // self.k):
                require_time()
                M[:, part] += sign * (X.T @ X[:, part]).toarray()
            return M
        if roots is not None:
            X *= roots  # a copy already: memory new to the process takes as long as this
        flops = float(X.size) * X.shape[1]
        if own_threads(flops) > 1 or flops > PIECE:
            M += sign * symmetric_product(X)
            return M
        return blas.dsyrk(sign, X.T, lower=1, beta=1.0, c=M, overwrite_c=1)


class KernelRows(SignedRows):
    """The same of a kernel, whose examples, row numbers, are known by their inner products alone.

    `is_rough` asks for a Gram matrix in single precision, where available.
    """

    is_explicit = False

    def __init__(
        self,
        kernel: KernelOperator,
        examples: np.ndarray,
        is_rough: bool,
        *rows: Any,
        place: np.ndarray | None,
    ) -> None:
        super().__init__(kernel, *rows, place=place)
        self.examples, self.is_rough = examples, is_rough

    def _times(self, w: np.ndarray) -> np.ndarray:
        return self.X.products_at(self.examples, w)

    def _transposed_times(self, a: np.ndarray) -> np.ndarray:
        return self.X.combine(self.examples, a, rough=True)

    def _example_gram(self) -> np.ndarray:
        K = self.X.square(self.examples, rough=self.is_rough)
        return K if K.flags.owndata else K.copy()  # a view of the user's matrix stays as it is


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
