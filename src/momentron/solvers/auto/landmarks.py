"""Weights of all the rows of a kernel, and the kernel as some of its rows show it.

With the columns V of some rows L, the landmarks, K is nearly V K_LL⁻¹ Vᵀ + D, D the diagonal of
what is left. That is a soft margin with as many features as landmarks and a smoothed loss, of
stiffness 1/D: all the rows count in it, and a Newton step costs n k² operations at most. It gives
first weights, and its matrix is a preconditioner.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from momentron.arithmetic.threads import in_threads, shares_of
from momentron.rows import KernelOperator
from momentron.solvers.auto.forms import Direction, Movable, Point
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    back_solve,
    cholesky_of,
    matvec,
)
from momentron.solvers.auto.newton import Loss, minimise
from momentron.solvers.auto.rows import sample
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_sets import WorkingSets

TAME = (1e-30, 1e30)  # K_ii that single precision has room for
SMALL_PART = 1 << 21  # numbers that one thread works on at a time
RIDGE = 1e-4  # added to the landmarks' Gram matrix, in units of ‖a‖²
LEAST_REST = 0.02  # the least that the landmarks leave of a row, in the same units
STEPS, SLACK = 20, 0.05  # Newton steps for each loss; see `minimise`


class KernelPoint:
    """Weights α, intercepts b, the scores Σ α_j y_j K_ij, and the margins p = y·scores + Yb.

    Attributes
    ----------
    is_rough : bool
        Whether changes of scores are computed in single precision.
    is_settled : bool
        Whether no score has been changed in single precision since they were last made anew.
    """

    def __init__(self, sets: WorkingSets, settings: AutoSettings) -> None:
        assert sets.kernel is not None
        self.kernel, self.settings, self.deadline = sets.kernel, settings, sets.deadline
        self.codes = sets.labels.codes
        self.y, self.Y = sets.signs(slice(None)), sets.dual_set.columns
        self.squares = self.kernel.kernel.diagonal()
        self.scale = max(float(self.squares.mean()), 1e-300)
        n = self.y.size
        self.alpha, self.b = np.zeros(n), np.zeros(self.Y.shape[1])
        self.scores, self.p = np.zeros(n), np.zeros(n)
        self.is_rough = self.kernel.is_rough
        self.is_settled = True

    def move_to(self, alpha: np.ndarray, b: np.ndarray) -> None:
        """Take these weights: a column for each that has changed."""
        changed = np.flatnonzero(alpha != self.alpha)
        if changed.size:
            by = self.y[changed] * (alpha - self.alpha)[changed]
            self.scores += self.product(changed, by)
            self.is_settled = not self.is_rough
        self.place(alpha, b)

    def place(self, alpha: np.ndarray, b: np.ndarray) -> None:
        """Take weights whose scores are there."""
        self.alpha, self.b = alpha, b
        self.p = self.y * self.scores + self.Y @ b

    def settle(self) -> None:
        """Scores anew, in double precision where they count.

        What single precision adds to them from here on is wrong by a share of the change alone.
        """
        self.is_settled = True
        weighed = np.flatnonzero(self.alpha)
        w = self.kernel.rough_combine(weighed, (self.y * self.alpha)[weighed])
        w = self.kernel.recomputed(w)
        least = self.y * w[1] + self.Y @ self.b - w[2]
        self.scores = self.kernel.with_exact_rows(w, np.flatnonzero(least < 1.01))[1]
        self.p = self.y * self.scores + self.Y @ self.b

    def classifier(self) -> np.ndarray:
        """w as the kernel has it."""
        return KernelOperator.classifier(self.y * self.alpha, self.scores)

    def product(self, rows: np.ndarray, a: np.ndarray) -> np.ndarray:
        """K[:, rows] @ a; in single precision, where that is had and good enough."""
        kernel = self.kernel
        return kernel.rough_product(rows, a) if self.is_rough else kernel.along(rows, a)[2]

    def signed_block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """y_i y_j K_ij in float64."""
        K = self.kernel.block(rows, columns)
        K *= self.y[columns]
        K *= self.y[rows][:, None]
        return K

    def some_rows(self, rng: np.random.Generator) -> np.ndarray:
        """A sample of the rows, no larger than memory has room for their columns."""
        n = self.y.size
        room = max(16, self.kernel.cache_bytes // 4 // (16 * n))
        return sample(self.codes, min(self.settings.landmarks, n // 2, room), rng)


class Landmarks(Movable):
    """The rows in the features of the landmarks, in single precision, intercepts beside them.

    Parameters
    ----------
    of : KernelPoint
        Whose rows.
    places : ndarray of shape (k,)
        Which rows the landmarks are.
    """

    def __init__(self, of: KernelPoint, places: np.ndarray) -> None:
        self.deadline, self.scale = of.deadline, of.scale
        squares, Y = of.squares, of.Y
        V = of.signed_block(places, np.arange(squares.size))
        k, n = V.shape

        def own() -> np.ndarray:
            M = np.asfortranarray(V[:, places])
            add_to_diagonal(M, RIDGE * self.scale)
            return M

        root = solve_triangular(cholesky_of(own), np.eye(k), lower=True, check_finite=False)
        root = root.astype(np.float32)
        A = np.empty((k + Y.shape[1], n), np.float32)

        def project(part: slice) -> None:
            np.matmul(root, V[:, part].astype(np.float32), out=A[:k, part])

        in_threads(project, shares_of(n, float(n * k), SMALL_PART))
        A[k:] = Y.T
        rest = squares - np.einsum("ij,ij->j", A[:k], A[:k])
        self.rest = np.maximum(rest, LEAST_REST * self.scale)
        self.A = np.ascontiguousarray(A.T)
        self.ridge = np.ones(A.shape[0])
        self.ridge[k:] = 0.0
        self.point = Point(np.zeros(self.ridge.size), np.zeros(0), np.zeros(n))

    @staticmethod
    def suit(squares: np.ndarray) -> bool:
        """Whether single precision has the kernel's values, and their roots' inverses."""
        return TAME[0] < float(squares.mean()) and float(squares.max()) < TAME[1]

    def weights(self, losses: list[Loss]) -> tuple[np.ndarray, np.ndarray]:
        """(α, b) of the last of these losses, each begun from the one before.

        What the landmarks leave of a row is a ridge r: σ is σ/(1 + σr).
        """
        alpha = np.zeros(self.rest.size)
        for loss in losses:
            loss = loss._replace(shares=loss.shares / (1.0 + loss.stiffness * self.rest))
            alpha = minimise(self, loss, max_steps=STEPS, slack=SLACK).weights
        return alpha, self.point.x[self.ridge == 0.0]

    def newton_flops(self, size: int) -> float:
        return float(size) * self.ridge.size**2

    def norm(self) -> float:
        x = self.point.x
        return math.sqrt(float((self.ridge * x) @ x))

    def direction(
        self, loss: Loss, weights: np.ndarray, between: np.ndarray, *, rough: bool = False
    ) -> Direction:
        A, index, x = self.A, np.flatnonzero(between), self.point.x
        roots = np.sqrt(np.broadcast_to(loss.stiffness, between.shape)[index])
        M = self._hessian(index, roots.astype(np.float32))
        H = M.astype(np.float64, order="F")
        add_to_diagonal(H, self.ridge + 1e-7 * max(float(M.diagonal().max()), 1.0))
        g = (A.T @ weights.astype(np.float32)).astype(np.float64) - self.ridge * x
        dx = back_solve(cholesky_of(lambda: H), g)
        slope, square = float((self.ridge * x) @ dx), float((self.ridge * dx) @ dx)
        if not math.isfinite(square):
            raise FloatingPointError("the first weights through a kernel are not finite")
        return Direction(dx, np.zeros(0), matvec(A, dx), slope, square)

    def inverse(self, index: np.ndarray, softness: np.ndarray) -> "LandmarkInverse":
        """Of K + diag(softness) on the named rows, as far as the landmarks tell."""
        rest = self.rest[index] + softness[index]
        M = self._hessian(index, (1.0 / np.sqrt(rest)).astype(np.float32))
        k = int(np.count_nonzero(self.ridge))
        inner = np.array(M[:k, :k], np.float64, order="F")
        add_to_diagonal(inner, 1.0)
        return LandmarkInverse(self.A[index, :k], rest, cholesky_of(lambda: inner))

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
