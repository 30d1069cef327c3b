"""The schedules λ_t and θ_t of the accelerated methods."""

from collections.abc import Callable

from momentron.errors import InputError

Schedule = Callable[[int], float]


def paper_lambda(t: int) -> float:
    """λ_t = 2/(t + 2), for which β_t = t/(t + 1)."""
    return 2.0 / (t + 2.0)


def unit_step(t: int) -> float:
    """θ_t = 1."""
    return 1.0


def inverse_root_step(t: int) -> float:
    """θ_t = 1/√(t + 1)."""
    return (t + 1.0) ** -0.5


def as_schedule(value: float | Schedule) -> Schedule:
    """A constant, or a function of t, as a function of t."""
    if callable(value):
        return value
    constant = float(value)
    return lambda t: constant


def checked_step(theta: Schedule, t: int) -> float:
    """θ_t, which the theory wants in (0, 1]."""
    value = float(theta(t))
    if not 0.0 < value <= 1.0:
        raise InputError(f"the step θ_{t} is {value}; it must lie in (0, 1]")
    return value


def checked_lambda(schedule: Schedule, t: int, previous: float) -> float:
    """λ_t, checked against λ_0 = 1 and 1/λ_t² − 1/λ_t ≤ 1/λ_{t−1}² (the paper's condition)."""
    value = float(schedule(t))
    if t == 0:
        if value != 1.0:
            raise InputError(f"the schedule gives λ_0 = {value}; the paper's condition wants 1")
        return value
    if not 0.0 < value <= 1.0:
        raise InputError(f"the schedule gives λ_{t} = {value}; it must lie in (0, 1]")
    excess = 1.0 / value**2 - 1.0 / value - 1.0 / previous**2
    if excess > 1e-9 / value**2:  # schedules at equality may round past it
        raise InputError(
            f"the schedule gives λ_{t} = {value} after λ_{t - 1} = {previous}; the paper's "
            "condition 1/λ_t² − 1/λ_t ≤ 1/λ_{t−1}² wants a larger one"
        )
    return value
