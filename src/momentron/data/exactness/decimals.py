"""Decimals and floats: whether text survives as a float64, and what a float was written as.

The shortest decimal that reads back as a float, the nearest of these to it, is what Python prints.
Who wrote 0.1 finds 0.1 there and not 0.1000000000000000055; every number of up to 15 digits comes
back as it was written.
"""

import math
import re
from collections.abc import Sequence
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction

import numpy as np

READINGS = ("shortest", "binary")
SAFE_DIGITS = 15  # this many always survive: 10¹⁵ < 2⁵²
MOST_DIGITS = 4000  # a float64 written out in full has 1,075 decimals
PIECE = 1 << 17  # bytes looked at together: they stay in the cache
_ALL_ZEROS = bytes.maketrans(b"123456789.", b"0" * 10)
_EXACT = Context(prec=2 * MOST_DIGITS)


def as_decimal(value: float) -> Fraction:
    """The shortest decimal of a float, exactly.

    >>> as_decimal(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(value)))


def is_rounded(values: np.ndarray) -> bool:
    """Whether some finite float64 value is not exactly the decimal that it prints as."""
    size = np.abs(values)
    # of whole numbers, and of multiples of 1/256 with at most 14 digits, all digits are printed
    is_printed = (np.fmod(size, 1.0) == 0.0) & (size < 2.0**53)
    is_printed |= (np.fmod(size, 2.0**-8) == 0.0) & (size < 1e6)
    return any(Decimal(repr(v)) != v for v in values[~is_printed].tolist())


def widened(values: np.ndarray) -> np.ndarray:
    """Short floats as the float64 nearest to their own shortest decimals: 0.1 stays 0.1."""
    wide = values.astype(np.float64)
    fractions = wide != np.trunc(wide)
    wide[fractions] = [float(str(v)) for v in values[fractions]]
    return wide


# --- text ---------------------------------------------------------------------------------------


def may_change(content: bytes) -> bool:
    """Whether text has a number so long, or so close to 0, that float64 might change it.

    A look at the bytes, much faster than parsing them.
    """
    too_long = b"0" * (SAFE_DIGITS + 1)
    for start in range(0, len(content), PIECE):
        if too_long in content[start : start + PIECE + SAFE_DIGITS].translate(_ALL_ZEROS):
            return True
    # one byte is found much faster than two, and two than a pattern
    has_exponent = any(e in content and e + b"-" in content for e in (b"e", b"E"))
    return has_exponent and re.search(rb"[eE]-0*[1-9][0-9]{2}", content) is not None


def first_changed(texts: Sequence[str], values: np.ndarray) -> int | None:
    """The place of the first text that its value, read from it in float64, does not keep."""
    for i, (text, value) in enumerate(zip(texts, values.tolist(), strict=True)):
        if len(text) <= SAFE_DIGITS and abs(value) > 2.0**-1021:  # no subnormal
            continue
        # what Python prints is the nearest decimal of its length: most long numbers are that
        if text != repr(value) and not is_kept(text, value):
            return i
    return None


def is_kept(text: str, value: float) -> bool:
    """|text − value| ≤ half a unit of the text's last digit, without rounding."""
    if not math.isfinite(value):
        return True  # whoever read it says so
    if len(text) > MOST_DIGITS:
        return False
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    if value == 0.0 or not number:
        return value == number
    exact = Decimal(value)
    if exact.quantize(number, "ROUND_HALF_UP", _EXACT) == number:
        return True
    return exact.quantize(number, "ROUND_HALF_DOWN", _EXACT) == number  # in the middle of two


def describe_change(text: str, value: float) -> str:
    """What float64 would make of a number, and the remedy."""
    shown = text if len(text) <= 40 else text[:39] + "…"
    return (
        f"{shown} would become {value!r} in float64; write at most 15 digits, or rescale the column"
    )
