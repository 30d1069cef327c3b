"""Convex sets of dual weights: what turns scores into (q, ψ, margin, intercept).

The theory holds for any convex subset C of the simplex; the margin that belongs to C is

    γ_C(w) = min_{q ∈ C} −⟨q, Zw⟩ / ‖w‖,      max_w γ_C(w) = min_{q ∈ C} ‖Zᵀq‖,

so a set is all that distinguishes "no intercept" from "an unpenalised intercept".
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from momentron.errors import InputError
from momentron.losses import Exponential, Loss
from momentron.rounding import accurate_sum, gamma, unit_of


@dataclass(frozen=True)
class Vertex:
    """A point of C with few non-zero weights: the worst examples, as one direction."""

    index: np.ndarray
    weight: np.ndarray


class DualSet(ABC):
    """The set C in which the dual weights live, and the loss that leads to them.

    Parameters
    ----------
    size : int
        The number of dual weights.
    loss : Loss
    """

    fits_intercept: bool

    def __init__(self, size: int, loss: Loss) -> None:
        self.size = size
        self.loss = loss
        self.rho = loss.rho(size)

    @cached_property
    def psi_zero(self) -> float:
        """ψ(0), the potential of a method's start: ln n for the simplex and the exponential."""
        return self.link(np.zeros(self.size))[1]

    @abstractmethod
    def near_worst(self, scores: np.ndarray, width: float) -> np.ndarray:
        """The rows whose scores are within `width` of those that decide the margin."""

    @abstractmethod
    def mass_error(
        self, q: np.ndarray, norms: np.ndarray, weighted_norms: float, norm: float
    ) -> float:
        """How far a q from `normalize` may be from C, as a bound on what that moves ‖Zᵀq‖.

        `norms` are those of the rows of Z, `weighted_norms` is Σ q‖z‖, and `norm` bounds ‖Zᵀq‖.
        """

    @abstractmethod
    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        """(q, ψ): the dual weights ∇ψ(scores), and the potential itself."""

    @abstractmethod
    def margin(self, scores: np.ndarray) -> float:
        """min_{q ∈ C} −⟨q, scores⟩: the margin times ‖w‖, for the best intercept."""

    @abstractmethod
    def intercept(self, scores: np.ndarray) -> float | np.ndarray:
        """The best intercept for these scores, in their units; one a class where there are many."""

    @abstractmethod
    def vertex(self, scores: np.ndarray) -> Vertex:
        """The point of C that is worst for these scores: argmax_{q ∈ C} ⟨q, scores⟩."""

    @abstractmethod
    def normalize(self, q: np.ndarray) -> np.ndarray:
        """q clipped at zero and rescaled into C; each entry is right to four roundings."""

    @abstractmethod
    def risk_slope(self, psi: float) -> float:
        """The factor c with ∇R(w) = c Zᵀ∇ψ(Zw), R the average loss (least over b)."""


class Simplex(DualSet):
    """C = Δ_n: no intercept; q is ∇ψ of the loss, softmax for the exponential."""

    fits_intercept = False

    def near_worst(self, scores: np.ndarray, width: float) -> np.ndarray:
        return np.flatnonzero(scores >= scores.max() - width)

    def mass_error(
        self, q: np.ndarray, norms: np.ndarray, weighted_norms: float, norm: float
    ) -> float:
        return gamma(8, unit_of(q)) * norm  # the whole vector is scaled by 1 + 4u at most

    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        return self.loss.link(scores)

    def margin(self, scores: np.ndarray) -> float:
        return -float(scores.max())

    def intercept(self, scores: np.ndarray) -> float:
        return 0.0

    def vertex(self, scores: np.ndarray) -> Vertex:
        return Vertex(np.array([int(scores.argmax())]), np.ones(1))

    def normalize(self, q: np.ndarray) -> np.ndarray:
        return to_mass(q, 1.0)

    def risk_slope(self, psi: float) -> float:
        return float(np.exp(self.loss.log_slope(np.array([psi]))[0])) / self.size


class ClassBalanced(DualSet):
    """C = {mass ½ on each class}: an unpenalised intercept, chosen best for every w.

    min_{q ∈ C} ‖Zᵀq‖ is half the distance of the two classes' convex hulls. The potential is
    ψ = ½ψ₊ + ½ψ₋, which is min_b ln Σ exp(Zw + by) less the constant ln 2.
    """

    fits_intercept = True

    def __init__(self, signs: np.ndarray, loss: Loss) -> None:
        if not isinstance(loss, Exponential):
            raise InputError(
                f"loss={loss.name!r} is proved without an intercept only; set fit_intercept=False "
                "or loss='exponential'"
            )
        self.classes = (np.flatnonzero(signs > 0), np.flatnonzero(signs < 0))
        for name, rows in zip(("+1", "−1"), self.classes, strict=True):
            if rows.size == 0:
                raise InputError(f"class {name} has 0 rows; an intercept needs at least 1 of each")
        super().__init__(signs.size, loss)

    def near_worst(self, scores: np.ndarray, width: float) -> np.ndarray:
        parts = [rows[scores[rows] >= scores[rows].max() - width] for rows in self.classes]
        return np.concatenate(parts)

    def mass_error(
        self, q: np.ndarray, norms: np.ndarray, weighted_norms: float, norm: float
    ) -> float:
        return gamma(8, unit_of(q)) * weighted_norms  # each class is scaled by its own 1 + 4u

    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        q = np.empty_like(scores)
        psi = 0.0
        for rows in self.classes:
            part, potential = self.loss.link(scores[rows])
            q[rows] = 0.5 * part
            psi += 0.5 * potential
        return q, psi

    def _tops(self, scores: np.ndarray) -> tuple[float, float]:
        positive, negative = self.classes
        return float(scores[positive].max()), float(scores[negative].max())

    def margin(self, scores: np.ndarray) -> float:
        top_positive, top_negative = self._tops(scores)
        return -(0.5 * top_positive + 0.5 * top_negative)

    def intercept(self, scores: np.ndarray) -> float:
        # x·w is −score on class + and score on class −; b puts zero midway between the nearest
        top_positive, top_negative = self._tops(scores)
        return 0.5 * top_positive - 0.5 * top_negative

    def vertex(self, scores: np.ndarray) -> Vertex:
        index = np.array([rows[int(scores[rows].argmax())] for rows in self.classes])
        return Vertex(index, np.full(2, 0.5))

    def normalize(self, q: np.ndarray) -> np.ndarray:
        balanced = np.empty(q.size, np.result_type(q.dtype, np.float64))
        for rows in self.classes:
            balanced[rows] = to_mass(q[rows], 0.5)
        return balanced

    def risk_slope(self, psi: float) -> float:
        return 2.0 * math.exp(psi) / self.size


def to_mass(q: np.ndarray, mass: float) -> np.ndarray:
    """q clipped at zero and scaled to the given sum; uniform where nothing positive is left.

    Extended precision stays so; float64 sums are exact up to one rounding.
    """
    if q.dtype != np.longdouble:
        q = q.astype(np.float64, copy=False)
    clipped = np.maximum(q, 0.0)
    top = clipped.max(initial=0.0)  # in q's own precision, whose range may be wider
    if not 1e-100 < top < 1e100:  # else the sum neither overflows nor vanishes
        if not np.isfinite(top):
            clipped = np.where(np.isfinite(clipped), clipped, 0.0)
            top = clipped.max(initial=0.0)
        if top == 0.0:
            return np.full(q.size, clipped.dtype.type(mass) / q.size)
        clipped /= top
    total = clipped.sum() if q.dtype == np.longdouble else accurate_sum(clipped)
    clipped *= mass / total
    return clipped
