"""All the rows of a kernel at once: weights that move, margins that follow.

Newton's systems are K + 1/σ on the rows between the bounds, which may be nearly all of them. They
are solved by conjugate gradients, in single precision where available, and what landmarks know of
K is the preconditioner: with the columns V of some rows L, the landmarks, K is nearly
V K_LL⁻¹ Vᵀ + D, D the diagonal of what is left. That is also a soft margin with as many features as
landmarks and a smoothed loss, of stiffness 1/D, which gives first weights.

Near the end margins are computed again in double precision, and Newton goes on.
"""

import time

import numpy as np
from scipy.linalg import solve_triangular

from momentron.arithmetic.clock import require_time, time_left
from momentron.arithmetic.threads import WORTH_FILLING, in_threads, shares_of, sum_in_threads
from momentron.rows import KernelOperator
from momentron.rows.dense import matvec
from momentron.solvers.auto.forms import HARD, Bounds, Loss, Point, margin_of
from momentron.solvers.auto.gram_form import DualForm, balanced_parts, bordered_solve
from momentron.solvers.auto.linear_algebra import (
    ConjugateGradients,
    Map,
    add_to_diagonal,
    back_solve,
    cholesky_of,
)
from momentron.solvers.auto.newton import minimise
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.working_rows import SignedRows, sample
from momentron.solvers.auto.working_sets import WorkingSets

# Accuracy of the weights that the margins of a direction lead to, compared with its own: without a
# box, and in one. A residual is divided by ten until they have it, at most so often.
ACCURACY = (0.03, 0.3)
CLOSER, REPAIRS = 0.1, 8
MOST_ROWS = 0.85  # the share of the rows with weight from which double precision is faster
# To settle and certify: rows near the margin without weight, as a share of all, and how often the
# values of these and of the rows with weight are computed or read.
CLOSING = (0.3, 2.5)
FEWEST, LANDMARK_BYTES = 16, 32  # landmarks, and what each takes for a row
TAME = (1e-30, 1e30)  # K_ii that single precision has room for
SMALL_PART = 1 << 21  # numbers that one thread works on at a time
RIDGE = 1e-4  # added to the landmarks' Gram matrix, in units of ‖a‖²
LEAST_REST = 0.02  # the least that the landmarks leave of a row, in the same units
STEPS, SLACK = 20, 0.05  # Newton steps for each loss of the landmarks; see `minimise`


class KernelForm(DualForm):
    """All the rows of a kernel, of two classes: p = Ku + Yb, a point's x is u.

    From a gap of `goal` on margins are computed again.
    """

    has_factors = False

    def __init__(self, sets: WorkingSets, goal: float) -> None:
        assert sets.kernel is not None
        self.kernel, self.settings, self.goal = sets.kernel, sets.settings, goal
        squares = self.kernel.kernel.diagonal()
        self.y = sets.signs(slice(None))
        rows = sets.rows(np.arange(sets.size))
        super().__init__(rows, squares, float(squares.mean()), sets.deadline)
        self.is_explicit = False
        self.is_rough = self.kernel.is_rough  # whether margins change in single precision,
        self.is_settled = True  # and whether none has since they were last computed
        # half of the memory is for columns, the other for K of a system
        self.room = _room_of(self.kernel)
        self.kernel.reserve(min(self.room, 8 * self.m**2))
        most = min(self.settings.landmarks, self.m // 2, self.room // (LANDMARK_BYTES * self.m))
        places = sample(sets.labels.codes, most, np.random.default_rng(0))
        begun = time.perf_counter()
        self.model = Landmarks(self, places)
        self.value_seconds = (time.perf_counter() - begun) / (places.size * self.m)

    def begin(self, losses: list[Loss]) -> bool:
        """Go to the landmarks' weights; whether there is room, and time, for so many columns."""
        u, b = self.model.weights(losses)
        size = int(np.count_nonzero(u))
        # certificates are in double precision: with nearly all the rows that is less in all
        self.is_rough &= size < MOST_ROWS * self.m or 8 * size * self.m > self.room
        seconds = self._closing_seconds(size) + self.value_seconds * size * self.m
        has_room = self._entry_bytes * size * self.m <= self.room and seconds <= time_left()
        if not (has_room or losses[-1].is_boxed):  # in a box few are free: columns may be renewed
            return False
        self.point = self.at_weights(u, b)
        return True

    @property
    def _entry_bytes(self) -> int:
        return 4 if self.is_rough else 8

    def _closing_seconds(self, size: int) -> float:
        """Roughly the seconds to settle and to certify this many weights."""
        near, times = CLOSING
        return times * self.value_seconds * size * (0.5 * size + near * self.m)

    @staticmethod
    def suits(kernel: KernelOperator) -> bool:
        """Whether single precision has the kernel's values, and the memory room for landmarks."""
        squares, n = kernel.kernel.diagonal(), kernel.shape[0]
        is_tame = TAME[0] < float(squares.mean()) and float(squares.max()) < TAME[1]
        return is_tame and _room_of(kernel) >= FEWEST * LANDMARK_BYTES * n

    # --- the current point ---------------------------------------------------------------------

    def refresh(self) -> None:
        """Nothing: to compute all margins again takes long, and `bounds` does it in the end."""

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        u, b, p = self.point
        scores = self.y * (p - self.dual_set.spread(b))
        return KernelOperator.classifier(self.y * u, scores), b

    def image(self, u: np.ndarray) -> np.ndarray:
        """What weights add to the margins; in single precision, where that is good enough."""
        rows = np.flatnonzero(u)
        if not rows.size:
            return np.zeros(u.size)
        self.is_settled = not self.is_rough
        a, kernel = (self.y * u)[rows], self.kernel
        scores = kernel.rough_product(rows, a) if self.is_rough else kernel.along(rows, a)[2]
        return self.y * scores

    def _settle(self) -> None:
        """Margins computed again, in double precision where they count.

        What single precision adds to them from here on is wrong by a share of the change alone.
        """
        u, b, _ = self.point
        weighed = np.flatnonzero(u)
        w = self.kernel.combine(weighed, (self.y * u)[weighed], rough=True)
        w = self.kernel.recomputed(w)
        shift = self.dual_set.spread(b)
        w = self.kernel.in_double(w, np.flatnonzero(self.y * w[1] + shift - w[2] < 1.01))
        self.point = Point(u, b, self.y * w[1] + shift)
        self.is_settled = True

    def taken(self, loss: Loss, weights: np.ndarray) -> np.ndarray:
        """Go to the weights of the point that are in the box, and balanced: P and D are theirs.

        Those of the margins, σ(1 − p), have σ times the error of a direction.
        """
        u, b, p = self.point
        alpha = balanced(np.clip(u, 0.0, loss.upper), loss.upper, self.Y)
        self.point = Point(alpha, b, p + self.image(alpha - u))
        return alpha

    # --- bounds --------------------------------------------------------------------------------

    def bounds(self, alpha: np.ndarray, loss: Loss = HARD) -> Bounds:
        """Of the current point, whose weights α are; computed again where they are near."""
        bounds = self._bounds(loss)
        if bounds.gap <= self.goal and not self.is_settled:
            self._settle()
            bounds = self._bounds(loss)
        return bounds

    def _bounds(self, loss: Loss) -> Bounds:
        alpha, b, p = self.point
        norm = self.norm()
        # what is not balanced costs about so much, once it is
        off = float(np.abs(self.Y.T @ alpha) @ (1.0 + np.abs(b)))
        ridge = float(np.sum(alpha * alpha / loss.stiffness))
        dual = float(alpha.sum()) - 0.5 * (norm**2 + ridge) - off
        return Bounds(margin_of(loss.primal(norm, p)), margin_of(dual))

    def block(self, index: np.ndarray) -> np.ndarray:
        K = self.kernel.square(index)
        return K * self.y[index] * self.y[index][:, None]

    # --- systems -------------------------------------------------------------------------------

    def newton_flops(self, size: int) -> float:
        return 0.0

    def solved(
        self, loss: Loss, index: np.ndarray, rhs: np.ndarray, missing: np.ndarray, *, rough: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same by conjugate gradients, or by a factor where the rows are few.

        What is left of a row's equation changes its next weight by σ times as much.
        """
        require_time(self._closing_seconds(index.size))
        ridge = np.broadcast_to(1.0 / loss.stiffness, self.y.shape)[index]
        if index.size < self.settings.column_support and 16 * index.size**2 <= self.room:
            factor = cholesky_of(lambda: add_to_diagonal(self.block(index).T, ridge))
            return bordered_solve(factor, rhs, self.Y[index], missing)
        y, Y, K, accuracy = self.y[index], self.Y[index], None, ACCURACY[loss.is_boxed]
        if 2 * index.size <= self.m and self._entry_bytes * index.size**2 <= self.room:
            K = self.kernel.square(index, rough=self.is_rough)

        def multiply(v: np.ndarray) -> np.ndarray:
            require_time()
            if K is not None:
                return y * matvec(K, y * v) + ridge * v
            full = np.zeros(self.m)
            full[index] = v
            return self.image(full)[index] + ridge * v

        apply = self.model.inverse(index, ridge)
        held = np.column_stack([apply(column) for column in Y.T]) if Y.shape[1] else Y
        b = np.zeros(Y.shape[1])

        def precondition(r: np.ndarray) -> np.ndarray:
            """Among the weights with Yᵀz = 0."""
            if not b.size:
                return apply(r)
            z, b[:] = balanced_parts(np.column_stack([apply(r), held]), Y, np.zeros(b.size))
            return z

        first = np.zeros(index.size)
        if missing.any():
            first = held @ np.linalg.solve(Y.T @ held, missing)
            rhs = rhs - multiply(first)
        gradients = ConjugateGradients(multiply, rhs)

        db = np.zeros(b.size)
        for _ in range(REPAIRS):
            is_closer = gradients.run(precondition, CLOSER, self.settings.column_products)
            if not (is_closer or gradients.has_failed):
                raise FloatingPointError("conjugate gradients through a kernel do not converge")
            gradients.r = gradients.r - Y @ b  # single precision would not see what is left
            db += b
            left = np.linalg.norm(gradients.r / ridge)
            if not is_closer or left <= accuracy * np.linalg.norm(first + gradients.x):
                break
        return first + gradients.x, db


def balanced(alpha: np.ndarray, upper: float | np.ndarray, Y: np.ndarray) -> np.ndarray:
    """α with Yᵀα = 0 for two classes, as far as the weights between the bounds allow."""
    for _ in range(3 * Y.shape[1]):
        off, free = float(Y[:, 0] @ alpha), (alpha > 0.0) & (alpha < upper)
        if not free.any() or abs(off) <= 1e-14 * float(alpha.sum()):
            break
        alpha = np.clip(alpha - free * (off / np.count_nonzero(free)) * Y[:, 0], 0.0, upper)
    return alpha


def _room_of(kernel: KernelOperator) -> int:
    """Bytes for columns, which a matrix that was passed as such has already."""
    matrix = kernel.kernel.matrix
    return max(kernel.cache_bytes // 2, 0 if matrix is None else matrix.nbytes)


class Landmarks:
    """The rows in the features of the landmarks, rows of the form, in single precision."""

    def __init__(self, form: KernelForm, places: np.ndarray) -> None:
        self.form = form
        V = form.kernel.block(places, np.arange(form.m))

        def own() -> np.ndarray:
            return add_to_diagonal(np.asfortranarray(V[:, places]), RIDGE * form.scale)

        root = solve_triangular(
            cholesky_of(own), np.eye(places.size), lower=True, check_finite=False
        ).astype(np.float32)
        self.A = np.empty((form.m, places.size), np.float32)

        def project(part: slice) -> None:
            np.matmul(V[:, part].T.astype(np.float32), root.T, out=self.A[part])

        in_threads(project, shares_of(form.m, float(V.size), SMALL_PART, WORTH_FILLING))
        rest = form.squares - np.einsum("ij,ij->i", self.A, self.A)
        self.rest = np.maximum(rest, LEAST_REST * form.scale)

    def weights(self, losses: list[Loss]) -> tuple[np.ndarray, np.ndarray]:
        """(α, b) of the last of these losses, each begun from the one before.

        What the landmarks leave of a row is a ridge r: σ is σ/(1 + σr).
        """
        rows, alpha, x = self.form.rows, np.zeros(0), None
        for loss in losses:
            loss = loss._replace(shares=loss.shares / (1.0 + loss.stiffness * self.rest))
            signed = SignedRows(self.A, self.form.y, rows.dual_set, loss.shares)
            form = PrimalForm(signed, self.form.deadline)
            if x is not None:
                form.point = Point(x, form.point.b, form.margins(x, form.point.b))
            alpha = minimise(form, loss, max_steps=STEPS, slack=SLACK).weights
            x = form.point.x
        return alpha, form.answer()[1]

    def inverse(self, index: np.ndarray, ridge: np.ndarray) -> Map:
        """Of K + ridge on the named rows with their signs, as far as landmarks tell (Woodbury)."""
        A, rest, y = self.A[index], self.rest[index] + ridge, self.form.y[index]
        roots = (1.0 / np.sqrt(rest)).astype(np.float32)[:, None]

        def square(part: slice) -> np.ndarray:
            rows = A[part] * roots[part]
            return rows.T @ rows

        parts = shares_of(index.size, float(A.size), SMALL_PART, WORTH_FILLING)
        inner = sum_in_threads(square, parts).astype(np.float64, order="F")
        factor = cholesky_of(lambda: add_to_diagonal(inner.copy(order="F"), 1.0))

        def apply(v: np.ndarray) -> np.ndarray:
            x = y * v / rest
            s = back_solve(factor, (x.astype(np.float32) @ A).astype(np.float64))
            return y * (x - matvec(A, s) / rest)

        return apply
