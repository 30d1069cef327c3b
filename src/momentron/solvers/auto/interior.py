"""Mehrotra's interior point: for many support vectors, for few rows, and for witnesses.

    min ½‖w‖² + Σ u_i ξ_i   s.t.  p_i − 1 + ξ_i = s_i ≥ 0,  ξ_i ≥ 0,

with multipliers α of the first and u − α of the second; ξ = 0 where u is infinite. Newton's system
for α s = μ and (u − α) ξ = μ adds the diagonal Θ = s/α + ξ/(u − α) to K; in the space of w, Θ⁻¹ is
between the rows. Predictor and corrector share a factor; 12 to 40 iterations whatever the
conditioning. On data without a margin the multipliers of a hard margin diverge and, normalised, are
the witness: ‖Aᵀq‖ falls to rounding level.
"""

import math
from typing import NamedTuple

import numpy as np

from momentron.solvers.auto.forms import NO_SLACK, Form, Hinge, Point
from momentron.solvers.auto.primal_form import reduced_form

STEPS, BOX_STEPS = 60, 150
COLD_MASS = 6000.0  # Σα at a cold start without a box, in units of 1/mean‖a‖²
PROGRESS = 0.7  # a gap below this share of the best is progress
DIVERGED = 1e3  # a gap above this multiple of the best is the end
PATIENCE = 20  # iterations without progress
NO_WEIGHT = 1e-12  # 1/Θ, in units of 1/‖a‖², of rows that a matrix in the space of w lacks


class InteriorPoint(NamedTuple):
    """Weights, the slacks of both sides, and the relative gap on the working set."""

    alpha: np.ndarray
    s: np.ndarray
    xi: np.ndarray
    gap: float


def interior_point(
    form: Form,
    tol: float,
    upper: np.ndarray | None = None,
    begin: InteriorPoint | None = None,
) -> InteriorPoint:
    """Predictor-corrector steps until the gap is at most tol, or nothing improves.

    The cold start of a hard margin is large on purpose: from a small one the first eight iterations
    only raise the complementarity to where it is needed. `begin` goes on from the form's point.
    """
    state, loss = begin, NO_SLACK if upper is None else Hinge(math.inf, upper)
    if state is None:
        alpha = np.full(form.m, COLD_MASS / form.scale / form.m)
        if upper is not None:
            alpha = np.minimum(0.5 * upper, 1.0 / form.scale)
        state = InteriorPoint(alpha, np.ones(form.m), np.ones(form.m), math.inf)
        form.reset()
        if form.is_dual:
            form.point = form.at_weights(alpha, form.point.b)
    kept, kept_point = state, form.point
    idle, mark = 0, math.inf
    witness: tuple[np.ndarray | None, float] = (None, math.inf)
    for iteration in range(STEPS if upper is None else BOX_STEPS):
        bounds = form.bounds(state.alpha, loss)
        (lower, length), gap = bounds, bounds.gap
        is_early = lower <= 0.0 if upper is None else not kept.gap < 0.5
        idle += 1
        if is_early or gap < PROGRESS * mark:
            idle, mark = 0, gap
        if gap < kept.gap:
            kept, kept_point = state._replace(gap=gap), form.point
        diverged = iteration > 8 and not is_early and gap > DIVERGED * kept.gap
        enough, patience = tol, PATIENCE
        if upper is None:
            enough = max(tol, form.gap_floor(length))
            if kept.gap <= 0.01:  # far from the end short steps do not mean an end
                patience = 8 if kept.gap > 1e-9 else 3
        if gap <= enough or idle > patience or diverged:
            break
        if form.deadline.has_passed(form.newton_flops(form.m)):
            break
        moved = _direction(form, state, upper)
        if not (np.isfinite(moved.ds).all() and np.isfinite(moved.dalpha).all()):
            break
        if upper is None and lower <= 0.0 and iteration > 1:
            # α or its direction may be one
            for weights in (state.alpha, moved.dalpha):
                q = form.dual_set.feasible_or_none(weights)
                size = math.inf if q is None else form.dual_norm(q)
                witness = (q, size) if size < witness[1] else witness
            if witness[0] is not None and witness[1] <= 1e-14 * form.length:
                return state._replace(alpha=witness[0], gap=math.inf)
        t = min(1.0, 0.99 * moved.longest(state, upper))
        if not t > 1e-14:
            break
        state = moved.taken(state, upper, t)
        x = state.alpha if form.is_dual else form.point.x + t * moved.dx
        b = form.point.b + t * moved.db
        form.point = Point(x, b, form.margins(x, b))  # computed again: residuals stay honest
    form.point = kept_point
    if upper is None and kept.gap >= 1.0 and witness[0] is not None:
        return kept._replace(alpha=witness[0])  # no margin: the best near-witness
    return kept


def _room(state: InteriorPoint, upper: np.ndarray) -> np.ndarray:
    """u − α, which rounding may have made zero."""
    return np.maximum(upper - state.alpha, 1e-16 * upper)


class _Move(NamedTuple):
    """A step of the point and of α, with what it does to both slacks."""

    dx: np.ndarray
    db: np.ndarray
    dalpha: np.ndarray
    ds: np.ndarray
    dxi: np.ndarray

    def longest(self, state: InteriorPoint, upper: np.ndarray | None) -> float:
        """The largest step that keeps α in the box and the slacks positive."""
        falls = [-self.dalpha / state.alpha, -self.ds / state.s]
        if upper is not None:
            falls += [self.dalpha / _room(state, upper), -self.dxi / state.xi]
        return 1.0 / max(1e-30, *(float(fall.max(initial=0.0)) for fall in falls))

    def taken(self, state: InteriorPoint, upper: np.ndarray | None, t: float) -> InteriorPoint:
        alpha, s = state.alpha + t * self.dalpha, state.s + t * self.ds
        if upper is None:
            return InteriorPoint(alpha, s, state.xi, math.inf)
        # rounding may leave a weight on its bound
        alpha = np.clip(alpha, 1e-300, upper * (1.0 - 1e-16))
        return InteriorPoint(alpha, s, state.xi + t * self.dxi, math.inf)


def _direction(form: Form, state: InteriorPoint, upper: np.ndarray | None) -> _Move:
    """Mehrotra's predictor and corrector, with one factor for both."""
    alpha, s, xi, _ = state
    room = None if upper is None else _room(state, upper)
    with np.errstate(over="ignore"):
        theta = s / alpha if room is None else s / alpha + xi / room
    inverse = 1.0 / np.clip(theta, 1e-290, 1e290)
    counts = np.ones(form.m, bool) if form.is_dual else inverse * form.squares > NO_WEIGHT
    solve_system = form.system(Hinge(1.0, shares=inverse), counts)
    residual = 1.0 + s - form.p
    mu, sides = float(alpha @ s), 1
    if room is not None:
        residual -= xi
        mu, sides = mu + float(room @ xi), 2
    mu /= sides * alpha.size

    def solve(above: np.ndarray, below: np.ndarray) -> _Move:
        """For the residuals of α s and (u − α) ξ; the better known of both slacks tells the other's
        change, which keeps p − 1 + ξ = s.
        """
        missing = residual + above / alpha
        if room is not None:
            missing -= below / room
        dx, db = solve_system(alpha + inverse * missing)
        dp = form.margins(dx, db)
        da = dx if form.is_dual else inverse * (missing - dp)
        if room is None:
            return _Move(dx, db, da, dp - residual, xi)
        ds, dxi, is_low = (above - s * da) / alpha, (below + xi * da) / room, alpha < room
        ds = np.where(is_low, dp + dxi - residual, ds)
        return _Move(dx, db, da, ds, np.where(is_low, dxi, residual - dp + ds))

    empty = xi if room is None else -room * xi
    move = solve(-alpha * s, empty)
    da, ds, dxi = move.dalpha, move.ds, move.dxi
    t = min(1.0, move.longest(state, upper))
    after = float((alpha + t * da) @ (s + t * ds))
    if room is not None:
        after += float((room - t * da) @ (xi + t * dxi))
    share = max(after / (sides * alpha.size) / mu, 0.0) if mu > 0.0 else 0.0
    target = share**3 * mu if room is None else min(1.0, share) ** 3 * mu
    below = empty if room is None else target - room * xi + da * dxi
    return solve(target - alpha * s - da * ds, below)


def solve_by_interior_point(
    form: Form, tol: float, begin: InteriorPoint | None = None
) -> tuple[Form, np.ndarray]:
    """(form, λ) by the interior point.

    Where a Gram matrix has lost too many digits, the rows are reduced by QR and solved again.
    """
    lam = interior_point(form, tol, begin=begin).alpha
    bounds = form.bounds(lam)
    has_rows = form.gram is not None and form.is_explicit
    rows = form.rows.written_out() if has_rows and not form.is_solved(bounds, tol) else None
    if rows is None or rows.is_sparse:
        return form, lam
    reduced = reduced_form(rows, form.deadline)
    other = interior_point(reduced, tol).alpha
    found = reduced.bounds(other)
    is_better_witness = bounds.gap >= 1.0 and found.upper < bounds.upper
    return (reduced, other) if found.gap <= bounds.gap or is_better_witness else (form, lam)
