"""The plain hinge through a kernel: blocks of weights solved in turn, margins of all rows kept.

Most rows with weight are at C and stay there. A block is the rows between the bounds, those that
violate their side and the next ones; only its Gram matrix is made, and only of weights that change
are whole columns needed, of which the cache keeps what fits.
"""

import math

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.submatrices import sign_in_place
from momentron.rows.kernels import require_semidefinite
from momentron.solvers.auto.forms import Values
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.landmarks import KernelPoint, Landmarks
from momentron.solvers.auto.linear_algebra import parts_of
from momentron.solvers.auto.newton import PROGRESS, Loss, Schedule, box_multipliers
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_sets import WorkingSets

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
        self._last_gram, self._place = np.empty((0, 0)), np.full(n, -1)
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
        """The signed Gram matrix of these rows, with what is known of the last block's."""
        if self.kernel.is_rough:  # it keeps that itself
            K = self.kernel.square(rows)
            sign_in_place(K, self.y[rows])
            return K
        bound, last, at = self.kernel.kernel, self._last_gram, self._place[rows]
        old, new = np.flatnonzero(at >= 0), np.flatnonzero(at < 0)
        if new.size == rows.size:
            K = self.signed_block(rows, rows)
        else:
            K = np.empty((rows.size, rows.size))
            for part in parts_of(old.size, 1 + old.size // 256):
                require_time()
                K[old[part, None], old] = last.take(at[old[part]], axis=0).take(at[old], axis=1)
            K[new] = self.signed_block(rows[new], rows)
            K[old[:, None], new] = K[new[:, None], old].T
        if not bound.is_semidefinite:
            require_semidefinite(K, rows, bound.relative_error)
        self._place[:] = -1
        self._place[rows] = np.arange(rows.size)
        self._last_gram = K
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
