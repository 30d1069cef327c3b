"""The |S| × |S| form: w = Aᵀu, seen through the Gram matrix K = AAᵀ alone."""

import math

import numpy as np
from scipy.linalg import blas

from momentron.solvers.auto.forms import Deadline, Form
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    back_solve,
    cholesky,
    cholesky_of,
    matvec,
    single_cholesky,
    solve_definite,
    submatrix,
)
from momentron.solvers.auto.rows import WorkingRows

SINGULAR = 1e-13  # a pivot, in units of ‖a‖²
ROUGH_SIZE = 300  # below this, single precision saves nothing


class GramForm(Form):
    """For fewer rows than features, and for kernels: p = Ku + Yb."""

    def __init__(self, rows: WorkingRows, deadline: Deadline, K: np.ndarray) -> None:
        self.rows, self.deadline = rows, deadline
        self.Y = rows.balance.columns
        self.K = K
        self.K_single: np.ndarray | None = None
        self._last_factor: tuple[tuple[float, bytes], np.ndarray] | None = None
        self.squares = K.diagonal().copy()
        self.scale = max(float(self.squares.sum()) / self.m, 1e-300)
        self.reset()

    @property
    def step_flops(self) -> float:
        return self.m**3 / 3.0

    def reset(self) -> None:
        self.u, self.p = np.zeros(self.m), np.zeros(self.m)
        self.b = self.db = np.zeros(self.Y.shape[1])

    def _bordered_solve(
        self, factor: np.ndarray, rhs: np.ndarray, Y: np.ndarray, missing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(z, db) with Mz + Y db = rhs and Yᵀz = missing."""
        if not Y.shape[1]:
            return back_solve(factor, rhs), missing
        return self._balanced(back_solve(factor, np.column_stack([rhs, Y])), Y, missing)

    def _balanced(
        self, both: np.ndarray, Y: np.ndarray, missing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same from M⁻¹(rhs, Y)."""
        curvature = Y.T @ both[:, 1:]
        wanted = Y.T @ both[:, 0] - missing
        if wanted.size == 1:
            db = wanted / curvature[0] if curvature[0, 0] > 0.0 else np.zeros(1)
        else:
            # classes that the rows do not connect leave intercepts open: the least change is taken
            db = np.linalg.lstsq(curvature, wanted, rcond=1e-12)[0]
        return both[:, 0] - both[:, 1:] @ db, db

    def newton(
        self, S: np.ndarray, target: np.ndarray | float, C: float, *, rough: bool
    ) -> tuple[np.ndarray, float, float]:
        index = np.flatnonzero(S)
        off = self.u.copy()
        off[index] = 0.0
        rhs = (target - self.p)[index] - self.u[index] / C
        if off.any():
            rhs += matvec(self.K, off)[index]
        direction, Y = -off, self.Y[index]
        factor = self._factor(index, C, rough)
        missing = -(Y.T @ self.u[index])
        direction[index], self.db = self._bordered_solve(factor, rhs, Y, missing)
        return self._towards(direction)

    def _factor(self, index: np.ndarray, C: float, rough: bool) -> np.ndarray:
        """The factor of K_SS + I/C; the last is kept, and rough ones are in single precision."""
        key = (C, index.tobytes())
        if self._last_factor is not None and self._last_factor[0] == key:
            return self._last_factor[1]
        self._last_factor = None  # its memory may be needed for the next
        if rough and index.size > ROUGH_SIZE:
            if self.K_single is None and self.rows.is_explicit:
                self.K_single = self.K.astype(np.float32)
            source = self.K if self.K_single is None else self.K_single
            M = submatrix(source, index, np.empty((index.size, index.size), np.float32)).T
            add_to_diagonal(M, 1.0 / C)
            factor = single_cholesky(M)
            if factor is not None:
                return factor
        factor = cholesky_of(lambda: self._shifted(index, C))
        self._last_factor = (key, factor)
        return factor

    def _shifted(self, index: np.ndarray, C: float) -> np.ndarray:
        """K_SS + I/C, F-ordered."""
        M = submatrix(self.K, index).T
        add_to_diagonal(M, 1.0 / C)
        return M

    def equalise(self, S: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """(u, b, p) with p = 1 and u free on S, u = 0 elsewhere; None where K_SS is singular."""
        self._last_factor = None  # its memory may be needed
        index = S.nonzero()[0]
        M, rhs, smallest = submatrix(self.K, index).T, np.ones(index.size), SINGULAR * self.scale
        u, b = np.zeros(self.m), np.zeros(self.Y.shape[1])
        if not b.size:
            solved = solve_definite(M, rhs, smallest)
            if solved is None:
                return None
            u[index] = solved
            return u, b, matvec(self.K, u)
        # Yᵀu = 0 makes (K + σYYᵀ)u the same as Ku; that is definite with one row more than features
        Y = self.Y[index]
        M = blas.dsyrk(self.scale, Y, beta=1.0, c=M, lower=1, overwrite_c=1)
        solved = solve_definite(M, np.column_stack([rhs, Y]), smallest)
        if solved is None:
            return None
        u[index], b = self._balanced(solved, Y, b)
        return u, b, matvec(self.K, u) + self.balance.spread(b)

    def along_mean(self) -> tuple[np.ndarray, float, float]:
        self.db = np.zeros(self.Y.shape[1])
        return self._towards(np.ones(self.m))

    def _towards(self, direction: np.ndarray) -> tuple[np.ndarray, float, float]:
        product = matvec(self.K, direction)
        self.du = direction
        self.dp = product + self.balance.spread(self.db)
        return self.dp, float(self.u @ product), float(direction @ product)

    def move(self, t: float) -> None:
        self.u = self.u + t * self.du
        self.b = self.b + t * self.db
        self.p = self.p + t * self.dp

    def refresh(self, *, from_rows: bool = False) -> None:
        # K has squared the condition number of the rows; A(Aᵀu) has not
        if from_rows and self.rows.is_explicit:
            product = self.rows.products(self.rows.combine(self.u))
        else:
            product = matvec(self.K, self.u)
        self.p = product + self.balance.spread(self.b)

    def norm(self) -> float:
        return math.sqrt(max(float(self.u @ (self.p - self.balance.spread(self.b))), 0.0))

    def dual_norm(self, q: np.ndarray) -> float:
        return math.sqrt(max(float(q @ matvec(self.K, q)), 0.0))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return self.rows.combine(self.u), self.b

    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        self.u, self.b = u.copy(), b
        self.refresh()

    def state(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.u, self.b, self.p

    def restore(self, state: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        self.u, self.b, self.p = state

    # in this form u and λ are the same vector

    def ip_start(self, lam: np.ndarray) -> None:
        self.reset()
        self.u = lam.copy()
        self.refresh()

    def ip_factor(self, D: np.ndarray) -> None:
        M = self.K.T.copy(order="F")
        add_to_diagonal(M, 1.0 / D)
        self.factor = cholesky(M)

    def ip_residual(self, lam: np.ndarray, s: np.ndarray) -> np.ndarray:
        return self.p - s - 1.0

    def ip_direction(
        self, rc: np.ndarray, rp: np.ndarray, lam: np.ndarray, s: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        missing = -(self.Y.T @ lam)
        direction, self.db = self._bordered_solve(self.factor, -rc / lam - rp, self.Y, missing)
        self._towards(direction)
        return self.dp + rp, direction

    def ip_move(self, t: float, lam: np.ndarray) -> None:
        self.u = lam
        self.b = self.b + t * self.db
        self.refresh()
