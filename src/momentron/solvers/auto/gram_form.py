"""The form in the space of weights, w = Aᵀu, with the Gram matrix of all its rows."""

import math

import numpy as np

from momentron.arithmetic.linear_algebra import add_to_diagonal, back_solve, cholesky_of
from momentron.arithmetic.squares import factor_in_place, submatrix
from momentron.rows.dense import matvec
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import NO_SLACK, Bounds, Form, Hinge, Point, Solve
from momentron.solvers.auto.working_rows import SignedRows

SINGLE_SIZE = 300  # rows up to which single precision saves nothing
COARSE = 1e-13  # ten times the rounding of products with K, in units of ‖a‖²
SINGLE_STIFFNESS = 1e3  # σ in units of 1/mean‖a‖² up to which single precision serves


class GramForm(Form):
    """For fewer rows than features, and for working sets of kernels: the Gram matrix K = AAᵀ.

    A point's x is u, with w = Aᵀu and p = Ku + Yb.
    """

    def __init__(self, rows: SignedRows, K: np.ndarray, deadline: Deadline) -> None:
        self.K = self.gram = K
        self._by_rows = False  # whether products are with the rows, and not with K
        scale = float(K.diagonal().sum(dtype=np.float64)) / rows.m
        super().__init__(rows, scale, (rows.m, rows.dual_set.columns.shape[1]), deadline)
        self._last: tuple[tuple[bool, bytes, bytes], np.ndarray] | None = None

    def newton_flops(self, size: int) -> float:
        return size**3 / 3.0 + 2.0 * self.m**2

    def image(self, u: np.ndarray) -> np.ndarray:
        return self.rows.products(self.rows.combine(u)) if self._by_rows else matvec(self.K, u)

    def at_weights(self, u: np.ndarray, b: np.ndarray, w: np.ndarray | None = None) -> Point:
        return Point(u, b, self.margins(u, b))

    def norm(self) -> float:
        u, b, p = self.point
        return math.sqrt(max(float(u @ (p - self.dual_set.spread(b))), 0.0))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return self.rows.combine(self.point.x), self.point.b

    def dual_norm(self, q: np.ndarray) -> float:
        return math.sqrt(max(float(q @ self.image(q)), 0.0))

    def slopes(self, dx: np.ndarray, image: np.ndarray) -> tuple[float, float]:
        return float(self.point.x @ image), float(dx @ image)

    def system(self, loss: Hinge, between: np.ndarray, *, rough: bool = False) -> Solve:
        u, index = self.point.x, between.nonzero()[0]

        def solve(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            du = weights - u
            rhs = du[index] * ridge_of(loss, index)
            du[index] = 0.0
            if du.any():
                rhs -= self.image(du)[index]
            missing = -(self.Y.T @ (u + du))
            # (K + 1/σ) du + Y db = rhs on these rows, and Yᵀdu = missing
            factor = self._factor(loss, index, rough)
            du[index], db = bordered_solve(factor, rhs, self.Y[index], missing)
            return du, db

        return solve

    def bounds(self, alpha: np.ndarray, loss: Hinge = NO_SLACK) -> Bounds:
        """The same; by the rows, and so the point's margins, where K is too coarse for the gap."""
        found = super().bounds(alpha, loss)
        if self.rows.is_explicit and COARSE * self.scale > min(found.gap, 1.0) * found.upper**2:
            self._by_rows = True
            self.refresh()
            found, self._by_rows = super().bounds(alpha, loss), False
        return found

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.K.copy() if index.size == self.m else submatrix(self.K, index)

    def leaves(self, weights: np.ndarray) -> float:
        if self._last is None or self._last[1].dtype != np.float32:
            return 0.0
        off = np.abs(weights - self.point.x).max(initial=0.0)
        return float(off) / max(float(weights.max(initial=0.0)), 1e-300)

    def _factor(self, loss: Hinge, index: np.ndarray, rough: bool) -> np.ndarray:
        """The factor of K_SS + 1/σ, which is kept; in single precision where that serves.

        A rough direction may be wrong in the last digits; others are corrected by the next one,
        with the same factor.
        """
        ridge = ridge_of(loss, index)
        serves = rough or bool(np.min(ridge, initial=np.inf) * SINGLE_STIFFNESS >= self.scale)
        key = (serves, np.asarray(ridge).tobytes(), index.tobytes())
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last, exists = None, False  # its memory may be needed for the next
        if serves and index.size > SINGLE_SIZE:
            single = submatrix(self.K, index, np.empty((index.size, index.size), np.float32))
            factor, exists = factor_in_place(add_to_diagonal(single.T, ridge))
        if not exists:
            factor = cholesky_of(lambda: add_to_diagonal(self.block(index).T, ridge))
        self._last = (key, factor)
        return factor

    def forget(self) -> None:
        self._last = None


def ridge_of(loss: Hinge, index: np.ndarray) -> float | np.ndarray:
    """1/σ of some of the rows."""
    stiffness = loss.stiffness
    return 1.0 / (stiffness[index] if isinstance(stiffness, np.ndarray) else stiffness)


def bordered_solve(
    factor: np.ndarray, rhs: np.ndarray, Y: np.ndarray, missing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(z, db) with Mz + Y db = rhs and Yᵀz = missing."""
    if not Y.shape[1]:
        return back_solve(factor, rhs), missing
    return balanced_parts(back_solve(factor, np.column_stack([rhs, Y])), Y, missing)


def balanced_parts(
    both: np.ndarray, Y: np.ndarray, missing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same from M⁻¹(rhs, Y)."""
    curvature = Y.T @ both[:, 1:]
    wanted = Y.T @ both[:, 0] - missing
    if wanted.size == 1:
        db = wanted / curvature[0] if curvature[0, 0] > 0.0 else np.zeros(1)
    else:
        if not np.isfinite(curvature).all():
            # LAPACK prints a message for NaN, and may not return from infinities
            raise np.linalg.LinAlgError("the intercepts' matrix overflowed")
        # classes that the rows do not connect leave intercepts open: the least change is taken
        db = np.linalg.lstsq(curvature, wanted, rcond=1e-12)[0]
    return both[:, 0] - both[:, 1:] @ db, db
