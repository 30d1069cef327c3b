"""Odd floating-point environments: denormals flushed, x87 cut to 53 bits, other roundings.

Each trial runs in a child of its own, in which another library might have left the processor so.
For x86-64 with glibc: there fenv_t has the x87 control word first, and MXCSR at byte 28.
"""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.hostile import guard, random_problems
from benchmarks.hostile.guard import outcome
from momentron import check_separability, max_margin, verify
from tests.oracles.truths import Rows, kind_of, truth_of

SIZE, X87, MXCSR = 32, 0, 28
FLUSH, DENORMALS_ARE_ZERO, PRECISION = 0x8000, 0x0040, 0x0300
TO_53_BITS, TO_24_BITS = 0x0200, 0x0000

# what is set, and to what: (x87 bits to clear, to set, MXCSR bits to clear, to set)
SETTINGS: dict[str, tuple[int, int, int, int]] = {
    "flush to zero": (0, 0, 0, FLUSH),
    "denormals are zero": (0, 0, 0, DENORMALS_ARE_ZERO),
    "both": (0, 0, 0, FLUSH | DENORMALS_ARE_ZERO),
    "x87 at 53 bits": (PRECISION, TO_53_BITS, 0, 0),
    "x87 at 24 bits": (PRECISION, TO_24_BITS, 0, 0),
    "rounds down": (0, 0x0400, 0, 0x2000),
    "rounds up": (0, 0x0800, 0, 0x4000),
    "rounds to zero": (0, 0x0C00, 0, 0x6000),
    "all at once": (PRECISION, TO_53_BITS | 0x0800, 0, FLUSH | DENORMALS_ARE_ZERO | 0x4000),
}


def is_supported() -> bool:
    """Whether this machine has the layout that is assumed here."""
    return platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"


@contextmanager
def applied(name: str) -> Iterator[None]:
    """The processor with a setting, and as it was afterwards."""
    libm = ctypes.CDLL(find_library("m") or "libm.so.6")
    before, changed = ctypes.create_string_buffer(SIZE), ctypes.create_string_buffer(SIZE)
    libm.fegetenv(before)
    content = bytearray(before.raw[:SIZE])
    clear, add, clear_sse, add_sse = SETTINGS[name]
    word = int.from_bytes(content[X87 : X87 + 2], "little") & ~clear | add
    content[X87 : X87 + 2] = word.to_bytes(2, "little")
    sse = int.from_bytes(content[MXCSR : MXCSR + 4], "little") & ~clear_sse | add_sse
    content[MXCSR : MXCSR + 4] = sse.to_bytes(4, "little")
    changed.raw = bytes(content)
    libm.fesetenv(changed)
    try:
        yield
    finally:
        libm.fesetenv(before)


def tiny(rng: np.random.Generator) -> str | None:
    """Entries at the bottom of the range, where each of them may vanish."""
    drawn = random_problems.draw(rng, widest=3, most=7)
    X = np.ldexp(np.rint(np.clip(drawn.X, -50.0, 50.0)), -1074 + int(rng.integers(0, 40)))
    truth = truth_of(Rows.of(X), drawn.y, drawn.fit_intercept)
    options: dict[str, Any] = {"fit_intercept": drawn.fit_intercept, "tol": 1e-6}
    if rng.random() < 0.5:
        return outcome(
            lambda: max_margin(X, drawn.y, **options),
            lambda found: truth.refutes(found, 1e-6),
            random_problems.SECONDS,
        )
    kind = kind_of(X, drawn.y, drawn.fit_intercept)

    def attempt() -> Any:
        verdict = check_separability(
            X, drawn.y, fit_intercept=drawn.fit_intercept, decimals="binary"
        )
        verify(verdict.to_json(), X, drawn.y)
        return verdict

    def judge(verdict: Any) -> str | None:
        if verdict.kind not in (kind, "undecided"):
            return f"{verdict.kind} for {kind} data"
        return truth.contradicts(verdict.lower, verdict.upper)

    return outcome(attempt, judge, random_problems.SECONDS)


def long_sums(rng: np.random.Generator) -> str | None:
    """Thousands of rows far from the origin: sums that need extended precision."""
    n, d = int(rng.integers(1100, 3000)), int(rng.integers(2, 4))
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) + 10.0 ** rng.uniform(0.0, 5.0)
    X[:, 0] += np.where(y == 1, 1.0, -1.0) * (8.0 + 0.1 * rng.random())
    truth = truth_of(Rows.of(X), y, True)
    options: dict[str, Any] = {"tol": float(rng.choice([1e-9, 1e-12, 0.0]))}
    if rng.random() < 0.5:
        options |= {"method": "momentum", "max_iter": int(rng.integers(2, 40))}
    return outcome(
        lambda: max_margin(X, y, **options),
        lambda found: truth.refutes(found, options["tol"]),
        random_problems.SECONDS,
    )


def sharp_kernels(rng: np.random.Generator) -> str | None:
    """Products given as a matrix, whose norms are summed in extended precision."""
    n = int(rng.integers(20, 60))
    points = rng.integers(-99, 100, (n, 3)).astype(np.float64)
    y = (points[:, 0] > 0).astype(int)
    y[:2] = [0, 1]
    points[:, 0] += np.where(y == 1, 200.0, -200.0)
    slack = Fraction(1, 4) if rng.random() < 0.5 else Fraction(0)
    truth = truth_of(Rows.of(points), y, True, slack=slack)
    options: dict[str, Any] = {"kernel": "precomputed", "tol": 1e-12}
    if slack:
        options["C"] = 2.0
    return outcome(
        lambda: max_margin(points @ points.T, y, **options),
        lambda found: truth.refutes(found, 1e-12),
        random_problems.SECONDS,
    )


FAMILIES = (
    tiny,
    tiny,
    long_sums,
    long_sums,
    sharp_kernels,
    random_problems.in_memory,
    random_problems.many_classes,
    random_problems.kernels,
    random_problems.verdicts,
    random_problems.streams,
)


def trial(seed: int, number: int) -> str | None:
    """One problem on an odd machine: why the answer is false, or None."""
    rng = np.random.default_rng([seed, number, 2])
    name = list(SETTINGS)[number % len(SETTINGS)]
    family = FAMILIES[int(rng.integers(len(FAMILIES)))]
    guard.surroundings = lambda: applied(name)
    try:
        reason = family(rng)
    finally:
        guard.surroundings = guard.nullcontext
    return None if reason is None else f"{reason} [{family.__name__}, {name}]"
