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
SAFE = 10**15  # decimals with mantissas up to this never share a float
MOST_PLACES = 22  # 10²² is the last power of ten that is a float
DOUBT = 1e-6  # units of the 17th digit within which only printing decides

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


def shortest_decimals(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, e): integers with m·10^e the shortest decimal of each finite value, no e below need.

    Up to 15 digits a division shows the decimal: m / 10^p, both exact floats, is rounded once. With
    16 or 17 digits |v|·10^p is needed to the last bit, as an unevaluated sum of two floats (Dekker
    1971). What is too large, too small or too close to call is printed.
    """
    size = np.abs(values)
    whole, powers = np.zeros(values.size, np.int64), np.zeros(values.size, np.int64)
    is_whole = (size == np.trunc(size)) & (size < 2.0**53)
    whole[is_whole] = size[is_whole].astype(np.int64)
    left = np.flatnonzero(~is_whole)
    for attempt in (_up_to_fifteen, _sixteen_or_more, _printed):
        if not left.size:
            break
        m, e, found = attempt(size[left])
        whole[left[found]], powers[left[found]] = m[found], e[found]
        left = left[~found]
    return np.where(values < 0, -whole, whole), powers


Attempt = tuple[np.ndarray, np.ndarray, np.ndarray]  # (m, e, which of them are right)


def _places(size: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """(p, which p are usable): |v|·10^p has this many digits before the point."""
    with np.errstate(divide="ignore"):
        places = digits - 1 - np.floor(np.log10(size))
    usable = (places >= 0) & (places <= MOST_PLACES)
    return np.where(usable, places, 0).astype(np.int64), usable


def _up_to_fifteen(size: np.ndarray) -> Attempt:
    places, usable = _places(size, 15)
    tens = _TENS[places]
    whole = np.rint(np.where(usable, size, 0.0) * tens)
    found = usable & (whole <= SAFE) & (whole / tens == size)
    digits, powers = whole.astype(np.int64), -places
    for zeros in (8, 4, 2, 1):  # factors of ten move from m to 10^e
        ends = np.flatnonzero(found)
        ends = ends[digits[ends] % 10**zeros == 0]
        digits[ends] //= 10**zeros
        powers[ends] += zeros
    return digits, powers, found


def _sixteen_or_more(size: np.ndarray) -> Attempt:
    """The shortest decimals of floats that need more than 15 digits."""
    places, usable = _places(size, 17)
    usable &= size < SAFE
    size = np.where(usable, size, 1.0)
    tens = _TENS[places]
    high, tail = product(size, tens)  # v·10^p = high + tail, and high is whole
    usable &= (high >= 1e16) & (high < 1e17)
    near = np.rint(tail)
    rest = tail - near  # v·10^p = longest + rest, |rest| ≤ ½
    longest = np.where(usable, high, 0.0).astype(np.int64) + near.astype(np.int64)
    half = 0.5 * np.spacing(size) * tens  # reading back allows this, except for powers of two
    last = longest % 10
    shorter = longest - last + np.where(last + rest > 5.0, 10, 0)
    distance = np.abs((shorter - longest).astype(np.float64) - rest)
    usable &= (np.abs(distance - half) > DOUBT) & (np.abs(distance - 5.0) > DOUBT)
    usable &= (np.abs(np.abs(rest) - 0.5) > DOUBT) & (np.frexp(size)[0] != 0.5)
    is_short = distance < half
    return np.where(is_short, shorter // 10, longest), is_short - places, usable


def _printed(size: np.ndarray) -> Attempt:
    whole, powers = np.zeros(size.size, np.int64), np.zeros(size.size, np.int64)
    for i, v in enumerate(size.tolist()):
        mantissa, _, power = repr(v).partition("e")
        before, _, after = mantissa.partition(".")
        digits = (before + after).rstrip("0")
        whole[i] = int(digits)
        powers[i] = int(power or 0) + len(before) - len(digits)
    return whole, powers, np.ones(size.size, bool)


_TENS = np.array([10.0**k for k in range(MOST_PLACES + 1)])


def product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(high, tail): a·b exactly as the unevaluated sum of two floats (Dekker)."""
    high = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return high, a2 * b2 - (((high - a1 * b1) - a2 * b1) - a1 * b2)


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x as a sum of two floats of 26 bits each."""
    scaled = 134217729.0 * x
    first = scaled - (scaled - x)
    return first, x - first


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
