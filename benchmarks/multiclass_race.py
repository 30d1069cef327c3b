"""The joint margin of many classes, against LIBLINEAR's method of Crammer and Singer.

    python -m benchmarks.multiclass_race

scikit-learn's ten digits: momentron to a certified gap of 1e-8, LinearSVC(multi_class=
"crammer_singer", C=1e6, fit_intercept=False, tol=1e-8), run in turn, the best of three. Then what
momentron says of khan, su, letter.scale and sector.scale, where these are to be had, and of 200
classes of one row each.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np

from momentron import max_margin
from momentron.datasets import load
from momentron.result import MarginResult

SETS = {"khan": 1e-8, "su": 1e-8, "letter.scale": 1e-8, "sector.scale": 1e-3}


def joint_margin(X: Any, y: np.ndarray, coef: np.ndarray) -> float:
    """min over examples and wrong labels of (F_c − F_j)/‖W‖, without intercepts."""
    outputs = np.asarray(X @ coef.T)
    codes = np.unique(y, return_inverse=True)[1]
    place = np.arange(codes.size)
    own = outputs[place, codes]
    outputs[place, codes] = -np.inf
    return float((own - outputs.max(axis=1)).min() / np.linalg.norm(coef))


def liblinear(X: Any, y: np.ndarray, max_iter: int) -> np.ndarray:
    from sklearn.svm import LinearSVC

    model = LinearSVC(
        multi_class="crammer_singer", C=1e6, fit_intercept=False, tol=1e-8, max_iter=max_iter
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y).coef_


def race_on_digits(max_iter: int, repeats: int = 3) -> None:
    data = load("digits")
    times: dict[str, list[float]] = {"momentron": [], "LinearSVC": []}
    for _ in range(repeats):
        begin = time.perf_counter()
        result = max_margin(data.X, data.y, fit_intercept=False, tol=1e-8)
        middle = time.perf_counter()
        coef = liblinear(data.X, data.y, max_iter)
        times["momentron"].append(middle - begin)
        times["LinearSVC"].append(time.perf_counter() - middle)
    ours, theirs = min(times["momentron"]), min(times["LinearSVC"])
    margin = joint_margin(data.X, data.y, coef)
    print(f"digits without intercepts: {describe(result)}")
    print(f"  momentron {ours:.3f} s; LinearSVC {theirs:.3f} s, margin {margin:.9f}", end=" ")
    print(f"(1 − margin/optimum {1.0 - margin / result.upper:.1e}); ratio {theirs / ours:.1f}")
    print(f"digits with intercepts: {describe(max_margin(data.X, data.y, tol=1e-8))}")


def describe(result: MarginResult) -> str:
    return (
        f"[{result.lower:.9g}, {result.upper:.9g}], gap {result.gap:.1e}, "
        f"{result.seconds:.2f} s: {result.status}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--liblinear-iterations", type=int, default=100_000)
    parser.add_argument("--limit", type=float, default=110.0, help="seconds for each of the sets")
    options = parser.parse_args()
    race_on_digits(options.liblinear_iterations)
    for name, tol in SETS.items():
        try:
            data = load(name)
        except (OSError, ValueError) as error:
            print(f"{name}: {error}")
            continue
        describe_both(name, data.X, data.y, tol, options.limit)
    for width in (50, 300):
        X = np.random.default_rng(1).normal(size=(200, width))
        describe_both(f"200 classes, 200 × {width}", X, np.arange(200), 1e-6, options.limit)


def describe_both(name: str, X: Any, y: np.ndarray, tol: float, limit: float) -> None:
    """Two lines: without and with intercepts."""
    for fit_intercept in (False, True):
        result = max_margin(X, y, fit_intercept=fit_intercept, tol=tol, max_time=limit)
        kind = "with" if fit_intercept else "without"
        print(f"{name} {kind} intercepts: {describe(result)}", flush=True)


if __name__ == "__main__":
    main()
