"""The joint margin of many classes where pairs are many: no matrix of pairs is ever formed.

A soft margin is Newton's method on the squared hinge (`joint_newton`). The hard margin, and a soft
one with a large C, is the method of multipliers around it, with a penalty c < C: minimise
½‖W‖² + (c/2) Σ max(0, 1 + u − margin)² roughly, then u ← (1 − c/C) max(0, 1 + u − margin). Where
that stands still, c times the maximum is C times the slack ξ of the pair, and the margin is 1 − ξ;
c times the maximum is the dual weight.
"""

import math

import numpy as np

from momentron.operators import DenseOperator, Operator, SparseOperator
from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.forms import Deadline, gap_of
from momentron.solvers.auto.joint_newton import JointNewton
from momentron.solvers.auto.joint_witness import balanced
from momentron.solvers.auto.pair_table import PairTable
from momentron.solvers.base import Candidates, Fallback, Primal, Start
from momentron.threads import one_thread

MANY_PAIRS = 20_000  # from which this engine takes over
MANY_SIMPLE_PAIRS = 60_000  # the same for hard margins without intercepts, exact solves' best case
SAMPLE = 2000  # examples on which the first classifier is found
ACCURACY, FINEST = 0.1, 1e-4  # of a Newton direction: the usual, and where that is too rough
NEAR = 3e-3  # √(gᵀH⁻¹g)/‖W‖ at which multipliers may be updated, or less where the gap is small
FIRST_C = 10.0  # the first penalty of hard margins, and the largest first one of soft ones
WARM_C, MOST_HARD_C, LARGEST_C = 100.0, 1000.0, 1e7  # all in units of 1/mean‖z‖²
FAINT = 0.01  # mean slack of the active pairs at which multipliers take over
ROUGH_STEPS = 3  # at each C on the way
MOST_INNER = 20  # Newton steps between two updates of the multipliers
WITNESS_STEPS = (2, 8, 32, 64, 128, 256)  # of the last stage, after which a witness is sought
ROUNDING = 1e-8  # √(gᵀH⁻¹g)/‖W‖ at which rounding may be what keeps the gap open
PATIENCE, LONG_PATIENCE = 8, 40  # looks at the gap without a better one: at that point, and before
SHORT_PATIENCE = 3  # the same as long as nothing separates: then it is an upper bound that falls


class JointMargin:
    """What is carried from one Newton step to the next, and what it proposes."""

    def __init__(self, problem: Problem, deadline: Deadline, start: Start | None = None) -> None:
        self.problem = problem
        self.deadline = deadline
        constraints = problem.constraints
        operator, labels = constraints.operator, constraints.labels
        self.C, self.is_soft = constraints.C, constraints.is_soft
        self.operator, self.labels = operator, labels
        self.pairs = PairTable(labels.codes, labels.n_classes)
        self.scale = 2.0 * float(np.mean(operator.row_norms**2)) or 1.0
        self.fits_intercept = problem.dual_set.fits_intercept
        self.newton = JointNewton(
            operator, self.pairs, self._first_C(), fits_intercept=self.fits_intercept
        )
        self.start = start
        self.is_done = self.has_begun = False
        self.steps = self.failures = self.tries = 0
        self.accuracy = ACCURACY
        self.is_last_stage = self.newton.C == self.C
        self._last_upper = math.inf  # at the last look without a margin
        self._last_gap = math.inf  # after the last update of the multipliers
        self.gap = math.inf  # the smallest so far, as far as float64 tells
        self.fallback: Fallback | None = None
        self.is_first_stage = True
        self.q, self.upper = problem.even_weights(), math.inf
        self._look()

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Whether pairs are too many for exact solves on working sets of them."""
        is_explicit = isinstance(problem.operator, DenseOperator | SparseOperator)
        return is_explicit and has_many_pairs(problem)

    def _first_C(self) -> float:
        """The first penalty: from far away a large one takes many steps."""
        return min(FIRST_C / self.scale, self.C)

    # --- one step ------------------------------------------------------------------------------

    def advance(self) -> None:
        """A Newton step, and what follows from it; the first time, a start."""
        with one_thread():  # hundreds of small products: threads that spin would stall each
            self._advance()

    def _advance(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            self._begin()
            return
        step = self.newton.step(self.accuracy, self.slack, self.image)
        if self.is_last_stage and step.length > 1.5:  # an exact direction's best is near 1
            self.accuracy = max(FINEST, 0.3 * self.accuracy)
        self.steps += 1
        self._look()
        relative = step.decrement / max(float(np.linalg.norm(self.newton.W)), 1e-300)
        if self.is_first_stage:
            self._keep_fallback()
        if not self.is_last_stage:
            if self.steps >= ROUGH_STEPS or relative < 0.1:
                self._next_stage()
            return
        if self.newton.C == self.C:  # no multipliers
            self._watch(self._measure(), relative)
            return
        if not self.is_soft and self._looks_inseparable():
            self._seek_witness()
        is_near = relative <= min(0.1 * self.gap, NEAR)
        if is_near or self.steps >= MOST_INNER:
            gap = self._measure()
            self._watch(gap, relative)
            self._update_multipliers(gap, may_grow=is_near)

    def _watch(self, gap: float, relative: float) -> None:
        """Give up where rounding has the last word."""
        if gap < 1.0:
            is_better = gap <= 0.9 * self.gap
        else:  # no margin yet, and perhaps there is none
            is_better = self.upper <= 0.7 * self._last_upper
            self._last_upper = min(self.upper, self._last_upper)
        self.failures = 0 if is_better else self.failures + 1
        patience = PATIENCE if relative < ROUNDING else LONG_PATIENCE
        self.is_done = self.failures >= (patience if gap < 1.0 else SHORT_PATIENCE)
        self.gap = min(self.gap, gap)

    def _update_multipliers(self, gap: float, *, may_grow: bool) -> None:
        """u ← slack (1 − c/C); where that brought little, a larger penalty c."""
        newton, self.steps = self.newton, 0
        before = newton.C
        if may_grow and gap > 0.5 * self._last_gap and before * self.scale < LARGEST_C:
            newton.C = min(4.0 * before, self.C)
        self._last_gap = gap
        newton.target = self.pairs.ones() + self.slack * (before / newton.C - before / self.C)
        self._look()

    def _next_stage(self) -> None:
        """A larger penalty: up to C, or until the slack is a hundredth."""
        newton, self.steps, self.is_first_stage = self.newton, 0, False
        active = self.slack[self.slack > 0.0]
        growth = min(10.0, float(active.mean()) / FAINT if active.size else 1.0)
        if growth * newton.C >= self.C:
            newton.C, self.is_last_stage = self.C, True
        elif growth < 2.0 or newton.C * self.scale > MOST_HARD_C:
            self.is_last_stage = True
        else:
            newton.C *= growth
        self._look()

    def _look(self) -> None:
        """The slack here, and C Σ slack · x (e_c − e_j)ᵀ, which is W where the gradient is zero."""
        self.slack = self.newton.slack()
        self.image = self.newton.image(self.slack)

    # --- the start -----------------------------------------------------------------------------

    def _begin(self) -> None:
        """A given classifier, or that of a sample of the examples."""
        newton = self.newton
        if self.start is not None:
            self.is_last_stage = True
            newton.C = min(WARM_C / self.scale, self.C)
            newton.go_to(self.start.w, self.labels.all_intercepts(self.start.b))
            if newton.C < self.C:  # the weights λ have mass ‖W‖² where the margin is 1
                weights = np.zeros(self.labels.size)
                weights[: self.start.q.size] = self.start.q
                square, mass = float(np.vdot(newton.W, newton.W)), float(weights.sum())
                share = (1.0 / newton.C - 1.0 / self.C) * (square / mass if mass else 0.0)
                newton.target += share * self.labels.dual_of(weights)
        else:
            n, d = self.operator.shape
            size = max(SAMPLE, 2 * d)
            if n > 2 * size:
                newton.go_to(*self._from_sample(size))
            else:
                newton.slide(self.slack, self.image)
        self._look()
        self._keep_fallback()

    def _from_sample(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) of about so many examples, roughly, at the same share of risk and norm."""
        n = self.operator.shape[0]
        index = selection.sample(self.labels.codes, size, np.random.default_rng(0), least=0.0)
        small = JointNewton(
            _some_rows(self.operator, index),
            self.pairs.some(index),
            self.newton.C * n / index.size,
            fits_intercept=self.fits_intercept,
        )
        slack = small.slack()
        small.slide(slack, small.image(slack))
        for _ in range(ROUGH_STEPS):
            slack = small.slack()
            small.step(ACCURACY, slack, small.image(slack))
        return small.W, small.b

    # --- proposals -----------------------------------------------------------------------------

    def _measure(self) -> float:
        """The relative gap of the present point and multipliers, as far as float64 tells."""
        constraints, dual_set = self.problem.constraints, self.problem.dual_set
        q = dual_set.normalize(self.labels.from_dual(self.slack))
        upper = constraints.dual_norm(q)
        if upper < self.upper:
            self.q, self.upper = q, upper
        w, scores = self._primal()
        norm = constraints.norm(w)
        lower = dual_set.margin(scores) / norm if norm > 0.0 else -math.inf
        return gap_of(lower, upper)

    def _looks_inseparable(self) -> bool:
        """Whether it is time to look for a witness: seldom, since that costs several steps."""
        self.tries += 1
        is_due = self.tries in WITNESS_STEPS
        return is_due and bool((self.newton.margins() <= 0.0).sum() > self.pairs.labels.size)

    def _seek_witness(self) -> None:
        weights = self.labels.from_dual(balanced(self.newton, self.slack))
        q = self.problem.dual_set.normalize(weights)
        upper = self.problem.constraints.dual_norm(q)
        if upper < self.upper:
            self.q, self.upper = q, upper

    def _primal(self) -> tuple[np.ndarray, np.ndarray]:
        """The classifier as the constraints see it, and its scores in the units of X."""
        newton = self.newton
        scores = self.labels.scores(newton.F)
        if not self.is_soft:
            return newton.W, scores
        slack = self.labels.from_dual(np.maximum(self.pairs.ones() - newton.margins(), 0.0))
        scores -= slack
        return self.problem.constraints.with_slack(newton.W, slack), scores

    def candidates(self) -> Candidates:
        """The present point and multipliers, at no pass."""
        w, scores = self._primal()
        return Candidates(
            [Primal(w, scores / self.problem.radius)],
            self.q,
            self.upper / self.problem.radius,
            fallback=self.fallback,
        )

    def _keep_fallback(self) -> None:
        """The first soft margin, which is the most regular one, serves where nothing separates."""
        if not self.is_soft:
            self.fallback = Fallback(self.newton.W, self.newton.b)


def has_many_pairs(problem: Problem) -> bool:
    """Whether there are many classes, and too many pairs for matrices of them."""
    constraints = problem.constraints
    is_simple = not (constraints.is_soft or problem.dual_set.fits_intercept)
    many = MANY_SIMPLE_PAIRS if is_simple else MANY_PAIRS
    return constraints.labels.is_paired and problem.size >= many


def _some_rows(operator: Operator, index: np.ndarray) -> Operator:
    """An operator of some of the rows."""
    if isinstance(operator, SparseOperator):
        return SparseOperator(operator.sparse_rows(index))
    return DenseOperator(operator.rows(index))
