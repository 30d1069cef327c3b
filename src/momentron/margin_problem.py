"""What every problem answers, wherever its rows are: in memory, on disk or on a cluster."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.certificate import Certificate, admitted
from momentron.dualsets import Scored
from momentron.errors import InputError, SolverError

NOTHING_NEAR = np.empty(0)

__all__ = ["Evaluation", "MarginProblem", "SparseDual"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the rows say of a classifier.

    Attributes
    ----------
    w : ndarray
    scores : ndarray
        Zw: violations, the larger the worse. In blocks, the largest score of every set of
        constraints that share an intercept: all that a margin depends on.
    weights : Any
        q = ∇ψ(Zw): an array in memory, in blocks a `Weights` token that stands for it.
    psi : float
        ψ(Zw).
    near : ndarray
        What makes the next evaluation faster, if it is of a classifier nearby; it may be empty.
    """

    w: np.ndarray
    scores: np.ndarray
    weights: Any
    psi: float
    near: np.ndarray


@dataclass(frozen=True)
class SparseDual:
    """Dual weights of the rows that have any.

    Attributes
    ----------
    rows : ndarray of shape (s,)
        Their numbers, in sorted order.
    codes : ndarray of shape (s,)
        The places of their labels among the classes.
    weights : ndarray of shape (s,), or (s, k)
    """

    rows: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    @classmethod
    def above_rounding(cls, rows: np.ndarray, codes: np.ndarray, dual: np.ndarray) -> "SparseDual":
        """Those of the rows whose weight is above rounding level, sorted by number."""
        kept = rows_above_rounding(dual)
        kept = kept[np.argsort(rows[kept], kind="stable")]
        return cls(rows[kept], codes[kept], dual[kept])


def rows_above_rounding(dual: np.ndarray) -> np.ndarray:
    """The places of the weights, or of the rows of weights, that are above rounding level."""
    totals = dual if dual.ndim == 1 else dual.sum(axis=1)
    return np.flatnonzero(totals > 1e-12 * totals.max(initial=0.0))


class MarginProblem(ABC):
    """Find w with the largest margin: the least −⟨z, w⟩/‖w‖ over the rows z of Z, or over C.

    Solvers work in units of R, in which the theorems hold; `to_units_of_x` takes a margin back.
    Dual weights are arrays in memory, and tokens where the rows are in blocks: solvers treat both
    alike, through `gradient`, `mix` and `mass`.

    Attributes
    ----------
    classes : ndarray of shape (k,)
    exponent : int
        X was divided by 2^exponent.
    longest : float
        max‖z‖, rounded up: no weights give a longer Zᵀq.
    """

    classes: np.ndarray
    exponent: int
    longest: float
    penalty: str = "squared_hinge"

    # --- the size and the units of the problem -------------------------------------------------

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Examples."""

    @property
    @abstractmethod
    def radius(self) -> float:
        """R, the length that solvers take as the unit."""

    @property
    @abstractmethod
    def tight_radius(self) -> float:
        """The smallest R for which the theorems hold, max‖z‖, with intercepts seen from the mean.

        Zᵀq is then the same for X and for X less any point, since the classes' weights cancel.
        """

    @abstractmethod
    def tightened(self) -> "MarginProblem":
        """The same problem in units of the tight radius: shorter rows mean longer steps."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """A length in units of R that some row of Z surely has."""

    @property
    @abstractmethod
    def resolution(self) -> float:
        """The least upper bound that rounding lets weights prove, in units of R."""

    @abstractmethod
    def closing_seconds(self) -> float:
        """Roughly what the last certificate and the classifier take."""

    def to_units_of_x(self, value: float) -> float:
        """A margin in units of R, in the units of the data as passed."""
        if self.exponent == 0:
            return float(value * self.radius)
        with np.errstate(over="ignore", under="ignore"):
            return float(np.ldexp(value * self.radius, self.exponent))

    # --- work so far ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def passes(self) -> int:
        """Passes over the data so far."""

    evaluations: int = 0  # kernel values so far
    bytes_read: int = 0  # from disk or on a cluster
    pass_seconds: float = 0.0  # spent in reading them

    # --- for solvers: classifiers --------------------------------------------------------------

    @abstractmethod
    def zeros(self) -> np.ndarray:
        """The classifier w = 0."""

    @abstractmethod
    def norm(self, w: np.ndarray) -> float:
        """‖w‖ in the space where the classifier lives."""

    @abstractmethod
    def functional_margin(self, scores: np.ndarray) -> float:
        """The least −⟨z, w⟩ for the best intercepts, from the scores of an evaluation."""

    def margin(self, w: np.ndarray, scores: np.ndarray) -> float:
        """γ(w) = margin of the scores / ‖w‖, in units of R; γ(0) = 0."""
        norm = self.norm(w)
        return self.functional_margin(scores) / norm if norm > 0.0 else 0.0

    @abstractmethod
    def shown(self, w: np.ndarray) -> np.ndarray:
        """A view of w as users see it: (d,), or (k, d) for many classes; no slack."""

    @abstractmethod
    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        """The classifier of what users see, of any length, without slack."""

    def without_slack(self, w: np.ndarray) -> np.ndarray:
        """A view of w alone, where C is finite and slack beside it."""
        return w

    def length(self, w: np.ndarray) -> float:
        """‖w‖ of a classifier without slack."""
        return self.norm(w)

    @abstractmethod
    def start(self) -> Evaluation:
        """The evaluation of w = 0, at no pass."""

    def begin(self, w: np.ndarray, b: np.ndarray) -> Evaluation:
        """The evaluation of a given start in units of X, for one pass; in memory alone."""
        raise InputError("initial is for data in memory; name a checkpoint to continue a run")

    @abstractmethod
    def evaluate(self, w: np.ndarray, near: np.ndarray = NOTHING_NEAR) -> Evaluation:
        """Scores, weights and ψ of a classifier: one pass.

        In blocks it takes two where many classes have intercepts, and `gradient` is then free.
        `near` is that of the last evaluation, to save time; whatever it is, the answer is right.
        """

    @abstractmethod
    def combination(self) -> Any:
        """w = −Zᵀq, at zero, to be moved along the worst rows; see `momentron.combination`."""

    def rounds(self, options: Any) -> Any:
        """The rounds of working sets, a solver state, where rows must be fetched; else None."""
        return None

    # --- for solvers: weights ------------------------------------------------------------------

    rho: float  # the smoothness of ψ: steps are divided by it
    psi_zero: float  # ψ(0)

    def shortfall(self, old: Scored, new: Scored, theta: float) -> float:
        """What a step lacks of the inequality behind the theorems; see `DualSet.shortfall`."""
        return 0.0

    @abstractmethod
    def risk_slope(self, psi: float) -> float:
        """The factor c with ∇R(w) = c Zᵀ∇ψ(Zw), R the average loss (least over b)."""

    @abstractmethod
    def risk(self, psi: float) -> float:
        """R itself, from ψ."""

    def potential(self, scores: np.ndarray) -> float:
        """ψ from the scores of an evaluation; NaN in blocks, where the scores do not tell."""
        return math.nan

    @abstractmethod
    def even_weights(self) -> Any:
        """The same weight for every constraint, or what stands in where nobody summed the rows."""

    @abstractmethod
    def no_weights(self) -> Any:
        """Weights that are all zero, to be added to."""

    @abstractmethod
    def gradient(self, q: Any) -> np.ndarray:
        """Zᵀq: a pass in memory, nothing in blocks."""

    @abstractmethod
    def mix(self, a: Any, x: float, b: Any, y: float, *, in_place: bool = False) -> Any:
        """x·a + y·b for weights a and b, with x and y at least 0.

        In place, the memory of `a` is used for the answer where weights are arrays.
        """

    @abstractmethod
    def mass(self, q: Any) -> float:
        """The sum of the weights."""

    def upper(self, gradient: np.ndarray, q: Any) -> float:
        """The upper bound ‖Zᵀq‖ over the mass of q, in units of R, for the gradient Zᵀq."""
        mass = self.mass(q)
        return self.norm(gradient) / mass if mass > 0.0 else math.inf

    # --- for the loop --------------------------------------------------------------------------

    def admitted_w(self, w: Any) -> np.ndarray:
        """A private copy of a proposed classifier, its shape and type checked."""
        return admitted(w, self.zeros().shape, "w")

    @abstractmethod
    def admitted_weights(self, q: Any) -> Any:
        """Proposed weights in a form that no solver can change any more."""

    @abstractmethod
    def certify(self, w: np.ndarray, q: Any, *, sharp: bool = False) -> Certificate:
        """The interval that an admitted pair proves."""

    def close(self) -> None:  # noqa: B027
        """No pass over data on disk from now on; what is in memory may be read."""

    # --- for the result ------------------------------------------------------------------------

    @property
    def is_soft(self) -> bool:
        """Whether C is finite."""
        return False

    def in_memory(self) -> Any:
        """This problem, where all its rows are in memory; else None."""
        return None

    def sampled(self) -> Any:
        """The problem of some rows in memory, the classes in proportion; None where few are."""
        return self.in_memory()

    @abstractmethod
    def certified_margin(self, w: np.ndarray, *, sharp: bool = False) -> float:
        """A sure lower bound on the margin of w, in the units of X; −inf where none is known."""

    @abstractmethod
    def settled(self, w: np.ndarray) -> np.ndarray:
        """w as it can be shown, at a safe length; what a solver kept beside it is computed anew."""

    @abstractmethod
    def rounding_loss(self, w: np.ndarray) -> float:
        """What a margin may lose when w is brought to unit length, which rounds entries twice."""

    @abstractmethod
    def classifier(self, w: np.ndarray) -> tuple[np.ndarray, Any]:
        """(coef, intercept): w at unit length, and the best intercept for it in the units of X."""

    @abstractmethod
    def sparse_dual(self, q: Any) -> SparseDual:
        """The weights of the rows that have any; none where a method in blocks keeps none."""

    # --- for checkpoints -----------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps of the problem."""
        return {}

    @abstractmethod
    def from_arrays(self, arrays: Mapping[str, np.ndarray], passes: int) -> None:
        """Count what an earlier run has done, and check what its file says."""

    def weights_to_array(self, q: Any) -> np.ndarray:
        """Weights as a file keeps them; SolverError where q is not an array."""
        if not isinstance(q, np.ndarray):
            raise SolverError(f"{type(q).__name__} is not an array of weights")
        return q

    def weights_from_array(self, array: np.ndarray) -> Any:
        """Weights from a file; they prove nothing that was not proved in this run."""
        return array
