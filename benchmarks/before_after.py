"""Two versions of momentron on the problems of the suite, in one interleaved run.

    python -m benchmarks.before_after OLD NEW [--rounds 7] [--problem NAME …]

OLD and NEW are checkouts. Each has a process of its own per problem, which gets the same data from
a file; the two take turns, and the best time of each counts. The ratio is old over new: above 1 is
faster than before.
"""

import argparse
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SETTLE = 0.05  # seconds until the other process's threads have gone to sleep

CHILD = """
import pickle, sys, time, warnings
warnings.simplefilter("ignore")
from momentron import max_margin
X, y, options = pickle.load(open(sys.argv[1], "rb"))
max_margin([[1.0], [-1.0]], [1, 0])
for line in sys.stdin:
    start = time.perf_counter()
    result = max_margin(X, y, **options)
    seconds = time.perf_counter() - start
    print(seconds, result.lower, result.upper, flush=True)
"""


class Version:
    """A checkout's solver, in a process of its own."""

    def __init__(self, checkout: Path, data: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self) -> tuple[float, float, float]:
        """(seconds, lower, upper)."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print("run", file=self._process.stdin, flush=True)
        seconds, lower, upper = map(float, self._process.stdout.readline().split())
        return seconds, lower, upper

    def close(self) -> None:
        self._process.communicate()


def cases(names: list[str]) -> dict[str, Any]:
    """The problems of the suite as arguments of `max_margin`, by name; all where none is named."""
    from benchmarks.suite.problems import PROBLEMS

    found: dict[str, Any] = {}
    for name, problem in PROBLEMS.items():
        if not names or name in names:
            options = {"fit_intercept": problem.fit_intercept, "C": problem.C, "tol": 1e-6}
            found[name] = (problem.load, options)
    return found


def compare(checkouts: list[Path], load: Any, options: dict[str, Any], rounds: int) -> list[float]:
    """The best time of each version; their intervals must have a point in common."""
    X, y = load()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.pickle"
        file.write_bytes(pickle.dumps((X, y, options), protocol=5))
        versions = [Version(checkout, file) for checkout in checkouts]
        best = [math.inf, math.inf]
        bounds: list[tuple[float, float]] = [(0.0, math.inf)] * 2
        for turn in range(rounds + 1):  # the first is a warm-up
            for i in (0, 1) if turn % 2 else (1, 0):
                time.sleep(SETTLE)
                seconds, *interval = versions[i].run()
                bounds[i] = (interval[0], interval[1])
                if turn:
                    best[i] = min(best[i], seconds)
        for version in versions:
            version.close()
    if max(low for low, _ in bounds) > min(high for _, high in bounds):
        raise SystemExit(f"the two versions' intervals contradict each other: {bounds}")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--problem", action="append", default=[])
    arguments = parser.parse_args()
    ratios = []
    print("| problem | before, s | after, s | ratio |\n|---|---|---|---|", flush=True)
    for name, (load, options) in cases(arguments.problem).items():
        old, new = compare([arguments.old, arguments.new], load, options, arguments.rounds)
        ratios.append(old / new)
        print(f"| {name} | {old:.5f} | {new:.5f} | {old / new:.2f} |", flush=True)
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    print(f"\ngeometric mean of the ratios: {mean:.3f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
