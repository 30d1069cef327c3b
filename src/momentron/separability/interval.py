"""The interval on the best margin of separable data: floats propose it, whole numbers prove it.

γ(w) ≤ γ̄ ≤ ‖Σ q a‖ / Σ q for every w and q. Both ends are roots of rationals, rounded outward at the
very end. With an intercept, as much weight must flow into each class as flows out of it, exactly,
which whole numbers can do.
"""

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from momentron.api import max_margin
from momentron.clock import OutOfTime, deadline, require_time, time_left, until
from momentron.separability.basis import ExactWeights
from momentron.separability.memory import TooLarge
from momentron.separability.pairs import Pairs, whole_multiples
from momentron.separability.roots import root_down, root_up
from momentron.status import Status

SECONDS = 10.0  # for the interval, once the verdict is known
SECONDS_PER_ENTRY = 4e-7  # of an exact product, with all that belongs to it
FEW_CLASSES = 4  # among which two rows are looked for
TOLERANCE = 1e-6
DUAL_BITS = 50


@dataclass(frozen=True)
class Interval:
    """lower ≤ γ̄ ≤ upper with the w and the q that prove it."""

    lower: float
    upper: float
    w: list[int]
    dual: ExactWeights


def reading_seconds(pairs: Pairs, times: float = 1.0) -> float:
    """About how long it takes to use every entry of X in whole numbers so many times."""
    n_entries = pairs.data.n_entries + pairs.n * (1 + pairs.k)
    return times * n_entries * (pairs.k - 1) * SECONDS_PER_ENTRY


def margin_interval(pairs: Pairs, w: list[int] | None) -> Interval:
    """The best interval from w, the means of the classes, and `max_margin` within a few seconds.

    Without a separating w to start from, `lower` may turn out to be 0. Once there is a lower bound
    above 0 the time is not exceeded: the interval is what has been found by then.
    """
    found = _first_interval(pairs)
    if w:
        lower = lower_bound(pairs, w)
        found = Interval(lower, found.upper, w, found.dual)
        if lower == 0.0:
            return found
    # what is found must be read exactly here, and verified by the caller
    closing = reading_seconds(pairs, 3.0)
    try:
        require_time(closing)
        with until(deadline() - closing / 2):
            return _improved(pairs, found, min(SECONDS, time_left() - closing / 2))
    except (OutOfTime, TooLarge):
        if w:
            return found
        raise


def _first_interval(pairs: Pairs) -> Interval:
    """[0, an upper bound]: from the classes' means if there is time to read X, else two rows."""
    duals = [two_rows(pairs, *both) for both in combinations(range(min(pairs.k, FEW_CLASSES)), 2)]
    if reading_seconds(pairs) < min(SECONDS, time_left() / 4):
        duals = [class_means(pairs, *both) for both in combinations(range(pairs.k), 2)]
    bounds = [upper_bound(pairs, dual) for dual in duals]
    best = int(np.argmin(bounds))
    return Interval(0.0, bounds[best], [], duals[best])


def _improved(pairs: Pairs, found: Interval, seconds: float) -> Interval:
    """The interval with the w and the q that `max_margin` proposes, where they are better."""
    w, q = _proposed(pairs, seconds)
    if w is None:
        return found
    dual = balanced(pairs, q)
    lower, upper = lower_bound(pairs, w), upper_bound(pairs, dual)
    return Interval(
        max(lower, found.lower),
        min(upper, found.upper),
        w if lower > found.lower else found.w,
        dual if upper < found.upper else found.dual,
    )


def _proposed(pairs: Pairs, seconds: float) -> tuple[list[int] | None, np.ndarray]:
    """(w, q) of the best margin in floats; w is None where it leaves their range."""
    with warnings.catch_warnings():
        # at the end of float64 a solver may well complain; the verdict is known already
        warnings.simplefilter("ignore")
        result = max_margin(
            pairs.X,
            pairs.codes,
            fit_intercept=pairs.fit_intercept,
            tol=TOLERANCE,
            max_time=seconds,
        )
    if result.status == Status.INTERRUPTED:  # it hands over what it has; we have more to do
        raise KeyboardInterrupt
    W = np.column_stack([np.atleast_2d(result.coef), np.atleast_1d(result.intercept)])
    W = W[:, : pairs.width]
    dual = result.full_dual()
    if pairs.k == 2:
        q = dual[pairs.example]
    else:
        q = dual[pairs.example, pairs.other]
        with np.errstate(over="ignore", invalid="ignore"):
            W = W[1:] - W[0]
    w = W.ravel()
    is_finite = np.isfinite(w).all()
    return (whole_multiples(w, np.zeros(w.size, np.int64)) if is_finite else None), q


def lower_bound(pairs: Pairs, w: list[int]) -> float:
    """A float at most min a·w / ‖w‖, for whole w; 0 where an example is not on its side."""
    vectors = [w[c : c + pairs.width] for c in range(0, len(w), pairs.width)]
    least: int | None = None
    for own, (columns, x) in zip(pairs.codes.tolist(), pairs.whole_rows(), strict=True):
        require_time()
        scores = [0, *(sum(map(int.__mul__, x, map(v.__getitem__, columns))) for v in vectors)]
        score = scores.pop(own)
        s = score - max(scores)
        least = s if least is None else min(least, s)
        if least <= 0:
            return 0.0
    length = _squared_norm([v[: pairs.n_features] for v in vectors], pairs.k)
    if least is None or length == 0:
        return 0.0
    return root_down(Fraction(least**2, 4**-pairs.data.unit) / length)


def _squared_norm(vectors: list[list[int]], k: int) -> Fraction:
    """Σ‖w_c‖² with w_0 = 0; for k > 2 the least over all shifts of the w_c by one vector."""
    total = sum(v * v for vector in vectors for v in vector)
    if k == 2:
        return Fraction(total)
    common = sum(sum(column) ** 2 for column in zip(*vectors, strict=True))
    return total - Fraction(common, k)


def upper_bound(pairs: Pairs, dual: ExactWeights) -> float:
    """A float at least ‖Σ q a‖ / Σ q; inf where q does not cancel along the intercepts."""
    total = pairs.combine(dual.pairs, dual.numerators)
    vectors = [total[c : c + pairs.width] for c in range(0, len(total), pairs.width)]
    if any(v for vector in vectors for v in vector[pairs.n_features :]):
        return math.inf
    columns = list(zip(*(v[: pairs.n_features] for v in vectors), strict=True))
    square = sum(v * v for column in columns for v in column)
    if pairs.k > 2:  # what the other classes sum to, class 0 has with the other sign
        square += sum(sum(column) ** 2 for column in columns)
    return root_up(Fraction(square, sum(dual.numerators) ** 2 * 4**-pairs.data.unit))


def balanced(pairs: Pairs, q: np.ndarray) -> ExactWeights:
    """Float weights as whole ones; with intercepts, what flows out of a class flows into it.

    The solver's weights do so up to rounding. The few units that are left are sent through class
    0, along its heaviest pairs.
    """
    whole = np.array([round(v * 2**DUAL_BITS) for v in (q / q.max()).tolist()], object)
    if pairs.fit_intercept:
        own, other = pairs.own, pairs.other
        for c in range(1, pairs.k):
            excess = whole[own == c].sum() - whole[other == c].sum()
            lane = pairs.between(0, c) if excess > 0 else pairs.between(c, 0)
            whole[lane[int(q[lane].argmax())]] += abs(excess)
    kept = np.flatnonzero(whole > 0)
    return ExactWeights(kept, [int(v) for v in whole[kept]], 1)


def two_rows(pairs: Pairs, c: int = 0, j: int = 1) -> ExactWeights:
    """The first row of each of two classes: γ̄ is at most half their distance."""
    both = [int(pairs.between(c, j)[0]), int(pairs.between(j, c)[0])]
    return ExactWeights(np.array(both), [1, 1], 1)


def class_means(pairs: Pairs, c: int = 0, j: int = 1) -> ExactWeights:
    """Equal weights in each of two classes: γ̄ is at most half the distance of their means."""
    first, second = pairs.between(c, j), pairs.between(j, c)
    numerators = [second.size] * first.size + [first.size] * second.size
    return ExactWeights(np.concatenate([first, second]), numerators, 1)
