"""The soft margin with squared hinge: Newton on all the rows, or on those with slack.

    min ½‖w‖² + (C/2) Σ s max(0, 1 − p)²,  p the functional margins, b unpenalised.

The C of this package is the constraints' stiffness, twice the user's; s are the rows' shares of it.

Rows without slack do not enter the solution, so a working set serves that holds all the others.
Two classes as a matrix are solved with all the rows in it: a pass is cheap there. Kernels and
pairs, and tall dense data from a warm start, begin with few rows and take in what falls below the
margin, until nothing does.
"""

import math
from dataclasses import dataclass

import numpy as np

from momentron.arithmetic.clock import time_left
from momentron.solvers.auto.deadline import seconds_of
from momentron.solvers.auto.forms import Form, Values
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.hard import first_phase, first_working_set, solve_by_interior_point
from momentron.solvers.auto.linear_algebra import add_to_diagonal
from momentron.solvers.auto.newton import (
    PATH_GROWTH,
    PATH_SLACK,
    PATH_START,
    PATH_STEPS,
    exact_soft_margin,
    soft_margin,
    step_along_mean,
)
from momentron.solvers.auto.primal_form import PrimalForm, ProductForm, product_seconds
from momentron.solvers.auto.rows import sample
from momentron.solvers.auto.search import End, Phase, Search, run
from momentron.solvers.auto.soft_kernel import ColumnNewton, SolveByColumns
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import Start

NEARLY_HARD = 1e5  # C in units of 1/mean‖a‖² from which a soft margin is nearly hard
STEPS, POLISH_STEPS = 60, 12  # Newton steps, and those from a solution of the interior point
TALL = 4  # rows per feature from which dense data are tall
SAMPLE, SAMPLE_RATIO = 2000, 10  # rows of the sample on which they begin, and the same per feature
STIFF = 100.0  # C in units of 1/mean‖a‖² to which a cold start by products goes by smaller ones
FACTORS = 4  # for which there must be time, or products are tried
UNKNOWN = Values(math.inf, 0.0)
PATIENCE = 8  # steps by products without progress


def soft_phase(search: Search, start: Start | None) -> Phase:
    """How a soft margin begins."""
    sets = search.sets
    is_tall = sets.is_dense and sets.size > TALL * sets.width
    is_known = start is not None and is_tall and not _is_nearly_hard(search)
    if suits_products(sets) and not (_is_nearly_hard(search) and has_room_for_factors(sets)):
        return SolveByProducts(start)
    if sets.is_plain and not is_known:
        return SolveAll(start)
    if ColumnNewton.suits(search):
        return SolveByColumns(BeginSome(start), start)
    return BeginSome(start)


def _is_nearly_hard(search: Search) -> bool:
    scale = float(np.mean(search.sets.shares * search.sets.base.row_norms**2))
    return search.C * scale > NEARLY_HARD


# --- which system --------------------------------------------------------------------------------


def suits_products(sets: WorkingSets, price: float = 0.0) -> bool:
    """Whether products are the faster way to solve all the rows, or the only one.

    They are where rows are sparse and factors take long beside the products of a step; and where
    the memory, or the time left, has no room for factors. `price` is C of the plain hinge in units
    of 1/mean‖a‖²: the larger it is, the more products its updates take.
    """
    settings = sets.settings
    if not sets.is_plain or sets.matrix is None:
        return False
    if not has_room_for_factors(sets):
        return True
    products = settings.pass_products * (1.0 + 2.0 * price) * product_seconds(sets.matrix.X)
    return not sets.is_dense and _factor_seconds(sets) > max(settings.pass_seconds, products)


def has_room_for_factors(sets: WorkingSets) -> bool:
    """Whether the memory has room for a factor of all the rows, and the time left for some."""
    settings = sets.settings
    fits = settings.form_bytes * _order(sets) ** 2 <= settings.memory
    return fits and FACTORS * _factor_seconds(sets) <= time_left()


def _order(sets: WorkingSets) -> int:
    """Of the matrices of all the rows."""
    n, d = sets.operator.shape
    return n if sets.is_wide(n) else d


def _factor_seconds(sets: WorkingSets) -> float:
    return seconds_of(float(_order(sets)) ** 3 / 3.0)


def open_by_products(sets: WorkingSets) -> ProductForm:
    """A form on all the rows, with directions good enough to solve them."""
    rows, squares = sets.plain_rows(np.arange(sets.size)), sets.base.row_norms**2
    return ProductForm(rows, squares, sets.deadline, is_scaled=True)


# --- all the rows --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SolveAll(Phase):
    """Newton on all the rows as they are, not centred: the copy would be a second X.

    A second round starts again from where rounding left the first.
    """

    start: Start | None
    begun: Form | None = None

    def advance(self, work: Search) -> Phase:
        form = self.begun
        if form is None:
            form = _open(work, np.arange(work.size))
            self._begin(work, form)
        before = form.p
        solved = exact_soft_margin(form, work.C, max_steps=STEPS)
        form.refresh()
        work.set_answer(*form.answer(), _slack_weights(work, form), is_exact=False)
        if not solved.converged or np.allclose(before, form.p, rtol=1e-15, atol=1e-15):
            return End()
        return SolveAll(self.start, form)

    def _begin(self, search: Search, form: Form) -> None:
        """Move to a first point: a given one, a sample's solution, or along the mean."""
        sets, start = search.sets, self.start
        n, d = sets.operator.shape
        size = max(SAMPLE, SAMPLE_RATIO * d)
        if start is not None:
            weights = search.weights_of(start)
            length = float(np.linalg.norm(form.rows.combine(weights)))
            if length > 0.0:  # w = Σ λ_i a_i
                weights *= float(np.linalg.norm(start.w)) / length
            form.warm(start.w, start.b, weights)
        elif n > 4 * size and not sets.is_wide(n):
            # tall data: the first step on all the rows then sees little more than the true support
            index = sample(sets.labels.codes, size, np.random.default_rng(0), least=0.0)
            small, C = _open(search, index), search.C * n / index.size
            step_along_mean(small, C)
            soft_margin(small, C, max_steps=2, slack=0.1)
            form.warm(*small.answer(), np.zeros(n))
        else:
            step_along_mean(form, search.C)


def _open(search: Search, index: np.ndarray) -> Form:
    """A form on some of the rows, as they are."""
    sets = search.sets
    d = sets.operator.shape[1]
    if sets.is_dense:
        sets.deadline.require(float(index.size) * d * min(8, index.size, d))
    rows = sets.plain_rows(index)
    if sets.is_wide(rows.m):
        return GramForm(rows, rows.gram(), sets.deadline)
    squares = sets.base.row_norms[index] ** 2
    return PrimalForm(rows, sets.deadline, borrow=True, squares=squares)


def _slack_weights(search: Search, form: Form) -> np.ndarray:
    """C max(0, 1 − p), which α is at the optimum."""
    return form.shares * (search.C * np.maximum(1.0 - form.p, 0.0))


@dataclass(frozen=True)
class SolveByProducts(Phase):
    """A Newton step with conjugate gradients, and a pass: a gap within `tol` ends the solve.

    What they leave open is for factors, where there is room for them.

    Attributes
    ----------
    best : Values
        The smallest P and the largest D so far.
    idle : int
        The steps since one of them has improved.
    C : float
        Of the next step: a cold start goes up to a large one, from which few rows come and go.
    """

    is_step = True
    start: Start | None = None
    form: ProductForm | None = None
    best: Values = UNKNOWN
    idle: int = 0
    C: float = math.inf

    def advance(self, work: Search) -> Phase:
        form, C = self.form, min(self.C, work.C)
        if form is None:
            form = open_by_products(work.sets)
            C = self._begin(work, form)
        elif C < work.C:
            soft_margin(form, C, max_steps=PATH_STEPS, slack=PATH_SLACK)
            C *= PATH_GROWTH
        else:
            soft_margin(form, C, max_steps=1)
        form.refresh()
        lam = _slack_weights(work, form)
        work.set_answer(*form.answer(), lam, is_exact=False)
        values, best = self._values(work, form, lam), self.best
        if values.gap <= 0.25 * work.tol:
            return End()
        # near the end rounding is all that is left of the gap, and moves neither by a share of it
        step = 0.01 * min(best.gap, 1.0)
        falls = values.primal < (1.0 - step) * best.primal
        moves = falls or values.dual > (1.0 + step) * best.dual or C < work.C
        idle = 0 if moves else self.idle + 1
        if idle > PATIENCE:
            if has_room_for_factors(work.sets):
                return SolveAll(Start(work.answer.w, work.answer.b, lam))
            work.deadline.has_refused = True
            return End()
        best = Values(min(values.primal, best.primal), max(values.dual, best.dual))
        return SolveByProducts(None, form, best, idle, C)

    def _begin(self, search: Search, form: ProductForm) -> float:
        """Move to a first point; the C of the step that follows."""
        start = self.start
        if start is not None and np.any(start.w):
            form.warm(start.w, start.b, search.weights_of(start))
            return search.C
        C = min(search.C, PATH_START / form.scale)
        step_along_mean(form, C)
        return C if search.C * form.scale > STIFF else search.C

    def _values(self, search: Search, form: ProductForm, lam: np.ndarray) -> Values:
        """P and D, as far as floats tell: 1/√(2D) is the answer's upper bound."""
        slack, upper = np.maximum(1.0 - form.p, 0.0), search.answer.upper
        primal = 0.5 * form.norm() ** 2 + 0.5 * float(lam @ slack)
        return Values(primal, 0.5 / upper**2 if upper > 0.0 else 0.0)


# --- working sets --------------------------------------------------------------------------------


@dataclass(frozen=True)
class BeginSome(Phase):
    """The first working set, and its solution."""

    start: Start | None

    def advance(self, work: Search) -> Phase:
        sets, start = work.sets, self.start
        if start is None:
            if _is_nearly_hard(work):  # the hard margin has nearly the same support
                hard = Search(work.problem.base, sets.without_slack(), 1e-3)
                run(hard, first_phase(hard))
                work.W = hard.W
            elif not work.has_all:
                work.W = first_working_set(sets)
            return SolveSome().advance(work)
        work.set_answer(start.w, start.b, work.weights_of(start), is_exact=False)
        support = np.flatnonzero(work.answer.p < 1.0)
        if sets.is_plain and 4 * support.size > work.size:  # few passes would be saved
            return SolveAll(start).advance(work)
        work.W = work.smallest(max(work.settings.small, int(1.2 * support.size)), support)
        return SolveSome().advance(work)


@dataclass(frozen=True)
class SolveSome(Phase):
    """A working set solved, a pass over all the rows, and those below the margin taken in."""

    is_first: bool = True

    def advance(self, work: Search) -> Phase:
        form, lam, converged = self._solve(work)
        work.close(form, lam, is_exact=True)
        W, p = work.W, work.answer.p.copy()
        below = p < 1.0 - 1e-9
        below[W] = False
        if not below.any():
            is_last = not converged or not self.is_first
            return End() if is_last else SolveSome(is_first=False)
        if work.is_crowded():  # rows that come would push out others, again and again
            return End(is_final=True)
        p[W] = np.inf
        size = min(int(np.count_nonzero(below)), max(work.settings.small, 2 * W.size))
        work.W = work.sets.smallest(p, size, W)  # rows that come and go would cost rounds
        return SolveSome(is_first=False)

    def _solve(self, search: Search) -> tuple[Form, np.ndarray, bool]:
        """(form, λ, converged) on the working set."""
        sets, C = search.sets, search.C
        rough = self._solve_nearly_hard(search) if _is_nearly_hard(search) else None
        has_point = rough is None and bool(search.answer.w.any())
        form = search.open(is_cold=not has_point)
        if rough is not None:
            sets.warm(form, *sets.answer(rough[0]), rough[1])
        elif not has_point:
            step_along_mean(form, C)
        solved = exact_soft_margin(form, C, max_steps=STEPS if rough is None else POLISH_STEPS)
        form.refresh()
        if rough is not None and not solved.converged:  # C times rounding is no better
            return *rough, True
        return form, _slack_weights(search, form), solved.converged

    def _solve_nearly_hard(self, search: Search) -> tuple[Form, np.ndarray]:
        """The interior point on K + I/C: Newton takes a hundred steps where hardly any slack is."""
        sets = search.sets
        rows = sets.rows(search.W)
        K = rows.gram()
        add_to_diagonal(K, 1.0 / (search.C * rows.shares))
        form = GramForm(rows, K, sets.deadline, is_explicit=False)
        return solve_by_interior_point(form, 1e-12)
