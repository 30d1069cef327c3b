"""Semismooth Newton with multipliers: one method for hard margins, the hinge and its square.

Every problem here is the dual

    max 1ᵀα − ½‖Aᵀα‖² − ½ Σ r_i α_i²   s.t.  0 ≤ α ≤ u,  Yᵀα = 0.

From weights α and a stiffness σ the next weights are those of the minimiser of a smoothed loss,

    a = clip((α + σ (1 − p)) / (1 + σ r), 0, u),   p the functional margins,

which is piecewise quadratic: only rows with 0 < a < u have curvature, and once these are known one
linear system is exact. The squared hinge is σ → ∞, one minimisation; hard margins and the hinge
repeat it until the weights stand still. Rows at a bound are exactly there.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from momentron.solvers.auto.forms import NO_SLACK, Direction, Form, Hinge, Movable

SEARCH_STEPS, FARTHER = 30, 100.0  # of a line search, and how much farther one of them may look
SEARCH_ACCURACY = 1e-3  # of its slope: more changes no number of Newton steps
MANY_ROWS = 4000  # from which a line search picks those that count
NEARLY_FULL = 0.2  # how far from 1 the last step of a rough minimisation may be, taken as 1
ROUGH_STEPS, ROUGH_SLACK = 8, 0.05  # Newton steps of a soft margin that ranks; see `minimise`
QUICK_STEPS = 15  # Newton steps in which an exact soft margin nearly always settles
PATH_START, PATH_GROWTH = 10.0, 3.0  # the first C of a path to a large one, and its growth
PATH_STEPS, PATH_SLACK = 30, 0.02  # Newton steps at each C of that path; see `minimise`
LEFT = 1e-9  # of the largest weight: what a factor in single precision may leave of a solution
FAST = 0.02  # a gap that falls below this share of the best keeps σ, and with it the factor
SLOW = 0.3  # a gap above this share of the last is not falling
PROGRESS = 0.7  # a gap below this share of the best is progress
TOP = 1e7  # the largest σ in a box, in units of 1/mean‖a‖²
REACH = 2.0  # how far margins are expected to move in an update, in units of the last one's mean
FEWEST = 0.05  # the share of the rows that are not held: held too tightly, these go astray


class Minimised(NamedTuple):
    """Weights, and whether the rows between the bounds have settled."""

    weights: np.ndarray
    converged: bool


def line_search(direction: Direction, z: np.ndarray, loss: Hinge) -> float:
    """The minimiser of the smoothed objective along a direction, whose slope is monotone.

    Up to t = 2, where it nearly always is, only the rows count whose weights change on the way: of
    many, these are picked.
    """
    dp, upper = direction.dp, loss.upper
    fall = loss.stiffness * dp
    ends, even = z - 2.0 * fall, 0.0
    near: Any = slice(None)
    if isinstance(upper, np.ndarray):
        low_end = np.minimum(z, ends)
        stays = np.flatnonzero(low_end >= upper)
        even = float(upper[stays] @ dp[stays])
        near = np.flatnonzero((np.maximum(z, ends) > 0.0) & (low_end < upper))
    elif z.size > MANY_ROWS:
        near = np.flatnonzero(np.maximum(z, ends) > 0.0)
    own, part, falls, slopes = loss.some(near), z[near], fall[near], dp[near]
    low, high, t, enough = 0.0, math.inf, 1.0, 0.0
    for k in range(SEARCH_STEPS):
        if t > 2.0:
            even, own, part, falls, slopes = 0.0, loss, z, fall, dp
        rest = part - t * falls
        pull = even + float(own.weights(rest) @ slopes)
        g = direction.slope + t * direction.curvature - pull
        if k == 0:
            begun = even + float(own.weights(part) @ slopes)
            enough = SEARCH_ACCURACY * abs(direction.slope - begun)
        if abs(g) <= enough:
            return t
        low, high = (low, t) if g > 0.0 else (t, high)
        between = own.is_between(rest)
        h = direction.curvature + float(falls[between] @ slopes[between])
        new = t - g / h if h > 0.0 else 2.0 * t
        if high == math.inf:
            new = min(new, FARTHER * t)  # h may be a rounding, along intercepts alone
        if not low < new < high:
            new = 0.5 * (low + high) if high < math.inf else 2.0 * t
        t = new
    return t


def minimise(
    form: Movable, loss: Hinge, *, max_steps: int, slack: float = 0.0, from_centre: bool = False
) -> Minimised:
    """Newton for ½‖w‖² + Σ h_i(p_i) from the form's point.

    `slack` is the share of the rows between the bounds that may still change in the last step: 0
    asks for the exact minimiser, more for a rough one. `from_centre` takes these rows from the
    loss's centre in the first step: right after an update α + σ(1 − p) mispredicts them.
    """
    z, steps, done = loss.at(form.p), 0, False
    ranks = slack > 0.0 and not loss.is_boxed  # weights need not be exact where they only rank
    while steps < max_steps and not done:
        between, weights = loss.is_between(z), loss.weights(z)
        if steps == 0 and from_centre:
            is_free = loss.is_between(np.broadcast_to(loss.centre, z.shape))
            if is_free.any():
                between, weights = is_free, np.where(is_free, z, loss.centre)
        size = int(np.count_nonzero(between))
        if form.deadline.has_passed(form.newton_flops(size)):
            break
        if size == 0:
            if ranks:
                break
            between = form.nearest_rows()  # they hold intercepts, and stop w from shrinking
        direction = form.direction(loss, weights, between, rough=ranks)
        steps += 1
        after = z - loss.stiffness * direction.dp
        changed = int(np.count_nonzero(between != loss.is_between(after)))
        if loss.is_boxed:  # across the whole band the quadratic piece was another one
            changed += int(np.count_nonzero((weights <= 0.0) & (after >= loss.upper)))
            changed += int(np.count_nonzero((after <= 0.0) & (weights >= loss.upper)))
        is_piece = changed == 0 and (size > 0 or not loss.is_boxed)
        t = 1.0 if is_piece else line_search(direction, z, loss)
        is_near = 0 < changed <= slack * size and abs(t - 1.0) < NEARLY_FULL
        if is_near:
            t = 1.0  # a step cut short would leave weight on rows that have none
        form.move(direction, t)
        z = loss.at(form.p)
        done = is_piece or is_near
        if is_piece and not ranks:
            done = form.leaves(loss.weights(z)) <= LEFT
        elif size == 0:
            done |= abs(t) * math.sqrt(direction.curvature) <= 1e-13 * form.norm()
    return Minimised(loss.weights(z), done)


# --- soft margins with the squared hinge ---------------------------------------------------------


def step_along_mean(form: Form, C: float) -> None:
    """Go from w = 0 to the best multiple of Aᵀ1, the difference of the classes' sums.

    The search begins at Newton's step: from a step of 1 it would not come down to a tiny C's.
    """
    loss = Hinge(C, shares=form.shares)
    form.point = form.at_weights(form.shares * np.ones(form.m), np.zeros(form.Y.shape[1]))
    (x, b, p), square = form.point, form.norm() ** 2
    pull = loss.stiffness * p
    t = float(pull.sum()) / max(square + float(pull @ p), 1e-300)
    direction = Direction.of(t * x, t * b, t * p, 0.0, t * t * square)
    form.reset()
    form.move(direction, line_search(direction, loss.at(form.p), loss))


def soft_path(form: Form, Cs: tuple[float, ...]) -> np.ndarray:
    """Rough soft margins for growing C, each started from the last; C in units of 1/mean‖a‖²."""
    if not form.p.any():
        step_along_mean(form, Cs[0] / form.scale)
    lam = np.zeros(form.m)
    for C in Cs:
        loss = Hinge(C / form.scale, shares=form.shares)
        lam = minimise(form, loss, max_steps=ROUGH_STEPS, slack=ROUGH_SLACK).weights
    return lam


# --- the method of multipliers -------------------------------------------------------------------


class Schedule(NamedTuple):
    """How σ grows from update to update, and to what; and what the updates may take.

    Without `repeats` the weights of an update are the centre of none: the last σ is exact.
    """

    growth: float
    last: float
    updates: int
    steps: int  # Newton's, for one update; with `gives_up` more of them are the end
    patience: int = 8  # updates without progress
    repeats: bool = True
    gives_up: bool = False


def minimise_near(form: Form, loss: Hinge, reach: float, most: int, **how: Any) -> Minimised:
    """`minimise`, by up to `most` rows near the margin where that pays; p is computed again.

    From update to update most rows keep their weights, at a bound: those are held whose margins
    would have to move by more than `reach`. A pass over all the rows shows whether any has moved
    after all; then Newton goes on with all of them.
    """
    if form.point.x.size < most:
        z, least = loss.at(form.p), int(FEWEST * form.m)
        held = loss.weights(z)
        distance = np.maximum(-z, z - loss.upper) / loss.stiffness  # to where there is curvature
        reach = max(reach, float(np.partition(distance, least)[least]))
        is_near = (distance < reach) | loss.is_between(np.broadcast_to(loss.centre, z.shape))
        index = np.flatnonzero(is_near)
        if form.point.x.size < index.size <= most:
            part = form.part(index, held)
            found = minimise(part, loss.some(index), **how)
            form.point, how["from_centre"] = part.point, False
            form.refresh()
            weights = loss.weights(loss.at(form.p))
            if np.array_equal(weights[~is_near], held[~is_near]):
                return found._replace(weights=weights)
    found = minimise(form, loss, **how)
    form.refresh()
    return found


def multipliers(
    form: Form,
    loss: Hinge,
    schedule: Schedule,
    goal: float,
    *,
    penalty: Hinge = NO_SLACK,
    slack: Callable[[float], float] = lambda gap: 0.0,
    is_first: bool = False,
    most_near: int = 0,
    tell: Callable[[np.ndarray, float], None] | None = None,
) -> tuple[np.ndarray, float]:
    """The method of multipliers from the loss's centre: (the best α, its gap).

    For hard margins and in a box the weights of one update are the centre of the next. The squared
    hinge itself is the last σ of its schedule, whose minimiser is exact. Smaller ones lead there
    where Newton does not settle from afar.

    The form is left at that α's point. It ends at a gap of `goal`, with what `penalty` asks for
    slack; a hard margin also at rounding level. `slack` is what a minimisation may leave at a gap
    (see `minimise`), and `tell` hears of each better α and its upper bound. `is_first` means that
    the centre says nothing about which rows are between the bounds; `most_near` is how many rows
    may be copied to work on them alone. The gap is infinite where Newton stalled and the schedule
    gives up.
    """
    growth, last, updates, steps, patience, repeats, gives_up = schedule
    top = max(last, TOP / form.scale)
    best, found, point, idle = math.inf, np.zeros(form.m) + loss.centre, form.point, 0
    gap = reach = math.inf
    has_led = repeats or steps <= QUICK_STEPS  # whether σ has led to the last one
    for _ in range(updates):
        if not repeats and loss.sigma < last:
            minimise(form, loss, max_steps=PATH_STEPS, slack=PATH_SLACK)
            loss = loss._replace(sigma=min(growth * loss.sigma, last))
            continue
        p, most, from_centre = form.p, steps if has_led else QUICK_STEPS, repeats and not is_first
        how = {"max_steps": most, "slack": slack(best), "from_centre": from_centre}
        minimised = minimise_near(form, loss, reach, most_near, **how)
        if not minimised.converged and gives_up:
            return found, math.inf
        if not (minimised.converged or has_led):
            has_led, loss = True, loss._replace(sigma=min(PATH_START / form.scale, last))
            form.reset()
            step_along_mean(form, loss.sigma)
            continue
        alpha = minimised.weights
        is_first, reach = False, REACH * float(np.abs(form.p - p).mean())
        bounds, before = form.bounds(alpha, penalty), gap
        gap = bounds.gap
        is_over = gap <= goal or (penalty is NO_SLACK and form.is_solved(bounds, goal))
        is_fast = gap < FAST * best
        idle = 0 if gap < PROGRESS * best else idle + 1
        if gap <= best or is_over:
            best, found, point = gap, alpha, form.point
            if tell is not None:
                tell(alpha, bounds.upper)
        if is_over or idle > patience or form.deadline.has_passed():
            break
        if repeats:
            if gap > SLOW * before:  # the same stiffness again would take long
                last = min(growth * last, top)
            centre = np.broadcast_to(loss.centre, alpha.shape)
            if not (is_fast and np.array_equal(loss.is_between(alpha), loss.is_between(centre))):
                loss = loss._replace(sigma=min(growth * loss.sigma, last))  # else the same factor
            loss = loss._replace(centre=alpha)
    form.point = point
    return found, best
