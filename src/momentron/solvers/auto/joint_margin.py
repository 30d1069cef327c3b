"""The joint margin of many classes where pairs are many: no matrix of pairs is ever formed.

Where the inner products of all examples are in memory, it is alternating directions at first
(`joint_splitting`). In features, and where these are slow, a soft margin is Newton's method on the
squared hinge (`joint_newton`). The hard margin, and a soft one with a large C, is the method of
multipliers around it, with a penalty c < C: minimise ½‖W‖² + (c/2) Σ max(0, 1 + u − margin)²
roughly, then u ← (1 − c/C) max(0, 1 + u − margin). Where that stands still, c times the maximum is
C times the slack ξ of the pair, and the margin is 1 − ξ; c times the maximum is the dual weight.
"""

import math
from abc import ABC, abstractmethod

import numpy as np

from momentron.solvers.auto import selection
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Bounds
from momentron.solvers.auto.joint_engine import JointEngine
from momentron.solvers.auto.joint_newton import JointNewton
from momentron.solvers.auto.joint_rows import GramRows, JointRows
from momentron.solvers.auto.joint_splitting import Splitting
from momentron.solvers.auto.joint_witness import balanced
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.shifted_inverse import ShiftedInverse
from momentron.solvers.base import Candidates, Fallback, Start
from momentron.solvers.problem import Problem


class JointMargin(JointEngine):
    """What is carried from one Newton step to the next, and what it proposes.

    Attributes
    ----------
    stage : Stage
        What the next step does.
    gap : float
        The smallest so far, as far as float64 tells.
    is_few : bool
        Whether exact solves go on where alternating directions are slow, and not Newton.
    inverse : ShiftedInverse or None
        What alternating directions work with: at first that of some of the examples, which come
        before the others, if it is known.
    """

    def __init__(
        self,
        problem: Problem,
        deadline: Deadline,
        start: Start | None = None,
        settings: AutoSettings = SETTINGS,
        inverse: ShiftedInverse | None = None,
        *,
        is_few: bool = False,
    ) -> None:
        super().__init__(problem, deadline, settings)
        self.is_few = is_few
        self.rows = JointRows.of(
            problem.operator, problem.dual_set.fits_intercept, settings, is_warm=start is not None
        )
        self.C = problem.penalty.stiffness
        self.scale = 2.0 * float(np.mean(self.rows.row_norms**2)) or 1.0
        # from far away a large penalty takes many steps
        C = min(settings.joint_first_C / self.scale, self.C)
        self.shares = self.example_shares()
        self.newton = JointNewton(self.rows, self.pairs, C, settings, self.shares)
        self.inverse = inverse
        self.stage: Stage = Begin(start)
        self.gap = math.inf
        self.look()

    def advance(self) -> None:
        """A Newton step, and what follows from it; the first time, a start."""
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
        return self.bounds(self.newton.shared(self.slack)).gap

    def weigh(self, q: np.ndarray) -> None:
        """Multipliers from weights; λ has mass ‖W‖² where the margin is 1."""
        newton = self.newton
        newton.C = min(self.settings.joint_warm_C / self.scale, self.C)
        newton.target = self.pairs.ones()
        if newton.C < self.C:
            share = 1.0 / newton.C - 1.0 / self.C
            newton.target += share * self.multipliers(q) / self.shares

    def multipliers(self, q: np.ndarray) -> np.ndarray:
        """A table of weights that belong to the present point; those of new examples are zero."""
        weights = np.zeros(self.labels.size)
        weights[: q.size] = q
        square, mass = self.rows.norm(self.newton.W) ** 2, float(weights.sum())
        return self.labels.dual_of(weights) * (square / mass if mass else 0.0)

    def bounds(self, weights: np.ndarray) -> Bounds:
        """What the present point and a table of weights prove, as far as float64 tells."""
        upper = self.offer(weights)
        primal = self.primal(self.classifier(), self.newton.F, self.newton.b)
        norm = self.problem.norm(primal.w)
        margin = self.problem.dual_set.margin(primal.scores)
        return Bounds(margin / norm if norm > 0.0 else -math.inf, upper)

    def classifier(self) -> np.ndarray:
        """W of the present point, as the operator has classifiers."""
        return self.rows.classifier(self.newton.W)

    def candidates(self) -> Candidates:
        """The present point and the best multipliers, at no pass."""
        return self.propose(self.classifier(), self.newton.F, self.newton.b)

    def left_off(self) -> Start | None:
        """The present point, where its pairs are few enough for matrices of them."""
        if self.has_given_up:
            return None
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

    def __init__(self, start: Start | None, *, was_split: bool = False) -> None:
        self.start, self.was_split = start, was_split

    def advance(self, joint: JointMargin) -> Stage:
        newton, start = joint.newton, self.start
        is_last = start is not None or newton.C == joint.C
        if start is not None:
            newton.go_to(joint.rows.from_classifier(start.w), joint.labels.all_intercepts(start.b))
        else:
            size = max(joint.settings.joint_sample, 2 * joint.rows.width)
            if joint.rows.n > 2 * size:
                newton.go_to(*joint.from_sample(size))
            else:
                newton.slide(joint.slack, joint.image)
        joint.keep_fallback()
        if isinstance(joint.rows, GramRows) and not self.was_split:
            return Split(joint.rows, joint, start)
        if start is not None:
            joint.weigh(start.q)
        joint.look()
        accuracy = joint.settings.joint_accuracy
        return Close(accuracy, keeps_fallback=True) if is_last else Grow()


class Split(Stage):
    """Alternating directions, some steps at a time; Newton goes on where they are slow."""

    def __init__(self, rows: GramRows, joint: JointMargin, start: Start | None) -> None:
        self.K, newton, settings = rows.K, joint.newton, joint.settings
        joint.inverse = ShiftedInverse(rows.K, settings.split_first, joint.inverse)
        C = joint.C * joint.shares
        self.splitting = Splitting(joint.inverse, joint.pairs, rows.fits_intercept, settings, C)
        if start is not None:
            self.splitting.go_to(joint.multipliers(start.q), newton.F + newton.b)
        self.looks: list[Bounds] = []
        self.changes = 0  # of ρ

    def advance(self, joint: JointMargin) -> Stage:
        splitting, settings, newton = self.splitting, joint.settings, joint.newton
        splitting.advance(settings.split_steps)
        W = joint.rows.image(splitting.coefficients())
        newton.W, newton.F, newton.b = W, joint.rows.scores(W), splitting.b
        splitting.correct(newton.F)
        weights = splitting.weights()
        joint.slack = weights / (newton.C * joint.shares)
        self.looks.append(joint.bounds(weights))
        joint.gap = min(joint.gap, self.looks[-1].gap)
        patience = settings.split_short_patience if joint.is_few else settings.split_patience
        if len(self.looks) > patience:
            before = self.looks[-1 - patience].gap
            if not self.looks[-1].gap <= 0.5 * before:
                return self._give_up(joint)
        if len(self.looks) > 2:
            self._balance(joint)
        return self

    def _balance(self, joint: JointMargin) -> None:
        """Another ρ where the gap falls slowly, and one bound moves much more than the other.

        A small ρ is good for the margin, a large one for the weights.
        """
        settings, (before, now) = joint.settings, self.looks[-2:]
        if now.gap < settings.split_fall * before.gap or self.changes == settings.split_changes:
            return
        moves = abs(now.upper - before.upper), abs(now.lower - before.lower)
        factor = math.sqrt((moves[0] + 1e-300) / (moves[1] + 1e-300))
        least, most = settings.split_balance
        if max(factor, 1.0 / factor) > least:
            self.changes += 1
            rho = self.splitting.inverse.rho * min(max(factor, 1.0 / most), most)
            joint.inverse = ShiftedInverse(self.K, rho)
            self.splitting.change(joint.inverse)

    def _give_up(self, joint: JointMargin) -> Stage:
        """Newton, from here if this separates; exact solves for few pairs."""
        newton, joint.inverse = joint.newton, None
        if joint.is_few:
            joint.is_done = joint.has_given_up = True
            return self
        if self.looks[-1].gap < 1.0:
            joint.weigh(joint.q)
            joint.look()
            return Close(joint.settings.joint_accuracy)
        newton.go_to(np.zeros_like(newton.W), np.zeros_like(newton.b))
        joint.look()
        return Begin(None, was_split=True)


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
