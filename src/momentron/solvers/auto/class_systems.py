"""The Hessian of many classes as a product, and a preconditioner: its diagonal blocks.

The Hessian is I + C Σ_i x_i x_iᵀ ⊗ M_i with the k × k matrices
M_i = Σ_{j active} (e_c − e_j)(e_c − e_j)ᵀ. It is never formed: its product with a direction V is
two passes over the rows that have an active pair. Its diagonal block of class c is

    B_c = I + C XᵀD_cX,    D_c = diag_i (M_i)_cc,

on the rows S_c where that is not zero. Where these are fewer than the features, Woodbury's formula
B_c⁻¹ = I − X_SᵀG_cX_S with G_c = (D_c⁻¹/C + X_SX_Sᵀ)⁻¹ needs an |S_c| × |S_c| matrix only. An
intercept, which has no term in the identity, is a border of B_c: u = C XᵀD_c1 and C 1ᵀD_c1. With
the weights a = G_c(X_Sr + z_b1) it is eliminated: z = r − X_Sᵀa, z_b such that 1ᵀa = r_b.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.linear_algebra import add_to_diagonal
from momentron.arithmetic.squares import inverse_in_place
from momentron.arithmetic.threads import in_threads
from momentron.dual.labels import ManyClasses
from momentron.rows import DenseOperator, MatrixOperator, SparseOperator
from momentron.rows.operator import row_blocks
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

# The trace up to which a block is held by its rows in single precision: a difference must keep
# digits.
SINGLE_ROWS = 1e5
# Multiplications per stored entry of sparse rows from which further products, with diagonals, are
# faster than blocks.
SPARSE_WORK = 5000.0
THIN_PASSES = 50.0  # over all rows, by which a block that is held by its rows takes more when used


def copy_of(
    operator: MatrixOperator, index: np.ndarray, centre: np.ndarray, precision: type
) -> MatrixOperator:
    """Some rows in another precision; dense ones as seen from a centre."""
    if operator.is_sparse:
        rows = sp.csr_array(operator.X[index]).astype(precision, copy=False)
        return SparseOperator(rows, operator.row_norms[index] ** 2)
    rows = np.empty((index.size, centre.size), precision)
    for part in row_blocks(*rows.shape):
        require_time()
        rows[part] = operator.X[index[part]] - centre
    return DenseOperator(rows)


class Hessian:
    """V ↦ V + C Xᵀ(M_i applied to the rows of XV), over the rows that have an active pair.

    The products decide nothing but a direction, most often in single precision. V has shape
    (width, k), or (width + 1, k) with the intercepts in the last row: they have no part in the
    identity, and X has a column of ones for them.

    Parameters
    ----------
    rows : MatrixOperator
    labels : ManyClasses
        Of these rows.
    active : ndarray of shape (m, k)
        The pairs that are active, or their weights; zero for the true labels.
    C : float
    centre : ndarray of shape (width,), optional
        From where the rows are seen.
    """

    def __init__(
        self,
        rows: MatrixOperator,
        labels: ManyClasses,
        active: np.ndarray,
        C: float,
        centre: np.ndarray | None = None,
    ) -> None:
        self.rows, self.labels, self.active, self.C, self.centre = rows, labels, active, C, centre
        self.dtype, (self.m, self.width) = rows.X.dtype, rows.shape
        self._weights = active.astype(self.dtype)

    def times(self, V: np.ndarray) -> np.ndarray:
        """H V."""
        leads = self.labels.leads(self.products(V))
        leads *= self._weights
        product = self.adjoint(self.labels.mixed(leads))
        product *= self.C
        product[: self.width] += V[: self.width]
        return product

    def products(self, V: np.ndarray) -> np.ndarray:
        """X V, shape (m, k)."""
        require_time()
        products = self.rows.apply(V[: self.width]).astype(self.dtype, copy=False)
        if self.labels.fit_intercept:
            products += V[-1]
        if self.centre is not None:
            products -= self.centre @ V[: self.width]
        return products

    def adjoint(self, A: np.ndarray) -> np.ndarray:
        """Xᵀ A, as float64."""
        require_time()
        image, sums = self.rows.adjoint(A), A.sum(axis=0, dtype=np.float64)
        if self.centre is not None:
            image -= np.outer(self.centre, sums)
        return np.concatenate([image, sums[None]]) if self.labels.fit_intercept else image

    def some(self, S: np.ndarray) -> Any:
        """The named rows in their own precision: to be overwritten, without the ones."""
        rows = self.rows.X[S]
        return rows if self.centre is None else rows - self.centre.astype(self.dtype)

    def diagonals(self) -> np.ndarray:
        """C (M_i)_cc of every row and class."""
        return self.C * np.abs(self.labels.mixed(self.active.astype(np.float64)))


class ClassBlocks:
    """The inverse of the Hessian's diagonal blocks; kept while the active pairs change little.

    A block is held by its rows, or as a matrix: only its diagonal where there is no room for it, or
    where that takes longer.
    """

    def __init__(self, hessian: Hessian, settings: AutoSettings = SETTINGS) -> None:
        self.hessian, self.C, weights = hessian, hessian.C, hessian.diagonals()
        self._has_border = hessian.labels.fit_intercept
        self._borders = hessian.adjoint(weights) if self._has_border else weights[:0]
        self._by_rows: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # (S_c, G_c)
        self._inverses: dict[int, np.ndarray] = {}  # of bordered blocks, or of their diagonals
        in_threads(lambda task: task[0](*task[1:]), list(self._plan(weights, settings)))

    def _plan(
        self, weights: np.ndarray, settings: AutoSettings
    ) -> Iterator[tuple[Callable[..., None], int, np.ndarray, np.ndarray]]:
        """(how to hold a block, class, its rows, their weights), within the memory."""
        rows, room, (m, d) = self.hessian.rows, settings.block_room, self.hessian.rows.shape
        squares, most = rows.row_norms**2, SPARSE_WORK * rows.X.nnz if rows.is_sparse else math.inf
        for c in map(int, np.flatnonzero(weights.any(axis=0))):
            S = np.flatnonzero(weights[:, c])
            D, size = weights[S, c], S.size
            # multiplications
            thin, full = size**2 * (size + d) + THIN_PASSES * m * d, d**2 * (size + d)
            is_thin = thin <= min(settings.thin_block * full, most) and size**2 <= room
            if is_thin and (rows.X.dtype != np.float32 or D @ squares[S] < SINGLE_ROWS):
                yield self._hold_by_rows, c, S, D
                room -= size**2
            elif d * d <= room and full <= most:
                yield self._hold_inverse, c, S, D
                room -= d * d
            else:
                yield self._hold_diagonal, c, S, D

    def _hold_by_rows(self, c: int, S: np.ndarray, D: np.ndarray) -> None:
        X = self.hessian.some(S)
        K = _dense(X @ X.T)
        self._by_rows[c] = S, _inverse(add_to_diagonal(K, (1.0 / D).astype(K.dtype)))

    def _hold_inverse(self, c: int, S: np.ndarray, D: np.ndarray) -> None:
        (_, d), roots = self.hessian.rows.shape, np.sqrt(D).astype(self.hessian.dtype)
        B = np.eye(d, dtype=roots.dtype)
        parts = [slice(None)] if self.hessian.rows.is_sparse else row_blocks(S.size, d)
        for part in parts:
            require_time()
            X = self.hessian.some(S[part]) * roots[part, None]
            B += _dense(X.T @ X)
        if self._has_border:
            border = self._borders[:, c].astype(B.dtype)
            B = np.block([[B, border[:-1, None]], [border]])
            B[-1, -1] *= 1.0 + 100.0 * np.finfo(B.dtype).eps  # rounding keeps it definite
        self._inverses[c] = _inverse(B)

    def _hold_diagonal(self, c: int, S: np.ndarray, D: np.ndarray) -> None:
        X = self.hessian.some(S)
        diagonal = 1.0 + np.asarray((X * X).T @ D)
        self._inverses[c] = 1.0 / np.append(diagonal, self._borders[diagonal.size :, c])

    def apply(self, r: np.ndarray) -> np.ndarray:
        """The blocks' inverse times r; it leaves the intercepts of classes without one alone."""
        z, width = r.copy(), self.hessian.width
        z[width:] = 0.0
        for c, inverse in self._inverses.items():
            own = r[:, c].astype(inverse.dtype)
            z[:, c] = inverse @ own if inverse.ndim > 1 else inverse * own
        if not self._by_rows:
            return z
        columns = list(self._by_rows)
        products = self.hessian.products(z[:, columns])  # z = r there, without the intercepts
        spread = np.zeros_like(products)
        for place, (c, (S, G)) in enumerate(self._by_rows.items()):
            spread[S, place] = G @ products[S, place]
            if self._has_border:
                sums = G.sum(axis=1)
                z[-1, c] = (r[-1, c] - spread[S, place].sum()) / sums.sum()
                spread[S, place] += sums * z[-1, c]
        z[:width, columns] -= self.hessian.adjoint(spread)[:width]
        return z

    def centred(self, r: np.ndarray) -> np.ndarray:
        """The same for r that add up to zero over the classes, as all does that has a meaning.

        What the blocks add to that is taken off again.
        """
        z = self.apply(r)
        return z - z.mean(axis=1, keepdims=True)


def _dense(A: Any) -> np.ndarray:
    return A if isinstance(A, np.ndarray) else np.asarray(A.toarray())


def _inverse(A: np.ndarray) -> np.ndarray:
    """The inverse of a positive definite matrix, in its own precision if that keeps it so."""
    for precision, raised in (A.dtype, 0.0), (np.float64, 0.0), (np.float64, 1e-13):
        M = np.array(A, precision, order="F")
        inverse, exists = inverse_in_place(add_to_diagonal(M, raised * M.diagonal()))
        if exists:
            return inverse
    raise np.linalg.LinAlgError("a class block is not positive definite")
