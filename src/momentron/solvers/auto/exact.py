"""The hard margin on a working set, to rounding: Newton with multipliers, or the interior point."""

import math

import numpy as np

from momentron.solvers.auto.active_set import exchange
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.interior import interior_point
from momentron.solvers.auto.newton import Penalty, multipliers
from momentron.solvers.auto.pivots import pivot


def solve_by_exchange(form: GramForm, lam: np.ndarray, tol: float, rank: int) -> np.ndarray | None:
    """λ from the support of the one given, by exchanges or pivots; None where the gap stays open.

    More rows than the rank have a singular Gram matrix, and are not tried; with nearly as many,
    exchanges are not. Of rows that are there twice one is enough, and two are singular.
    """
    support, point = lam > 0.0, form.point
    size = np.count_nonzero(support)
    if size <= rank and form.bounds(lam).gap <= tol:
        return lam
    exchanged = _exchanged(form, support, rank)
    if exchanged is None:
        single = form.without_twins(support)
        if np.count_nonzero(single) < size:
            exchanged = _exchanged(form, single, rank)
    if exchanged is None:
        return None
    bounds = form.bounds(exchanged)
    if not form.shows(tol, bounds.upper):
        bounds = form.true_bounds(exchanged)
    if bounds.gap <= tol:
        return exchanged
    form.point = point
    return None


def _exchanged(form: GramForm, support: np.ndarray, rank: int) -> np.ndarray | None:
    """λ by exchanges, or by pivots; None where neither gets there.

    A kernel has no end of features, and exchanges have room in it however many rows there are.
    """
    size = np.count_nonzero(support)
    if size > rank:
        return None
    has_room = not form.is_explicit or size <= form.settings.crowded * rank
    exchanged = exchange(form, support) if has_room else None
    return pivot(form, support) if exchanged is None else exchanged


def solve_by_newton(form: Form, lam: np.ndarray, tol: float, C: float) -> tuple[np.ndarray, bool]:
    """(λ, solved) by multipliers, from the form's current point; at once where that is solved."""
    if form.bounds(lam).gap <= tol:
        return lam, True
    settings = form.settings
    penalty = Penalty(C, settings.penalty_growth, settings.penalty_last, settings.updates)
    lam, gap = multipliers(form, lam, penalty, tol)
    if not math.isfinite(gap):
        return lam, False
    return lam, gap <= 4.0 * tol or form.is_solved(form.true_bounds(lam), tol)


def solve_by_interior_point(
    form: Form, tol: float, begin: tuple[np.ndarray, np.ndarray] | None
) -> tuple[Form, np.ndarray]:
    """(form, λ) by the interior point, polished by multipliers.

    Where the Gram matrix has lost too many digits, the rows are reduced by QR and solved again.
    """
    lam = interior_point(form, tol, begin).lam
    bounds = form.true_bounds(lam)
    if form.is_solved(bounds, tol):
        return form, lam
    gap = bounds.gap
    if gap < form.settings.polished_gap:
        lam, gap = polish(form, lam, gap, tol)
        if gap <= 4.0 * max(tol, form.gap_floor(bounds.upper)):
            return form, lam
    reduced = form.reduced()
    if reduced is not None:
        other, other_lam = solve_by_interior_point(reduced, tol, None)
        other_bounds = other.true_bounds(other_lam)
        is_better_witness = gap >= 1.0 and other_bounds.upper < bounds.upper
        if not other_bounds.gap > gap or is_better_witness:
            return other, other_lam
    return form, lam


def polish(form: Form, lam: np.ndarray, gap: float, tol: float) -> tuple[np.ndarray, float]:
    """Multiplier steps with a fixed large C from an interior solution, kept only if they help."""
    settings, point = form.settings, form.point
    support = settings.polished_support * float(lam.max())
    for C in settings.polish_penalties:
        start = np.where(lam > support, lam, 0.0)
        penalty = Penalty(C, 1.0, C, settings.polish_updates)
        trial, trial_gap = multipliers(form, start, penalty, tol, from_rows=True)
        if trial_gap < gap:
            lam, gap, point = trial, trial_gap, form.point
        form.point = point
        if gap <= tol:
            break
    return lam, gap
