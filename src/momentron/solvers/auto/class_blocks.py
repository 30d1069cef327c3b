"""A preconditioner for the Hessian of many classes: its diagonal blocks, one for each class.

The Hessian is I + C Σ_i x_i x_iᵀ ⊗ M_i. Its block of class c is

    B_c = I + C XᵀD_cX,    D_c = diag_i (M_i)_cc,

on the rows S_c where that is not zero. Where these are fewer than the features, Woodbury's formula
B_c⁻¹ = I − X_SᵀG_cX_S with G_c = (D_c⁻¹/C + X_SX_Sᵀ)⁻¹ needs an |S_c| × |S_c| matrix only. An
intercept, which has no term in the identity, is a border that is eliminated:

    u = C XᵀD_c1,  t = B_c⁻¹u,  σ = C 1ᵀD_c1 − uᵀt,  z_b = (r_b − tᵀr)/σ,  z = B_c⁻¹r − t z_b.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from momentron.arithmetic.squares import inverse_in_place
from momentron.arithmetic.threads import in_threads
from momentron.solvers.auto.class_rows import ActiveRows
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

# The trace up to which a block is held by its rows in single precision: a difference must keep
# digits.
SINGLE_ROWS = 1e5


class ClassBlocks:
    """The inverse of the Hessian's diagonal blocks; kept while the active pairs change little."""

    def __init__(
        self, rows: ActiveRows, weights: np.ndarray, C: float, settings: AutoSettings = SETTINGS
    ) -> None:
        self.rows, self.settings, self.C = rows, settings, C
        self._thin: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._full: dict[int, np.ndarray] = {}
        self._diagonal: dict[int, np.ndarray] = {}
        in_threads(lambda task: task(), self._plan(C * weights))
        self._border: tuple[np.ndarray, np.ndarray] | None = None
        if rows.has_border:
            self._border = self._eliminate(rows.adjoint(C * weights))

    def _plan(self, weights: np.ndarray) -> list[Callable[[], None]]:
        """What to compute for each class, within the memory that there is."""
        work: list[Callable[[], None]] = []
        d, settings = self.rows.width, self.settings
        room = settings.block_room
        is_single, squares = self.rows.dtype == np.float32, self.rows.squares()
        for c in map(int, np.flatnonzero(weights.any(axis=0))):
            S = np.flatnonzero(weights[:, c])
            D = weights[S, c]
            is_tame = not is_single or D @ squares[S] < SINGLE_ROWS
            if is_tame and S.size <= settings.thin_block * d and S.size**2 <= room:
                work.append(partial(self._add_thin, c, S, D))
                room -= S.size**2
            elif d * d <= room:
                work.append(partial(self._add_full, c, S, D))
                room -= d * d
            else:
                work.append(partial(self._add_diagonal, c, S, D))
        return work

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

    def _add_thin(self, c: int, S: np.ndarray, D: np.ndarray) -> None:
        K = self.rows.gram(S)
        K.flat[:: S.size + 1] += (1.0 / D).astype(K.dtype)
        self._thin[c] = S, _inverse(K)

    def _add_full(self, c: int, S: np.ndarray, D: np.ndarray) -> None:
        B = self.rows.covariance(S, D)
        B.flat[:: self.rows.width + 1] += 1.0
        self._full[c] = _inverse(B)

    def _add_diagonal(self, c: int, S: np.ndarray, D: np.ndarray) -> None:
        self._diagonal[c] = 1.0 / (1.0 + self.rows.curvatures(S, D))

    def apply(self, r: np.ndarray) -> np.ndarray:
        """The blocks' inverse times r."""
        if self._border is None:
            return self._inner(r)
        t, sigma = self._border
        z_b = (r[-1] - np.einsum("ij,ij->j", t, r[:-1])) / sigma
        return np.concatenate([self._inner(r[:-1]) - t * z_b, z_b[None]])

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
    inverse, exists = inverse_in_place(np.array(A, order="F"))
    if not exists:
        inverse, exists = inverse_in_place(np.array(A, np.float64, order="F"))
        if not exists:
            raise np.linalg.LinAlgError("a class block is not positive definite")
    return inverse
