"""Rounding bounds in float64: Higham, *Accuracy and Stability of Numerical Algorithms*, ch. 3."""

import math

import numpy as np

UNIT_ROUNDOFF = 2.0**-53

# A product may underflow, gradually or (where a library flushes to zero) at once: this covers both.
UNDERFLOW = 2.0**-1021


# Extended precision where the platform has it: 64 bits on x86, 113 on some others, else none.
_LONG_BITS = int(np.finfo(np.longdouble).nmant) + 1
CHUNK = 1024
EXTENDED_ROUNDOFF = 2.0**-_LONG_BITS if _LONG_BITS in (64, 113) else UNIT_ROUNDOFF


def gamma(k: int, unit: float = UNIT_ROUNDOFF) -> float:
    """γ_k = k·u / (1 − k·u): the relative error of a chain of k roundings, rounded up."""
    ku = k * unit
    if ku >= 0.5:
        return float("inf")
    return ku / (1.0 - ku) * (1.0 + 4.0 * UNIT_ROUNDOFF)


def unit_of(values: np.ndarray) -> float:
    """The unit roundoff of the array's own arithmetic."""
    return EXTENDED_ROUNDOFF if values.dtype == np.longdouble else UNIT_ROUNDOFF


def accurate_sum(values: np.ndarray) -> float:
    """The sum of nonnegative float64 values, right to two roundings."""
    if values.size <= CHUNK or EXTENDED_ROUNDOFF == UNIT_ROUNDOFF:
        return math.fsum(values)
    # a chunk's chain of roundings in extended precision stays below one in float64
    starts = np.arange(0, values.size, CHUNK)
    return math.fsum(np.add.reduceat(values.astype(np.longdouble), starts))


def up(value: float, roundings: int = 4) -> float:
    """The value after `roundings` roundings, moved outward to a sure upper bound."""
    return math.nextafter(value + abs(value) * gamma(roundings), math.inf)


def down(value: float, roundings: int = 4) -> float:
    """The value after `roundings` roundings, moved outward to a sure lower bound."""
    return math.nextafter(value - abs(value) * gamma(roundings), -math.inf)


def times_power_of_two(values: np.ndarray, exponent: int) -> np.ndarray:
    """values · 2^exponent, exact but for what underflows; ten times as fast as np.ldexp."""
    if -1000 < exponent < 1000:
        return values * math.ldexp(1.0, exponent)
    return np.ldexp(values, exponent)


def norm_bounds(w: np.ndarray) -> tuple[float, float]:
    """Sure lower and upper bounds of ‖w‖ (Euclidean, Frobenius for matrices).

    The entries are first scaled by a power of two, which is exact, so that no square overflows; the
    squares are summed in extended precision, where the platform has it.
    """
    largest = float(np.max(np.abs(w), initial=0.0))
    if largest == 0.0:
        return 0.0, 0.0
    _, exponent = np.frexp(largest)
    scaled = times_power_of_two(w.ravel(), -int(exponent)).astype(np.longdouble)
    norm = float(np.sqrt(np.sum(scaled * scaled)))
    # the extended chain, then its root and the conversion in float64
    roundings = 4 + int(np.ceil((scaled.size + 4) * (EXTENDED_ROUNDOFF / UNIT_ROUNDOFF)))
    with np.errstate(over="ignore"):  # an upper bound of inf is a bound still
        return (
            max(0.0, float(np.ldexp(down(norm, roundings) - UNDERFLOW, exponent))),
            float(np.ldexp(up(norm, roundings) + scaled.size * UNDERFLOW, exponent)),
        )
