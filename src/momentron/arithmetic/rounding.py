"""Rounding bounds in float64: Higham, *Accuracy and Stability of Numerical Algorithms*, ch. 3."""

import math
import sys
from fractions import Fraction

import numpy as np

UNIT_ROUNDOFF = 2.0**-53
SINGLE_ROUNDOFF = 2.0**-24

# A product may underflow, gradually or (where a library flushes to zero) at once: this covers both.
UNDERFLOW = 2.0**-1021


# Extended precision where the platform has it: 64 bits on x86, 113 on some others, else none.
_LONG_BITS = int(np.finfo(np.longdouble).nmant) + 1
CHUNK = 1024
SHORT_SUM = 64  # squares that are added up in float64
_SMALL_SQUARE, _LARGE_SQUARE = 1e-200, 1e200  # between them what overflows or vanishes is nothing
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
    if values.size > CHUNK:
        values = values[values > 0.0]  # most often few
    if values.size <= CHUNK or EXTENDED_ROUNDOFF == UNIT_ROUNDOFF:
        return math.fsum(values.tolist())
    # a chunk's chain of roundings in extended precision stays below one in float64
    starts = np.arange(0, values.size, CHUNK)
    return math.fsum(np.add.reduceat(values.astype(np.longdouble), starts))


def up(value: float, roundings: int = 4) -> float:
    """The value after `roundings` roundings, moved outward to a sure upper bound."""
    return math.nextafter(value + abs(value) * gamma(roundings), math.inf)


def down(value: float, roundings: int = 4) -> float:
    """The value after `roundings` roundings, moved outward to a sure lower bound."""
    return math.nextafter(value - abs(value) * gamma(roundings), -math.inf)


def root_up(square: float) -> float:
    """A sure upper bound of √s, given one of s; infinite where that is not a number."""
    if math.isnan(square):
        return math.inf
    return up(math.sqrt(square)) if square > 0.0 else 0.0


def root_down(square: float) -> float:
    """A sure lower bound of √s, given one of s; 0 where that is negative or not a number."""
    return max(0.0, down(math.sqrt(square))) if square > 0.0 else 0.0


def rational_root(value: Fraction, *, up: bool = False) -> float:
    """The largest float whose square is at most a rational, or the smallest that is at least it."""
    if value <= 0:
        return 0.0
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    try:
        root = math.ldexp(math.sqrt(value / Fraction(4) ** shift), shift)
    except OverflowError:
        return math.inf if up else sys.float_info.max
    outward, inward = (math.inf, 0.0) if up else (0.0, math.inf)
    root = math.nextafter(root, inward)
    while root < math.inf and (Fraction(root) ** 2 < value if up else Fraction(root) ** 2 > value):
        root = math.nextafter(root, outward)
    return min(root, math.inf if up else sys.float_info.max)


def norm_bounds(w: np.ndarray) -> tuple[float, float]:
    """Sure lower and upper bounds of ‖w‖ (Euclidean, Frobenius for matrices).

    Where squares might overflow or vanish, the entries are first scaled by a power of two, which is
    exact.
    """
    flat = w.ravel()
    with np.errstate(over="ignore", under="ignore"):  # an upper bound of inf is a bound still
        total, roundings = _sum_of_squares(flat)
        if _SMALL_SQUARE < total < _LARGE_SQUARE:
            return _root_bounds(total, roundings, flat.size)
        largest = float(np.max(np.abs(flat), initial=0.0))
        if largest == 0.0:
            return 0.0, 0.0
        _, exponent = np.frexp(largest)
        total, roundings = _sum_of_squares(np.ldexp(flat, -exponent))
        low, high = _root_bounds(total, roundings, flat.size)
        # what is subnormal is rounded once more
        low = math.nextafter(float(np.ldexp(low, exponent)), -math.inf)
        return max(0.0, low), math.nextafter(float(np.ldexp(high, exponent)), math.inf)


def _sum_of_squares(flat: np.ndarray) -> tuple[float, int]:
    """(Σ v², roundings): short sums in float64, added exactly; or all in extended precision."""
    if flat.dtype == np.longdouble:
        total = float(np.sum(flat * flat))
        return total, 2 + math.ceil((flat.size + 4) * (EXTENDED_ROUNDOFF / UNIT_ROUNDOFF))
    flat = flat.astype(np.float64, copy=False)
    if flat.size <= SHORT_SUM:
        return float(flat.dot(flat)), SHORT_SUM
    whole = flat.size - flat.size % SHORT_SUM
    rows, rest = flat[:whole].reshape(-1, SHORT_SUM), flat[whole:]
    sums = np.einsum("ij,ij->i", rows, rows).tolist()
    sums.append(float(rest.dot(rest)))
    try:
        return math.fsum(sums), SHORT_SUM + 1
    except OverflowError:  # finite sums, whose own sum is not
        return math.inf, SHORT_SUM + 1


def _root_bounds(total: float, roundings: int, size: int) -> tuple[float, float]:
    """Bounds of √Σv² from the computed sum: a root halves its relative error.

    Of the three more roundings one is the root's, one makes up for the half that is cut off, and
    one covers squares that have vanished next to a sum above _SMALL_SQUARE.
    """
    norm = math.sqrt(total)
    roundings = roundings // 2 + 3
    return max(0.0, down(norm, roundings) - UNDERFLOW), up(norm, roundings) + size * UNDERFLOW
