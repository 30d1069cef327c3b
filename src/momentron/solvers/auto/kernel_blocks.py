"""The plain hinge through a kernel: blocks of weights solved in turn, margins of all rows kept.

Most rows with weight are at C and stay there. A block is the rows between the bounds, those that
violate their side and the next ones; only its Gram matrix is made, and only of weights that change
are whole columns needed, of which the cache keeps what fits.
"""

import math

import numpy as np

from momentron.clock import require_time
from momentron.kernels import require_semidefinite
from momentron.solvers.auto import selection
from momentron.solvers.auto.box_block import Block, open_gap
from momentron.solvers.auto.box_interior import Values
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.landmarks import Landmarks
from momentron.solvers.auto.linear_algebra import parts_of
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.submatrices import sign_in_place
from momentron.threads import one_thread


class KernelBlocks:
    """Weights α of all the rows, intercepts b, and the scores Σ α_j y_j K_ij.

    Rows that are equal, labels included, count as one with the sum of their prices: the system of
    a block would be singular, and they would all be between the bounds.
    """

    def __init__(
        self,
        sets: WorkingSets,
        prices: np.ndarray,
        deadline: Deadline,
        settings: AutoSettings,
        tol: float,
    ) -> None:
        assert sets.kernel is not None
        self.kernel, self.prices = sets.kernel, prices
        self.deadline, self.settings = deadline, settings
        self.y, self.Y = sets.signs(slice(None)), sets.dual_set.columns
        n = prices.size
        self.squares = self.kernel.kernel.diagonal()
        self.scale = max(float(self.squares.mean()), 1e-300)
        # half of the memory is for blocks at most, the rest for columns
        self.most = max(2, math.isqrt(self.kernel.cache_bytes // 2 // settings.box_block_bytes))
        self.kernel.reserve(settings.box_block_bytes * min(n, self.most) ** 2)
        self.alpha, self.b = np.zeros(n), np.zeros(self.Y.shape[1])
        self.scores = np.zeros(n)
        self.p = np.zeros(n)
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
        self.is_settled = True  # whether no score has been changed in single precision

    # --- beginning -----------------------------------------------------------------------------

    def begin(self, codes: np.ndarray) -> None:
        """First weights by landmarks."""
        settings, kernel, n = self.settings, self.kernel, self.prices.size
        room = max(16, kernel.cache_bytes // 4 // (16 * n))
        rng = np.random.default_rng(0)
        places = selection.sample(codes, min(settings.landmarks, n // 2, room), rng)
        # one product brings their columns into memory, and tells equal rows by equal sums
        sums = kernel.along(places, rng.normal(size=places.size))[2]
        self.twins = Twins.of(sums, self.y, float(np.abs(sums).max()))
        V = self._signed(places, np.arange(n))
        with one_thread():
            model = Landmarks(V, places, self.squares, self.Y, settings)
            del V
            alpha, b = model.weights(self.prices, self.deadline)
        self.start(alpha, b)

    def start(self, alpha: np.ndarray, b: np.ndarray) -> None:
        """Go to these weights."""
        self.b = b
        self._change(self.twins.spread(self.twins.sums(alpha), self.prices))

    def _change(self, alpha: np.ndarray) -> None:
        changed = np.flatnonzero(alpha != self.alpha)
        if changed.size:
            by = self.y[changed] * (alpha - self.alpha)[changed]
            self.scores += self._product(changed, by)
            self.is_settled = not self.is_rough
        self.alpha = alpha
        self.p = self.y * self.scores + self.Y @ self.b

    def settle(self) -> None:
        """Scores anew, in double precision where they count.

        What single precision adds to them from here on is wrong by a share of the change alone.
        """
        self.is_settled = True
        weighed = np.flatnonzero(self.alpha)
        w = self.kernel.rough_combine(weighed, (self.y * self.alpha)[weighed])
        w = self.kernel.recomputed(w)
        least = self.y * w[1] + self.Y @ self.b - w[2]
        self.scores = self.kernel.partly_exact(w, np.flatnonzero(least < 1.01))[1]
        self.p = self.y * self.scores + self.Y @ self.b

    def _product(self, rows: np.ndarray, a: np.ndarray) -> np.ndarray:
        """K[:, rows] @ a; in single precision, where that is had and good enough."""
        kernel = self.kernel
        return kernel.rough_product(rows, a) if self.is_rough else kernel.along(rows, a)[2]

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
        with one_thread():
            alpha[index], self.b = block.solve(
                own,
                self.b,
                self.sigma,
                self.last,
                max(settings.box_block_ahead * gap, 0.25 * goal),
            )
        self._change(groups.spread(alpha, self.prices))
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
            K = self._signed(rows, rows)
        else:
            K = np.empty((rows.size, rows.size))
            for part in parts_of(old.size, 1 + old.size // 256):
                require_time()
                K[old[part, None], old] = last.take(at[old[part]], axis=0).take(at[old], axis=1)
            K[new] = self._signed(rows[new], rows)
            K[old[:, None], new] = K[new[:, None], old].T
        if not bound.is_semidefinite:
            require_semidefinite(K, rows, bound.relative_error)
        self._place[:] = -1
        self._place[rows] = np.arange(rows.size)
        self._last_gram = K
        return K

    def _signed(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        K = self.kernel.block(rows, columns)
        K *= self.y[columns]
        K *= self.y[rows][:, None]
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
