"""What warm starts save: a path of twenty values of C, and refits after 1 % new rows.

    python -m benchmarks.warm_starts

Each problem of the suite that is named is solved cold and warm in turn, and the best of the rounds
counts. A refit starts from the result for the first 99 % of the rows, in an order drawn again for
each seed; its figures are medians over seeds.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.suite.problems import PROBLEMS
from benchmarks.suite.task import Task
from momentron import max_margin

PATHS = ("a9a-soft", "w8a-soft", "mushrooms", "mnist-01", "teacher-5000x200", "noise-1000x800")
REFITS = (
    "mnist-01",
    "mnist-01-intercept",
    "noise-1000x800",
    "teacher-5000x200",
    "teacher-20000x500",
    "mushrooms",
    "sparse-100000x50000",
    "tall-1000000x20",
)


def path(task: Task, *, is_warm: bool) -> None:
    """Twenty soft margins with an intercept, C·mean‖x‖² from 0.1 to 1,000."""
    X = task.X
    squares = X.power(2).sum(axis=1) if task.is_sparse else np.einsum("ij,ij->i", X, X)
    result = None
    for C in np.logspace(-1, 3, 20) / float(np.mean(squares)):
        result = max_margin(X, task.y, C=float(C), initial=result if is_warm else None)


def race(cold: Callable[[], Any], warm: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The best seconds of each, run in turn."""
    best = [np.inf, np.inf]
    for _ in range(rounds):
        for i, run in enumerate((cold, warm)):
            begin = time.perf_counter()
            run()
            best[i] = min(best[i], time.perf_counter() - begin)
    return best[0], best[1]


def race_on_path(task: Task, rounds: int) -> tuple[float, float]:
    return race(lambda: path(task, is_warm=False), lambda: path(task, is_warm=True), rounds)


def race_on_refits(task: Task, rounds: int, seeds: int) -> tuple[float, float]:
    """Medians over seeds, those of the ratio deciding."""
    n = task.shape[0]
    options: dict[str, Any] = {"fit_intercept": task.fit_intercept}
    times = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(n)
        X, y = task.X[order], task.y[order]
        first = max_margin(X[: int(0.99 * n)], y[: int(0.99 * n)], **options)

        def cold(X: Any = X, y: np.ndarray = y) -> None:
            max_margin(X, y, **options)

        def warm(X: Any = X, y: np.ndarray = y, first: Any = first) -> None:
            max_margin(X, y, initial=first, **options)

        times.append(race(cold, warm, rounds))
    times.sort(key=lambda pair: pair[1] / pair[0])
    return times[len(times) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'':<32}{'cold':>10}{'warm':>10}{'ratio':>8}")
    for kind, names in (("path", PATHS), ("refit", REFITS)):
        for name in names:
            try:
                task = PROBLEMS[name].task()
            except (OSError, ValueError) as error:
                print(f"{kind} {name}: {error}")
                continue
            if kind == "path":
                cold, warm = race_on_path(task, options.rounds)
            else:
                cold, warm = race_on_refits(task, options.rounds, options.seeds)
            print(f"{kind + ' ' + name:<32}{cold:>10.4f}{warm:>10.4f}{warm / cold:>8.2f}")


if __name__ == "__main__":
    main()
