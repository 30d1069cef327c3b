"""First weights in a box through a kernel, which is seen by the columns of some of its rows.

With the columns V of some rows L, the landmarks, K is nearly V K_LL⁻¹ Vᵀ + D, D the diagonal of
what is left. That is a soft margin with as many features as landmarks and a smoothed hinge, of
stiffness 1/D: all the rows count in it, and a Newton step costs n k² operations at most.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from momentron.arithmetic.threads import in_threads, shares_of
from momentron.solvers.auto.box_newton import Smoothed, search_smoothed
from momentron.solvers.auto.forms import Direction
from momentron.solvers.auto.kernel_point import KernelPoint
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    back_solve,
    cholesky_of,
    matvec,
)

TAME = (1e-30, 1e30)  # K_ii that single precision has room for
SMALL_PART = 1 << 21  # numbers that one thread works on at a time


class Landmarks:
    """The rows in the features of the landmarks, in single precision, intercepts beside them.

    Parameters
    ----------
    point : KernelPoint
        Whose rows.
    places : ndarray of shape (k,)
        Which rows the landmarks are.
    """

    def __init__(self, point: KernelPoint, places: np.ndarray) -> None:
        self.settings, self.deadline, self.scale = point.settings, point.deadline, point.scale
        settings, squares, Y = point.settings, point.squares, point.Y
        V = point.signed_block(places, np.arange(squares.size))
        k, n = V.shape

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
        self.A = np.ascontiguousarray(A.T)
        self.ridge = np.ones(A.shape[0])
        self.ridge[k:] = 0.0

    @staticmethod
    def suit(squares: np.ndarray) -> bool:
        """Whether single precision has the kernel's values, and their roots' inverses."""
        return TAME[0] < float(squares.mean()) and float(squares.max()) < TAME[1]

    def hinges(self, prices: np.ndarray) -> list[Smoothed]:
        """The plain hinge: a stiffness that grows to where the landmarks say nothing more."""
        settings, price = self.settings, float(prices.mean())
        sigma, last = (
            min(by_price * price, by_scale / self.scale)
            for by_price, by_scale in (settings.box_first, settings.box_block_first)
        )
        sigmas = [sigma]
        while sigmas[-1] < last:
            sigmas.append(min(settings.box_growth * sigmas[-1], last))
        centre = np.zeros(prices.size)
        return [Smoothed(prices, centre, np.minimum(s, 1.0 / self.rest)) for s in sigmas]

    def squared_hinge(self, softness: np.ndarray) -> list[Smoothed]:
        """The squared hinge, with 1/C of every row."""
        n = softness.size
        return [Smoothed(np.full(n, np.inf), np.zeros(n), 1.0 / (self.rest + softness))]

    def weights(self, losses: list[Smoothed]) -> tuple[np.ndarray, np.ndarray]:
        """(α, b) of the last of these losses, each begun from the one before."""
        settings, x, p = self.settings, np.zeros(self.ridge.size), np.zeros(self.rest.size)
        stage = 0
        for _ in range(settings.landmark_steps):
            loss = losses[stage]
            z = loss.at(p)
            between = loss.is_between(z)
            size = int(np.count_nonzero(between))
            if size == 0 or self.deadline.has_passed(float(size) * self.ridge.size**2):
                break
            direction = self._direction(loss, x, z, between)
            t = search_smoothed(direction, z, loss, settings.search_steps)
            x, p = x + t * direction.dx, p + t * direction.dp
            changed = int(np.count_nonzero(between != loss.is_between(loss.at(p))))
            if changed <= settings.box_slack * size:
                if stage + 1 == len(losses):
                    break
                stage += 1
        return losses[stage].weights(losses[stage].at(p)), x[self.ridge == 0.0]

    def inverse(self, index: np.ndarray, softness: np.ndarray) -> "LandmarkInverse":
        """Of K + diag(softness) on the named rows, as far as the landmarks tell."""
        rest = self.rest[index] + softness[index]
        M = self._hessian(index, (1.0 / np.sqrt(rest)).astype(np.float32))
        k = int(np.count_nonzero(self.ridge))
        inner = np.array(M[:k, :k], np.float64, order="F")
        add_to_diagonal(inner, 1.0)
        return LandmarkInverse(self.A[index, :k], rest, cholesky_of(lambda: inner))

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


class LandmarkInverse(NamedTuple):
    """(AAᵀ + diag(rest))⁻¹ by Woodbury's formula, with a factor of I + Aᵀ diag(rest)⁻¹ A."""

    A: np.ndarray
    rest: np.ndarray
    factor: np.ndarray

    def apply(self, v: np.ndarray) -> np.ndarray:
        x = v / self.rest
        s = back_solve(self.factor, (x.astype(np.float32) @ self.A).astype(np.float64))
        return x - matvec(self.A, s) / self.rest
