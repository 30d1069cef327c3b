"""The hard margin on a working set, to rounding: Newton with multipliers, or the interior point."""

import math

import numpy as np

from momentron.solvers.auto.active_set import exchange
from momentron.solvers.auto.forms import Form, bounds, gap_floor, gap_of, gram_shows, true_gap
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.interior import interior_point
from momentron.solvers.auto.newton import multipliers
from momentron.solvers.auto.pivots import pivot
from momentron.solvers.auto.primal_form import ReducedForm

CROWDED = 0.85  # of the rank: more support vectors leave exchanges no room
VANISHED = 1e-13  # ‖Aᵀq‖ in units of ‖a‖ at which q is a witness


def is_solved(form: Form, gap: float, upper: float, tol: float) -> bool:
    """Whether a gap is within tol or at rounding level, or λ is a witness."""
    return gap <= 4.0 * max(tol, gap_floor(form, upper)) or upper <= VANISHED * form.length


def solve_by_exchange(form: GramForm, lam: np.ndarray, tol: float, rank: int) -> np.ndarray | None:
    """λ from the support of the one given, by exchanges or pivots; None where the gap stays open.

    More rows than the rank have a singular Gram matrix, and are not tried; with nearly as many,
    exchanges are not.
    """
    support = lam > 0.0
    size = np.count_nonzero(support)
    if size > rank:
        return None
    if gap_of(*bounds(form, lam)) <= tol:
        return lam
    state = form.state()
    exchanged = exchange(form, support) if size <= CROWDED * rank else None
    if exchanged is None:
        exchanged = pivot(form, support)
    if exchanged is None:
        return None
    lower, upper = bounds(form, exchanged)
    shown = gram_shows(form, tol, upper)
    if (gap_of(lower, upper) if shown else true_gap(form, exchanged)[0]) <= tol:
        return exchanged
    form.restore(state)
    return None


def solve_by_newton(form: Form, lam: np.ndarray, tol: float, C: float) -> tuple[np.ndarray, bool]:
    """(λ, solved) by multipliers, from the form's current point; at once where that is solved."""
    if gap_of(*bounds(form, lam)) <= tol:
        return lam, True
    lam, gap = multipliers(form, lam, C, tol)
    if not math.isfinite(gap):
        return lam, False
    if gap <= 4.0 * tol:
        return lam, True
    return lam, is_solved(form, *true_gap(form, lam), tol)


def solve_by_interior_point(
    form: Form, tol: float, begin: tuple[np.ndarray, np.ndarray] | None
) -> tuple[Form, np.ndarray]:
    """(form, λ) by the interior point, polished by multipliers.

    Where the Gram matrix has lost too many digits, the rows are reduced by QR and solved again.
    """
    lam = interior_point(form, tol, begin).lam
    gap, upper = true_gap(form, lam)
    if is_solved(form, gap, upper, tol):
        return form, lam
    if gap < 1e-2:
        lam, gap = polish(form, lam, gap, tol)
        if is_solved(form, gap, upper, tol):
            return form, lam
    rows = form.rows.written_out() if isinstance(form, GramForm) else None
    if rows is not None and not rows.is_sparse:
        other, other_lam = solve_by_interior_point(ReducedForm(rows, form.deadline), tol, None)
        other_gap, other_upper = true_gap(other, other_lam)
        is_better_witness = gap >= 1.0 and other_upper < upper
        if not other_gap > gap or is_better_witness:
            return other, other_lam
    return form, lam


def polish(form: Form, lam: np.ndarray, gap: float, tol: float) -> tuple[np.ndarray, float]:
    """Multiplier steps with a fixed large C from an interior solution, kept only if they help."""
    state = form.state()
    support = 1e-6 * float(lam.max())
    for C in (1e6, 1e9, 1e12):
        start = np.where(lam > support, lam, 0.0)
        trial, trial_gap = multipliers(
            form, start, C, tol, factor=1.0, max_outer=8, C_max=C, from_rows=True
        )
        if trial_gap < gap:
            lam, gap, state = trial, trial_gap, form.state()
        form.restore(state)
        if gap <= tol:
            break
    return lam, gap
