"""How time and memory grow: ``python -m benchmarks.suite.growth``.

Time against n (d = 20) and against d (n = 2,000), on Gaussian rows labelled by a random hyperplane,
no intercept, to a certified gap of 1e-6; best of three. Peak memory beyond X is that of a fresh
process which has X and has warmed up: resident memory as the kernel counts it, and allocations as
tracemalloc does (numpy's and Python's own, without those inside compiled solvers).
"""

from __future__ import annotations

import math
import multiprocessing
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.memory import peak_resident
from benchmarks.suite.problems import PROBLEMS, Data, teacher
from benchmarks.suite.task import Task, read_task, tiny_task, write_task
from momentron.api import max_margin
from momentron.errors import InputError

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FEATURES = (50, 100, 200, 400, 800, 1_500, 3_000)
ROUNDS = 3
TOLERANCE = 1e-6

Say = Callable[[str], None]


@dataclass(frozen=True)
class Growth:
    """Seconds and certified gaps at growing sizes of n or d."""

    axis: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    gaps: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """The slope of log seconds against log size, by least squares over all sizes."""
        return fitted_exponent(self.sizes, self.seconds)

    @property
    def upper_exponent(self) -> float:
        """The same over the upper half of the sizes, where fixed costs weigh little."""
        half = len(self.sizes) // 2
        return fitted_exponent(self.sizes[half:], self.seconds[half:])


@dataclass(frozen=True)
class Memory:
    """Peak bytes beyond X of one `max_margin` call."""

    name: str
    shape: tuple[int, int]
    bytes_of_X: int
    resident: int
    allocated: int


def fitted_exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """p of seconds ≈ c · sizeᵖ."""
    if len(sizes) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def measure_growth(
    axis: str, sizes: Sequence[int], make: Callable[[int], Data], *, rounds: int = ROUNDS
) -> Growth:
    """Time `max_margin` on the problem of each size."""
    seconds, gaps = [], []
    for size in sizes:
        X, y = make(size)
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            result = max_margin(X, y, fit_intercept=False, tol=TOLERANCE)
            times.append(time.perf_counter() - start)
        seconds.append(min(times))
        gaps.append(result.gap)
    return Growth(axis, tuple(sizes), tuple(seconds), tuple(gaps))


def measure_memory(name: str, X: np.ndarray, y: np.ndarray) -> Memory:
    """Peak memory beyond X, each kind in a fresh process."""
    with tempfile.TemporaryDirectory(prefix="momentron-growth-") as folder:
        file = Path(folder) / "task.npz"
        write_task(file, Task(X, y))
        resident, allocated = (_in_child(file, traced) for traced in (False, True))
    return Memory(name, X.shape, X.nbytes, resident, allocated)


def _in_child(file: Path, traced: bool) -> int:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_report_peak, args=(theirs, str(file), traced), daemon=True)
    child.start()
    theirs.close()
    try:
        return int(ours.recv())
    except EOFError:
        child.join()
        raise MemoryError(f"the child process died (exit code {child.exitcode})") from None
    finally:
        child.join()


def _report_peak(connection: Connection, file: str, traced: bool) -> None:
    task = read_task(Path(file))
    tiny = tiny_task(task)
    max_margin(tiny.X, tiny.y, fit_intercept=False, tol=TOLERANCE)
    if traced:
        tracemalloc.start()
        max_margin(task.X, task.y, fit_intercept=False, tol=TOLERANCE)
        connection.send(tracemalloc.get_traced_memory()[1])
        return
    before = peak_resident(reset=True)
    max_margin(task.X, task.y, fit_intercept=False, tol=TOLERANCE)
    connection.send(peak_resident() - before)


def memory_problems() -> list[tuple[str, Data]]:
    """1,000,000 × 20, and MNIST 0/1 or random data of its shape."""
    try:
        second = ("MNIST 0/1", PROBLEMS["mnist-01"].load())
    except (InputError, OSError):
        second = ("teacher (MNIST is not available)", teacher(12_665, 784))
    return [("teacher", teacher(1_000_000, 20)), second]


def format_growth(growth: Growth) -> str:
    other = "d = 20" if growth.axis == "n" else "n = 2,000"
    lines = [
        f"time against {growth.axis}, {other}, teacher labels",
        f"  {growth.axis:>10} {'seconds':>10} {'gap':>9}",
    ]
    for size, seconds, gap in zip(growth.sizes, growth.seconds, growth.gaps, strict=True):
        lines.append(f"  {size:>10,} {seconds:>10.4f} {gap:>9.1e}")
    lines.append(
        f"  fitted exponent {growth.exponent:.2f} over all, {growth.upper_exponent:.2f} over the "
        "upper half"
    )
    return "\n".join(lines)


def format_memory(memories: Sequence[Memory]) -> str:
    lines = [
        "peak memory beyond X, as a multiple of X",
        f"  {'data':<34} {'shape':>16} {'X, MB':>8} {'resident':>9} {'allocated':>9}",
    ]
    for m in memories:
        shape = f"{m.shape[0]:,} × {m.shape[1]:,}"
        lines.append(
            f"  {m.name:<34} {shape:>16} {m.bytes_of_X / 1e6:>8.1f} "
            f"{m.resident / m.bytes_of_X:>9.2f} {m.allocated / m.bytes_of_X:>9.2f}"
        )
    return "\n".join(lines)


def run_growth(say: Say = print, *, quick: bool = False) -> None:
    """Measure and print all tables; `quick` leaves out the largest sizes and repetitions."""
    rows, features = (ROWS[:5], FEATURES[:5]) if quick else (ROWS, FEATURES)
    rounds = 1 if quick else ROUNDS
    say(format_growth(measure_growth("n", rows, partial(teacher, d=20), rounds=rounds)))
    say("")
    say(format_growth(measure_growth("d", features, partial(teacher, 2_000), rounds=rounds)))
    say("")
    memories = [measure_memory(name, X, y) for name, (X, y) in memory_problems()]
    say(format_memory(memories))


if __name__ == "__main__":
    run_growth()
