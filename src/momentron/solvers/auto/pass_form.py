"""All the rows of a sparse matrix with many features, through products alone.

A sample says nothing about rows that share no features with it, and the factors of the other forms
are too large here: Newton's directions come from conjugate gradients, a few products each.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.operators.split_rows import SplitRows
from momentron.solvers.auto.forms import Deadline

# (relative residual, products) at which a direction is good enough to rank by
QUICK = (0.2, 30)
CAREFUL = (0.05, 60)


class PassForm:
    """The part of a Form that soft margins need, for ranking only.

    Parameters
    ----------
    X : csr_array of shape (n, d)
    signs : ndarray of shape (n,)
    squares : ndarray of shape (n,)
        ‖x_i‖².
    """

    def __init__(
        self,
        X: Any,
        signs: np.ndarray,
        squares: np.ndarray,
        fits_intercept: bool,
        deadline: Deadline,
    ) -> None:
        self.X, self.signs, self.deadline = X, signs, deadline
        self.rows = SplitRows(X)
        self.fits_intercept = fits_intercept
        self.m, self.d = X.shape
        self.scale = max(float(squares.mean()), 1e-300)
        # the intercept is one more coordinate, βy, without a ridge
        self.beta = float(np.sqrt(self.scale)) if fits_intercept else 0.0
        self.ridge = np.ones(self.d + int(fits_intercept))
        if fits_intercept:
            self.ridge[-1] = 0.0
        self.w = np.zeros(self.ridge.size)
        self.p = np.zeros(self.m)
        self.roughness, self.max_products = QUICK

    @property
    def step_flops(self) -> float:
        return 4.0 * self.max_products * self.X.nnz

    def _products(self, rows: SplitRows, signs: np.ndarray, w: np.ndarray) -> np.ndarray:
        p = rows.times(w[: self.d])
        if self.fits_intercept:
            p += self.beta * w[-1]
        return signs * p

    def _combine(self, rows: SplitRows, signs: np.ndarray, v: np.ndarray) -> np.ndarray:
        v = signs * v
        g = rows.transposed_times(v)
        return np.append(g, self.beta * v.sum()) if self.fits_intercept else g

    def newton(
        self, S: np.ndarray, target: np.ndarray | float, C: float, *, rough: bool
    ) -> tuple[np.ndarray, float, float]:
        """Conjugate gradients for (ridge/C + A_SᵀA_S) dw = A_Sᵀ(target − p) − ridge·w/C."""
        index = np.flatnonzero(S)
        rows, signs = SplitRows(self.X[index]), self.signs[index]
        residual = (target - self.p)[index]
        r = self._combine(rows, signs, residual) - self.ridge * self.w / C
        step, direction, square = np.zeros_like(r), r.copy(), float(r @ r)
        enough = self.roughness**2 * square
        for _ in range(self.max_products):
            if square <= enough or square == 0.0:
                break
            product = self._combine(rows, signs, self._products(rows, signs, direction))
            product += self.ridge * direction / C
            curvature = float(direction @ product)
            if not curvature > 0.0:
                break
            t = square / curvature
            step += t * direction
            r -= t * product
            last, square = square, float(r @ r)
            direction = r + (square / last) * direction
        return self._towards(step)

    def along_mean(self) -> tuple[np.ndarray, float, float]:
        return self._towards(self._combine(self.rows, self.signs, np.ones(self.m)) * self.ridge)

    def _towards(self, dw: np.ndarray) -> tuple[np.ndarray, float, float]:
        self.dw, self.dp = dw, self._products(self.rows, self.signs, dw)
        penalised = self.ridge * dw
        return self.dp, float(self.w @ penalised), float(dw @ penalised)

    def move(self, t: float) -> None:
        self.w = self.w + t * self.dw
        self.p = self.p + t * self.dp

    def norm(self) -> float:
        """‖w‖."""
        return float(np.sqrt((self.ridge * self.w) @ self.w))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """(w, b)."""
        return self.w[: self.d].copy(), self.beta * self.w[self.d :]


def as_rows(X: Any) -> Any:
    """A sparse matrix by rows, in float64; as it is where it is so already."""
    return sp.csr_array(X).astype(np.float64, copy=False)
