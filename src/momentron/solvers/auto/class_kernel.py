"""Many classes by the inner products of examples: alternating directions, and working sets.

Alternating directions (`splitting`) work on all inner products, which must be in memory: those of
a matrix with more features than rows, or of a kernel. Through a kernel they solve working sets of
examples. Where they are slow, exact solves go on with few active pairs, and Newton's method
(`multiclass`) with the rows of a factor L of K = LLᵀ with many.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from momentron.arithmetic.linear_algebra import add_to_diagonal, cholesky_of
from momentron.rows import DenseOperator, KernelOperator
from momentron.rows.dense import matvec
from momentron.solvers.auto.multiclass import ClassEngine, ClassMargin
from momentron.solvers.auto.splitting import ShiftedInverse, Splitting
from momentron.solvers.auto.working_rows import gram_of, sample
from momentron.solvers.problem import Problem
from momentron.solvers.solver import Candidates, Start

RHO = 0.5  # of alternating directions, in units of mean K_ii: others take as many steps or more
DENSE = 4.0  # active pairs per example from which Newton takes less time than exact solves
RIDGE = 1e-13  # what a factor of K adds to its diagonal, in units of mean K_ii
STEPS = 10  # between two looks
# Looks among which the gap halves, or others take over: Newton, or exact solves of few pairs.
PATIENCE, SHORT_PATIENCE = 8, 4
# Working sets: the gap to which one is solved while many examples outside are too near, and the
# last one as a share of the tolerance; the functional margin up to which an example stays; and the
# violators, as a share of the set, below which it is solved as far as asked.
ROUGH_GAP, GOAL = 0.01, 0.8
SPARE, FEW, ROUNDS = 1.05, 0.35, 40


class SplitMargin(ClassEngine):
    """Alternating directions, some steps at a time, until they are slow.

    A start is one of a kernel; an inverse is that of some of the examples, which come before the
    others. `coef`, of shape (n, k), are the examples' coefficients in the classifier.
    """

    def __init__(
        self,
        problem: Problem,
        *how: Any,
        start: Start | None = None,
        inverse: ShiftedInverse | None = None,
        **handover: Any,
    ) -> None:
        super().__init__(problem, *how, **handover)
        self.inverse = inverse
        kernel, self._matrix = problem.operator.as_kernel(), problem.operator.as_matrix()
        if self._matrix is not None:
            self.K = gram_of(self._matrix.working_rows(np.arange(self._matrix.shape[0])))
        else:
            assert kernel is not None and kernel.kernel.matrix is not None
            self.K = kernel.kernel.matrix
        self._combine(self.labels.zeros(self.K.shape[0]), np.zeros(self.labels.n_classes))
        self.remaining = self._rounds(start)

    def _combine(self, coef: np.ndarray, b: np.ndarray) -> None:
        self.coef, self.outputs = coef, matvec(self.K, coef)
        if self._matrix is not None:
            w = self._matrix.exact_adjoint(coef)
        else:
            w = KernelOperator.classifier(coef, self.outputs)
        self.go_to(w, b, self.outputs)

    def _rounds(self, start: Start | None) -> Iterator[None]:
        self.inverse = ShiftedInverse(self.K, RHO, self.inverse)
        labels, penalty = self.labels, self.problem.penalty
        C = np.ravel(penalty.stiffness * penalty.shares)[:: labels.per_example]
        splitting = Splitting(self.inverse, labels, C)
        if start is not None:
            # w may have had other examples, whose part in the outputs is gone
            b = labels.all_intercepts(start.b)
            self._combine(start.w[0], b)
            weights = self.weights_of(start, float(np.vdot(self.coef, self.outputs)))
            splitting.go_to(weights, self.outputs + b)
        patience = SHORT_PATIENCE if self.is_few else PATIENCE
        gaps: list[float] = []
        while len(gaps) <= patience or gaps[-1] <= 0.5 * gaps[-1 - patience]:
            yield
            splitting.advance(STEPS)
            self._combine(splitting.coefficients(), splitting.b)
            splitting.correct(self.outputs)
            self.weights = splitting.weights()
            gaps.append(self.present_gap())
            self.gap = min(gaps)
        self.inverse = None
        is_dense = np.count_nonzero(self.weights) > DENSE * labels.codes.size
        if (self.has_many or is_dense) and not self.is_few:
            yield from self._go_on(separates=gaps[-1] < 1.0)

    def _go_on(self, *, separates: bool) -> Iterator[None]:
        """Newton with the rows of a factor, from here if that separates."""
        ridge, start = RIDGE * float(self.K.diagonal().mean()), None
        L = np.tril(cholesky_of(lambda: add_to_diagonal(self.K.copy(order="F"), ridge)))
        L = np.ascontiguousarray(L)
        if separates:
            start = Start(L.T @ self.coef, self.labels.free_intercepts(self.point.b), self.q)
        problem = self.problem.some(np.arange(L.shape[0]), DenseOperator(L))
        newton = ClassMargin(problem, self.deadline, self.settings, start=start)
        while not newton.is_done:
            yield
            newton.advance()
            W, b, _ = newton.point
            self._combine(solve_triangular(L, W, trans="T", lower=True, check_finite=False), b)
            self.weights, self.gap = newton.weights, newton.gap
            self.offer(newton.q)


class ClassKernel(ClassEngine):
    """Through a kernel: rounds of a working set S of examples, solved, and a look at all of them.

    Its classifier is Σ φ(x_i) A_i, so that a look is a product with the columns of K where A is not
    zero.
    """

    def __init__(
        self, problem: Problem, tol: float, *how: Any, start: Start | None = None, **handover: Any
    ) -> None:
        super().__init__(problem, *how, **handover)
        kernel, labels = problem.operator.as_kernel(), self.labels
        assert kernel is not None
        self.operator, self.tol = kernel, tol
        self._take_point(problem.base.zeros(), np.zeros(labels.n_classes))
        S = sample(labels.codes, self.settings.kernel_first, np.random.default_rng(0), least=0.0)
        if start is not None:  # its support as well, with its classifier and weights
            self._take_point(start.w, labels.all_intercepts(start.b))
            self.weights = self.weights_of(start)
        self._first = np.unique(labels.codes, return_index=True)[1]  # every class keeps an example
        self.S = np.union1d(S, np.flatnonzero(self._by_example(self.weights).any(axis=1)))
        self.inner: SplitMargin | None = None  # of the present working set
        self.remaining = self._rounds()

    def _take_point(self, w: np.ndarray, b: np.ndarray) -> None:
        self.go_to(w, b, self.operator.apply(w))

    def _rounds(self) -> Iterator[None]:
        """Solve the working set, look at all, and take in what is too near."""
        inverse, goal, last_goal = None, ROUGH_GAP, GOAL * self.tol
        for _ in range(ROUNDS):
            inner = self.inner = self.inner or self._begin(inverse)
            while not inner.is_done and inner.gap > goal:
                inner.advance()
            self._take(inner)
            if inner.is_done and self.is_few:
                return
            many = FEW * self.S.size
            least, is_last = self._least_margins(many), goal <= last_goal or inner.is_done
            below = self._outside(least < 1.0 - 0.1 * self.tol)
            if below.size < many:  # keep all, and what is known of them
                kept, inverse, goal = self.S, inner.inverse, last_goal
            else:
                stays = least < SPARE
                stays[self._first] = True
                kept, inverse = self.S[stays[self.S]], None
            if below.size:
                most = max(self.settings.kernel_first, self.S.size)
                worst = below[np.argsort(least[below], kind="stable")[:most]]
                self.S, self.inner = np.append(kept, worst), None
            elif is_last:
                return
            yield

    def _begin(self, inverse: ShiftedInverse | None) -> SplitMargin:
        """The problem of a new working set, from the last answer; the inverse is that of its first
        examples.
        """
        S, start, (w, b, _) = self.S, None, self.point
        problem = self.problem.some(S, self.operator.some(S))
        if w.any():
            weights = self._by_example(self.weights)[S].ravel()
            # what left the working set had hardly a weight
            start = Start(w[:, S], self.labels.free_intercepts(b), weights)
        how: dict[str, Any] = {"inverse": inverse, "is_few": self.is_few}
        return SplitMargin(problem, self.deadline, self.settings, start=start, **how)

    def _take(self, inner: SplitMargin) -> None:
        """The working set's answer as that of all."""
        if self._has_all:
            w = self.problem.base.zeros()
            w[:, self.S] = inner.point.x
        else:
            # of the point itself: a combination by the multipliers is as good at the very end only
            w = self.operator.combine(self.S, inner.coef, rough=True)
        self._take_point(w, inner.point.b)
        self.weights = self._spread(inner.weights)
        if inner.upper < self.upper:  # the same with all examples, most of which have no weight
            self.q, self.upper = self._spread(inner.q), inner.upper

    @property
    def _has_all(self) -> bool:
        """Whether the working set is all the examples: then its answer is known of all of them."""
        return self.S.size == self.labels.codes.size

    def _outside(self, mask: np.ndarray) -> np.ndarray:
        """The examples of a mask that are not in the working set."""
        return np.setdiff1d(np.flatnonzero(mask), self.S)

    def _by_example(self, pairs: np.ndarray) -> np.ndarray:
        """Numbers of the pairs, one row per example."""
        return pairs.reshape(-1, self.labels.per_example)

    def _spread(self, weights: np.ndarray) -> np.ndarray:
        """Weights of the working set's pairs as those of all."""
        spread = np.zeros(self.problem.size)
        self._by_example(spread)[self.S] = self._by_example(weights)
        return spread

    def _least_margins(self, many: float) -> np.ndarray:
        """The least functional margin of every example.

        In double precision where they are near 1, unless single precision sees many violators.
        """
        w, b, p = self.point
        least, blur = self._by_example(p).min(axis=1), self.operator.single_errors(w)
        if blur is not None and self._outside(least < 1.0).size < many:
            near = np.flatnonzero(least - 2.0 * blur.max(axis=1) < 1.0)
            self._take_point(self.operator.in_double(w, near), b)
            least = self._by_example(self.point.p).min(axis=1)
        return np.asarray(least)

    def candidates(self) -> Candidates:
        """Those of the last round, or of one that was cut short."""
        if self._has_all and self.inner is not None:
            self._take(self.inner)
        return super().candidates()
