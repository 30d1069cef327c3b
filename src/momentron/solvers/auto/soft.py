"""The soft margin with squared hinge, exactly: Newton on all the rows."""

import numpy as np

from momentron.operators import DenseOperator, SoftOperator
from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.forms import Deadline, Form
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.newton import line_search, soft_margin
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.rows import Rows
from momentron.solvers.base import Start
from momentron.threads import one_thread

MAX_STEPS = 60


class SoftMargin:
    """min ½‖w‖² + (C/2) Σ max(0, 1 − y_i(x_i·w + b))², b unpenalised.

    Tall data start from a rough solution on a sample, with C scaled up to match: the first step on
    all the rows then sees little more than the true support.
    """

    def __init__(self, problem: Problem, deadline: Deadline) -> None:
        assert isinstance(problem.operator, SoftOperator)
        self.operator, self.C = problem.operator.base, problem.operator.C
        self.signs = problem.dual_set.signs
        self.fits_intercept = problem.dual_set.fits_intercept
        self.deadline = deadline
        self.form: Form | None = None
        self.start: Start | None = None
        self.is_done = False

    def advance(self) -> None:
        """Newton to the end; a second call starts again from where rounding left it."""
        if self.form is None:
            self.form = self._open(np.arange(self.signs.size))
            with one_thread():
                self._begin(self.form)
        form = self.form
        before = form.p
        with one_thread():
            soft = soft_margin(form, self.C, max_steps=MAX_STEPS)
            form.refresh()
        self.lam = self.C * np.maximum(1.0 - form.p, 0.0)
        self.w, self.b = form.answer()
        unchanged = np.allclose(before, form.p, rtol=1e-15, atol=1e-15)
        self.is_done = unchanged or not soft.converged

    def slack(self) -> np.ndarray:
        """ξ_i = max(0, 1 − p_i)."""
        return self.lam / self.C

    def _open(self, index: np.ndarray) -> Form:
        d = self.operator.shape[1]
        if isinstance(self.operator, DenseOperator):
            self.deadline.require(float(index.size) * d * min(8, index.size, d))
        rows = Rows(self.operator.working_rows(index), self.signs[index])
        if rows.m <= (1.5 * rows.d if rows.m > 300 else rows.d):
            return GramForm(rows, self.fits_intercept, self.deadline, rows.gram())
        return PrimalForm(rows, self.fits_intercept, self.deadline, borrow=True)

    def _begin(self, form: Form) -> None:
        """Move to a first point: a given one, a sample's solution, or along the mean."""
        n, d = form.m, form.rows.d
        size = max(2000, 10 * d)
        if self.start is not None:
            weights = np.zeros(n)
            weights[: self.start.q.size] = self.start.q
            length = float(np.linalg.norm(form.rows.combine(weights)))
            if length > 0.0:  # w = Σ λ_i a_i
                weights *= float(np.linalg.norm(self.start.w)) / length
            form.warm(self.start.w, self.start.b, weights)
        elif n > 4 * size and isinstance(form, PrimalForm):
            index = selection.sample(self.signs, size, np.random.default_rng(0), least=0.0)
            small = self._open(index)
            _step_along_mean(small, self.C * n / index.size)
            soft_margin(small, self.C * n / index.size, max_steps=MAX_STEPS, slack=0.03)
            form.warm(*small.answer(), np.zeros(n))
        else:
            _step_along_mean(form, self.C)


def _step_along_mean(form: Form, C: float) -> None:
    """The best multiple of the difference of the classes' sums."""
    dp, slope, curvature = form.along_mean()
    form.move(line_search(slope, curvature, 1.0 - form.p, dp, C))
