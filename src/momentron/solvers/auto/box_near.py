"""One update of weights in a box, by Newton on the rows near the margin.

From update to update most rows keep their weights, at zero or at C, and the further the method of
multipliers has got the more of them do. What they add to Newton's system is then one vector. Rows
whose weights would have changed after all are seen in the pass that ends the update, and taken in.
"""

import math

import numpy as np

from momentron.solvers.auto.box_newton import Smoothed, minimise_smoothed
from momentron.solvers.auto.forms import Direction, Form, Point
from momentron.solvers.auto.primal_form import NOWHERE, PrimalForm


class NearForm(PrimalForm):
    """Some rows of a form, where the others keep their weights.

    Parameters
    ----------
    whole : PrimalForm
        Its point is where this one begins, and its Hessian is used and updated.
    index : ndarray
        The rows, in ascending order.
    weights : ndarray of shape (whole.m,)
        α, of which those of the other rows count.
    """

    def __init__(self, whole: PrimalForm, index: np.ndarray, weights: np.ndarray) -> None:
        super().__init__(
            whole.rows.some(index),
            whole.deadline,
            whole.settings,
            squares=whole.squares[index] - whole.beta**2,
            scale=whole.scale,
        )
        self.whole, self.index = whole, index
        held = weights.copy()
        held[index] = 0.0
        self.pull = whole.A.combine(held)
        self.point = Point(whole.point.x, NOWHERE, whole.p[index])

    def hessian(self, S: np.ndarray) -> np.ndarray:
        among_all = np.zeros(self.whole.m, bool)
        among_all[self.index] = S
        return self.whole.hessian(among_all)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        return super().gradient(weights) + self.pull

    def towards(self, dx: np.ndarray) -> Direction:
        direction = super().towards(dx)
        return direction._replace(slope=direction.slope - float(self.pull @ dx))


def updated(
    form: Form, loss: Smoothed, reach: float, *, slack: float, is_first: bool
) -> np.ndarray:
    """α⁺, with the form taken to the minimiser of the smoothed hinge.

    `reach` is how far margins are expected to move: rows further from where their weights change
    are held.
    """
    max_steps = form.settings.box_newton_steps
    if isinstance(form, PrimalForm) and form.has_factors and reach < math.inf:
        weights = _updated_near(form, loss, reach, slack=slack, max_steps=max_steps)
        if weights is not None:
            return weights
    weights, _ = minimise_smoothed(form, loss, slack=slack, max_steps=max_steps, is_first=is_first)
    form.refresh()
    return weights


def _updated_near(
    form: PrimalForm, loss: Smoothed, reach: float, *, slack: float, max_steps: int
) -> np.ndarray | None:
    """The same by the rows within reach; None, with the form where it was, if they are too many."""
    settings, point = form.settings, form.point
    z = loss.at(form.p)
    weights, distance = loss.weights(z), loss.distance(z)
    is_near = (distance < reach) | loss.is_between(loss.centre)
    least = min(2 * form.A.k, form.m - 1)  # as many rows as hold w, and some more
    if np.count_nonzero(is_near) < least:
        is_near |= distance <= np.partition(distance, least)[least]
    for number in range(settings.box_near_rounds):
        index = np.flatnonzero(is_near)
        if index.size > settings.box_near_share * form.m:
            break
        near, some = NearForm(form, index, weights), loss.some(index)
        minimise_smoothed(near, some, slack=slack, max_steps=max_steps, is_first=number > 0)
        form.go(near.point.x)
        z, held = loss.at(form.p), weights
        weights = loss.weights(z)
        missed = np.count_nonzero((weights != held) & ~is_near)
        if not missed:
            return weights
        if missed > settings.box_near_missed * form.m:
            break
        is_near |= loss.distance(z) < reach
    form.point = point
    return None
