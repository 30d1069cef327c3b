"""Numbers as a proof writes them: hexadecimal text, read exactly or refused.

"0x1.8p+1" is the float 3, "-0x1f" the integer −31. Nothing is rounded on the way.
"""

import re

from momentron.verify import limits
from momentron.verify.errors import ProofTooLarge

FLOAT = re.compile(r"(-?)0x([0-9a-f]+)\.?([0-9a-f]*)p([+-]?[0-9]{1,5})")
INTEGER = re.compile(r"-?0x[0-9a-f]+")
LONGEST_FLOAT = 64  # characters


def number(text: str) -> int | float:
    """A hexadecimal float, a hexadecimal integer, or an infinity."""
    if text in ("inf", "-inf"):
        return float(text)
    return hexadecimal_float(text) if "p" in text else integer(text)


def hexadecimal_float(text: str) -> float:
    """A float64, in any hexadecimal spelling that says exactly its value."""
    parts = FLOAT.fullmatch(text) if len(text) <= LONGEST_FLOAT else None
    if parts is None:
        raise ValueError(f"{text[:50]!r} is not a hexadecimal float")
    value = float.fromhex(text)
    if value.hex() == text:
        return value
    # another spelling, such as 0x10p-4 for 1: what is written must be what is read
    sign, whole_part, fraction, power = parts.groups()
    mantissa = int(sign + whole_part + fraction, 16)
    exponent = int(power) - 4 * len(fraction)
    numerator, denominator = value.as_integer_ratio()
    if numerator << max(0, -exponent) != (mantissa * denominator) << max(0, exponent):
        raise ValueError(f"{text[:50]!r} is not a float64: it would be rounded")
    return value


def integer(text: str) -> int:
    """A hexadecimal integer of bounded length."""
    if len(text) > limits.MAX_DIGITS:
        raise ProofTooLarge(
            f"a number has {len(text)} digits; at most {limits.MAX_DIGITS} are read"
        )
    if not INTEGER.fullmatch(text):
        raise ValueError(f"{text[:50]!r} is not a hexadecimal integer")
    return int(text, 16)


def whole_numbers(texts: list[str]) -> list[int]:
    """Numbers times the least power of two that makes all of them whole.

    >>> whole_numbers(["0x1.8p+0", "0x1", "-0x1p-2"])
    [6, 4, -1]
    """
    ratios = [number(text).as_integer_ratio() for text in texts]
    common = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (common // denominator) for numerator, denominator in ratios]
