"""The floating-point environment that every bound and proof assumes, looked at before each of them.

Round to nearest, subnormal numbers kept, and on x86 long doubles with 64 bits: any library that is
loaded may change these for the whole thread (one compiled with -ffast-math flushes subnormals to
zero). A look costs a microsecond; only where something is amiss is the standard environment set,
and the user's own put back afterwards.
"""

import ctypes
import math
import platform
import struct
import sys
from contextlib import ContextDecorator
from typing import Any

import numpy as np

from momentron.errors import ArithmeticEnvironmentError

_EXTENDED = int(np.finfo(np.longdouble).nmant) == 63
_ENVIRONMENT_BYTES = 512  # above any fenv_t
_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV of the C libraries of Linux on x86-64
_KNOWN = sys.platform == "linux" and platform.machine() == "x86_64"

# From their bits: literals and powers would be rounded in the environment in question.
_SMALLEST, _LEAST_NORMAL = struct.unpack("<dd", struct.pack("<QQ", 1, 1 << 52))
_HUGE, _HUGE_TIMES_SMALLEST, _HALF_OF_HUGE_TIMES_LEAST_NORMAL = (
    math.ldexp(1.0, exponent) for exponent in (1000, -74, -23)
)
_ONE, _STEP, _HALF_STEP = (math.ldexp(1.0, exponent) for exponent in (0, -52, -53))
_LONG_ONE = np.longdouble(1)
_LONG_STEP = _LONG_ONE / 2**63
_LONG_HALF_STEP = _LONG_STEP / 2


def fault() -> str | None:
    """What is not as assumed in this thread's arithmetic; None where all is."""
    # Products that are normal again, since two subnormals may compare as equal to zero.
    if (
        _SMALLEST * _HUGE != _HUGE_TIMES_SMALLEST
        or _LEAST_NORMAL * 0.5 * _HUGE != _HALF_OF_HUGE_TIMES_LEAST_NORMAL
    ):
        return "subnormal numbers are flushed to zero"
    if _ONE + _HALF_STEP != _ONE or _ONE + _STEP + _HALF_STEP != _ONE + _STEP + _STEP:
        return "float64 is not rounded to nearest"
    if _EXTENDED:
        next_one = _LONG_ONE + _LONG_STEP
        if next_one == _LONG_ONE:
            return "long doubles are rounded to fewer than 64 bits"
        is_even_kept = _LONG_ONE + _LONG_HALF_STEP == _LONG_ONE
        if not is_even_kept or next_one + _LONG_HALF_STEP != next_one + _LONG_STEP:
            return "long doubles are not rounded to nearest"
    return None


class standard_arithmetic(ContextDecorator):
    """Within it, this thread's float64 and long double arithmetic is as the proofs assume.

    A context manager, and a decorator of functions.

    Raises
    ------
    ArithmeticEnvironmentError
        Where it is not, and cannot be set.

    >>> with standard_arithmetic():
    ...     5e-324 * 1.0
    5e-324
    """

    def _recreate_cm(self) -> "standard_arithmetic":
        return standard_arithmetic()  # each call of a decorated function has its own

    def __enter__(self) -> None:
        found = fault()
        self._users = None if found is None else _replace_environment(found)

    def __exit__(self, *error: object) -> None:
        if self._users is not None:
            ctypes.CDLL(None).fesetenv(self._users)


def _replace_environment(found: str) -> Any:
    """The environment that was in force, with the standard one in its place."""
    users = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    if _KNOWN:
        library = ctypes.CDLL(None)
        library.fegetenv(users)
        library.fesetenv(_DEFAULT)
        if fault() is None:
            return users
        library.fesetenv(users)
    raise ArithmeticEnvironmentError(
        f"the floating-point environment is not the standard one: {found}, so nothing could be "
        "proven; a library compiled with -ffast-math, or one that sets rounding or x87 precision, "
        "was probably loaded: run momentron in a process without it"
    )
