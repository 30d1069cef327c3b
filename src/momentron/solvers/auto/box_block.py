"""A block of weights in a box, the others fixed: Newton with multipliers on its Gram matrix.

    min ½ αᵀKα + (c − 1)ᵀα   s.t.  0 ≤ α ≤ C,  Yᵀα = missing,

with c what the weights outside add to the margins. As in `box_newton`, α⁺ = clip(α + σ(1 − p)); but
the first step at each σ is with the rows that α itself leaves between the bounds: as σ grows,
σ(1 − p) throws nearly all of them out, and a Newton step per few would bring them back.
"""

import numpy as np

from momentron.arithmetic.submatrices import submatrix
from momentron.solvers.auto.box_newton import Smoothed, search_smoothed
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Direction
from momentron.solvers.auto.gram_form import bordered_solve
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    cholesky_of,
    matvec,
    single_cholesky,
)
from momentron.solvers.auto.settings import AutoSettings


class Block:
    """Some rows and the point (u, b) with their margins p = Ku + Yb + c.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        The rows' Gram matrix, signed.
    outside : ndarray of shape (m,)
        c.
    prices : ndarray of shape (m,)
    Y : ndarray of shape (m, n_intercepts)
    missing : ndarray of shape (n_intercepts,)
    """

    def __init__(
        self,
        K: np.ndarray,
        outside: np.ndarray,
        prices: np.ndarray,
        Y: np.ndarray,
        missing: np.ndarray,
        deadline: Deadline,
        settings: AutoSettings,
    ) -> None:
        self.K, self.outside, self.prices, self.Y = K, outside, prices, Y
        self.missing, self.deadline, self.settings = missing, deadline, settings
        self.scale = max(float(K.diagonal().mean()), 1e-300)
        self._last: tuple[tuple[float, bytes], np.ndarray] | None = None

    def solve(
        self, alpha: np.ndarray, b: np.ndarray, sigma: float, last: float, goal: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """(α, b), better ones: σ grows up to `last` until the gap is at most the goal."""
        settings = self.settings
        self.u, self.b, self.p = alpha, b, self._margins(alpha, b)
        gap, value = open_gap(alpha, self.p, self.prices), self._value(alpha, self.p)
        best, least = (alpha, b), gap
        for _ in range(settings.box_block_updates):
            loss = Smoothed(self.prices, alpha, sigma)
            is_settled = self._minimise(loss)
            alpha = self._balanced(loss.weights(loss.at(self.p)))
            p = self._margins(alpha, self.b)
            before, gap = gap, open_gap(alpha, p, self.prices)
            new = self._value(alpha, p)
            if new > value or gap < least:
                best, value, least = (alpha, self.b), new, gap
            if gap <= goal or not is_settled or self.deadline.has_passed():
                break
            if gap > settings.box_slow * before:  # the same stiffness again would take long
                last = min(settings.box_growth * last, settings.box_last[1] / self.scale)
            sigma = min(settings.box_growth * sigma, last)
        return best

    def _balanced(self, alpha: np.ndarray) -> np.ndarray:
        """The same with Yᵀα as it must be, as far as the weights between the bounds allow."""
        if not self.missing.size:
            return alpha
        for _ in range(3):
            off = float(self.missing[0] - self.Y[:, 0] @ alpha)
            free = np.flatnonzero((alpha > 0.0) & (alpha < self.prices))
            if not free.size or abs(off) <= 1e-14 * float(alpha.sum()):
                break
            Y = self.Y[free, 0]
            alpha = alpha.copy()
            alpha[free] = np.clip(alpha[free] + off * Y / float(Y @ Y), 0.0, self.prices[free])
        return alpha

    def _margins(self, u: np.ndarray, b: np.ndarray) -> np.ndarray:
        return matvec(self.K, u) + self.Y @ b + self.outside

    def _value(self, alpha: np.ndarray, p: np.ndarray) -> float:
        """D, but for what does not change; with b the price of what α misses."""
        product = p - self.Y @ self.b - self.outside
        return float(alpha @ (1.0 - self.outside - 0.5 * product)) - float(
            np.abs(self.Y.T @ alpha - self.missing) @ np.abs(self.b)
        )

    # --- Newton --------------------------------------------------------------------------------

    def _minimise(self, loss: Smoothed) -> bool:
        """Newton on the hinge smoothed around α; whether the rows between have settled."""
        settings, prices = self.settings, self.prices
        between = loss.is_between(loss.centre)
        weights = loss.centre
        for step in range(settings.box_block_steps):
            z = loss.at(self.p)
            if step:
                between, weights = loss.is_between(z), loss.weights(z)
            size = int(np.count_nonzero(between))
            if self.deadline.has_passed(size**3 / 3.0 + 4.0 * prices.size**2):
                return False
            direction = self._direction(loss, weights, between)
            after = z - loss.sigma * direction.dp
            changed = int(np.count_nonzero(between != loss.is_between(after)))
            changed += int(np.count_nonzero((weights <= 0.0) & (after >= prices)))
            changed += int(np.count_nonzero((after <= 0.0) & (weights >= prices)))
            is_piece = changed == 0 and size > 0
            t = 1.0
            if not is_piece:
                t = search_smoothed(direction, z, loss, settings.search_steps)
            self.u = self.u + t * direction.dx
            self.b, self.p = self.b + t * direction.db, self.p + t * direction.dp
            if not is_piece:
                if changed <= settings.box_block_slack * size and abs(t - 1.0) < 0.2:
                    return True
                continue
            # a factor in single precision is used again for what it has left
            left = float(np.abs(loss.weights(loss.at(self.p)) - self.u).max())
            if left <= 1e-9 * float(prices.max()) or step + 1 == settings.box_block_steps:
                return True
        return False

    def _direction(self, loss: Smoothed, weights: np.ndarray, between: np.ndarray) -> Direction:
        """To the minimiser where the rows outside the band keep their weights."""
        index = np.flatnonzero(between)
        if not index.size:
            distance = np.abs(self.p - 1.0)
            index = np.sort(np.argpartition(distance, min(8, distance.size - 1))[:8])
        du = weights - self.u
        du[index] = 0.0
        rhs = 1.0 - self.p[index] + (loss.centre - self.u)[index] / loss.sigma
        if du.any():
            rhs -= matvec(self.K, du)[index]
        missing = self.missing - self.Y.T @ (self.u + du)
        factor = self._factor(index, float(loss.sigma))
        du[index], db = bordered_solve(factor, rhs, self.Y[index], missing)
        product = matvec(self.K, du)
        dp, slope = product + self.Y @ db, float(self.u @ product)
        direction = Direction.of(du, db, dp, slope, float(du @ product))
        # the weights outside have their share of Yᵀα: b is not quite free
        return direction._replace(slope=direction.slope + float(self.missing @ db))

    def _factor(self, index: np.ndarray, sigma: float) -> np.ndarray:
        """Of K + 1/σ on the named rows; in single precision where that ridge allows it."""
        key = (sigma, index.tobytes())
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None
        factor = None
        if (
            sigma * self.scale <= self.settings.box_single
            and index.size > self.settings.single_size
        ):
            M = submatrix(self.K, index, np.empty((index.size, index.size), np.float32)).T
            add_to_diagonal(M, 1.0 / sigma)
            factor = single_cholesky(M)
        if factor is None:
            factor = cholesky_of(lambda: self._shifted(index, 1.0 / sigma))
        self._last = key, factor
        return factor

    def _shifted(self, index: np.ndarray, ridge: float) -> np.ndarray:
        M = np.ascontiguousarray(submatrix(self.K, index)).T
        add_to_diagonal(M, ridge)
        return M


def open_gap(alpha: np.ndarray, p: np.ndarray, prices: np.ndarray) -> float:
    """Σ α max(0, p − 1) + (C − α) max(0, 1 − p), which is P − D."""
    above = p - 1.0
    return float(alpha @ np.maximum(above, 0.0)) + float((prices - alpha) @ np.maximum(-above, 0.0))
