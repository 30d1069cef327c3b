"""The joint margin of many classes through a kernel: working sets of examples, as explicit rows.

With a Cholesky factor K_SS = L Lᵀ the rows of L are the images of the examples S, up to rotation:
the engine for explicit rows solves the working set. Its classifier is Σ φ(x_i) A_i with A from the
multipliers, so that a look at all examples is a product with the columns of K where A is not zero.
"""

import math

import numpy as np
from scipy.linalg import lapack

from momentron.constraints import Constraints, LabelPairs, Slack
from momentron.operators import DenseOperator, KernelOperator
from momentron.problem import Problem, dual_set_of
from momentron.solvers.auto import selection
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.engine import Engine
from momentron.solvers.auto.joint_margin import JointMargin
from momentron.solvers.auto.pair_table import PairTable
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.base import Candidates, Fallback, Primal, Start


class JointKernel(Engine):
    """Rounds of a working set solved and a look at all the examples."""

    def __init__(
        self,
        problem: Problem,
        tol: float,
        deadline: Deadline,
        settings: AutoSettings = SETTINGS,
    ) -> None:
        constraints, self.settings = problem.constraints, settings
        self.problem, self.tol, self.deadline = problem, tol, deadline
        self.soft = constraints if isinstance(constraints, Slack) else None
        base = self.soft.base if self.soft is not None else constraints
        kernel = base.operator.as_kernel()
        assert isinstance(base, LabelPairs) and kernel is not None
        self.base, self.operator = base, kernel
        self.pairs = PairTable(base.labels, base.n_classes)
        n = base.labels.size
        self.S = selection.sample(
            base.labels, settings.kernel_first, np.random.default_rng(0), least=0.0
        )
        self.table = np.zeros((n, base.n_classes))  # the multipliers of all pairs
        self.w, self.b = base.zeros(), np.zeros(base.n_classes)
        self.q, self.upper = problem.even_weights(), math.inf
        self.fallback: Fallback | None = None
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
        weights = inner.newton.C * inner.slack
        table = np.zeros_like(self.table)
        table[self.S] = weights
        # of the point itself: a combination by the multipliers is as good at the very end only
        self.w = self.operator.combine(self.S, _coefficients(self._L, inner.newton.W))
        self.b, self.table, self.is_interruptible = inner.newton.b, table, True
        if self.soft is None and (self.fallback is None or inner.fallback is not None):
            self.fallback = Fallback(self.w, self.b)
        q = self.problem.dual_set.normalize(self.base.from_dual(table))
        upper = self.problem.constraints.dual_norm(q)
        if upper < self.upper:
            self.q, self.upper = q, upper
        self._choose()

    def _solve(self) -> JointMargin:
        """The working set's own problem, to the present goal."""
        base, S = self.base, self.S
        L = self._L = self._factor(S)
        labels = base.labels[S]
        pairs = LabelPairs(DenseOperator(L), labels, base.n_classes)
        constraints: Constraints = pairs
        if self.soft is not None:
            constraints = Slack(pairs, self.soft.root)
        fits_intercept = self.problem.dual_set.fits_intercept
        dual_set = dual_set_of(pairs, fits_intercept, self.problem.dual_set.loss)
        start = None
        if self.rounds > 1:
            b = self.b[:-1] - self.b[-1] if fits_intercept else np.zeros(0)
            W = lapack.dtrtrs(L, self.w[1][S], lower=1)[0]  # the same outputs on S
            start = Start(W, b, pairs.from_dual(self.table[S]))
        problem = Problem(constraints, dual_set)
        inner = JointMargin(problem, self.deadline, start, self.settings)
        while not inner.is_done and inner.gap > self.goal:
            inner.advance()
        return inner

    def _factor(self, S: np.ndarray) -> np.ndarray:
        """L with L Lᵀ = K_SS, nearly."""
        self.deadline.require(S.size**3 / 3.0)
        K = self.operator.block(S, S)
        ridge = self.settings.kernel_ridge * float(np.trace(K)) / S.size
        for _ in range(5):
            A = K.copy()
            A.flat[:: S.size + 1] += ridge
            L, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
            if info == 0:
                return np.ascontiguousarray(L)
            ridge *= 100.0
        raise np.linalg.LinAlgError("the kernel's matrix is not positive definite")

    def _choose(self) -> None:
        """The next working set: support, what is near it, and violators outside."""
        F = self.operator.apply(self.w) + self.b
        least = np.where(self.pairs.ones() > 0.0, self.pairs.margins(F), math.inf).min(axis=1)
        inside = np.zeros(least.size, bool)
        inside[self.S] = True
        most_rounds = self.settings.kernel_rounds
        below = np.flatnonzero(~inside & (least < 1.0 - 0.1 * self.tol))
        if below.size == 0:
            is_last = self.goal <= 0.25 * self.tol
            self.is_done = is_last or self.rounds >= most_rounds
            self.goal = 0.25 * self.tol
            return
        self.is_done = self.rounds >= most_rounds
        if below.size < 0.05 * self.S.size:
            self.goal = max(0.25 * self.tol, 0.1 * self.goal)
        most = max(self.settings.kernel_first, self.S.size)
        taken = below[np.argsort(least[below], kind="stable")[:most]]
        kept = self.S[self.table[self.S].any(axis=1) | (least[self.S] < self.settings.kernel_spare)]
        self.S = np.union1d(kept, taken)
        missing = np.setdiff1d(np.arange(self.base.n_classes), self.base.labels[self.S])
        if missing.size:  # every class keeps an example
            first = [int(np.flatnonzero(self.base.labels == c)[0]) for c in missing]
            self.S = np.union1d(self.S, first)

    def candidates(self) -> Candidates:
        """The classifier of the last round, with its scores on all examples."""
        scores = self.base.from_products(self.operator.apply(self.w))
        w = self.w
        if self.soft is not None:
            F = self.operator.apply(self.w) + self.b
            slack = self.base.from_dual(np.maximum(self.pairs.ones() - self.pairs.margins(F), 0.0))
            scores = scores - slack
            w = Slack.join(w, slack / self.soft.root)
        radius = self.problem.radius
        primals = [Primal(w, scores / radius)]
        return Candidates(primals, self.q, self.upper / radius, fallback=self.fallback)


def _coefficients(L: np.ndarray, W: np.ndarray) -> np.ndarray:
    """A with W = LᵀA."""
    return lapack.dtrtrs(L, W, lower=1, trans=1)[0]
