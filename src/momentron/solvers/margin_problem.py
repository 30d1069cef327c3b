"""What a solver sees of a problem, wherever its rows are: in memory, on disk or on a cluster."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.dual.combination import mix_in_place
from momentron.dual.dualsets import DualSet
from momentron.dual.penalty import Penalty

if TYPE_CHECKING:
    from momentron.solvers.solver import Start

COLD = np.empty(0)  # no nearby evaluation to start from


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the rows say of a classifier.

    Attributes
    ----------
    w : ndarray
    scores : ndarray of shape (size,)
        Zw: violations, the larger the worse.
    weights : ndarray of shape (size,)
        q = ∇ψ(Zw).
    psi : float
        ψ(Zw).
    near : ndarray
        What makes the next evaluation faster, if it is of a classifier nearby; it may be empty.
    """

    w: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    psi: float
    near: np.ndarray


class MarginProblem(ABC):
    """Find w with the largest margin: the least −⟨z, w⟩/‖w‖ over the rows z of Z, or over C.

    Solvers work in units of R, in which the theorems hold; `to_units_of_x` takes a margin back.
    Scores and dual weights are arrays of shape (size,), wherever the rows are. In blocks a product
    is a pass, unless passes have shown it: Zᵀq of weights that `evaluate` gave, and of a `mix` of
    such weights, is known.

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
    w_shape : tuple of int
        The shape of a classifier w.
    dual_set : DualSet
        Which weights are allowed.
    penalty : Penalty
        What slack costs.
    size : int
        The number of constraints, and of dual weights.
    """

    classes: np.ndarray
    n_rows: int
    w_shape: tuple[int, ...]
    radius: float
    exponent: int
    rho: float
    psi_zero: float
    dual_set: DualSet
    penalty: Penalty
    size: int

    # --- classifiers ---------------------------------------------------------------------------

    def zeros(self) -> np.ndarray:
        """The classifier w = 0."""
        return np.zeros(self.w_shape)

    @abstractmethod
    def norm(self, w: np.ndarray) -> float:
        """‖w‖ in the space where the classifier lives, with slack or without."""

    @abstractmethod
    def scores(self, w: np.ndarray) -> np.ndarray:
        """Zw, in units of R: violations, the larger the worse."""

    def margin(self, w: np.ndarray, scores: np.ndarray) -> float:
        """γ(w): the least −⟨z, w⟩ for the best intercepts, over ‖w‖, in units of R; γ(0) = 0."""
        if self.penalty.has_box:
            return float(scores[0])
        norm = self.norm(w)
        return self.dual_set.margin(scores) / norm if norm > 0.0 else 0.0

    @abstractmethod
    def start(self, given: "Start | None" = None) -> Evaluation:
        """The evaluation of w = 0, at no pass; or of a given start, for one, in memory alone."""

    def evaluate(self, w: np.ndarray, near: np.ndarray = COLD) -> Evaluation:
        """Scores, weights and ψ of a classifier: one pass.

        `near` is that of the last evaluation, to save time; whatever it is, the answer is right.
        """
        scores = self.scores(w)
        return Evaluation(w, scores, *self.dual_set.link_near(scores, near))

    @abstractmethod
    def combination(self) -> Any:
        """w = −Zᵀq, at zero, to be moved along the worst rows; see `momentron.dual.combination`."""

    # --- weights -------------------------------------------------------------------------------

    def no_weights(self) -> np.ndarray:
        """Weights that are all zero, to be added to."""
        return np.zeros(self.size)

    @abstractmethod
    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Zᵀq: a pass, or nothing where passes over blocks have shown it."""

    def mix(
        self, a: np.ndarray, x: float, b: np.ndarray, y: float, *, in_place: bool = False
    ) -> np.ndarray:
        """x·a + y·b for weights a and b, with x and y at least 0; in place, in the memory of a."""
        if not in_place:
            return x * a + y * b
        mix_in_place(a, x, b, y)
        return a

    def upper(self, gradient: np.ndarray, q: np.ndarray) -> float:
        """The upper bound ‖Zᵀq‖ over the sum of q, in units of R, for the gradient Zᵀq."""
        mass = float(q.sum())
        return self.norm(gradient) / mass if mass > 0.0 else math.inf

    # --- the loss ------------------------------------------------------------------------------

    def risk(self, psi: float) -> float:
        """R, the average loss (least over b), from ψ."""
        return self.dual_set.risk(psi)

    def risk_slope(self, psi: float) -> float:
        """The factor c with ∇R(w) = c Zᵀ∇ψ(Zw)."""
        return self.dual_set.risk_slope(psi)

    def potential(self, scores: np.ndarray) -> float:
        """ψ from the scores of an evaluation."""
        return self.dual_set.link(scores)[1]

    def shortfall(self, old: Evaluation, new: Evaluation, theta: float) -> float:
        """What a step lacks of the inequality behind the theorems; see `DualSet.shortfall`."""
        return self.dual_set.shortfall(old, new, theta)

    # --- units ---------------------------------------------------------------------------------

    def to_units_of_x(self, value: float) -> float:
        """A margin in units of R, in the units of the data as passed."""
        if self.exponent == 0:
            return float(value * self.radius)
        with np.errstate(over="ignore", under="ignore"):
            return float(np.ldexp(value * self.radius, self.exponent))
