"""The soft margin with squared hinge, exactly: Newton on all the rows, or on those with slack."""

import numpy as np

from momentron.operators import DenseOperator
from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.exact import solve_by_interior_point
from momentron.solvers.auto.forms import Deadline, Form
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.newton import exact_soft_margin, line_search, soft_margin
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.ranking import SMALL, first_working_set
from momentron.solvers.auto.rounds import Rounds
from momentron.solvers.auto.rows import Rows, SlackRows
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import Start
from momentron.threads import one_thread

MAX_STEPS = 60
NEARLY_HARD = 1e5  # C in units of 1/mean‖a‖²
MAX_ROUNDS = 60


class SoftMargin:
    """min ½‖w‖² + (C/2) Σ max(0, 1 − p)², p the functional margins, b unpenalised.

    Rows without slack do not enter the solution, so a working set serves that holds all the others.
    Two classes as a matrix are solved with all the rows in it: a pass is cheap there. Kernels and
    pairs, and tall dense data from a warm start, begin with few rows and take in what falls below
    the margin, until nothing does.
    """

    def __init__(self, problem: Problem, deadline: Deadline, start: Start | None = None) -> None:
        constraints = problem.constraints
        self.C = constraints.C
        self.sets = WorkingSets(problem, constraints.base, deadline)
        self.size = self.sets.size
        self.deadline = deadline
        # of the constraints without slack
        self.problem = Problem(constraints.base, problem.dual_set)
        scale = float(np.mean(constraints.base.row_norms**2))
        self.is_nearly_hard = self.C * scale > NEARLY_HARD
        self.start = start
        self.is_plain = self.sets.is_plain
        is_tall = isinstance(self.sets.operator, DenseOperator) and self.size > 4 * self.sets.width
        is_known = start is not None and is_tall and not self.is_nearly_hard
        self.takes_all = self.is_plain and not is_known
        self.W = np.arange(self.size)
        self.form: Form | None = None
        self.rounds = 0
        self.is_done = False

    def advance(self) -> None:
        """Newton to the end on the working set; then its next one."""
        self.rounds += 1
        if self.rounds == 1 and not self.takes_all:
            self._begin_some()
        if self.takes_all:
            self._solve_all()
        else:
            self._solve_some()
        if self.rounds >= MAX_ROUNDS:
            self.is_done = True

    def slack(self) -> np.ndarray:
        """ξ = max(0, 1 − p)."""
        return self.lam / self.C

    # --- all the rows ----------------------------------------------------------------------------

    def _solve_all(self) -> None:
        """A second call starts again from where rounding left the first."""
        if self.form is None:
            self.form = self._open(self.W)
            with one_thread():
                self._begin(self.form)
        form = self.form
        before = form.p
        with one_thread():
            soft = exact_soft_margin(form, self.C, max_steps=MAX_STEPS)
            form.refresh()
        self.lam = self.C * np.maximum(1.0 - form.p, 0.0)
        self.w, self.b = form.answer()
        unchanged = np.allclose(before, form.p, rtol=1e-15, atol=1e-15)
        self.is_done = unchanged or not soft.converged

    def _open(self, index: np.ndarray) -> Form:
        """Rows as they are, not centred: all of them, and the copy would be a second X."""
        operator = self.sets.operator
        d = operator.shape[1]
        if isinstance(operator, DenseOperator):
            self.deadline.require(float(index.size) * d * min(8, index.size, d))
        balance = self.sets.dual_set.some(index)
        rows = Rows(operator.working_rows(index), self.sets.signs(index), balance)
        if self.sets.is_wide(rows.m):
            return GramForm(rows, self.deadline, rows.gram())
        return PrimalForm(rows, self.deadline, borrow=True)

    def _begin(self, form: Form) -> None:
        """Move to a first point: a given one, a sample's solution, or along the mean."""
        n, d = self.sets.operator.shape
        size = max(2000, 10 * d)
        if self.start is not None:
            weights = np.zeros(n)
            weights[: self.start.q.size] = self.start.q
            length = float(np.linalg.norm(form.rows.combine(weights)))
            if length > 0.0:  # w = Σ λ_i a_i
                weights *= float(np.linalg.norm(self.start.w)) / length
            form.warm(self.start.w, self.start.b, weights)
        elif n > 4 * size and isinstance(form, PrimalForm):
            # tall data: the first step on all the rows then sees little more than the true support
            codes = self.sets.labels.codes
            index = selection.sample(codes, size, np.random.default_rng(0), least=0.0)
            small = self._open(index)
            _step_along_mean(small, self.C * n / index.size)
            soft_margin(small, self.C * n / index.size, max_steps=2, slack=0.1)
            form.warm(*small.answer(), np.zeros(n))
        else:
            _step_along_mean(form, self.C)

    # --- the rows with slack ---------------------------------------------------------------------

    def _solve_some(self) -> None:
        """A working set solved, a look at all the rows, and those below the margin taken in."""
        rough = self._solve_nearly_hard() if self.is_nearly_hard else None
        form = self.sets.open(self.W)
        with one_thread():
            if rough is not None:
                self.sets.warm(form, *self.sets.answer(rough[0]), rough[1])
            elif self.w.any():
                self.sets.warm(form, self.w, self.b, self.lam[self.W])
            else:
                _step_along_mean(form, self.C)
            soft = exact_soft_margin(form, self.C, max_steps=MAX_STEPS if rough is None else 5)
            form.refresh()
        lam, converged = self.C * np.maximum(1.0 - form.p, 0.0), soft.converged
        if rough is not None and not converged:  # C times rounding is no better
            (form, lam), converged = rough, True
        self.w, self.b = self.sets.answer(form)
        self.lam = np.zeros(self.size)
        self.lam[self.W] = lam
        _, p = self.sets.look(self.w, self.b, is_exact=True)
        below = p < 1.0 - 1e-9
        below[self.W] = False
        if not below.any():
            self.is_done = not converged or self.rounds > 1
            return
        p[self.W] = np.inf
        size = min(int(np.count_nonzero(below)), max(SMALL, 2 * self.W.size))
        self.W = self.sets.smallest(p, size, self.W)  # rows that come and go would cost rounds

    def _solve_nearly_hard(self) -> tuple[Form, np.ndarray]:
        """The interior point on K + I/C: Newton takes a hundred steps where hardly any slack is."""
        rows = SlackRows(self.sets.rows(self.W), self.C)
        with one_thread():
            form = GramForm(rows, self.deadline, rows.gram())
            return solve_by_interior_point(form, 1e-12, None)

    def _begin_some(self) -> None:
        self.w = self.sets.constraints.zeros()
        self.b = np.zeros(self.sets.n_intercepts)
        self.lam = np.zeros(self.size)
        if self.start is None and self.is_nearly_hard:
            # the hard margin has nearly the same support
            hard = Rounds(self.problem, 1e-3, self.deadline)
            while not hard.is_done:
                hard.advance()
            self.W = hard.W
            return
        self.W, _ = first_working_set(self.sets)
        if self.start is None:
            return
        self.w, self.b = self.start.w, self.start.b
        self.lam[: self.start.q.size] = self.start.q
        _, p = self.sets.look(self.w, self.b, is_exact=False)
        support = np.flatnonzero(p < 1.0)
        if self.is_plain and 4 * support.size > self.size:  # few passes would be saved
            self.takes_all, self.W = True, np.arange(self.size)
            return
        self.W = self.sets.smallest(p, max(SMALL, int(1.2 * support.size)), support)


def _step_along_mean(form: Form, C: float) -> None:
    """The best multiple of the difference of the classes' sums."""
    dp, slope, curvature = form.along_mean()
    form.move(line_search(slope, curvature, 1.0 - form.p, dp, C))
