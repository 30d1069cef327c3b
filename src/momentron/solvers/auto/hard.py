"""The hard margin: rank the rows, solve a working set of them to rounding, look at all of them.

Ranking is by rough soft margins, of a sample first. Solving tries, in this order, exchanges from
the support as ranked, pivots, Newton with multipliers and the interior point: each is the fastest
where it works.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from momentron.solvers.auto.exchange import MOST_FREE, exchange, gathered
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.interior import InteriorPoint, interior_point
from momentron.solvers.auto.last_digits import Refine
from momentron.solvers.auto.newton import Schedule, multipliers, soft_path
from momentron.solvers.auto.pivots import SolveStraight, few_violators, pivot
from momentron.solvers.auto.primal_form import ProductForm
from momentron.solvers.auto.rows import on_support, sample
from momentron.solvers.auto.search import SUPPORT, End, Phase, Search
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import Start

# Penalties of the soft margins that rank, in units of 1/mean‖a‖²: of all the rows at once, of a
# sample, of pairs, of the second working set, of all further ones, and of wide sparse rows.
ALL_CS, SAMPLE_CS, PAIR_CS = (100.0,), (10.0, 100.0), (100.0, 1000.0)
SECOND_CS, LAST_CS, PRODUCT_CS = (100.0, 1000.0), (1000.0,), (10.0, 1000.0)
RANKINGS, KERNEL_RANKINGS = 4, 8  # before a set is solved; with kernels exact solves are dearer
SETTLED = 0.2  # rows outside with slack, as a share of the support, at which a ranking stands
LEAST_ROOM = 1.2  # the least size of the next working set, as a multiple of the support
KERNEL_ROOM, KERNEL_LAST_ROOM = 1.2, 1.1  # with kernels, and there after the last ranking
# Features of sparse data from which all rows are ranked by products: a sample says nothing about
# rows that share no features with it.
WIDE = 3000
CAREFUL = (0.05, 60)  # accuracy of directions where many rows, this share of them, have slack
MANY = 0.25
FIRST_SIGMA, LATER_SIGMA = 1e4, 1e5  # of the multipliers after a ranking, and in later rounds
ROUGH_SUPPORT = 0.01  # the same after a rough interior solve, where every multiplier is positive
ROOM, ROUGH_ROOM = 2.0, 2.5  # the next working set's size, as a multiple of the support
ROUGH_GAP = 3e-3  # the gap of the interior point's first leg, before the pass over all the rows,
TELLING_GAP = 0.01  # and that from which the pass tells which rows matter
PIVOT_ROOM = 1.3  # the size of a working set for pivots, as a multiple of the support
CROWDED = 0.85  # support vectors, as a share of the rank, from which exchanges have no room


def first_phase(search: Search, start: Start | None = None) -> Phase:
    """How the rows are ranked: by a start, by working sets, or all at once."""
    warm = None if start is None else _warm_phase(search, start)
    if warm is not None:
        return warm
    sets = search.sets
    if search.has_all:
        ranked = RankWorkingSets(ALL_CS)
        return SolveStraight(ranked) if SolveStraight.suits(search) else ranked
    if sets.is_plain and not sets.is_dense and sets.width > WIDE:
        rows = sets.plain_rows(np.arange(sets.size))
        form = ProductForm(rows, sets.operator.row_norms**2, sets.deadline)
        return RankByProducts(form, PRODUCT_CS)
    search.W = first_working_set(sets)
    return RankWorkingSets(PAIR_CS if sets.labels.is_paired else SAMPLE_CS)


def first_working_set(sets: WorkingSets) -> np.ndarray:
    """The rows, or all the pairs, of a sample of the examples."""
    rng, labels = np.random.default_rng(0), sets.labels
    size = min(sets.settings.small, sets.capacity)
    if not labels.is_paired:
        return sample(labels.codes, size, rng)
    wrong = labels.per_example
    few = sample(labels.codes, max(size // wrong, 1), rng, least=0.0)
    return (few[:, None] * wrong + np.arange(wrong)).ravel()


def _warm_phase(search: Search, start: Start) -> Phase | None:
    """No ranking: a start's classifier and weights rank the rows. None where it has neither."""
    weights = search.weights_of(start)
    upper = search.sets.upper(weights)
    if not (np.any(start.w) and 0.0 < upper < math.inf):
        return None
    # w = Σ λ_i a_i has functional margin 1 where λ = q/γ²
    search.set_answer(start.w, start.b, weights / upper**2, is_exact=False)
    support = np.flatnonzero(search.answer.lam)
    if not search.has_all:
        search.W = search.smallest(max(search.settings.small, 2 * support.size), support)
    return SolveByPivots() if SolveByPivots.suits(search) else SolveByNewton()


def after_the_last(search: Search, form: Form) -> Phase:
    """What follows the last working set: the last digits where they are missing, or the end."""
    if search.is_worth_refining(form):
        # a certificate of what vanishes would end it before it is refined
        return Refine().advance(search) if search.has_nearly_vanished() else Refine()
    # there may be no margin, and no witness yet
    return End(is_final=not search.answer.lower > 0.0 and search.is_contradicted())


# --- rank ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankWorkingSets(Phase):
    """Soft margins with growing C, on a sample and then on the rows of smallest margin.

    At C = 1000 (in units of 1/mean‖a‖²) a working set of three times the soft support holds nearly
    all of the true support, and few rows outside are below the margin.
    """

    Cs: tuple[float, ...]
    count: int = 0

    def advance(self, search: Search) -> Phase:
        form = search.open(is_cold=self.count == 0, is_rough=not search.has_all)
        if form.scale < 1e-280:  # nothing but zeros: every q is a witness
            search.weigh_alone(search.W)
            return End()
        if search.has_all:
            return self._solve_all(search, form)
        search.close(form, soft_path(form, self.Cs), is_exact=False)
        count = self.count + 1
        if count == 1 and search.is_contradicted():
            return End(is_final=True)
        support = np.flatnonzero(search.answer.lam)
        outside = int(np.count_nonzero(search.answer.p < 1.0)) - support.size
        most = KERNEL_RANKINGS if search.sets.is_kernel else RANKINGS
        is_last = count == most or (count > 1 and outside <= SETTLED * support.size)
        size = self._next_size(search, support.size, outside, is_last=is_last)
        search.W = search.smallest(size, search.sets.weighed(search.answer))
        if is_last:
            return SolveByNewton()
        return RankWorkingSets(SECOND_CS if count == 1 else LAST_CS, count)

    def _solve_all(self, search: Search, form: Form) -> Phase:
        """No ranking of few rows: a rough soft margin is where their exact solve begins."""
        if search.size <= search.sets.width and form.gram is not None:
            lam = exchange(form, np.ones(search.size, bool))
            if lam is not None:
                search.close(form, lam, is_exact=True)
                answer = search.answer
                if answer.upper - answer.lower <= search.goal * answer.upper:
                    return after_the_last(search, form)
                form.reset()
        lam = soft_path(form, self.Cs)
        return SolveByNewton(10.0 * self.Cs[-1], begun=(form, lam)).advance(search)

    def _next_size(self, search: Search, support: int, outside: int, *, is_last: bool) -> int:
        small = search.settings.small
        if search.sets.is_kernel:  # values are dear, and so is a Gram matrix
            share = KERNEL_LAST_ROOM if is_last else KERNEL_ROOM
            return int(max(small, share * support + min(outside, 0.5 * support)))
        room = min(2.0 * support + min(outside, support), 3.0 * search.sets.width)
        return int(max(small, LEAST_ROOM * support, room))


@dataclass(frozen=True)
class RankByProducts(Phase):
    """Rough soft margins on all the rows of wide sparse data at once, one C per round."""

    form: ProductForm
    Cs: tuple[float, ...]
    is_first: bool = True

    def advance(self, search: Search) -> Phase:
        form = self.form
        lam = soft_path(form, self.Cs[:1])
        left = self.Cs[1:]
        if self.is_first and np.count_nonzero(lam) > MANY * lam.size:
            # many support vectors: a good ranking saves exact solves, which are dear then
            left, form.accuracy = (100.0, *left), CAREFUL
        search.set_answer(*form.answer(), lam, is_exact=False)
        if self.is_first and search.is_contradicted():
            return End(is_final=True)
        if left:
            return RankByProducts(form, left, is_first=False)
        support = np.flatnonzero(lam)
        search.W = search.smallest(max(search.settings.small, int(1.2 * support.size)), support)
        return SolveByNewton()


# --- solve ---------------------------------------------------------------------------------------


class Solve(Phase):
    """A working set solved to rounding, and a pass over all the rows."""

    def proceed(self, search: Search, form: Form, again: "Solve") -> Phase:
        """What follows a solve: `again` on the next working set, unless this was the last."""
        if search.is_crowded():
            return End(is_final=True)
        if search.is_finished(form):
            return after_the_last(search, form)
        search.W = again.next_working_set(search)
        return again

    def next_working_set(self, search: Search) -> np.ndarray:
        """Support vectors, violators, and the rows next to them."""
        return _around_support(search, SUPPORT, 1e-13, ROOM)

    @abstractmethod
    def advance(self, work: Search) -> Phase: ...


def _around_support(search: Search, least: float, below: float, room: float) -> np.ndarray:
    """The rows with a share of the largest multiplier or a margin below 1 by so much, and others
    next to them, as many as a multiple of the support.
    """
    answer, small = search.answer, search.settings.small
    support = np.flatnonzero(answer.lam > least * float(answer.lam.max()))
    violators = int(np.count_nonzero(answer.p < 1.0 - below))
    room = KERNEL_ROOM if search.sets.is_kernel else room
    size = max(small, int(room * support.size), support.size + 2 * violators)
    return search.smallest(min(size, max(2 * search.W.size, small)), support)


@dataclass(frozen=True)
class SolveByNewton(Solve):
    """Exchanges from the support as ranked where they work, else Newton with multipliers.

    Attributes
    ----------
    sigma : float
        The first stiffness of the multipliers.
    exchanges : bool
        Whether exchanges are worth a try: each failure costs a factor or more.
    begun : (Form, ndarray), optional
        The working set's form, where it is open already, and its multipliers.
    """

    sigma: float = FIRST_SIGMA
    exchanges: bool = True
    begun: tuple[Form, np.ndarray] | None = None

    def advance(self, work: Search) -> Phase:
        if self.begun is not None:
            form, lam = self.begun
        else:
            form, lam = work.open(is_cold=False), work.answer.lam[work.W]
        exchanged, exchanges = None, self.exchanges
        if exchanges and form.gram is not None:
            exchanged = solve_by_exchange(form.gram, lam, work.goal, work.rank, work.settings)
            exchanges = exchanged is not None
        if exchanged is not None:
            lam, is_solved = exchanged, True
        else:
            lam, is_solved = solve_by_newton(form, lam, work.goal, self.sigma)
        if not is_solved:
            return SolveByInteriorPoint(begun=form).advance(work)
        work.close(form, lam, is_exact=True)
        return self.proceed(work, form, SolveByNewton(LATER_SIGMA, exchanges))


@dataclass(frozen=True)
class SolveByInteriorPoint(Solve):
    """The interior point in two legs, with a pass over all the rows between them.

    Where no row outside W is below the margin at a rough gap, the same run goes on; else W is
    chosen anew and solved cold, since a warm start with new rows takes twice the iterations.

    Attributes
    ----------
    has_ranked : bool
        Whether that pass was made: once is enough.
    begun : Form, optional
        The working set's form, where it is open already.
    """

    has_ranked: bool = False
    begun: Form | None = None

    def advance(self, work: Search) -> Phase:
        form = self.begun or work.open(is_cold=True)
        begin, has_ranked = None, self.has_ranked
        if not (work.has_all or has_ranked):
            rough = interior_point(form, ROUGH_GAP)
            if form.has_vanished(form.true_bounds(rough.alpha).upper):
                return self._proceed(work, form, rough.alpha, has_ranked)
            if rough.gap < TELLING_GAP:
                has_ranked = True
                work.close(form, rough.alpha, is_exact=False)
                below = work.answer.p < 1.0
                below[work.W] = False
                if below.any():
                    # here every multiplier is positive and only the large ones count
                    work.W = _around_support(work, ROUGH_SUPPORT, ROUGH_GAP, ROUGH_ROOM)
                    form = work.open(is_cold=True)
                else:
                    begin = rough
        form, lam = solve_by_interior_point(form, work.goal, begin)
        return self._proceed(work, form, lam, has_ranked)

    def _proceed(self, search: Search, form: Form, lam: np.ndarray, has_ranked: bool) -> Phase:
        search.close(form, lam, is_exact=True)
        return self.proceed(search, form, SolveByInteriorPoint(has_ranked))

    def next_working_set(self, search: Search) -> np.ndarray:
        """After an exact solve nothing is dropped: a few violators at a time are left, and rows
        that come and go cost whole rounds.
        """
        if not self.has_ranked:
            return super().next_working_set(search)
        W = search.W
        p = search.answer.p.copy()
        violators = int(np.count_nonzero(p < 1.0 - 1e-13))
        p[W] = np.inf
        size = max(min(2 * violators, 2 * W.size), W.size // 5)
        return search.sets.smallest(p, min(search.size, size), W)


@dataclass(frozen=True)
class SolveByPivots(Solve):
    """About as many support vectors as features, nearly known: a Gram matrix of few more rows.

    Neither multipliers nor an interior point gain from a warm start there. σ is for Newton, where
    pivots fail.
    """

    sigma: float = FIRST_SIGMA

    @staticmethod
    def suits(search: Search) -> bool:
        """Whether the current answer's support is crowded, and nearly right."""
        answer, rank = search.answer, search.rank
        support = int(np.count_nonzero(answer.lam))
        violators = int(np.count_nonzero(answer.p < 1.0 - 1e-9))
        is_crowded = rank < 2 * support and min(support, rank) <= MOST_FREE
        return is_crowded and 0 < violators <= few_violators(rank)

    def advance(self, work: Search) -> Phase:
        sets, answer = work.sets, work.answer
        lam = on_support(answer.lam, answer.p, sets.base.row_norms**2, work.rank)
        support = np.flatnonzero(lam)
        violators = int(np.count_nonzero(answer.p < 1.0))
        size = int(PIVOT_ROOM * support.size) + 2 * violators
        W = work.smallest(max(work.settings.small, size), support)
        form = sets.open_gram(W)
        sets.warm(form, answer.w, answer.b, lam[W])
        solved = solve_by_exchange(form, lam[W], work.goal, work.rank, work.settings)
        if solved is None:
            return SolveByNewton(self.sigma).advance(work)
        work.W = W
        work.close(form, solved, is_exact=True)
        return self.proceed(work, form, replace(self, sigma=LATER_SIGMA))


# --- the hard margin of a form -------------------------------------------------------------------


def solve_by_exchange(
    form: GramForm, lam: np.ndarray, tol: float, rank: int, settings: AutoSettings = SETTINGS
) -> np.ndarray | None:
    """λ from the support of the one given, by exchanges or pivots; None where the gap stays open.

    More rows than the rank have a singular Gram matrix, and are not tried; with nearly as many,
    exchanges are not. Of rows that are there twice one is enough, and two are singular.
    """
    support, point = lam > 0.0, form.point
    size = np.count_nonzero(support)
    if size <= rank and form.bounds(lam).gap <= tol:
        return lam
    exchanged = _exchanged(form, support, rank, settings)
    if exchanged is None:
        single = gathered(form, lam) > 0.0
        if np.count_nonzero(single) < size:
            exchanged = _exchanged(form, single, rank, settings)
    if exchanged is None:
        return None
    bounds = form.bounds(exchanged)
    if not form.shows(tol, bounds.upper):
        bounds = form.true_bounds(exchanged)
    if bounds.gap <= tol:
        return exchanged
    form.point = point
    return None


def _exchanged(
    form: GramForm, support: np.ndarray, rank: int, settings: AutoSettings
) -> np.ndarray | None:
    """λ by exchanges, or by pivots; None where neither gets there.

    A kernel has no end of features, and exchanges have room in it however many rows there are.
    """
    size = np.count_nonzero(support)
    if size > rank:
        return None
    has_room = not form.is_explicit or size <= CROWDED * rank
    exchanged = exchange(form, support) if has_room else None
    return pivot(form, support, settings) if exchanged is None else exchanged


def solve_by_newton(
    form: Form, lam: np.ndarray, tol: float, sigma: float
) -> tuple[np.ndarray, bool]:
    """(λ, solved) by multipliers, from the form's current point; at once where that is solved."""
    if form.bounds(lam).gap <= tol:
        return lam, True
    lam, gap = multipliers(form, lam, Schedule(sigma), tol)
    if not math.isfinite(gap):
        return lam, False
    return lam, gap <= 4.0 * tol or form.is_solved(form.true_bounds(lam), tol)


def solve_by_interior_point(
    form: Form, tol: float, begin: InteriorPoint | None = None
) -> tuple[Form, np.ndarray]:
    """(form, λ) by the interior point.

    Where the Gram matrix has lost too many digits, the rows are reduced by QR and solved again.
    """
    lam = interior_point(form, tol, begin=begin).alpha
    bounds = form.true_bounds(lam)
    if form.is_solved(bounds, tol):
        return form, lam
    reduced = form.reduced()
    if reduced is not None:
        other, other_lam = solve_by_interior_point(reduced, tol)
        other_bounds = other.true_bounds(other_lam)
        is_better_witness = bounds.gap >= 1.0 and other_bounds.upper < bounds.upper
        if not other_bounds.gap > bounds.gap or is_better_witness:
            return other, other_lam
    return form, lam
