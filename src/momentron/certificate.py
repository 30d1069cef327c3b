"""The certificate: from any (w, q) to an interval that contains the best margin.

Weak duality says γ(w) ≤ γ̄ ≤ ‖Zᵀq‖ for every w ≠ 0 and every q in the dual set. Both sides are
computed here in float64, from the data alone, with every rounding error bounded and moved outward:
a bad solver can loosen the interval, never falsify it.
"""

from dataclasses import dataclass

import numpy as np

from momentron.problem import Problem
from momentron.rounding import UNDERFLOW, down, gamma, norm_bounds, up


@dataclass(frozen=True)
class Certificate:
    """A proven interval on the best margin γ̄, in the units of X.

    Attributes
    ----------
    lower, upper : float
        lower ≤ γ̄ ≤ upper. lower is never negative, since γ(0) = 0.
    margin : float
        A proven lower bound on the margin of w itself; negative where w errs.
    """

    lower: float
    upper: float
    margin: float

    @property
    def width(self) -> float:
        return self.upper - self.lower

    @property
    def gap(self) -> float:
        """(upper − lower)/upper, and 0 where both are 0."""
        return relative_gap(self.lower, self.upper)


def relative_gap(lower: float, upper: float) -> float:
    """(upper − lower)/upper, the quantity that `tol` bounds."""
    if upper <= lower:  # both zero, or crossed by a rounding within the bounds
        return 0.0
    if not np.isfinite(upper):
        return float("inf")
    return 1.0 - lower / upper


def certify(problem: Problem, w: np.ndarray, q: np.ndarray) -> Certificate:
    """Certify an interval on the best margin from a candidate w and a candidate q.

    Parameters
    ----------
    problem : Problem
    w : ndarray of shape (d,)
        Any vector; its length does not matter.
    q : ndarray of shape (n,)
        Any weights; they are clipped at zero and rescaled into the dual set.

    Returns
    -------
    Certificate

    Notes
    -----
    Costs one pass over the data for w, and one over the rows with q_i > 0.
    """
    margin = _to_user(problem, margin_bound(problem, w), -np.inf)
    upper = _to_user(problem, dual_bound(problem, q), np.inf)
    return Certificate(lower=max(0.0, margin), upper=max(0.0, upper), margin=margin)


def margin_bound(problem: Problem, w: np.ndarray) -> float:
    """A sure lower bound on the margin of w, in the operator's units."""
    w = _safe_length(w)
    norm_low, norm_high = norm_bounds(w)
    if norm_high == 0.0 or not np.isfinite(norm_high):
        return 0.0 if norm_high == 0.0 else -np.inf
    operator = problem.operator
    scores = problem.dual_set.scores(operator.exact_scores(w))
    # |fl(x·w) − x·w| ≤ γ_d |x|·|w| ≤ γ_d ‖x‖ ‖w‖; larger scores are worse, so add the error. The
    # one more rounding is that of score + error; what X lost by its power-of-two scaling and w by
    # its own lies within depth · UNDERFLOW.
    depth = operator.score_depth
    scores += operator.row_norms * up(gamma(depth + 1) * norm_high) + depth * UNDERFLOW
    margin = down(problem.dual_set.margin(scores))
    return down(margin / (norm_high if margin > 0.0 else norm_low))


def dual_bound(problem: Problem, q: np.ndarray) -> float:
    """A sure upper bound on ‖Zᵀq‖ for q brought into the dual set, in the operator's units."""
    operator = problem.operator
    if operator.radius == 0.0:
        return 0.0
    q = problem.dual_set.normalize(q)
    _, norm = norm_bounds(operator.exact_adjoint(problem.dual_set.mix(q)))
    n_nonzero = int(np.count_nonzero(q))
    # one chain of roundings for the products, four more for the mass of q
    depth = operator.adjoint_depth(n_nonzero) + 4
    weighted_norms = float(q @ operator.row_norms)
    error = gamma(depth) * up(weighted_norms, n_nonzero + 2)
    # weights and entries below the smallest float may have vanished
    underflow = n_nonzero * operator.shape[1] * UNDERFLOW * (1.0 + operator.radius)
    return up(norm + error + underflow)


def _safe_length(w: np.ndarray) -> np.ndarray:
    """w in float64, scaled by a power of two to length about 1, which changes no margin."""
    w = np.asarray(w, dtype=np.float64)
    top = float(np.max(np.abs(w), initial=0.0))
    if top == 0.0 or not np.isfinite(top):
        return w
    return np.ldexp(w, -int(np.frexp(top)[1]))


def _to_user(problem: Problem, value: float, direction: float) -> float:
    """A bound in the units of X; scaling by a power of two may round at the ends of the range."""
    if problem.exponent == 0:
        return value
    with np.errstate(over="ignore", under="ignore"):
        return float(np.nextafter(np.ldexp(value, problem.exponent), direction))
