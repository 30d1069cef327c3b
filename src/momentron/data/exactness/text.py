"""Decimal text: whether the nearest float64 says the same to the last digit."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from momentron.data.exactness.decimals import product

SAFE_DIGITS = 15  # so many always survive: 10¹⁵ < 2⁵²
MOST_DIGITS = 4000  # a float64 written out in full has 1,075 decimals
PIECE = 1 << 17  # bytes looked at together: they stay in the cache
_SMALL = re.compile(rb"[eE]-0*[1-9][0-9]{2}")
_NUMBER = re.compile(r"\s*[+-]?(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?\s*")
_SUBNORMAL = 2.0**-1021


def may_change(content: bytes) -> bool:
    """Whether text has a number so long, or so close to 0, that float64 might change it.

    A look at the bytes, much faster than parsing them.
    """
    for start in range(0, len(content), PIECE):
        piece = np.frombuffer(content[start : start + PIECE + SAFE_DIGITS], np.uint8)
        run = _is_digit(piece) | (piece == ord("."))
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
    for i in doubtful_cells("\n".join(texts).encode(), values):
        if not is_kept(texts[i], float(values[i])):
            return int(i)
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


def doubtful_cells(cells: bytes, values: np.ndarray) -> np.ndarray:
    """The places of the cells that only `is_kept` can decide: hardly any of ordinary numbers.

    |v|·10^p as an unevaluated sum of two floats (Dekker), less the digits, is the error in units of
    the last digit.

    Parameters
    ----------
    cells : bytes
        Separated by line feeds.
    values : ndarray
        What they were read as.
    """
    found = _Decimals(np.frombuffer(cells + b"\n", np.uint8))
    if found.ends.size != values.size:
        return np.arange(values.size)
    size = np.abs(values)
    is_sure = found.is_plain & (found.power >= 0) & (found.power <= 22)
    factor = 10.0 ** np.where(is_sure, found.power, 0)
    with np.errstate(all="ignore"):
        high, tail = product(size, factor)
        is_sure &= high < 2.0**63
        floor = np.floor(np.where(is_sure, high, 0.0))
        count = (floor.astype(np.uint64) - found.digits).view(np.int64)
        is_sure &= np.abs(count + ((high - floor) + tail)) < 0.499
    is_short = (found.lengths <= SAFE_DIGITS) & (size > _SUBNORMAL)
    return np.flatnonzero(~(is_sure | is_short))


class _Decimals:
    """Cells of text that end in line feeds, as |cell| = digits / 10^power where they are plain."""

    def __init__(self, text: np.ndarray) -> None:
        self.ends = np.flatnonzero(text == ord("\n"))
        starts = np.append(0, self.ends[:-1] + 1)
        self.lengths = self.ends - starts
        marks, n_marks = _only(np.flatnonzero((text | 32) == ord("e")), starts, self.ends)
        points, n_points = _only(np.flatnonzero(text == ord(".")), starts, self.ends)
        signs = _is_sign(text, starts, self.lengths > 0)
        signs += _is_sign(text, np.minimum(marks + 1, self.ends), n_marks > 0)
        count = np.add.reduceat(_is_digit(text), starts, dtype=np.int64)
        self.is_plain = (
            (count + n_marks + n_points + signs == self.lengths)
            & ((n_points == 0) | (points < marks))
            & (marks - starts <= 21)  # a sign, a point, and 19 digits, which uint64 holds
            & (self.ends - marks <= 5)
        )
        whole_end = np.minimum(points, marks)
        fraction = np.maximum(marks - points - 1, 0)
        before, after = _number(text, starts, whole_end, 19), _number(text, points + 1, marks, 19)
        self.digits = before * _TENS[np.minimum(fraction, 19)] + after
        exponent = _number(text, marks + 1, self.ends, 3).astype(np.int64)
        is_negative = text[np.minimum(marks + 1, self.ends)] == ord("-")
        self.power = fraction - np.where(is_negative, -exponent, exponent)


_TENS = np.array([10**k for k in range(20)], np.uint64)


def _only(places: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, Any]:
    """(the first of the places in each cell, or its end; how many there are)."""
    low, high = np.searchsorted(places, starts), np.searchsorted(places, ends)
    return np.where(high > low, np.append(places, 0)[low], ends), high - low


def _is_digit(text: np.ndarray) -> np.ndarray:
    return (text - np.uint8(48)) < 10


def _is_sign(text: np.ndarray, places: np.ndarray, there: np.ndarray) -> np.ndarray:
    signs = text[places]
    return (((signs == ord("-")) | (signs == ord("+"))) & there).astype(np.int64)


def _number(text: np.ndarray, starts: np.ndarray, ends: np.ndarray, most: int) -> np.ndarray:
    """The last digits, at most so many, of what lies between, as a whole number."""
    total = np.zeros(starts.size, np.uint64)
    for k in range(min(most, int((ends - starts).max(initial=0)))):
        places = ends - 1 - k
        digit = text[np.maximum(places, 0)] - np.uint8(48)
        digit[(places < starts) | (digit > 9)] = 0
        total += digit * _TENS[k]
    return total
