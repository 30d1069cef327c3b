"""Sure bounds on the soft margin with the plain hinge, from a classifier and weights in a box.

    P(w, b) = ½‖w‖² + Σ C_i max(0, 1 − p_i)   and   D(α) = Σ α_i − ½‖Zᵀα‖²,   0 ≤ α_i ≤ C_i,

with p the functional margins and α balanced as the intercepts ask. Every P is at least the least
objective, every D at most. As for the squared hinge, what is certified is 1/√(2 · least objective),
which is the best margin itself where no slack pays.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.rounding import UNIT_ROUNDOFF, accurate_sum, down, up
from momentron.certificate.bounds import (
    LONG,
    certificate_of,
    in_double,
    length_bound,
    norm_bounds,
    recomputed,
    scores_with_intercepts,
)
from momentron.certificate.certified import Certificate

if TYPE_CHECKING:
    from momentron.solvers.problem import Problem

# Stretching a classifier a little takes rows that are at the margin but for rounding off their
# slack, which counts where C is large.
STRETCHES = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
NO_SLACK = 1.001  # a functional margin that is surely enough
BALANCED = 1e-12  # what Yᵀα may be off by, in units of Σα, where that is rounding


@standard_arithmetic()
def certify_hinge(
    problem: "Problem", v: np.ndarray, alpha: np.ndarray, *, sharp: bool = False
) -> Certificate:
    """The interval that an admitted pair proves: v = (w, b), and α in any scale near the box."""
    value, ray, bound = objective_bound(problem, v)[0], _ray(problem, alpha, sharp=sharp), 0.0
    if ray is not None:  # D is at least this, in the operator's units
        _, length, scale = ray
        mass = down(scale * (1.0 - 16.0 * UNIT_ROUNDOFF), 4)
        bound = down(mass - up(0.5 * up(scale * length) ** 2, 8), 4)
    lower = down(1.0 / up(math.sqrt(2.0 * value))) if value > 0.0 else math.inf
    upper = up(1.0 / down(math.sqrt(2.0 * bound))) if bound > 0.0 else math.inf
    return certificate_of(problem, lower, upper)


def objective_bound(problem: "Problem", v: np.ndarray) -> tuple[float, float, np.ndarray]:
    """(a sure upper bound on P, in the operator's units; how much v is stretched for it; w)."""
    base = problem.base
    w, b = problem.parts(np.asarray(v, np.float64))
    w, b = recomputed(base, w), b if b.size > 1 else b[0]
    _, norm = norm_bounds(base, w)
    if not (norm < LONG and np.isfinite(b).all()):
        return math.inf, 0.0, w
    scores, errors = scores_with_intercepts(base, w, b, norm)
    if base.operator.single_errors(w) is not None:
        # single precision does for rows that surely have no slack
        w = in_double(base, w, np.flatnonzero(scores + errors > -NO_SLACK))
        scores, errors = scores_with_intercepts(base, w, b, norm)
    scores += errors  # larger scores are worse
    value, stretch = min((_value(problem.prices, scores, norm, 1.0 + t), t) for t in STRETCHES)
    return value, stretch, w


def _value(prices: np.ndarray, scores: np.ndarray, norm: float, stretch: float) -> float:
    """½‖w‖² + Σ C max(0, 1 + score), rounded up."""
    # the roundings of 1 + t·score come before the maximum: at zero they may hide a slack
    slack = 1.0 + stretch * scores
    slack += 8.0 * UNIT_ROUNDOFF * (1.0 + np.abs(scores))
    np.maximum(slack, 0.0, out=slack)
    with np.errstate(over="ignore", invalid="ignore"):
        total = up(accurate_sum(prices * slack), 8)
        # the entries of the stretched classifier round as well
        value = up(0.5 * up(stretch * norm, 3) ** 2 + total, 8)
    return math.inf if math.isnan(value) else value


def box_weights(problem: "Problem", alpha: np.ndarray) -> np.ndarray:
    """Weights in the box, balanced as the intercepts ask: those whose D is certified.

    Weights that are balanced but for rounding stay as they are, at their bounds exactly.
    """
    inside = np.minimum(np.maximum(alpha, 0.0), problem.prices)
    off = np.abs(problem.labels.mix(inside).sum(axis=0)).max()
    if not problem.dual_set.fits_intercept or off <= BALANCED * float(inside.sum()):
        return inside
    ray = _ray(problem, alpha)
    return np.zeros(alpha.size) if ray is None else np.minimum(ray[2] * ray[0], problem.prices)


def _ray(
    problem: "Problem", alpha: np.ndarray, *, sharp: bool = False
) -> tuple[np.ndarray, float, float] | None:
    """(q, a sure bound on ‖Zᵀq‖, τ): α brought into the dual set, as for a margin, and where D is
    largest on its ray within the box, D(τq) = τ − ½τ²‖Zᵀq‖². None where there is nothing.
    """
    prices = problem.prices
    alpha = np.minimum(np.maximum(np.asarray(alpha, np.float64), 0.0), prices)
    if not (np.isfinite(alpha).all() and alpha.any()):  # NaN stays NaN until here
        return None
    q = problem.dual_set.normalize(np.asarray(alpha, np.longdouble if sharp else np.float64))
    length = length_bound(problem, q, sharp=sharp)
    # the weights of the dual set nearest to q may be larger by roundings, and by what is led back
    largest = q.astype(np.float64) * (1.0 + 16.0 * UNIT_ROUNDOFF) + problem.dual_set.excess(q)
    used = largest > 0.0
    with np.errstate(over="ignore"):
        most = float(np.min(prices[used] / largest[used]))
    most = down(most, 8)
    scale = most if length == 0.0 else min(most, 1.0 / length / length)
    return (q, length, scale) if 0.0 < scale < math.inf else None
