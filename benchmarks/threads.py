"""python -m benchmarks.threads: fits from four threads at once against one after the other."""

import threading
import time
from typing import Any

import numpy as np

from momentron import max_margin

CALLERS, FITS = 4, 20


def _taught(n: int, d: int, margin: float) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X, w = rng.random((n, d)), rng.standard_normal(d)
    w /= np.linalg.norm(w)
    scores = X @ w
    y = np.where(scores > np.median(scores), 1.0, -1.0)
    return {"X": X + margin * y[:, None] * w, "y": y}


def _images(n: int, d: int) -> dict[str, Any]:
    """Two classes of few patterns each, like two digits: few support vectors in many features."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    patterns = rng.random((2, 15, d))
    weights = rng.random((n, 15))
    X = np.where(y[:, None] == 1, weights @ patterns[1], weights @ patterns[0])
    return {"X": X, "y": y}


def _ring(n: int) -> dict[str, Any]:
    X = np.random.default_rng(0).standard_normal((n, 20))
    return {"X": X, "y": np.sign(X[:, 0] + X[:, 1] ** 2 - 1.0), "kernel": "rbf"}


PROBLEMS = {
    "2,000 × 100": _taught(2000, 100, 0.1),
    "12,000 × 784": _images(12_000, 784),
    "rbf, 1,000 rows": _ring(1000),
}


def main() -> None:
    print(f"{CALLERS} callers × {FITS} fits each.\n")
    print("| problem | one after the other (s) | at once (s) | ratio | same results |")
    print("|---|---|---|---|---|")
    for name, problem in PROBLEMS.items():
        max_margin(**problem)
        found: list[tuple[float, float]] = []
        alone = _seconds(lambda: _one_by_one(problem, found))  # noqa: B023
        together = _seconds(lambda: _at_once(problem, found))  # noqa: B023
        same = "yes" if len(set(found)) == 1 else "no"
        print(f"| {name} | {alone:.2f} | {together:.2f} | {together / alone:.2f} | {same} |")


def _fit(problem: dict[str, Any], found: list[tuple[float, float]]) -> None:
    for _ in range(FITS):
        result = max_margin(**problem)
        found.append((result.lower, result.upper))


def _one_by_one(problem: dict[str, Any], found: list[tuple[float, float]]) -> None:
    for _ in range(CALLERS):
        _fit(problem, found)


def _at_once(problem: dict[str, Any], found: list[tuple[float, float]]) -> None:
    callers = [threading.Thread(target=_fit, args=(problem, found)) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()


def _seconds(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
