"""Square roots of rationals, rounded down or up to a float64."""

import math
import sys
from fractions import Fraction

MANTISSA = 53  # bits
LEAST_EXPONENT = -1074


def root_down(value: Fraction) -> float:
    """The largest float whose square is at most the value."""
    return _root(value, up=False)


def root_up(value: Fraction) -> float:
    """The smallest float whose square is at least the value."""
    return _root(value, up=True)


def _root(value: Fraction, *, up: bool) -> float:
    if value <= 0:
        return 0.0
    size = value.numerator.bit_length() - value.denominator.bit_length()  # of value, in bits
    exponent = max(LEAST_EXPONENT, (size - 1) // 2 - MANTISSA)
    root, is_exact = _whole_root(value, exponent)
    if root.bit_length() > MANTISSA:
        exponent += root.bit_length() - MANTISSA
        root, is_exact = _whole_root(value, exponent)
    if up and not is_exact:
        root += 1
    try:
        return math.ldexp(root, exponent)
    except OverflowError:
        return math.inf if up else sys.float_info.max


def _whole_root(value: Fraction, exponent: int) -> tuple[int, bool]:
    """(⌊√value / 2^exponent⌋, whether that is √value / 2^exponent itself)."""
    numerator, denominator = value.numerator, value.denominator
    if exponent < 0:
        numerator <<= -2 * exponent
    else:
        denominator <<= 2 * exponent
    quotient, rest = divmod(numerator, denominator)
    root = math.isqrt(quotient)
    return root, rest == 0 and root * root == quotient
