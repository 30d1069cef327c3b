"""How time and memory grow, compared with peers: ``python -m benchmarks.suite --growth``.

Time against n (d = 20) and against d (n = 2,000), on Gaussian rows labelled by a random hyperplane,
no intercept: momentron to a certified gap of 1e-6, the others as in the suite, in turn and best of
three; one that misses its target or its time limit is not asked again for larger sizes. ``--before
CHECKOUT`` adds another version of momentron. Peak memory beyond X is that of a fresh process which
has X and has warmed up: resident memory as the kernel counts it, and allocations as tracemalloc
does (numpy's and Python's own, without those inside compiled solvers).
"""

from __future__ import annotations

import math
import multiprocessing
import tempfile
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.before_after import compare
from benchmarks.suite.problems import PROBLEMS, BenchProblem, Data, teacher
from benchmarks.suite.solvers import REFERENCE, SOLVERS, BenchSolver
from benchmarks.suite.task import Task, read_task, tiny_task, write_task
from benchmarks.suite.turns import FULL, QUICK, Limits, run_problem, with_reference
from momentron.api import max_margin
from momentron.errors import InputError
from tests.counters import peak_resident

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FEATURES = (50, 100, 200, 400, 800, 1_500, 3_000)
TOLERANCE = 1e-6
PEERS = ("liblinear-1e-4", "daqp", "quadprog", "piqp", "rehline", "skglm")
BEFORE = "momentron before"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Growth:
    """Seconds at growing sizes of n or d, by solver; nan where it missed its target."""

    axis: str
    sizes: tuple[int, ...]
    seconds: dict[str, list[float]]

    def exponent(self, solver: str, *, upper_half: bool = False) -> float:
        """The slope of log seconds against log size, by least squares over what was solved."""
        start = len(self.sizes) // 2 if upper_half else 0
        known = [
            (size, seconds)
            for size, seconds in zip(self.sizes[start:], self.seconds[solver][start:], strict=True)
            if math.isfinite(seconds)
        ]
        return fitted_exponent([size for size, _ in known], [seconds for _, seconds in known])


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
    axis: str,
    sizes: Sequence[int],
    make: Callable[[int], Data],
    peers: Sequence[BenchSolver] = (),
    *,
    limits: Limits = FULL,
    before: Path | None = None,
    say: Say = print,
) -> Growth:
    """Time momentron and its peers on the problem of each size, and another checkout of it."""
    running = with_reference(peers)
    seconds: dict[str, list[float]] = {solver.name: [] for solver in running}
    for size in sizes:
        problem = BenchProblem(f"{axis} = {size:,}", partial(make, size))
        result = run_problem(problem.name, problem.task(), running, limits=limits, say=say)
        solved = {e.solver: e.seconds for e in result.entries if e.error <= result.target}
        for name in seconds.keys() - {BEFORE}:
            seconds[name].append(solved.get(name, math.nan))
        running = [s for s in running if s.name == REFERENCE or s.name in solved]
        if before is not None:
            options = {"fit_intercept": False, "tol": TOLERANCE}
            checkouts = [before, Path(__file__).parents[2]]
            best = compare(checkouts, problem.load, options, limits.rounds)
            # its share of the time of this version, in the same minute
            seconds.setdefault(BEFORE, []).append(best["warm"].ratio * seconds[REFERENCE][-1])
    return Growth(axis, tuple(sizes), seconds)


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
    """A table, a column for each solver, and the exponents below it."""
    other = "d = 20" if growth.axis == "n" else "n = 2,000"
    lines = [
        f"seconds against {growth.axis}, {other}, teacher labels",
        "",
        f"| {growth.axis} | " + " | ".join(growth.seconds) + " |",
        "|---" * (1 + len(growth.seconds)) + "|",
    ]
    for place, size in enumerate(growth.sizes):
        times = (seconds[place] for seconds in growth.seconds.values())
        cells = (f"{t:.4f}" if math.isfinite(t) else "–" for t in times)
        lines.append(f"| {size:,} | " + " | ".join(cells) + " |")
    for name, upper_half in (("exponent", False), ("exponent, upper half", True)):
        found = (growth.exponent(solver, upper_half=upper_half) for solver in growth.seconds)
        cells = (f"{p:.2f}" if math.isfinite(p) else "–" for p in found)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(growths: Sequence[Growth]) -> Any:
    """Seconds against size, both on log axes, a panel for each."""
    from momentron.views.display.style import saved_figure

    figure, _ = saved_figure(size=(5.0 * len(growths), 4.0))
    figure.clear()
    panels = figure.subplots(1, len(growths), squeeze=False)[0]
    for axes, growth in zip(panels, growths, strict=True):
        for name, seconds in growth.seconds.items():
            width = 2.5 if name == REFERENCE else 1.2
            axes.plot(growth.sizes, seconds, "o-", label=name, linewidth=width, markersize=4)
        axes.set(xscale="log", yscale="log", xlabel=growth.axis, ylabel="seconds")
        axes.grid(alpha=0.3)
    panels[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    return figure


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


def run_growth(
    say: Say = print,
    *,
    peers: Sequence[BenchSolver] = (),
    before: Path | None = None,
    quick: bool = False,
) -> list[Growth]:
    """Measure and print all tables; `quick` leaves out the largest sizes and repetitions."""
    rows, features = (ROWS[:5], FEATURES[:5]) if quick else (ROWS, FEATURES)
    limits = replace(QUICK if quick else FULL, factor=10.0, short_rounds=5)
    chosen = peers or [SOLVERS[name] for name in PEERS]
    growths = []
    for axis, sizes, make in (
        ("n", rows, partial(teacher, d=20)),
        ("d", features, partial(teacher, 2_000)),
    ):
        growth = measure_growth(
            axis, sizes, make, chosen, limits=limits, before=before, say=lambda line: None
        )
        growths.append(growth)
        say(format_growth(growth))
        say("")
    memories = [measure_memory(name, X, y) for name, (X, y) in memory_problems()]
    say(format_memory(memories))
    return growths
