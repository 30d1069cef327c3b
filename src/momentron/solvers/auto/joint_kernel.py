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
        S, labels = self.S, self.labels.some(self.S)
        problem = Problem(
            self.constraints.like(self.operator.some(S), labels, S),
            labels.dual_set(self.problem.dual_set.loss),
        )
        start = None
        if self.rounds > 1:
            w = self.w[:, S]  # what left the working set had hardly a weight
            start = Start(w, labels.free_intercepts(self.b), labels.from_dual(self.table[S]))
        inner = JointMargin(problem, self.deadline, start, self.settings)
        while not inner.is_done and inner.gap > self.goal:
            inner.advance()
        return inner

    def _choose(self) -> None:
        """The next working set: support, what is near it, and violators outside."""
        settings, codes, goal = self.settings, self.labels.codes, 0.25 * self.tol
        least, blur = self._least_margins(), self.operator.blur(self.w)
        if blur is not None:
            near = np.flatnonzero(least - 2.0 * blur.max(axis=1) < settings.kernel_spare)
            self.w = self.operator.partly_exact(self.w, near)
            least = self._least_margins()
        inside = np.zeros(least.size, bool)
        inside[self.S] = True
        below = np.flatnonzero(~inside & (least < 1.0 - 0.1 * self.tol))
        self.is_done = self.rounds >= settings.kernel_rounds
        if below.size == 0:
            self.is_done |= self.goal <= goal
            self.goal = goal
            return
        if below.size < 0.05 * self.S.size:
            self.goal = max(goal, 0.1 * self.goal)
        most = max(settings.kernel_first, self.S.size)
        taken = below[np.argsort(least[below], kind="stable")[:most]]
        kept = self.S[self.table[self.S].any(axis=1) | (least[self.S] < settings.kernel_spare)]
        self.S = np.union1d(kept, taken)
        missing = np.setdiff1d(np.arange(self.labels.n_classes), codes[self.S])
        if missing.size:  # every class keeps an example
            first = [int(np.flatnonzero(codes == c)[0]) for c in missing]
            self.S = np.union1d(self.S, first)

    def _least_margins(self) -> np.ndarray:
        """The least functional margin of every example."""
        F = self.operator.apply(self.w) + self.b
        return np.where(self.pairs.ones() > 0.0, self.pairs.margins(F), math.inf).min(axis=1)

    def candidates(self) -> Candidates:
        """The classifier of the last round, with its scores on all examples."""
        return self.propose(self.w, self.operator.apply(self.w), self.b)
