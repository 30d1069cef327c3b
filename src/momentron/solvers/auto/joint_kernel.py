"""The joint margin of many classes through a kernel: working sets of examples, as explicit rows.

With a Cholesky factor K_SS = L Lᵀ the rows of L are the images of the examples S, up to rotation:
the engine for explicit rows solves the working set. Its classifier is Σ φ(x_i) A_i with A from the
multipliers, so that a look at all examples is a product with the columns of K where A is not zero.
"""

import math

import numpy as np
from scipy.linalg import lapack

from momentron.clock import require_time
from momentron.operators import DenseOperator, KernelOperator
from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.forms import Deadline
from momentron.solvers.auto.joint_margin import JointMargin, has_many_pairs
from momentron.solvers.auto.pair_table import PairTable
from momentron.solvers.base import Candidates, Fallback, Primal, Start

FIRST_SIZE = 1000  # examples of the first working set
ENTRY_BYTES = 24  # for each entry of K_SS: that, its factor, and what products need
ROUGH = 0.01  # the gap to which a working set is solved while many examples outside are too near
SPARE = 1.3  # functional margin up to which an example without weight stays in the working set
MOST_ROUNDS = 40
RIDGE = 1e-13  # added to the diagonal of K_SS, in units of its mean


class JointKernel:
    """Rounds of a working set solved and a look at all the examples."""

    def __init__(self, problem: Problem, tol: float, deadline: Deadline) -> None:
        constraints = problem.constraints
        self.problem, self.tol, self.deadline = problem, tol, deadline
        labels = constraints.labels
        assert isinstance(constraints.operator, KernelOperator)
        self.constraints, self.labels = constraints, labels
        self.operator = constraints.operator
        self.pairs = PairTable(labels.codes, labels.n_classes)
        self.S = selection.sample(labels.codes, FIRST_SIZE, np.random.default_rng(0), least=0.0)
        self.table = labels.zeros(labels.codes.size)  # the multipliers of all pairs
        self.w, self.b = constraints.base.zeros(), np.zeros(labels.n_classes)
        self.q, self.upper = problem.even_weights(), math.inf
        self.fallback: Fallback | None = None
        self.goal = ROUGH
        self.rounds = 0
        self.is_done = self.has_begun = False

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Whether pairs are many, and all examples would nearly fit a working set."""
        if not has_many_pairs(problem):
            return False
        operator = problem.operator
        if not isinstance(operator, KernelOperator) or not operator.kernel.is_semidefinite:
            return False
        return ENTRY_BYTES * operator.shape[0] ** 2 <= 3 * operator.cache_bytes

    def advance(self) -> None:
        """Solve the working set, look at all, and take in what is too near."""
        self.rounds += 1
        inner = self._solve()
        weights = inner.newton.C * inner.slack
        table = np.zeros_like(self.table)
        table[self.S] = weights
        # of the point itself: a combination by the multipliers is as good at the very end only
        self.w = self.operator.combine(self.S, _coefficients(self._L, inner.newton.W))
        self.b, self.table, self.has_begun = inner.newton.b, table, True
        if not self.constraints.is_soft and (self.fallback is None or inner.fallback is not None):
            self.fallback = Fallback(self.w, self.b)
        q = self.problem.dual_set.normalize(self.labels.from_dual(table))
        upper = self.constraints.dual_norm(q)
        if upper < self.upper:
            self.q, self.upper = q, upper
        self._choose()

    def _solve(self) -> JointMargin:
        """The working set's own problem, to the present goal."""
        S, labels = self.S, self.labels.some(self.S)
        L = self._L = self._factor(S)
        problem = Problem(
            self.constraints.like(DenseOperator(L), labels),
            labels.dual_set(self.problem.dual_set.loss),
        )
        start = None
        if self.rounds > 1:
            W = lapack.dtrtrs(L, self.w[1][S], lower=1)[0]  # the same outputs on S
            b = labels.free_intercepts(self.b)
            start = Start(W, b, labels.from_dual(self.table[S]))
        inner = JointMargin(problem, self.deadline, start)
        while not inner.is_done and inner.gap > self.goal:
            inner.advance()
        return inner

    def _factor(self, S: np.ndarray) -> np.ndarray:
        """L with L Lᵀ = K_SS, nearly."""
        require_time(S.size**3 / 3.0 / 2e10)
        K = self.operator.block(S, S)
        ridge = RIDGE * float(np.trace(K)) / S.size
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
        below = np.flatnonzero(~inside & (least < 1.0 - 0.1 * self.tol))
        if below.size == 0:
            is_last = self.goal <= 0.25 * self.tol
            self.is_done = is_last or self.rounds >= MOST_ROUNDS
            self.goal = 0.25 * self.tol
            return
        self.is_done = self.rounds >= MOST_ROUNDS
        if below.size < 0.05 * self.S.size:
            self.goal = max(0.25 * self.tol, 0.1 * self.goal)
        most = max(FIRST_SIZE, self.S.size)
        taken = below[np.argsort(least[below], kind="stable")[:most]]
        kept = self.S[self.table[self.S].any(axis=1) | (least[self.S] < SPARE)]
        self.S = np.union1d(kept, taken)
        codes = self.labels.codes
        missing = np.setdiff1d(np.arange(self.labels.n_classes), codes[self.S])
        if missing.size:  # every class keeps an example
            first = [int(np.flatnonzero(codes == c)[0]) for c in missing]
            self.S = np.union1d(self.S, first)

    def candidates(self) -> Candidates:
        """The classifier of the last round, with its scores on all examples."""
        scores = self.labels.scores(self.operator.apply(self.w))
        w = self.w
        if self.constraints.is_soft:
            F = self.operator.apply(w) + self.b
            table = np.maximum(self.pairs.ones() - self.pairs.margins(F), 0.0)
            slack = self.labels.from_dual(table)
            scores -= slack
            w = self.constraints.with_slack(w, slack)
        radius = self.problem.radius
        primals = [Primal(w, scores / radius)]
        return Candidates(primals, self.q, self.upper / radius, fallback=self.fallback)


def _coefficients(L: np.ndarray, W: np.ndarray) -> np.ndarray:
    """A with W = LᵀA."""
    return lapack.dtrtrs(L, W, lower=1, trans=1)[0]
