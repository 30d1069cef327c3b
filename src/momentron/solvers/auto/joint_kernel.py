"""The joint margin of many classes through a kernel: working sets of examples.

The engine for many pairs solves a working set S, given K_SS. Its classifier is Σ φ(x_i) A_i, so
that a look at all examples is a product with the columns of K where A is not zero.
"""

import math

import numpy as np

from momentron.operators import KernelOperator
from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.joint_engine import JointEngine
from momentron.solvers.auto.joint_margin import JointMargin
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.shifted_inverse import ShiftedInverse
from momentron.solvers.base import Candidates, Fallback, Start


class JointKernel(JointEngine):
    """Rounds of a working set solved and a look at all the examples."""

    def __init__(
        self,
        problem: Problem,
        tol: float,
        deadline: Deadline,
        settings: AutoSettings = SETTINGS,
    ) -> None:
        super().__init__(problem, deadline, settings)
        kernel, labels = problem.operator.as_kernel(), self.labels
        assert kernel is not None
        self.operator, self.tol = kernel, tol
        rng = np.random.default_rng(0)
        self.S = selection.sample(labels.codes, settings.kernel_first, rng, least=0.0)
        self.table = labels.zeros(labels.codes.size)  # the multipliers of all pairs
        self.w, self.b = self.constraints.base.zeros(), np.zeros(labels.n_classes)
        self.goal = settings.kernel_rough_gap
        self.rounds = 0
        self.inner: JointMargin | None = None  # of the present working set
        self.inverse: ShiftedInverse | None = None  # of its first examples

    @staticmethod
    def fits(kernel: KernelOperator, settings: AutoSettings) -> bool:
        """Whether all examples would nearly fit a working set."""
        n_bytes = settings.kernel_entry_bytes * kernel.shape[0] ** 2
        return kernel.kernel.is_semidefinite and n_bytes <= 3 * kernel.cache_bytes

    def advance(self) -> None:
        """Solve the working set, look at all, and take in what is too near."""
        self.rounds += 1
        inner = self._solve()
        table = np.zeros_like(self.table)
        table[self.S] = inner.newton.C * inner.newton.shared(inner.slack)
        # of the point itself: a combination by the multipliers is as good at the very end only
        self.w = self.operator.rough_combine(self.S, inner.classifier()[0])
        self.b, self.table, self.is_interruptible = inner.newton.b, table, True
        if not self.is_soft and (self.fallback is None or inner.fallback is not None):
            self.fallback = Fallback(self.w, self.b)
        self.offer(table)
        self._choose()

    def _solve(self) -> JointMargin:
        """The working set's own problem, to the present goal."""
        inner = self.inner or self._begin()
        self.inner = inner
        while not inner.is_done and inner.gap > self.goal:
            inner.advance()
        return inner

    def _begin(self) -> JointMargin:
        """The problem of a new working set, from the last one's answer."""
        S, labels = self.S, self.labels.some(self.S)
        problem = Problem(
            self.constraints.like(self.operator.some(S), labels, S),
            labels.dual_set(self.problem.dual_set.loss),
        )
        start = None
        if self.rounds > 1:
            w = self.w[:, S]  # what left the working set had hardly a weight
            start = Start(w, labels.free_intercepts(self.b), labels.from_dual(self.table[S]))
        return JointMargin(problem, self.deadline, start, self.settings, self.inverse)

    def _choose(self) -> None:
        """The next working set: support, what is near it, and violators outside."""
        settings, codes, goal = self.settings, self.labels.codes, 0.8 * self.tol
        inside = np.zeros(codes.size, bool)
        inside[self.S] = True
        least = self._least_margins()
        many = settings.kernel_few * self.S.size
        blur = self.operator.blur(self.w)
        if blur is not None and np.count_nonzero(~inside & (least < 1.0)) < many:
            near = np.flatnonzero(least - 2.0 * blur.max(axis=1) < 1.0)
            self.w = self.operator.partly_exact(self.w, near)
            least = self._least_margins()
        below = np.flatnonzero(~inside & (least < 1.0 - 0.1 * self.tol))
        self.is_done = self.rounds >= settings.kernel_rounds
        if below.size == 0:
            self.is_done |= self.goal <= goal
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
        return self.propose(self.w, self.operator.apply(self.w), self.b)
