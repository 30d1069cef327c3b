"""Many classes by the inner products of examples: alternating directions, and working sets.

Alternating directions (`splitting`) work on all inner products, which must be in memory: those of
a matrix with more features than rows, or of a kernel. Through a kernel they solve working sets of
examples. Where they are slow, Newton's method (`multiclass`) goes on with the rows of a factor L of
K = LLᵀ; few pairs are left to exact solves.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from momentron.rows import DenseOperator, KernelOperator
from momentron.rows.dense import matvec
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.linear_algebra import add_to_diagonal, cholesky_of, copied
from momentron.solvers.auto.multiclass import ClassEngine, ClassMargin
from momentron.solvers.auto.search import Engine
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.splitting import ShiftedInverse, Splitting
from momentron.solvers.auto.working_rows import gram_of, sample
from momentron.solvers.problem import Problem
from momentron.solvers.solver import RunOptions, Start

TAME = (1e-30, 1e30)  # √K_ii with which products of kernel values, which nobody scales, are floats
RHO = 0.5  # of alternating directions, in units of mean K_ii: others take as many steps or more
STEPS = 10  # between two looks
# Looks among which the gap halves, or others take over: Newton, or exact solves of few pairs.
PATIENCE, SHORT_PATIENCE = 8, 4
RIDGE = 1e-13  # what a factor of K adds to its diagonal, in units of mean K_ii
# Working sets: the gap to which one is solved while many examples outside are too near, and the
# last one as a share of the tolerance; the functional margin up to which an example without weight
# stays; and the violators, as a share of the set, below which it is solved as far as asked.
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
        self._go_to(np.zeros(self.pairs.shape), np.zeros(self.pairs.n_classes))
        self.remaining = self._rounds(start)

    def _go_to(self, coef: np.ndarray, b: np.ndarray) -> None:
        self.coef, self.b, self.outputs = coef, b, matvec(self.K, coef)
        if self._matrix is not None:
            self.w = self._matrix.exact_adjoint(coef)
        else:
            self.w = KernelOperator.classifier(coef, self.outputs)

    def _rounds(self, start: Start | None) -> Iterator[None]:
        self.inverse = ShiftedInverse(self.K, RHO, self.inverse)
        fits_intercept, C = self.problem.dual_set.fits_intercept, self.C * np.asarray(self.shares)
        splitting = Splitting(self.inverse, self.pairs, fits_intercept, C)
        if start is not None:
            # w may have had other examples, whose part in the outputs is gone
            self._go_to(start.w[0], self.labels.all_intercepts(start.b))
            square = float(np.vdot(self.coef, self.outputs))
            splitting.go_to(self.table_of(start, square), self.outputs + self.b)
        patience = SHORT_PATIENCE if self.is_few else PATIENCE
        gaps: list[float] = []
        while len(gaps) <= patience or gaps[-1] <= 0.5 * gaps[-1 - patience]:
            yield
            splitting.advance(STEPS)
            self._go_to(splitting.coefficients(), splitting.b)
            splitting.correct(self.outputs)
            self.weights = splitting.weights()
            gaps.append(self.bounds().gap)
            self.gap = min(gaps)
        self.inverse = None
        if not self.is_few:
            yield from self._go_on(separates=gaps[-1] < 1.0)

    def _go_on(self, *, separates: bool) -> Iterator[None]:
        """Newton with the rows of a factor, from here if that separates."""
        ridge, start = RIDGE * float(self.K.diagonal().mean()), None
        L = np.tril(cholesky_of(lambda: add_to_diagonal(copied(self.K), ridge)))
        L = np.ascontiguousarray(L)
        if separates:
            start = Start(L.T @ self.coef, self.labels.free_intercepts(self.b), self.q)
        problem = self.problem.some(np.arange(L.shape[0]), DenseOperator(L))
        newton = ClassMargin(problem, self.deadline, self.settings, start=start)
        while not newton.is_done:
            yield
            newton.advance()
            W, b, _ = newton.form.point
            coef = solve_triangular(L, W, trans="T", lower=True, check_finite=False)
            self._go_to(coef, b)
            self.weights, self.gap = newton.weights, newton.gap
            if newton.upper < self.upper:
                self.q, self.upper = newton.q, newton.upper

    def point(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.w, self.b, self.pairs.margins(self.outputs + self.b, own=1.0)


class ClassKernel(ClassEngine):
    """Through a kernel: rounds of a working set of examples, solved, and a look at all of them.

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
        rng = np.random.default_rng(0)
        self.S = sample(labels.codes, self.settings.kernel_first, rng, least=0.0)
        self.w, self.b = self.problem.base.zeros(), np.zeros(labels.n_classes)
        self.goal, self.rounds = ROUGH_GAP, 0
        if start is not None:  # the sample and its support, with its classifier and weights
            self.weights = self.table_of(start)
            self.S = np.union1d(self.S, np.flatnonzero(self.weights.any(axis=1)))
            self.w, self.b = start.w, labels.all_intercepts(start.b)
            self.rounds = 1
        self.inner: SplitMargin | None = None  # of the present working set
        self.inverse: ShiftedInverse | None = None  # of its first examples

    @property
    def has_all(self) -> bool:
        """Whether the working set is all the examples: then its answer is known of all of them."""
        return self.S.size == self.labels.codes.size

    def advance(self) -> None:
        """Solve the working set, look at all, and take in what is too near."""
        self.rounds += 1
        inner = self.inner = self.inner or self._begin()
        while not inner.is_done and inner.gap > self.goal:
            inner.advance()
        self._take(inner)
        self.is_done = inner.is_done and self.is_few
        if not self.is_done:
            self._choose(inner)

    def _begin(self) -> SplitMargin:
        """The problem of a new working set, from the last one's answer."""
        S, start = self.S, None
        problem = self.problem.some(S, self.operator.some(S))
        labels = problem.labels
        if self.rounds > 1:
            w = self.w[:, S]  # what left the working set had hardly a weight
            start = Start(w, labels.free_intercepts(self.b), labels.from_dual(self.weights[S]))
        how: dict[str, Any] = {"inverse": self.inverse, "is_few": self.is_few}
        return SplitMargin(problem, self.deadline, self.settings, start=start, **how)

    def _take(self, inner: SplitMargin) -> None:
        """The working set's answer as that of all."""
        if self.has_all:
            self.w = self.problem.base.zeros()
            self.w[0, self.S], self.w[1, self.S] = inner.coef, inner.outputs
        else:
            # of the point itself: a combination by the multipliers is as good at the very end only
            self.w = self.operator.rough_combine(self.S, inner.coef)
        self.b, self.weights = inner.b, np.zeros_like(self.weights)
        self.weights[self.S] = inner.weights
        if inner.upper < self.upper:  # the same with all examples, most of which have no weight
            best = np.zeros_like(self.weights)
            best[self.S] = inner.labels.dual_of(inner.q)
            self.q, self.upper = self.labels.from_dual(best), inner.upper

    def _choose(self, inner: SplitMargin) -> None:
        """The next working set: support, what is near it, and violators outside."""
        codes, goal = self.labels.codes, GOAL * self.tol
        inside = np.zeros(codes.size, bool)
        inside[self.S] = True
        least = self._least_margins()
        many = FEW * self.S.size
        blur = self.operator.single_errors(self.w)
        if blur is not None and np.count_nonzero(~inside & (least < 1.0)) < many:
            near = np.flatnonzero(least - 2.0 * blur.max(axis=1) < 1.0)
            self.w = self.operator.in_double(self.w, near)
            least = self._least_margins()
        below = np.flatnonzero(~inside & (least < 1.0 - 0.1 * self.tol))
        self.is_done = self.rounds >= ROUNDS
        if below.size == 0:
            self.is_done |= self.goal <= goal or inner.is_done
            self.goal = goal
            return
        most = max(self.settings.kernel_first, self.S.size)
        taken = below[np.argsort(least[below], kind="stable")[:most]]
        if below.size < many:  # keep all, and what is known of them
            self.goal, kept, self.inverse = goal, self.S, inner.inverse
        else:
            has_weight = self.weights[self.S].any(axis=1)
            kept, self.inverse = self.S[has_weight | (least[self.S] < SPARE)], None
        S = np.concatenate([kept, taken])
        missing = np.setdiff1d(np.arange(self.labels.n_classes), codes[S])
        # every class keeps an example
        first = [int(np.flatnonzero(codes == c)[0]) for c in missing]
        self.S = np.concatenate([S, np.array(first, S.dtype)])
        self.inner = None

    def _least_margins(self) -> np.ndarray:
        """The least functional margin of every example."""
        outputs = self.operator.apply(self.w) + self.b
        return self.pairs.margins(outputs, own=math.inf).min(axis=1)

    def point(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """That of the last round, or of one that was cut short."""
        if self.has_all and self.inner is not None:
            self._take(self.inner)
        margins = self.pairs.margins(self.operator.apply(self.w) + self.b, own=1.0)
        return self.w, self.b, margins


def class_engine(
    problem: Problem,
    options: RunOptions,
    deadline: Deadline,
    settings: AutoSettings,
    exact: Callable[[Start | None], Engine],
) -> ClassEngine | None:
    """The engine of many classes for a problem, or None where exact solves are better.

    Pairs (example, wrong label) that are too many for exact solves on working sets of them have
    one; those of a kernel only if all examples nearly fit a working set. So do fewer pairs where
    alternating directions, which single precision ends, are likely to be faster; where they are
    not, exact solves take over.
    """
    n_pairs, tol, start = problem.size, options.tol, options.start
    if not problem.labels.is_paired or problem.penalty.has_box:
        return None
    is_rough = tol >= settings.split_finest
    most = settings.many_soft_pairs if problem.is_soft and is_rough else settings.many_pairs
    is_few = n_pairs < most
    if is_few and not (is_rough and n_pairs >= settings.many_split_pairs):
        return None
    matrix, kernel = problem.operator.as_matrix(), problem.operator.as_kernel()
    n_bytes = settings.kernel_entry_bytes * problem.operator.shape[0] ** 2
    given: dict[str, Any] = {"start": start, "exact": exact, "is_few": is_few}
    if matrix is not None:
        # A warm start is a classifier in features, which need not be a combination of the rows.
        is_wide = matrix.shape[0] < matrix.shape[1] and start is None
        if is_wide and n_bytes <= settings.memory:
            return SplitMargin(problem, deadline, settings, **given)
        return None if is_few else ClassMargin(problem, deadline, settings, **given)
    if kernel is None or not kernel.kernel.is_semidefinite or n_bytes > 3 * kernel.cache_bytes:
        return None
    if not is_few:
        given["exact"] = None
    elif not TAME[0] < kernel.radius < TAME[1]:
        return None
    return ClassKernel(problem, tol, deadline, settings, **given)
