"""The hard margin: rank the rows, solve a working set of them to rounding, check all of them.

Few short rows are solved at once by least squares, few wide ones by exchanges. Others are ranked by
approximate soft margins, on a sample first; then a working set is solved by an exchange, by
Newton's method with multipliers, or by the interior point where Newton stalls. After a start that
is nearly right pivots come first.
"""

import math
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from momentron.solvers.auto.exchange import MOST_FREE, exchange, few_violators, gathered, pivot
from momentron.solvers.auto.forms import Form, Hinge
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.interior import interior_point, solve_by_interior_point
from momentron.solvers.auto.last_digits import (
    needs_extended,
    needs_rationals,
    refine_answer,
    solve_in_rationals,
)
from momentron.solvers.auto.newton import Schedule, multipliers, soft_path
from momentron.solvers.auto.primal_form import ProductForm
from momentron.solvers.auto.search import Search
from momentron.solvers.auto.straight import solve_straight
from momentron.solvers.auto.working_rows import on_support, sample
from momentron.solvers.auto.working_sets import WorkingSets

# Penalties of the soft margins that rank, in units of 1/mean‖a‖²: of all the rows at once, of a
# sample, of the second working set, and of all further ones; and the first of wide sparse rows.
ALL_CS, SAMPLE_CS, SECOND_CS, LAST_CS = (100.0,), (10.0, 100.0), (100.0, 1000.0), (1000.0,)
WIDE_CS = (10.0,)
RANKINGS, KERNEL_RANKINGS = 4, 8  # at most; with kernels exact solves are more expensive
FEW_OUTSIDE = 0.2  # rows outside with slack, as a share of the support, after the last ranking
# Features of sparse data from which all rows are ranked by products: a sample says nothing about
# rows that share no features with it.
WIDE = 3000
CAREFUL = (0.05, 60)  # accuracy of directions where many rows, this share of them, have slack
MANY = 0.25
ALL_ZEROS = 1e-280  # mean‖a‖² of rows of which every q is a witness
NEARLY_VANISHED = 1e-11  # ‖Zᵀq‖ over the longest row that the certificate might call one
# Of the multipliers: after all rows were ranked at once, after other rankings, and in later rounds;
# and the last, all in units of 1/mean‖a‖².
ALL_SIGMA, FIRST_SIGMA, LATER_SIGMA, LAST_SIGMA = 1e3, 1e4, 1e5, 1e9
GROWTH, UPDATES = 10.0, 14
# Newton steps between two updates that mean that it stalls; with a kernel features have no end.
STALLED, KERNEL_STALLED = 7, 20
# The next working set's size, as a multiple of the support: at a start, after rankings,
# after the interior point's first leg, and of pivots.
ROOM, LEAST_ROOM, INTERIOR_ROOM, PIVOT_ROOM = 2.0, 1.2, 2.5, 1.3
# The first leg's gap, before a pass over all the rows; the largest one at which that pass tells
# which rows matter; and the share of the largest multiplier above which a row is support then.
FIRST_GAP, TELLING_GAP, INTERIOR_SUPPORT = 3e-3, 0.01, 0.01

Solved = tuple[Form, np.ndarray]  # a form at the solution of its working set, and λ


class HardSearch(Search):
    """The hard margin by working sets."""

    def all_rounds(self) -> Iterator[None]:
        """Rank and solve; the last rounds are for digits that float64 lacks."""
        with suppress(FloatingPointError, OverflowError, np.linalg.LinAlgError):
            yield from _in_floats(self)
        further = (needs_extended, refine_answer), (needs_rationals, solve_in_rationals)
        for is_needed, solve in further:
            if is_needed(self):
                # the certificate would take weights that nearly vanish for a witness, and end there
                if self.answer.upper > NEARLY_VANISHED * self.sets.operator.radius:
                    yield
                with suppress(np.linalg.LinAlgError):
                    solve(self)


def _in_floats(search: Search) -> Iterator[None]:
    """Rank and solve."""
    sets = search.sets
    if search.take_start() and search.answer.lam.any():
        if not search.has_all:
            support = search.answer.lam.nonzero()[0]
            search.choose_around(support, ROOM * support.size)
        yield from _solve(search)
        return
    if solve_straight(search):
        return
    is_small, by_products = search.has_all, None
    if not is_small:
        is_wide = sets.is_plain and not sets.is_dense and sets.width > WIDE
        by_products = sets.open_products() if is_wide else None
        search.W = np.arange(search.size) if is_wide else first_working_set(sets)
    form = by_products or sets.open(search.W, is_rough=not is_small)
    if form.scale < ALL_ZEROS:
        search.weigh(np.bincount(search.W, minlength=search.size).astype(float))
    elif not is_small:
        ranking = _rank(search, form, by_products)
        del form  # its memory is for the next one
        for number, _ in enumerate(ranking):
            if number == 0 and search.is_contradicted():
                return
            yield
        yield from _solve(search)
    else:  # all of few rows, by an exchange or from an approximate soft margin
        lam = None
        if search.size <= sets.width and form.gram is not None:
            lam = exchange(form, np.ones(search.size, bool))
        if lam is not None:  # bounds of the form would take as long as those of the answer
            search.close(form, lam, is_exact=True)
            if search.answer.gap <= search.goal:
                return
        yield from _solve(search, (form, soft_path(form, ALL_CS) if lam is None else lam))


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


def _rank(search: Search, form: Form, by_products: ProductForm | None) -> Iterator[None]:
    """Soft margins with growing C, on a first form and then on the rows of smallest margin.

    At C = 1000 (in units of 1/mean‖a‖²) a working set of three times the soft support holds nearly
    all of the true support, and few rows outside are below the margin. All the rows of wide sparse
    data are ranked at once, by products.
    """
    sets, Cs = search.sets, WIDE_CS if by_products else SAMPLE_CS
    for number in range(1, (KERNEL_RANKINGS if sets.is_kernel else RANKINGS) + 1):
        if number > 1:
            form = by_products or search.open(is_rough=True)
        search.close(form, soft_path(form, Cs), is_exact=False)
        answer = search.answer
        support = int(np.count_nonzero(answer.lam))
        outside = int(np.count_nonzero(answer.p < 1.0)) - support
        room = LEAST_ROOM * support
        if sets.is_kernel or by_products:  # values and Gram matrices are expensive
            room += min(outside, 0.5 * support)
        else:
            room = max(room, min(2.0 * support + min(outside, support), 3.0 * sets.width))
        is_last = number > 1 and bool(by_products or outside <= FEW_OUTSIDE * support)
        if is_last or not by_products:
            # without any of the rows that w or the multipliers weigh w would be another
            weighed = (answer.lam > 0.0) | (search.coefficients() != 0.0)
            search.choose_around(weighed.nonzero()[0], room)
        yield
        if is_last:
            break
        Cs = SECOND_CS if number == 1 and not by_products else LAST_CS
        if by_products and support > MANY * search.size:
            # a good ranking saves exact solves, which are expensive with many support vectors
            Cs, by_products.accuracy = SECOND_CS, CAREFUL


# --- solve ---------------------------------------------------------------------------------------


def _solve(search: Search, begun: Solved | None = None) -> Iterator[None]:
    """Working sets solved to rounding, each followed by a pass over all the rows.

    The first one's form may be open already. What has failed once is not tried again.
    """
    by_pivots = begun is None
    by_exchange, by_newton, has_looked = True, True, False
    sigma = ALL_SIGMA if begun else FIRST_SIGMA
    while True:
        solved = _solve_by_pivots(search) if by_pivots else None
        by_pivots = solved is not None
        if solved is None:
            form, lam = begun or (search.open(), search.answer.lam[search.W])
            if by_newton and form.bounds(lam).gap > search.goal:
                if by_exchange and form.gram is not None:
                    lam, by_exchange = _exchanged(form, lam)
                lam, by_newton = solve_by_newton(form, lam, search.goal, sigma)
                if by_newton and begun:  # of few rows all digits are cheap
                    lam, _ = _exchanged(form, lam)
            if not by_newton:
                form, lam, has_looked = _solve_by_interior_point(search, form, has_looked)
            solved = form, lam
        search.close(*solved, is_exact=True)
        if search.is_crowded() or search.is_finished(solved[0]):
            break
        search.enlarge()
        begun, sigma = None, LATER_SIGMA
        yield
    if not search.answer.lower > 0.0:  # there may be no witness yet
        search.is_contradicted()


def _exchanged(form: Form, lam: np.ndarray) -> tuple[np.ndarray, bool]:
    """(λ, whether an exchange has given it all its digits)."""
    exchanged = exchange(form, gathered(form, lam))
    return (lam, False) if exchanged is None else (exchanged, True)


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
        if form.has_vanished(form.bounds(first.alpha).upper):
            return form, first.alpha, has_looked
        if first.gap < TELLING_GAP:
            has_looked, begin = True, first
            search.close(form, first.alpha, is_exact=False)
            if search.outside(search.W).min() < 1.0:
                lam = search.answer.lam
                support = np.flatnonzero(lam > INTERIOR_SUPPORT * float(lam.max()))
                search.choose_around(support, INTERIOR_ROOM * support.size)
                form, begin = search.sets.open(search.W), None
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
    W = search.smallest(int(PIVOT_ROOM * support.size) + 2 * wrong, support)
    form = sets.open(W, by_gram=True)
    assert isinstance(form, GramForm)
    solved = pivot(form, lam[W] > 0.0, search.settings)
    if solved is None or not form.bounds(solved).gap <= search.goal:
        return None
    search.W = W
    return form, solved


def solve_by_newton(
    form: Form, lam: np.ndarray, tol: float, sigma: float
) -> tuple[np.ndarray, bool]:
    """(λ, solved) by multipliers, from the form's current point; at once where that is solved."""
    if form.bounds(lam).gap <= tol:
        return lam, True
    # stalling means about as many support vectors as features: the interior point is better there
    steps = STALLED if form.rows.is_explicit else KERNEL_STALLED
    schedule = Schedule(GROWTH, LAST_SIGMA / form.scale, UPDATES, steps, gives_up=True)
    loss = Hinge(sigma / form.scale, centre=lam, shares=form.shares)
    lam, gap = multipliers(form, loss, schedule, tol)
    return lam, math.isfinite(gap) and form.is_solved(form.bounds(lam), 4.0 * tol)
