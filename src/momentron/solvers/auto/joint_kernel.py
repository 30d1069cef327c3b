"""The joint margin of many classes through a kernel: working sets of examples.

The engine for many pairs solves a working set S, given K_SS. Its classifier is Σ φ(x_i) A_i, so
that a look at all examples is a product with the columns of K where A is not zero.
"""

import math

import numpy as np

from momentron.rows import KernelOperator
from momentron.solvers.auto import selection
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.joint_engine import JointEngine
from momentron.solvers.auto.joint_margin import JointMargin
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.shifted_inverse import ShiftedInverse
from momentron.solvers.base import Candidates, Fallback, Start
from momentron.solvers.problem import Problem


class JointKernel(JointEngine):
    """Rounds of a working set solved and a look at all the examples."""

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
        self.S = selection.sample(labels.codes, settings.kernel_first, rng, least=0.0)
        self.table = labels.zeros(labels.codes.size)  # the multipliers of all pairs
        self.w, self.b = self.problem.base.zeros(), np.zeros(labels.n_classes)
        self.goal = settings.kernel_rough_gap
        self.rounds = 0
        if start is not None:
            self._begin_at(start)
        self.inner: JointMargin | None = None  # of the present working set
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
        if not self.is_soft and (self.fallback is None or inner.fallback is not None):
            self.fallback = Fallback(self.w, self.b)
        if inner.has_given_up:
            self.is_done = self.has_given_up = True
            return
        self._choose()

    @property
    def has_all(self) -> bool:
        """Whether the working set is all the examples: then its answer is known of all of them."""
        return self.S.size == self.labels.codes.size

    def _take(self, inner: JointMargin) -> None:
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

    def _solve(self) -> JointMargin:
        """The working set's own problem, to the present goal."""
        inner = self.inner or self._begin()
        self.inner = inner
        self.is_interruptible |= self.has_all
        while not inner.is_done and inner.gap > self.goal:
            inner.advance()
        return inner

    def _begin(self) -> JointMargin:
        """The problem of a new working set, from the last one's answer."""
        S = self.S
        problem = self.problem.some(S, self.operator.some(S))
        labels = problem.labels
        start = None
        if self.rounds > 1:
            w = self.w[:, S]  # what left the working set had hardly a weight
            start = Start(w, labels.free_intercepts(self.b), labels.from_dual(self.table[S]))
        return JointMargin(
            problem, self.deadline, start, self.settings, self.inverse, is_few=self.is_few
        )

    def _choose(self) -> None:
        """The next working set: support, what is near it, and violators outside."""
        settings, codes = self.settings, self.labels.codes
        goal = settings.kernel_goal * self.tol
        inside = np.zeros(codes.size, bool)
        inside[self.S] = True
        least = self._least_margins()
        many = settings.kernel_few * self.S.size
        blur = self.operator.single_errors(self.w)
        if blur is not None and np.count_nonzero(~inside & (least < 1.0)) < many:
            near = np.flatnonzero(least - 2.0 * blur.max(axis=1) < 1.0)
            self.w = self.operator.partly_exact(self.w, near)
            least = self._least_margins()
        below = np.flatnonzero(~inside & (least < 1.0 - 0.1 * self.tol))
        self.is_done = self.rounds >= settings.kernel_rounds
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
            kept, self.inverse = self.S[has_weight | (least[self.S] < settings.kernel_spare)], None
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
