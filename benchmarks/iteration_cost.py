"""The cost of one `momentum` iteration, as a multiple of two bare matrix-vector products.

Run with ``python -m benchmarks.iteration_cost``. Both are timed in turn on one matrix,
and the best of several rounds is kept for each. Memory is the peak of all allocations beyond X in a
whole `max_margin` run.
"""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.api import max_margin
from momentron.solvers import Momentum
from momentron.solvers.problem import Problem

ROUNDS = 15
STEPS = 10


def matrices() -> dict[str, Any]:
    """The three matrices of the claim, drawn at random."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(12_665, 784))
    sparse = sp.random(50_000, 20_000, density=0.001, format="csr", rng=rng)
    return {
        "dense float64 12665×784": dense,
        "dense float32 12665×784": dense.astype(np.float32),
        "csr float64 50000×20000, 0.1 %": sp.csr_array(sparse),
    }


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    for _ in range(STEPS):
        action()
    return (time.perf_counter() - start) / STEPS


def cost_ratio(X: Any, y: np.ndarray, fit_intercept: bool) -> tuple[float, float]:
    """(seconds of an iteration, its multiple of two bare products), best of ROUNDS."""
    problem = Problem.from_data(X, y, fit_intercept=fit_intercept)
    solver = Momentum()
    state = solver.init(problem)
    w, a, XT = np.ones(X.shape[1], X.dtype), np.ones(X.shape[0], X.dtype), X.T

    def iteration() -> None:
        solver.step(problem, state)
        solver.candidates(problem, state)

    def products() -> None:
        X @ w
        XT @ a

    iteration()
    products()
    times = [(seconds(iteration), seconds(products)) for _ in range(ROUNDS)]
    ours, bare = (min(column) for column in zip(*times, strict=True))
    return ours, ours / bare


def peak_memory(X: Any, y: np.ndarray, fit_intercept: bool) -> float:
    """Peak megabytes beyond X of `max_margin` with `momentum`, the certificate included."""
    tracemalloc.start()
    max_margin(X, y, method="momentum", fit_intercept=fit_intercept, max_iter=20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    """Print the table."""
    print(f"{'matrix':<32} {'intercept':>9} {'ms/iter':>8} {'ratio':>6} {'peak MB':>8}")
    for name, X in matrices().items():
        y = np.random.default_rng(1).integers(0, 2, X.shape[0])
        for fit_intercept in (False, True):
            cost, ratio = cost_ratio(X, y, fit_intercept)
            memory = peak_memory(X, y, fit_intercept)
            print(
                f"{name:<32} {fit_intercept!s:>9} {1e3 * cost:>8.2f} {ratio:>6.2f} {memory:>8.1f}"
            )


if __name__ == "__main__":
    main()
