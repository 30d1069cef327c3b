"""A problem is an operator and a dual set: Z, without ever forming it."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from momentron.dualsets import DualSet, Vertex, make_dual_set
from momentron.errors import InputError
from momentron.losses import Loss, as_loss
from momentron.operators import Operator, SoftOperator
from momentron.validation import clean_data, clean_labels


class Problem:
    """Find w with the largest margin: the rows of Z are z_i = −y_i x_i / R.

    Solvers work in units of R, in which the theorems hold: R = max‖x_i‖, or after `tighten` the
    smallest radius that serves the dual set. `to_units_of_x` takes a margin back to units of X.
    Every product counts as one pass over the data.
    """

    def __init__(
        self,
        operator: Operator,
        dual_set: DualSet,
        *,
        exponent: int = 0,
        classes: np.ndarray | None = None,
    ) -> None:
        self.operator = operator
        self.dual_set = dual_set
        self.exponent = exponent
        self.classes = np.array([-1, 1]) if classes is None else classes

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any,
        *,
        fit_intercept: bool = True,
        loss: str | Loss = "exponential",
        C: float = math.inf,
    ) -> "Problem":
        """Validate X and y, and state the problem they pose."""
        data = clean_data(X)
        classes, signs = clean_labels(y, data.operator.shape[0])
        dual_set = make_dual_set(signs, as_loss(loss), fit_intercept=fit_intercept)
        operator = data.operator
        if math.isfinite(C):
            operator = SoftOperator(operator, signs, _slack_root(C, data.exponent))
        return cls(operator, dual_set, exponent=data.exponent, classes=classes)

    @property
    def n_rows(self) -> int:
        return self.operator.shape[0]

    @property
    def radius(self) -> float:
        """R, the length that solvers take as the unit."""
        return self.operator.divisor

    @cached_property
    def tight_radius(self) -> float:
        """The smallest R for which the theorems hold: max‖x_i − mean‖ with an intercept."""
        return self.dual_set.radius(self.operator) or 1.0

    def tighten(self) -> None:
        """Take the tight radius as the unit: shorter rows mean longer steps. Before any step."""
        self.operator.divide_by(self.tight_radius)

    @property
    def passes(self) -> int:
        """Passes over the data so far."""
        return self.operator.passes

    def scores(self, w: np.ndarray) -> np.ndarray:
        """p = Zw."""
        return self.dual_set.scores(self.operator.apply(w))

    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Zᵀq."""
        return self.operator.adjoint(self.dual_set.mix(q))

    def vertex_gradient(self, vertex: Vertex) -> np.ndarray:
        """Zᵀq for a q with few non-zero entries: costs only their rows."""
        return self.operator.combine(*self.dual_set.mix_vertex(vertex))

    def margin(self, w: np.ndarray, scores: np.ndarray) -> float:
        """γ(w) = margin of the scores / ‖w‖, in units of R; γ(0) = 0."""
        norm = self.operator.norm(w)
        return self.dual_set.margin(scores) / norm if norm > 0.0 else 0.0

    def to_units_of_x(self, value: float) -> float:
        """A margin in units of R, in the units of the data as passed."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.ldexp(value * self.radius, self.exponent))


def _slack_root(C: float, exponent: int) -> float:
    """1/√C for X divided by 2^exponent, so that K + I/C keeps its meaning.

    The root stays a normal float where C itself, scaled by 4^exponent, would not.
    """
    root = math.ldexp(1.0 / math.sqrt(C), -exponent) if exponent > -900 else math.inf
    if not 1e-150 < root < 1e150:
        raise InputError(
            f"C={C!r} is out of proportion to X, whose entries reach 2**{exponent}: C·max‖x‖² must "
            "lie between 1e-300 and 1e300; rescale X"
        )
    return root


def feature_operator(problem: Problem) -> Operator:
    """The operator over the features alone, without the slack of a soft margin."""
    operator = problem.operator
    return operator.base if isinstance(operator, SoftOperator) else operator
