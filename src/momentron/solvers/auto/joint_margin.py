"""The joint margin of many classes where pairs are many: no matrix of pairs is ever formed.

A soft margin is Newton's method on the squared hinge (`joint_newton`). The hard margin, and a soft
one with a large C, is the method of multipliers around it, with a penalty c < C: minimise
½‖W‖² + (c/2) Σ max(0, 1 + u − margin)² roughly, then u ← (1 − c/C) max(0, 1 + u − margin). Where
that stands still, c times the maximum is C times the slack ξ of the pair, and the margin is 1 − ξ;
c times the maximum is the dual weight.
"""

import math
from abc import ABC, abstractmethod

import numpy as np

from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Bounds
from momentron.solvers.auto.joint_engine import JointEngine
from momentron.solvers.auto.joint_newton import JointNewton
from momentron.solvers.auto.joint_rows import JointRows
from momentron.solvers.auto.joint_witness import balanced
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.base import Candidates, Fallback, Start
from momentron.threads import one_thread


class JointMargin(JointEngine):
    """What is carried from one Newton step to the next, and what it proposes.

    Attributes
    ----------
    stage : Stage
        What the next step does.
    gap : float
        The smallest so far, as far as float64 tells.
    """

    def __init__(
        self,
        problem: Problem,
        deadline: Deadline,
        start: Start | None = None,
        settings: AutoSettings = SETTINGS,
    ) -> None:
        super().__init__(problem, deadline, settings)
        self.rows = JointRows.of(
            problem.operator, problem.dual_set.fits_intercept, settings, is_warm=start is not None
        )
        self.C = self.constraints.stiffness
        self.scale = 2.0 * float(np.mean(self.rows.row_norms**2)) or 1.0
        # from far away a large penalty takes many steps
        C = min(settings.joint_first_C / self.scale, self.C)
        self.shares = self.example_shares()
        self.newton = JointNewton(self.rows, self.pairs, C, settings, self.shares)
        self.stage: Stage = Begin(start)
        self.gap = math.inf
        self.look()

    def advance(self) -> None:
        """A Newton step, and what follows from it; the first time, a start."""
        with one_thread():  # hundreds of small products: threads that spin would stall each
            self.is_interruptible = True
            self.stage = self.stage.advance(self)

    def look(self) -> None:
        """The slack here, and Σ C slack · x (e_c − e_j)ᵀ, which is W where the gradient is zero."""
        self.slack = self.newton.slack()
        self.image = self.newton.image(self.slack)

    def step(self, accuracy: float) -> tuple[float, float]:
        """A Newton step: (its length, √(gᵀH⁻¹g)/‖W‖ before it)."""
        step = self.newton.step(accuracy, self.slack, self.image)
        self.look()
        return step.length, step.decrement / max(self.rows.norm(self.newton.W), 1e-300)

    def from_sample(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) of about so many examples, roughly, at the same share of risk and norm."""
        n = self.rows.n
        index = selection.sample(self.labels.codes, size, np.random.default_rng(0), least=0.0)
        C = self.newton.C * n / index.size
        shares = self.shares if isinstance(self.shares, float) else self.shares[index]
        some = self.rows.some(index), self.pairs.some(index)
        small = JointNewton(*some, C, self.settings, shares)
        slack = small.slack()
        small.slide(slack, small.image(slack))
        for _ in range(self.settings.joint_rough_steps):
            slack = small.slack()
            small.step(self.settings.joint_accuracy, slack, small.image(slack))
        return small.W, small.b

    def is_settled(self, relative: float) -> bool:
        """Whether the weights are off by little beside what an update will change of them.

        The method of multipliers is a proximal method on the weights, which converges with steps as
        rough as this (Rockafellar 1976, criterion B). An error of √(gᵀH⁻¹g) in the point is √c
        times that in the weights: a larger penalty wants a finer point.
        """
        newton = self.newton
        kept = 1.0 - newton.C / self.C
        change = (kept * self.slack - newton.target + self.pairs.ones()) * np.sqrt(self.shares)
        allowed = self.settings.joint_roughness * math.sqrt(newton.C) * np.linalg.norm(change)
        return bool(relative * self.rows.norm(newton.W) <= allowed)

    def measure(self) -> float:
        """The relative gap of the present point and multipliers, as far as float64 tells."""
        upper = self.offer(self.newton.shared(self.slack))
        primal = self.primal(self.classifier(), self.newton.F, self.newton.b)
        norm = self.constraints.norm(primal.w)
        margin = self.problem.dual_set.margin(primal.scores)
        return Bounds(margin / norm if norm > 0.0 else -math.inf, upper).gap

    def classifier(self) -> np.ndarray:
        """W of the present point, as the operator has classifiers."""
        return self.rows.classifier(self.newton.W)

    def candidates(self) -> Candidates:
        """The present point and the best multipliers, at no pass."""
        return self.propose(self.classifier(), self.newton.F, self.newton.b)

    def left_off(self) -> Start | None:
        """The present point, where its pairs are few enough for matrices of them."""
        settings, count = self.settings, np.count_nonzero(self.slack)
        fits = settings.closing_bytes * count**2 <= settings.memory
        if count > settings.closing_pairs or not fits:
            return None
        return Start(self.classifier(), self.labels.free_intercepts(self.newton.b), self.q)

    def keep_fallback(self) -> None:
        """The first soft margin, which is the most regular one, serves where nothing separates."""
        if not self.is_soft:
            self.fallback = Fallback(self.classifier(), self.newton.b)


class Stage(ABC):
    """A kind of step."""

    @abstractmethod
    def advance(self, joint: JointMargin) -> "Stage":
        """One step; what comes next."""


class Begin(Stage):
    """A first point: a given classifier, or that of a sample of the examples."""

    def __init__(self, start: Start | None) -> None:
        self.start = start

    def advance(self, joint: JointMargin) -> Stage:
        newton = joint.newton
        is_last = self.start is not None or newton.C == joint.C
        if self.start is not None:
            self._go_to(joint, self.start)
        else:
            size = max(joint.settings.joint_sample, 2 * joint.rows.width)
            if joint.rows.n > 2 * size:
                newton.go_to(*joint.from_sample(size))
            else:
                newton.slide(joint.slack, joint.image)
        joint.look()
        joint.keep_fallback()
        accuracy = joint.settings.joint_accuracy
        return Close(accuracy, keeps_fallback=True) if is_last else Grow()

    def _go_to(self, joint: JointMargin, start: Start) -> None:
        newton = joint.newton
        newton.C = min(joint.settings.joint_warm_C / joint.scale, joint.C)
        newton.go_to(joint.rows.from_classifier(start.w), joint.labels.all_intercepts(start.b))
        if newton.C < joint.C:  # the weights λ have mass ‖W‖² where the margin is 1
            weights = np.zeros(joint.labels.size)
            weights[: start.q.size] = start.q
            square, mass = joint.rows.norm(newton.W) ** 2, float(weights.sum())
            share = (1.0 / newton.C - 1.0 / joint.C) * (square / mass if mass else 0.0)
            newton.target += share * joint.labels.dual_of(weights) / joint.shares


class Grow(Stage):
    """Rough soft margins with a growing penalty: up to C, or until the slack is a hundredth."""

    def __init__(self, *, is_first: bool = True) -> None:
        self.is_first = is_first
        self.steps = 0

    def advance(self, joint: JointMargin) -> Stage:
        settings, newton = joint.settings, joint.newton
        _, relative = joint.step(settings.joint_accuracy)
        self.steps += 1
        if self.is_first:
            joint.keep_fallback()
        if self.steps < settings.joint_rough_steps and not relative < 0.1:
            return self
        following: Stage = Close(settings.joint_accuracy)
        active = joint.slack[joint.slack > 0.0]
        growth = min(10.0, float(active.mean()) / settings.joint_faint if active.size else 1.0)
        if growth * newton.C >= joint.C:
            newton.C = joint.C
        elif growth >= 2.0 and newton.C * joint.scale <= settings.joint_hard_C:
            newton.C *= growth
            following = Grow(is_first=False)
        joint.look()
        return following


class Close(Stage):
    """Newton at the last penalty, or multipliers around it, until nothing improves."""

    def __init__(self, accuracy: float, *, keeps_fallback: bool = False) -> None:
        self.accuracy = accuracy  # of a direction
        self.keeps_fallback = keeps_fallback
        self.steps = 0  # since the last update of the multipliers
        self.tries = 0  # steps in all
        self.failures = 0  # looks at the gap without a better one
        self.last_upper = math.inf  # at the last look without a margin
        self.last_gap = math.inf  # after the last update of the multipliers

    def advance(self, joint: JointMargin) -> Stage:
        settings = joint.settings
        length, relative = joint.step(self.accuracy)
        if length > 1.5:  # an exact direction's best is near 1
            self.accuracy = max(settings.joint_finest, 0.3 * self.accuracy)
        self.steps += 1
        if self.keeps_fallback:
            joint.keep_fallback()
        if joint.newton.C == joint.C:  # no multipliers
            self._watch(joint, joint.measure(), relative)
            return self
        if self._is_due(joint):
            joint.offer(balanced(joint.newton, joint.slack))
        is_near = relative <= min(0.1 * joint.gap, settings.joint_near) and joint.is_settled(
            relative
        )
        if is_near or self.steps >= settings.joint_inner_steps:
            gap = joint.measure()
            self._watch(joint, gap, relative)
            self._update_multipliers(joint, gap, may_grow=is_near)
        return self

    def _watch(self, joint: JointMargin, gap: float, relative: float) -> None:
        """Give up where rounding has the last word."""
        settings = joint.settings
        if gap < 1.0:
            is_better = gap <= 0.9 * joint.gap
            short, long = settings.joint_patience
            patience = short if relative < settings.joint_rounding else long
        else:  # no margin yet, and perhaps there is none
            is_better = joint.upper <= 0.7 * self.last_upper
            self.last_upper = min(joint.upper, self.last_upper)
            patience = settings.joint_short_patience
        self.failures = 0 if is_better else self.failures + 1
        joint.is_done = self.failures >= patience
        joint.gap = min(joint.gap, gap)

    def _update_multipliers(self, joint: JointMargin, gap: float, *, may_grow: bool) -> None:
        """u ← slack (1 − c/C); where that brought little, a larger penalty c."""
        newton, self.steps = joint.newton, 0
        before, largest = newton.C, joint.settings.joint_last_C
        if may_grow and gap > 0.5 * self.last_gap and before * joint.scale < largest:
            newton.C = min(4.0 * before, joint.C)
        self.last_gap = gap
        newton.target = joint.pairs.ones() + joint.slack * (before / newton.C - before / joint.C)
        joint.look()

    def _is_due(self, joint: JointMargin) -> bool:
        """Whether it is time to look for a witness: seldom, since that costs several steps."""
        self.tries += 1
        is_due = not joint.is_soft and self.tries in joint.settings.witness_steps
        return is_due and bool((joint.newton.margins() <= 0.0).sum() > joint.pairs.labels.size)
