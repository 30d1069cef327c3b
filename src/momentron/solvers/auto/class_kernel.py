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
from momentron.rows.sparse import gram_of
from momentron.solvers.auto.multiclass import ClassEngine, ClassMargin
from momentron.solvers.auto.splitting import ShiftedInverse, Splitting
from momentron.solvers.auto.working_rows import sample
from momentron.solvers.solver import Start

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

    A start is one of a kernel. `inverse` may be that of the first examples at first.
    """

    inverse: ShiftedInverse | None = None

    def _combine(self, coef: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Take the classifier of these coefficients of the examples; returns its outputs."""
        outputs, matrix = matvec(self.K, coef), self.operator.as_matrix()
        if matrix is None:
            w = KernelOperator.classifier(coef, outputs)
        else:
            w = matrix.exact_adjoint(coef)
        self.go_to(w, b, outputs)
        return outputs

    def rounds(self) -> Iterator[None]:
        """Steps until they are slow, then Newton's where exact solves would take longer."""
        labels, penalty, start = self.labels, self.problem.penalty, self.start
        kernel, matrix = self.operator.as_kernel(), self.operator.as_matrix()
        self.K: Any = kernel and kernel.kernel.matrix
        if matrix is not None:
            self.K = gram_of(matrix.working_rows(np.arange(matrix.shape[0])))
        self.inverse = ShiftedInverse(self.K, RHO, self.inverse)
        C = np.ravel(penalty.stiffness * penalty.shares)[:: labels.per_example]
        splitting = Splitting(self.inverse, labels, C)
        if start is not None:
            # w may have had other examples, whose part in the outputs is gone
            b = labels.all_intercepts(start.b)
            outputs = self._combine(start.w[0], b)
            self.take_weights(start)
            splitting.go_to(self.weights, outputs + b)
        patience = SHORT_PATIENCE if self.is_few else PATIENCE
        gaps: list[float] = []
        while len(gaps) <= patience or gaps[-1] <= 0.5 * gaps[-1 - patience]:
            yield
            splitting.advance(STEPS)
            coef = splitting.coefficients()
            splitting.correct(self._combine(coef, splitting.b))
            self.weights = splitting.weights()
            gaps.append(self.present_gap())
            self.gap = min(gaps)
        self.inverse = None
        is_dense = np.count_nonzero(self.weights) > DENSE * labels.codes.size
        if (self.has_many or is_dense) and not self.is_few:
            yield from self._go_on(coef if gaps[-1] < 1.0 else None)

    def _go_on(self, coef: np.ndarray | None) -> Iterator[None]:
        """Newton with the rows of a factor, from coefficients that separate."""
        ridge, start = RIDGE * float(self.K.diagonal().mean()), None
        L = np.tril(cholesky_of(lambda: add_to_diagonal(self.K.copy(order="F"), ridge)))
        L = np.ascontiguousarray(L)
        if coef is not None:
            start = Start(L.T @ coef, self.labels.free_intercepts(self.point.b), self.q)
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

    def rounds(self) -> Iterator[None]:
        """Solve the working set, look at all, and take in what is too near."""
        labels, start = self.labels, self.start
        if start is not None:
            self.go_to(start.w, labels.all_intercepts(start.b), self.operator.apply(start.w))
            self.take_weights(start)
        S = sample(labels.codes, self.settings.kernel_first, np.random.default_rng(0), least=0.0)
        self.S = np.union1d(S, np.flatnonzero(self._by_example(self.weights).any(axis=1)))
        first = np.unique(labels.codes, return_index=True)[1]  # every class keeps an example
        inner = inverse = None
        goal, last_goal = ROUGH_GAP, GOAL * self.tol
        for _ in range(ROUNDS):
            inner = inner or self._begin(inverse)
            while not inner.is_done and inner.gap > goal:
                inner.advance()
                if self._has_all:  # a round that is cut short has something to show
                    self._take(inner)
            if not self._has_all:
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
                stays[first] = True
                kept, inverse = self.S[stays[self.S]], None
            if below.size:
                most = max(self.settings.kernel_first, self.S.size)
                worst = below[np.argsort(least[below], kind="stable")[:most]]
                self.S, inner = np.append(kept, worst), None
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
        how: dict[str, Any] = {"start": start, "is_few": self.is_few}
        inner = SplitMargin(problem, self.deadline, self.settings, **how)
        inner.inverse = inverse
        return inner

    def _take(self, inner: SplitMargin) -> None:
        """The working set's answer as that of all."""
        if self._has_all:
            w = self.problem.base.zeros()
            w[:, self.S] = inner.point.x
        else:
            # of the point itself: a combination by the multipliers is as good at the very end only
            w = self.operator.combine(self.S, inner.point.x[0], rough=True)
        self.go_to(w, inner.point.b, self.operator.apply(w))
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
            w = self.operator.in_double(w, near)
            self.go_to(w, b, self.operator.apply(w))
            least = self._by_example(self.point.p).min(axis=1)
        return np.asarray(least)
