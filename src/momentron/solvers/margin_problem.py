"""What a solver sees of a problem, wherever its rows are: in memory, on disk or on a cluster."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.dual.combination import mix_in_place
from momentron.dual.dualsets import DualSet

if TYPE_CHECKING:
    from momentron.solvers.solver import Start

COLD = np.empty(0)  # no nearby evaluation to start from

__all__ = ["Evaluation", "MarginProblem", "SparseDual"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the rows say of a classifier.

    Attributes
    ----------
    w : ndarray
    scores : ndarray
        Zw: violations, the larger the worse.
    weights : ndarray
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
    Dual weights are arrays. Mix them by `mix`: where the rows are read in blocks, Zᵀq of such a mix
    needs no pass.

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
    size: int

    # --- classifiers ---------------------------------------------------------------------------

    def zeros(self) -> np.ndarray:
        """The classifier w = 0."""
        return np.zeros(self.w_shape)

    @abstractmethod
    def norm(self, w: np.ndarray) -> float:
        """‖w‖ in the space where the classifier lives, with slack or without."""

    @abstractmethod
    def margin(self, w: np.ndarray, scores: np.ndarray) -> float:
        """γ(w): the least −⟨z, w⟩ for the best intercepts, over ‖w‖, in units of R; γ(0) = 0."""

    @abstractmethod
    def start(self, given: "Start | None" = None) -> Evaluation:
        """The evaluation of w = 0, at no pass; or of a given start, for one, in memory alone."""

    @abstractmethod
    def evaluate(self, w: np.ndarray, near: np.ndarray = COLD) -> Evaluation:
        """Scores, weights and ψ of a classifier: one pass.

        In blocks `gradient` of these weights is then free, unless many classes have intercepts.
        `near` is that of the last evaluation, to save time; whatever it is, the answer is right.
        """

    @abstractmethod
    def combination(self) -> Any:
        """w = −Zᵀq, at zero, to be moved along the worst rows; see `momentron.dual.combination`."""

    # --- weights -------------------------------------------------------------------------------

    def no_weights(self) -> np.ndarray:
        """Weights that are all zero, to be added to."""
        return np.zeros(self.size)

    @abstractmethod
    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Zᵀq: a pass; none in blocks for weights of an evaluation, and mixes of these."""

    def mix(
        self, a: np.ndarray, x: float, b: np.ndarray, y: float, *, in_place: bool = False
    ) -> np.ndarray:
        """x·a + y·b for weights a and b; in place, the memory of `a` is used for the answer."""
        if not in_place:
            return x * a + y * b
        mix_in_place(a, x, b, y)
        return a

    @abstractmethod
    def upper(self, gradient: np.ndarray, q: np.ndarray) -> float:
        """The upper bound ‖Zᵀq‖ over the sum of q, in units of R, for the gradient Zᵀq."""

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
    def above_rounding(cls, codes: np.ndarray, dual: np.ndarray) -> "SparseDual":
        """Those of the rows whose weight is above rounding level."""
        totals = dual if dual.ndim == 1 else dual.sum(axis=1)
        kept = (totals > 1e-12 * totals.max(initial=0.0)).nonzero()[0]
        return cls(kept, codes[kept], dual[kept])
