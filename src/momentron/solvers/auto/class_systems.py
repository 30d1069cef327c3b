"""The Hessian of many classes as a product, and a preconditioner: its diagonal blocks.

The Hessian is I + C Σ_i x_i x_iᵀ ⊗ M_i with the k × k matrices
M_i = Σ_{j active} (e_c − e_j)(e_c − e_j)ᵀ. It is never formed: its product with a direction V is
two passes over the rows that have an active pair. Its diagonal block of class c is

    B_c = I + C XᵀD_cX,    D_c = diag_i (M_i)_cc,

on the rows S_c where that is not zero. Where these are fewer than the features, Woodbury's formula
B_c⁻¹ = I − X_SᵀG_cX_S with G_c = (D_c⁻¹/C + X_SX_Sᵀ)⁻¹ needs an |S_c| × |S_c| matrix only. An
intercept, which has no term in the identity, is a border that is eliminated:

    u = C XᵀD_c1,  t = B_c⁻¹u,  σ = C 1ᵀD_c1 − uᵀt,  z_b = (r_b − tᵀr)/σ,  z = B_c⁻¹r − t z_b.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.squares import inverse_in_place
from momentron.arithmetic.threads import in_threads
from momentron.rows import DenseOperator, MatrixOperator, SparseOperator
from momentron.rows.operator import row_blocks
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

# The trace up to which a block is held by its rows in single precision: a difference must keep
# digits.
SINGLE_ROWS = 1e5
THIN_PASSES = 50.0  # over all rows, by which a block that is held by its rows takes more when used


class PairTable:
    """The labels' part of the margin, on outputs F of shape (n, k).

    An example i of class c has k − 1 pairs (i, j), whose functional margins are F_ic − F_ij. Tables
    hold a number for every pair, and zero in column c of row i.
    """

    def __init__(self, labels: np.ndarray, n_classes: int) -> None:
        self.labels, self.n_classes = labels, n_classes
        self.shape = labels.size, n_classes
        self._own = n_classes * np.arange(labels.size) + labels  # places in a flat table

    def some(self, index: np.ndarray) -> "PairTable":
        """The same for some of the examples."""
        return PairTable(self.labels[index], self.n_classes)

    def margins(self, F: np.ndarray, own: float = 0.0) -> np.ndarray:
        """F_ic − F_ij, with another number than zero at the own labels if asked."""
        margins = F.take(self._own)[:, None] - F
        if own:
            margins.reshape(-1)[self._own] = own
        return margins

    def mix(self, table: np.ndarray) -> np.ndarray:
        """Σ_j t_ij (e_c − e_j) in row i: the transpose of `margins`."""
        mixed = -table
        mixed.reshape(-1)[self._own] = table.sum(axis=1)
        return mixed

    def diagonal(self, active: np.ndarray) -> np.ndarray:
        """The diagonals of the M_i, one row per example; pairs may have weights."""
        return np.abs(self.mix(active.astype(np.float64)))


class ActiveRows:
    """Some rows as a linear map, with a column of ones behind them if there are intercepts.

    They serve products that decide nothing but a direction, most often in single precision. Vectors
    have shape (width, k), or (width + 1, k) with the intercepts in the last row. Dense rows are
    seen from a `centre`, and copied where that takes no more than `memory` bytes; else they are
    gathered again for each product.
    """

    def __init__(
        self,
        operator: MatrixOperator,
        index: np.ndarray,
        has_border: bool,
        centre: np.ndarray | None = None,
        precision: type = np.float64,
        memory: float = math.inf,
    ) -> None:
        self.index, self.has_border, self.m = index, has_border, index.size
        self.dtype, self.width = np.dtype(precision), operator.shape[1]
        self.squares = operator.row_norms[index] ** 2
        self.is_sparse, self._X, self._centre = operator.is_sparse, operator.X, centre
        self._copy: MatrixOperator | None = None
        if self.is_sparse:
            copy = sp.csr_array(self._X[index]).astype(precision, copy=False)
            self._copy = SparseOperator(copy, self.squares)
        elif self.m * self.width * self.dtype.itemsize <= memory:
            rows: np.ndarray = np.empty((self.m, self.width), precision)
            for part, block in self._blocks():
                rows[part] = block.X
            self._copy = DenseOperator(rows)
            self.squares = self._copy.row_norms**2

    @property
    def is_copy(self) -> bool:
        """Whether all the rows are in memory at the precision of products."""
        return self._copy is not None

    def _blocks(self) -> Iterator[tuple[slice, MatrixOperator]]:
        """Runs of places and their rows: all at once if these are a copy."""
        if self._copy is not None:
            yield slice(0, self.m), self._copy
            return
        for part in row_blocks(self.m, self.width):
            require_time()
            yield part, DenseOperator(self._rows(part), self.squares[part])

    def _rows(self, places: Any) -> Any:
        """The rows at some of the places."""
        if self._copy is not None:
            return self._copy.X[places]
        rows = self._X[self.index[places]]
        return (rows if self._centre is None else rows - self._centre).astype(self.dtype)

    def times(self, V: np.ndarray) -> np.ndarray:
        """X V, shape (m, k), with the intercepts if V has any."""
        products = np.empty((self.m, V.shape[1]), self.dtype)
        for part, rows in self._blocks():
            require_time()
            products[part] = rows.apply(V[: self.width])
        if V.shape[0] > self.width:
            products += V[-1].astype(self.dtype)
        return products

    def adjoint(self, A: np.ndarray) -> np.ndarray:
        """The transpose, as float64, with a row for the intercepts if there are any."""
        image = np.zeros((self.width, A.shape[1]))
        for part, rows in self._blocks():
            require_time()
            image += rows.adjoint(A[part])
        if not self.has_border:
            return image
        return np.concatenate([image, A.sum(axis=0, dtype=np.float64)[None]])

    def gram(self, S: np.ndarray) -> np.ndarray:
        """Inner products of the named rows, in the rows' own precision and to be overwritten."""
        X = self._rows(S)
        K = X @ X.T
        return np.asarray(K.toarray()) if self.is_sparse else K

    def covariance(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ w x xᵀ over the named rows, a piece of them at a time."""
        roots = np.sqrt(weights).astype(self.dtype)[:, None]
        total = np.zeros((self.width, self.width), self.dtype)
        for part in [slice(0, S.size)] if self.is_sparse else row_blocks(S.size, self.width):
            require_time()
            X = self._rows(S[part])
            rows = sp.csr_array(X.multiply(roots[part])) if self.is_sparse else X * roots[part]
            square = rows.T @ rows
            total += square.toarray() if self.is_sparse else square
        return total

    def curvatures(self, S: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The diagonal of that."""
        X = self._rows(S)
        return np.asarray((X.multiply(X) if self.is_sparse else X * X).T @ weights)


class Hessian:
    """V ↦ V + C Xᵀ(M_i applied to the rows of XV), over the rows that have an active pair."""

    def __init__(self, rows: ActiveRows, pairs: PairTable, active: np.ndarray, C: float) -> None:
        self.rows, self.pairs, self.active, self.C = rows, pairs, active, C
        self._weights = active.astype(rows.dtype)

    def times(self, V: np.ndarray) -> np.ndarray:
        """H V; intercepts, in the last row, have no part in the identity."""
        pairs, width = self.pairs, self.rows.width
        product = self.rows.adjoint(pairs.mix(pairs.margins(self.rows.times(V)) * self._weights))
        product *= self.C
        product[:width] += V[:width]
        return product


class ClassBlocks:
    """The inverse of the Hessian's diagonal blocks; kept while the active pairs change little.

    A block is held by its rows, in full, or by its diagonal where the memory has no room for it.
    """

    def __init__(self, hessian: Hessian, settings: AutoSettings = SETTINGS) -> None:
        self.rows, self.C = hessian.rows, hessian.C
        weights = self.C * hessian.pairs.diagonal(hessian.active)
        self._thin: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._full: dict[int, np.ndarray] = {}
        self._diagonal: dict[int, np.ndarray] = {}
        in_threads(self._add, list(self._plan(weights, settings)))
        self._border = self._eliminate(self.rows.adjoint(weights)) if self.rows.has_border else None

    def _plan(self, weights: np.ndarray, settings: AutoSettings) -> Iterator[tuple[int, Any, Any]]:
        """(c, where to hold its block, weights of the rows) of each class, within the memory."""
        rows, room, d = self.rows, settings.block_room, self.rows.width
        for c in map(int, np.flatnonzero(weights.any(axis=0))):
            D = weights[:, c]
            size = int(np.count_nonzero(D))
            thin = size**2 * (size + d) + THIN_PASSES * rows.m * d  # multiplications
            is_thin = thin <= settings.thin_block * d**2 * (size + d) and size**2 <= room
            if is_thin and (rows.dtype != np.float32 or D @ rows.squares < SINGLE_ROWS):
                yield c, self._thin, D
                room -= size**2
            elif d * d <= room:
                yield c, self._full, D
                room -= d * d
            else:
                yield c, self._diagonal, D

    def _add(self, task: tuple[int, Any, Any]) -> None:
        c, held, D = task
        S = np.flatnonzero(D)
        D = D[S]
        if held is self._thin:
            K = self.rows.gram(S)
            K.flat[:: S.size + 1] += (1.0 / D).astype(K.dtype)
            held[c] = S, _inverse(K)
        elif held is self._full:
            B = self.rows.covariance(S, D)
            B.flat[:: self.rows.width + 1] += 1.0
            held[c] = _inverse(B)
        else:
            held[c] = 1.0 / (1.0 + self.rows.curvatures(S, D))

    def _eliminate(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(t, σ) of every class."""
        t = self._inner(u[:-1])
        sigma = u[-1] - np.einsum("ij,ij->j", u[:-1], t)
        if self._thin:  # σ = 1ᵀG1 and t = XᵀG1: nothing cancels
            spread = np.zeros((self.rows.m, len(self._thin)), self.rows.dtype)
            for place, (c, (S, G)) in enumerate(self._thin.items()):
                sums = G.sum(axis=1)
                spread[S, place], sigma[c] = sums, sums.sum(dtype=np.float64)
            t[:, list(self._thin)] = self.rows.adjoint(spread)[:-1]
        # a class without active pairs leaves its intercept where it is
        return t, np.where(u[-1] > 0.0, np.maximum(sigma, 1e-12 * u[-1]), np.inf)

    def apply(self, r: np.ndarray) -> np.ndarray:
        """The blocks' inverse times r."""
        if self._border is None:
            return self._inner(r)
        t, sigma = self._border
        z_b = (r[-1] - np.einsum("ij,ij->j", t, r[:-1])) / sigma
        return np.concatenate([self._inner(r[:-1]) - t * z_b, z_b[None]])

    def centred(self, r: np.ndarray) -> np.ndarray:
        """The same for r that add up to zero over the classes, as all does that has a meaning.

        What the blocks add to that is taken off again.
        """
        z = self.apply(r)
        return z - z.mean(axis=1, keepdims=True)

    def _inner(self, r: np.ndarray) -> np.ndarray:
        z = r.copy()
        if self._thin:
            columns = list(self._thin)
            products = self.rows.times(r[:, columns])
            spread = np.zeros_like(products)
            for place, (S, G) in enumerate(self._thin.values()):
                spread[S, place] = G @ products[S, place]
            z[:, columns] -= self.rows.adjoint(spread)[: self.rows.width]
        for c, inverse in self._full.items():
            z[:, c] = inverse @ r[:, c].astype(inverse.dtype)
        for c, inverse in self._diagonal.items():
            z[:, c] *= inverse
        return z


def _inverse(A: np.ndarray) -> np.ndarray:
    """The inverse of a positive definite matrix, in its own precision if that keeps it so."""
    for precision in (A.dtype, np.float64):
        inverse, exists = inverse_in_place(np.array(A, precision, order="F"))
        if exists:
            return inverse
    raise np.linalg.LinAlgError("a class block is not positive definite")
