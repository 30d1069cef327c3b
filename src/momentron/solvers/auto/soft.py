"""The soft margin with squared hinge, exactly: Newton on all the rows, or on those with slack.

    min ½‖w‖² + (C/2) Σ s max(0, 1 − p)²,  p the functional margins, b unpenalised.

The C of this package is the constraints' stiffness, twice the user's; s are the rows' shares of it.

Rows without slack do not enter the solution, so a working set serves that holds all the others.
Two classes as a matrix are solved with all the rows in it: a pass is cheap there. Kernels and
pairs, and tall dense data from a warm start, begin with few rows and take in what falls below the
margin, until nothing does.
"""

from dataclasses import dataclass, replace

import numpy as np

from momentron.arithmetic.threads import one_thread
from momentron.solvers.auto import selection
from momentron.solvers.auto.exact import solve_by_interior_point
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.linear_algebra import add_to_diagonal
from momentron.solvers.auto.newton import exact_soft_margin, soft_margin, step_along_mean
from momentron.solvers.auto.phases import End, Phase, Reason, Search, run
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.rank import first_phase, first_working_set
from momentron.solvers.auto.soft_columns import ColumnNewton, SolveByColumns
from momentron.solvers.auto.soft_products import (
    SolveByProducts,
    has_room_for_factors,
    suits_products,
)
from momentron.solvers.base import Start


def soft_phase(search: Search, start: Start | None) -> Phase:
    """How a soft margin begins."""
    sets, settings = search.sets, search.settings
    is_tall = sets.is_dense and sets.size > settings.tall_ratio * sets.width
    is_known = start is not None and is_tall and not _is_nearly_hard(search)
    if suits_products(sets) and not (_is_nearly_hard(search) and has_room_for_factors(sets)):
        return SolveByProducts(SolveAll, start)
    if sets.is_plain and not is_known:
        return SolveAll(start)
    if ColumnNewton.suits(search):
        return SolveByColumns(BeginSome(start), start)
    return BeginSome(start)


def _is_nearly_hard(search: Search) -> bool:
    scale = float(np.mean(search.sets.shares * search.sets.base.row_norms**2))
    return search.C * scale > search.settings.nearly_hard


@dataclass(frozen=True)
class SolveAll(Phase):
    """Newton on all the rows as they are, not centred: the copy would be a second X.

    A second round starts again from where rounding left the first.
    """

    start: Start | None
    begun: Form | None = None

    def advance(self, search: Search) -> Phase:
        form = self.begun
        if form is None:
            form = _open(search, np.arange(search.size))
            with one_thread():
                self._begin(search, form)
        before = form.p
        with one_thread():
            solved = exact_soft_margin(form, search.C, max_steps=search.settings.soft_steps)
            form.refresh()
        lam = form.shares * (search.C * np.maximum(1.0 - form.p, 0.0))
        search.set_answer(*form.answer(), lam, is_exact=False)
        if not solved.converged or np.allclose(before, form.p, rtol=1e-15, atol=1e-15):
            return End(Reason.SOLVED)
        return replace(self, begun=form)

    def _begin(self, search: Search, form: Form) -> None:
        """Move to a first point: a given one, a sample's solution, or along the mean."""
        sets, settings, start = search.sets, search.settings, self.start
        n, d = sets.operator.shape
        size = max(settings.soft_sample, settings.soft_sample_ratio * d)
        if start is not None:
            weights = search.weights_of(start)
            length = float(np.linalg.norm(form.rows.combine(weights)))
            if length > 0.0:  # w = Σ λ_i a_i
                weights *= float(np.linalg.norm(start.w)) / length
            form.warm(start.w, start.b, weights)
        elif n > 4 * size and not sets.is_wide(n):
            # tall data: the first step on all the rows then sees little more than the true support
            index = selection.sample(sets.labels.codes, size, np.random.default_rng(0), least=0.0)
            small, C = _open(search, index), search.C * n / index.size
            step_along_mean(small, C)
            soft_margin(small, C, max_steps=2, slack=0.1)
            form.warm(*small.answer(), np.zeros(n))
        else:
            step_along_mean(form, search.C)


def _open(search: Search, index: np.ndarray) -> Form:
    """A form on some of the rows, as they are."""
    sets, settings = search.sets, search.settings
    d = sets.operator.shape[1]
    if sets.is_dense:
        sets.deadline.require(float(index.size) * d * min(8, index.size, d))
    rows = sets.plain_rows(index)
    if sets.is_wide(rows.m):
        return GramForm(rows, rows.gram(), sets.deadline, settings)
    squares = sets.base.row_norms[index] ** 2
    return PrimalForm(rows, sets.deadline, settings, borrow=True, squares=squares)


@dataclass(frozen=True)
class BeginSome(Phase):
    """The first working set, and its solution."""

    start: Start | None

    def advance(self, search: Search) -> Phase:
        sets, start, small = search.sets, self.start, search.settings.small
        if start is None:
            if _is_nearly_hard(search):  # the hard margin has nearly the same support
                hard = Search.of(sets.without_slack(), 1e-3)
                run(hard, first_phase(hard))
                search.W = hard.W
            elif not search.has_all:
                search.W = first_working_set(sets)
            return SolveSome().advance(search)
        search.set_answer(start.w, start.b, search.weights_of(start), is_exact=False)
        p = search.answer.p
        support = np.flatnonzero(p < 1.0)
        if sets.is_plain and 4 * support.size > search.size:  # few passes would be saved
            return SolveAll(start).advance(search)
        search.W = sets.smallest(p, max(small, int(1.2 * support.size)), support)
        return SolveSome().advance(search)


@dataclass(frozen=True)
class SolveSome(Phase):
    """A working set solved, a pass over all the rows, and those below the margin taken in."""

    is_first: bool = True

    def advance(self, search: Search) -> Phase:
        form, lam, converged = self._solve(search)
        search.close(form, lam, is_exact=True)
        W, p = search.W, search.answer.p.copy()
        below = p < 1.0 - 1e-9
        below[W] = False
        if not below.any():
            is_last = not converged or not self.is_first
            return End(Reason.SOLVED) if is_last else SolveSome(is_first=False)
        if search.is_crowded():  # rows that come would push out others, again and again
            return End(Reason.MEMORY)
        p[W] = np.inf
        size = min(int(np.count_nonzero(below)), max(search.settings.small, 2 * W.size))
        search.W = search.sets.smallest(p, size, W)  # rows that come and go would cost rounds
        return SolveSome(is_first=False)

    def _solve(self, search: Search) -> tuple[Form, np.ndarray, bool]:
        """(form, λ, converged) on the working set."""
        sets, settings, C = search.sets, search.settings, search.C
        rough = self._solve_nearly_hard(search) if _is_nearly_hard(search) else None
        has_point = rough is None and bool(search.answer.w.any())
        form = search.open(is_cold=not has_point)
        with one_thread():
            if rough is not None:
                sets.warm(form, *sets.answer(rough[0]), rough[1])
            elif not has_point:
                step_along_mean(form, C)
            steps = settings.soft_steps if rough is None else settings.soft_polish_steps
            solved = exact_soft_margin(form, C, max_steps=steps)
            form.refresh()
        if rough is not None and not solved.converged:  # C times rounding is no better
            return *rough, True
        return form, form.shares * (C * np.maximum(1.0 - form.p, 0.0)), solved.converged

    def _solve_nearly_hard(self, search: Search) -> tuple[Form, np.ndarray]:
        """The interior point on K + I/C: Newton takes a hundred steps where hardly any slack is."""
        sets = search.sets
        rows = sets.rows(search.W)
        with one_thread():
            K = rows.gram()
            add_to_diagonal(K, 1.0 / (search.C * rows.shares))
            form = GramForm(rows, K, sets.deadline, search.settings, is_explicit=False)
            return solve_by_interior_point(form, 1e-12, None)
