"""Newton's method for many classes, by conjugate gradients on the pairs; and witnesses.

    min ½‖W‖² + Σ_{i, j≠c} h(F_ic − F_ij + b_c − b_j),   F = XW,

with the smoothed losses h of `newton`, is piecewise quadratic in (W, b); `class_systems` has its
Hessian.

Multipliers of data that are not separable, brought to mass 1, approach weights q ≥ 0 with Zᵀq = 0
slowly. From nearby, q ← q∘max(0, 1 − Zv) does it in a few rounds, where v solves
(Zᵀ diag(q) Z) v = Zᵀq: then Zᵀq vanishes if Zv ≤ 1, and pairs beyond that are none of the witness.
Intercepts are columns of Z here.
"""

import math
from typing import Any

import numpy as np

from momentron.arithmetic.linear_algebra import ConjugateGradients
from momentron.solvers.auto.class_systems import ClassBlocks, Hessian, copy_of
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Direction, Hinge, Movable, Point
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.problem import Problem

ACCURACY, FINEST = 0.1, 1e-4  # of a Newton direction, and where that is too rough
SINGLE = 1e7  # the trace of a Hessian's block up to which single precision serves
PRODUCTS = 200  # for one direction; a preconditioner is given up after
STALE, FEW_PRODUCTS = 2.0, 6  # this multiple of what it needed when new, or of this many
# Of the search for a witness:
ROUNDS, IDLE = 12, 2  # of rescaling, and those in which ‖Zᵀq‖ may not halve
LEAST_MASS = 0.5  # what a round leaves of the weights, if a witness is near
FAINT = 1e-10  # a weight below this share of the largest is left out
STIFFNESS = 1e14  # the weight of least squares against the identity, over its mean trace
SMALL = 1e-15  # ‖Zᵀq‖ / (mass · mean‖x‖) at which rounding is all there is


class ClassForm(Movable):
    """All the pairs of some examples, and a point whose x is W, of shape (d, k).

    Dense rows are seen from their mean where there are intercepts.

    Attributes
    ----------
    accuracy : float
        The relative accuracy of the next direction.
    decrement : float
        √(gᵀH⁻¹g) of the last direction.
    """

    def __init__(
        self, problem: Problem, deadline: Deadline, settings: AutoSettings = SETTINGS
    ) -> None:
        operator, labels = problem.operator.as_matrix(), problem.labels
        assert operator is not None
        self.labels: Any = labels  # ManyClasses
        self.problem, self.operator = problem, operator
        self.deadline, self.settings = deadline, settings
        self.fits_intercept = problem.dual_set.fits_intercept
        self.scale = 2.0 * float(np.mean(operator.row_norms**2)) or 1.0
        n, d = operator.shape
        self.centre = np.zeros(d)
        if self.fits_intercept and not operator.is_sparse:
            self.centre = operator.exact_adjoint(np.full(n, 1.0 / n))
        self.go_to(labels.zeros(d), np.zeros(labels.n_classes))
        self.accuracy, self.decrement = ACCURACY, math.inf
        self._needs_double = False
        self._blocks: ClassBlocks | None = None
        self._usual_products = 0

    # --- the point -----------------------------------------------------------------------------

    def go_to(self, W: np.ndarray, b: np.ndarray) -> None:
        """Take another point: one pass."""
        self.point = Point(W, b, self._margins(W, b))

    def _margins(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        return -self.labels.scores(self.operator.scores_in_double(W) + b)

    def norm(self) -> float:
        return float(np.linalg.norm(self.point.x))

    def nearest_rows(self) -> np.ndarray:
        """None: W shrinks until a pair is below the margin."""
        return np.zeros(self.p.size, bool)

    # --- directions ----------------------------------------------------------------------------

    def direction(
        self, loss: Hinge, weights: np.ndarray, between: np.ndarray, *, rough: bool = False
    ) -> Direction:
        hessian = self.hessian(loss.shares * between, loss.sigma)
        gradient = self._gradient(weights)
        step = self.solved(hessian, -gradient, self.accuracy)
        self.decrement = math.sqrt(max(-float(np.vdot(gradient, step)), 0.0))
        return self.towards(step)

    def hessian(self, curvatures: np.ndarray, sigma: float) -> Hessian:
        """I + σ Σ c aaᵀ over the pairs, with copies of the rows unless there is no room for them;
        sparse ones always are copied.
        """
        operator, table = self.operator, self.labels.dual_of(curvatures)
        index = np.flatnonzero(table.any(axis=1))
        is_copied = operator.is_sparse or 16 * index.size * self.centre.size <= self.settings.memory
        if not is_copied:
            index = np.arange(table.shape[0])
        labels, active = self.labels.some(index), table[index]
        weights = np.abs(labels.mixed(active.astype(np.float64)))
        trace = sigma * float((operator.row_norms[index] ** 2 @ weights).max(initial=0.0))
        if not is_copied:
            return Hessian(operator, labels, active, sigma, self.centre)
        is_single = trace <= SINGLE and not self._needs_double
        rows = copy_of(operator, index, self.centre, np.float32 if is_single else np.float64)
        return Hessian(rows, labels, active, sigma)

    def pull(self, weights: np.ndarray) -> np.ndarray:
        """Zᵀq, the intercepts in the last row and as seen from the centre."""
        mixed = self.labels.mix(weights)
        image, sums = self.operator.exact_adjoint(mixed), mixed.sum(axis=0)
        image -= np.outer(self.centre, sums)
        return np.concatenate([image, sums[None]]) if self.fits_intercept else image

    def _gradient(self, weights: np.ndarray) -> np.ndarray:
        gradient = self.pull(weights)
        gradient[: self.centre.size] += self.point.x
        return gradient

    def towards(self, step: np.ndarray) -> Direction:
        """A step of W, and of the intercepts as seen from the centre, as a direction."""
        W, dW, db = self.point.x, step[: self.centre.size], np.zeros(step.shape[1])
        if self.fits_intercept:
            db = step[-1] - self.centre @ dW
        dp = self._margins(dW, db)
        return Direction.of(dW, db, dp, float(np.vdot(W, dW)), float(np.vdot(dW, dW)))

    def solved(self, hessian: Hessian, rhs: np.ndarray, accuracy: float) -> np.ndarray:
        """H⁻¹ rhs to this relative accuracy.

        A preconditioner is given up once it takes twice the products that it took when new.
        """
        is_new = self._blocks is None or self._blocks.C != hessian.C
        if self._blocks is None or is_new:
            self._blocks = None  # its memory first
            self._blocks = ClassBlocks(hessian, self.settings)
        gradients = ConjugateGradients(hessian.times, rhs)
        gradients.run(self._blocks.centred, accuracy, PRODUCTS, by_gain=True)
        if is_new:
            self._usual_products = max(gradients.products, FEW_PRODUCTS)
        if gradients.has_failed or gradients.products > STALE * self._usual_products:
            self._blocks = None
        # rounding: the next step is in double precision
        self._needs_double |= gradients.has_failed and hessian.m > 0
        return gradients.x


def balanced(form: ClassForm, weights: np.ndarray) -> np.ndarray:
    """Weights of mass 1 near the given ones, with Zᵀq nearly zero if there are such."""
    q = np.where(weights < FAINT * weights.max(), 0.0, weights / weights.sum())
    length = float(np.mean(form.operator.row_norms))
    idle, best, least = 0, q, math.inf
    for _ in range(ROUNDS):
        image = form.pull(q)
        size = float(np.linalg.norm(image))
        idle = 0 if size < 0.5 * least else idle + 1
        if size < least:
            best, least = q, size
        if not size > SMALL * length or idle > IDLE:
            break
        # v by least squares
        sigma = STIFFNESS * form.labels.n_classes / float(q @ form.problem.row_norms**2)
        v = form.solved(form.hessian(q, sigma), -sigma * image, 1e-7)
        q = q * np.maximum(1.0 - form.towards(v).dp, 0.0)
        mass = float(q.sum())
        if not mass > LEAST_MASS:
            break
        q /= mass
    return best
