"""Decimal text: whether the nearest float64 says the same to the last digit."""

import math
import re
from collections.abc import Sequence

import numpy as np

SAFE_DIGITS = 15  # so many always survive: 10¹⁵ < 2⁵²
MOST_DIGITS = 4000  # a float64 written out in full has 1,075 decimals
PIECE = 1 << 17  # bytes looked at together: they stay in the cache
_SMALL = re.compile(rb"[eE]-0*[1-9][0-9]{2}")
_NUMBER = re.compile(r"\s*[+-]?(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?\s*")
_SUBNORMAL = 2.0**-1021  # below it float64 has fewer digits


def may_change(content: bytes) -> bool:
    """Whether text has a number so long, or so close to 0, that float64 might change it.

    A look at the bytes, much faster than parsing them.
    """
    for start in range(0, len(content), PIECE):
        piece = np.frombuffer(content[start : start + PIECE + SAFE_DIGITS], np.uint8)
        run = ((piece - np.uint8(ord("0"))) < 10) | (piece == ord("."))
        for shift in (1, 2, 4, 8):  # runs of 2, 4, 8 and 16
            run = run[:-shift] & run[shift:]
        if run.any():
            return True
    has_exponent = b"e-" in content or b"E-" in content
    return has_exponent and _SMALL.search(content) is not None


def first_changed(texts: Sequence[str], values: np.ndarray) -> int | None:
    """The place of the first text that its value does not keep, if there is one.

    Parameters
    ----------
    texts : sequence of str
    values : ndarray of shape (len(texts),)
        What the texts were read as, in float64.
    """
    for i, (text, value) in enumerate(zip(texts, values.tolist(), strict=True)):
        if len(text) <= SAFE_DIGITS and abs(value) > _SUBNORMAL:
            continue
        # what Python prints is the nearest decimal of its length: most long numbers are that
        if text != repr(value) and not is_kept(text, value):
            return i
    return None


def is_kept(text: str, value: float) -> bool:
    """|text − value| ≤ half a unit of the text's last digit, in whole numbers."""
    if not math.isfinite(value):
        return True  # whoever read it says so
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > MOST_DIGITS:
        return False
    whole, fraction, exponent = match.groups()
    digits = int(whole + fraction or "0")
    if value == 0.0 or digits == 0:
        return value == digits
    power = int(exponent or 0) - len(fraction)
    unit = 10 ** abs(power)
    numerator, denominator = abs(value).as_integer_ratio()
    if power >= 0:
        return 2 * abs(numerator - digits * unit * denominator) <= unit * denominator
    return 2 * abs(numerator * unit - digits * denominator) <= denominator


def describe_change(text: str, value: float) -> str:
    """What float64 would make of a number, and the remedy."""
    shown = text if len(text) <= 40 else text[:39] + "…"
    return (
        f"{shown} would become {value!r} in float64; write at most 15 digits, or rescale the column"
    )
