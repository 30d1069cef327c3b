"""Losses with an exponential tail, and the potential ψ(ξ) = ℓ⁻¹(Σ ℓ(ξ_i)) they induce.

Everything is computed in the log domain: scores reach 1e6 and more, and −1e8 to 1e8 is safe.
A new loss is one subclass of `Loss` with four small methods, and one line in `LOSSES`.
"""

from abc import ABC, abstractmethod

import numpy as np

from momentron.errors import InputError

_DEEP = -37.0  # below this score, ln(1 + e^z) equals e^z in float64


class Loss(ABC):
    """A strictly increasing ℓ with ℓ(−∞) = 0, ℓ(∞) = ∞ and an exponential left tail.

    ψ must be ρ-smooth in the ℓ∞ norm with ‖∇ψ‖₁ ≥ 1; these two facts are all the theorems use
    (paper, section 5.1).

    Attributes
    ----------
    name : str
    allows_intercept : bool
        Whether the theorems hold with an unpenalised intercept too.
    """

    name: str
    allows_intercept: bool = False

    @abstractmethod
    def log_value(self, z: np.ndarray) -> np.ndarray:
        """ln ℓ(z)."""

    @abstractmethod
    def log_slope(self, z: np.ndarray) -> np.ndarray:
        """ln ℓ′(z)."""

    @abstractmethod
    def inverse(self, log_value: float) -> float:
        """The z at which ln ℓ(z) equals the argument."""

    @abstractmethod
    def rho(self, n: int) -> float:
        """The ℓ∞ smoothness of ψ for n scores."""

    def require_intercept(self) -> None:
        """Refuse a loss that has no theorem with an intercept."""
        if not self.allows_intercept:
            raise InputError(
                f"loss={self.name!r} is proved without an intercept only; set fit_intercept=False "
                "or loss='exponential'"
            )

    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        """(q, ψ) with q = ∇ψ(scores), so q_i = ℓ′(ξ_i)/ℓ′(ψ)."""
        psi = self.inverse(log_sum_exp(self.log_value(scores)))
        q = self.log_slope(scores) - self.log_slope(np.array([psi]))
        return np.exp(q, out=q), psi


def log_sum_exp(scores: np.ndarray) -> float:
    """ln Σ exp(scores), without overflow."""
    top = float(scores.max())
    return top + float(np.log(np.sum(np.exp(scores - top))))


class Exponential(Loss):
    """ℓ(z) = e^z: ψ is ln-sum-exp, ∇ψ is softmax, ρ = 1."""

    name = "exponential"
    allows_intercept = True

    def log_value(self, z: np.ndarray) -> np.ndarray:
        return z

    def log_slope(self, z: np.ndarray) -> np.ndarray:
        return z

    def inverse(self, log_value: float) -> float:
        return log_value

    def rho(self, n: int) -> float:
        return 1.0

    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        top = float(scores.max())  # one exponential per score instead of the general two
        q = scores - top
        np.exp(q, out=q)
        total = float(q.sum())
        q /= total
        return q, top + float(np.log(total))


class Logistic(Loss):
    """ℓ(z) = ln(1 + e^z): ρ = n, and ‖∇ψ‖₁ lies between 1 and n."""

    name = "logistic"

    def log_value(self, z: np.ndarray) -> np.ndarray:
        # ln ln(1 + e^z) is z itself deep in the left tail, where ln(1 + e^z) would underflow
        return np.where(z < _DEEP, z, np.log(np.logaddexp(0.0, np.maximum(z, _DEEP))))

    def log_slope(self, z: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0.0, -z)

    def inverse(self, log_value: float) -> float:
        if log_value < _DEEP:
            return log_value
        value = float(np.exp(log_value))
        return value + float(np.log(-np.expm1(-value)))  # ln(e^v − 1) without overflow

    def rho(self, n: int) -> float:
        return float(n)


LOSSES: dict[str, type[Loss]] = {loss.name: loss for loss in (Exponential, Logistic)}


def as_loss(loss: str | Loss) -> Loss:
    """A loss by name, or the instance itself."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise InputError(f"loss={loss!r} is not known; choose one of {sorted(LOSSES)}")
    return LOSSES[loss]()
