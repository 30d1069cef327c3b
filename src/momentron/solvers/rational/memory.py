"""How much memory a verdict may take besides the data, and what is too large for one."""

from momentron.data.arguments import machine_memory

MEMORY = 2 << 30  # bytes
SHARE = 4  # at most one part in so many of the memory of the machine


class TooLarge(ArithmeticError):
    """Too much for exact arithmetic, or for memory: the verdict is undecided."""


def memory_cap() -> int:
    """Bytes that a verdict's own matrices and numbers may take, besides the data."""
    return int(min(MEMORY, machine_memory() / SHARE))


def require_memory(size: float, what: str) -> None:
    """Raise TooLarge, before anything is built, unless so many bytes are within the cap."""
    cap = memory_cap()
    if size > cap:
        raise TooLarge(
            f"{what} would take {size / 2**30:.1f} GB; at most {cap / 2**30:.1f} GB may be used"
        )
