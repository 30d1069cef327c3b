"""Soft margins of either hinge: Newton with multipliers on all the rows, or on those that matter.

    min ½‖w‖² + Σ C_i max(0, 1 − p_i)   or   min ½‖w‖² + ½ Σ C_i max(0, 1 − p_i)²,

p the functional margins, b unpenalised; the second C is twice the user's. Rows above the margin do
not enter the solution, so a working set serves that holds all the others. Two classes as a matrix
are solved with all the rows in it: a pass is cheap there. Kernels and pairs begin with few rows and
take in what falls below the margin, until nothing does.

The penalty decides what the mathematics does: the squared hinge is exact in one minimisation, and
the plain hinge has rows at C, whose last digits are those of an exchange or an interior point.
LIBLINEAR proposes for sparse rows, and LIBSVM for working sets of a kernel that are not small.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from momentron.arithmetic.clock import time_left
from momentron.solvers.auto.deadline import seconds_of
from momentron.solvers.auto.exchange import exchange, gathered
from momentron.solvers.auto.forms import Bounds, Form, Hinge, margin_of
from momentron.solvers.auto.hard import first_working_set
from momentron.solvers.auto.interior import interior_point
from momentron.solvers.auto.newton import (
    PATH_GROWTH,
    PATH_START,
    Schedule,
    minimise,
    multipliers,
    step_along_mean,
)
from momentron.solvers.auto.primal_form import FINE, SOLVING, PrimalForm, product_seconds
from momentron.solvers.auto.proposals import LibSvm, best_intercept, liblinear, takes_rows
from momentron.solvers.auto.search import Rounds, Search
from momentron.solvers.auto.working_rows import sample
from momentron.solvers.problem import Problem

GOAL = 0.25  # the gap to which working sets are solved, as a share of the tolerance
INTERIOR_GOAL = 0.1  # the same of the interior point
SETTLED = 1e-4  # the gap from which minimisations are exact, and to which a first set is solved
SAMPLED = 2e-3  # the same of a first set for LIBSVM
UPDATES, NEWTON_STEPS, SLACK = 40, 40, 0.05  # of the multipliers; see `minimise`
GROWTH = 5.0  # of σ in a box. Its first value and its last, as a share of C and in 1/mean‖a‖²:
FIRST, LAST = (0.5, 10.0), (100.0, 1e5)
RIDGE_UPDATES, RIDGE_STEPS, PATIENCE, RIDGE_SLACK = 200, 60, 1, 0.01  # of the squared hinge
STIFF = 100.0  # C in units of 1/mean‖a‖² to which a cold start by products goes by smaller ones
FACTORS = 4  # for which there must be time, or products are tried
SAMPLE_STEPS, SAMPLE_SLACK = 6, 0.1  # of the first classifier, from a sample of the rows
ROOM = 1.5  # rows of a working set, as a multiple of those below the margin
AHEAD = 0.02  # the gap to which a set that leaves rows out is solved, as a share of that of all
NEAR = 1e-4  # how near to the margin a row's weight is taken from a start, not from its side
# The mean C‖a‖² up to which the squared hinge and the plain one are solved by rough directions, and
# the tolerance from which they are: Newton's last steps should be long for more digits.
EASY, MANY_DIGITS = (30.0, 3.0), 1e-4
# The gap of a proposal that is taken as it is, and that of one which a finer one may replace, in
# units of the tolerance.
ENOUGH, NEARLY = 0.9, 20.0
ATTEMPTS = 2  # of LIBSVM at one working set
SHARE = 0.1  # a first guess of the objective, as a share of Σ C
# How near to the margin rows join, least and most; how far below it they are at C; how many join
NEAREST, FARTHEST, FAR, CROWD = 0.05, 0.15, 0.5, 1.2
AT_BOUND, MOSTLY = 0.999, 0.6  # of C; of the support of a sample that tells who is at C outside
ALL = 0.5  # the share of the rows that has to join for all of them to be the set
STUCK = 0.5  # a round that leaves more of the gap than this is the last of all the rows


class SoftSearch(Search):
    """Rounds of working sets: solved, and checked against all the rows, which often are the set."""

    def __init__(self, problem: Problem, tol: float, *how: Any) -> None:
        super().__init__(problem, tol, *how)
        # w = 0 has an objective, too
        self.weigh(self.loss.weights(self.loss.at(np.zeros(self.size))))
        self.answer.upper = math.inf
        self.last_goal = GOAL * tol  # the gap to which sets are solved in the end
        n, d = self.sets.operator.shape
        self.share = SHARE  # a guess of the objective over Σ C
        # whether rows that are surely at C need no weights of their own in LIBSVM's sets
        self.may_fix = self.loss.is_boxed and tol >= MANY_DIGITS and self.sets.has_room_for_all
        self.order = float(n if self.sets.is_wide(n) else d)  # of the matrices of all the rows
        self.factor_seconds = seconds_of(self.order**3 / 3.0)

    def all_rounds(self) -> Rounds:
        """From the start or a proposal, if any, and again without it where it leaves the gap open:
        rounding may have left no way from one of another scale.
        """
        self.may_propose, self.has_proposed = True, False
        is_over = yield from self._solve()
        has_begun = self.start is not None or self.has_proposed
        if not is_over and has_begun and self.answer.gap > self.tol:
            self.start, self.may_propose = None, False
            yield
            yield from self._solve()
        return True

    def _solve(self) -> Rounds:
        """Working sets, each followed by a pass over all the rows; all the rows where that pays."""
        self.W, self.gap_goal, gap = np.arange(self.size), self.last_goal, math.inf
        self.fixed = self.W[:0]  # rows outside W whose weights are C, or an equal share of it
        self.is_known = self.take_start()  # whether there is an answer, of a round or of a start
        self.is_rough = not self.is_known  # whether the answer, if any, is far from the last one
        if self._is_proposal_enough():
            return True
        self.set_loss, form = self.loss, self._open_products()  # the loss of the working set
        if form is None:
            self._choose_first()
        elif self._is_solved_by_products(form):
            return True
        else:
            yield
        while True:
            self._solve_set()
            before, gap = gap, self.answer.gap
            self.may_fix &= gap < before
            is_below = bool(self.outside(np.append(self.W, self.fixed)).min() < 1.0 - 1e-9)
            is_below |= bool(self.answer.p[self.fixed].max(initial=0.0) > 1.0 + 1e-9)
            # a gap far below what the set was solved to is only the rounding of approximate scores
            is_closed = gap <= 0.5 * self.tol and self.gap_goal <= self.tol
            is_stuck = self.gap_goal <= self.last_goal and not gap < STUCK * before
            if is_closed or (is_stuck and not is_below):
                return False
            if self.deadline.has_passed() or (is_below and self.is_crowded()):
                return True
            # a set that leaves rows out need not be solved better than it tells
            goal = max(self.last_goal, min(self.gap_goal, AHEAD * gap))
            self.gap_goal = goal if is_below else self.last_goal
            if is_below:
                self.enlarge()
            yield

    # --- where it begins -----------------------------------------------------------------------

    def _choose_first(self) -> None:
        """All the rows, or those that can matter as far as an answer or a sample tells."""
        sets = self.sets
        takes_all = sets.is_plain or sets.is_small or (self.loss.is_boxed and not sets.is_kernel)
        if self.is_known:
            support = np.flatnonzero(self.answer.p < 1.0 + 1e-9)
            size = max(self.settings.small, int(ROOM * support.size))
            if 2 * size < self.size:
                self.W = self.smallest(size, support)
            elif not sets.has_room_for_all:
                self.W = self.smallest(sets.capacity, self.W[:0])
        elif not (sets.has_room_for_all and takes_all):
            least = self.size // 8 if self._has_pairs else 0
            self.W, self.gap_goal = first_working_set(sets, least), SAMPLED if least else SETTLED
        elif sets.is_plain and not sets.is_wide(sets.size):
            self._solve_sample()

    def _solve_sample(self) -> None:
        """A first classifier from some of the rows.

        Their prices are not raised to make up for the others: that would fit the sample too well.
        """
        sets = self.sets
        size = max(self.settings.box_sample, 5 * sets.operator.shape[1])
        size *= 1 if self.loss.is_boxed else 2
        if sets.size <= 4 * size:
            return
        index = sample(sets.labels.codes, size, np.random.default_rng(0), least=0.0)
        form, loss = PrimalForm(sets.plain_rows(index), self.deadline), self.loss.some(index)
        if loss.is_boxed:
            prices = np.asarray(loss.upper)
            loss = Hinge(_stiffness(form, prices, FIRST), prices, 0.5 * prices)
        else:
            step_along_mean(form, loss.sigma)
        minimise(form, loss, max_steps=SAMPLE_STEPS, slack=SAMPLE_SLACK)
        self.set_answer(*form.answer(), np.zeros(sets.size), is_exact=False)
        self.is_known = True

    def _is_proposal_enough(self) -> bool:
        """Whether LIBLINEAR has solved sparse rows, where their factors would take long.

        It works on weights, one per row, which pays where there are fewer rows than features. If
        the gap is not closed, the squared hinge begins there; multipliers of the plain hinge begin
        better with weights that are all alike than with those that are nearly right.
        """
        sets, is_boxed = self.sets, self.loss.is_boxed
        is_slow = self.factor_seconds > self.settings.proposal_seconds
        is_fine = is_boxed and self.tol < MANY_DIGITS
        suits = sets.is_plain and sets.matrix is not None and self.size <= sets.width
        if self.is_known or not (suits and is_slow and self.may_propose) or is_fine:
            return False
        self.has_proposed = True
        rows, squares = sets.plain_rows(np.arange(self.size)), sets.base.row_norms**2
        if not rows.is_sparse:
            return False
        for accuracy in (1.0, 0.1) if is_boxed else (1.0,):
            found = liblinear(rows, self.loss, squares, accuracy * self.tol)
            if found is None:
                return False
            sets.operator.passes += found[-1]
            self.set_answer(*found[:-1], is_exact=True)
            self.is_known = not is_boxed
            if self.answer.gap <= ENOUGH * self.tol:
                return True
            if self.answer.gap > NEARLY * self.tol:
                break
        return False

    # --- working sets --------------------------------------------------------------------------

    def _solve_set(self) -> None:
        """The working set, and a pass over all the rows."""
        if self._is_solved_by_pairs():
            return
        self.set_loss = self.loss if self.has_all else self.loss.some(self.W)
        form = self.sets.open_all() if self.has_all else self.sets.open(self.W)
        few = self.settings.box_few if form.gram is None else self.settings.box_few_values
        is_boxed, has_many_intercepts = self.loss.is_boxed, self.sets.n_intercepts > 1
        # rows that are free may not hold all of several intercepts: Newton's method goes astray
        if is_boxed and has_many_intercepts and not self.is_known and form.m <= few:
            self._solve_inside(form)
        else:
            alpha, is_closed = self._multiply(form, tells=self.has_all)
            if not self.has_all:
                self.close(form, alpha)
            if is_boxed and (not is_closed or form.m <= few):  # to the last digits
                is_closed |= self._has_exchanged(form, alpha)
            if is_boxed and not (is_closed or self.deadline.has_passed()):
                self._solve_inside(form)
        self.is_known, self.is_rough = True, False

    # --- pairs of weights, by LIBSVM -----------------------------------------------------------

    def _is_solved_by_pairs(self) -> bool:
        """Whether LIBSVM has solved the working set, of a kernel, and all the rows are looked at.

        If the gap is too large, LIBSVM is asked for a smaller one; after that Newton's method goes
        on from its solution. A first working set, a sample of the rows, is solved only once.
        """
        sets, W, is_first = self.sets, self.W, not self.is_known
        is_crowded, is_fine = W.size > sets.capacity, self.tol < MANY_DIGITS
        is_few = W.size + self.fixed.size <= self.settings.box_few_values
        if not self._has_pairs or (is_few and not is_crowded):
            return False
        rows = np.append(W, self.fixed)
        loss, signs = self.loss.some(rows), sets.signs(rows)
        self.deadline.require(float(W.size) ** 2)
        self.has_proposed, svm = True, LibSvm(sets, rows, loss, W.size)
        for _ in range(1 if is_fine else ATTEMPTS):
            alpha = svm.weights(self.gap_goal, self.share)
            if alpha is None:
                break
            a, b = signs * alpha, np.zeros(sets.n_intercepts)
            w = svm.kernel.combine(rows[alpha > 0.0], a[alpha > 0.0], rough=True)
            if b.size:
                means = svm.means(signs * w[1][rows])
                b[:] = best_intercept(svm.joint_loss, means, svm.labels)
            self.set_answer(w, b, np.bincount(rows, alpha, self.size), is_exact=is_fine)
            self.is_known, self.is_rough = True, False
            norm, ridge = sets.base.norm(self.answer.w), np.sum(alpha * alpha / loss.stiffness)
            dual = float(alpha.sum()) - 0.5 * (norm**2 + float(ridge))
            self.answer.upper = margin_of(dual)
            lower = margin_of(svm.joint_loss.primal(norm, svm.means(self.answer.p[rows])))
            gap = Bounds(lower, self.answer.upper).gap
            if is_first or gap <= max(self.gap_goal, 0.0 if is_fine else ENOUGH * self.tol):
                self.share = max(dual, 0.0) / svm.total
                svm.kernel.reserve(0)
                return True
            self.share *= 0.5 * self.gap_goal / gap
        # to many digits single precision is what is left of the gap, also in the next sets
        self.may_propose = alpha is not None and not is_fine
        has_joined, self.fixed, self.may_fix = self.fixed.size > 0, W[:0], False
        if is_crowded:
            self.W = self.smallest(sets.capacity, W[:0])
        return has_joined and self.may_propose  # then each row has a weight of its own next

    @property
    def _has_pairs(self) -> bool:
        """Whether LIBSVM may solve working sets."""
        return self.may_propose and self.sets.is_kernel and not self.sets.labels.is_paired

    def enlarge(self) -> None:
        """All rows below the margin join a set of LIBSVM's: it does not go on from where it was.

        Those that are surely at C need no weights of their own. Where the others have no room,
        LIBSVM may take all the rows, and compute what it needs.
        """
        sets, p, lam = self.sets, self.answer.p, self.answer.lam
        near = min(math.sqrt(max(self.answer.gap, NEAREST**2)), FARTHEST)
        joins, fixed = (p < 1.0) | (lam > 0.0), np.zeros(self.size, bool)
        if self.may_fix:
            fixed = lam >= AT_BOUND * np.asarray(self.loss.upper)
            fixed[self.fixed] = True
            if not self.fixed.size and fixed.sum() > MOSTLY * np.count_nonzero(lam):
                fixed |= self.outside(self.W) < 1.0 - FAR
            fixed &= p < 1.0 - near
            joins &= ~fixed
        is_near = (p < 1.0 + near) & ~fixed
        if is_near.sum() <= min(CROWD * joins.sum(), ALL * self.size):
            joins |= is_near
        size = int(np.count_nonzero(joins))
        is_small = size + fixed.sum() <= min(self.settings.box_few_values, sets.capacity)
        has_room = size <= sets.capacity or takes_rows(sets.kernel, self.loss, sets.n_intercepts)
        if is_small or not (self._has_pairs and has_room):
            self.fixed = self.W[:0]
            super().enlarge()
            return
        if not 0 < size <= (ALL * self.size if sets.has_room_for_all else sets.capacity):
            joins[:], fixed[:], self.gap_goal = True, False, self.last_goal
        self.W, self.fixed = np.flatnonzero(joins), np.flatnonzero(fixed)

    # --- Newton with multipliers ---------------------------------------------------------------

    def _is_solved_by_products(self, form: Form) -> bool:
        """All the rows, a proposal for each update: the time may end before the next.

        What they leave open is for factors, if there is room for them.
        """
        _, is_closed = self._multiply(form, tells=True)
        self.is_known, self.is_rough = True, False
        if is_closed or self.deadline.has_passed():
            return True
        self.deadline.has_refused = not self._has_room_for_factors
        return self.deadline.has_refused

    def _multiply(self, form: Form, *, tells: bool = False) -> tuple[np.ndarray, bool]:
        """(α, whether the gap on the working set is closed), by growing stiffness.

        Each better α is proposed where it `tells`.
        """
        loss, is_first = self._first_loss(form)
        if loss.is_boxed:
            last = _stiffness(form, np.asarray(loss.upper), LAST)
            schedule = Schedule(GROWTH, last, UPDATES, NEWTON_STEPS)
        else:
            steps, patience = RIDGE_STEPS, PATIENCE
            if not form.has_factors:
                steps, patience = 1, 8
            schedule = Schedule(
                PATH_GROWTH, self.loss.sigma, RIDGE_UPDATES, steps, patience, repeats=False
            )

        alpha, gap = multipliers(
            form,
            loss,
            schedule,
            self.gap_goal,
            penalty=self.set_loss,
            slack=self._slack,
            is_first=is_first,
            most_near=min(form.m // 2, self.sets.capacity) if loss.is_boxed else 0,
            tell=partial(self.close, form) if tells else None,
        )
        return alpha, gap <= self.gap_goal

    def _slack(self, gap: float) -> float:
        """What a minimisation may leave at such a gap: the squared hinge needs no second one."""
        if self.loss.is_boxed:
            return SLACK if gap > SETTLED else 0.0
        return RIDGE_SLACK if gap == math.inf and self.gap_goal > 1e-5 else 0.0

    def _first_loss(self, form: Form) -> tuple[Hinge, bool]:
        """(loss, whether its centre says nothing of the rows between), the form at a start."""
        loss, answer = self.set_loss, self.answer
        prices = loss.upper
        if not isinstance(prices, np.ndarray):
            if self.is_known:
                self.warm(form)
            else:
                first = min(loss.sigma, PATH_START / form.scale)
                step_along_mean(form, loss.sigma if form.has_factors else first)
                if not form.has_factors and loss.sigma * form.scale > STIFF:
                    loss = loss._replace(sigma=first)
            return loss, True
        first, last = (_stiffness(form, prices, most) for most in (FIRST, LAST))
        known = np.zeros(form.m)
        if self.is_known:
            known = np.clip(answer.lam[self.W], 0.0, prices)
            self.warm(form, known)
            if not self.is_rough:
                known = _sided(answer.p[self.W], known, prices)
                return loss._replace(sigma=last, centre=known), False
        if form.gram is not None:
            return loss._replace(sigma=first, centre=known), False
        # around half the price the smoothed hinge errs as much above the margin as below it
        sigma = min(2.0 * first, last) if self.is_known else first
        return loss._replace(sigma=sigma, centre=0.5 * prices), True

    # --- rows at C: the interior point, and the last digits ------------------------------------

    def _has_exchanged(self, form: Form, alpha: np.ndarray) -> bool:
        """Whether the sides are right, so that one linear system gives the last digits."""
        prices = self.problem.prices[self.W]
        solved = exchange(form, gathered(form, alpha, prices), prices)
        if solved is None:
            return False
        self.close(form, solved)
        return form.bounds(solved, self.set_loss).gap <= self.gap_goal

    def _solve_inside(self, form: Form) -> None:
        """The working set by the interior point, and then to the last digits."""
        prices = self.problem.prices[self.W]
        alpha = interior_point(form, INTERIOR_GOAL * self.tol, self.set_loss).alpha
        self.close(form, alpha)
        self._has_exchanged(form, _sided(form.p, alpha, prices))

    # --- which system --------------------------------------------------------------------------

    def _open_products(self) -> Form | None:
        """All the rows, where products are the faster way to solve them, or the only one.

        They are where rows are sparse and factors take long compared with the products of a step;
        and where the memory, or the time left, has no room for factors. The larger C of the plain
        hinge in units of 1/mean‖a‖², the more products its updates take.
        """
        sets, settings = self.sets, self.settings
        if not sets.is_plain or sets.matrix is None:
            return None
        is_boxed = self.loss.is_boxed
        costs = self.loss.upper if is_boxed else self.loss.stiffness
        price = float(np.mean(costs * sets.base.row_norms**2))
        if self._has_room_for_factors:
            updates = 1.0 + 2.0 * price if is_boxed else 1.0
            products = settings.pass_products * updates * product_seconds(sets.matrix.X)
            if sets.is_dense or self.factor_seconds <= max(settings.pass_seconds, products):
                return None
        is_easy = price <= EASY[is_boxed] and self.tol >= MANY_DIGITS
        return sets.open_products(SOLVING if is_easy else FINE)

    @property
    def _has_room_for_factors(self) -> bool:
        """Whether the memory has room for a factor of all the rows, and the time left for some."""
        fits = self.settings.form_bytes * self.order**2 <= self.settings.memory
        return fits and FACTORS * self.factor_seconds <= time_left()


def _stiffness(form: Form, prices: np.ndarray, most: tuple[float, float]) -> float:
    """σ of a share of C, or in units of 1/mean‖a‖² where that is less."""
    by_price, by_scale = most
    return min(by_price * float(prices.mean()), by_scale / form.scale)


def _sided(p: np.ndarray, known: np.ndarray, prices: np.ndarray) -> np.ndarray:
    """Weights by the rows' sides, but those of the rows near the margin."""
    # what a margin leaves no doubt of is at its bound, also of another C
    alpha = np.where(p < 1.0, prices, 0.0)
    return np.where(np.abs(p - 1.0) < NEAR, np.clip(known, 0.0, prices), alpha)
