"""Sure bounds on the best margin, from a candidate w and a candidate q.

Weak duality says γ(w) ≤ γ̄ ≤ ‖Zᵀq‖ for every w ≠ 0 and every q in the dual set. Both sides are
computed here in float64, from the data alone, with every rounding error bounded and moved outward.

A problem is the rows of X (`problem.operator`), their labels and perhaps slack; what is here reads
nothing else. All numbers but those of certificates are in the units of the operator.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.rounding import (
    EXTENDED_ROUNDOFF,
    UNDERFLOW,
    UNIT_ROUNDOFF,
    down,
    gamma,
    up,
)
from momentron.arithmetic.rounding import norm_bounds as vector_norm_bounds
from momentron.certificate.certified import Certificate, admitted
from momentron.certificate.exact import exact_length, exact_margin, takes_whole_numbers

if TYPE_CHECKING:
    from momentron.solvers.problem import Problem

Index = np.ndarray | slice

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
        sharp, and rounded to float64 else. One of Python's integers, of at most 1,000 bits, is
        exact, if the problem is that of two classes without a kernel or slack.
    q : ndarray of shape (n,)
        Any weights, likewise; they are clipped at zero and rescaled into the dual set.
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
    whole = takes_whole_numbers(problem)
    w = admitted(w, problem.w_shape, "w", whole=whole)
    q = admitted(q, (problem.size,), "q", whole=whole)
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
        Xw as from `Operator.scores_in_double`, if it is known for a w that was `recomputed`.
    """
    base = problem.base
    if products is None:
        w = recomputed(base, admitted(w, base.w_shape, "w"))
    norms = norm_bounds(base, w)
    if not (norms[0] > 0.0 and norms[1] < LONG and np.isfinite(b).all()):
        return -math.inf, math.inf
    scores, errors = scores_with_intercepts(base, w, b, norms[1], products)
    low = over_norm(down(-float((scores + errors).max()), 2), norms)
    high = -over_norm(down(float((scores - errors).max()), 2), norms)
    return to_user(problem, low, -np.inf), to_user(problem, high, np.inf)


def margin_bound(problem: "Problem", w: np.ndarray, *, sharp: bool = False) -> float:
    """A sure lower bound on the margin of w, in the operator's units."""
    if w.dtype == object:
        return exact_margin(problem, w)
    w = recomputed(problem, w if sharp else np.asarray(w, np.float64))
    norms = norm_bounds(problem, w)
    if not SHORT < norms[1] < LONG:  # products might overflow or vanish
        w = recomputed(problem, to_safe_length(w))
        norms = norm_bounds(problem, w)
    if not math.isfinite(norms[1]):
        return -np.inf
    if norms[0] == 0.0 and not w.any():
        return 0.0
    w = deciding_rows_in_double(problem, w)
    scores = score_bounds(problem, w, norms[1], sharp=sharp)
    return over_norm(down(problem.dual_set.margin(scores)), norms)


def over_norm(margin: float, norms: tuple[float, float]) -> float:
    """A sure lower bound of margin/‖w‖, for sure bounds on ‖w‖."""
    norm = norms[1] if margin > 0.0 else norms[0]
    bound = down(margin / norm) if norm > 0.0 else -math.inf
    return -math.inf if math.isnan(bound) else bound


def score_bounds(problem: "Problem", w: np.ndarray, norm: float, *, sharp: bool) -> np.ndarray:
    """Sure upper bounds of the scores of a recomputed w, whose norm is at most `norm`.

    Sharp, they are in extended precision, and sharper where they decide. A score lies between its
    bound less twice its error and that bound: a row whose bound is below what others surely reach
    stays below them after sharpening, and only the others are recomputed.
    """
    scores, errors = _worst_scores(problem, w, norm)
    if not sharp:
        return scores
    index = problem.dual_set.near_worst(scores, 2.0 * errors)
    sharper = sharp_scores(problem, index, w)
    # one more rounding for the sum with the errors
    sharper += score_errors(problem, index, w, norm, EXTENDED_ROUNDOFF, 1)
    sharper += 4.0 * np.abs(sharper) * gamma(1, EXTENDED_ROUNDOFF)
    scores = scores.astype(np.longdouble)
    scores[index] = np.minimum(scores[index], sharper)
    return scores


def _worst_scores(problem: "Problem", w: np.ndarray, norm: float) -> tuple[np.ndarray, np.ndarray]:
    """(sure upper bounds of the scores of a recomputed w, the errors that they allow for)."""
    scores = scores_in_double(problem, w.astype(np.float64, copy=False))
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
    if problem.operator.single_errors(problem.parts(w)[0]) is None:
        return w
    scores, errors = _worst_scores(problem, w, norm_bounds(problem, w)[1])
    return in_double(problem, w, problem.dual_set.near_worst(scores, 2.0 * errors))


# --- what a classifier says of the rows ----------------------------------------------------------


def recomputed(problem: "Problem", w: np.ndarray) -> np.ndarray:
    """w with all that is kept with it recomputed."""
    head, tail = problem.parts(w)
    return problem.joined(problem.operator.recomputed(head), tail)


def norm_bounds(problem: "Problem", w: np.ndarray) -> tuple[float, float]:
    """Sure lower and upper bounds of ‖w‖."""
    head, tail = problem.parts(w)
    low, high = problem.operator.norm_bounds(head)
    if not problem.is_soft:
        return low, high
    tail_low, tail_high = vector_norm_bounds(tail)
    least = float(np.hypot(low, tail_low)) * (1.0 - 8.0 * UNIT_ROUNDOFF) - UNDERFLOW
    return max(0.0, least), up(float(np.hypot(high, tail_high)), 8) + UNDERFLOW


def scores_in_double(problem: "Problem", w: np.ndarray) -> np.ndarray:
    """Zw in float64 arithmetic, whatever the data's type."""
    head, tail = problem.parts(w)
    scores = problem.labels.scores(problem.operator.scores_in_double(head))
    return scores - problem.penalty.root * tail if problem.is_soft else scores


def sharp_scores(problem: "Problem", index: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The named entries of Zw in extended precision, with roundings as in `scores_in_double`."""
    head, tail = problem.parts(w)
    rows, place = np.unique(problem.labels.examples(index), return_inverse=True)
    products = problem.operator.sharp_scores(rows, head)[place]
    scores = problem.labels.scores_at(index, products)
    if not problem.is_soft:
        return scores
    return scores - np.asarray(problem.penalty.root_at(index), np.longdouble) * tail[index]


def score_errors(
    problem: "Problem", index: Index, w: np.ndarray, norm: float, unit: float, extra: int
) -> np.ndarray:
    """Bounds on the error of the named scores, computed with a given unit roundoff.

    `norm` is an upper bound of ‖w‖, `extra` counts roundings besides those of the scores.
    """
    operator, labels = problem.operator, problem.labels
    head, tail = problem.parts(w)
    if problem.is_soft:
        norm, extra = operator.norm_bounds(head)[1], extra + 2
    # |fl(x·w) − x·w| ≤ γ_d |x|·|w| ≤ γ_d ‖x‖ ‖w‖; underflow costs at most one unit per rounding
    depth = operator.score_depth(head) + labels.roundings
    relative = up(gamma(depth + extra, unit) + operator.kernel_error)
    errors = problem.base.row_norms[index] * up(relative * operator.magnitude(head, norm))
    errors += depth * UNDERFLOW
    single = operator.single_errors(head)
    if single is not None:
        # with many classes a score has two outputs
        most = single if single.ndim == 1 else 2.0 * single.max(axis=1)
        numbers = np.arange(problem.size)[index] if isinstance(index, slice) else index
        errors += (1.0 + 8.0 * gamma(1)) * most[labels.examples(numbers)]
    if not problem.is_soft:
        return errors
    # four roundings here, and those of the root, which is a float64 whatever the unit
    relative = up(4.0 * unit + 4.0 * UNIT_ROUNDOFF, 8)
    return errors + relative * np.abs(problem.penalty.root_at(index) * tail[index])


def scores_with_intercepts(
    base: "Problem", w: np.ndarray, b: Any, norm: float, products: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(scores of a recomputed w with intercepts b, bounds on their errors), without slack.

    `norm` is an upper bound of ‖w‖; `products` are Xw, if they are known.
    """
    if products is None:
        products = base.operator.scores_in_double(w)
    # b and the sums round as well
    errors = score_errors(base, slice(None), w, norm, UNIT_ROUNDOFF, 24)
    errors += 64.0 * UNIT_ROUNDOFF * float(np.max(np.abs(b), initial=0.0))
    return base.labels.scores(products + b), errors


def in_double(problem: "Problem", w: np.ndarray, index: np.ndarray) -> np.ndarray:
    """A `recomputed` w whose named scores rest on double precision."""
    head, tail = problem.parts(w)
    rows = np.unique(problem.labels.examples(index))
    return problem.joined(problem.operator.in_double(head, rows), tail)


# --- what weights of the rows prove --------------------------------------------------------------


def dual_bound(problem: "Problem", q: np.ndarray, *, sharp: bool = False) -> float:
    """A sure upper bound on ‖Zᵀq‖ for q brought into the dual set, in the operator's units."""
    if q.dtype == object:
        return exact_length(problem, q)
    q = problem.dual_set.normalize(np.asarray(q, np.longdouble if sharp else np.float64))
    return length_bound(problem, q, sharp=sharp)


def length_bound(problem: "Problem", q: np.ndarray, *, sharp: bool = False) -> float:
    """The same for a q that `normalize` gave: of the weights in the dual set next to it."""
    if problem.longest == 0.0:
        return 0.0
    norms, labels, root = problem.row_norms, problem.labels, problem.penalty.root
    roundings = int(np.count_nonzero(q)) + 2
    weighted_norms = up(float(q.astype(np.float64, copy=False) @ norms), roundings)
    norm = problem.operator.adjoint_norm_bound(labels.mix(q), weighted_norms, sharp=sharp)
    if labels.roundings > 0:  # the coefficients are sums of weights, each rounded that often
        norm = up(norm + gamma(labels.roundings + 1) * weighted_norms)
    if problem.penalty.has_ridge:
        # what slack adds to the weighted norms only loosens the rows' share; roots round once more
        # each; what underflows is allowed for in the norm
        norm = up(float(np.hypot(norm, vector_norm_bounds(root * q)[1])), 12)
    return up(norm + problem.dual_set.mass_error(q, norms, weighted_norms, norm), 6)


# --- lengths and units ---------------------------------------------------------------------------


def to_safe_length(w: np.ndarray) -> np.ndarray:
    """w scaled by a power of two to length about 1, which changes no margin."""
    if w.dtype != np.longdouble:
        w = np.asarray(w, dtype=np.float64)
    top = float(np.max(np.abs(w), initial=0.0))
    if top == 0.0 or not math.isfinite(top):
        return w
    return np.ldexp(w, -np.frexp(top)[1])


def to_user(problem: "Problem", value: float, direction: float) -> float:
    """A bound in the units of X; scaling by a power of two may round at the ends of the range."""
    if problem.exponent == 0:
        return value
    with np.errstate(over="ignore", under="ignore"):
        return float(np.nextafter(np.ldexp(value, problem.exponent), direction))
