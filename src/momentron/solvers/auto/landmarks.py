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

from momentron.arithmetic.threads import WORTH_FILLING, in_threads, shares_of, sum_in_threads
from momentron.rows import KernelOperator
from momentron.rows.dense import matvec
from momentron.solvers.auto.forms import Direction, Movable, Point
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    back_solve,
    cholesky_of,
)
from momentron.solvers.auto.newton import Loss, minimise
from momentron.solvers.auto.working_rows import sample
from momentron.solvers.auto.working_sets import WorkingSets

TAME = (1e-30, 1e30)  # K_ii that single precision has room for
SMALL_PART = 1 << 21  # numbers that one thread works on at a time
RIDGE = 1e-4  # added to the landmarks' Gram matrix, in units of ‖a‖²
LEAST_REST = 0.02  # the least that the landmarks leave of a row, in the same units
STEPS, SLACK = 20, 0.05  # Newton steps for each loss; see `minimise`


class KernelPoint:
    """Weights α, which are a point's x, intercepts b and the margins p of all the rows of a kernel.

    Attributes
    ----------
    is_rough : bool
        Whether changes of margins are computed in single precision.
    is_settled : bool
        Whether no margin has been changed in single precision since they were last computed.
    """

    def __init__(self, sets: WorkingSets) -> None:
        assert sets.kernel is not None
        self.kernel, self.settings, self.deadline = sets.kernel, sets.settings, sets.deadline
        self.codes = sets.labels.codes
        self.y, self.Y = sets.signs(slice(None)), sets.dual_set.columns
        self.squares = self.kernel.kernel.diagonal()
        self.scale = max(float(self.squares.mean()), 1e-300)
        nothing = np.zeros(self.y.size)
        self.point = Point(nothing, np.zeros(self.Y.shape[1]), nothing)
        self.is_rough = self.kernel.is_rough
        self.is_settled = True

    @property
    def alpha(self) -> np.ndarray:
        return self.point.x

    @property
    def b(self) -> np.ndarray:
        return self.point.b

    @property
    def p(self) -> np.ndarray:
        return self.point.p

    def norm(self) -> float:
        return math.sqrt(max(float(self.alpha @ (self.p - self.Y @ self.b)), 0.0))

    def move_to(self, alpha: np.ndarray, b: np.ndarray) -> None:
        """Take these weights: a column for each that has changed."""
        change = alpha - self.alpha
        p = self.p + self.image(change) + self.Y @ (b - self.b)
        self.is_settled &= not (self.is_rough and change.any())
        self.point = Point(alpha, b, p)

    def settle(self) -> None:
        """Margins computed again, in double precision where they count.

        What single precision adds to them from here on is wrong by a share of the change alone.
        """
        self.is_settled = True
        alpha, b, _ = self.point
        weighed = np.flatnonzero(alpha)
        w = self.kernel.rough_combine(weighed, (self.y * alpha)[weighed])
        w = self.kernel.recomputed(w)
        least = self.y * w[1] + self.Y @ b - w[2]
        w = self.kernel.in_double(w, np.flatnonzero(least < 1.01))
        self.point = Point(alpha, b, self.y * w[1] + self.Y @ b)

    def classifier(self) -> np.ndarray:
        """w as the kernel has it."""
        scores = self.y * (self.p - self.Y @ self.b)
        return KernelOperator.classifier(self.y * self.alpha, scores)

    def image(self, alpha: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """What weights add to the margins; in single precision, where that is good enough."""
        rows = np.flatnonzero(alpha) if rows is None else rows
        if not rows.size:
            return np.zeros(alpha.size)
        a, kernel = (self.y * alpha)[rows], self.kernel
        return self.y * (
            kernel.rough_product(rows, a) if self.is_rough else kernel.along(rows, a)[2]
        )

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

        in_threads(project, shares_of(n, float(n * k), SMALL_PART, WORTH_FILLING))
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
        entries = float(index.size * self.A.shape[1])

        def square(part: slice) -> np.ndarray:
            rows = self.A[index[part]]
            rows *= roots[part, None]
            return rows.T @ rows

        return sum_in_threads(square, shares_of(index.size, entries, SMALL_PART, WORTH_FILLING))


class LandmarkInverse(NamedTuple):
    """(AAᵀ + diag(rest))⁻¹ by Woodbury's formula, with a factor of I + Aᵀ diag(rest)⁻¹ A."""

    A: np.ndarray
    rest: np.ndarray
    factor: np.ndarray

    def apply(self, v: np.ndarray) -> np.ndarray:
        x = v / self.rest
        s = back_solve(self.factor, (x.astype(np.float32) @ self.A).astype(np.float64))
        return x - matvec(self.A, s) / self.rest
