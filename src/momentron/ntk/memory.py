"""Sizes of memory as people read them."""

_UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3}


def format_memory(n_bytes: float) -> str:
    """Bytes in the unit in which they read best, rounded up to two digits after the point.

    Examples
    --------
    >>> format_memory(1_234_000_000), format_memory(999)
    ('1.24GB', '999B')
    """
    for unit, size in _UNITS.items():
        if n_bytes >= size:
            hundredths = -int(-100 * n_bytes // size)
            return f"{hundredths / 100:.2f}{unit}"
    return f"{int(n_bytes)}B"
