"""What a solver sees of a problem, wherever its rows are: in memory, on disk or on a cluster."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.dual.dualsets import Scored
from momentron.errors import InputError

NOTHING_NEAR = np.empty(0)

__all__ = ["Evaluation", "MarginProblem"]


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


class MarginProblem(ABC):
    """Find w with the largest margin: the least −⟨z, w⟩/‖w‖ over the rows z of Z, or over C.

    Solvers work in units of R, in which the theorems hold; `to_units_of_x` takes a margin back.
    Dual weights are arrays in memory, and tokens where the rows are in blocks: solvers treat both
    alike, through `gradient`, `mix` and `mass`.

    Attributes
    ----------
    classes : ndarray of shape (k,)
    n_rows : int
        The number of examples.
    radius : float
        R, the length that solvers take as the unit.
    exponent : int
        X was divided by 2^exponent.
    rho : float
        The smoothness of ψ: steps are divided by it.
    psi_zero : float
        ψ(0).
    """

    classes: np.ndarray
    n_rows: int
    radius: float
    exponent: int
    rho: float
    psi_zero: float

    # --- classifiers ---------------------------------------------------------------------------

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
        """w = −Zᵀq, at zero, to be moved along the worst rows; see `momentron.dual.combination`."""

    # --- weights -------------------------------------------------------------------------------

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

    # --- the loss ------------------------------------------------------------------------------

    @abstractmethod
    def risk(self, psi: float) -> float:
        """R, the average loss (least over b), from ψ."""

    @abstractmethod
    def risk_slope(self, psi: float) -> float:
        """The factor c with ∇R(w) = c Zᵀ∇ψ(Zw)."""

    def potential(self, scores: np.ndarray) -> float:
        """ψ from the scores of an evaluation; NaN in blocks, where the scores do not tell."""
        return math.nan

    def shortfall(self, old: Scored, new: Scored, theta: float) -> float:
        """What a step lacks of the inequality behind the theorems; see `DualSet.shortfall`."""
        return 0.0

    # --- units ---------------------------------------------------------------------------------

    def to_units_of_x(self, value: float) -> float:
        """A margin in units of R, in the units of the data as passed."""
        if self.exponent == 0:
            return float(value * self.radius)
        with np.errstate(over="ignore", under="ignore"):
            return float(np.ldexp(value * self.radius, self.exponent))
