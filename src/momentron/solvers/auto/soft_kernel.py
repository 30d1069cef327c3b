"""Soft margins through a kernel, on all the rows at once: weights that move, margins that follow.

Squared hinge, where many rows have slack: Newton on all the rows; its systems, K + 1/C on the rows
with slack, are as large as the support and are solved by conjugate gradients. A product with K is
one with the columns that are kept, in single precision where available, and tells the margins of
all the rows besides; what landmarks know of K is the preconditioner. Near the end scores are
computed again in double precision, and Newton goes on.

Plain hinge: blocks of weights solved in turn. Most rows with weight are at C and stay there. A
block is the rows between the bounds, those that violate their side and the next ones; only its Gram
matrix is made, and only of weights that change are whole columns needed, of which the cache keeps
what fits.
"""

import math
import time

import numpy as np

from momentron.arithmetic.clock import require_time, time_left
from momentron.solvers.auto.forms import Direction, Movable, Point, Values
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.landmarks import KernelPoint, Landmarks
from momentron.solvers.auto.linear_algebra import ConjugateGradients
from momentron.solvers.auto.newton import (
    PROGRESS,
    Loss,
    Schedule,
    minimise,
    soft_multipliers,
)
from momentron.solvers.auto.working_sets import WorkingSets

STEPS = 40  # Newton steps in all
ONCE = 1e-5  # the gap for which one close step is enough
CLOSE = 0.01  # the share of the rows with slack that may come and go where a step counts as close,
ACCURACY = (1e-2, 1e-4)  # and a direction's accuracy far and close
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
# The gap from which single precision does for columns, and the largest price, in units of
# 1/mean‖a‖², up to which it does.
LEAST_GOAL, MOST_PRICE = 1.2e-7, 30.0


class Columns(KernelPoint, Movable):
    """All the weights of the squared hinge at once: systems by conjugate gradients."""

    def __init__(self, sets: WorkingSets, loss: Loss, tol: float) -> None:
        super().__init__(sets)
        self.loss, self.tol = loss, tol
        self.softness = np.broadcast_to(1.0 / loss.stiffness, self.y.shape)
        self.steps = 0
        # whether the last step, and the one before it, hardly changed which rows have slack
        self.is_close = self.was_close = False
        rows, begun = self.some_rows(np.random.default_rng(0)), time.perf_counter()
        self.model = Landmarks(self, rows)
        self.value_seconds = (time.perf_counter() - begun) / (rows.size * self.y.size)

    def begin(self, start: Point | None) -> bool:
        """Take the weights of a start, or those of landmarks; whether there is room for so many."""
        alpha, b = self.model.weights([self.loss]) if start is None else start[:2]
        size, fewest, left = int(np.count_nonzero(alpha)), 0, math.inf
        if start is None:
            fewest, left = self.settings.column_support, time_left()
        needed = self._closing_seconds(size) + self.value_seconds * self.y.size**2
        if not fewest <= size <= self._most_columns or left < needed:
            return False
        self.move_to(alpha, b)
        return True

    def advance(self) -> bool:
        """One Newton step; whether the weights are worth a look at all the rows."""
        if self.steps == STEPS:
            raise FloatingPointError("Newton's method through a kernel does not settle")
        self.steps, self.was_close = self.steps + 1, self.is_close
        self.is_close = minimise(self, self.loss, max_steps=1, slack=CLOSE).converged
        if time_left() < self._closing_seconds(int(np.count_nonzero(self.p < 1.0))):
            self.deadline.is_over = True
            self.point = self.point._replace(x=self.weights)
        elif not (self.is_close and (self.was_close or self.tol > ONCE)):
            return False  # what is not settled would take long to certify
        self.settle()
        return True

    def newton_flops(self, size: int) -> float:
        return 0.0

    def move(self, direction: Direction, t: float) -> None:
        super().move(direction, t)
        self.is_settled = not self.is_rough

    def _closing_seconds(self, size: int) -> float:
        """Roughly the seconds to settle and to certify this many weights."""
        near, times = CLOSING
        return times * self.value_seconds * size * (0.5 * size + near * self.y.size)

    @property
    def _most_columns(self) -> int:
        """How many fit into memory, a quarter of which is for the certificate's values."""
        if self.kernel.kernel.matrix is not None:
            return self.y.size
        return 3 * self.kernel.cache_bytes // 4 // ((4 if self.is_rough else 8) * self.y.size)

    @property
    def weights(self) -> np.ndarray:
        """λ = C max(0, 1 − p), which α is at the optimum."""
        return np.maximum(1.0 - self.p, 0.0) / self.softness

    @property
    def values(self) -> Values:
        """P, and D of λ: they differ by ½‖Σ (λ − α) a‖², and what Yᵀλ is off."""
        lam = self.weights
        primal = 0.5 * self.norm() ** 2 + 0.5 * float(lam @ (self.softness * lam))
        off = lam - self.alpha
        unbalanced = float(np.abs(self.Y.T @ lam) @ np.abs(self.b))
        return Values(primal, primal - 0.5 * max(float(off @ self.image(off)), 0.0) - unbalanced)

    def direction(
        self, loss: Loss, weights: np.ndarray, between: np.ndarray, *, rough: bool = False
    ) -> Direction:
        index, (u, _, p) = np.flatnonzero(between), self.point
        if index.size > self._most_columns:
            raise FloatingPointError("more weights than there is memory for their columns")
        off = weights - u
        off[index] = 0.0
        product = self.image(off)
        full = np.zeros(u.size)
        full[index] = (1.0 - p - self.softness * u - product)[index]
        Y, Q = self.Y[index], self.model.inverse(index, self.softness)
        held = np.column_stack([Q.apply(column) for column in Y.T]) if Y.shape[1] else Y
        inner = Y.T @ held  # of Q⁻¹, bordered by the intercepts' columns
        b = np.zeros(Y.shape[1])

        def multiply(v: np.ndarray) -> np.ndarray:
            """(K + softness) v on all the rows, of which only those with slack count."""
            require_time()
            return self.image(v, index) + self.softness * v

        def precondition(r: np.ndarray) -> np.ndarray:
            g, z = Q.apply(r[index]), np.zeros(r.size)
            if b.size:  # among the weights with Yᵀz = 0
                b[:] = np.linalg.solve(inner, Y.T @ g)
                g = g - held @ b
            z[index] = g
            return z

        missing = -(self.Y.T @ (u + off))
        first = np.zeros(u.size)
        if missing.any():
            first[index] = held @ np.linalg.solve(inner, missing)
        gradients = ConjugateGradients(multiply, full - multiply(first) if first.any() else full)
        if not gradients.run(precondition, ACCURACY[self.is_close], self.settings.column_products):
            raise FloatingPointError("conjugate gradients through a kernel do not converge")
        du = first + gradients.x
        product += full - gradients.r - self.softness * du
        du += off
        return Direction.of(du, b, product + self.Y @ b, float(u @ product), float(du @ product))


class KernelBlocks(KernelPoint):
    """The weights of a box, moved a block at a time.

    Rows that are equal, labels included, count as one with the sum of their prices: the system of
    a block would be singular, and they would all be between the bounds.
    """

    def __init__(self, sets: WorkingSets, loss: Loss, tol: float) -> None:
        super().__init__(sets)
        self.prices = prices = np.asarray(loss.upper)
        self.sets, self.tol, n = sets, tol, prices.size
        # half of the memory is for blocks at most, the rest for columns
        self.most = max(2, math.isqrt(self.kernel.cache_bytes // 2 // ENTRY_BYTES))
        self.kernel.reserve(ENTRY_BYTES * min(n, self.most) ** 2)
        self.rounds = self.idle = 0
        self.best = math.inf
        # the rows by groups of equal ones, where groups begin, and whose each row is
        self.order = self.starts = self.group = np.arange(n)
        self.first, self.last = self._stiffness(FIRST), self._stiffness(LAST)
        self.sigma = self.first
        is_tame = tol >= LEAST_GOAL and float(prices.max()) * self.scale <= MOST_PRICE
        self.is_rough = self.kernel.is_rough and is_tame

    def _stiffness(self, most: tuple[float, float]) -> float:
        return min(most[0] * float(self.prices.mean()), most[1] / self.scale)

    def begin(self, start: Point | None) -> bool:
        """Take the weights of a start, or those of landmarks."""
        if start is not None:
            self.move_to(*start[:2])
            return True
        rng = np.random.default_rng(0)
        places = self.some_rows(rng)
        # one product brings their columns into memory, and tells equal rows by equal sums
        self._group(self.kernel.along(places, rng.normal(size=places.size))[2])
        losses = [Loss(self._stiffness(LANDMARK_FIRST), self.prices)]
        while losses[-1].sigma < self.first:
            losses.append(Loss(min(GROWTH * losses[-1].sigma, self.first), self.prices))
        alpha, b = Landmarks(self, places).weights(losses)
        self.move_to(self._spread(np.bincount(self.group, alpha)), b)
        return True

    def _group(self, sums: np.ndarray) -> None:
        """Find rows whose sums are the same but for rounding."""
        self.order, unit = np.lexsort((sums, self.y)), float(np.abs(sums).max())
        sums, y = sums[self.order], self.y[self.order]
        is_new = np.ones(sums.size, bool)
        is_new[1:] = (np.diff(sums) > 1e-12 * unit) | (np.diff(y) != 0.0)
        is_new |= np.abs(sums) < 1e-4 * unit  # far from all landmarks, and not alike
        self.starts, self.group = np.flatnonzero(is_new), np.empty(sums.size, np.intp)
        self.group[self.order] = np.cumsum(is_new) - 1

    def _spread(self, totals: np.ndarray) -> np.ndarray:
        """Weights of the rows with these sums: the first of a group are filled up to C."""
        own, group = self.prices[self.order], self.group[self.order]
        before = np.cumsum(own) - own
        alpha = np.empty(own.size)
        alpha[self.order] = np.clip(totals[group] - (before - before[self.starts][group]), 0.0, own)
        is_full = totals >= np.bincount(self.group, self.prices)
        return np.where(is_full[self.group], self.prices, alpha)  # exactly there

    # --- blocks --------------------------------------------------------------------------------

    @property
    def values(self) -> Values:
        """P and D of the present weights."""
        square = self.norm() ** 2
        primal = 0.5 * square + float(self.prices @ np.maximum(1.0 - self.p, 0.0))
        # what is not balanced costs about so much, once it is
        off = float(np.abs(self.Y.T @ self.alpha) @ (1.0 + np.abs(self.b)))
        return Values(primal, float(self.alpha.sum()) - 0.5 * square - off)

    @property
    def weights(self) -> np.ndarray:
        return self.alpha

    def advance(self) -> bool:
        """Solve one block, for another look at all the rows."""
        if self.idle > IDLE or self.rounds >= self.settings.box_blocks:
            raise FloatingPointError("blocks of weights bring no progress")
        self.rounds += 1
        alpha, prices = (np.bincount(self.group, part) for part in (self.alpha, self.prices))
        leaders = self.order[self.starts]
        gap = open_gap(alpha, self.p[leaders], prices)
        index = self._choose(alpha, self.p[leaders], prices)
        index = index[np.argsort(leaders[index])]
        rows = leaders[index]
        self.deadline.require(2.0 * float(rows.size) ** 2)
        form = self.sets._gram_form(rows, self.sets.rows(rows))
        own, Y = alpha[index], self.Y[rows]
        form.outside = self.p[rows] - form.K @ own - Y @ self.b
        form.balance = Y.T @ own - self.Y.T @ self.alpha
        form.point = form.at_weights(own, self.b)
        goal = max(AHEAD * gap, 0.5 * self.tol * self.values.primal)
        alpha[index], b = self._solved(form, own, prices[index], goal)
        self.move_to(self._spread(alpha), b)
        gap = open_gap(self.alpha, self.p, self.prices)
        is_better = gap < PROGRESS * self.best
        self.idle = 0 if is_better else self.idle + 1
        self.best = min(gap, self.best)
        # too stiff for what the rows outside have brought, it goes back
        growth = GROWTH if is_better else GROWTH**-2
        self.sigma = min(max(growth * self.sigma, self.first), self.last)
        if (self.idle > 0 or self.values.gap <= self.tol) and not self.is_settled:
            self.settle()
        return True

    def _solved(
        self, form: GramForm, alpha: np.ndarray, prices: np.ndarray, goal: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """(α, b) of a block, the others fixed."""

        def measure(alpha: np.ndarray) -> float:
            alpha = balanced(form, alpha, prices)
            return open_gap(alpha, form.margins(alpha, form.point.b), prices)

        found, _ = soft_multipliers(
            form,
            Loss(self.sigma, prices, alpha),
            Schedule(GROWTH, self.last, UPDATES, self.settings.box_block_steps),
            measure,
            goal,
            slack=lambda gap: SLACK,
        )
        return balanced(form, found, prices), form.point.b

    def _choose(self, alpha: np.ndarray, p: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """The free rows, and those that are farthest on the wrong side or nearest to it."""
        above, is_full = p - 1.0, alpha >= prices
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
