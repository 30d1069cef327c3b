"""Phase two: the hard margin of a working set, and the next one if rows outside are below it."""

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from momentron.solvers.auto import selection
from momentron.solvers.auto.exact import solve_by_exchange, solve_by_interior_point, solve_by_newton
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.interior import interior_point
from momentron.solvers.auto.phases import End, Phase, Reason, Search
from momentron.solvers.auto.refine import Refine


def after_the_last(search: Search, form: Form) -> Phase:
    """What follows the last working set: the last digits where they are missing, or the end."""
    if search.is_worth_refining(form):
        # a certificate of what vanishes would end it before it is refined
        return Refine().advance(search) if search.has_nearly_vanished() else Refine()
    if not search.answer.lower > 0.0 and search.is_contradicted():
        return End(Reason.CONTRADICTION)  # there is no margin, and was no witness yet
    return End(Reason.SOLVED)


class Solve(Phase):
    """A working set solved to rounding, and a pass over all the rows."""

    def proceed(self, search: Search, form: Form, again: "Solve") -> Phase:
        """What follows a solve: `again` on the next working set, unless this was the last."""
        if search.is_crowded():
            return End(Reason.MEMORY)
        if search.is_finished(form):
            return after_the_last(search, form)
        search.W = again.next_working_set(search)
        return again

    def next_working_set(self, search: Search) -> np.ndarray:
        """Support vectors, violators, and the rows next to them."""
        settings = search.settings
        return _around_support(search, settings.support_share, 1e-13, settings.support_room)

    @abstractmethod
    def advance(self, search: Search) -> Phase: ...


def _around_support(search: Search, least: float, below: float, room: float) -> np.ndarray:
    """The rows with a share of the largest multiplier or a margin below 1 by so much, and others
    next to them, as many as a multiple of the support.
    """
    answer, small = search.answer, search.settings.small
    support = np.flatnonzero(answer.lam > least * float(answer.lam.max()))
    violators = int(np.count_nonzero(answer.p < 1.0 - below))
    if search.sets.is_kernel:
        room = search.settings.kernel_share
    size = max(small, int(room * support.size), support.size + 2 * violators)
    return search.smallest(min(size, max(2 * search.W.size, small)), support)


@dataclass(frozen=True)
class SolveByNewton(Solve):
    """Exchanges from the support as ranked where they work, else Newton with multipliers.

    Attributes
    ----------
    C : float
        The first penalty of the multipliers.
    exchanges : bool
        Whether exchanges are worth a try: each failure costs a factor or more.
    begun : (Form, ndarray), optional
        The working set's form, where it is open already, and its multipliers.
    """

    C: float
    exchanges: bool = True
    begun: tuple[Form, np.ndarray] | None = None

    def advance(self, search: Search) -> Phase:
        if self.begun is not None:
            form, lam = self.begun
        else:
            form, lam = search.open(is_cold=False), search.answer.lam[search.W]
        exchanged, exchanges = None, self.exchanges
        if exchanges and form.gram is not None:
            exchanged = solve_by_exchange(form.gram, lam, search.goal, search.rank)
            exchanges = exchanged is not None
        if exchanged is not None:
            lam, is_solved = exchanged, True
        else:
            lam, is_solved = solve_by_newton(form, lam, search.goal, self.C)
        if not is_solved:
            return SolveByInteriorPoint(begun=form).advance(search)
        search.close(form, lam, is_exact=True)
        return self.proceed(search, form, SolveByNewton(search.settings.later_C, exchanges))


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

    def advance(self, search: Search) -> Phase:
        form = self.begun or search.open(is_cold=True)
        settings, begin, has_ranked = search.settings, None, self.has_ranked
        if not (search.has_all or has_ranked):
            rough = interior_point(form, settings.rough_gap)
            if form.has_vanished(form.true_bounds(rough.lam).upper):
                return self._proceed(search, form, rough.lam, has_ranked)
            if rough.gap < settings.telling_gap:
                has_ranked = True
                search.close(form, rough.lam, is_exact=False)
                below = search.answer.p < 1.0
                below[search.W] = False
                if below.any():
                    # here every multiplier is positive and only the large ones count
                    share, room = settings.rough_support_share, settings.rough_support_room
                    search.W = _around_support(search, share, settings.rough_gap, room)
                    form = search.open(is_cold=True)
                else:
                    begin = (rough.lam, rough.s)
        form, lam = solve_by_interior_point(form, search.goal, begin)
        return self._proceed(search, form, lam, has_ranked)

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

    Neither multipliers nor an interior point gain from a warm start there. C is for Newton, where
    pivots fail.
    """

    C: float

    @staticmethod
    def suits(search: Search) -> bool:
        """Whether the current answer's support is crowded, and nearly right."""
        settings, answer, rank = search.settings, search.answer, search.rank
        support = int(np.count_nonzero(answer.lam))
        violators = int(np.count_nonzero(answer.p < 1.0 - 1e-9))
        is_crowded = rank < 2 * support and min(support, rank) <= settings.pivot_support
        return is_crowded and 0 < violators <= settings.few_violators(rank)

    def advance(self, search: Search) -> Phase:
        sets, answer, settings = search.sets, search.answer, search.settings
        squares = sets.base.row_norms**2
        lam = selection.on_support(answer.lam, answer.p, squares, search.rank)
        support = np.flatnonzero(lam)
        violators = int(np.count_nonzero(answer.p < 1.0))
        size = int(settings.pivot_share * support.size) + 2 * violators
        W = search.smallest(max(settings.small, size), support)
        form = sets.open_gram(W)
        sets.warm(form, answer.w, answer.b, lam[W])
        solved = solve_by_exchange(form, lam[W], search.goal, search.rank)
        if solved is None:
            return SolveByNewton(self.C).advance(search)
        search.W = W
        search.close(form, solved, is_exact=True)
        return self.proceed(search, form, replace(self, C=settings.later_C))
