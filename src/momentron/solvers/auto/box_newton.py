"""The method of multipliers for weights in a box: Newton on a smoothed hinge, again and again.

From weights α and a stiffness σ the next weights are those of the minimiser of a smoothed hinge,

    α⁺ = clip(α + σ (1 − p), 0, C),

and only rows that stay strictly between 0 and C have curvature: about as many as there are
features. For growing σ, or repeated with the same, α⁺ goes to the weights of the hinge itself, and
rows at the bounds are exactly there.
"""

import math
from typing import NamedTuple

import numpy as np

from momentron.arithmetic.submatrices import submatrix
from momentron.solvers.auto.forms import Direction, Form
from momentron.solvers.auto.gram_form import GramForm, bordered_solve
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    cholesky_of,
    matvec,
)
from momentron.solvers.auto.primal_form import PrimalForm


class Smoothed(NamedTuple):
    """The hinge of some rows, smoothed around weights α with stiffness σ, of all or of each."""

    prices: np.ndarray
    centre: np.ndarray
    sigma: float | np.ndarray

    def at(self, p: np.ndarray) -> np.ndarray:
        """α + σ(1 − p), not yet in the box."""
        return self.centre + self.sigma * (1.0 - p)

    def weights(self, z: np.ndarray) -> np.ndarray:
        """The same in the box."""
        return np.clip(z, 0.0, self.prices)

    def is_between(self, z: np.ndarray) -> np.ndarray:
        """Where there is curvature."""
        return (z > 0.0) & (z < self.prices)

    def distance(self, z: np.ndarray) -> np.ndarray:
        """How much margins must change until there is; not positive where it is."""
        return np.maximum(-z, z - self.prices) / self.sigma

    def some(self, index: np.ndarray) -> "Smoothed":
        """The same of some rows."""
        sigma = self.sigma if isinstance(self.sigma, float) else self.sigma[index]
        return Smoothed(self.prices[index], self.centre[index], sigma)


def minimise_smoothed(
    form: Form, loss: Smoothed, *, slack: float, max_steps: int, is_first: bool = False
) -> tuple[np.ndarray, bool]:
    """(α⁺, whether the rows between have settled): Newton from the form's point.

    `slack` is their share that may still change in the last step. In a first update the loss's
    centre says nothing about the rows between.
    """
    z = loss.at(form.p)
    for step in range(max_steps):
        between, weights = loss.is_between(z), loss.weights(z)
        is_free = loss.is_between(loss.centre)
        if step == 0 and not is_first and is_free.any():
            # as σ grows, σ(1 − p) throws out nearly all the rows that are between in truth
            between, weights = is_free, np.where(is_free, z, loss.centre)
        size = int(np.count_nonzero(between))
        if form.deadline.has_passed(_step_flops(form, size)):
            break
        direction = _direction(form, loss, weights, between)
        after = z - loss.sigma * direction.dp
        changed = np.count_nonzero(between != loss.is_between(after))
        # across the whole band, or with none in it, the quadratic piece was another one
        outside = ~between
        changed += np.count_nonzero(outside & (weights <= 0.0) & (after >= loss.prices))
        changed += np.count_nonzero(outside & (after <= 0.0) & (weights >= loss.prices))
        is_piece = changed == 0 and size > 0
        t = 1.0 if is_piece else search_smoothed(direction, z, loss, form.settings.search_steps)
        form.move(direction, t)
        z = loss.at(form.p)
        is_small = abs(t) * math.sqrt(direction.curvature) <= 1e-13 * form.norm()
        is_near = 0 < changed <= slack * size and abs(t - 1.0) < form.settings.nearly_full
        if is_piece or is_near or (size == 0 and is_small):
            return loss.weights(z), True
    return loss.weights(z), False


def _step_flops(form: Form, size: int) -> float:
    """The arithmetic of a step with so many rows between, roughly."""
    if form.gram is not None:
        return size**3 / 3.0 + 2.0 * form.m**2
    assert isinstance(form, PrimalForm)
    return form.newton_flops(size)


def _direction(form: Form, loss: Smoothed, alpha: np.ndarray, between: np.ndarray) -> Direction:
    """Newton's step, where the rows outside the band keep their weights."""
    if form.gram is not None:
        return _gram_direction(form.gram, loss, alpha, np.flatnonzero(between))
    assert isinstance(form, PrimalForm)
    if not between.any():  # some rows must hold the intercepts
        distance = np.abs(form.p - 1.0)
        most = min(form.A.k, form.m - 1)
        between = distance <= np.partition(distance, most)[most]
    return form.towards(form.newton_step(between, float(loss.sigma), form.gradient(alpha)))


def _gram_direction(
    form: GramForm, loss: Smoothed, alpha: np.ndarray, index: np.ndarray
) -> Direction:
    """The same by the Gram matrix, whose coefficients u are weights: of the rows between anew."""
    if not index.size:
        distance = np.abs(form.p - 1.0)
        index = np.sort(np.argpartition(distance, min(8, form.m - 1))[:8])
    fixed = alpha.copy()
    fixed[index] = 0.0
    rhs = 1.0 + loss.centre[index] / loss.sigma - matvec(form.K, fixed)[index]

    def shifted() -> np.ndarray:
        M = submatrix(form.K, index)
        add_to_diagonal(M, 1.0 / loss.sigma)
        return np.asfortranarray(M)

    missing = -(form.Y.T @ fixed)
    fixed[index], b = bordered_solve(cholesky_of(shifted), rhs, form.Y[index], missing)
    return form.towards(fixed - form.point.x, b - form.point.b)


def search_smoothed(direction: Direction, z: np.ndarray, loss: Smoothed, steps: int) -> float:
    """The minimiser along a direction, whose slope is monotone.

    Up to t = 2, where it nearly always is, only the rows count whose weights change on the way.
    """
    dp, prices = direction.dp, loss.prices
    fall = loss.sigma * dp
    low_end, high_end = np.minimum(z, z - 2.0 * fall), np.maximum(z, z - 2.0 * fall)
    moves = np.flatnonzero((high_end > 0.0) & (low_end < prices))
    stays = low_end >= prices
    even = float(prices[stays] @ dp[stays])
    part, falls, slopes, own = z[moves], fall[moves], dp[moves], prices[moves]
    low, high, t, enough = 0.0, math.inf, 1.0, 0.0
    for k in range(steps):
        if t > 2.0:
            even, part, falls, slopes, own = 0.0, z, fall, dp, prices
        rest = part - t * falls
        pull = even + float(np.clip(rest, 0.0, own) @ slopes)
        g = direction.slope + t * direction.curvature - pull
        if k == 0:
            begun = even + float(np.clip(part, 0.0, own) @ slopes)
            enough = 1e-3 * abs(direction.slope - begun)
        if abs(g) <= enough:
            return t
        low, high = (low, t) if g > 0.0 else (t, high)
        between = (rest > 0.0) & (rest < own)
        h = direction.curvature + float(falls[between] @ slopes[between])
        new = t - g / h if h > 0.0 else 2.0 * t
        if not low < new < high:
            new = 0.5 * (low + high) if high < math.inf else 2.0 * t
        t = new
    return t
