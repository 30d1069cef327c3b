"""The rounds of the hard margin: rank the rows, solve a working set, look at all, repeat."""

import math
import warnings

import numpy as np

from momentron.convergence import BudgetWarning
from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.active_set import exchange
from momentron.solvers.auto.exact import (
    VANISHED,
    solve_by_exchange,
    solve_by_interior_point,
    solve_by_newton,
)
from momentron.solvers.auto.forms import Deadline, Form, gap_floor, true_gap
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.interior import interior_point
from momentron.solvers.auto.newton import soft_path
from momentron.solvers.auto.pivots import LARGEST, few_violators
from momentron.solvers.auto.ranking import MAX_RANKINGS, SMALL, PassRanking, first_working_set
from momentron.solvers.auto.refine import MAX_ORDER, refine
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import Start
from momentron.threads import one_thread

MAX_ROUNDS = 60
MAX_CROWDED = 6  # solves with as many rows as memory allows


class Rounds:
    """What is carried from round to round: (w, b), one multiplier a row, and the working set W."""

    def __init__(self, problem: Problem, tol: float, deadline: Deadline) -> None:
        self.sets = WorkingSets(problem, problem.constraints, deadline)
        self.tol, self.deadline = tol, deadline
        self.size = self.sets.size
        self.w, self.b = problem.zeros(), np.zeros(self.sets.n_intercepts)
        self.lam = np.zeros(self.size)
        self.products = self.sets.no_products()
        self.p = np.zeros(self.size)
        self.W, self.Cs = first_working_set(self.sets)
        self.form: Form | None = None
        self.pass_ranking: PassRanking | None = None
        self.rankings = self.rounds = self.crowded_rounds = 0
        self.C = 0.0
        self.is_ranked = self.is_refining = self.is_done = False
        self.by_newton = self.by_exchange = True
        self.by_pivots = False
        self.has_looked = False  # whether the interior point has looked at all the rows once

    @property
    def lam(self) -> np.ndarray:
        """One multiplier a row; to be replaced, not written to."""
        return self._lam

    @lam.setter
    def lam(self, lam: np.ndarray) -> None:
        self._lam = lam
        self._upper: float | None = None  # the bound that they prove, once asked for

    @property
    def rank(self) -> int:
        """The largest number of rows of which none is a combination of others."""
        return self.sets.width + self.sets.n_intercepts

    @property
    def has_all(self) -> bool:
        """Whether the working set is all the rows."""
        return self.W.size == self.size

    # --- one round -----------------------------------------------------------------------------

    def advance(self) -> None:
        """One round: a ranking, an exact solve, or the last digits."""
        self.rounds += 1
        if not self.is_ranked:
            if PassRanking.suits(self.sets) and not self.has_all:
                self._rank_by_passes()
            else:
                self._rank()
        elif self.is_refining:
            self._refine()
        else:
            self._solve()
        if self.rounds >= MAX_ROUNDS:
            self.is_done = True

    def _rank(self) -> None:
        """Soft margins with growing C, on a sample and then on the rows of smallest margin.

        At C = 1000 (in units of 1/mean‖a‖²) a working set of three times the soft support holds
        nearly all of the true support, and few rows outside are below the margin.
        """
        form = self._open(is_cold=self.rankings == 0)
        if form.scale < 1e-280:  # nothing but zeros: every q is a witness
            self.lam = np.zeros(self.size)
            self._lam[self.W] = 1.0
            self.is_done = True
            return
        if self.has_all and self.size <= self.sets.width and self._exchange_all(form):
            return
        with one_thread():
            lam = soft_path(form, self.Cs)
        if self.has_all:
            self.lam = lam
            self.form, self.C, self.is_ranked = form, 10.0 * self.Cs[-1], True
            self._solve()
            return
        self._close(form, lam, is_exact=False)
        self.rankings += 1
        if self.rankings == 1 and self._is_contradicted():
            return
        support = np.flatnonzero(self.lam)
        outside = int(np.count_nonzero(self.p < 1.0)) - support.size
        self.W = self._smallest(self._ranking_size(support.size, outside), support)
        settled = self.rankings > 1 and outside <= 0.2 * support.size
        if settled or self.rankings == (8 if self.sets.is_kernel else MAX_RANKINGS):
            self.is_ranked, self.C = True, 1e4
        self.Cs = (1000.0,) if self.rankings > 1 else (100.0, 1000.0)

    def _exchange_all(self, form: Form) -> bool:
        """Whether no more rows than features are solved by exchanges from all of them."""
        assert isinstance(form, GramForm)
        with one_thread():
            lam = exchange(form, np.ones(self.size, bool))
        if lam is None:
            return False
        self._close(form, lam, is_exact=True)
        lower = self._lower()
        if not self.upper() - lower <= 0.25 * self.tol * self.upper():
            form.reset()
            return False
        self.is_ranked, self.is_refining = True, self._is_worth_refining(form, lower)
        self.is_done = not self.is_refining
        return True

    def _ranking_size(self, support: int, outside: int) -> int:
        if self.sets.is_kernel:  # values are dear, and so is a Gram matrix
            return int(max(SMALL, 1.2 * support + min(outside, 0.5 * support)))
        room = min(2.0 * support + min(outside, support), 3.0 * self.sets.width)
        return int(max(SMALL, 1.2 * support, room))

    def _rank_by_passes(self) -> None:
        """Rough soft margins on all the rows at once, one C a round."""
        ranking = self.pass_ranking or PassRanking(self.sets, self.deadline)
        self.pass_ranking = ranking
        self.lam = ranking.advance()
        self.w, self.b = ranking.form.answer()
        self._look(is_exact=False)
        self.rankings += 1
        if self.rankings == 1 and self._is_contradicted():
            return
        if ranking.is_done:
            support = np.flatnonzero(self.lam)
            self.W = self._smallest(max(SMALL, int(1.2 * support.size)), support)
            self.is_ranked, self.C, self.pass_ranking = True, 1e4, None

    def _is_contradicted(self) -> bool:
        """Equal rows with opposite labels end the search at once."""
        if not self.sets.is_plain:
            return False
        signs = self.sets.signs(slice(None))
        twins = selection.opposite_twins(self.sets.operator, signs, self.p)
        if twins is None:
            return False
        self.lam = np.zeros(self.size)
        self._lam[twins] = 1.0
        self.is_done = True
        return True

    def _solve(self) -> None:
        """The hard margin of a working set, and the next one if rows outside are below it."""
        form = (self._solve_by_pivots() if self.by_pivots else None) or self._solve_working_set()
        self.C = 1e5
        if self._is_crowded():
            self.is_done = True
        elif self._is_finished(form):
            lower = self._lower()
            self.is_refining = self._is_worth_refining(form, lower)
            self.is_done = not self.is_refining
            if not lower > 0.0:
                self._is_contradicted()  # perhaps there is no margin, and no witness yet
        else:
            self.W = self._next_working_set()

    def _solve_working_set(self) -> Form:
        """Newton with multipliers as long as it converges, the interior point from then on."""
        form = self.form or self._open(is_cold=not self.by_newton)
        self.form = None
        lam = self.lam if self.has_all else self.lam[self.W]
        if self.by_newton:
            with one_thread():
                lam, self.by_newton = self._solve_by_newton(form, lam)
        if not self.by_newton:
            form, lam = self._solve_by_interior_point(form)
        self._close(form, lam, is_exact=True)
        return form

    def _solve_by_newton(self, form: Form, lam: np.ndarray) -> tuple[np.ndarray, bool]:
        """(λ, solved): by exchanges from the support as ranked, else by multipliers."""
        tol = self.tol / 4.0
        if self.by_exchange and isinstance(form, GramForm):
            exchanged = solve_by_exchange(form, lam, tol, self.rank)
            if exchanged is not None:
                return exchanged, True
            self.by_exchange = False  # each failure costs a factor or more
        return solve_by_newton(form, lam, tol, self.C)

    def _is_crowded(self) -> bool:
        """Whether the memory for kernel values has held too small a working set for long."""
        if self.W.size < self.sets.capacity or self.sets.capacity == self.size:
            return False
        self.crowded_rounds += 1
        if self.crowded_rounds < MAX_CROWDED:
            return False
        support = int(np.count_nonzero(self.lam))
        warnings.warn(
            f"cache_size allows working sets of {self.sets.capacity} rows, {support} of which have "
            "weight, and more are needed: the interval is wider than asked for; raise cache_size",
            BudgetWarning,
            stacklevel=2,
        )
        return True

    def _is_worth_refining(self, form: Form, lower: float) -> bool:
        """Whether the support looks right, but float64 cannot hold the gap that is asked for."""
        if not self.sets.is_plain:
            return False
        if lower <= 0.0 or 8.0 * gap_floor(form, lower) <= self.tol:
            return False
        upper = self.upper()
        return upper < math.inf and upper - lower < 0.1 * upper

    def _refine(self) -> None:
        """Extended precision for w on the support, a proposal beside the one in float64."""
        support = self.W[self.lam[self.W] > 1e-9 * float(self.lam.max())]
        if support.size <= MAX_ORDER and not self.deadline.has_passed():
            signs = self.sets.signs(support)
            rows = self.sets.operator.rows(support) * signs[:, None]
            refined = refine(rows, signs, self.sets.fits_intercept)
            if refined is not None:
                self.w = refined[0]
                self.lam = np.zeros(self.size)
                self._lam[support] = np.maximum(refined[1], 0.0)
        self.is_done = True

    def _solve_by_interior_point(self, form: Form) -> tuple[Form, np.ndarray]:
        """The interior point in two legs, with a look at all the rows between them.

        Where no row outside W is below the margin at a rough gap, the same run goes on; else W is
        chosen anew and solved cold, since a warm start with new rows takes twice the iterations.
        """
        begin = None
        if not (self.has_all or self.has_looked):
            with one_thread():
                rough = interior_point(form, 3e-3)
            if true_gap(form, rough.lam)[1] <= VANISHED * form.length:
                return form, rough.lam
            if rough.gap < 0.01:
                self.has_looked = True
                self._close(form, rough.lam, is_exact=False)
                below = self.p < 1.0
                below[self.W] = False
                if below.any():
                    self.W = self._next_working_set(is_rough=True)
                    form = self._open(is_cold=True)
                else:
                    begin = (rough.lam, rough.s)
        with one_thread():
            return solve_by_interior_point(form, self.tol / 4.0, begin)

    def _is_finished(self, form: Form) -> bool:
        """A witness, every row seen, or no row outside W worse than the worst inside."""
        if self.has_all or self.deadline.has_passed():
            return True
        upper = self.upper()
        if upper <= VANISHED * form.length:
            return True
        lower = self._lower()
        if upper - lower <= max(self.tol, 4.0 * gap_floor(form, upper)) * upper:
            return True
        outside = np.ones(self.size, bool)
        outside[self.W] = False
        is_rounding = lower > 0.0 and upper - lower < 1e-8 * upper
        return is_rounding and not bool((self.p[outside] < self.p[self.W].min()).any())

    def _next_working_set(self, is_rough: bool = False) -> np.ndarray:
        """Support vectors, violators, and the rows next to them.

        In a rough interior state every multiplier is positive and only the large ones count. After
        an exact interior solve nothing is dropped: a few violators at a time are left, and rows
        that come and go cost whole rounds.
        """
        cut = (0.01 if is_rough else 1e-9) * float(self.lam.max())
        support = np.flatnonzero(self.lam > cut)
        violators = int(np.count_nonzero(self.p < 1.0 - (3e-3 if is_rough else 1e-13)))
        if self.has_looked and not is_rough:
            p = self.p.copy()
            p[self.W] = np.inf
            size = max(min(2 * violators, 2 * self.W.size), self.W.size // 5)
            return self.sets.smallest(p, min(self.size, size), self.W)
        share = 1.2 if self.sets.is_kernel else (2.5 if is_rough else 2.0)
        size = max(SMALL, int(share * support.size), support.size + 2 * violators)
        return self._smallest(min(size, max(2 * self.W.size, SMALL)), support)

    def _smallest(self, size: int, kept: np.ndarray) -> np.ndarray:
        return self.sets.smallest(self.p, size, kept)

    # --- between the rounds and a form ---------------------------------------------------------

    def _open(self, *, is_cold: bool) -> Form:
        """A form on the rows W, at the current (w, b, λ) unless cold."""
        form = self.sets.open(self.W)
        if not is_cold:
            self.sets.warm(form, self.w, self.b, self.lam[self.W])
        return form

    def _close(self, form: Form, lam: np.ndarray, *, is_exact: bool) -> None:
        """Take over the form's point, and pass over all the rows."""
        told = None
        if self.has_all:
            self.lam = lam
            told = self.sets.told_by(form, lam)
        else:
            self.lam = np.zeros(self.size)
            self._lam[self.W] = lam
        if told is None:
            self.w, self.b = self.sets.answer(form)
            self._look(is_exact)
        else:
            self.w, self.products, self.p, self._upper = told

    def _look(self, is_exact: bool) -> None:
        self.products, self.p = self.sets.look(self.w, self.b, is_exact=is_exact)

    def _lower(self) -> float:
        return self.sets.lower(self.w, self.p)

    def upper(self) -> float:
        """‖Zᵀq‖ for the normalised multipliers."""
        if self._upper is None:
            self._upper = self.sets.upper(self.lam)
        return self._upper

    # --- warm starts ---------------------------------------------------------------------------

    def begin_from(self, start: Start) -> None:
        """Skip the ranking: the start's classifier and weights rank the rows."""
        self.w, self.b = start.w, start.b
        lam = np.zeros(self.size)
        lam[: start.q.size] = start.q
        self.lam = lam
        upper = self.upper()
        if not (np.any(self.w) and 0.0 < upper < math.inf):
            self.lam = np.zeros(self.size)
            return
        self._look(is_exact=False)
        self.lam = lam / upper**2  # w = Σ λ_i a_i has functional margin 1 where λ = q/γ²
        support = np.flatnonzero(self.lam)
        if not self.has_all:
            self.W = self._smallest(max(SMALL, 2 * support.size), support)
        violators = int(np.count_nonzero(self.p < 1.0 - 1e-9))
        is_crowded = self.rank < 2 * support.size and min(support.size, self.rank) <= LARGEST
        self.by_pivots = is_crowded and 0 < violators <= few_violators(self.rank)
        self.is_ranked, self.C = True, 1e4

    def _solve_by_pivots(self) -> Form | None:
        """About as many support vectors as features, nearly known: a Gram matrix of few more rows.

        Neither multipliers nor an interior point gain from a warm start there.
        """
        squares = self.sets.constraints.row_norms**2
        lam = selection.on_support(self.lam, self.p, squares, self.rank)
        support = np.flatnonzero(lam)
        size = int(1.3 * support.size) + 2 * int(np.count_nonzero(self.p < 1.0))
        W = self._smallest(max(SMALL, size), support)
        form = self.sets.open(W, by_gram=True)
        assert isinstance(form, GramForm)
        with one_thread():
            self.sets.warm(form, self.w, self.b, lam[W])
            solved = solve_by_exchange(form, lam[W], self.tol / 4.0, self.rank)
        if solved is None:
            self.by_pivots = False
            return None
        self.W = W
        self._close(form, solved, is_exact=True)
        return form
