"""Semismooth Newton for the squared hinge, and the method of multipliers that makes it hard.

The soft margin with squared hinge is piecewise quadratic: once the set S of rows with slack is
right, one linear solve is exact. Multipliers shift the rows' targets until no slack is left.
"""

import math
from typing import NamedTuple

import numpy as np

from momentron.solvers.auto.forms import Form, bounds, gap_floor, gap_of, gram_shows, true_gap
from momentron.solvers.auto.pass_form import PassForm

MANY_ROWS = 4000  # from which it pays to leave out those that do not count
QUICK_STEPS = 15  # in which Newton nearly always settles


class SoftResult(NamedTuple):
    """Multipliers C·slack, Newton steps taken, and whether S has settled."""

    lam: np.ndarray
    steps: int
    converged: bool


def line_search(slope: float, curvature: float, r: np.ndarray, dp: np.ndarray, C: float) -> float:
    """The minimiser along a direction of ½‖w‖² + (C/2) Σ (r_i − t dp_i)₊², whose slope is monotone.

    A relative accuracy of 1e-3 changes no step count, so no more is asked. Up to t = 2, where the
    minimiser nearly always is, only the rows count that have slack here or there.
    """
    low, high, t, enough = 0.0, math.inf, 1.0, 0.0
    every = r, dp
    if r.size > MANY_ROWS:
        near = np.flatnonzero(np.maximum(r, r - 2.0 * dp) > 0.0)
        r, dp = r[near], dp[near]
    for k in range(30):
        if t > 2.0:
            r, dp = every
        rest = r - t * dp
        g = slope + t * curvature - C * float(np.maximum(rest, 0.0) @ dp)
        if k == 0:
            enough = 1e-3 * abs(slope - C * float(np.maximum(r, 0.0) @ dp))
        if abs(g) <= enough:
            return t
        low, high = (low, t) if g > 0.0 else (t, high)
        active = dp[rest > 0.0]
        h = curvature + C * float(active @ active)
        new = t - g / h if h > 0.0 else 2.0 * t
        if not low < new < high:
            new = 0.5 * (low + high) if high < math.inf else 2.0 * t
        t = new
    return t


def soft_margin(
    form: Form | PassForm,
    C: float,
    lam: np.ndarray | None = None,
    *,
    max_steps: int = 12,
    slack: float = 0.0,
    S: np.ndarray | None = None,
) -> SoftResult:
    """Newton for min ½‖w‖² + (C/2) Σ (1 + λ_i/C − p_i)₊², from the form's current point.

    `slack` is the share of S that may still change at the end: 0 asks for the exact minimiser, more
    for a rough one. `S` is a guess of the rows with slack.
    """
    target = 1.0 if lam is None else 1.0 + lam / C
    steps, done = 0, False
    while steps < max_steps and not done and not form.deadline.has_passed(form.step_flops):
        r = target - form.p
        active = r > 0.0 if S is None else S
        S = None
        size = np.count_nonzero(active)
        if size == 0:
            if not slack and form.norm() > 0.0:
                active = r >= r.max()  # w is too long: the nearest rows stop it from shrinking
            else:
                break
        dp, slope, curvature = form.newton(active, target, C, rough=slack > 0.0)
        steps += 1
        changed = np.count_nonzero(active != (r - dp > 0.0))
        if changed == 0:
            t, done = 1.0, True  # the quadratic piece was the right one
        else:
            t = line_search(slope, curvature, r, dp, C)
            done = bool(changed <= slack * size) and abs(t - 1.0) < 0.2
            if done:
                t = 1.0  # a step cut short would leave weight on rows that have no slack
        form.move(t)
    return SoftResult(C * np.maximum(target - form.p, 0.0), steps, done)


def exact_soft_margin(form: Form, C: float, *, max_steps: int) -> SoftResult:
    """The soft margin to the end; where Newton does not settle, by a path of growing C.

    From far away a large C takes Newton a hundred steps; from the solution for a third of it, few.
    """
    soft = soft_margin(form, C, max_steps=min(QUICK_STEPS, max_steps))
    if soft.converged or max_steps <= QUICK_STEPS:
        return soft
    form.reset()
    lower = 10.0 / form.scale
    slope = form.along_mean()
    form.move(line_search(slope[1], slope[2], 1.0 - form.p, slope[0], lower))
    while lower < C:
        soft_margin(form, lower, max_steps=30, slack=0.02)
        lower *= 3.0
    return soft_margin(form, C, max_steps=max_steps)


def soft_path(form: Form | PassForm, Cs: tuple[float, ...]) -> np.ndarray:
    """Rough soft margins for growing C, each started from the last; C in units of 1/mean‖a‖²."""
    if not form.p.any():
        slope = form.along_mean()
        form.move(line_search(slope[1], slope[2], 1.0 - form.p, slope[0], Cs[0] / form.scale))
    lam = np.zeros(form.m)
    for C in Cs:
        lam = soft_margin(form, C / form.scale, max_steps=8, slack=0.05).lam
    return lam


def multipliers(
    form: Form,
    lam: np.ndarray,
    C: float,
    tol: float,
    *,
    factor: float = 10.0,
    max_outer: int = 14,
    C_max: float = 1e9,
    from_rows: bool = False,
) -> tuple[np.ndarray, float]:
    """The method of multipliers for the hard margin: (λ, true gap); inf where Newton stalled.

    Stalling means about as many support vectors as features; the interior point is better there.
    Once the gap looks closed, margins are computed from the rows (from the start if `from_rows`),
    since a Gram matrix may show a gap that is not there.
    """
    C, C_max, best = C / form.scale, C_max / form.scale, math.inf
    max_steps = 7 if form.rows.is_explicit else 20  # a kernel has no end of features
    for _ in range(max_outer):
        # the old support is the better guess: 1 + λ/C − p mispredicts right after an update
        support = lam > 0.0
        guess = support if support.any() else None
        soft = soft_margin(form, C, lam, max_steps=max_steps, S=guess)
        if not soft.converged:
            return lam, math.inf
        form.refresh(from_rows=from_rows)
        settled, lam = np.array_equal(soft.lam > 0.0, support), soft.lam
        lower, upper = bounds(form, lam)
        gap = gap_of(lower, upper)
        stagnant = gap > 0.3 * best and gap < 1e-9
        closed = gap <= max(tol, gap_floor(form, upper)) or upper <= 1e-14 * form.length
        if closed or stagnant:
            if closed and gram_shows(form, tol, upper):
                return lam, gap
            gap, upper = true_gap(form, lam)
            if from_rows or gap <= 4.0 * tol:
                return lam, gap
            from_rows = True
        if not (settled and gap < 0.02 * best):
            C = min(C * factor, C_max)  # else the same C again, and with it the same factor
        best = min(best, gap)
    return lam, true_gap(form, lam)[0]
