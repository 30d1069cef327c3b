"""Losses with an exponential tail, and the potential ψ(ξ) = ℓ⁻¹(Σ ℓ(ξ_i)) they induce.

Everything is computed in the log domain: scores reach 1e6 and more, and −1e8 to 1e8 is safe.
A new loss is one subclass of `Loss` with four small methods, and one line in `LOSSES` if it is to
have a name.
"""

import math
from abc import ABC, abstractmethod

import numpy as np

from momentron.data.arguments import as_number, is_positive, meant
from momentron.data.reprs import call_of
from momentron.errors import InputError, short

__all__ = ["LOSSES", "Exponential", "Logistic", "Loss", "ShiftedLogistic", "as_loss"]

_DEEP = -37.0  # below this score, ln(1 + e^z) equals e^z in float64
_PROBES = np.array([-30.0, -8.0, -2.0, -0.5, 0.0, 0.5, 2.0, 8.0, 30.0])  # where a loss is tried


class Loss(ABC):
    """A strictly increasing ℓ with ℓ(−∞) = 0, ℓ(∞) = ∞ and an exponential left tail.

    The theorems ask two things of ψ: that it is ρ-smooth in the ℓ∞ norm, and ‖∇ψ‖₁ ≥ 1 (paper,
    section 5.1). If they are not proved, the interval of `Momentum` adds the shortfall of each step
    in the first, and is given up if the second fails: a wrong ρ costs width, never correctness.

    Attributes
    ----------
    name : str
    allows_intercept : bool
        Whether the theorems hold with an unpenalised intercept too.
    """

    name: str
    allows_intercept: bool = False

    def __repr__(self) -> str:
        return call_of(self)

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
        """ρ for n scores: steps are divided by it."""

    def is_proved(self, n: int) -> bool:
        """Whether both properties are proved for this ρ, where ψ ≤ ψ(0) and n scores are."""
        return False

    def for_size(self, n: int) -> "Loss":
        """The loss for n scores, where it depends on their number."""
        return self

    def require_intercept(self) -> None:
        """Refuse a loss that has no theorem with an intercept."""
        if not self.allows_intercept:
            raise InputError(
                f"loss={self.name!r} does not support an intercept; set fit_intercept=False or "
                "loss='exponential'"
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

    def is_proved(self, n: int) -> bool:
        return type(self) is Exponential  # a subclass may have changed what was proved

    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        top = float(scores.max())  # one exponential per score instead of the general two
        q = scores - top
        np.exp(q, out=q)
        total = float(q.sum())
        q /= total
        return q, top + float(np.log(total))


class Logistic(Loss):
    """ℓ(z) = ln(1 + e^z): ‖∇ψ‖₁ lies between 1 and n, and at n/2 for w = 0.

    Parameters
    ----------
    smoothness : float, optional
        ρ, by which steps are divided; by default n, as in the paper. With 1, steps are as long as
        for the exponential loss: the first of them is so long that no theorem covers it.
    """

    name = "logistic"
    _shift = 0.0  # by which ℓ is moved to the right

    def __init__(self, smoothness: float | None = None) -> None:
        self.smoothness = None if smoothness is None else _positive("smoothness", smoothness)

    def log_value(self, z: np.ndarray) -> np.ndarray:
        z = z - self._shift
        # ln ln(1 + e^z) is z itself deep in the left tail, where ln(1 + e^z) would underflow
        return np.where(z < _DEEP, z, np.log(np.logaddexp(0.0, np.maximum(z, _DEEP))))

    def log_slope(self, z: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0.0, self._shift - z)

    def inverse(self, log_value: float) -> float:
        if log_value < _DEEP:
            return self._shift + log_value
        value = float(np.exp(log_value))
        # ln(e^v − 1) without overflow
        return self._shift + (value + float(np.log(-np.expm1(-value))))

    def rho(self, n: int) -> float:
        return float(n) if self.smoothness is None else self.smoothness

    def is_proved(self, n: int) -> bool:
        is_own = type(self) is Logistic
        return is_own and self.rho(n) >= largest_mass(0.0, n)


class ShiftedLogistic(Logistic):
    """ℓ(z) = ln(1 + e^(z − ln n)): the logistic loss with steps as long as the exponential's.

    The paper asks for a first step of the logistic loss whose length does not suffer from n
    (section 5.1). Moved by ln n, the loss starts where the logarithm is almost straight: there
    ‖∇ψ‖₁ is at most e/(e − 1) = 1.58, it never grows, and it bounds the smoothness; see
    docs/paper/shifted-logistic.md for the proof. ψ(0) is at most ln n + 0.55.

    Parameters
    ----------
    shift : float, optional
        Used instead of ln n.
    """

    name = "shifted-logistic"

    def __init__(self, shift: float | None = None) -> None:
        if shift is not None:
            shift = as_number("shift", shift, "a finite number", math.isfinite)
        self.shift = shift

    def for_size(self, n: int) -> Loss:
        return ShiftedLogistic(math.log(n)) if self.shift is None else self

    def rho(self, n: int) -> float:
        return largest_mass(math.log(n) if self.shift is None else self.shift, n)

    def is_proved(self, n: int) -> bool:
        return type(self) is ShiftedLogistic

    @property
    def _shift(self) -> float:  # type: ignore[override]
        if self.shift is None:
            raise InputError("ShiftedLogistic() has no shift yet; for_size(n) sets it for n rows")
        return self.shift


def largest_mass(shift: float, n: int) -> float:
    """The largest ‖∇ψ‖₁ where ψ ≤ ψ(0), for ℓ(z) = ln(1 + e^(z − shift)): that at 0, rounded up.

    For V = Σ ℓ(ξ_i) it is at most n(1 − e^(−V/n))/(1 − e^(−V)), with equality where all scores are
    alike, and this grows with V.
    """
    value = float(np.logaddexp(0.0, -shift))
    if n * value < 1e-16:
        return 1.0 + 1e-14
    return n * math.expm1(-value) / math.expm1(-n * value) * (1.0 + 1e-14)


LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Exponential, Logistic, ShiftedLogistic)
}


def as_loss(loss: str | Loss) -> Loss:
    """A loss by name, or the instance itself, if it is a loss at all."""
    if isinstance(loss, Loss):
        if type(loss) not in LOSSES.values():
            _require_contract(loss)
        return loss
    if isinstance(loss, type) and issubclass(loss, Loss):
        raise InputError(
            f"loss={loss.__name__} is a class; pass an instance: loss={loss.__name__}()"
        )
    if not isinstance(loss, str) or loss not in LOSSES:
        if isinstance(loss, str) and loss in ("hinge", "squared_hinge"):
            plain = "plain hinge" if loss == "hinge" else "squared hinge"
            hint = f"; penalty={loss!r}, with a finite C, is the {plain}"
        else:
            hint = meant(loss, LOSSES)
        raise InputError(f"loss={short(loss)} is not known; choose one of {sorted(LOSSES)}{hint}")
    return LOSSES[loss]()


def _require_contract(loss: Loss) -> None:
    """Try a loss of the user's on a few scores: finite, increasing, and its parts of one ℓ."""
    n = _PROBES.size
    fitted, name = loss.for_size(n), getattr(loss, "name", None)
    if not isinstance(name, str):
        raise InputError(f"{type(loss).__name__} has no name; give the class one: name = '...'")
    told = f"loss={name!r} cannot be used: "
    value = np.asarray(fitted.log_value(_PROBES.copy()), float)
    slope = np.asarray(fitted.log_slope(_PROBES.copy()), float)
    for part, array in (("log_value", value), ("log_slope", slope)):
        if array.shape != _PROBES.shape or not np.isfinite(array).all():
            raise InputError(f"{told}{part} must give one finite number per score")
    if not (np.diff(value) > 0.0).all():
        raise InputError(f"{told}log_value must increase with the score")
    width = 1e-4
    ends = fitted.log_value(_PROBES + width) - fitted.log_value(_PROBES - width)
    rate = np.exp(slope - value)  # of ln ℓ
    if not np.allclose(ends / (2.0 * width), rate, rtol=1e-3, atol=1e-9):
        raise InputError(f"{told}log_slope is not the logarithm of the slope of exp(log_value)")
    back = np.array([fitted.inverse(float(v)) for v in value])
    if not np.allclose(back, _PROBES, rtol=1e-6, atol=1e-6):
        raise InputError(f"{told}inverse does not undo log_value")
    _positive("rho(n)", loss.rho(n))


def _positive(name: str, value: float) -> float:
    return as_number(name, value, "a positive, finite number", is_positive)
