"""Two versions of momentron on the problems of the suite, in one interleaved run.

    python -m benchmarks.before_after OLD NEW [--rounds 7] [--problem NAME …]

OLD and NEW are checkouts. Each has a process of its own per problem, which gets the same data from
a file; the two take turns, and the best time of each counts. The ratio is old over new: above 1 is
faster than before. Cold is the first call in a child that is forked for it, after the imports.
"""

import argparse
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETTLE = 0.05  # seconds until the other process's threads have gone to sleep

CHILD = """
import os, pickle, sys, time, warnings
warnings.simplefilter("ignore")
from momentron import max_margin
X, y, options = pickle.load(open(sys.argv[1], "rb"))

def call():
    start = time.perf_counter()
    result = max_margin(X, y, **options)
    seconds = time.perf_counter() - start
    print(seconds, result.lower, result.upper, flush=True)

for line in sys.stdin:
    if line.strip() == "warm":
        call()
    elif not os.fork():
        call()
        os._exit(0)
    else:
        os.wait()
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

    def run(self, kind: str) -> tuple[float, float, float]:
        """(seconds, lower, upper) of a call, cold or warm; no cold one comes after a warm one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(kind, file=self._process.stdin, flush=True)
        seconds, lower, upper = map(float, self._process.stdout.readline().split())
        return seconds, lower, upper

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Times:
    """The best times of the old and the new version, in seconds."""

    old: float = math.inf
    new: float = math.inf

    @property
    def ratio(self) -> float:
        return self.old / self.new

    def __str__(self) -> str:
        return f"{self.old:.5f} | {self.new:.5f} | {self.ratio:.2f}"


def cases(names: list[str]) -> dict[str, Any]:
    """The problems of the suite as arguments of `max_margin`, by name; all where none is named."""
    from benchmarks.suite.problems import PROBLEMS

    found: dict[str, Any] = {}
    for name, problem in PROBLEMS.items():
        if not names or name in names:
            options = {"fit_intercept": problem.fit_intercept, "C": problem.C, "tol": 1e-6}
            found[name] = (problem.load, options)
    return found


def compare(
    checkouts: list[Path], load: Any, options: dict[str, Any], rounds: int
) -> dict[str, Times]:
    """The best times of both versions, cold and warm; their intervals have a point in common."""
    X, y = load()
    best = {"cold": Times(), "warm": Times()}
    lower, upper = 0.0, math.inf
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.pickle"
        file.write_bytes(pickle.dumps((X, y, options), protocol=5))
        versions = {"old": Version(checkouts[0], file), "new": Version(checkouts[1], file)}
        for kind, times in best.items():
            for turn in range(rounds + 1):  # the first is a warm-up
                for name in ("old", "new") if turn % 2 else ("new", "old"):
                    time.sleep(SETTLE)
                    seconds, *interval = versions[name].run(kind)
                    lower, upper = max(lower, interval[0]), min(upper, interval[1])
                    if turn:
                        setattr(times, name, min(getattr(times, name), seconds))
        for version in versions.values():
            version.close()
    if lower > upper:
        raise SystemExit(f"the two versions' intervals contradict each other: {lower} > {upper}")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--problem", action="append", default=[])
    arguments = parser.parse_args()
    ratios: dict[str, list[float]] = {"warm": [], "cold": []}
    print("| problem | warm before, s | after, s | ratio | cold before, s | after, s | ratio |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, (load, options) in cases(arguments.problem).items():
        best = compare([arguments.old, arguments.new], load, options, arguments.rounds)
        for kind, found in ratios.items():
            found.append(best[kind].ratio)
        print(f"| {name} | {best['warm']} | {best['cold']} |", flush=True)
    print()
    for kind, found in ratios.items():
        mean = math.exp(sum(math.log(ratio) for ratio in found) / len(found))
        print(f"{kind}: geometric mean of the ratios {mean:.3f}, least {min(found):.2f}")


if __name__ == "__main__":
    main()
