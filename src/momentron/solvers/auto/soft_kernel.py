"""Soft margins through a kernel, on all the rows at once: weights that move, margins that follow.

Squared hinge, where many rows have slack: Newton on all the rows; its systems, K + 1/C on the rows
with slack, are as large as the support and are solved by conjugate gradients. A product with K is
one with the columns that are kept, in single precision where that is had, and tells the margins of
all the rows besides; what landmarks know of K is the preconditioner. Near the end scores are made
anew in double precision, and Newton goes on.

Plain hinge: blocks of weights solved in turn. Most rows with weight are at C and stay there. A
block is the rows between the bounds, those that violate their side and the next ones; only its Gram
matrix is made, and only of weights that change are whole columns needed, of which the cache keeps
what fits.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from momentron.arithmetic.clock import require_time, time_left
from momentron.arithmetic.submatrices import sign_in_place
from momentron.rows.kernels import require_semidefinite
from momentron.solvers.auto.forms import Direction, Values
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.landmarks import KernelPoint, Landmarks
from momentron.solvers.auto.linear_algebra import ConjugateGradients
from momentron.solvers.auto.newton import (
    NEARLY_FULL,
    PROGRESS,
    Loss,
    Schedule,
    box_multipliers,
    line_search,
)
from momentron.solvers.auto.search import End, Phase, Search
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import Start

STEPS = 40  # Newton steps in all
CLOSE = 0.01  # the share of the rows with slack that may come and go where a step counts as close,
ACCURACY = (1e-2, 1e-4)  # and a direction's accuracy far and close
GOAL = 0.25  # the gap at which they end, as a share of the tolerance
# To settle and certify: rows near the margin without weight, as a share of all, and how often the
# values of these and of the rows with weight are computed or read.
CLOSING = (0.3, 2.5)
# Of the plain hinge, whose weights move in blocks:
ENTRY_BYTES = 32  # for each entry of a block's Gram matrix: that, the last, and a factor
ROOM, MORE = 1.2, 0.6  # rows of a block as a multiple of the free ones, and of the violators
UPDATES, SLACK = 6, 0.01  # of the multipliers on a block; see `minimise`
GROWTH = 5.0  # of σ, on a block and from block to block. On the first block it begins at this
FIRST, LAST = (3.0, 30.0), (100.0, 1e5)  # share of C, or in units of 1/mean‖a‖²; and it ends there
LANDMARK_FIRST = (0.5, 10.0)  # and this is where it begins through landmarks
AHEAD = 0.03  # the gap to which a block is solved, as a share of that of all
IDLE = 10  # blocks without progress
# The tolerance from which single precision does for columns, and the largest price, in units of
# 1/mean‖a‖², up to which it does.
LEAST_TOL, MOST_PRICE = 5e-7, 30.0


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


class KernelBlocks(KernelPoint):
    """The weights of a box, moved a block at a time.

    Rows that are equal, labels included, count as one with the sum of their prices: the system of
    a block would be singular, and they would all be between the bounds.
    """

    def __init__(
        self, sets: WorkingSets, prices: np.ndarray, settings: AutoSettings, tol: float
    ) -> None:
        super().__init__(sets, settings)
        self.sets, self.prices, n = sets, prices, prices.size
        # half of the memory is for blocks at most, the rest for columns
        self.most = max(2, math.isqrt(self.kernel.cache_bytes // 2 // ENTRY_BYTES))
        self.kernel.reserve(ENTRY_BYTES * min(n, self.most) ** 2)
        self.rounds = self.idle = 0
        self.best = math.inf
        self.twins = Twins.none(n)
        self.first, self.last = self._stiffness(FIRST), self._stiffness(LAST)
        self.sigma = self.first
        is_tame = tol >= LEAST_TOL and float(prices.max()) * self.scale <= MOST_PRICE
        self.is_rough = self.kernel.is_rough and is_tame

    def _stiffness(self, most: tuple[float, float]) -> float:
        return min(most[0] * float(self.prices.mean()), most[1] / self.scale)

    def begin(self) -> None:
        """First weights by landmarks."""
        rng = np.random.default_rng(0)
        places = self.some_rows(rng)
        # one product brings their columns into memory, and tells equal rows by equal sums
        sums = self.kernel.along(places, rng.normal(size=places.size))[2]
        self.twins = Twins.of(sums, self.y, float(np.abs(sums).max()))
        losses = [Loss(self._stiffness(LANDMARK_FIRST), self.prices)]
        while losses[-1].sigma < self.first:
            losses.append(Loss(min(GROWTH * losses[-1].sigma, self.first), self.prices))
        self.start(*Landmarks(self, places).weights(losses))

    def start(self, alpha: np.ndarray, b: np.ndarray) -> None:
        """Go to these weights."""
        self.move_to(self.twins.spread(self.twins.sums(alpha), self.prices), b)

    # --- blocks --------------------------------------------------------------------------------

    @property
    def values(self) -> Values:
        """P and D of the present weights."""
        square = max(float((self.alpha * self.y) @ self.scores), 0.0)
        primal = 0.5 * square + float(self.prices @ np.maximum(1.0 - self.p, 0.0))
        # what is not balanced costs about so much, once it is
        off = float(np.abs(self.Y.T @ self.alpha) @ (1.0 + np.abs(self.b)))
        return Values(primal, float(self.alpha.sum()) - 0.5 * square - off)

    @property
    def is_stuck(self) -> bool:
        return self.idle > IDLE or self.rounds >= self.settings.box_blocks

    def advance(self, goal: float) -> None:
        """Solve one block, to no less than the goal of P − D."""
        groups = self.twins
        self.rounds += 1
        alpha, prices = groups.sums(self.alpha), groups.sums(self.prices)
        gap = open_gap(alpha, self.p[groups.first], prices)
        index = self._choose(alpha, prices)
        rows = groups.first[index]
        self.deadline.require(2.0 * float(rows.size) ** 2)
        K = self._gram(rows)
        own, Y = alpha[index], self.Y[rows]
        outside = self.p[rows] - K @ own - Y @ self.b
        balance = Y.T @ own - self.Y.T @ self.alpha
        form = GramForm(
            self.sets.rows(rows),
            K,
            self.deadline,
            is_explicit=False,
            outside=outside,
            balance=balance,
        )
        form.point = form.at_weights(own, self.b)
        goal = max(AHEAD * gap, 0.25 * goal)
        alpha[index], b = self._solved(form, own, prices[index], goal)
        self.move_to(groups.spread(alpha, self.prices), b)
        gap = open_gap(self.alpha, self.p, self.prices)
        is_better = gap < PROGRESS * self.best
        self.idle = 0 if is_better else self.idle + 1
        self.best = min(gap, self.best)
        # too stiff for what the rows outside have brought, it goes back
        growth = GROWTH if is_better else GROWTH**-2
        self.sigma = min(max(growth * self.sigma, self.first), self.last)

    def _solved(
        self, form: GramForm, alpha: np.ndarray, prices: np.ndarray, goal: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """(α, b) of a block, the others fixed."""

        def measure(alpha: np.ndarray) -> float:
            alpha = balanced(form, alpha, prices)
            return open_gap(alpha, form.margins(alpha, form.point.b), prices)

        found, _ = box_multipliers(
            form,
            Loss(self.sigma, prices, alpha),
            Schedule(self.sigma, GROWTH, self.last, UPDATES),
            measure,
            goal,
            max_steps=self.settings.box_block_steps,
            slack=lambda gap: SLACK,
        )
        return balanced(form, found, prices), form.point.b

    def _gram(self, rows: np.ndarray) -> np.ndarray:
        """The signed Gram matrix of these rows."""
        if self.kernel.is_rough:
            K = self.kernel.square(rows)
            sign_in_place(K, self.y[rows])
            return K
        K = self.signed_block(rows, rows)
        if not self.kernel.kernel.is_semidefinite:
            require_semidefinite(K, rows, self.kernel.kernel.relative_error)
        return K

    def _choose(self, alpha: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """The free rows, and those that are farthest on the wrong side or nearest to it."""
        above = self.p[self.twins.first] - 1.0
        is_full = alpha >= prices
        distance = np.where(is_full, -above, above)
        is_free = (alpha > 0.0) & ~is_full
        distance[is_free] = -np.inf
        n_free = int(np.count_nonzero(is_free))
        n_wrong = int(np.count_nonzero(distance < 0.0)) - n_free
        most = max(self.settings.small, n_free)  # so many more at once, the worst ones
        size = max(int(ROOM * n_free), n_free + min(int(MORE * n_wrong), most), self.settings.small)
        size = min(size, self.most, alpha.size)
        if size == alpha.size:
            return np.arange(size)
        return np.sort(np.argpartition(distance, size)[:size])


class Twins:
    """Rows in groups of equal ones: the first of each, and whose each row is."""

    def __init__(self, first: np.ndarray, group: np.ndarray, order: np.ndarray | None) -> None:
        self.first, self.group, self.order = first, group, order

    @classmethod
    def none(cls, n: int) -> "Twins":
        every = np.arange(n)
        return cls(every, every, None)

    @classmethod
    def of(cls, sums: np.ndarray, y: np.ndarray, unit: float) -> "Twins":
        """Groups by sums that are the same but for rounding."""
        order = np.lexsort((sums, y))
        is_new = np.ones(sums.size, bool)
        is_new[1:] = (np.diff(sums[order]) > 1e-12 * unit) | (np.diff(y[order]) != 0.0)
        is_new |= np.abs(sums[order]) < 1e-4 * unit  # far from all landmarks, and not alike
        if is_new.all():
            return cls.none(sums.size)
        group = np.empty(sums.size, np.intp)
        group[order] = np.cumsum(is_new) - 1
        return cls(order[is_new], group, order)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Of each group."""
        if self.order is None:
            return values.copy()
        return np.bincount(self.group, values, self.first.size)

    def spread(self, totals: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """Weights of the rows with these sums: the first of a group are filled up to C."""
        if self.order is None:
            return totals
        own, group = prices[self.order], self.group[self.order]
        before = np.cumsum(own) - own
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        before -= before[starts][group]
        alpha = np.empty(prices.size)
        alpha[self.order] = np.clip(totals[group] - before, 0.0, own)
        # a group that is full is so exactly, whatever the sums above round to
        full = (totals >= self.sums(prices))[self.group]
        alpha[full] = prices[full]
        return alpha


def open_gap(alpha: np.ndarray, p: np.ndarray, prices: np.ndarray) -> float:
    """Σ α max(0, p − 1) + (C − α) max(0, 1 − p), which is P − D."""
    above = p - 1.0
    return float(alpha @ np.maximum(above, 0.0)) + float((prices - alpha) @ np.maximum(-above, 0.0))


def balanced(form: GramForm, alpha: np.ndarray, prices: np.ndarray) -> np.ndarray:
    """α with Yᵀα as it must be, as far as the weights between the bounds allow."""
    if not form.Y.shape[1]:
        return alpha
    for _ in range(3):
        off = float(np.sum(form.balance) - form.Y[:, 0] @ alpha)
        free = np.flatnonzero((alpha > 0.0) & (alpha < prices))
        if not free.size or abs(off) <= 1e-14 * float(alpha.sum()):
            break
        Y = form.Y[free, 0]
        alpha = alpha.copy()
        alpha[free] = np.clip(alpha[free] + off * Y / float(Y @ Y), 0.0, prices[free])
    return alpha
