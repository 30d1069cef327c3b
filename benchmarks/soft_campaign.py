"""Random soft margins against Clarabel: 300 problems for each way to pose them.

    python -m benchmarks.soft_campaign [--count 300]

{hinge, squared hinge} × {weights or not} × {intercept or not} × {linear, rbf}, C from 1e-6 to 1e10.
Counted are intervals that miss the reference by more than 1e-7, gaps above 1e-6, and problems on
which Clarabel gives up; and integer weights against rows repeated, which must agree to 1e-9.
"""

import argparse
import math
from itertools import product
from typing import Any

import numpy as np

from momentron import max_margin
from tests.oracles.objectives import least_objective, rows_of

FAR = 1e-7  # relative, from the reference's objective
PENALTIES = ("hinge", "squared_hinge")


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """(X, y, weights, C)."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 80)), int(rng.integers(1, 12))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1.0, 1.0)
    y = (X[:, 0] / X[:, 0].std() + rng.choice([0.0, 0.5, 2.0]) * rng.normal(size=n) > 0).astype(int)
    y[:2] = [0, 1]
    return X, y, rng.uniform(0.1, 5.0, n), 10.0 ** rng.uniform(-6.0, 10.0)


def gaussian(X: np.ndarray, gamma: float) -> np.ndarray:
    squares = np.einsum("ij,ij->i", X, X)
    return np.exp(-gamma * np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0))


def examine(count: int, penalty: str, weighted: bool, fit_intercept: bool, kernel: str) -> str:
    """One line of the table."""
    misses = wide = unknown = 0
    for seed in range(count):
        X, y, s, C = problem(seed)
        gamma = 1.0 / (X.shape[1] * X.var())
        options: dict[str, Any] = {"kernel": "rbf", "gamma": gamma} if kernel == "rbf" else {}
        found = max_margin(
            X,
            y,
            C=C,
            penalty=penalty,
            sample_weight=s if weighted else None,
            fit_intercept=fit_intercept,
            **options,
        )
        wide += not found.gap <= 1e-6
        rows = rows_of(gaussian(X, gamma)) if kernel == "rbf" else X
        prices = C * (s if weighted else np.ones(y.size))
        value = least_objective(rows, y, prices, penalty, fit_intercept)
        if value is None:
            unknown += 1
            continue
        least, most = 0.5 / found.upper**2, 0.5 / max(found.lower, 1e-300) ** 2
        misses += not least * (1.0 - FAR) <= value <= most * (1.0 + FAR)
    what = f"{penalty}, {'weights' if weighted else 'plain'}, "
    what += f"{'intercept' if fit_intercept else 'no intercept'}, {kernel}"
    return f"{what}: {misses} misses, {wide} gaps above 1e-6, {unknown} of {count} unknown"


def repeated(count: int) -> str:
    """Integer weights against rows that are there so often."""
    largest = 0.0
    for seed in range(count):
        X, y, _, C = problem(seed)
        times = np.random.default_rng(seed).integers(0, 4, y.size)
        times[:2] = 1
        for penalty in PENALTIES:
            options: dict[str, Any] = {"C": C, "penalty": penalty, "tol": 1e-10}
            one = max_margin(X, y, sample_weight=times, **options)
            two = max_margin(X.repeat(times, axis=0), y.repeat(times), **options)
            # proven intervals of the same number, whose middles tell it
            middles = [math.sqrt(r.lower * r.upper) for r in (one, two)]
            largest = max(largest, abs(middles[0] / middles[1] - 1.0))
    return f"integer weights against rows repeated, {count} problems: {largest:.1e} apart at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    count = parser.parse_args().count
    ways = product(PENALTIES, (False, True), (False, True), ("linear", "rbf"))
    for penalty, weighted, fit_intercept, kernel in ways:
        print(examine(count, penalty, weighted, fit_intercept, kernel), flush=True)
    print(repeated(count), flush=True)


if __name__ == "__main__":
    main()
