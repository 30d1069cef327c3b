"""The rounds of the hard margin: rank the rows, solve a working set, look at all, repeat."""

import math

import numpy as np

from momentron.operators import SparseOperator
from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.exact import VANISHED, solve_by_interior_point, solve_by_newton
from momentron.solvers.auto.forms import Deadline, Form, gap_floor, normalised, true_gap
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.interior import interior_point
from momentron.solvers.auto.newton import soft_path
from momentron.solvers.auto.pass_form import CAREFUL, PassForm, as_rows
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.refine import MAX_ORDER, refine
from momentron.solvers.auto.rows import Rows
from momentron.solvers.base import Start
from momentron.threads import one_thread

SMALL = 400  # rows of a first working set
MAX_ROUNDS = 60
MAX_RANKINGS = 4


class Rounds:
    """What is carried from round to round: (w, b), one multiplier a row, and the working set W.

    w and b are in the usual scale of support vector machines: functional margins
    p_i = y_i(x_i·w + b) are 1 on the support.
    """

    def __init__(self, problem: Problem, tol: float, deadline: Deadline) -> None:
        self.operator = problem.operator
        self.signs = problem.dual_set.signs
        self.fits_intercept = problem.dual_set.fits_intercept
        self.tol, self.deadline = tol, deadline
        self.n, self.d = self.operator.shape
        self.is_single = getattr(self.operator, "X", np.empty(0)).dtype == np.float32
        self.rng = np.random.default_rng(0)
        self.w, self.b = np.zeros(self.d), 0.0
        self.lam = np.zeros(self.n)
        self.products = np.zeros(self.n)
        self.p = np.zeros(self.n)
        self.shift: np.ndarray | None = None
        self.known_gram: tuple[np.ndarray, np.ndarray] | None = None
        self.W, self.Cs = self._first_working_set()
        self.form: Form | None = None
        self.pass_form: PassForm | None = None
        self.pass_Cs = [10.0, 1000.0]
        self.rankings = self.rounds = 0
        self.C = 0.0
        self.is_ranked = self.is_refining = self.is_done = False
        self.by_newton = True
        self.has_looked = False  # whether the interior point has looked at all the rows once

    # --- one round -----------------------------------------------------------------------------

    def advance(self) -> None:
        """One round: a ranking, an exact solve, or the last digits."""
        self.rounds += 1
        if not self.is_ranked:
            if self._is_sparse_and_wide() and self.W.size < self.n:
                self._rank_by_passes()
            else:
                self._rank()
        elif self.is_refining:
            self._refine()
        else:
            self._solve()
        if self.rounds >= MAX_ROUNDS:
            self.is_done = True

    def _first_working_set(self) -> tuple[np.ndarray, tuple[float, ...]]:
        """All the rows where they are few, else a sample; and the Cs to rank them by."""
        if self.n <= max(1.5 * SMALL, min(1.5 * self.d, 3000)):
            return np.arange(self.n), (100.0,)
        return selection.sample(self.signs, SMALL, self.rng), (10.0, 100.0)

    def _rank(self) -> None:
        """Soft margins with growing C, on a sample and then on the rows of smallest margin.

        At C = 1000 (in units of 1/mean‖a‖²) a working set of three times the soft support holds
        nearly all of the true support, and few rows outside are below the margin.
        """
        form = self._open(is_cold=self.rankings == 0)
        if form.scale < 1e-280:  # nothing but zeros: every q is a witness
            self.lam[self.W] = 1.0
            self.is_done = True
            return
        with one_thread():
            lam = soft_path(form, self.Cs)
        if self.W.size == self.n:
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
        if settled or self.rankings == MAX_RANKINGS:
            self.is_ranked, self.C = True, 1e4
        self.Cs = (1000.0,) if self.rankings > 1 else (100.0, 1000.0)

    def _ranking_size(self, support: int, outside: int) -> int:
        room = min(2.0 * support + min(outside, support), 3.0 * self.d)
        return int(max(SMALL, 1.2 * support, room))

    def _is_sparse_and_wide(self) -> bool:
        return isinstance(self.operator, SparseOperator) and self.d > 3000

    def _rank_by_passes(self) -> None:
        """Rough soft margins on all the rows at once, one C a round."""
        assert isinstance(self.operator, SparseOperator)
        if self.pass_form is None:
            self.pass_form = PassForm(
                as_rows(self.operator.X),
                self.signs,
                self.operator.row_norms**2,
                self.fits_intercept,
                self.deadline,
            )
        form = self.pass_form
        self.lam = soft_path(form, (self.pass_Cs.pop(0),))
        self.w, self.b = form.answer()
        self._look(is_exact=False)
        self.rankings += 1
        if self.rankings == 1 and self._is_contradicted():
            return
        support = np.flatnonzero(self.lam)
        if self.rankings == 1 and support.size > 0.25 * self.n:
            # many support vectors: a good ranking saves exact solves, which are dear then
            self.pass_Cs.insert(0, 100.0)
            form.roughness, form.max_products = CAREFUL
        if not self.pass_Cs:
            self.W = self._smallest(max(SMALL, int(1.2 * support.size)), support)
            self.is_ranked, self.C, self.pass_form = True, 1e4, None

    def _is_contradicted(self) -> bool:
        """Equal rows with opposite labels end the search at once."""
        twins = selection.opposite_twins(self.operator, self.signs, self.p)
        if twins is None:
            return False
        self.lam[:] = 0.0
        self.lam[twins] = 1.0
        self.is_done = True
        return True

    def _solve(self) -> None:
        """Newton with multipliers as long as it converges, the interior point from then on."""
        form = self.form or self._open(is_cold=not self.by_newton)
        self.form = None
        lam = self.lam[self.W]
        if self.by_newton:
            with one_thread():
                lam, self.by_newton = solve_by_newton(form, lam, self.tol / 4.0, self.C)
        if not self.by_newton:
            form, lam = self._solve_by_interior_point(form)
        self._close(form, lam, is_exact=True)
        self.C = 1e5
        if self._is_finished(form):
            self.is_refining = self._is_worth_refining(form)
            self.is_done = not self.is_refining
            self._is_contradicted()  # perhaps there is no margin, and no witness yet
        else:
            self.W = self._next_working_set()

    def _is_worth_refining(self, form: Form) -> bool:
        """Whether the support looks right, but float64 cannot hold the gap that is asked for."""
        lower = self._lower()
        if lower <= 0.0 or 8.0 * gap_floor(form, lower) <= self.tol:
            return False
        upper = self.upper()
        return upper < math.inf and upper - lower < 0.1 * upper

    def _refine(self) -> None:
        """Extended precision for w on the support, a proposal beside the one in float64."""
        support = self.W[self.lam[self.W] > 1e-9 * float(self.lam.max())]
        if support.size <= MAX_ORDER and not self.deadline.has_passed():
            rows = self.operator.rows(support) * self.signs[support][:, None]
            refined = refine(rows, self.signs[support], self.fits_intercept)
            if refined is not None:
                self.w = refined[0]
                self.lam = np.zeros(self.n)
                self.lam[support] = np.maximum(refined[1], 0.0)
        self.is_done = True

    def _solve_by_interior_point(self, form: Form) -> tuple[Form, np.ndarray]:
        """The interior point in two legs, with a look at all the rows between them.

        Where no row outside W is below the margin at a rough gap, the same run goes on; else W is
        chosen anew and solved cold, since a warm start with new rows takes twice the iterations.
        """
        begin = None
        if self.W.size < self.n and not self.has_looked:
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
        if self.W.size == self.n or self.deadline.has_passed():
            return True
        upper = self.upper()
        if upper <= VANISHED * form.length:
            return True
        lower = self._lower()
        if upper - lower <= max(self.tol, 4.0 * gap_floor(form, upper)) * upper:
            return True
        outside = np.ones(self.n, bool)
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
            return selection.smallest(p, self.signs, min(self.n, size), self.fits_intercept, self.W)
        share = 2.5 if is_rough else 2.0
        size = max(SMALL, int(share * support.size), support.size + 2 * violators)
        return self._smallest(min(size, max(2 * self.W.size, SMALL)), support)

    def _smallest(self, size: int, kept: np.ndarray) -> np.ndarray:
        return selection.smallest(self.p, self.signs, size, self.fits_intercept, kept)

    # --- between the data and a form -------------------------------------------------------------

    def _open(self, *, is_cold: bool) -> Form:
        """A form on the rows W, at the current (w, b, λ) unless cold."""
        self.deadline.require(float(self.W.size) * self.d * min(self.W.size, self.d))
        rows = Rows(self.operator.working_rows(self.W), self.signs[self.W])
        if self.fits_intercept and not rows.is_sparse:
            # centred rows do not cancel against b; one shift for all rounds, so that K is reused
            if self.shift is None:
                self.shift = rows.X.mean(axis=0)
            rows = Rows(rows.X - self.shift, rows.signs)
        is_wide = rows.m <= (1.5 * rows.d if rows.m > 300 else rows.d)
        form: Form
        if is_wide:
            with one_thread():
                K = self._gram(rows)
            form = GramForm(rows, self.fits_intercept, self.deadline, K)
        else:
            form = PrimalForm(rows, self.fits_intercept, self.deadline)
        if not is_cold:
            form.warm(self.w, self.b + self._shifted(self.w), self.lam[self.W])
        return form

    def _shifted(self, w: np.ndarray) -> float:
        return 0.0 if self.shift is None else float(w @ self.shift)

    def _gram(self, rows: Rows) -> np.ndarray:
        """K on the rows W, with the part that is known from the last working set."""
        K = None
        if self.known_gram is not None:
            old, last = self.known_gram
            at = np.minimum(np.searchsorted(old, self.W), old.size - 1)
            known = old[at] == self.W
            if known.mean() >= 0.4:
                K = rows.extend_gram(last, at[known], np.flatnonzero(known))
        if K is None:
            K = rows.gram()
        self.known_gram = self.W, K
        return K

    def _close(self, form: Form, lam: np.ndarray, *, is_exact: bool) -> None:
        """Take over the form's point, and pass over all the rows."""
        w, b = form.answer()
        self.w, self.b = w, b - self._shifted(w)
        self.lam = np.zeros(self.n)
        self.lam[self.W] = lam
        self._look(is_exact)

    def _look(self, is_exact: bool) -> None:
        """Functional margins of all the rows.

        float32 data: an exact look computes in float64 every row that single precision cannot place
        clearly above the margin, in blocks.
        """
        self.products = self.operator.products(self.w)
        self.p = self.signs * (self.products + self.b)
        if not (self.is_single and is_exact):
            return
        blur = 1e-6 * (float(np.linalg.norm(self.w)) * self.operator.radius + abs(self.b))
        near = np.flatnonzero(self.p < 1.01 + blur)
        for start in range(0, near.size, 4096):
            part = near[start : start + 4096]
            self.products[part] = self.operator.rows(part) @ self.w
            self.p[part] = self.signs[part] * (self.products[part] + self.b)

    # --- what the rounds have come to ------------------------------------------------------------

    def _lower(self) -> float:
        """The margin of w with the best intercept, by the last look."""
        norm = float(np.linalg.norm(self.w))
        if norm == 0.0:
            return -math.inf
        if not self.fits_intercept:
            return float(self.p.min()) / norm
        positive = self.signs > 0.0
        return 0.5 * float(self.p[positive].min() + self.p[~positive].min()) / norm

    def upper(self) -> float:
        """‖Aᵀq‖ for the normalised multipliers."""
        q = normalised(self.lam, self.signs, self.fits_intercept)
        if q is None:
            return math.inf
        return float(np.linalg.norm(self.operator.exact_adjoint(self.signs * q)))

    # --- warm starts -----------------------------------------------------------------------------

    def begin_from(self, start: Start) -> None:
        """Skip the ranking: the start's classifier and weights rank the rows."""
        self.w, self.b = start.w, start.b
        self.lam[: start.q.size] = start.q
        upper = self.upper()
        if not (np.any(self.w) and 0.0 < upper < math.inf):
            self.lam[:] = 0.0
            return
        self._look(is_exact=False)
        self.lam /= upper**2  # w = Σ λ_i a_i has functional margin 1 where λ = q/γ²
        support = np.flatnonzero(self.lam)
        if self.W.size < self.n:
            self.W = self._smallest(max(SMALL, 2 * support.size), support)
        self.is_ranked, self.C = True, 1e4
