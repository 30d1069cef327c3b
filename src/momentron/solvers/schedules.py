"""The schedules λ_t, θ_t and β_t of the methods, and what the theory of sampling asks of them."""

import math
from collections.abc import Callable

from momentron.data.arguments import as_number
from momentron.errors import InputError

Schedule = Callable[[int], float]


class Constant(float):
    """The same number for every t."""

    def __call__(self, t: int) -> float:
        return float(self)


def paper_lambda(t: int) -> float:
    """λ_t = 2/(t + 2), for which β_t = t/(t + 1)."""
    return 2.0 / (t + 2.0)


def inverse_root_step(t: int) -> float:
    """θ_t = 1/√(t + 1)."""
    return (t + 1.0) ** -0.5


def paper_momentum(t: int) -> float:
    """β_t = t/(t + 1)."""
    return t / (t + 1.0)


def as_schedule(value: float | Schedule, name: str = "step") -> Schedule:
    """A constant, or a function of t, as a function of t."""
    if callable(value):
        return value
    return Constant(as_number(name, value, "a number or a function of t"))


def checked_step(theta: Schedule, t: int, most: float = 1.0) -> float:
    """θ_t > 0, which the theory of momentum wants to be at most 1."""
    value = float(theta(t))
    if not (0.0 < value <= most and value < math.inf):
        raise InputError(f"the step θ_{t} is {value}; it must be positive and at most {most:g}")
    return value


def require_share(t: int, value: float) -> float:
    """λ_t, in (0, 1]."""
    if not 0.0 < value <= 1.0:
        raise InputError(f"the schedule gives λ_{t} = {value}; it must lie in (0, 1]")
    return value


def checked_lambda(schedule: Schedule, t: int, previous: float) -> float:
    """λ_t, checked against λ_0 = 1 and 1/λ_t² − 1/λ_t ≤ 1/λ_{t−1}² (the paper's condition)."""
    value = float(schedule(t))
    if t == 0:
        if value != 1.0:
            raise InputError(f"the schedule gives λ_0 = {value}; the paper's condition wants 1")
        return value
    require_share(t - 1, previous)
    require_share(t, value)
    excess = 1.0 / value**2 - 1.0 / value - 1.0 / previous**2
    if excess > 1e-9 / value**2:  # schedules at equality may round past it
        raise InputError(
            f"the schedule gives λ_{t} = {value} after λ_{t - 1} = {previous}; the paper's "
            "condition 1/λ_t² − 1/λ_t ≤ 1/λ_{t−1}² wants a larger one"
        )
    return value


def sampling_step(psi_zero: float, n_steps: int) -> float:
    """θ = √(ln n / t) for a run of t steps, with ψ(0) for ln n; 1 where that is zero."""
    return math.sqrt(psi_zero / n_steps) if psi_zero > 0.0 else 1.0


def sampling_steps(psi_zero: float, epsilon: float, delta: float, margin: float) -> float:
    """The number of steps, to be rounded up, that the theorem asks for γ̄ − ε.

    t = max((32 ln n + 64 ln(2/δ)) / (γ̄²ε²), 32/(δε²)), with ψ(0) for ln n.
    """
    first = (32.0 * psi_zero + 64.0 * math.log(2.0 / delta)) / (margin * epsilon) ** 2
    return max(1.0, first, 32.0 / (delta * epsilon**2))
