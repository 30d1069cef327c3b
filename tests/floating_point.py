"""Sets this thread's floating-point environment as a careless library would, for tests.

Only glibc on x86-64, whose fenv_t has the x87 control word at byte 0 and the MXCSR at byte 28.
"""

import ctypes
import platform
import subprocess
import sys

SUPPORTED = (
    sys.platform == "linux" and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"
)
FLUSH, SUBNORMALS_ARE_ZERO = 1 << 15, 1 << 6
ROUND = {"down": 1, "up": 2, "zero": 3}


def set_environment(name: str) -> None:
    """One of the names of ENVIRONMENTS."""
    library = ctypes.CDLL(None)
    state = ctypes.create_string_buffer(512)
    library.fegetenv(state)
    control, mxcsr = (ctypes.c_uint16.from_buffer(state, 0), ctypes.c_uint32.from_buffer(state, 28))
    if name in ("flush", "flush and zero"):
        mxcsr.value |= FLUSH
    if name in ("zero subnormals", "flush and zero"):
        mxcsr.value |= SUBNORMALS_ARE_ZERO
    if name == "53 bits":
        control.value = control.value & ~(3 << 8) | 2 << 8
    if name == "24 bits":
        control.value &= ~(3 << 8)
    if name in ROUND:
        mxcsr.value = mxcsr.value & ~(3 << 13) | ROUND[name] << 13
        control.value = control.value & ~(3 << 10) | ROUND[name] << 10
    assert library.fesetenv(state) == 0


def control_words() -> tuple[int, int]:
    """(x87 control word, MXCSR without its status flags): equal for equal environments."""
    state = ctypes.create_string_buffer(512)
    ctypes.CDLL(None).fegetenv(state)
    control, mxcsr = (ctypes.c_uint16.from_buffer(state, 0), ctypes.c_uint32.from_buffer(state, 28))
    return control.value, mxcsr.value & ~0x3F


ENVIRONMENTS = ("flush", "zero subnormals", "flush and zero", "53 bits", "24 bits", *ROUND)


def run(script: str, timeout: float = 120.0) -> str:
    """What a script prints in a process of its own, so that the tests' environment stays."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=__file__.rpartition("/")[0],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
