"""A problem is constraints and a dual set: Z, without ever forming it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from momentron.constraints import Constraints, Slack
from momentron.dualsets import DualSet, Vertex
from momentron.environment import standard_arithmetic
from momentron.errors import InputError
from momentron.kernels import BoundKernel, Kernel, as_kernel, negative_part
from momentron.kernels.parameters import require_parameters
from momentron.labels import as_labels
from momentron.losses import Loss, as_loss
from momentron.operators import KernelOperator, Operator
from momentron.validation import CleanData, TrainingData, operator_of

CHECKED_ROWS = 200  # on which a kernel that might be indefinite is tried, whatever the method


@dataclass(frozen=True)
class KernelChoice:
    """A kernel as users name it, and the memory in MB that its values may take."""

    kernel: str | Kernel | Callable[..., Any]
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    cache_size: float = 1000.0

    def __post_init__(self) -> None:
        require_parameters(
            gamma=self.gamma, degree=self.degree, coef0=self.coef0, cache_size=self.cache_size
        )

    def resolve(self, X: Any) -> Kernel:
        """The kernel with its parameters as numbers, which "scale" takes from the data."""
        return as_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X)

    def bind(self, X: Any) -> BoundKernel:
        """The kernel over the rows of X."""
        return self.resolve(X).bind(X)

    def operator(self, X: Any) -> KernelOperator:
        """X as an operator, seen through the kernel."""
        bound = self.bind(X)
        if not bound.is_semidefinite:
            few = np.unique(np.linspace(0, bound.n - 1, CHECKED_ROWS).astype(int))
            values = bound.block(few, few)
            bound.diagonal_evaluations += 0 if bound.matrix is not None else values.size
            bound.widen(negative_part(values, few, bound.relative_error))
        return KernelOperator(bound, int(1e6 * self.cache_size))


class Problem:
    """Find w with the largest margin: the least −⟨z, w⟩/‖w‖ over the rows of Z, or over C.

    Solvers work in units of R, in which the theorems hold: R = max‖z‖, or after `tighten` the
    smallest radius that serves the dual set. `to_units_of_x` takes a margin back to units of X.
    Every product counts as one pass over the data.
    """

    def __init__(
        self,
        constraints: Constraints,
        dual_set: DualSet,
        *,
        exponent: int = 0,
        classes: np.ndarray | None = None,
    ) -> None:
        self.constraints = constraints
        self.dual_set = dual_set
        self.longest = constraints.radius  # max‖z‖, rounded up: no weights give a longer Zᵀq
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
    ) -> "Problem":
        """The problem that rows and labels pose which have been validated."""
        clean = operator_of(data.X) if kernel is None else CleanData(kernel.operator(data.X), 0)
        labels = as_labels(data.classes.size, fit_intercept, data.codes)
        dual_set = labels.dual_set(loss)
        constraints = Constraints(clean.operator, labels)
        if math.isfinite(C):
            constraints = Slack(constraints, _slack_root(C, clean.exponent))
        return cls(constraints, dual_set, exponent=clean.exponent, classes=data.classes)

    @property
    def operator(self) -> Operator:
        """X."""
        return self.constraints.operator

    @property
    def size(self) -> int:
        """The number of constraints, and of dual weights."""
        return self.constraints.size

    @property
    def radius(self) -> float:
        """R, the length that solvers take as the unit."""
        return self.constraints.divisor

    @cached_property
    def tight_radius(self) -> float:
        """The smallest R for which the theorems hold: max‖z‖, with intercepts seen from the mean.

        Zᵀq is then the same for X and for X less any point, since the classes' weights cancel.
        """
        has_shift = self.dual_set.fits_intercept
        constraints = self.constraints
        return (constraints.centred_radius() if has_shift else constraints.radius) or 1.0

    def tighten(self) -> None:
        """Take the tight radius as the unit: shorter rows mean longer steps. Before any step."""
        self.constraints.divide_by(self.tight_radius)

    @property
    def passes(self) -> int:
        """Passes over the data so far."""
        return self.operator.passes

    def zeros(self) -> np.ndarray:
        """The classifier w = 0."""
        return self.constraints.zeros()

    def even_weights(self) -> np.ndarray:
        """The same weight for every constraint."""
        return np.ones(self.size)

    def scores(self, w: np.ndarray) -> np.ndarray:
        """p = Zw."""
        return self.constraints.scores(w)

    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Zᵀq."""
        return self.constraints.gradient(q)

    def average(
        self, mu: np.ndarray, q: np.ndarray, share: float, *, w: np.ndarray, scratch: np.ndarray
    ) -> None:
        """μ ← (1 − λ)μ + λq in place, λ the share; q are the weights that belong to w.

        Where weights are too many to keep, the problem keeps μ itself, and finds q by w.
        """
        mu *= 1.0 - share
        mu += np.multiply(share, q, out=scratch)

    def mass(self, q: np.ndarray) -> float:
        """The sum of the weights."""
        return float(q.sum())

    def close(self) -> None:
        """No pass over data on disk from now on; what is in memory may be read."""

    def vertex_gradient(self, vertex: Vertex) -> np.ndarray:
        """Zᵀq for a q with few non-zero entries: costs only their rows."""
        return self.constraints.combine(vertex.index, vertex.weight)

    def norm(self, w: np.ndarray) -> float:
        """‖w‖ in the space where the classifier lives."""
        return self.constraints.norm(w)

    def margin(self, w: np.ndarray, scores: np.ndarray) -> float:
        """γ(w) = margin of the scores / ‖w‖, in units of R; γ(0) = 0."""
        norm = self.norm(w)
        return self.dual_set.margin(scores) / norm if norm > 0.0 else 0.0

    def reach_in_units_of_x(self) -> float:
        """A length in the units of X that some row of Z surely has."""
        return self.to_units_of_x(self.operator.reach / self.radius)

    def to_units_of_x(self, value: float) -> float:
        """A margin in units of R, in the units of the data as passed."""
        if self.exponent == 0:
            return float(value * self.radius)
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
