"""Semismooth Newton for the squared hinge, and the method of multipliers that makes it hard.

The soft margin with squared hinge is piecewise quadratic: once the set S of rows with slack is
right, one linear solve is exact. Multipliers shift the rows' targets until no slack is left.
"""

import math
from typing import NamedTuple

import numpy as np

from momentron.solvers.auto.forms import Direction, Form
from momentron.solvers.auto.settings import SETTINGS, AutoSettings


class SoftResult(NamedTuple):
    """Multipliers C·slack, Newton steps taken, and whether S has settled."""

    lam: np.ndarray
    steps: int
    converged: bool


def line_search(
    direction: Direction,
    r: np.ndarray,
    C: float,
    settings: AutoSettings = SETTINGS,
    shares: float | np.ndarray = 1.0,
) -> float:
    """The minimiser along a direction of ½‖w‖² + (C/2) Σ s_i (r_i − t dp_i)₊², whose slope is
    monotone; s are the rows' shares of C.

    Up to t = 2, where the minimiser nearly always is, only the rows count that have slack here or
    there.
    """
    dp, slope, curvature = direction.dp, direction.slope, direction.curvature
    low, high, t, enough = 0.0, math.inf, 1.0, 0.0
    pull = dp if isinstance(shares, float) else shares * dp
    every = r, dp, pull
    if r.size > settings.many_rows:
        near = np.flatnonzero(np.maximum(r, r - 2.0 * dp) > 0.0)
        r, dp, pull = r[near], dp[near], pull[near]
    for k in range(settings.search_steps):
        if t > 2.0:
            r, dp, pull = every
        rest = r - t * dp
        g = slope + t * curvature - C * float(np.maximum(rest, 0.0) @ pull)
        if k == 0:
            enough = settings.search_accuracy * abs(slope - C * float(np.maximum(r, 0.0) @ pull))
        if abs(g) <= enough:
            return t
        low, high = (low, t) if g > 0.0 else (t, high)
        active = rest > 0.0
        h = curvature + C * float(dp[active] @ pull[active])
        new = t - g / h if h > 0.0 else 2.0 * t
        if not low < new < high:
            new = 0.5 * (low + high) if high < math.inf else 2.0 * t
        t = new
    return t


def step_along_mean(form: Form, C: float) -> None:
    """Go to the best multiple of the difference of the classes' sums.

    The search begins at Newton's step: from a step of 1 it would not come down to a tiny C's.
    """
    direction, r = form.along_mean(), 1.0 - form.p
    dp, pull = direction.dp, form.shares * direction.dp
    curvature = direction.curvature + C * float(dp @ (pull * (r > 0.0)))
    if not curvature > 0.0:
        return
    t = (C * float(np.maximum(r, 0.0) @ pull) - direction.slope) / curvature
    direction = direction.times(t)
    form.move(direction, line_search(direction, r, C, form.settings, form.shares))


def soft_margin(
    form: Form,
    C: float,
    lam: np.ndarray | None = None,
    *,
    max_steps: int,
    slack: float = 0.0,
    S: np.ndarray | None = None,
) -> SoftResult:
    """Newton for min ½‖w‖² + (C/2) Σ s_i (1 + λ_i/(C s_i) − p_i)₊², from the form's current point.

    `slack` is the share of S that may still change at the end: 0 asks for the exact minimiser, more
    for a rough one. `S` is a guess of the rows with slack.
    """
    target = 1.0 if lam is None else 1.0 + lam / (C * form.shares)
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
        direction = form.soft.direction(active, target, C, rough=slack > 0.0)
        steps += 1
        changed = np.count_nonzero(active != (r - direction.dp > 0.0))
        if changed == 0:
            t, done = 1.0, True  # the quadratic piece was the right one
        else:
            t = line_search(direction, r, C, form.settings, form.shares)
            done = bool(changed <= slack * size) and abs(t - 1.0) < form.settings.nearly_full
            if done:
                t = 1.0  # a step cut short would leave weight on rows that have no slack
        form.move(direction, t)
    return SoftResult(form.shares * (C * np.maximum(target - form.p, 0.0)), steps, done)


def exact_soft_margin(form: Form, C: float, *, max_steps: int) -> SoftResult:
    """The soft margin to the end; where Newton does not settle, by a path of growing C.

    From far away a large C takes Newton a hundred steps; from the solution for a third of it, few.
    """
    settings = form.settings
    soft = soft_margin(form, C, max_steps=min(settings.quick_steps, max_steps))
    if soft.converged or max_steps <= settings.quick_steps:
        return soft
    form.reset()
    lower = settings.path_start / form.scale
    step_along_mean(form, lower)
    while lower < C:
        soft_margin(form, lower, max_steps=settings.path_steps, slack=settings.path_slack)
        lower *= settings.path_growth
    return soft_margin(form, C, max_steps=max_steps)


def soft_path(form: Form, Cs: tuple[float, ...]) -> np.ndarray:
    """Rough soft margins for growing C, each started from the last; C in units of 1/mean‖a‖²."""
    settings = form.settings
    if not form.p.any():
        step_along_mean(form, Cs[0] / form.scale)
    lam = np.zeros(form.m)
    for C in Cs:
        lam = soft_margin(
            form, C / form.scale, max_steps=settings.rough_steps, slack=settings.rough_slack
        ).lam
    return lam


class Penalty(NamedTuple):
    """The method of multipliers' C, in units of 1/mean‖a‖²: the first, its growth, the last."""

    first: float
    growth: float
    last: float
    updates: int  # of the multipliers, at most


def multipliers(
    form: Form, lam: np.ndarray, penalty: Penalty, tol: float, *, from_rows: bool = False
) -> tuple[np.ndarray, float]:
    """The method of multipliers for the hard margin: (λ, true gap); inf where Newton stalled.

    Stalling means about as many support vectors as features; the interior point is better there.
    Once the gap looks closed, margins are computed from the rows (from the start if `from_rows`),
    since a Gram matrix may show a gap that is not there.
    """
    settings = form.settings
    C, C_max, best = penalty.first / form.scale, penalty.last / form.scale, math.inf
    is_explicit = form.is_explicit
    max_steps = settings.inner_steps if is_explicit else settings.inner_kernel_steps
    for _ in range(penalty.updates):
        # the old support is the better guess: 1 + λ/C − p mispredicts right after an update
        support = lam > 0.0
        guess = support if support.any() else None
        soft = soft_margin(form, C, lam, max_steps=max_steps, S=guess)
        if not soft.converged:
            return lam, math.inf
        form.refresh(from_rows=from_rows)
        settled, lam = np.array_equal(soft.lam > 0.0, support), soft.lam
        bounds = form.bounds(lam)
        gap, upper = bounds.gap, bounds.upper
        stagnant = gap > settings.stagnant * best and gap < settings.stagnant_gap
        closed = gap <= max(tol, form.gap_floor(upper)) or upper <= 1e-14 * form.length
        if closed or stagnant:
            if closed and form.shows(tol, upper):
                return lam, gap
            gap = form.true_bounds(lam).gap
            if from_rows or gap <= 4.0 * tol:
                return lam, gap
            from_rows = True
        if not (settled and gap < settings.fast_update * best):
            C = min(C * penalty.growth, C_max)  # else the same C again, and with it the same factor
        best = min(best, gap)
    return lam, form.true_bounds(lam).gap
