"""Sure bounds on the best margin, from a candidate w and a candidate q.

Weak duality says γ(w) ≤ γ̄ ≤ ‖Zᵀq‖ for every w ≠ 0 and every q in the dual set. Both sides are
computed here in float64, from the data alone, with every rounding error bounded and moved outward.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.rounding import (
    EXTENDED_ROUNDOFF,
    UNIT_ROUNDOFF,
    down,
    gamma,
    times_power_of_two,
    up,
)
from momentron.certificate.certified import Certificate
from momentron.certificate.proposals import admitted
from momentron.certificate.roundings import (
    adjoint_norm_bound,
    exact_scores,
    has_single_errors,
    in_double,
    norm_bounds,
    recomputed,
    score_errors,
    sharp_scores,
)

if TYPE_CHECKING:
    from momentron.solvers.problem import Problem

SHORT, LONG = 2.0**-60, 2.0**60  # between them, no product with the scaled data over- or underflows


@standard_arithmetic()
def certify(
    problem: "Problem", w: np.ndarray, q: np.ndarray, *, sharp: bool = False
) -> Certificate:
    """Certify an interval on the best margin from a candidate w and a candidate q.

    Parameters
    ----------
    problem : Problem
    w : ndarray of shape (d,)
        Any vector; its length does not matter. One in extended precision is taken as such if
        sharp, and rounded to float64 else.
    q : ndarray of shape (n,)
        Any weights; they are clipped at zero and rescaled into the dual set.
    sharp : bool
        Use extended precision for the rows that decide, where the platform has it. Without it the
        bounds lose about d·u·R, R the longest row; with it some 2,000 times less.

    Returns
    -------
    Certificate

    Notes
    -----
    Costs one pass over the data for w, and one over the rows with q_i > 0.
    """
    w, q = admitted(w, problem.w_shape, "w"), admitted(q, (problem.size,), "q")
    margin, upper = margin_bound(problem, w, sharp=sharp), dual_bound(problem, q, sharp=sharp)
    return certificate_of(problem, margin, upper)


def certificate_of(problem: "Problem", margin: float, upper: float) -> Certificate:
    """The interval of two bounds in the units of the operator."""
    return Certificate.from_bounds(
        to_user(problem, margin, -np.inf), to_user(problem, upper, np.inf)
    )


@standard_arithmetic()
def certify_margin(problem: "Problem", w: np.ndarray, *, sharp: bool = False) -> float:
    """A sure lower bound on the margin of w alone, in the units of X."""
    w = admitted(w, problem.w_shape, "w")
    return to_user(problem, margin_bound(problem, w, sharp=sharp), -np.inf)


@standard_arithmetic()
def classifier_bounds(
    problem: "Problem", w: np.ndarray, b: Any, *, products: np.ndarray | None = None
) -> tuple[float, float]:
    """Sure lower and upper bounds on the margin of w with intercepts b, which need not be the best.

    In the units of X, and negative where the classifier errs on a row: bounds on the least
    y (x·w + b)/‖w‖, or with many classes on the least difference of outputs. They allow for
    eight more roundings of each entry of w and b.

    Parameters
    ----------
    problem : Problem
    w : ndarray
        In float64, without slack, neither very long nor very short.
    b : float, or ndarray of shape (k,)
        In the units of the operator.
    products : ndarray, optional
        Xw as from `Operator.exact_scores`, if it is known for a w that was `recomputed`.
    """
    base = problem.base
    if products is None:
        w = recomputed(base, admitted(w, base.w_shape, "w"))
        products = base.operator.exact_scores(w)
    norm_low, norm_high = norm_bounds(base, w)
    largest = float(np.max(np.abs(b), initial=0.0))
    if not (norm_low > 0.0 and norm_high < LONG and largest < math.inf):
        return -math.inf, math.inf
    scores = base.labels.scores(products + b)
    errors = score_errors(base, slice(None), w, norm_high, UNIT_ROUNDOFF, 24)
    lost = 64.0 * UNIT_ROUNDOFF * largest
    least = down(-float((scores + errors).max()) - lost, 2)
    most = up(-float((scores - errors).max()) + lost, 2)
    low = down(least / (norm_high if least > 0.0 else norm_low))
    high = up(most / (norm_low if most > 0.0 else norm_high))
    return (
        -math.inf if math.isnan(low) else to_user(problem, low, -np.inf),
        math.inf if math.isnan(high) else to_user(problem, high, np.inf),
    )


def margin_bound(problem: "Problem", w: np.ndarray, *, sharp: bool = False) -> float:
    """A sure lower bound on the margin of w, in the operator's units."""
    w = recomputed(problem, w if sharp else np.asarray(w, np.float64))
    norm_low, norm_high = norm_bounds(problem, w)
    if not SHORT < norm_high < LONG:  # products might overflow or vanish
        w = recomputed(problem, to_safe_length(w))
        norm_low, norm_high = norm_bounds(problem, w)
    if not math.isfinite(norm_high):
        return -np.inf
    if norm_low == 0.0 and not w.any():
        return 0.0
    w = deciding_rows_in_double(problem, w)
    margin = down(problem.dual_set.margin(score_bounds(problem, w, norm_high, sharp=sharp)))
    norm = norm_high if margin > 0.0 else norm_low
    return down(margin / norm) if norm > 0.0 else -np.inf


def score_bounds(problem: "Problem", w: np.ndarray, norm: float, *, sharp: bool) -> np.ndarray:
    """Sure upper bounds of the scores of a recomputed w, whose norm is at most `norm`."""
    scores, errors = _worst_scores(problem, w, norm)
    return _sharpened(problem, w, norm, scores, errors) if sharp else scores


def _worst_scores(problem: "Problem", w: np.ndarray, norm: float) -> tuple[np.ndarray, np.ndarray]:
    """(sure upper bounds of the scores of a recomputed w, the errors that they allow for)."""
    scores = exact_scores(problem, w.astype(np.float64, copy=False))
    # larger scores are worse, so add the error. The two more roundings are those of score + error
    # and of an extended w to float64
    errors = score_errors(problem, slice(None), w, norm, UNIT_ROUNDOFF, 2)
    scores += errors
    return scores, errors


def deciding_rows_in_double(problem: "Problem", w: np.ndarray) -> np.ndarray:
    """A recomputed w with double precision for the scores that may decide its margin.

    A score lies between its bound less twice its error and that bound: a row whose bound is below
    what others surely reach decides nothing, and keeps what it has.
    """
    if not has_single_errors(problem, w):
        return w
    scores, errors = _worst_scores(problem, w, norm_bounds(problem, w)[1])
    return in_double(problem, w, problem.dual_set.near_worst(scores, 2.0 * errors))


def _sharpened(
    problem: "Problem", w: np.ndarray, norm: float, scores: np.ndarray, errors: np.ndarray
) -> np.ndarray:
    """The upper bounds on the scores, in extended precision, with sharper ones where they decide.

    A score lies between its bound less twice its error and that bound: a row whose bound is below
    what others surely reach stays below them after sharpening, and only the others are
    recomputed.
    """
    index = problem.dual_set.near_worst(scores, 2.0 * errors)
    sharper = sharp_scores(problem, index, w)
    # one more rounding for the sum with the errors
    sharper += score_errors(problem, index, w, norm, EXTENDED_ROUNDOFF, 1)
    sharper += 4.0 * np.abs(sharper) * gamma(1, EXTENDED_ROUNDOFF)
    scores = scores.astype(np.longdouble)
    scores[index] = np.minimum(scores[index], sharper)
    return scores


def dual_bound(problem: "Problem", q: np.ndarray, *, sharp: bool = False) -> float:
    """A sure upper bound on ‖Zᵀq‖ for q brought into the dual set, in the operator's units."""
    q = problem.dual_set.normalize(np.asarray(q, np.longdouble if sharp else np.float64))
    return length_bound(problem, q, sharp=sharp)


def length_bound(problem: "Problem", q: np.ndarray, *, sharp: bool = False) -> float:
    """The same for a q that `normalize` gave: of the weights in the dual set next to it."""
    if problem.longest == 0.0:
        return 0.0
    norms = problem.row_norms
    roundings = int(np.count_nonzero(q)) + 2
    weighted_norms = up(float(q.astype(np.float64, copy=False) @ norms), roundings)
    norm = adjoint_norm_bound(problem, q, weighted_norms, sharp=sharp)
    return up(norm + problem.dual_set.mass_error(q, norms, weighted_norms, norm), 6)


def to_safe_length(w: np.ndarray) -> np.ndarray:
    """w scaled by a power of two to length about 1, which changes no margin."""
    if w.dtype != np.longdouble:
        w = np.asarray(w, dtype=np.float64)
    top = float(np.max(np.abs(w), initial=0.0))
    if top == 0.0 or not math.isfinite(top):
        return w
    return times_power_of_two(w, -int(np.frexp(top)[1]))


def to_user(problem: "Problem", value: float, direction: float) -> float:
    """A bound in the units of X; scaling by a power of two may round at the ends of the range."""
    if problem.exponent == 0:
        return value
    with np.errstate(over="ignore", under="ignore"):
        return float(np.nextafter(np.ldexp(value, problem.exponent), direction))
