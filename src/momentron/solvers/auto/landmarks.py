"""First weights in a box through a kernel, which is seen by the columns of some of its rows.

With the columns V of some rows L, the landmarks, K is nearly V K_LL⁻¹ Vᵀ + D, D the diagonal of
what is left. That is a soft margin with as many features as landmarks and a smoothed hinge, of
stiffness 1/D: all the rows count in it, and a Newton step costs n k² operations at most.
"""

import math

import numpy as np
from scipy.linalg import solve_triangular

from momentron.solvers.auto.box_newton import Smoothed, search_smoothed
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Direction
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    back_solve,
    cholesky_of,
    matvec,
)
from momentron.solvers.auto.settings import AutoSettings
from momentron.threads import in_threads, shares_of

SMALL_PART = 1 << 21  # numbers that one thread works on at a time


class Landmarks:
    """The rows in the features of the landmarks, in single precision, intercepts beside them.

    Parameters
    ----------
    V : ndarray of shape (k, n)
        The landmarks' columns of the signed Gram matrix.
    places : ndarray of shape (k,)
        Which rows the landmarks are.
    squares : ndarray of shape (n,)
        The diagonal.
    Y : ndarray of shape (n, n_intercepts)
    """

    def __init__(
        self,
        V: np.ndarray,
        places: np.ndarray,
        squares: np.ndarray,
        Y: np.ndarray,
        settings: AutoSettings,
    ) -> None:
        k, n = V.shape
        self.scale = max(float(squares.mean()), 1e-300)

        def own() -> np.ndarray:
            M = np.asfortranarray(V[:, places])
            add_to_diagonal(M, settings.landmark_ridge * self.scale)
            return M

        root = solve_triangular(cholesky_of(own), np.eye(k), lower=True, check_finite=False)
        root = root.astype(np.float32)
        A = np.empty((k + Y.shape[1], n), np.float32)

        def project(part: slice) -> None:
            np.matmul(root, V[:, part].astype(np.float32), out=A[:k, part])

        in_threads(project, shares_of(n, float(n * k), SMALL_PART))
        A[k:] = Y.T
        rest = squares - np.einsum("ij,ij->j", A[:k], A[:k])
        self.rest = np.maximum(rest, settings.landmark_rest * self.scale)
        self.A, self.settings = np.ascontiguousarray(A.T), settings
        self.ridge = np.ones(A.shape[0])
        self.ridge[k:] = 0.0

    def weights(self, prices: np.ndarray, deadline: Deadline) -> tuple[np.ndarray, np.ndarray]:
        """(α, b) of a soft margin whose stiffness grows to where the landmarks say nothing more."""
        settings, x, p = self.settings, np.zeros(self.ridge.size), np.zeros(prices.size)
        price = float(prices.mean())
        by_price, by_scale = settings.box_first
        sigma = min(by_price * price, by_scale / self.scale)
        by_price, by_scale = settings.box_block_first
        last = min(by_price * price, by_scale / self.scale)
        loss = self._smoothed(prices, sigma)
        for _ in range(settings.landmark_steps):
            z = loss.at(p)
            between = loss.is_between(z)
            size = int(np.count_nonzero(between))
            if size == 0 or deadline.has_passed(float(size) * self.ridge.size**2):
                break
            direction = self._direction(loss, x, z, between)
            t = search_smoothed(direction, z, loss, settings.search_steps)
            x, p = x + t * direction.dx, p + t * direction.dp
            changed = int(np.count_nonzero(between != loss.is_between(loss.at(p))))
            if changed <= settings.box_slack * size:
                if sigma >= last:
                    break
                sigma = min(settings.box_growth * sigma, last)
                loss = self._smoothed(prices, sigma)
        b = x[self.ridge == 0.0]
        return loss.weights(loss.at(p)), b

    def _smoothed(self, prices: np.ndarray, sigma: float) -> Smoothed:
        return Smoothed(prices, np.zeros(prices.size), np.minimum(sigma, 1.0 / self.rest))

    def _direction(
        self, loss: Smoothed, x: np.ndarray, z: np.ndarray, between: np.ndarray
    ) -> Direction:
        assert isinstance(loss.sigma, np.ndarray)
        A, index = self.A, np.flatnonzero(between)
        M = self._hessian(index, np.sqrt(loss.sigma[index]).astype(np.float32))
        top = max(float(M.diagonal().max()), 1.0)
        H = M.astype(np.float64, order="F")
        add_to_diagonal(H, self.ridge + 1e-7 * top)
        g = (A.T @ loss.weights(z).astype(np.float32)).astype(np.float64) - self.ridge * x
        dx = back_solve(cholesky_of(lambda: H), g)
        dp = matvec(A, dx)
        slope, square = float((self.ridge * x) @ dx), float((self.ridge * dx) @ dx)
        if not math.isfinite(square):
            raise FloatingPointError("the first weights through a kernel are not finite")
        return Direction(dx, x[:0], dp, slope, square)

    def _hessian(self, index: np.ndarray, roots: np.ndarray) -> np.ndarray:
        """Σ r_i² a_i a_iᵀ over the named rows."""
        parts = shares_of(index.size, float(index.size * self.A.shape[1]), SMALL_PART)
        products: list[np.ndarray] = [np.empty(0)] * len(parts)

        def multiply(i: int) -> None:
            rows = self.A[index[parts[i]]]
            rows *= roots[parts[i], None]
            products[i] = rows.T @ rows

        in_threads(multiply, range(len(parts)))
        return sum(products[1:], start=products[0])
