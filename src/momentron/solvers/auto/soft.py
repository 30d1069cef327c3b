"""The soft margin with squared hinge, exactly: Newton on all the rows, or on those with slack."""

from abc import ABC, abstractmethod

import numpy as np

from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.engine import Engine
from momentron.solvers.auto.exact import solve_by_interior_point
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.newton import exact_soft_margin, soft_margin, step_along_mean
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.rank import first_working_set
from momentron.solvers.auto.rounds import Rounds
from momentron.solvers.auto.rows import SlackRows
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import Candidates, Primal, Start
from momentron.threads import one_thread


class SoftMargin(Engine):
    """min ½‖w‖² + (C/2) Σ max(0, 1 − p)², p the functional margins, b unpenalised.

    Rows without slack do not enter the solution, so a working set serves that holds all the others.
    Two classes as a matrix are solved with all the rows in it: a pass is cheap there. Kernels and
    pairs, and tall dense data from a warm start, begin with few rows and take in what falls below
    the margin, until nothing does.
    """

    def __init__(
        self,
        problem: Problem,
        deadline: Deadline,
        start: Start | None = None,
        settings: AutoSettings = SETTINGS,
    ) -> None:
        constraints = problem.constraints
        self.problem, self.deadline, self.settings = problem, deadline, settings
        self.C, self.start = constraints.C, start
        self.sets = WorkingSets(problem, constraints.base, deadline, settings)
        self.w, self.b = constraints.base.zeros(), np.zeros(self.sets.n_intercepts)
        self.lam = np.zeros(self.sets.size)
        scale = float(np.mean(constraints.base.row_norms**2))
        self.is_nearly_hard = self.C * scale > settings.nearly_hard
        is_tall = self.sets.is_dense and self.sets.size > settings.tall_ratio * self.sets.width
        is_known = start is not None and is_tall and not self.is_nearly_hard
        self.phase: SoftPhase = SomeRows()
        if self.sets.is_plain and not is_known:
            self.phase = AllRows()
        self.rounds = 0

    def advance(self) -> None:
        """Newton to the end on the working set; then its next one."""
        self.rounds += 1
        self.phase = self.phase.advance(self)
        self.is_done |= self.rounds >= self.settings.soft_rounds

    def candidates(self) -> Candidates:
        problem = self.problem
        w = problem.constraints.with_slack(self.w, self.lam / self.C)
        q = problem.dual_set.normalize(self.lam)
        upper = problem.constraints.dual_norm(q) / problem.radius
        return Candidates([Primal(w, problem.scores(w))], q, upper)

    def hard_working_set(self) -> np.ndarray:
        """That of the hard margin, which has nearly the same support."""
        problem = Problem(self.problem.constraints.base, self.problem.dual_set)
        hard = Rounds(problem, 1e-3, self.deadline, self.settings)
        while not hard.is_done:
            hard.advance()
        return hard.search.W


class SoftPhase(ABC):
    """A kind of round."""

    @abstractmethod
    def advance(self, soft: SoftMargin) -> "SoftPhase":
        """One round; what comes next."""


class AllRows(SoftPhase):
    """Newton on all the rows as they are, not centred: the copy would be a second X.

    A second round starts again from where rounding left the first.
    """

    def __init__(self) -> None:
        self.form: Form | None = None

    def advance(self, soft: SoftMargin) -> SoftPhase:
        if self.form is None:
            self.form = self._open(soft, np.arange(soft.sets.size))
            with one_thread():
                self._begin(soft, self.form)
        form, before = self.form, self.form.p
        with one_thread():
            solved = exact_soft_margin(form, soft.C, max_steps=soft.settings.soft_steps)
            form.refresh()
        soft.lam = soft.C * np.maximum(1.0 - form.p, 0.0)
        soft.w, soft.b = form.answer()
        unchanged = np.allclose(before, form.p, rtol=1e-15, atol=1e-15)
        soft.is_done = unchanged or not solved.converged
        return self

    def _open(self, soft: SoftMargin, index: np.ndarray) -> Form:
        sets, settings = soft.sets, soft.settings
        d = sets.operator.shape[1]
        if sets.is_dense:
            soft.deadline.require(float(index.size) * d * min(8, index.size, d))
        rows = sets.plain_rows(index)
        if sets.is_wide(rows.m):
            return GramForm(rows, rows.gram(), soft.deadline, settings)
        return PrimalForm(rows, soft.deadline, settings, borrow=True)

    def _begin(self, soft: SoftMargin, form: Form) -> None:
        """Move to a first point: a given one, a sample's solution, or along the mean."""
        sets, settings, start = soft.sets, soft.settings, soft.start
        n, d = sets.operator.shape
        size = max(settings.soft_sample, settings.soft_sample_ratio * d)
        if start is not None:
            weights = np.zeros(n)
            weights[: start.q.size] = start.q
            length = float(np.linalg.norm(form.rows.combine(weights)))
            if length > 0.0:  # w = Σ λ_i a_i
                weights *= float(np.linalg.norm(start.w)) / length
            form.warm(start.w, start.b, weights)
        elif n > 4 * size and not sets.is_wide(n):
            # tall data: the first step on all the rows then sees little more than the true support
            codes = sets.labels.codes
            index = selection.sample(codes, size, np.random.default_rng(0), least=0.0)
            small = self._open(soft, index)
            step_along_mean(small, soft.C * n / index.size)
            soft_margin(small, soft.C * n / index.size, max_steps=2, slack=0.1)
            form.warm(*small.answer(), np.zeros(n))
        else:
            step_along_mean(form, soft.C)


class SomeRows(SoftPhase):
    """A working set solved, a look at all the rows, and those below the margin taken in."""

    def __init__(self) -> None:
        self.W: np.ndarray | None = None

    def advance(self, soft: SoftMargin) -> SoftPhase:
        if self.W is None:
            self.W = self._first_working_set(soft)
            if self.W is None:
                return AllRows().advance(soft)
        W, sets = self.W, soft.sets
        form, lam, converged = self._solve(soft, W)
        soft.w, soft.b = sets.answer(form)
        soft.lam = np.zeros(sets.size)
        soft.lam[W] = lam
        _, p = sets.look(soft.w, soft.b, is_exact=True)
        below = p < 1.0 - 1e-9
        below[W] = False
        if not below.any():
            soft.is_done = not converged or soft.rounds > 1
            return self
        p[W] = np.inf
        size = min(int(np.count_nonzero(below)), max(soft.settings.small, 2 * W.size))
        self.W = sets.smallest(p, size, W)  # rows that come and go would cost rounds
        return self

    def _solve(self, soft: SoftMargin, W: np.ndarray) -> tuple[Form, np.ndarray, bool]:
        """(form, λ, converged) on the working set."""
        sets, settings, C = soft.sets, soft.settings, soft.C
        rough = self._solve_nearly_hard(soft, W) if soft.is_nearly_hard else None
        form = sets.open(W)
        with one_thread():
            if rough is not None:
                sets.warm(form, *sets.answer(rough[0]), rough[1])
            elif soft.w.any():
                sets.warm(form, soft.w, soft.b, soft.lam[W])
            else:
                step_along_mean(form, C)
            steps = settings.soft_steps if rough is None else settings.soft_polish_steps
            solved = exact_soft_margin(form, C, max_steps=steps)
            form.refresh()
        if rough is not None and not solved.converged:  # C times rounding is no better
            return *rough, True
        return form, C * np.maximum(1.0 - form.p, 0.0), solved.converged

    def _solve_nearly_hard(self, soft: SoftMargin, W: np.ndarray) -> tuple[Form, np.ndarray]:
        """The interior point on K + I/C: Newton takes a hundred steps where hardly any slack is."""
        rows = SlackRows(soft.sets.rows(W), soft.C)
        with one_thread():
            form = GramForm(rows, rows.gram(), soft.deadline, soft.settings)
            return solve_by_interior_point(form, 1e-12, None)

    def _first_working_set(self, soft: SoftMargin) -> np.ndarray | None:
        """None where a start shows that all the rows might as well be taken at once."""
        sets, start, small = soft.sets, soft.start, soft.settings.small
        if start is None and soft.is_nearly_hard:
            return soft.hard_working_set()
        W = first_working_set(sets)
        if start is None:
            return W
        soft.w, soft.b = start.w, start.b
        soft.lam[: start.q.size] = start.q
        _, p = sets.look(soft.w, soft.b, is_exact=False)
        support = np.flatnonzero(p < 1.0)
        if sets.is_plain and 4 * support.size > sets.size:  # few passes would be saved
            return None
        return sets.smallest(p, max(small, int(1.2 * support.size)), support)
