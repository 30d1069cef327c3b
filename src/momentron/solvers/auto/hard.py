"""The hard margin: rank the rows, solve a working set of them to rounding, check all of them.

Few short rows are solved at once by least squares, few wide ones by exchanges. Others are ranked by
approximate soft margins, on a sample first; then a working set is solved by an exchange, by
Newton's method with multipliers, or by the interior point where Newton stalls. After a start that
is nearly right pivots come first.
"""

import math
from contextlib import suppress

import numpy as np

from momentron.solvers.auto.exchange import MOST_FREE, exchange, gathered
from momentron.solvers.auto.forms import Form, Loss
from momentron.solvers.auto.interior import interior_point, solve_by_interior_point
from momentron.solvers.auto.last_digits import (
    needs_extended,
    needs_rationals,
    refine_answer,
    solve_in_rationals,
)
from momentron.solvers.auto.newton import SLOW, Schedule, multipliers, soft_path
from momentron.solvers.auto.pivots import few_violators, pivot
from momentron.solvers.auto.search import Rounds, Search
from momentron.solvers.auto.straight import solve_straight, suits_straight
from momentron.solvers.auto.working_rows import on_support, sample
from momentron.solvers.auto.working_sets import WorkingSets

# Penalties of the soft margins that rank, in units of 1/mean‖a‖²: of all the rows at once, of a
# sample, of the second working set, and of all further ones; of wide sparse rows, the first and
# the others, and these where many rows have slack.
ALL_CS, SAMPLE_CS, SECOND_CS, LAST_CS = (100.0,), (10.0, 100.0), (100.0, 1000.0), (1000.0,)
WIDE_CS, LAST_WIDE_CS, MANY_CS = (10.0,), (1000.0,), (100.0, 1000.0)
RANKINGS, KERNEL_RANKINGS = 4, 8  # at most; with kernels exact solves are more expensive
FEW_OUTSIDE = 0.2  # rows outside with slack, as a share of the support, after the last ranking
# Features of sparse data from which all rows are ranked by products: a sample says nothing about
# rows that share no features with it.
WIDE = 3000
CAREFUL = (0.05, 60)  # accuracy of directions where many rows, this share of them, have slack
MANY = 0.25
ALL_ZEROS = 1e-280  # mean‖a‖² of rows of which every q is a witness
# Of the multipliers: after all rows were ranked at once, after other rankings, and in later rounds.
ALL_SIGMA, FIRST_SIGMA, LATER_SIGMA = 1e3, 1e4, 1e5
# The next working set's size, as a multiple of the support: at a start, after rankings,
# after the interior point's first leg, and of pivots.
ROOM, LEAST_ROOM, INTERIOR_ROOM, PIVOT_ROOM = 2.0, 1.2, 2.5, 1.3
# The share of the largest multiplier above which a row is support after the interior point's first
# leg, where every multiplier is positive.
INTERIOR_SUPPORT = 0.01
STALLED = 7  # Newton steps between two updates that mean that Newton stalls,
STALLED_BY_GRAM = 20  # and with a kernel, which has no end of features
GROWTH, LAST_SIGMA, UPDATES = 10.0, 1e9, 14  # of the multipliers
ROUNDING = 1e-9  # a gap at which one that is not falling has reached rounding
FIRST_GAP = 3e-3  # the gap of the interior point's first leg, before the pass over all the rows,
TELLING_GAP = 0.01  # and the largest one at which that pass tells which rows matter

Solved = tuple[Form, np.ndarray]  # a form at the solution of its working set, and λ


class HardSearch(Search):
    """The hard margin by working sets."""

    def all_rounds(self) -> Rounds:
        """Rank and solve; the last rounds are for digits that float64 lacks."""
        is_over = False
        with suppress(FloatingPointError, OverflowError, np.linalg.LinAlgError):
            is_over = yield from _in_floats(self)
        further = (needs_extended, refine_answer), (needs_rationals, solve_in_rationals)
        for is_needed, solve in further:
            if not is_over and is_needed(self):
                if not self.has_nearly_vanished():  # which the certificate would take for a witness
                    yield
                with suppress(np.linalg.LinAlgError):
                    solve(self)
        return True


def _in_floats(search: Search) -> Rounds:
    """Rank and solve."""
    if search.take_start() and search.answer.lam.any():
        if not search.has_all:
            search.choose_around(np.flatnonzero(search.answer.lam), ROOM)
        return (yield from _solve(search, by_pivots=True))
    if suits_straight(search) and solve_straight(search):
        return False
    if search.has_all:
        return (yield from _solve_all(search))
    return (yield from _rank(search)) or (yield from _solve(search))


# --- rank ----------------------------------------------------------------------------------------


def first_working_set(sets: WorkingSets, least: int = 0) -> np.ndarray:
    """The rows, at least so many, or all the pairs, of a sample of the examples."""
    rng, labels = np.random.default_rng(0), sets.labels
    size = min(max(sets.settings.small, least), sets.capacity)
    if not labels.is_paired:
        return sample(labels.codes, size, rng)
    wrong = labels.per_example
    few = sample(labels.codes, max(size // wrong, 1), rng, least=0.0)
    return (few[:, None] * wrong + np.arange(wrong)).ravel()


def _rank(search: Search) -> Rounds:
    """Soft margins with growing C, on a sample and then on the rows of smallest margin.

    At C = 1000 (in units of 1/mean‖a‖²) a working set of three times the soft support holds nearly
    all of the true support, and few rows outside are below the margin. All the rows of wide sparse
    data are ranked at once, by products.
    """
    sets, every = search.sets, np.arange(search.size)
    is_wide = sets.is_plain and not sets.is_dense and sets.width > WIDE
    by_products = sets.open_products() if is_wide else None
    search.W = every if is_wide else first_working_set(sets)
    Cs = WIDE_CS if is_wide else SAMPLE_CS
    most = KERNEL_RANKINGS if sets.is_kernel else RANKINGS
    for number in range(1, most + 1):
        form = by_products or search.open(is_cold=number == 1, is_rough=True)
        if form.scale < ALL_ZEROS:
            search.weigh_alone(search.W)
            return True
        search.close(form, soft_path(form, Cs), is_exact=False)
        if number == 1 and search.is_contradicted():
            return True
        answer, coefficients = search.answer, search.kernel_coefficients()
        support = int(np.count_nonzero(answer.lam))
        outside = int(np.count_nonzero(answer.p < 1.0)) - support
        # without any of the rows that w or the multipliers weigh w would be another
        weighed = answer.lam > 0.0
        if coefficients is not None:
            weighed |= coefficients != 0.0
        if sets.is_kernel or is_wide:  # values and Gram matrices are expensive
            room = LEAST_ROOM * support + min(outside, 0.5 * support)
        else:
            room = max(
                LEAST_ROOM * support, min(2.0 * support + min(outside, support), 3.0 * sets.width)
            )
        W = search.smallest(max(search.settings.small, int(room)), np.flatnonzero(weighed))
        is_last = number > 1 and (is_wide or outside <= FEW_OUTSIDE * support)
        search.W = every if is_wide and not is_last else W
        yield
        if is_last:
            break
        Cs = SECOND_CS if number == 1 else LAST_CS
        if by_products is not None:
            Cs = LAST_WIDE_CS
            if support > MANY * search.size:
                # a good ranking saves exact solves, which are expensive with many support vectors
                Cs, by_products.accuracy = MANY_CS, CAREFUL
    return False


# --- solve ---------------------------------------------------------------------------------------


def _solve_all(search: Search) -> Rounds:
    """All of few rows, without a ranking: by an exchange, or from an approximate soft margin."""
    form, lam = search.open(is_cold=True), None
    if form.scale < ALL_ZEROS:
        search.weigh_alone(search.W)
        return True
    if search.size <= search.sets.width and form.gram is not None:
        lam = exchange(form, np.ones(search.size, bool))
        if lam is not None:
            search.close(form, lam, is_exact=True)
            answer = search.answer
            if answer.upper - answer.lower <= search.goal * answer.upper:
                return False
    if lam is None:
        lam = soft_path(form, ALL_CS)
    return (yield from _solve(search, begun=(form, lam)))


def _solve(search: Search, *, by_pivots: bool = False, begun: Solved | None = None) -> Rounds:
    """Working sets solved to rounding, each followed by a pass over all the rows.

    Parameters
    ----------
    by_pivots : bool
        Whether pivots are tried before Newton's method. What has failed once is not tried again.
    begun : (Form, ndarray), optional
        The first working set's form, if it is open already, and its multipliers.
    """
    by_exchange, by_newton, has_looked = True, True, False
    sigma = ALL_SIGMA if begun else FIRST_SIGMA
    while True:
        solved = _solve_by_pivots(search) if by_pivots else None
        by_pivots = solved is not None
        if solved is not None:
            form, lam = solved
        else:
            form, lam = begun or (search.open(is_cold=False), search.answer.lam[search.W])
            if by_newton and form.bounds(lam).gap > search.goal:
                if by_exchange and form.gram is not None:  # it has all the digits
                    exchanged = exchange(form, gathered(form, lam))
                    by_exchange = exchanged is not None
                    lam = lam if exchanged is None else exchanged
                lam, by_newton = solve_by_newton(form, lam, search.goal, sigma)
                if by_newton and begun:  # of few rows all digits are cheap
                    exchanged = exchange(form, gathered(form, lam))
                    lam = lam if exchanged is None else exchanged
            if not by_newton:
                form, lam, has_looked = _solve_by_interior_point(search, form, has_looked)
        search.close(form, lam, is_exact=True)
        if search.is_crowded():
            return True
        if search.is_finished(form):
            # there may be no margin, and no witness yet
            return not search.answer.lower > 0.0 and search.is_contradicted()
        search.enlarge()
        begun, sigma = None, LATER_SIGMA
        yield


def _solve_by_interior_point(
    search: Search, form: Form, has_looked: bool
) -> tuple[Form, np.ndarray, bool]:
    """(form, λ, whether the pass between two legs was made) by the interior point.

    Where no row outside W is below the margin after the first leg, the same run goes on. Otherwise
    W is chosen again and solved cold, since a warm start with new rows takes twice the iterations.
    One such pass is enough.
    """
    begin = None
    if not (search.has_all or has_looked):
        first = interior_point(form, FIRST_GAP)
        if form.has_vanished(form.bounds(first.alpha, from_rows=True).upper):
            return form, first.alpha, has_looked
        if first.gap < TELLING_GAP:
            has_looked, begin = True, first
            search.close(form, first.alpha, is_exact=False)
            if search.outside(search.W).min() < 1.0:
                lam = search.answer.lam
                support = np.flatnonzero(lam > INTERIOR_SUPPORT * float(lam.max()))
                search.choose_around(support, INTERIOR_ROOM)
                form, begin = search.open(is_cold=True), None
    return *solve_by_interior_point(form, search.goal, begin), has_looked


def _solve_by_pivots(search: Search) -> Solved | None:
    """A working set of few more rows than the support, by its Gram matrix.

    Only where the support has about as many rows as there are features, and is nearly right:
    neither multipliers nor the interior point gain from a warm start there.
    """
    sets, answer, rank = search.sets, search.answer, search.rank
    size = int(np.count_nonzero(answer.lam))
    wrong = int(np.count_nonzero(answer.p < 1.0 - 1e-9))
    is_full = rank < 2 * size and min(size, rank) <= MOST_FREE
    if not (is_full and 0 < wrong <= few_violators(rank)):
        return None
    lam = on_support(answer.lam, answer.p, sets.base.row_norms**2, rank)
    support = np.flatnonzero(lam)
    size = int(PIVOT_ROOM * support.size) + 2 * int(np.count_nonzero(answer.p < 1.0))
    W = search.smallest(max(search.settings.small, size), support)
    form = sets.open_gram(W)
    solved = pivot(form, lam[W] > 0.0, search.settings)
    if solved is None or not form.bounds(solved, from_rows=True).gap <= search.goal:
        return None
    search.W = W
    return form, solved


def solve_by_newton(
    form: Form, lam: np.ndarray, tol: float, sigma: float
) -> tuple[np.ndarray, bool]:
    """(λ, solved) by multipliers, from the form's current point; at once where that is solved."""
    bounds = form.bounds(lam)
    if not form.shows(tol, bounds.upper):
        bounds = form.bounds(lam, from_rows=True)
    if bounds.gap <= tol:
        return lam, True
    best, from_rows = math.inf, False

    def measure(lam: np.ndarray) -> tuple[float, bool]:
        """Once the gap looks closed, margins are computed from the rows: a Gram matrix may show a
        gap that is not there.
        """
        nonlocal best, from_rows
        if from_rows:
            form.refresh(from_rows=True)
        bounds = form.bounds(lam)
        gap, upper, before = bounds.gap, bounds.upper, best
        best = min(best, gap)
        closed = gap <= max(tol, form.gap_floor(upper)) or upper <= 1e-14 * form.length
        if closed and form.shows(tol, upper):
            return gap, True
        if closed or SLOW * before < gap < ROUNDING:
            gap, were_from_rows, from_rows = form.bounds(lam, from_rows=True).gap, from_rows, True
            return gap, were_from_rows or gap <= 4.0 * tol
        return gap, False

    # stalling means about as many support vectors as features: the interior point is better there
    steps = STALLED if form.is_explicit else STALLED_BY_GRAM
    schedule = Schedule(GROWTH, LAST_SIGMA / form.scale, UPDATES, steps, gives_up=True)
    loss = Loss(sigma / form.scale, centre=lam, shares=form.shares)
    lam, gap = multipliers(form, loss, schedule, measure)
    if not math.isfinite(gap):
        return lam, False
    return lam, gap <= 4.0 * tol or form.is_solved(form.bounds(lam, from_rows=True), tol)
