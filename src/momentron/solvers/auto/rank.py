"""Phase one: which rows matter. Rough soft margins, of a sample first, that rank all of them."""

import math
from dataclasses import dataclass

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.solvers.auto import selection
from momentron.solvers.auto.active_set import exchange
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.newton import soft_path
from momentron.solvers.auto.pass_form import PassForm
from momentron.solvers.auto.phases import End, Phase, Reason, Search
from momentron.solvers.auto.solving import SolveByNewton, SolveByPivots, after_the_last
from momentron.solvers.auto.straight import SolveStraight
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import Start
from momentron.solvers.momentum import Momentum


def first_working_set(sets: WorkingSets) -> np.ndarray:
    """A sample of the rows, or the pairs that momentum finds."""
    rng = np.random.default_rng(0)
    if sets.labels.is_paired:
        return _pairs_by_momentum(sets, rng)
    return selection.sample(sets.labels.codes, min(sets.settings.small, sets.capacity), rng)


def _pairs_by_momentum(sets: WorkingSets, rng: np.random.Generator) -> np.ndarray:
    """The pairs with the smallest margins after some steps of Algorithm 1 on a sample."""
    labels, settings = sets.labels, sets.settings
    size = min(settings.momentum_sample, labels.codes.size)
    few = selection.sample(labels.codes, size, rng, least=0.0)
    problem = sets.base.some(few, sets.operator_of(few)).for_solver(tight=True)
    solver = Momentum()
    state = solver.init(problem)
    for _ in range(settings.momentum_steps):
        require_time()
        solver.step(problem, state)
    size = min(max(settings.small, 4 * labels.n_classes), sets.capacity)
    chosen = np.unique(problem.dual_set.lowest(-state.scores, size))
    wrong = labels.per_example
    return few[chosen // wrong] * wrong + chosen % wrong


def warm_phase(search: Search, start: Start) -> Phase | None:
    """No ranking: a start's classifier and weights rank the rows. None where it has neither."""
    settings, weights = search.settings, search.weights_of(start)
    upper = search.sets.upper(weights)
    if not (np.any(start.w) and 0.0 < upper < math.inf):
        return None
    # w = Σ λ_i a_i has functional margin 1 where λ = q/γ²
    search.set_answer(start.w, start.b, weights / upper**2, is_exact=False)
    support = np.flatnonzero(search.answer.lam)
    if not search.has_all:
        search.W = search.smallest(max(settings.small, 2 * support.size), support)
    if SolveByPivots.suits(search):
        return SolveByPivots(settings.first_C)
    return SolveByNewton(settings.first_C)


def first_phase(search: Search) -> Phase:
    """How the rows are ranked: by working sets, or all at once where samples say nothing."""
    settings, sets = search.settings, search.sets
    if search.has_all:
        ranked = RankWorkingSets(settings.all_Cs)
        return SolveStraight(ranked) if SolveStraight.suits(search) else ranked
    if sets.is_plain and not sets.is_dense and sets.width > settings.wide:
        rows = sets.plain_rows(np.arange(sets.size))
        form = PassForm(rows, sets.operator.row_norms**2, sets.deadline, settings)
        return RankByPasses(form, settings.pass_Cs)
    search.W = first_working_set(sets)
    return RankWorkingSets(settings.pair_Cs if sets.labels.is_paired else settings.sample_Cs)


@dataclass(frozen=True)
class RankWorkingSets(Phase):
    """Soft margins with growing C, on a sample and then on the rows of smallest margin.

    At C = 1000 (in units of 1/mean‖a‖²) a working set of three times the soft support holds nearly
    all of the true support, and few rows outside are below the margin.
    """

    Cs: tuple[float, ...]
    count: int = 0

    def advance(self, search: Search) -> Phase:
        settings = search.settings
        form = search.open(is_cold=self.count == 0, is_rough=not search.has_all)
        if form.scale < 1e-280:  # nothing but zeros: every q is a witness
            search.weigh_alone(search.W)
            return End(Reason.WITNESS)
        if search.has_all:
            return self._solve_all(search, form)
        lam = soft_path(form, self.Cs)
        search.close(form, lam, is_exact=False)
        count = self.count + 1
        if count == 1 and search.is_contradicted():
            return End(Reason.CONTRADICTION)
        support = np.flatnonzero(search.answer.lam)
        outside = int(np.count_nonzero(search.answer.p < 1.0)) - support.size
        most = settings.kernel_rankings if search.sets.is_kernel else settings.rankings
        is_last = count == most or (count > 1 and outside <= settings.settled_share * support.size)
        size = self._next_size(search, support.size, outside, is_last=is_last)
        search.W = search.smallest(size, search.sets.weighed(search.answer))
        if is_last:
            return SolveByNewton(settings.first_C)
        return RankWorkingSets(settings.second_Cs if count == 1 else settings.last_Cs, count)

    def _solve_all(self, search: Search, form: Form) -> Phase:
        """No ranking of few rows: a rough soft margin is where their exact solve begins."""
        if search.size <= search.sets.width:
            end = self._exchange_all(search, form)
            if end is not None:
                return end
        lam = soft_path(form, self.Cs)
        return SolveByNewton(10.0 * self.Cs[-1], begun=(form, lam)).advance(search)

    def _exchange_all(self, search: Search, form: Form) -> Phase | None:
        """No more rows than features, solved by exchanges from all of them; None where not."""
        if form.gram is None:
            return None
        lam = exchange(form.gram, np.ones(search.size, bool))
        if lam is None:
            return None
        search.close(form, lam, is_exact=True)
        answer = search.answer
        if not answer.upper - answer.lower <= search.goal * answer.upper:
            form.reset()
            return None
        return after_the_last(search, form)

    def _next_size(self, search: Search, support: int, outside: int, *, is_last: bool) -> int:
        settings = search.settings
        if search.sets.is_kernel:  # values are dear, and so is a Gram matrix
            share = settings.kernel_last_share if is_last else settings.kernel_share
            room = share * support + min(outside, 0.5 * support)
            return int(max(settings.small, room))
        room = min(2.0 * support + min(outside, support), 3.0 * search.sets.width)
        return int(max(settings.small, settings.least_room * support, room))


@dataclass(frozen=True)
class RankByPasses(Phase):
    """Rough soft margins on all the rows of wide sparse data at once, one C per round."""

    form: PassForm
    Cs: tuple[float, ...]
    is_first: bool = True

    def advance(self, search: Search) -> Phase:
        form, settings = self.form, search.settings
        lam = soft_path(form, self.Cs[:1])
        left = self.Cs[1:]
        if self.is_first and np.count_nonzero(lam) > settings.many_supports * lam.size:
            # many support vectors: a good ranking saves exact solves, which are dear then
            left = (settings.extra_C, *left)
            form.accuracy = settings.careful_direction
        search.set_answer(*form.answer(), lam, is_exact=False)
        if self.is_first and search.is_contradicted():
            return End(Reason.CONTRADICTION)
        if left:
            return RankByPasses(form, left, is_first=False)
        support = np.flatnonzero(lam)
        size = max(settings.small, int(settings.least_room * support.size))
        search.W = search.smallest(size, support)
        return SolveByNewton(settings.first_C)
