"""An interior point for weights in a box: the soft margin with the plain hinge, on a form.

    min ½‖w‖² + Σ C_i ξ_i   s.t.  p_i − 1 + ξ_i = s_i ≥ 0,  ξ_i ≥ 0,

with multipliers α of the first and C − α of the second. Newton's system for the conditions
α s = μ and (C − α) ξ = μ has the diagonal Θ = s/α + ξ/(C − α) beside K, or Θ⁻¹ between the rows
in the space of w. Mehrotra's predictor and corrector share a factor; 15 to 40 iterations.
"""

import math
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.solvers.auto.forms import Point
from momentron.solvers.auto.gram_form import GramForm, bordered_solve
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    back_solve,
    cholesky,
    cholesky_of,
    symmetric_product,
)
from momentron.solvers.auto.primal_form import NOWHERE, PrimalForm


class Values(NamedTuple):
    """The primal and the dual objective, as far as float64 tells."""

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """1 − √(D/P), the gap of 1/√(2P) and 1/√(2D).

        None is left at P = 0, which is the least there is: a working set of one class has it.
        """
        if self.primal == 0.0:
            return 0.0
        if not (self.dual > 0.0 and self.primal < math.inf):
            return math.inf
        return 1.0 - math.sqrt(min(self.dual / self.primal, 1.0))


class BoxStep(NamedTuple):
    """What a full step adds to the point and to α, and what it does to the margins."""

    dx: np.ndarray
    db: np.ndarray
    dalpha: np.ndarray


class BoxSystem(Protocol):
    """Newton's system at some Θ, factored once."""

    def step(self, g: np.ndarray) -> BoxStep:
        """For the right side g of the rows' equations."""


class BoxForm(Protocol):
    """What the interior point asks of a form."""

    def margins(self) -> np.ndarray:
        """p of the present point."""

    def values(self, alpha: np.ndarray, prices: np.ndarray) -> Values:
        """Of the present point and α."""

    def system(self, alpha: np.ndarray, theta: np.ndarray) -> BoxSystem:
        """Newton's system here."""

    def move(self, step: BoxStep, t: float) -> None:
        """Go t times a step."""


def _price_of(off: np.ndarray, b: np.ndarray) -> float:
    """What weights with Yᵀα = off cost about, once they are balanced.

    Without it D may be above P: P − D + bᵀYᵀα is what cannot be negative.
    """
    return float(np.abs(off) @ (1.0 + np.abs(b)))


class PrimalBox:
    """A form in the space of w, with the intercepts as unpenalised coordinates."""

    def __init__(self, form: PrimalForm) -> None:
        self.form = form
        form.reset()

    def margins(self) -> np.ndarray:
        return self.form.p

    def values(self, alpha: np.ndarray, prices: np.ndarray) -> Values:
        form = self.form
        primal = 0.5 * form.norm() ** 2 + float(prices @ np.maximum(1.0 - form.p, 0.0))
        image = form.A.combine(alpha)
        dual = float(alpha.sum()) - 0.5 * float((form.ridge * image) @ image)
        if not form.beta:
            return Values(primal, dual)
        off, b = image[form.rows.d :] / form.beta, form.beta * form.point.x[form.rows.d :]
        return Values(primal, dual - _price_of(off, b))

    def system(self, alpha: np.ndarray, theta: np.ndarray) -> "PrimalBoxSystem":
        return PrimalBoxSystem(self.form, alpha, theta)

    def move(self, step: BoxStep, t: float) -> None:
        x = self.form.point.x + t * step.dx
        self.form.point = Point(x, NOWHERE, self.form.A.products(x))


class PrimalBoxSystem:
    """ridge + AᵀΘ⁻¹A, factored."""

    def __init__(self, form: PrimalForm, alpha: np.ndarray, theta: np.ndarray) -> None:
        self.form, self.inverse = form, 1.0 / theta
        self.missing = form.A.combine(alpha) - form.ridge * form.point.x
        M = _weighted_product(form, self.inverse)
        add_to_diagonal(M, form.ridge)
        # an intercept that no row holds is left where it is
        add_to_diagonal(M, 1e-14 * (1.0 - form.ridge) * max(float(M.diagonal().max()), 1e-300))
        self.factor = cholesky(M)

    def step(self, g: np.ndarray) -> BoxStep:
        A = self.form.A
        dx = back_solve(self.factor, A.combine(self.inverse * g) + self.missing)
        return BoxStep(dx, NOWHERE, self.inverse * (g - A.products(dx)))


def _weighted_product(form: PrimalForm, weights: np.ndarray) -> np.ndarray:
    """Aᵀ diag(weights) A: by sparse products where rows have few entries, else in dense blocks."""
    A, rows = form.A, form.rows
    if A.matrix is None and rows.is_sparse and 100.0 * (rows.X.nnz / rows.m) ** 2 < rows.d**2:
        signed = sp.csr_array(rows.X.multiply((np.sqrt(weights) * rows.signs)[:, None]))
        M = np.zeros((A.k, A.k), order="F")
        M[: rows.d, : rows.d] = (signed.T @ signed).toarray()
        if A.Y.shape[1]:
            border = A.beta * np.sqrt(weights)[:, None] * A.Y
            M[rows.d :, : rows.d] = (signed.T @ border).T
            M[: rows.d, rows.d :] = M[rows.d :, : rows.d].T
            M[rows.d :, rows.d :] = border.T @ border
        return M
    size = max(1, form.settings.block_entries // A.k)
    total: np.ndarray | None = None
    for start in range(0, rows.m, size):
        require_time()
        index = np.arange(start, min(start + size, rows.m))
        part = symmetric_product(A.take(index) * np.sqrt(weights[index])[:, None])
        total = part if total is None else total + part
    assert total is not None
    return total


class GramBox:
    """A form by its Gram matrix, whose coefficients are α."""

    def __init__(self, form: GramForm) -> None:
        self.form = form
        form.reset()

    def margins(self) -> np.ndarray:
        return self.form.p

    def values(self, alpha: np.ndarray, prices: np.ndarray) -> Values:
        form = self.form
        square = form.norm() ** 2
        primal = 0.5 * square + float(prices @ np.maximum(1.0 - form.p, 0.0))
        dual = float(alpha.sum()) - 0.5 * square
        return Values(primal, dual - _price_of(form.Y.T @ alpha, form.point.b))

    def system(self, alpha: np.ndarray, theta: np.ndarray) -> "GramBoxSystem":
        if not np.array_equal(self.form.point.x, alpha):
            self.form.go_to_weights(alpha, self.form.point.b)
        return GramBoxSystem(self.form, alpha, theta)

    def move(self, step: BoxStep, t: float) -> None:
        point = self.form.point
        u, b = point.x + t * step.dx, point.b + t * step.db
        self.form.point = Point(u, b, self.form.margins(u, b))


class GramBoxSystem:
    """K + Θ, factored, with the intercepts' columns as a border."""

    def __init__(self, form: GramForm, alpha: np.ndarray, theta: np.ndarray) -> None:
        self.form, self.missing = form, -(form.Y.T @ alpha)

        def shifted() -> np.ndarray:
            M = form.K.T.copy(order="F")
            add_to_diagonal(M, theta)
            return M

        self.factor = cholesky_of(shifted)

    def step(self, g: np.ndarray) -> BoxStep:
        dalpha, db = bordered_solve(self.factor, g, self.form.Y, self.missing)
        return BoxStep(dalpha, db, dalpha)


class BoxPoint(NamedTuple):
    """Weights within the box, the slacks of both sides, and the gap."""

    alpha: np.ndarray
    s: np.ndarray
    xi: np.ndarray
    gap: float


def box_interior_point(
    box: BoxForm, form: PrimalForm | GramForm, prices: np.ndarray, tol: float
) -> BoxPoint:
    """Predictor-corrector steps until the gap is at most tol, or nothing improves."""
    settings, m = form.settings, form.m
    alpha = np.minimum(0.5 * prices, settings.box_start / form.scale)
    s, xi = np.ones(m), np.ones(m)
    if isinstance(form, GramForm):
        form.go_to_weights(alpha, np.zeros(form.Y.shape[1]))
    best, best_point, idle = BoxPoint(alpha, s, xi, math.inf), form.point, 0
    mark = math.inf  # the gap from which progress is measured
    for _ in range(settings.box_steps):
        gap = box.values(alpha, prices).gap
        idle += 1
        if not best.gap < 0.5 or gap < settings.interior_progress * mark:
            idle, mark = 0, gap
        if gap < best.gap:
            best, best_point = BoxPoint(alpha, s, xi, gap), form.point
        if gap <= tol or idle > settings.box_patience:
            break
        if form.deadline.has_passed(form.step_flops):
            break
        step, ds, dxi = _direction(box, alpha, s, xi, prices)
        if not (np.isfinite(step.dalpha).all() and np.isfinite(ds).all()):
            break
        t = min(1.0, 0.995 * _longest(alpha, prices, s, xi, step.dalpha, ds, dxi))
        if not t > 1e-12:
            break
        alpha, s, xi = alpha + t * step.dalpha, s + t * ds, xi + t * dxi
        # rounding may leave a weight on its bound
        alpha = np.clip(alpha, 1e-300, prices * (1.0 - 1e-16))
        box.move(step, t)
    form.point = best_point
    return best


def _direction(
    box: BoxForm, alpha: np.ndarray, s: np.ndarray, xi: np.ndarray, prices: np.ndarray
) -> tuple[BoxStep, np.ndarray, np.ndarray]:
    """(the step, ds, dξ) of the corrector, with σ from the predictor."""
    rest = np.maximum(prices - alpha, 1e-16 * prices)
    theta = np.clip(s / alpha + xi / rest, 1e-290, 1e290)
    system = box.system(alpha, theta)
    residual = 1.0 + s - xi - box.margins()
    mu = (float(alpha @ s) + float(rest @ xi)) / (2 * alpha.size)

    def solve(ra: np.ndarray, rb: np.ndarray) -> tuple[BoxStep, np.ndarray, np.ndarray]:
        step = system.step(residual + ra / alpha - rb / rest)
        da = step.dalpha
        return step, (ra - s * da) / alpha, (rb + xi * da) / rest

    step, ds, dxi = solve(-alpha * s, -rest * xi)
    da = step.dalpha
    t = min(1.0, _longest(alpha, prices, s, xi, da, ds, dxi))
    after = float((alpha + t * da) @ (s + t * ds)) + float((rest - t * da) @ (xi + t * dxi))
    sigma = min(1.0, max(after / (2 * alpha.size) / mu, 0.0)) ** 3 if mu > 0.0 else 0.0
    return solve(sigma * mu - alpha * s - da * ds, sigma * mu - rest * xi + da * dxi)


def _longest(
    alpha: np.ndarray,
    prices: np.ndarray,
    s: np.ndarray,
    xi: np.ndarray,
    dalpha: np.ndarray,
    ds: np.ndarray,
    dxi: np.ndarray,
) -> float:
    """The largest step that keeps α in the box and the slacks positive."""
    rest = np.maximum(prices - alpha, 1e-16 * prices)
    falls = (-dalpha / alpha, dalpha / rest, -ds / s, -dxi / xi)
    return 1.0 / max(1e-30, *(float(fall.max(initial=0.0)) for fall in falls))
