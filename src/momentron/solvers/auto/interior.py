"""Mehrotra's interior point: for many support vectors, for few rows, and for witnesses.

    min ½‖w‖² + Σ u_i ξ_i   s.t.  p_i − 1 + ξ_i = s_i ≥ 0,  ξ_i ≥ 0,

with multipliers α of the first and u − α of the second; ξ = 0 where u is infinite. So weights have
one side or two: how far they are from it, α and u − α, times its slack, s and ξ, is μ at every
step. Newton's system for that adds the diagonal Θ = s/α + ξ/(u − α) to K; in the space of w, Θ⁻¹ is
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
EARLY = 0.5  # the best gap above which none is asked for
DIVERGED = 1e3  # a gap above this multiple of the best is the end
PATIENCE = 20  # iterations without progress
NO_WEIGHT = 1e-12  # 1/Θ, in units of 1/‖a‖², of rows that a matrix in the space of w lacks
SIGNS = np.array([1.0, -1.0])  # of what α adds to the distances from 0 and from u


class InteriorPoint(NamedTuple):
    """Weights, a row of distances and of slacks for every side, and the gap on the working set."""

    alpha: np.ndarray
    distances: np.ndarray
    slacks: np.ndarray
    gap: float = math.inf


def interior_point(
    form: Form, tol: float, loss: Hinge = NO_SLACK, begin: InteriorPoint | None = None
) -> InteriorPoint:
    """Predictor-corrector steps until the gap is at most tol, or nothing improves.

    The cold start of a hard margin is large on purpose: from a small one the first eight iterations
    only raise the complementarity to where it is needed. `begin` goes on from the form's point.
    """
    state, is_boxed = begin, loss.is_boxed
    if state is None:
        alpha = np.full(form.m, COLD_MASS / form.scale / form.m)
        if is_boxed:
            alpha = np.minimum(0.5 * loss.upper, 1.0 / form.scale)
        state = InteriorPoint(alpha, _distances(alpha, loss), np.ones((1 + is_boxed, form.m)))
        form.reset()
        if form.gram is not None:
            form.point = form.at_weights(alpha, form.point.b)
    kept, kept_point = state, form.point
    idle, mark = 0, math.inf
    witness: tuple[np.ndarray | None, float] = (None, math.inf)
    for iteration in range(BOX_STEPS if is_boxed else STEPS):
        bounds = form.bounds(state.alpha, loss)
        gap, is_early = bounds.gap, not kept.gap < EARLY
        idle += 1
        if is_early or gap < PROGRESS * mark:
            idle, mark = 0, gap
        if gap < kept.gap:
            kept, kept_point = state._replace(gap=gap), form.point
        patience = PATIENCE
        if kept.gap <= 0.01 and not is_boxed:  # far from the end short steps do not mean an end
            patience = 8 if kept.gap > 1e-9 else 3
        diverged = iteration > 8 and not is_early and gap > DIVERGED * kept.gap
        if gap <= max(tol, form.gap_floor(bounds.upper)) or idle > patience or diverged:
            break
        if form.deadline.has_passed(form.newton_flops(form.m)):
            break
        moved = _direction(form, state)
        if not (np.isfinite(moved.slacks).all() and np.isfinite(moved.distances).all()):
            break
        if bounds.lower <= 0.0 and iteration > 1 and not is_boxed:
            # α or its direction may be one
            for weights in (state.alpha, moved.distances[0]):
                q = form.dual_set.feasible_or_none(weights)
                size = math.inf if q is None else form.dual_norm(q)
                witness = (q, size) if size < witness[1] else witness
            if witness[0] is not None and witness[1] <= 1e-14 * form.length:
                return state._replace(alpha=witness[0], gap=math.inf)
        t = min(1.0, 0.99 * moved.longest(state))
        if not t > 1e-14:
            break
        # rounding may leave a weight on its bound
        most = loss.upper * (1.0 - 1e-16)
        alpha = np.clip(state.alpha + t * moved.distances[0], 1e-300, most)
        slacks = state.slacks + t * moved.slacks
        state = InteriorPoint(alpha, _distances(alpha, loss), slacks)
        x = form.point.x + t * moved.dx if form.gram is None else alpha
        b = form.point.b + t * moved.db
        form.point = Point(x, b, form.margins(x, b))  # computed again: residuals stay honest
    form.point = kept_point
    if kept.gap >= 1.0 and witness[0] is not None:
        return kept._replace(alpha=witness[0])  # no margin: the best near-witness
    return kept


def _distances(alpha: np.ndarray, loss: Hinge) -> np.ndarray:
    """α, and u − α in a box, which rounding may have made zero."""
    if not loss.is_boxed:
        return alpha[None]
    return np.stack([alpha, np.maximum(loss.upper - alpha, 1e-16 * loss.upper)])


class _Move(NamedTuple):
    """A step of the point, with what it does to the distances and slacks of every side."""

    dx: np.ndarray
    db: np.ndarray
    distances: np.ndarray
    slacks: np.ndarray

    def longest(self, state: InteriorPoint) -> float:
        """The largest step that keeps α in the box and the slacks positive."""
        falls = -self.distances / state.distances, -self.slacks / state.slacks
        return 1.0 / max(1e-30, *(float(fall.max(initial=0.0)) for fall in falls))


def _direction(form: Form, state: InteriorPoint) -> _Move:
    """Mehrotra's predictor and corrector, with one factor for both."""
    alpha, distances, s, _ = state
    signs, every = SIGNS[: len(s)], np.arange(form.m)
    nearest = distances.argmin(axis=0)
    with np.errstate(over="ignore"):
        theta = (s / distances).sum(axis=0)
    inverse = 1.0 / np.clip(theta, 1e-290, 1e290)
    counts = np.ones(form.m, bool)
    if form.squares is not None:
        counts = inverse * form.squares > NO_WEIGHT
    solve_system = form.system(Hinge(1.0, shares=inverse), counts)
    residual = 1.0 + signs @ s - form.p

    def solve(lacking: np.ndarray) -> _Move:
        """For what the products of distances and slacks lack; the better known of both slacks tells
        the other's change, which keeps p − 1 + ξ = s.
        """
        missing = residual + signs @ (lacking / distances)
        dx, db = solve_system(alpha + inverse * missing)
        dp = form.margins(dx, db)
        moved = signs[:, None] * (inverse * (missing - dp) if form.gram is None else dx)
        ds = (lacking - s * moved) / distances
        ds[nearest, every] = 0.0
        ds[nearest, every] = signs[nearest] * (dp - residual - signs @ ds)
        return _Move(dx, db, moved, ds)

    products = distances * s
    move, mu = solve(-products), float(products.mean())
    t = min(1.0, move.longest(state))
    after = float(((distances + t * move.distances) * (s + t * move.slacks)).mean())
    share = min(1.0, max(after / mu, 0.0)) if mu > 0.0 else 0.0
    return solve(share**3 * mu - products - move.distances * move.slacks)


def solve_by_interior_point(
    form: Form, tol: float, begin: InteriorPoint | None = None
) -> tuple[Form, np.ndarray]:
    """(form, λ) by the interior point.

    Where a Gram matrix has lost too many digits, the rows are reduced by QR and solved again.
    """
    lam = interior_point(form, tol, begin=begin).alpha
    bounds = form.bounds(lam)
    has_rows = form.gram is not None and form.rows.is_explicit
    rows = form.rows.written_out() if has_rows and not form.is_solved(bounds, 4.0 * tol) else None
    if rows is None or rows.is_sparse:
        return form, lam
    reduced = reduced_form(rows, form.deadline)
    other = interior_point(reduced, tol).alpha
    found = reduced.bounds(other)
    is_better_witness = bounds.gap >= 1.0 and found.upper < bounds.upper
    return (reduced, other) if found.gap <= bounds.gap or is_better_witness else (form, lam)
