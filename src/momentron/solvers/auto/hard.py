"""The hard margin: rank the rows, solve a working set of them to rounding, check all of them.

Few short rows are solved at once by least squares, few wide ones by exchanges. Others are ranked by
approximate soft margins, on a sample first; then a working set is solved by an exchange, by
Newton's method with multipliers, or by the interior point where Newton stalls. After a start that
is nearly right pivots come first.
"""

import math
from collections.abc import Generator
from contextlib import suppress

import numpy as np

from momentron.solvers.auto.exchange import MOST_FREE, exchange, gathered
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.interior import interior_point, solve_by_interior_point
from momentron.solvers.auto.last_digits import (
    needs_extended,
    needs_rationals,
    refine_answer,
    solve_in_rationals,
)
from momentron.solvers.auto.newton import multipliers, soft_path
from momentron.solvers.auto.pivots import few_violators, pivot
from momentron.solvers.auto.primal_form import ProductForm
from momentron.solvers.auto.search import SUPPORT, Search
from momentron.solvers.auto.straight import solve_straight, suits_straight
from momentron.solvers.auto.working_rows import on_support, sample
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.solver import Candidates, Primal, Start

# Penalties of the soft margins that rank, in units of 1/mean‖a‖²: of all the rows at once, of a
# sample, of the second working set, of all further ones, and of wide sparse rows.
ALL_CS, SAMPLE_CS = (100.0,), (10.0, 100.0)
SECOND_CS, LAST_CS, PRODUCT_CS = (100.0, 1000.0), (1000.0,), (10.0, 1000.0)
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
# The share of the largest multiplier above which a row is support after the interior point's first
# leg, where every multiplier is positive.
INTERIOR_SUPPORT = 0.01
# The next working set's size, as a multiple of the support.
ROOM, INTERIOR_ROOM, LEAST_ROOM, PIVOT_ROOM = 2.0, 2.5, 1.2, 1.3
FIRST_GAP = 3e-3  # the gap of the interior point's first leg, before the pass over all the rows,
TELLING_GAP = 0.01  # and the largest one at which that pass tells which rows matter

# Each round but the last yields after a pass over all the rows; a phase returns whether it has
# ended the search.
Rounds = Generator[None, None, bool]
Solved = tuple[Form, np.ndarray]  # a form at the solution of its working set, and λ


class HardSearch(Search):
    """The hard margin by working sets."""

    def advance(self) -> None:
        if self.rounds == 0:
            self.remaining = _rounds(self, self.start)
        self.rounds += 1
        super().advance()
        self.is_done |= self.rounds >= self.settings.rounds

    def candidates(self) -> Candidates:
        answer, radius = self.answer, self.problem.radius
        scores = self.problem.labels.scores(answer.products) / radius
        primals, upper = [Primal(answer.w, scores)], answer.upper / radius
        return Candidates(primals, answer.lam, upper, refined=self.refined)


def _rounds(search: Search, start: Start | None) -> Rounds:
    """All rounds; the last are for digits that float64 lacks."""
    is_over = False
    with suppress(FloatingPointError, OverflowError, np.linalg.LinAlgError):
        is_over = yield from _in_floats(search, start)
    for is_needed, solve in (needs_extended, refine_answer), (needs_rationals, solve_in_rationals):
        if not is_over and is_needed(search):
            if not search.has_nearly_vanished():  # which the certificate would take for a witness
                yield
            with suppress(np.linalg.LinAlgError):
                solve(search)
    return True


def _in_floats(search: Search, start: Start | None) -> Rounds:
    """Rank and solve."""
    if start is not None and _begin_at(search, start):
        return (yield from _solve(search, by_pivots=True))
    if suits_straight(search) and solve_straight(search):
        return False
    if search.has_all:
        return (yield from _solve_all(search))
    sets = search.sets
    is_wide = sets.is_plain and not sets.is_dense and sets.width > WIDE
    is_over = yield from (_rank_by_products(search) if is_wide else _rank(search))
    return is_over or (yield from _solve(search))


def _begin_at(search: Search, start: Start) -> bool:
    """Take a start's classifier and weights, which rank the rows; False where it has neither."""
    weights = search.weights_of(start)
    upper = search.answer.with_weights(weights).upper
    if not (np.any(start.w) and 0.0 < upper < math.inf):
        return False
    # w = Σ λ_i a_i has functional margin 1 where λ = q/γ²
    search.set_answer(start.w, start.b, weights / upper**2, is_exact=False)
    support = np.flatnonzero(search.answer.lam)
    if not search.has_all:
        search.W = search.smallest(max(search.settings.small, 2 * support.size), support)
    return True


# --- rank ----------------------------------------------------------------------------------------


def first_working_set(sets: WorkingSets) -> np.ndarray:
    """The rows, or all the pairs, of a sample of the examples."""
    rng, labels = np.random.default_rng(0), sets.labels
    size = min(sets.settings.small, sets.capacity)
    if not labels.is_paired:
        return sample(labels.codes, size, rng)
    wrong = labels.per_example
    few = sample(labels.codes, max(size // wrong, 1), rng, least=0.0)
    return (few[:, None] * wrong + np.arange(wrong)).ravel()


def _rank(search: Search) -> Rounds:
    """Soft margins with growing C, on a sample and then on the rows of smallest margin.

    At C = 1000 (in units of 1/mean‖a‖²) a working set of three times the soft support holds nearly
    all of the true support, and few rows outside are below the margin.
    """
    sets = search.sets
    search.W = first_working_set(sets)
    Cs: tuple[float, ...] = SAMPLE_CS
    most = KERNEL_RANKINGS if sets.is_kernel else RANKINGS
    for number in range(1, most + 1):
        form = search.open(is_cold=number == 1, is_rough=True)
        if form.scale < ALL_ZEROS:
            search.weigh_alone(search.W)
            return True
        search.close(form, soft_path(form, Cs), is_exact=False)
        if number == 1 and search.is_contradicted():
            return True
        support = int(np.count_nonzero(search.answer.lam))
        outside = int(np.count_nonzero(search.answer.p < 1.0)) - support
        search.W = search.smallest(_next_size(search, support, outside), _weighed(search))
        yield
        if number > 1 and outside <= FEW_OUTSIDE * support:
            break
        Cs = SECOND_CS if number == 1 else LAST_CS
    return False


def _weighed(search: Search) -> np.ndarray:
    """The rows that w or the multipliers weigh: without any of them w would be another."""
    is_weighed, coefficients = search.answer.lam > 0.0, search.kernel_coefficients()
    if coefficients is not None:
        is_weighed |= coefficients != 0.0
    return np.flatnonzero(is_weighed)


def _next_size(search: Search, support: int, outside: int) -> int:
    if search.sets.is_kernel:  # kernel values and Gram matrices are expensive
        room = LEAST_ROOM * support + min(outside, 0.5 * support)
    else:
        room = min(2.0 * support + min(outside, support), 3.0 * search.sets.width)
    return int(max(search.settings.small, LEAST_ROOM * support, room))


def _rank_by_products(search: Search) -> Rounds:
    """Approximate soft margins on all the rows of wide sparse data at once, one C per round."""
    sets = search.sets
    rows = sets.plain_rows(np.arange(sets.size))
    form = ProductForm(rows, sets.operator.row_norms**2, sets.deadline)
    left, is_first = list(PRODUCT_CS), True
    while left:
        lam = soft_path(form, (left.pop(0),))
        if is_first and np.count_nonzero(lam) > MANY * lam.size:
            # many support vectors: a good ranking saves exact solves, which are expensive then
            left.insert(0, 100.0)
            form.accuracy = CAREFUL
        search.set_answer(*form.answer(), lam, is_exact=False)
        if is_first and search.is_contradicted():
            return True
        is_first = False
        yield
    support = np.flatnonzero(search.answer.lam)
    size = max(search.settings.small, int(LEAST_ROOM * support.size))
    search.W = search.smallest(size, support)
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
    by_exchange, by_newton, has_ranked = True, True, False
    sigma = ALL_SIGMA if begun else FIRST_SIGMA
    while True:
        form, solved = None, _solve_by_pivots(search) if by_pivots else None
        by_pivots = solved is not None
        if solved is None and by_newton:
            form, lam = begun or (search.open(is_cold=False), search.answer.lam[search.W])
            if form.bounds(lam).gap > search.goal:
                if by_exchange and form.gram is not None:  # it has all the digits
                    exchanged = exchange(form, gathered(form, lam) > 0.0)
                    by_exchange = exchanged is not None
                    lam = lam if exchanged is None else exchanged
                lam, by_newton = solve_by_newton(form, lam, search.goal, sigma)
                if by_newton and begun:  # of few rows all digits are cheap
                    exchanged = exchange(form, gathered(form, lam) > 0.0)
                    lam = lam if exchanged is None else exchanged
            solved = (form, lam) if by_newton else None
        if solved is None:
            form, lam, has_ranked = _solve_by_interior_point(search, form, has_ranked)
        else:
            form, lam = solved
        search.close(form, lam, is_exact=True)
        if search.is_crowded():
            return True
        if search.is_finished(form):
            # there may be no margin, and no witness yet
            return not search.answer.lower > 0.0 and search.is_contradicted()
        search.W = _enlarged(search) if has_ranked else _around_support(search)
        begun, sigma = None, LATER_SIGMA
        yield


def _around_support(
    search: Search, least: float = SUPPORT, below: float = 1e-13, room: float = ROOM
) -> np.ndarray:
    """Support vectors, violators, and the rows nearest to the margin.

    Parameters
    ----------
    least : float
        The share of the largest multiplier above which a row is support.
    below : float
        How far below 1 the functional margin of a violator is.
    room : float
        The number of rows, as a multiple of the support.
    """
    answer, small = search.answer, search.settings.small
    support = np.flatnonzero(answer.lam > least * float(answer.lam.max()))
    violators = int(np.count_nonzero(answer.p < 1.0 - below))
    room = LEAST_ROOM if search.sets.is_kernel else room
    size = max(small, int(room * support.size), support.size + 2 * violators)
    return search.smallest(min(size, max(2 * search.W.size, small)), support)


def _enlarged(search: Search) -> np.ndarray:
    """The working set and violators, nothing dropped: few violators at a time may be left, and
    rows that come and go cost rounds.
    """
    W, p = search.W, search.answer.p.copy()
    violators = int(np.count_nonzero(p < 1.0 - 1e-13))
    p[W] = np.inf
    size = max(min(2 * violators, 2 * W.size), W.size // 5)
    return search.smallest(min(search.size, size), W, p)


def _solve_by_interior_point(
    search: Search, form: Form | None, has_ranked: bool
) -> tuple[Form, np.ndarray, bool]:
    """(form, λ, whether the pass between two legs was made) by the interior point.

    Where no row outside W is below the margin after the first leg, the same run goes on. Otherwise
    W is chosen again and solved cold, since a warm start with new rows takes twice the iterations.
    One such pass is enough.
    """
    form = form or search.open(is_cold=True)
    begin = None
    if not (search.has_all or has_ranked):
        first = interior_point(form, FIRST_GAP)
        if form.has_vanished(form.true_bounds(first.alpha).upper):
            return form, first.alpha, has_ranked
        if first.gap < TELLING_GAP:
            has_ranked = True
            search.close(form, first.alpha, is_exact=False)
            below = search.answer.p < 1.0
            below[search.W] = False
            if below.any():
                search.W = _around_support(search, INTERIOR_SUPPORT, FIRST_GAP, INTERIOR_ROOM)
                form = search.open(is_cold=True)
            else:
                begin = first
    return *solve_by_interior_point(form, search.goal, begin), has_ranked


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
    if solved is None or not form.true_bounds(solved).gap <= search.goal:
        return None
    search.W = W
    return form, solved


def solve_by_newton(
    form: Form, lam: np.ndarray, tol: float, sigma: float
) -> tuple[np.ndarray, bool]:
    """(λ, solved) by multipliers, from the form's current point; at once where that is solved."""
    bounds = form.bounds(lam)
    if not form.shows(tol, bounds.upper):
        bounds = form.true_bounds(lam)
    if bounds.gap <= tol:
        return lam, True
    lam, gap = multipliers(form, lam, sigma, tol)
    if not math.isfinite(gap):
        return lam, False
    return lam, gap <= 4.0 * tol or form.is_solved(form.true_bounds(lam), tol)
