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
from momentron.solvers.auto.box_block import Block, open_gap
from momentron.solvers.auto.box_interior import Values
from momentron.solvers.auto.kernel_point import KernelPoint
from momentron.solvers.auto.landmarks import Landmarks
from momentron.solvers.auto.linear_algebra import parts_of
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_sets import WorkingSets


class KernelBlocks(KernelPoint):
    """The weights of a box, moved a block at a time.

    Rows that are equal, labels included, count as one with the sum of their prices: the system of
    a block would be singular, and they would all be between the bounds.
    """

    def __init__(
        self, sets: WorkingSets, prices: np.ndarray, settings: AutoSettings, tol: float
    ) -> None:
        super().__init__(sets, settings)
        self.prices, n = prices, prices.size
        # half of the memory is for blocks at most, the rest for columns
        self.most = max(2, math.isqrt(self.kernel.cache_bytes // 2 // settings.box_block_bytes))
        self.kernel.reserve(settings.box_block_bytes * min(n, self.most) ** 2)
        self.rounds = self.idle = 0
        self.best = math.inf
        self.twins = Twins.none(n)
        self._last_gram, self._place = np.empty((0, 0)), np.full(n, -1)
        price = float(prices.mean())
        self.first, self.last = (
            min(by_price * price, by_scale / self.scale)
            for by_price, by_scale in (settings.box_block_first, settings.box_last)
        )
        self.sigma = self.first
        least_tol, most_price = settings.box_block_rough
        is_tame = tol >= least_tol and float(prices.max()) * self.scale <= most_price
        self.is_rough = self.kernel.is_rough and is_tame

    def begin(self) -> None:
        """First weights by landmarks."""
        rng = np.random.default_rng(0)
        places = self.some_rows(rng)
        # one product brings their columns into memory, and tells equal rows by equal sums
        sums = self.kernel.along(places, rng.normal(size=places.size))[2]
        self.twins = Twins.of(sums, self.y, float(np.abs(sums).max()))
        model = Landmarks(self, places)
        self.start(*model.weights(model.hinges(self.prices)))

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
        settings = self.settings
        return self.idle > settings.box_block_idle or self.rounds >= settings.box_blocks

    def advance(self, goal: float) -> None:
        """Solve one block, to no less than the goal of P − D."""
        settings, groups = self.settings, self.twins
        self.rounds += 1
        alpha, prices = groups.sums(self.alpha), groups.sums(self.prices)
        gap = open_gap(alpha, self.p[groups.first], prices)
        index = self._choose(alpha, prices)
        rows = groups.first[index]
        self.deadline.require(2.0 * float(rows.size) ** 2)
        K = self._gram(rows)
        own, Y = alpha[index], self.Y[rows]
        outside = self.p[rows] - K @ own - Y @ self.b
        missing = Y.T @ own - self.Y.T @ self.alpha
        block = Block(K, outside, prices[index], Y, missing, self.deadline, settings)
        alpha[index], b = block.solve(
            own,
            self.b,
            self.sigma,
            self.last,
            max(settings.box_block_ahead * gap, 0.25 * goal),
        )
        self.move_to(groups.spread(alpha, self.prices), b)
        gap = open_gap(self.alpha, self.p, self.prices)
        is_better = gap < settings.interior_progress * self.best
        self.idle = 0 if is_better else self.idle + 1
        self.best = min(gap, self.best)
        # too stiff for what the rows outside have brought, it goes back
        growth = settings.box_block_growth if is_better else settings.box_block_growth**-2
        self.sigma = min(max(growth * self.sigma, self.first), self.last)

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
        room, more = self.settings.box_block_room
        most = max(self.settings.small, n_free)  # so many more at once, the worst ones
        size = max(int(room * n_free), n_free + min(int(more * n_wrong), most), self.settings.small)
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
