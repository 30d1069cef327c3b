"""A narrow interval on the margin of separable data, from what `max_margin` proposes."""

import warnings
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.api import max_margin
from momentron.clock import OutOfTime, deadline, require_time, time_left, until
from momentron.result import MarginResult
from momentron.separability.correction import Weights
from momentron.separability.interval import (
    balanced_dual,
    lower_bound,
    mean_dual,
    two_rows,
    upper_bound,
)
from momentron.separability.limits import TooLarge, require_memory
from momentron.separability.rows import BYTES_PER_PAIR_ENTRY, PairRows, whole_multiples
from momentron.status import Status

SECONDS = 10.0  # for the interval, once the verdict is known
SECONDS_PER_ENTRY = 4e-7  # of an exact product, with all that belongs to it
FEW = 4  # classes among which two rows are looked for
TOLERANCE = 1e-6
FLOW_BITS = 50
INTERCEPT_REACH = 2.0**6  # a joint intercept is penalised, as a feature this much longer than X


@dataclass(frozen=True)
class Interval:
    """lower ≤ γ̄ ≤ upper with the w and the q that show it."""

    lower: float
    upper: float
    w: list[int]
    dual: Weights


def reading_seconds(rows: PairRows, times: float = 1.0) -> float:
    """About how long it takes to meet every entry of X in whole numbers so many times."""
    examples = rows.examples
    entries = examples.data.entries + examples.shape[0] * (1 + len(examples.classes))
    return times * entries * (len(examples.classes) - 1) * SECONDS_PER_ENTRY


def first_interval(rows: PairRows) -> Interval:
    """[0, an upper bound]: from the classes' means if there is time to read X, else two rows."""
    k = len(rows.examples.classes)
    duals = [two_rows(rows, pair) for pair in combinations(range(min(k, FEW)), 2)]
    if reading_seconds(rows) < min(SECONDS, time_left() / 4):
        duals = [mean_dual(rows, pair) for pair in combinations(range(k), 2)]
    bounds = [upper_bound(rows, dual) for dual in duals]
    best = int(np.argmin(bounds))
    return Interval(0.0, bounds[best], [], duals[best])


def margin_interval(rows: PairRows, w: list[int] | None) -> Interval:
    """The best interval from w, the classes' means, and `max_margin` within a few seconds.

    Without a separating w to start from, `lower` may turn out to be 0. Once there is a lower bound
    above 0 the time is not exceeded: the interval is what has been found by then.
    """
    found = first_interval(rows)
    if w:
        lower = lower_bound(rows, w)
        found = Interval(lower, found.upper, w, found.dual)
        if lower == 0.0:
            return found
    # what is found must be read exactly here, and verified by the caller
    closing = reading_seconds(rows, 3.0)
    try:
        require_time(closing)
        with until(deadline() - closing / 2):
            return _better(rows, found, min(SECONDS, time_left() - closing / 2))
    except (OutOfTime, TooLarge):
        if w:
            return found
        raise


def _better(rows: PairRows, found: Interval, seconds: float) -> Interval:
    k = len(rows.examples.classes)
    with warnings.catch_warnings():
        # at the end of float64 a solver may well complain; the verdict is known already
        warnings.simplefilter("ignore")
        better, dual = (_two_classes if k == 2 else _jointly)(rows, seconds)
    if better is None:
        return found
    lower, upper = lower_bound(rows, better), upper_bound(rows, dual)
    return Interval(
        max(lower, found.lower),
        min(upper, found.upper),
        better if lower > found.lower else found.w,
        dual if upper < found.upper else found.dual,
    )


def _solved(X: Any, y: np.ndarray, **options: Any) -> MarginResult:
    """`max_margin`, which hands over what it has when the user interrupts; we have more to do."""
    result = max_margin(X, y, tol=TOLERANCE, **options)
    if result.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def _two_classes(rows: PairRows, seconds: float) -> tuple[list[int] | None, Weights]:
    """(w, q) of the hard margin; w is None where it leaves the range of floats."""
    examples = rows.examples
    lifted = bool(examples.lift)
    result = _solved(examples.X, examples.codes, fit_intercept=lifted, max_time=seconds)
    w = np.append(result.coef, [result.intercept] * examples.lift)
    return _whole(w), balanced_dual(rows, (0, 1), result.full_dual())


def _jointly(rows: PairRows, seconds: float) -> tuple[list[int] | None, Weights]:
    """(w, q) of the joint margin, as one problem over all pairs, w of least length over shifts.

    Rows of sign −1 are mirrored, since `max_margin` wants two classes; that changes nothing.
    """
    examples = rows.examples
    k, width, d = len(examples.classes), examples.width, examples.shape[1]
    # in units of a power of two near the largest entry, so that nothing overflows
    exponent = int(np.frexp(float(abs(examples.X).max()))[1])
    P = _full_pairs(rows, exponent)
    signs = np.where(np.arange(P.shape[0]) % 2 == 0, 1.0, -1.0)
    rows_of_pairs = sp.csr_array(sp.diags_array(signs) @ P)
    result = _solved(rows_of_pairs, signs, fit_intercept=False, max_time=seconds)
    W = result.coef.reshape(k, width)
    with np.errstate(over="ignore", invalid="ignore"):
        W[:, d:] = np.ldexp(W[:, d:] * INTERCEPT_REACH, exponent)
        return _whole((W[1:] - W[0]).ravel()), _circulation(rows, result.full_dual())


def _whole(w: np.ndarray) -> list[int] | None:
    return whole_multiples(w, np.zeros(w.size, np.int64)) if np.isfinite(w).all() else None


def _full_pairs(rows: PairRows, exponent: int) -> Any:
    """The rows x̃(e_c − e_j)ᵀ of X / 2^exponent, all k classes, with a long intercept feature."""
    examples = rows.examples
    k = len(examples.classes)
    X = sp.csr_array(examples.X).astype(np.float64)
    X.data = np.ldexp(X.data, -exponent)
    if examples.lift:
        X = sp.csr_array(sp.hstack([X, np.full((X.shape[0], 1), INTERCEPT_REACH)]))
    size = 2.0 * k * X.nnz * BYTES_PER_PAIR_ENTRY
    require_memory(size, f"{rows.example.size} pairs of {k} classes")
    own = examples.codes[rows.example]
    parts = []
    for c in range(k):
        share = (own == c).astype(float) - (rows.other == c)
        parts.append(sp.diags_array(share) @ X[rows.example])
    return sp.csr_array(sp.hstack(parts))


def _circulation(rows: PairRows, q: np.ndarray) -> Weights:
    """q as whole weights; with intercepts, what flows into each class flows out of it, exactly.

    The classes are balanced by Osborne's scaling of q in floats, and the few units that rounding
    leaves are sent through class 0, along its heaviest pairs.
    """
    own, other = rows.examples.codes[rows.example], rows.other
    k = len(rows.examples.classes)
    if rows.examples.lift:
        q = _balanced(q, own, other, k)
    whole = np.array([round(v * 2**FLOW_BITS) for v in (q / q.max()).tolist()], object)
    if rows.examples.lift:
        for c in range(1, k):
            excess = whole[own == c].sum() - whole[other == c].sum()
            lane = (own == 0) & (other == c) if excess > 0 else (own == c) & (other == 0)
            pairs = np.flatnonzero(lane)
            whole[pairs[int(q[pairs].argmax())]] += abs(excess)
    kept = np.flatnonzero(whole > 0)
    return Weights(kept, [int(v) for v in whole[kept]], 1)


def _balanced(q: np.ndarray, own: np.ndarray, other: np.ndarray, k: int) -> np.ndarray:
    """q_(i,j) · t_c/t_j with equal flow into and out of every class (Osborne 1960)."""
    flow = np.zeros((k, k))
    np.add.at(flow, (own, other), q)
    scale = np.ones(k)
    for _ in range(200):
        for c in range(k):
            out = scale[c] * (flow[c] / scale).sum()
            into = (scale * flow[:, c]).sum() / scale[c]
            if out > 0.0 and into > 0.0:
                scale[c] *= np.sqrt(into / out)
    return q * scale[own] / scale[other]
