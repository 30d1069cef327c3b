"""The soft margin with squared hinge through a kernel, where many rows have slack.

Newton on all the rows; its systems, K + 1/C on the rows with slack, are as large as the support and
are solved by conjugate gradients. A product with K is one with the columns that are kept, in single
precision where that is had, and tells the margins of all the rows besides; what landmarks know of K
is the preconditioner. Near the end scores are made anew in double precision, and Newton goes on.
"""

import time
from dataclasses import dataclass

import numpy as np

from momentron.arithmetic.clock import require_time, time_left
from momentron.solvers.auto.forms import Direction
from momentron.solvers.auto.landmarks import KernelPoint, Landmarks
from momentron.solvers.auto.linear_algebra import ConjugateGradients
from momentron.solvers.auto.newton import NEARLY_FULL, Loss, line_search
from momentron.solvers.auto.search import End, Phase, Search
from momentron.solvers.base import Start

STEPS = 40  # Newton steps in all
CLOSE = 0.01  # the share of the rows with slack that may come and go where a step counts as close,
ACCURACY = (1e-2, 1e-4)  # and a direction's accuracy far and close
GOAL = 0.25  # the gap at which they end, as a share of the tolerance
# To settle and certify: rows near the margin without weight, as a share of all, and how often the
# values of these and of the rows with weight are computed or read.
CLOSING = (0.3, 2.5)


class ColumnNewton(KernelPoint):
    """Weights of the squared hinge, moved by Newton steps through columns."""

    def __init__(self, search: Search) -> None:
        super().__init__(search.sets, search.settings)
        self.C, self.shares = search.C, search.sets.shares
        self.softness = np.broadcast_to(1.0 / (self.C * self.shares), self.y.shape)
        self.steps = 0
        self.changed = self.y.size  # rows whose slack came or went in the last step
        self.was_close = False  # whether the one before it has hardly changed them, too
        rows, begun = self.some_rows(np.random.default_rng(0)), time.perf_counter()
        self.model = Landmarks(self, rows)
        self.value_seconds = (time.perf_counter() - begun) / (rows.size * self.y.size)

    @staticmethod
    def suits(search: Search) -> bool:
        """Whether there is a kernel, and C leaves it a ridge worth having."""
        sets, settings = search.sets, search.settings
        if sets.kernel is None or sets.labels.is_paired or sets.size < settings.column_support:
            return False
        squares = sets.kernel.kernel.diagonal()
        if not Landmarks.suit(squares):
            return False
        return search.C * float(np.max(sets.shares * squares)) <= settings.column_stiffness

    def begin(self) -> bool:
        """Take the weights that landmarks give; whether columns of so many fit into memory."""
        alpha, b = self.model.weights([Loss(self.C, shares=self.shares)])
        size = int(np.count_nonzero(alpha))
        needed = self.closing_seconds(size) + self.value_seconds * self.y.size**2
        if not self.settings.column_support <= size <= self._most_columns or time_left() < needed:
            return False
        self.move_to(alpha, b)
        return True

    def closing_seconds(self, size: int) -> float:
        """What it takes to settle and to certify so many weights, roughly."""
        near, times = CLOSING
        return times * self.value_seconds * size * (0.5 * size + near * self.y.size)

    def close(self) -> None:
        """Take weights of the rows with slack alone, as they are, in double precision."""
        self.alpha = self.slack_weights
        self.settle()

    def resume(self, alpha: np.ndarray, b: np.ndarray) -> bool:
        """The same with weights that are known."""
        if np.count_nonzero(alpha) > self._most_columns:
            return False
        self.move_to(alpha, b)
        return True

    @property
    def _most_columns(self) -> int:
        """How many fit into memory, a quarter of which is for the certificate's values."""
        if self.kernel.kernel.matrix is not None:
            return self.y.size
        return 3 * self.kernel.cache_bytes // 4 // ((4 if self.is_rough else 8) * self.y.size)

    @property
    def is_close(self) -> bool:
        """Whether the last step has hardly changed which rows have slack."""
        return self.changed <= CLOSE * self.y.size

    @property
    def slack_weights(self) -> np.ndarray:
        """λ = C max(0, 1 − p), which α is at the optimum."""
        return np.maximum(1.0 - self.p, 0.0) / self.softness

    def gap(self) -> float:
        """P − D over P of α and λ, as far as floats tell: ½‖Σ (λ − α) a‖², and what Yᵀλ is off."""
        lam = self.slack_weights
        square = float((self.alpha * self.y) @ self.scores)
        primal = 0.5 * square + 0.5 * float(lam @ (self.softness * lam))
        off = lam - self.alpha
        rows = np.flatnonzero(off)
        product = self.y * self.product(rows, (self.y * off)[rows])
        unbalanced = float(np.abs(self.Y.T @ lam) @ np.abs(self.b))
        return (0.5 * max(float(off @ product), 0.0) + unbalanced) / max(primal, 1e-300)

    def step(self) -> bool:
        """One Newton step; False where conjugate gradients do not get there, or columns not fit."""
        self.steps += 1
        self.was_close = self.is_close
        r = 1.0 - self.p
        active = r > 0.0
        index = np.flatnonzero(active)
        fits = 0 < index.size <= self._most_columns
        direction = self._direction(index, r) if fits else None
        if direction is None:
            return False
        self.changed = int(np.count_nonzero(active != (r - direction.dp > 0.0)))
        t = 1.0
        if self.changed:
            loss = Loss(self.C, shares=self.shares)
            t = line_search(direction, loss.at(self.p), loss)
        if self.is_close and abs(t - 1.0) < NEARLY_FULL:
            t = 1.0  # a step cut short would leave weight on rows that have no slack
        self.scores = self.scores + t * (self.y * (direction.dp - self.Y @ direction.db))
        self.is_settled = False
        self.place(self.alpha + t * direction.dx, self.b + t * direction.db)
        return True

    def _direction(self, index: np.ndarray, r: np.ndarray) -> Direction | None:
        """To the minimiser of the quadratic piece on which only the named rows have slack."""
        settings = self.settings
        off = self.alpha.copy()
        off[index] = 0.0
        rhs = r[index] - self.softness[index] * self.alpha[index]
        product = np.zeros(self.y.size)
        if off.any():
            rows = np.flatnonzero(off)
            product -= self.y * self.product(rows, (self.y * off)[rows])
            rhs -= product[index]
        Y, Q = self.Y[index], self.model.inverse(index, self.softness)
        held = np.column_stack([Q.apply(column) for column in Y.T]) if Y.shape[1] else Y
        inner = Y.T @ held  # of Q⁻¹, bordered by the intercepts' columns
        b = np.zeros(Y.shape[1])

        def multiply(v: np.ndarray) -> np.ndarray:
            """(K + softness) v on all the rows, of which only those with slack count."""
            require_time()
            return self.y * self.product(index, (self.y * v)[index]) + self.softness * v

        def precondition(r: np.ndarray) -> np.ndarray:
            g, z = Q.apply(r[index]), np.zeros(r.size)
            if b.size:  # among the weights with Yᵀz = 0
                b[:] = np.linalg.solve(inner, Y.T @ g)
                g = g - held @ b
            z[index] = g
            return z

        full = np.zeros(self.y.size)
        full[index] = rhs
        missing = -(Y.T @ self.alpha[index])  # what is off goes, and takes its share with it
        first = np.zeros(self.y.size)
        if missing.any():
            first[index] = held @ np.linalg.solve(inner, missing)
        residual = full - multiply(first) if first.any() else full
        gradients = ConjugateGradients(multiply, residual)
        accuracy = ACCURACY[self.is_close]
        if not gradients.run(precondition, accuracy, settings.column_products):
            return None
        du = first + gradients.x
        product += full - gradients.r - self.softness * du
        du -= off
        dp = product + self.Y @ b
        return Direction.of(du, b, dp, float(self.alpha @ product), float(du @ product))


@dataclass(frozen=True)
class SolveByColumns(Phase):
    """Newton through columns, and what it leaves open for working sets (`otherwise`)."""

    otherwise: Phase
    start: Start | None = None
    newton: ColumnNewton | None = None

    def advance(self, search: Search) -> Phase:
        newton = self.newton
        try:
            if newton is None:
                newton = ColumnNewton(search)
                gets_on = self._begin(newton, search)
            else:
                gets_on = newton.steps < STEPS and newton.step()
        except (FloatingPointError, np.linalg.LinAlgError):
            gets_on = False
        if newton is None or not gets_on:
            return self.otherwise.advance(search)
        if time_left() < newton.closing_seconds(int(np.count_nonzero(newton.p < 1.0))):
            search.deadline.is_over = True
            newton.close()
        elif newton.was_close and newton.is_close:
            newton.settle()
        else:  # what is not settled would take long to certify
            return SolveByColumns(self.otherwise, newton=newton)
        search.set_answer(newton.classifier(), newton.b, newton.slack_weights, is_exact=False)
        if newton.gap() <= GOAL * search.tol:
            return End()
        return SolveByColumns(self.otherwise, newton=newton)

    def _begin(self, newton: ColumnNewton, search: Search) -> bool:
        start = self.start
        if start is None or not np.any(start.w):
            return newton.begin()
        assert search.sets.kernel is not None
        return newton.resume(newton.y * search.sets.kernel.coefficients(start.w), start.b)
