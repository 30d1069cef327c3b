"""Sizes of memory as users write them."""

import re
from numbers import Integral

from momentron.errors import InputError

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*")


def parse_memory(size: str | int) -> int:
    """Bytes of a size such as "256MB", "1.5 GB", "2GiB" or a number of bytes.

    Raises
    ------
    InputError
        If it is not a size, or less than one byte.

    Examples
    --------
    >>> parse_memory("256MB"), parse_memory("1KiB"), parse_memory(512)
    (256000000, 1024, 512)
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise InputError(_complaint(size))
        n_bytes = int(float(match[1]) * unit)
    elif isinstance(size, Integral) and not isinstance(size, bool):
        n_bytes = int(size)
    else:
        raise InputError(_complaint(size))
    if n_bytes < 1:
        raise InputError(f"max_memory={size!r} is below the least of 1 byte; pass e.g. '1GB'")
    return n_bytes


def format_memory(n_bytes: float) -> str:
    """Bytes in the unit in which they read best, rounded up to two digits after the point.

    Examples
    --------
    >>> format_memory(1_234_000_000), format_memory(999)
    ('1.24GB', '999B')
    """
    for unit in ("TB", "GB", "MB", "KB"):
        if n_bytes >= _UNITS[unit]:
            hundredths = -int(-100 * n_bytes // _UNITS[unit])
            return f"{hundredths / 100:.2f}{unit}"
    return f"{int(n_bytes)}B"


def _complaint(size: object) -> str:
    return (
        f"max_memory={size!r} is not a size of memory; write it as '256MB', '2GB', '1.5GiB' "
        "or as a whole number of bytes"
    )
