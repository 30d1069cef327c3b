"""A problem: rows, labels, a dual set and a penalty make Z, without ever forming it.

It has the verbs of solvers, and those of the loop, the certificate and the result.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.rounding import UNIT_ROUNDOFF
from momentron.certificate import Certificate, admitted, certify, certify_margin, read_only
from momentron.certificate.bounds import (
    LONG,
    SHORT,
    deciding_rows_in_double,
    recomputed,
    scores_in_double,
    to_safe_length,
)
from momentron.certificate.exact import takes_whole_numbers
from momentron.certificate.hinge import box_weights, certify_hinge, objective_bound
from momentron.dual.combination import Combination
from momentron.dual.dualsets import DualSet
from momentron.dual.labels import Labels, as_labels
from momentron.dual.losses import Loss, as_loss
from momentron.dual.penalty import HARD, Penalty
from momentron.rows import Operator
from momentron.rows.kernels.choice import KernelChoice
from momentron.rows.operator import read_only_copy, shallow_copy
from momentron.rows.validation import TrainingData, operator_of
from momentron.solvers.solver import COLD, Evaluation, MarginProblem, Start

__all__ = ["KernelChoice", "Problem"]

PADDED = 1.0 + 12.0 * UNIT_ROUNDOFF


class Problem(MarginProblem):
    """A problem that certifies what solvers propose: X, its labels, a dual set and a penalty.

    The rows are in memory; problems whose rows are read in blocks are subclasses.

    R is max‖z‖, or the smallest radius that serves the dual set in the problem that solvers with
    such steps see. Every product counts as one pass over the data.

    A classifier of a soft margin is a flat array: w and ξ/√r, or w and b for the hinge. The hinge
    is solved by methods that say so alone: their proposals have one score, the margin 1/√(2P) in
    units of R that they claim, and the verbs of first-order methods are not for it.

    Parameters
    ----------
    operator : Operator
        X.
    labels : Labels
    dual_set : DualSet
    penalty : Penalty
        What slack costs; none for a hard margin.

    Attributes
    ----------
    is_soft : bool
        Whether C is finite.
    longest : float
        max‖z‖, rounded up, in the units of the operator: no weights give a longer Zᵀq.
    resolution : float
        The least upper bound that rounding lets weights prove, in units of R.
    row_norms : ndarray of shape (size,)
        Upper bounds of ‖z‖, in the units of the operator.
    weights : ndarray of shape (n,), optional
        The factors of C, by which the rows count for the fallback as well; None where all are 1.
    """

    def __init__(
        self,
        operator: Operator,
        labels: Labels,
        dual_set: DualSet,
        *,
        penalty: Penalty = HARD,
        classes: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        self.operator, self.labels, self.dual_set = operator, labels, dual_set
        self.penalty, self.is_soft, self.exponent = penalty, penalty.is_soft, operator.exponent
        self.size, self.n_rows, self.rho = labels.size, operator.shape[0], dual_set.rho
        self.resolution = operator.resolution
        self.weights = None if weights is None else read_only(weights)
        self.classes = read_only(np.array([-1, 1]) if classes is None else classes)
        self.w_shape = self._shape = operator.zeros(*labels.trailing).shape
        self._n_more = labels.n_outputs if penalty.has_box else labels.size  # numbers after w
        if self.is_soft:
            self.w_shape = (math.prod(self._shape) + self._n_more,)
        row_norms = labels.row_norms(operator.row_norms)
        if penalty.has_ridge:
            # a bound on √(‖z‖² + r): three more roundings, and those of √r
            row_norms = np.hypot(row_norms, penalty.root) * PADDED
        self.row_norms = read_only(row_norms)
        self.longest = float(row_norms.max(initial=0.0))
        self.radius = self.longest or 1.0

    @classmethod
    @standard_arithmetic()
    def from_data(
        cls,
        X: Any,
        y: Any,
        *,
        loss: str | Loss = "exponential",
        kernel: KernelChoice | None = None,
        **options: Any,
    ) -> "Problem":
        """Validate X and y, and state the problem they pose; the options are those of `of`."""
        data = TrainingData.from_arrays(X, y, is_finite=kernel is not None)
        return cls.of(data, loss=as_loss(loss), kernel=kernel, **options)

    @classmethod
    def of(
        cls,
        data: TrainingData,
        *,
        loss: Loss,
        kernel: KernelChoice | None,
        fit_intercept: bool = True,
        C: float = math.inf,
        penalty: str = "squared_hinge",
        rows: Operator | None = None,
    ) -> "Problem":
        """The problem that validated rows and labels pose; `rows` are the same as an operator."""
        if rows is None:
            rows = operator_of(data.X) if kernel is None else kernel.operator(data.X)
        labels, cost = as_labels(data.classes.size, fit_intercept, data.codes), HARD
        if math.isfinite(C):
            cost = Penalty.of(penalty, C, data.weights, rows.exponent, labels)
        return cls(
            rows,
            labels,
            labels.dual_set(loss),
            penalty=cost,
            classes=data.classes,
            weights=data.weights,
        )

    def some(self, examples: np.ndarray, operator: Operator) -> "Problem":
        """The problem of some of the examples, whose rows the operator has."""
        labels = self.labels.some(examples)
        penalty = self.penalty.some(examples, labels.per_example)
        return Problem(operator, labels, labels.dual_set(self.dual_set.loss), penalty=penalty)

    @property
    def base(self) -> "Problem":
        """The hard margin of the same rows."""
        # a problem that kept itself would keep the rows until Python looks for cycles
        return self._hard if self.is_soft else self

    @cached_property
    def _hard(self) -> "Problem":
        return Problem(self.operator, self.labels, self.dual_set)

    # --- for the loop --------------------------------------------------------------------------

    def for_solver(self, *, tight: bool = False) -> "Problem":
        """The problem as solvers see it: with counts of its own, and arrays that are read-only.

        Tight, it is in units of `tight_radius`: shorter rows mean longer steps.
        """
        problem = shallow_copy(self)
        problem.__dict__.pop("_hard", None)  # whose operator is another one
        problem.operator = read_only_copy(self.operator)
        problem.labels = shallow_copy(self.labels)
        problem.dual_set = shallow_copy(self.dual_set)
        if tight:
            problem.radius = self.tight_radius
        return problem

    @cached_property
    def tight_radius(self) -> float:
        """The smallest R for which the theorems hold, max‖z‖, with intercepts seen from the mean.

        Zᵀq is then the same for X and for X less any point, since the classes' weights cancel.
        """
        if not self.dual_set.fits_intercept:
            return self.longest or 1.0
        radius = self.operator.centred_radius() * self.labels.radius_factor
        if self.penalty.has_ridge:
            radius = float(np.hypot(radius, np.max(self.penalty.root))) * PADDED
        return radius or 1.0

    def closing_seconds(self) -> float:
        """Roughly what the last certificate and the classifier take: four passes, some vectors."""
        matrix = self.operator.as_matrix()
        entries = 20 * self.n_rows if matrix is None or matrix.is_sparse else matrix.X.size
        outputs = max(1.0, 0.1 * self.classes.size)  # many vectors are faster for each
        return 4.0 * outputs * entries / 3e9 + 300.0 * self.size / 1e9

    @property
    def passes(self) -> int:
        """Passes over the data so far."""
        return self.operator.passes

    # --- classifiers ---------------------------------------------------------------------------

    def joined(self, w: np.ndarray, more: Any) -> np.ndarray:
        """The flat array of w and ξ/√r, or of w and b for the hinge; of a hard margin w alone."""
        if not self.is_soft:
            return w
        more = more if np.ndim(more) else np.full(self._n_more, more)
        return np.concatenate([w.ravel(), more])

    def parts(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two parts of such an array, as views; b is zero where there are no intercepts.

        A classifier of a hard margin, or one without slack, has no second part.
        """
        if not self.is_soft or w.shape == self._shape:
            return w, np.empty(0)
        cut = w.size - self._n_more
        head, more = w[:cut], w[cut:]
        if self.penalty.has_box and not self.dual_set.fits_intercept:
            more = np.zeros(self._n_more)
        return head.reshape(self._shape), more

    def norm(self, w: np.ndarray) -> float:
        head, more = self.parts(w)
        norm = self.operator.norm(head)
        if self.penalty.has_ridge:
            norm = float(np.hypot(norm, np.sqrt(np.einsum("i,i->", more, more))))
        return norm

    def scores(self, w: np.ndarray) -> np.ndarray:
        head, more = self.parts(w / self.radius)
        scores = self.labels.scores(self.operator.apply(head))
        return scores - self.penalty.root * more if self.penalty.has_ridge else scores

    def start(self, given: Start | None = None) -> Evaluation:
        if given is None:
            scores = np.zeros(self.size)
            return Evaluation(self.zeros(), scores, *self.dual_set.link_near(scores, COLD))
        w = given.w
        if self.is_soft:  # what a functional margin of 1 lacks
            outputs = self.operator.scores_in_double(w) + self.labels.all_intercepts(given.b)
            w = self.with_slack(w, np.maximum(0.0, 1.0 + self.labels.scores(outputs)))
        return self.evaluate(self.radius * w)

    def combination(self) -> Any:
        return Combination(self)

    def with_slack(self, w: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """The classifier of w and slack ξ; w alone where there is none."""
        return self.joined(w, slack / self.penalty.root) if self.is_soft else w

    def shown(self, w: np.ndarray) -> np.ndarray:
        """A view of w as users see it: (d,), or (k, d) for many classes; no slack."""
        return self.operator.coefficients(self.parts(w)[0]).T

    def in_units_of_x(self, w: np.ndarray, b: Any) -> tuple[np.ndarray, Any]:
        """(coef, intercept) of a classifier without slack, as users see it: copies in C order."""
        with np.errstate(over="ignore", under="ignore"):
            intercept = np.ldexp(b, self.exponent)
        coef = np.ascontiguousarray(self.operator.coefficients(w).T)
        return coef, intercept if np.ndim(intercept) else float(intercept)

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        """The classifier of what users see, of any length, without slack."""
        return self.operator.from_coefficients(np.ascontiguousarray(coef.T))

    @cached_property
    def psi_zero(self) -> float:  # type: ignore[override]
        return self.dual_set.psi_zero

    # --- weights -------------------------------------------------------------------------------

    def gradient(self, q: np.ndarray) -> np.ndarray:
        image = self.operator.adjoint(self.labels.mix(q))
        return self.joined(image, -self.penalty.root * q) / self.radius

    def dual_norm(self, q: np.ndarray) -> float:
        """‖Zᵀq‖ in the units of the operator, in float64 over the rows where q is not zero."""
        norm = self.operator.adjoint_norm(self.labels.mix(q))
        return float(np.hypot(norm, np.linalg.norm(self.penalty.root * q)))

    # --- for the certificate and the result ----------------------------------------------------

    def admitted_pair(self, w: Any, q: Any) -> tuple[np.ndarray, np.ndarray]:
        """A proposed pair with more digits than float64 has, in arrays that no solver can reach."""
        whole = takes_whole_numbers(self)
        return (
            admitted(w, self.w_shape, "w", whole=whole),
            admitted(q, (self.size,), "q", whole=whole),
        )

    def certify(self, w: np.ndarray, q: np.ndarray, *, sharp: bool = False) -> Certificate:
        """The interval that an admitted pair proves."""
        proved = certify_hinge if self.penalty.has_box else certify
        return proved(self, w, q, sharp=sharp)

    def close(self) -> None:
        """No pass over data on disk from now on; what is in memory may be read."""

    def sampled(self) -> "Problem":
        """This problem, if its rows are in memory; or that of some rows which are, the classes in
        proportion.
        """
        return self

    def certified_margin(self, w: np.ndarray, *, sharp: bool = False) -> float:
        """A sure lower bound on the margin of w, in the units of X; −inf where none is known."""
        return certify_margin(self, w, sharp=sharp)

    def normalised(self, w: np.ndarray) -> np.ndarray:
        """w at a safe length, with what a solver kept with it recomputed."""
        w = recomputed(self, w)
        w = w if SHORT < self.norm(w) < LONG else to_safe_length(w)
        return deciding_rows_in_double(self, w)

    def to_unit_length(self, w: np.ndarray, b: Any = 0.0) -> tuple[np.ndarray, Any]:
        """(w, b) divided by ‖w‖, whatever its size, for a w without slack; zero stays zero."""
        norm = self.operator.norm(w)
        if not SHORT < norm < LONG:
            top = float(np.max(np.abs(w), initial=0.0))
            w, b = (w / top, b / top) if top > 0.0 else (w, b)
            norm = self.operator.norm(w)
        return (w / norm, b / norm) if norm > 0.0 else (w, b)

    @property
    def prices(self) -> np.ndarray:
        """The upper bounds of the dual weights of the hinge."""
        return np.asarray(self.penalty.upper)

    def classifier(self, w: np.ndarray) -> tuple[np.ndarray, Any, float]:
        """(coef, intercept, loss): w at unit length, and the best intercept for it in the units of
        X; what a margin of w may lose by that, since entries are rounded twice.
        """
        w = self.normalised(w)
        norm, loss = self.norm(w), 0.0
        if norm > 0.0:
            share = self.operator.magnitude(w, norm) / norm
            loss = self.to_units_of_x(8.0 * UNIT_ROUNDOFF * share * self.longest / self.radius)
        w, _ = self.to_unit_length(w)
        b = self.best_intercept(scores_in_double(self, w))
        return *self.in_units_of_x(w, b), loss

    def best_intercept(self, scores: np.ndarray) -> Any:
        """The intercepts with the largest margin for these scores, in the units of the operator."""
        if self.dual_set.fits_intercept:
            return self.dual_set.intercept(scores)
        return np.zeros(self.classes.size) if self.classes.size > 2 else 0.0

    def solution(self, v: np.ndarray) -> tuple[np.ndarray, Any]:
        """(w, b) of a proposal for the hinge, stretched as its certificate does; in the units of
        the operator.
        """
        _, more, w = objective_bound(self, v)
        stretch, b = 1.0 + more, self.parts(np.asarray(v, np.float64))[1]
        b = stretch * b
        return stretch * w, b if b.size > 1 else float(b[0])

    def support(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows whose weight is above rounding level, these weights) of weights in the dual set.

        With the hinge they are α itself, 0 ≤ α_i ≤ C_i and balanced.
        """
        if self.penalty.has_box:
            with np.errstate(over="ignore", under="ignore"):
                weights = np.ldexp(box_weights(self, q), -2 * self.exponent)
        else:
            weights = self.dual_set.normalize(q)
        dual = self.labels.dual_of(weights)
        totals = dual if dual.ndim == 1 else dual.sum(axis=1)
        rows = (totals > 1e-12 * totals.max(initial=0.0)).nonzero()[0]
        return rows, dual[rows]

    # --- for checkpoints -----------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps of the problem."""
        return {}

    def from_arrays(self, arrays: Mapping[str, np.ndarray], passes: int) -> None:
        """Count what an earlier run has done, and check what its file says."""
        self.operator.passes = passes

    def weights_from_array(self, array: np.ndarray) -> np.ndarray:
        """Weights from a file; they prove nothing that was not proved in this run."""
        return array
