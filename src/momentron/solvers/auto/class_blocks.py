"""A preconditioner for the Hessian of the joint margin: its diagonal blocks, one for each class.

The Hessian is I + C Σ_i x_i x_iᵀ ⊗ M_i. Its block of class c is

    B_c = I + C XᵀD_cX,    D_c = diag_i (M_i)_cc,

on the rows S_c where that is not zero. Where these are fewer than the features, Woodbury's formula
B_c⁻¹ = I − X_SᵀG_cX_S with G_c = (D_c⁻¹/C + X_SX_Sᵀ)⁻¹ needs an |S_c| × |S_c| matrix only. An
intercept, which has no term in the identity, is a border that is eliminated:

    u = C XᵀD_c1,  t = B_c⁻¹u,  σ = C 1ᵀD_c1 − uᵀt,  z_b = (r_b − tᵀr)/σ,  z = B_c⁻¹r − t z_b.
"""

from typing import Any

import numpy as np
from scipy.linalg import lapack

from momentron.clock import require_time
from momentron.solvers.auto.active_rows import ActiveRows
from momentron.solvers.auto.settings import SETTINGS, AutoSettings


class ClassBlocks:
    """The inverse of the Hessian's diagonal blocks; kept while the active pairs change little."""

    def __init__(
        self,
        rows: ActiveRows,
        weights: np.ndarray,
        C: float,
        settings: AutoSettings = SETTINGS,
    ) -> None:
        self.rows = rows
        self.k = weights.shape[1]
        d = rows.d
        members = [np.flatnonzero(weights[:, c]) for c in range(self.k)]
        self._thin: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._full: dict[int, np.ndarray] = {}
        self._diagonal: dict[int, np.ndarray] = {}
        room = settings.block_room
        for c, S in enumerate(members):
            require_time()
            if S.size == 0:
                continue
            D = C * weights[S, c]
            if S.size <= settings.thin_block * d and S.size**2 <= room:
                self._thin[c] = S, self._thin_inverse(S, D)
                room -= S.size**2
            elif d * d <= room:
                self._full[c] = self._full_inverse(S, D)
                room -= d * d
            else:
                self._diagonal[c] = self._diagonal_inverse(S, D)
        self._border: tuple[np.ndarray, np.ndarray] | None = None
        if rows.has_border:
            self._border = self._eliminate(rows.adjoint(C * weights))

    def _eliminate(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(t, σ) of every class."""
        t = self._inner(u[:-1])
        sigma = u[-1] - np.einsum("ij,ij->j", u[:-1], t)
        if self._thin:  # σ = 1ᵀG1 and t = XᵀG1: nothing cancels
            spread = np.zeros((self.rows.m, len(self._thin)), self.rows.X.dtype)
            for place, (c, (S, G)) in enumerate(self._thin.items()):
                sums = G.sum(axis=1)
                spread[S, place], sigma[c] = sums, sums.sum(dtype=np.float64)
            t[:, list(self._thin)] = self.rows.X.T @ spread
        # a class without active pairs leaves its intercept where it is
        return t, np.where(u[-1] > 0.0, np.maximum(sigma, 1e-12 * u[-1]), np.inf)

    def _thin_inverse(self, S: np.ndarray, D: np.ndarray) -> np.ndarray:
        X = self.rows.X[S].astype(np.float64)
        K = X @ X.T
        K = np.asarray(K.toarray() if self.rows.is_sparse else K, np.float64)
        K.flat[:: S.size + 1] += 1.0 / D
        return _inverse(K)

    def _full_inverse(self, S: np.ndarray, D: np.ndarray) -> np.ndarray:
        X = self.rows.X[S]
        root = np.sqrt(D).astype(X.dtype)[:, None]
        if self.rows.is_sparse:
            scaled: Any = X.multiply(root).tocsr()
            B = (scaled.T @ scaled).toarray()
        else:
            X *= root
            B = X.T @ X
        B = np.asarray(B, np.float64)
        B.flat[:: self.rows.d + 1] += 1.0
        return _inverse(B)

    def _diagonal_inverse(self, S: np.ndarray, D: np.ndarray) -> np.ndarray:
        X = self.rows.X[S]
        squares = X.multiply(X).T @ D if self.rows.is_sparse else np.einsum("ij,ij,i->j", X, X, D)
        return 1.0 / (1.0 + squares)

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
            X, columns = self.rows.X, list(self._thin)
            products = X @ r[:, columns].astype(X.dtype)
            spread = np.zeros_like(products)
            for place, (S, G) in enumerate(self._thin.values()):
                spread[S, place] = G @ products[S, place]
            z[:, columns] -= X.T @ spread
        for c, inverse in self._full.items():
            z[:, c] = inverse @ r[:, c].astype(inverse.dtype)
        for c, inverse in self._diagonal.items():
            z[:, c] *= inverse
        return z


def _inverse(A: np.ndarray) -> np.ndarray:
    """The inverse of a positive definite matrix, in single precision where that keeps it so."""
    factor, info = lapack.dpotrf(A, lower=1, overwrite_a=0)
    if info != 0:
        raise np.linalg.LinAlgError("a class block is not positive definite")
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    lower = np.tril(inverse)
    full = lower + np.tril(inverse, -1).T
    spread = float(np.diag(factor).max() / np.diag(factor).min()) ** 2
    return full.astype(np.float32) if spread < 1e5 else full
