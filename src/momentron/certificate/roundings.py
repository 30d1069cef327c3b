"""Zw, ‖w‖ and ‖Zᵀq‖ in float64 and in extended precision, with sure bounds on their errors.

A problem is the rows of X (`problem.operator`), their labels and perhaps slack; what is here reads
nothing else. All numbers are in the units of the operator.
"""

from typing import TYPE_CHECKING

import numpy as np

from momentron.arithmetic.rounding import UNDERFLOW, UNIT_ROUNDOFF, gamma, up
from momentron.arithmetic.rounding import norm_bounds as vector_norm_bounds

if TYPE_CHECKING:
    from momentron.solvers.problem import Problem

Index = np.ndarray | slice


# --- classifiers ---------------------------------------------------------------------------------


def recomputed(problem: "Problem", w: np.ndarray) -> np.ndarray:
    """w with all that is kept with it recomputed."""
    if not problem.is_soft:
        return problem.operator.recomputed(w)
    head, tail = problem.parts(w)
    return problem.joined(problem.operator.recomputed(head), tail)


def norm_bounds(problem: "Problem", w: np.ndarray) -> tuple[float, float]:
    """Sure lower and upper bounds of ‖w‖."""
    if not problem.is_soft:
        return problem.operator.norm_bounds(w)
    head, tail = problem.parts(w)
    low, high = problem.operator.norm_bounds(head)
    tail_low, tail_high = vector_norm_bounds(tail)
    least = float(np.hypot(low, tail_low)) * (1.0 - 8.0 * UNIT_ROUNDOFF) - UNDERFLOW
    return max(0.0, least), up(float(np.hypot(high, tail_high)), 8) + UNDERFLOW


def exact_scores(problem: "Problem", w: np.ndarray) -> np.ndarray:
    """Zw in float64 arithmetic, whatever the data's type."""
    operator, labels = problem.operator, problem.labels
    if not problem.is_soft:
        return labels.scores(operator.exact_scores(w))
    head, tail = problem.parts(w)
    return labels.scores(operator.exact_scores(head)) - problem.penalty.root * tail


def sharp_scores(problem: "Problem", index: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The named entries of Zw in extended precision, with roundings as in `exact_scores`."""
    labels, penalty = problem.labels, problem.penalty
    head, tail = problem.parts(w) if problem.is_soft else (w, w)
    rows, place = np.unique(labels.examples(index), return_inverse=True)
    scores = labels.scores_at(index, problem.operator.sharp_scores(rows, head)[place])
    if not problem.is_soft:
        return scores
    return scores - np.asarray(penalty.root_at(index), np.longdouble) * tail[index]


def score_errors(
    problem: "Problem", index: Index, w: np.ndarray, norm: float, unit: float, extra: int
) -> np.ndarray:
    """Bounds on the error of the named scores, computed with a given unit roundoff.

    `norm` is an upper bound of ‖w‖, `extra` counts roundings besides those of the scores.
    """
    if not problem.is_soft:
        return _row_errors(problem, index, w, norm, unit, extra)
    head, tail = problem.parts(w)
    norm = problem.operator.norm_bounds(head)[1]
    errors = _row_errors(problem.base, index, head, norm, unit, extra + 2)
    # four roundings here, and those of the root, which is a float64 whatever the unit
    relative = up(4.0 * unit + 4.0 * UNIT_ROUNDOFF, 8)
    return errors + relative * np.abs(problem.penalty.root_at(index) * tail[index])


def _row_errors(
    problem: "Problem", index: Index, w: np.ndarray, norm: float, unit: float, extra: int
) -> np.ndarray:
    """The same for a problem without slack."""
    operator, labels = problem.operator, problem.labels
    # |fl(x·w) − x·w| ≤ γ_d |x|·|w| ≤ γ_d ‖x‖ ‖w‖; underflow costs at most one unit per rounding
    depth = operator.score_depth(w) + labels.roundings
    relative = up(gamma(depth + extra, unit) + operator.kernel_error)
    errors = problem.row_norms[index] * up(relative * operator.magnitude(w, norm))
    errors += depth * UNDERFLOW
    single = operator.single_errors(w)
    if single is None:
        return errors
    most = single if single.ndim == 1 else 2.0 * single.max(axis=1)  # a score has two outputs then
    numbers = np.arange(problem.size)[index] if isinstance(index, slice) else index
    return errors + (1.0 + 8.0 * gamma(1)) * most[labels.examples(numbers)]


def has_single_errors(problem: "Problem", w: np.ndarray) -> bool:
    """Whether some scores of a `recomputed` w rest on less than double precision."""
    return problem.operator.single_errors(problem.without_slack(w)) is not None


def in_double(problem: "Problem", w: np.ndarray, index: np.ndarray) -> np.ndarray:
    """A `recomputed` w whose named scores rest on double precision."""
    rows = np.unique(problem.labels.examples(index))
    if not problem.is_soft:
        return problem.operator.in_double(w, rows)
    head, tail = problem.parts(w)
    return problem.joined(problem.operator.in_double(head, rows), tail)


# --- weights -------------------------------------------------------------------------------------


def adjoint_norm_bound(
    problem: "Problem", q: np.ndarray, weighted_norms: float, *, sharp: bool = False
) -> float:
    """A sure upper bound of ‖Zᵀq‖ for q ≥ 0, given one of Σ q‖z‖."""
    labels, root = problem.labels, problem.penalty.root
    bound = problem.operator.adjoint_norm_bound(labels.mix(q), weighted_norms, sharp=sharp)
    if labels.roundings > 0:  # the coefficients are sums of weights, each rounded that often
        bound = up(bound + gamma(labels.roundings + 1) * weighted_norms)
    if not problem.penalty.has_ridge:
        return bound
    # what slack adds to the weighted norms only loosens the rows' share; roots that differ round
    # once more each; what underflows is allowed for in the norm
    if isinstance(root, float):
        tail = root * vector_norm_bounds(q)[1]
    else:
        tail = vector_norm_bounds(root * q)[1]
    return up(float(np.hypot(bound, tail)), 12)
