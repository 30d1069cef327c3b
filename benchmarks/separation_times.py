"""``python -m benchmarks.separation_times``: verdicts with all estimates, next to one LP of HiGHS.

Each cell runs in a process of its own, so that its peak of memory is known. HiGHS solves one linear
program, max Σ t subject to A w ≥ t and 0 ≤ t ≤ 1: it names the separated rows in floats, without a
proof and without a word on the coefficients.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

Data = tuple[Any, np.ndarray]
SECONDS = 600  # for a verdict with its estimates, and for HiGHS
DIGITS = 3  # decimals of dense entries


def dense(n: int, d: int, seed: int = 0) -> Data:
    """Normal columns and one indicator that only the second class has: quasi-separated.

    With fewer than 2·d rows the classes are completely separated (Cover 1965).
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).round(DIGITS)
    y = (X[:, 0] + rng.logistic(size=n) > 0).astype(int)
    X[:, -1] = (y == 1) & (rng.random(n) < 0.1)
    return X, y


def dummies(n: int, d: int, seed: int = 0) -> Data:
    """Two factors as dummies and two numbers; one level of the first in ten has one outcome."""
    rng = np.random.default_rng(seed)
    n_first = (2 * (d - 2)) // 3
    sizes = n_first, d - 2 - n_first
    levels = [rng.integers(0, size + 1, n) for size in sizes]
    numbers = rng.normal(size=(n, 2)).round(DIGITS)
    y = (numbers[:, 0] + rng.logistic(size=n) > 0).astype(int)
    constant = np.flatnonzero(rng.random(sizes[0] + 1) < 0.1)
    is_constant = np.isin(levels[0], constant)
    y[is_constant] = levels[0][is_constant] % 2
    parts = [
        sp.csr_array((np.ones(n), (np.arange(n), level)), shape=(n, size + 1))[:, 1:]
        for level, size in zip(levels, sizes, strict=True)
    ]
    return sp.hstack([*parts, sp.csr_array(numbers)], format="csr"), y


def classes(n: int, d: int, k: int, seed: int = 0) -> Data:
    """k classes in normal columns, with an indicator that the first class alone has."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).round(DIGITS)
    y = (X[:, :k] + rng.gumbel(size=(n, k))).argmax(axis=1)
    X[:, -1] = (y == 0) & (rng.random(n) < 0.1)
    return X, y


CELLS: dict[str, Callable[[], Data]] = {
    "1e3 × 50 dense": lambda: dense(1_000, 50),
    "1e3 × 500 dense": lambda: dense(1_000, 500),
    "1e3 × 500 dummies": lambda: dummies(1_000, 500),
    "1e4 × 50 dense, 5 classes": lambda: classes(10_000, 50, 5),
    "1e5 × 50 dense": lambda: dense(100_000, 50),
    "1e5 × 500 dummies": lambda: dummies(100_000, 500),
    "1e6 × 5 dense": lambda: dense(1_000_000, 5),
    "1e6 × 500 dummies": lambda: dummies(1_000_000, 500),
}


def ours(X: Any, y: np.ndarray) -> str:
    """Kind and estimates of a verdict, or what is missing."""
    from momentron import check_separability

    verdict = check_separability(X, y, max_time=SECONDS)
    counts = Counter(found.estimate for found in verdict.estimates)
    words = ", ".join(f"{n} {word}" for word, n in counts.most_common())
    return f"{verdict.kind}: {words or verdict.reason or 'no estimates'}"


def highs(X: Any, y: np.ndarray) -> str:
    """The number of rows that HiGHS finds separated, or that it found nothing in time."""
    from scipy.optimize import linprog

    A = pair_rows(X, y)
    n, d = A.shape
    found = linprog(
        np.r_[np.zeros(d), -np.ones(n)],
        A_ub=sp.hstack([-A, sp.eye_array(n)], format="csr"),
        b_ub=np.zeros(n),
        bounds=[(None, None)] * d + [(0.0, 1.0)] * n,
        method="highs",
        options={"time_limit": SECONDS},
    )
    return f"{round(-found.fun)} strict pairs" if found.status == 0 else "no answer in time"


def pair_rows(X: Any, y: np.ndarray) -> Any:
    """The vectors a of all pairs: ±x̃ for two classes, in blocks for more."""
    rows = sp.hstack([sp.csr_array(X), np.ones((len(y), 1))], format="csr")
    k = int(y.max()) + 1
    if k == 2:
        return sp.diags_array(2.0 * y - 1.0) @ rows
    unit = np.vstack([np.zeros(k - 1), np.eye(k - 1)])
    parts = []
    for c in range(k):
        own = rows[y == c]
        parts += [sp.kron(unit[[c]] - unit[[j]], own, format="csr") for j in range(k) if j != c]
    return sp.vstack(parts, format="csr")


def measure(name: str, who: str) -> None:
    """Print CPU and wall-clock seconds, the peak of memory in GB, and the answer."""
    X, y = CELLS[name]()
    solve = {"momentron": ours, "HiGHS": highs}[who]
    clock, start = time.perf_counter(), time.process_time()
    answer = solve(X, y)
    wall, cpu = time.perf_counter() - clock, time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{cpu:.1f} | {wall:.1f} | {peak:.1f} | {answer}", flush=True)


def main() -> None:
    """Print the table in Markdown, a row per cell and program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cells whose name has this text")
    parser.add_argument("--without-highs", action="store_true")
    parser.add_argument("--cell", nargs=2, metavar=("NAME", "PROGRAM"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        measure(*given.cell)
        return
    print("| data | program | CPU s | s | GB | answer |\n|---|---|---|---|---|---|")
    programs = ["momentron"] if given.without_highs else ["momentron", "HiGHS"]
    for name in (name for name in CELLS if given.only in name):
        for who in programs:
            command = [sys.executable, "-m", "benchmarks.separation_times", "--cell", name, who]
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            line = found.stdout.strip() or f"– | – | – | {found.stderr.strip()[-80:]}"
            print(f"| {name} | {who} | {line} |", flush=True)


if __name__ == "__main__":
    main()
