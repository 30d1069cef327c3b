"""The margin of many classes where pairs are many: no matrix of pairs is ever formed.

Where the inner products of all examples are in memory, it is alternating directions at first
(`splitting`). In features, and where these are slow, a soft margin is Newton's method on the
squared hinge (`class_newton`). The hard margin, and a soft one with a large C, is the method of
multipliers around it, with a stiffness c < C: minimise ½‖W‖² + (c/2) Σ max(0, 1 + u − margin)²
roughly, then u ← (1 − c/C) max(0, 1 + u − margin). Where that stands still, c times the maximum is
C times the slack ξ of the pair, and the margin is 1 − ξ; c times the maximum is the dual weight.
"""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from momentron.rows import KernelOperator
from momentron.solvers.auto.class_newton import ClassNewton, PairTable, balanced
from momentron.solvers.auto.class_rows import class_rows
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Bounds
from momentron.solvers.auto.search import Engine
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.splitting import ShiftedInverse, Splitting
from momentron.solvers.auto.working_rows import sample
from momentron.solvers.problem import Problem
from momentron.solvers.solver import Candidates, Primal, Start

SAMPLE = 2000  # examples on which the first classifier is found
ACCURACY, FINEST = 0.1, 1e-4  # of a Newton direction, and where that is too rough
NEAR = 0.01  # √(gᵀH⁻¹g)/‖W‖ at which multipliers may be updated, or less where the gap is small,
ROUNDING = 1e-8  # and at which rounding may be what keeps the gap open
# c in units of 1/mean‖a‖²: the first, that of a warm start, that from which multipliers take over
# from growing it, and the largest.
FIRST, WARM, HARD, LAST = 10.0, 30.0, 1000.0, 1e7
FAINT = 0.01  # the mean slack of the active pairs at which multipliers take over
ROUGH_STEPS, INNER_STEPS = 3, 20  # Newton steps at each c on the way, and between two updates
# Looks at the gap without a better one: at rounding level, before, and as long as nothing
# separates, when it is an upper bound that falls.
PATIENCE = (8, 40, 6)
WITNESS_STEPS = (2, 8, 32, 64, 128, 256)  # steps with multipliers after which a witness is sought
CLOSING_PAIRS = 4000  # active pairs up to which exact solves go on where it stands still,
CLOSING_BYTES = 64  # and bytes for two of them
SPLIT_RHO = 0.5  # the first ρ of alternating directions, in units of mean K_ii
SPLIT_STEPS = 10  # between two looks
# A look that leaves more than this share of the gap may change ρ, so often, and by a factor
# between these.
SPLIT_FALL, SPLIT_CHANGES, SPLIT_BALANCE = 0.8, 4, (2.0, 5.0)
# Looks among which the gap halves, or others take over: Newton, or exact solves of few pairs.
SPLIT_PATIENCE, SPLIT_SHORT_PATIENCE = 8, 4
# Working sets of a kernel: the gap to which one is solved while many examples outside are too near,
# and the last one as a share of the tolerance; the functional margin up to which an example without
# weight stays; and the violators, as a share of the set, below which it is solved as far as asked.
KERNEL_ROUGH_GAP, KERNEL_GOAL = 0.01, 0.8
KERNEL_SPARE, KERNEL_FEW, KERNEL_ROUNDS = 1.05, 0.35, 40


class ClassEngine(Engine):
    """What is proposed of many classes, and the best weights so far."""

    def __init__(self, problem: Problem, deadline: Deadline, settings: AutoSettings) -> None:
        self.problem, self.deadline, self.settings = problem, deadline, settings
        self.labels, self.is_soft = problem.labels, problem.is_soft
        self.pairs = PairTable(self.labels.codes, self.labels.n_classes)
        self.q, self.upper = np.ones(problem.size), math.inf

    def example_shares(self) -> float | np.ndarray:
        """The examples' factors of C, as a column; 1 where all are alike."""
        shares = self.problem.penalty.shares
        return shares if isinstance(shares, float) else shares[:: self.labels.per_example, None]

    def offer(self, table: np.ndarray) -> float:
        """‖Zᵀq‖ of a table of weights, which are kept where they are the best so far."""
        q = self.problem.dual_set.normalize(self.labels.from_dual(table))
        upper = self.problem.dual_norm(q)
        if upper < self.upper:
            self.q, self.upper = q, upper
        return upper

    def primal(self, W: np.ndarray, F: np.ndarray, b: np.ndarray) -> Primal:
        """The classifier as the constraints see it, given its outputs; scores in units of X."""
        scores = self.labels.scores(F)
        if not self.is_soft:
            return Primal(W, scores)
        table = np.maximum(self.pairs.ones() - self.pairs.margins(F + b), 0.0)
        slack = self.labels.from_dual(table)
        return Primal(self.problem.with_slack(W, slack), scores - slack)

    def propose(self, W: np.ndarray, F: np.ndarray, b: np.ndarray) -> Candidates:
        """A classifier with its outputs, and the best weights."""
        primal, radius = self.primal(W, F, b), self.problem.radius
        primal.scores = primal.scores / radius
        return Candidates([primal], self.q, self.upper / radius)


class ClassMargin(ClassEngine):
    """What is carried from one Newton step to the next, and what it proposes.

    Attributes
    ----------
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
        self.rows = class_rows(
            problem.operator, problem.dual_set.fits_intercept, settings, is_warm=start is not None
        )
        self.C = problem.penalty.stiffness
        self.scale = 2.0 * float(np.mean(self.rows.row_norms**2)) or 1.0
        # from far away a large penalty takes many steps
        C = min(FIRST / self.scale, self.C)
        self.shares = self.example_shares()
        self.newton = ClassNewton(self.rows, self.pairs, C, settings, self.shares)
        self.inverse = inverse
        self.remaining = self._rounds(start)
        self.gap = math.inf
        self.look()

    def advance(self) -> None:
        self.is_interruptible = True
        super().advance()

    # --- rounds --------------------------------------------------------------------------------

    def _rounds(self, start: Start | None) -> Iterator[None]:
        """A first point, alternating directions if inner products are in memory, and Newton."""
        newton, K = self.newton, self.rows.inner_products
        self._begin(start)
        if K is not None:
            separates = yield from self._split(K, start)
            if self.has_given_up:
                return
            if separates:
                self.weigh(self.q)
                self.look()
                yield
                yield from self._close()
                return
            newton.go_to(np.zeros_like(newton.W), np.zeros_like(newton.b))
            self.look()
            yield
            start = None
            self._begin(start)
        elif start is not None:
            self.weigh(start.q)
        self.look()
        yield
        if start is None and newton.C < self.C:
            yield from self._grow()
        yield from self._close()

    def _begin(self, start: Start | None) -> None:
        """A first point: a given classifier, or that of a sample of the examples."""
        newton, size = self.newton, max(SAMPLE, 2 * self.rows.width)
        if start is not None:
            newton.go_to(self.rows.from_classifier(start.w), self.labels.all_intercepts(start.b))
        elif self.rows.n > 2 * size:
            newton.go_to(*self.from_sample(size))
        else:
            newton.slide(self.slack, self.image)

    def _split(self, K: np.ndarray, start: Start | None) -> Generator[None, None, bool]:
        """Alternating directions, some steps at a time, until they are slow.

        Returns whether they separate, so that Newton can go on from there. Exact solves go on with
        few pairs.
        """
        newton, shares = self.newton, self.shares
        self.inverse = ShiftedInverse(K, SPLIT_RHO, self.inverse)
        splitting = Splitting(
            self.inverse, self.pairs, self.rows.fits_intercept, self.C * np.asarray(shares)
        )
        if start is not None:
            splitting.go_to(self.multipliers(start.q), newton.F + newton.b)
        patience = SPLIT_SHORT_PATIENCE if self.is_few else SPLIT_PATIENCE
        looks: list[Bounds] = []
        changes = 0  # of ρ
        while len(looks) <= patience or looks[-1].gap <= 0.5 * looks[-1 - patience].gap:
            rho = _balanced_rho(self.inverse.rho, looks) if changes < SPLIT_CHANGES else None
            if rho is not None:
                changes += 1
                self.inverse = ShiftedInverse(K, rho)
                splitting.change(self.inverse)
            yield
            splitting.advance(SPLIT_STEPS)
            W = self.rows.image(splitting.coefficients())
            newton.W, newton.F, newton.b = W, self.rows.scores(W), splitting.b
            splitting.correct(newton.F)
            weights = splitting.weights()
            self.slack = weights / (newton.C * shares)
            looks.append(self.bounds(weights))
            self.gap = min(self.gap, looks[-1].gap)
        self.inverse, self.has_given_up = None, self.is_few
        return looks[-1].gap < 1.0

    def _grow(self) -> Iterator[None]:
        """Rough soft margins with a growing penalty: up to C, or until the slack is a hundredth."""
        newton, growth = self.newton, math.inf
        while growth >= 2.0 and newton.C < self.C:
            for _ in range(ROUGH_STEPS):
                _, relative = self.step(ACCURACY)
                if relative < 0.1:
                    break
                yield
            active = self.slack[self.slack > 0.0]
            growth = min(10.0, float(active.mean()) / FAINT if active.size else 1.0)
            if growth * newton.C >= self.C:
                newton.C = self.C
            elif growth >= 2.0 and newton.C * self.scale <= HARD:
                newton.C *= growth
            else:
                growth = 1.0
            self.look()
            yield

    def _close(self) -> Iterator[None]:
        """Newton at the last penalty, or multipliers around it, until nothing improves."""
        newton, patience, accuracy = self.newton, Patience(), ACCURACY
        steps = 0  # since the last update of the multipliers
        last_gap = last_relative = math.inf
        for tries in count(1):
            length, relative = self.step(accuracy)
            # the best step along an exact direction is near 1, and the next decrement is smaller
            if length > 1.5 or (steps and relative > last_relative):
                accuracy = max(FINEST, 0.3 * accuracy)
            last_relative, steps = relative, steps + 1
            has_multipliers = newton.C < self.C
            if has_multipliers and tries in WITNESS_STEPS and self._may_have_no_margin():
                self.offer(balanced(newton, self.slack))
            is_near = relative <= min(0.1 * self.gap, NEAR) and self.is_settled(relative)
            if is_near or steps >= INNER_STEPS or not has_multipliers:
                gap = self.measure()
                if patience.is_over(self, gap, relative):
                    return
                if has_multipliers:
                    self._update_multipliers(gap, last_gap if is_near else math.inf)
                    last_gap, steps = gap, 0
            yield

    def _may_have_no_margin(self) -> bool:
        """Whether a witness is worth looking for, which costs several steps."""
        has_wrong = int((self.newton.margins() <= 0.0).sum()) > self.pairs.labels.size
        return not self.is_soft and has_wrong

    def _update_multipliers(self, gap: float, last_gap: float) -> None:
        """u ← slack (1 − c/C); where the last update brought little, a larger penalty c."""
        newton, before = self.newton, self.newton.C
        if gap > 0.5 * last_gap and before * self.scale < LAST:
            newton.C = min(4.0 * before, self.C)
        newton.target = self.pairs.ones() + self.slack * (before / newton.C - before / self.C)
        self.look()

    # --- a point, and what it proves -----------------------------------------------------------

    def look(self) -> None:
        """The slack here, and Σ C slack · x (e_c − e_j)ᵀ, which is W where the gradient is zero."""
        self.slack = self.newton.slack()
        self.image = self.newton.image(self.slack)

    def step(self, accuracy: float) -> tuple[float, float]:
        """A Newton step: (its length, √(gᵀH⁻¹g)/‖W‖ before it)."""
        length, decrement = self.newton.step(accuracy, self.slack, self.image)
        self.look()
        return length, decrement / max(self.rows.norm(self.newton.W), 1e-300)

    def from_sample(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) of about so many examples, roughly, at the same share of risk and norm."""
        n = self.rows.n
        index = sample(self.labels.codes, size, np.random.default_rng(0), least=0.0)
        C = self.newton.C * n / index.size
        shares = self.shares if isinstance(self.shares, float) else self.shares[index]
        some = self.rows.some(index), self.pairs.some(index)
        small = ClassNewton(*some, C, self.settings, shares)
        slack = small.slack()
        small.slide(slack, small.image(slack))
        for _ in range(ROUGH_STEPS):
            slack = small.slack()
            small.step(ACCURACY, slack, small.image(slack))
        return small.W, small.b

    def is_settled(self, relative: float) -> bool:
        """Whether the weights err by little compared with what an update will change.

        The method of multipliers is a proximal method on the weights, which converges with steps as
        rough as this (Rockafellar 1976, criterion B). An error of √(gᵀH⁻¹g) in the point is √c
        times that in the weights: a larger penalty wants a finer point.
        """
        newton = self.newton
        kept = 1.0 - newton.C / self.C
        change = (kept * self.slack - newton.target + self.pairs.ones()) * np.sqrt(self.shares)
        allowed = math.sqrt(newton.C) * np.linalg.norm(change)
        return bool(relative * self.rows.norm(newton.W) <= allowed)

    def measure(self) -> float:
        """The relative gap of the present point and multipliers, as far as float64 tells."""
        return self.bounds(self.newton.shared(self.slack)).gap

    def weigh(self, q: np.ndarray) -> None:
        """Multipliers from weights; λ has mass ‖W‖² where the margin is 1."""
        newton = self.newton
        newton.C = min(WARM / self.scale, self.C)
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
        count = np.count_nonzero(self.slack)
        fits = CLOSING_BYTES * count**2 <= self.settings.memory
        if count > CLOSING_PAIRS or not fits:
            return None
        return Start(self.classifier(), self.labels.free_intercepts(self.newton.b), self.q)


@dataclass
class Patience:
    """Counts looks at the gap without a better one."""

    failures: int = 0
    last_upper: float = math.inf  # at the last look without a margin

    def is_over(self, work: ClassMargin, gap: float, relative: float) -> bool:
        """Whether rounding has the last word; `relative` is the decrement of the last step."""
        if gap < 1.0:
            is_better = gap <= 0.9 * work.gap
            most = PATIENCE[0] if relative < ROUNDING else PATIENCE[1]
        else:  # no margin yet, and perhaps there is none
            is_better = work.upper <= 0.7 * self.last_upper
            self.last_upper = min(work.upper, self.last_upper)
            most = PATIENCE[2]
        self.failures = 0 if is_better else self.failures + 1
        work.gap = min(work.gap, gap)
        return self.failures >= most


def _balanced_rho(rho: float, looks: list[Bounds]) -> float | None:
    """Another ρ where the gap falls slowly, and one bound moves much more than the other.

    A small ρ is good for the margin, a large one for the weights.
    """
    if len(looks) < 3 or looks[-1].gap < SPLIT_FALL * looks[-2].gap:
        return None
    before, now = looks[-2:]
    moves = abs(now.upper - before.upper), abs(now.lower - before.lower)
    factor = math.sqrt((moves[0] + 1e-300) / (moves[1] + 1e-300))
    least, most = SPLIT_BALANCE
    if max(factor, 1.0 / factor) <= least:
        return None
    return rho * min(max(factor, 1.0 / most), most)


# --- kernels ------------------------------------------------------------------------------------


class ClassKernel(ClassEngine):
    """Through a kernel: rounds of a working set of examples, solved, and a look at all of them.

    Its classifier is Σ φ(x_i) A_i, so that a look is a product with the columns of K where A is not
    zero.
    """

    def __init__(
        self,
        problem: Problem,
        tol: float,
        deadline: Deadline,
        settings: AutoSettings = SETTINGS,
        start: Start | None = None,
        *,
        is_few: bool = False,
    ) -> None:
        super().__init__(problem, deadline, settings)
        kernel, labels = problem.operator.as_kernel(), self.labels
        assert kernel is not None
        self.operator, self.tol, self.is_few = kernel, tol, is_few
        rng = np.random.default_rng(0)
        self.S = sample(labels.codes, settings.kernel_first, rng, least=0.0)
        self.table = labels.zeros(labels.codes.size)  # the multipliers of all pairs
        self.w, self.b = self.problem.base.zeros(), np.zeros(labels.n_classes)
        self.goal = KERNEL_ROUGH_GAP
        self.rounds = 0
        if start is not None:
            self._begin_at(start)
        self.inner: ClassMargin | None = None  # of the present working set
        self.inverse: ShiftedInverse | None = None  # of its first examples

    def _begin_at(self, start: Start) -> None:
        """A working set of the sample and a start's support, with its classifier and weights."""
        weights = np.zeros(self.labels.size)
        weights[: start.q.size] = start.q
        self.table = self.labels.dual_of(weights)
        self.S = np.union1d(self.S, np.flatnonzero(self.table.any(axis=1)))
        self.w, self.b = start.w, self.labels.all_intercepts(start.b)
        self.rounds = 1

    @staticmethod
    def fits(kernel: KernelOperator, settings: AutoSettings) -> bool:
        """Whether all examples would nearly fit a working set."""
        n_bytes = settings.kernel_entry_bytes * kernel.shape[0] ** 2
        return kernel.kernel.is_semidefinite and n_bytes <= 3 * kernel.cache_bytes

    def advance(self) -> None:
        """Solve the working set, look at all, and take in what is too near."""
        self.rounds += 1
        inner = self._solve()
        self._take(inner)
        if inner.has_given_up:
            self.is_done = self.has_given_up = True
            return
        self._choose()

    @property
    def has_all(self) -> bool:
        """Whether the working set is all the examples: then its answer is known of all of them."""
        return self.S.size == self.labels.codes.size

    def _take(self, inner: ClassMargin) -> None:
        """The working set's answer as that of all."""
        coef, outputs = inner.newton.W[: self.S.size], inner.newton.F
        if self.has_all:
            w = self.problem.base.zeros()
            w[0, self.S], w[1, self.S] = coef, outputs
        else:
            # of the point itself: a combination by the multipliers is as good at the very end only
            w = self.operator.rough_combine(self.S, coef)
        table = np.zeros_like(self.table)
        table[self.S] = inner.newton.C * inner.newton.shared(inner.slack)
        self.w, self.b, self.table, self.is_interruptible = w, inner.newton.b, table, True
        if inner.upper < self.upper:  # the same with all examples, most of which have no weight
            best = np.zeros_like(table)
            best[self.S] = inner.labels.dual_of(inner.q)
            self.q, self.upper = self.labels.from_dual(best), inner.upper

    def _solve(self) -> ClassMargin:
        """The working set's own problem, to the present goal."""
        inner = self.inner or self._begin()
        self.inner = inner
        self.is_interruptible |= self.has_all
        while not inner.is_done and inner.gap > self.goal:
            inner.advance()
        return inner

    def _begin(self) -> ClassMargin:
        """The problem of a new working set, from the last one's answer."""
        S = self.S
        problem = self.problem.some(S, self.operator.some(S))
        labels = problem.labels
        start = None
        if self.rounds > 1:
            w = self.w[:, S]  # what left the working set had hardly a weight
            start = Start(w, labels.free_intercepts(self.b), labels.from_dual(self.table[S]))
        return ClassMargin(
            problem, self.deadline, start, self.settings, self.inverse, is_few=self.is_few
        )

    def _choose(self) -> None:
        """The next working set: support, what is near it, and violators outside."""
        settings, codes = self.settings, self.labels.codes
        goal = KERNEL_GOAL * self.tol
        inside = np.zeros(codes.size, bool)
        inside[self.S] = True
        least = self._least_margins()
        many = KERNEL_FEW * self.S.size
        blur = self.operator.single_errors(self.w)
        if blur is not None and np.count_nonzero(~inside & (least < 1.0)) < many:
            near = np.flatnonzero(least - 2.0 * blur.max(axis=1) < 1.0)
            self.w = self.operator.in_double(self.w, near)
            least = self._least_margins()
        below = np.flatnonzero(~inside & (least < 1.0 - 0.1 * self.tol))
        self.is_done = self.rounds >= KERNEL_ROUNDS
        if below.size == 0:
            self.is_done |= self.goal <= goal or self.inner is None or self.inner.is_done
            self.goal = goal
            return
        most = max(settings.kernel_first, self.S.size)
        taken = below[np.argsort(least[below], kind="stable")[:most]]
        if below.size < many:  # keep all, and what is known of them
            assert self.inner is not None
            self.goal, kept, self.inverse = goal, self.S, self.inner.inverse
        else:
            has_weight = self.table[self.S].any(axis=1)
            kept, self.inverse = self.S[has_weight | (least[self.S] < KERNEL_SPARE)], None
        self.S, self.inner = np.concatenate([kept, taken]), None
        missing = np.setdiff1d(np.arange(self.labels.n_classes), codes[self.S])
        if missing.size:  # every class keeps an example
            first = [int(np.flatnonzero(codes == c)[0]) for c in missing]
            self.S = np.concatenate([self.S, first])

    def _least_margins(self) -> np.ndarray:
        """The least functional margin of every example."""
        F = self.operator.apply(self.w) + self.b
        return np.where(self.pairs.ones() > 0.0, self.pairs.margins(F), math.inf).min(axis=1)

    def candidates(self) -> Candidates:
        """The classifier of the last round, with its scores on all examples."""
        if self.has_all and self.inner is not None:  # or of a round that was cut short
            self._take(self.inner)
        return self.propose(self.w, self.operator.apply(self.w), self.b)
