"""The interval on the best margin of separable data: floats propose it, whole numbers prove it.

γ(w) ≤ γ̄ ≤ ‖Σ q a‖ / Σ q for every w and q. Both ends are roots of rationals, rounded outward at the
very end. With an intercept, as much weight must flow into each class as flows out of it, exactly,
which whole numbers can do.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from momentron.api import max_margin
from momentron.arithmetic.clock import OutOfTime, deadline, require_time, time_left, until
from momentron.arithmetic.rounding import rational_root
from momentron.separability.cone import Cone
from momentron.separability.exact_weights import ExactWeights
from momentron.separability.projection import whole_multiples
from momentron.solvers.rational import TooLarge
from momentron.status import Status

SECONDS = 10.0  # for the interval, once the verdict is known
FIRST_ENTRIES = 100_000  # of X that are read for the mean of a class
TOLERANCE = 1e-6
DUAL_BITS = 50


@dataclass(frozen=True)
class Interval:
    """lower ≤ γ̄ ≤ upper with the w and the q that prove it."""

    lower: float = 0.0
    upper: float = 0.0
    w: Sequence[int] = ()
    dual: ExactWeights | None = None


def margin_interval(cone: Cone, w: list[int]) -> Interval:
    """The best interval from w, the means of the classes, and `max_margin` within a few seconds.

    Without a separating w to start from, `lower` may turn out to be 0. Once there is a lower bound
    above 0 the time is not exceeded: the interval is what has been found by then.
    """
    found = first_interval(cone)
    if w:
        lower = lower_bound(cone, w) if cone.family.compares_classes else 0.0
        found = replace(found, lower=lower, w=w)
        if lower == 0.0 or not cone.family.is_classifier:
            return found
    # what is found must be read exactly here, and verified by the caller
    closing = cone.closing_seconds
    try:
        require_time(closing)
        with until(deadline() - closing / 2):
            proposed, q = _proposed(cone, min(SECONDS, time_left() - closing / 2))
            dual = balanced(cone, q)
            lower, upper = lower_bound(cone, proposed), upper_bound(cone, dual)
    except (OutOfTime, TooLarge):
        if w:
            return found
        raise
    if lower > found.lower:
        found = replace(found, lower=lower, w=proposed)
    return replace(found, upper=upper, dual=dual) if upper < found.upper else found


def first_interval(cone: Cone) -> Interval:
    """[0, an upper bound], soon: from the means of the first rows of two classes."""
    if not cone.family.compares_classes:
        return Interval(upper=math.inf)
    most = max(1, FIRST_ENTRIES * cone.n // (1 + int(cone.table.ends[-1])))
    first, second = cone.between(0, 1)[:most], cone.between(1, 0)[:most]
    numerators = [second.size] * first.size + [first.size] * second.size
    dual = ExactWeights(np.append(first, second), numerators)
    return Interval(upper=upper_bound(cone, dual), dual=dual)


def _proposed(cone: Cone, seconds: float) -> tuple[list[int], np.ndarray]:
    """(w, q) of the best margin in floats; w is 0 where it leaves their range."""
    with warnings.catch_warnings():
        # at the end of float64 a solver may well complain; the verdict is known already
        warnings.simplefilter("ignore")
        kept, X = cone.kept, cone.X[cone.kept]
        result = max_margin(
            X.toarray() if 2 * X.nnz > X.shape[0] * X.shape[1] else X,
            cone.codes[kept],
            fit_intercept=cone.fit_intercept,
            tol=TOLERANCE,
            max_time=seconds,
        )
    if result.status == Status.INTERRUPTED:  # it hands over what it has; we have more to do
        raise KeyboardInterrupt
    W = np.column_stack([np.atleast_2d(result.coef), np.atleast_1d(result.intercept)])
    W = W[:, : cone.width]
    dual = result.full_dual()
    place = np.searchsorted(kept, cone.example)
    if cone.k == 2:
        q = dual[place]
    else:
        q = dual[place, cone.other]
        with np.errstate(over="ignore", invalid="ignore"):
            W = W[1:] - W[0]
    w = W.ravel() if np.isfinite(W).all() else np.zeros(W.size)
    return whole_multiples(w), q


def lower_bound(cone: Cone, w: list[int]) -> float:
    """A float at most min a·w / ‖w‖, for whole w; 0 where an example is not on its side."""
    least = min(cone.pairs.sides(w), default=0)
    if least <= 0:
        return 0.0
    W = np.array(w, object).reshape(-1, cone.width)[:, : cone.n_features]
    length = Fraction(int((W * W).sum()))
    if len(W) > 1:  # the least over all shifts by one vector; w_0 = 0
        length -= Fraction(int((W.sum(axis=0) ** 2).sum()), len(W) + 1)
    return rational_root(Fraction(least**2, cone.scale**2) / length) if length else 0.0


def upper_bound(cone: Cone, dual: ExactWeights) -> float:
    """A float at least ‖Σ q a‖ / Σ q; inf where q does not cancel along the intercepts."""
    total = np.array(cone.pair_rows(dual.pairs).combine(dual.numerators), object)
    total, flow = np.split(total.reshape(-1, cone.width), [cone.n_features], axis=1)
    if flow.any():
        return math.inf
    square = int((total * total).sum())
    if len(total) > 1:  # what the other classes sum to, class 0 has with the other sign
        square += int((total.sum(axis=0) ** 2).sum())
    return rational_root(Fraction(square, (sum(dual.numerators) * cone.scale) ** 2), up=True)


def balanced(cone: Cone, q: np.ndarray) -> ExactWeights:
    """Float weights as whole ones; with intercepts, what flows out of a class flows into it.

    The solver's weights do so up to rounding. The few units that are left are sent through class
    0, along its heaviest pairs.
    """
    whole = np.array([round(v * 2**DUAL_BITS) for v in (q / q.max()).tolist()], object)
    if cone.fit_intercept:
        own, other = cone.own, cone.other
        for c in range(1, cone.k):
            excess = whole[own == c].sum() - whole[other == c].sum()
            lane = cone.between(0, c) if excess > 0 else cone.between(c, 0)
            whole[lane[int(q[lane].argmax())]] += abs(excess)
    kept = np.flatnonzero(whole > 0)
    return ExactWeights(kept, [int(v) for v in whole[kept]], 1)
