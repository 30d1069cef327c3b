"""A problem in memory: rows, labels and a dual set make Z, without ever forming it."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.rounding import UNIT_ROUNDOFF
from momentron.certificate import (
    LONG,
    SHORT,
    Certificate,
    admitted,
    certify_admitted,
    certify_margin,
    deciding_rows_in_double,
    exact_scores,
    read_only,
    recomputed,
    to_safe_length,
)
from momentron.dual.combination import Combination, mix_in_place
from momentron.dual.dualsets import DualSet, Scored, Vertex
from momentron.dual.labels import Labels, as_labels
from momentron.dual.losses import Loss, as_loss
from momentron.dual.slack import Slack
from momentron.errors import InputError
from momentron.rows import Operator
from momentron.rows.base import shallow_copy
from momentron.rows.kernels.choice import KernelChoice
from momentron.rows.validation import CleanData, TrainingData, operator_of
from momentron.solvers.certified_problem import CertifiedProblem, SparseDual, rows_above_rounding
from momentron.solvers.margin_problem import NOTHING_NEAR, Evaluation

__all__ = ["KernelChoice", "Problem", "rows_of"]

PADDED = 1.0 + 12.0 * UNIT_ROUNDOFF


def rows_of(X: Any, kernel: KernelChoice | None) -> CleanData:
    """The rows as an operator, seen through the kernel if there is one."""
    return operator_of(X) if kernel is None else CleanData(kernel.operator(X), 0)


class Problem(CertifiedProblem):
    """A problem whose rows are in memory: X, its labels and a dual set; Z is never built.

    R is max‖z‖, or the smallest radius that serves the dual set in the problem that solvers with
    such steps see. Every product counts as one pass over the data.

    Parameters
    ----------
    operator : Operator
        X.
    labels : Labels
    dual_set : DualSet
    roots : float, or ndarray of shape (n,), optional
        1/√(2C) of the examples, in the units of the operator; none for a hard margin.

    Attributes
    ----------
    size : int
        The number of constraints, and of dual weights.
    row_norms : ndarray of shape (size,)
        Upper bounds of ‖z‖, in the units of the operator.
    slack : Slack or None
    stiffness, shares
        Those of the slack; infinite and 1 where there is none.
    weights : ndarray of shape (n,), optional
        The factors of C, by which the rows count for the fallback as well; None where all are 1.
    """

    stiffness: float = math.inf
    shares: float | np.ndarray = 1.0

    def __init__(
        self,
        operator: Operator,
        labels: Labels,
        dual_set: DualSet,
        *,
        roots: float | np.ndarray | None = None,
        exponent: int = 0,
        classes: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        self.operator, self.labels, self.dual_set = operator, labels, dual_set
        self.size, self.n_rows = labels.size, operator.shape[0]
        self.weights = None if weights is None else read_only(weights)
        self.exponent = exponent
        self.classes = read_only(np.array([-1, 1]) if classes is None else classes)
        self.slack: Slack | None = None
        row_norms = labels.row_norms(operator.row_norms)
        if roots is not None:
            shape = operator.zeros(*labels.trailing).shape
            self.slack = slack = Slack(labels, roots, shape)
            self.stiffness, self.shares = slack.stiffness, slack.shares
            # a bound on √(‖z‖² + r²): three more roundings, and those of r
            row_norms = np.hypot(row_norms, slack.root) * PADDED
        self.row_norms = read_only(row_norms)
        self.longest = float(row_norms.max(initial=0.0))
        self.radius = self.longest or 1.0

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any,
        *,
        fit_intercept: bool = True,
        loss: str | Loss = "exponential",
        C: float = math.inf,
        kernel: KernelChoice | None = None,
    ) -> "Problem":
        """Validate X and y, and state the problem they pose."""
        data = TrainingData.from_arrays(X, y, is_finite=kernel is not None)
        return cls.of(data, fit_intercept=fit_intercept, loss=as_loss(loss), C=C, kernel=kernel)

    @classmethod
    @standard_arithmetic()
    def of(
        cls,
        data: TrainingData,
        *,
        fit_intercept: bool,
        loss: Loss,
        C: float,
        kernel: KernelChoice | None,
        rows: CleanData | None = None,
    ) -> "Problem":
        """The problem that validated rows and labels pose; `rows` as `rows_of` gives them."""
        clean = rows or rows_of(data.X, kernel)
        labels = as_labels(data.classes.size, fit_intercept, data.codes)
        return cls(
            clean.operator,
            labels,
            labels.dual_set(loss),
            roots=_slack_roots(C, data.weights, clean.exponent) if math.isfinite(C) else None,
            exponent=clean.exponent,
            classes=data.classes,
            weights=data.weights,
        )

    def some(self, examples: np.ndarray, operator: Operator) -> "Problem":
        """The problem of some of the examples, whose rows the operator has."""
        labels = self.labels.some(examples)
        roots = None if self.slack is None else self.slack.roots
        if isinstance(roots, np.ndarray):
            roots = roots[examples]
        return Problem(operator, labels, labels.dual_set(self.dual_set.loss), roots=roots)

    @cached_property
    def base(self) -> "Problem":
        """The hard margin of the same rows."""
        return self if self.slack is None else self._hard()

    def _hard(self) -> "Problem":
        return Problem(
            self.operator,
            self.labels,
            self.dual_set,
            exponent=self.exponent,
            classes=self.classes,
            weights=self.weights,
        )

    def for_solver(self, *, tight: bool = False) -> "Problem":
        problem = shallow_copy(self)
        problem.__dict__.pop("base", None)  # whose operator is another one
        problem.operator = self.operator.for_solver()
        problem.labels = shallow_copy(self.labels)
        problem.dual_set = shallow_copy(self.dual_set)
        if self.slack is not None:
            problem.slack = shallow_copy(self.slack)
        if tight:
            problem.radius = self.tight_radius
        return problem

    @cached_property
    def tight_radius(self) -> float:
        if not self.dual_set.fits_intercept:
            return self.longest or 1.0
        radius = self.operator.centred_radius() * self.labels.radius_factor
        if self.slack is not None:
            radius = float(np.hypot(radius, np.max(self.slack.root))) * PADDED
        return radius or 1.0

    @property
    def reach(self) -> float:
        return self.operator.reach / self.radius

    @property
    def resolution(self) -> float:  # type: ignore[override]
        return self.operator.resolution

    def closing_seconds(self) -> float:
        """Four passes, and some vectors."""
        entries = self.operator.dense_entries or 20 * self.n_rows
        outputs = max(1.0, 0.1 * self.classes.size)  # many vectors are faster for each
        return 4.0 * outputs * entries / 3e9 + 300.0 * self.size / 1e9

    @property
    def passes(self) -> int:
        return self.operator.passes

    @property
    def evaluations(self) -> int:  # type: ignore[override]
        return self.operator.evaluations

    # --- classifiers ---------------------------------------------------------------------------

    def zeros(self) -> np.ndarray:
        w = self.operator.zeros(*self.labels.trailing)
        return w if self.slack is None else self.slack.join(w, np.zeros(self.size))

    def norm(self, w: np.ndarray) -> float:
        if self.slack is None:
            return self.operator.norm(w)
        head, tail = self.slack.split(w)
        return float(np.hypot(self.operator.norm(head), np.sqrt(np.einsum("i,i->", tail, tail))))

    def scores(self, w: np.ndarray) -> np.ndarray:
        """p = Zw, in units of R."""
        if self.slack is None:
            return self.labels.scores(self.operator.apply(w / self.radius))
        head, tail = self.slack.split(w / self.radius)
        return self.labels.scores(self.operator.apply(head)) - self.slack.root * tail

    def functional_margin(self, scores: np.ndarray) -> float:
        return self.dual_set.margin(scores)

    def start(self) -> Evaluation:
        scores = np.zeros(self.size)
        return Evaluation(self.zeros(), scores, *self.dual_set.link_near(scores, NOTHING_NEAR))

    def evaluate(self, w: np.ndarray, near: np.ndarray = NOTHING_NEAR) -> Evaluation:
        scores = self.scores(w)
        return Evaluation(w, scores, *self.dual_set.link_near(scores, near))

    def begin(self, w: np.ndarray, b: np.ndarray) -> Evaluation:
        if self.slack is not None:  # what a functional margin of 1 lacks
            outputs = self.operator.exact_scores(w) + self.labels.all_intercepts(b)
            w = self.with_slack(w, np.maximum(0.0, 1.0 + self.labels.scores(outputs)))
        return self.evaluate(self.radius * w)

    def combination(self) -> Combination:
        return Combination(self)

    def without_slack(self, w: np.ndarray) -> np.ndarray:
        return w if self.slack is None else self.slack.split(w)[0]

    def with_slack(self, w: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """The classifier of w and slack ξ; w alone where there is none."""
        return w if self.slack is None else self.slack.join(w, slack / self.slack.root)

    def shown(self, w: np.ndarray) -> np.ndarray:
        return self.operator.coefficients(self.without_slack(w)).T

    def coef_of(self, w: np.ndarray) -> np.ndarray:
        """A copy in C order of a classifier without slack, as users see it."""
        return self.labels.coef_of(self.operator.coefficients(w))

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        return self.operator.from_coefficients(self.labels.from_coef(coef))

    def length(self, w: np.ndarray) -> float:
        return self.operator.norm(w)

    # --- the loss ------------------------------------------------------------------------------

    @property
    def rho(self) -> float:  # type: ignore[override]
        return self.dual_set.rho

    @property
    def psi_zero(self) -> float:  # type: ignore[override]
        return self.dual_set.psi_zero

    def shortfall(self, old: Scored, new: Scored, theta: float) -> float:
        return self.dual_set.shortfall(old, new, theta)

    def risk_slope(self, psi: float) -> float:
        return self.dual_set.risk_slope(psi)

    def risk(self, psi: float) -> float:
        return self.dual_set.risk(psi)

    def potential(self, scores: np.ndarray) -> float:
        return self.dual_set.link(scores)[1]

    # --- weights -------------------------------------------------------------------------------

    def even_weights(self) -> np.ndarray:
        return np.ones(self.size)

    def no_weights(self) -> np.ndarray:
        return np.zeros(self.size)

    def gradient(self, q: np.ndarray) -> np.ndarray:
        image = self.operator.adjoint(self.labels.mix(q))
        if self.slack is not None:
            image = self.slack.join(image, -self.slack.root * q)
        return image / self.radius

    def vertex_gradient(self, vertex: Vertex) -> np.ndarray:
        """Zᵀq for a q with few non-zero entries: costs only their rows."""
        index, weight = vertex.index, vertex.weight
        image = self.operator.combine(*self.labels.mix_at(index, weight))
        if self.slack is not None:
            tail = np.zeros(self.size)
            tail[index] = -self.slack.root_at(index) * weight
            image = self.slack.join(image, tail)
        return image / self.radius

    def dual_norm(self, q: np.ndarray) -> float:
        """‖Zᵀq‖ in the units of the operator, in float64 over the rows where q is not zero."""
        norm = self.operator.adjoint_norm(self.labels.mix(q))
        if self.slack is None:
            return norm
        return float(np.hypot(norm, np.linalg.norm(self.slack.root * q)))

    def mix(
        self, a: np.ndarray, x: float, b: np.ndarray, y: float, *, in_place: bool = False
    ) -> np.ndarray:
        if not in_place:
            return x * a + y * b
        mix_in_place(a, x, b, y)
        return a

    def mass(self, q: np.ndarray) -> float:
        return float(q.sum())

    # --- for the loop and the result -----------------------------------------------------------

    def admitted_weights(self, q: Any) -> np.ndarray:
        return admitted(q, (self.size,), "q")

    def certify(self, w: np.ndarray, q: np.ndarray, *, sharp: bool = False) -> Certificate:
        return certify_admitted(self, w, q, sharp=sharp)

    @property
    def is_soft(self) -> bool:
        return self.slack is not None

    def in_memory(self) -> "Problem":
        return self

    def certified_margin(self, w: np.ndarray, *, sharp: bool = False) -> float:
        return certify_margin(self, w, sharp=sharp)

    def settled(self, w: np.ndarray) -> np.ndarray:
        w = recomputed(self, w)
        w = w if SHORT < self.norm(w) < LONG else to_safe_length(w)
        return deciding_rows_in_double(self, w)

    def rounding_loss(self, w: np.ndarray) -> float:
        norm = self.norm(w)
        if not norm > 0.0:
            return 0.0
        share = self.operator.magnitude(self.without_slack(w), norm) / norm
        return self.to_units_of_x(8.0 * UNIT_ROUNDOFF * share * self.longest / self.radius)

    def classifier(self, w: np.ndarray) -> tuple[np.ndarray, Any]:
        norm = self.norm(w)
        if not SHORT < norm < LONG:
            top = float(np.max(np.abs(w), initial=0.0))
            w = w / top if top > 0.0 else w
            norm = self.norm(w)
        w = w / norm if norm > 0.0 else w
        intercept: Any = np.zeros(self.classes.size) if self.classes.size > 2 else 0.0
        if self.dual_set.fits_intercept:
            b = self.dual_set.intercept(exact_scores(self, w))
            intercept = self.intercept_in_units_of_x(b)
        return self.coef_of(self.without_slack(w)), intercept

    def intercept_in_units_of_x(self, b: Any) -> Any:
        """Intercepts in the units of the operator, in those of the data as passed."""
        if self.exponent == 0:
            return b
        with np.errstate(over="ignore", under="ignore"):
            intercept = np.ldexp(b, self.exponent)
        return intercept if np.ndim(intercept) else float(intercept)

    def sparse_dual(self, q: np.ndarray) -> SparseDual:
        labels = self.labels
        dual = labels.dual_of(self.dual_set.normalize(q))
        rows = rows_above_rounding(dual)
        return SparseDual(rows, labels.codes[rows], dual[rows])

    def from_arrays(self, arrays: Mapping[str, np.ndarray], passes: int) -> None:
        self.operator.passes = passes


def _slack_roots(C: float, weights: np.ndarray | None, exponent: int) -> float | np.ndarray:
    """1/√(2C) for X divided by 2^exponent, so that K + I/(2C) keeps its meaning; of each row where
    they have weights.

    The root stays a normal float where C itself, scaled by 4^exponent, would not.
    """
    prices = np.full(1, C) if weights is None else C * weights
    scale = math.ldexp(1.0, -exponent) if exponent > -900 else math.inf
    with np.errstate(over="ignore"):
        roots = (1.0 / np.sqrt(2.0 * prices)) * scale
    is_good = (roots > 1e-150) & (roots < 1e150)
    if not is_good.all():
        i = int(is_good.argmin())
        what = f"C={C!r}" if weights is None else f"C={C!r} times a weight of {float(weights[i])!r}"
        raise InputError(
            f"{what} is out of proportion to X, whose entries reach 2**{exponent}: C·max‖x‖² must "
            "lie between 1e-300 and 1e300; rescale X"
        )
    return float(roots[0]) if (roots == roots[0]).all() else roots
