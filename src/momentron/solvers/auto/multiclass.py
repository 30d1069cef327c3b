"""The margin of many classes where pairs are many: no matrix of pairs is ever formed.

A soft margin is Newton's method on the squared hinge, with the systems of `class_newton`. The hard
margin, and a soft one with a large C, is the method of multipliers around it, with a stiffness
σ < C: minimise roughly around weights α(1 − σ/C), of which the minimiser's are the next α. Where
they stand still, margins are 1 − α/C. Inner products have their own engines (`class_kernel`).
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.solvers.auto.class_newton import FINEST, ClassForm, balanced
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Bounds, Hinge, Point
from momentron.solvers.auto.newton import minimise
from momentron.solvers.auto.search import Engine
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.working_rows import sample
from momentron.solvers.problem import Problem
from momentron.solvers.solver import Candidates, Primal, Start

SAMPLE = 2000  # examples on which the first classifier of many more is found
NEAR = 0.1  # √(gᵀH⁻¹g)/‖W‖, as a share of the gap, at which multipliers may be updated;
ROUNDING = 1e-8  # and itself where rounding may be what keeps the gap open
# σ in units of 1/mean‖a‖²: the first of a hard margin and of a soft one, the largest, and the C up
# to which Newton's method reaches a soft margin at once.
FIRST, LAST, EASY = (15.0, 30.0), 1e7, 400.0
GROWTH = 6.0  # of σ where an update has not halved the gap
SAMPLE_STEPS, INNER_STEPS = 3, 20  # Newton steps on a sample, and between two updates
# Looks at the gap without a better one: at rounding level, before, and as long as nothing
# separates, when it is an upper bound that falls.
PATIENCE = (8, 40, 6)
WITNESS_STEPS = (12, 64, 128, 256)  # steps with multipliers after which a witness is sought
CLOSING_PAIRS = 4000  # active pairs up to which exact solves go on where it stands still,
CLOSING_BYTES = 64  # and bytes for two of them


class ClassEngine(Engine):
    """What is proposed of many classes, and the best weights so far.

    Exact solves take over at the end, if `exact` begins them: from the present point where its
    pairs are few enough for matrices of them, and from nothing where all the pairs are few.

    Attributes
    ----------
    point : Point
        (w as the operator has classifiers, b of all classes, functional margins).
    weights : ndarray
        Those of the pairs at this point.
    gap : float
        The smallest so far, as far as float64 tells.
    """

    point: Point
    gives_up: bool = False  # whether it leaves margins below the tolerance alone

    def __init__(
        self,
        problem: Problem,
        deadline: Deadline,
        settings: AutoSettings = SETTINGS,
        *,
        tol: float = 0.0,
        start: Start | None = None,
        exact: Callable[[Start | None], Engine] | None = None,
        is_few: bool = False,
    ) -> None:
        self.problem, self.deadline, self.settings = problem, deadline, settings
        self.tol, self.start, self.exact, self.is_few = tol, start, exact, is_few
        self.labels: Any = problem.labels  # ManyClasses
        self.operator: Any = problem.operator
        self.q, self.upper, self.gap = np.ones(problem.size), math.inf, math.inf
        self.weights = np.zeros(problem.size)
        zeros = self.labels.zeros(self.labels.codes.size)
        self.go_to(problem.base.zeros(), np.zeros(self.labels.n_classes), zeros)
        self.remaining = self.rounds()

    @abstractmethod
    def rounds(self) -> Iterator[None]:
        """The rounds, from the start, if there is one."""

    def go_to(self, w: np.ndarray, b: np.ndarray, outputs: np.ndarray) -> None:
        """Take another point, whose outputs Xw are known."""
        self.point = Point(w, b, -self.labels.scores(outputs + b))

    def take_weights(self, start: Start) -> None:
        """The weights of a start, whose point is taken, and zeros for examples that are new.

        Their mass is ‖W‖², which it is where functional margins are 1 on the support.
        """
        self.weights = np.zeros(self.problem.size)
        self.weights[: start.q.size] = start.q
        mass = self.problem.base.norm(self.point.x) ** 2
        self.weights *= mass / (float(self.weights.sum()) or 1.0)

    def present_gap(self) -> float:
        """The gap of the present point and weights, as far as float64 tells.

        The weights are kept where they are the best so far.
        """
        (primal,) = self.candidates().primals
        margin = self.problem.radius * self.problem.margin(primal.w, primal.scores)
        return Bounds(margin, self.offer(self.weights)).gap

    def offer(self, weights: np.ndarray) -> float:
        """‖Zᵀq‖ of weights, which are kept where they are the best so far."""
        q = self.problem.dual_set.normalize(weights)
        upper = self.problem.dual_norm(q)
        if upper < self.upper:
            self.q, self.upper = q, upper
        return upper

    def candidates(self) -> Candidates:
        """The present point and the best weights, at no pass."""
        (w, b, p), radius = self.point, self.problem.radius
        scores = -p - self.labels.scores(np.broadcast_to(b, (self.labels.codes.size, b.size)))
        slack = np.maximum(1.0 - p, 0.0) if self.problem.is_soft else np.zeros(p.size)
        primal = Primal(self.problem.with_slack(w, slack), (scores - slack) / radius)
        return Candidates([primal], self.q, self.upper / radius, gives_up=self.gives_up)

    @property
    def has_many(self) -> bool:
        """Whether the active pairs are too many for matrices of them."""
        size = np.count_nonzero(self.weights)
        return bool(size > CLOSING_PAIRS or CLOSING_BYTES * size**2 > self.settings.memory)

    def successor(self) -> Engine | None:
        if self.exact is None or (self.has_many and not self.is_few):
            return None
        if self.is_few:
            return self.exact(None)
        w, b, _ = self.point
        return self.exact(Start(w, self.labels.free_intercepts(b), self.q))


class ClassMargin(ClassEngine):
    """Newton's method on all the pairs of a matrix of examples, with the loss of the present σ."""

    _failures, _last_upper = 0, math.inf  # of looks at the gap; see `_is_stuck`

    def rounds(self) -> Iterator[None]:
        """A first point, then multipliers or Newton at the last penalty until nothing improves."""
        form = self.form = ClassForm(self.problem, self.deadline, self.settings)
        C, start, tries = self.problem.penalty.stiffness, self.start, 0
        last_gap = last_relative = math.inf
        sigma = min(FIRST[self.problem.is_soft] / form.scale, C)
        if start is None:
            self._begin(sigma)
        else:
            form.go_to(start.w.reshape(form.point.x.shape), self.labels.all_intercepts(start.b))
            self.point = form.point
            self.take_weights(start)
        if C * form.scale < EASY:  # from far away a larger penalty takes many steps
            sigma = C
        while True:  # until the multipliers stand still, or the minimiser at C
            centre = (1.0 - sigma / C) * self.weights
            loss = Hinge(sigma, centre=centre, shares=self.problem.penalty.shares)
            self.point, self.weights = form.point, loss.weights(loss.at(form.p))
            for _ in range(INNER_STEPS if sigma < C else 1):
                yield
                require_time()
                self.weights = minimise(form, loss, max_steps=1).weights
                self.point, tries = form.point, tries + 1
                relative = form.decrement / max(form.norm(), 1e-300)  # √(gᵀH⁻¹g)/‖W‖
                # after the best step along an exact direction the next decrement is smaller
                if relative > last_relative:
                    form.accuracy = max(FINEST, 0.3 * form.accuracy)
                last_relative = relative
                if tries in WITNESS_STEPS and not self.problem.is_soft and (form.p <= 0.0).any():
                    self.offer(balanced(form, self.weights))  # it costs several steps
                is_near = relative <= NEAR * min(self.gap, 1.0)
                if is_near:
                    break
            gap = self.present_gap()
            if self._is_stuck(gap, relative):
                return
            # no witness is near, and exact solves of so many pairs would take minutes
            if gap >= 1.0 and tries > WITNESS_STEPS[0] and self.has_many:
                self.gives_up = self.upper <= self.tol * self.problem.tight_radius
                if self.gives_up:
                    return
            if sigma < C:
                if is_near and gap > 0.5 * last_gap and sigma * form.scale < LAST:
                    sigma = min(GROWTH * sigma, C)
                last_gap, last_relative = gap, math.inf

    def _begin(self, sigma: float) -> None:
        """The classifier of a sample of the examples, at the same share of risk and norm."""
        form, (n, d) = self.form, self.form.operator.shape
        size = max(SAMPLE, 2 * d)
        if n > 2 * size:
            index = sample(self.labels.codes, size, np.random.default_rng(0), least=0.0)
            problem = self.problem.some(index, form.operator.some(index))
            small = ClassForm(problem, self.deadline, self.settings)
            loss = Hinge(sigma * n / index.size, shares=problem.penalty.shares)
            minimise(small, loss, max_steps=SAMPLE_STEPS)
            form.go_to(*small.point[:2])

    def _is_stuck(self, gap: float, relative: float) -> bool:
        """Whether rounding has the last word; `relative` is the decrement of the last step."""
        if gap < 1.0:
            is_better, most = gap <= 0.9 * self.gap, PATIENCE[relative >= ROUNDING]
        else:  # no margin yet, and perhaps there is none
            is_better, most = self.upper <= 0.7 * self._last_upper, PATIENCE[2]
            self._last_upper = self.upper
        self._failures = 0 if is_better else self._failures + 1
        self.gap = min(self.gap, gap)
        return self._failures >= most
