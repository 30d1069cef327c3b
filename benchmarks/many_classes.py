"""Many classes at real size: the joint margin beside scikit-learn's linear classifiers.

    python -m benchmarks.many_classes [--row NAME …] [--max-time 90] [--peers]

Each row is a problem; printed are time, memory beyond the data, test error, and what is certified.
With --peers, LinearSVC(multi_class="crammer_singer") and LogisticRegression run on the same data.
MNIST is read as `momentron.datasets` reads it (folder MOMENTRON_DATA, cache or network).
"""

import argparse
import math
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from momentron import datasets, max_margin

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Row:
    """A problem of the table: its data, and what is asked of `max_margin`."""

    data: Callable[[], Split]
    tol: float
    options: dict[str, Any] = field(default_factory=dict)
    peer: dict[str, Any] = field(default_factory=dict)  # of LinearSVC


@cache
def mnist() -> Split:
    """Pixels in [0, 1], the training images in an order of chance."""
    data = datasets.load("mnist")
    y = np.asarray(data.y)
    order = np.random.default_rng(0).permutation(y.size)
    X, X_test = (part.reshape(len(part), -1) for part in (data.X, data.X_test))
    top = float(X.max())
    return X[order] / top, y[order], X_test / top, np.asarray(data.y_test)


def pixels(n: int) -> Split:
    X, y, X_test, y_test = mnist()
    return X[:n], y[:n], X_test, y_test


def random_features(n: int, width: int = 1200) -> Split:
    """max(0, Vx) with Gaussian V."""
    X, y, X_test, y_test = pixels(n)
    V = np.random.default_rng(1).normal(size=(X.shape[1], width)) / math.sqrt(X.shape[1])
    return np.maximum(X @ V, 0.0), y, np.maximum(X_test @ V, 0.0), y_test


def hundred_classes(n: int = 10_000, d: int = 512, k: int = 100) -> Split:
    """Clouds around k centres, separable; a second draw is the test set."""
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(k, d))
    labels = [np.r_[np.arange(k), rng.integers(0, k, n - k)] for _ in range(2)]
    clouds = [centres[y] + 0.8 * rng.normal(size=(n, d)) for y in labels]
    return clouds[0], labels[0], clouds[1], labels[1]


HARD = {"C": 1e6, "tol": 1e-6, "fit_intercept": False, "max_iter": 100_000}
ROWS = {
    "relu-4000": Row(lambda: random_features(4_000), 1e-5, {}, HARD),
    "relu-4000-no-intercept": Row(
        lambda: random_features(4_000), 1e-5, {"fit_intercept": False}, HARD
    ),
    "relu-15000": Row(lambda: random_features(15_000), 1e-3, {}, HARD),
    "pixels-20000": Row(lambda: pixels(20_000), 1e-3),
    "pixels-20000-C0.01": Row(lambda: pixels(20_000), 1e-3, {"C": 0.01}, {"C": 0.01}),
    "pixels-20000-C1": Row(lambda: pixels(20_000), 1e-3, {"C": 1.0}, {"C": 1.0}),
    "pixels-60000": Row(lambda: pixels(60_000), 1e-3),
    "rbf-5000-C10": Row(lambda: pixels(5_000), 1e-3, {"C": 10.0, "kernel": "rbf"}),
    "hundred": Row(hundred_classes, 1e-3, {}, HARD),
}


def peak() -> float:
    """The process's largest memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def ours(row: Row, data: Split, max_time: float) -> str:
    """A line on `max_margin`."""
    X, y, X_test, y_test = data
    before, start = peak(), time.perf_counter()
    result = max_margin(X, y, tol=row.tol, max_time=max_time, **row.options)
    seconds, memory = time.perf_counter() - start, peak() - before
    error = "  –   "
    if "kernel" not in row.options:
        outputs = X_test @ result.coef.T + result.intercept
        error = f"{np.mean(result.classes[outputs.argmax(axis=1)] != y_test):.4f}"
    interval = f"[{result.lower:.6g}, {result.upper:.6g}], gap {result.gap:.1e}"
    return f"momentron      {seconds:7.2f} s {memory:6.0f} MB  error {error}  {interval}"


def peers(row: Row, data: Split) -> list[str]:
    """Lines on scikit-learn's classifiers."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC, LinearSVC

    X, y, X_test, y_test = data
    models: dict[str, Any] = {
        "crammer_singer": LinearSVC(multi_class="crammer_singer", **row.peer),
        "logistic": LogisticRegression(),
    }
    if "kernel" in row.options:
        models = {"SVC": SVC(C=row.options["C"])}
    lines = []
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        error = np.mean(model.predict(X_test) != y_test)
        lines.append(f"{name:14} {seconds:7.2f} s            error {error:.4f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_classes", description=__doc__)
    parser.add_argument("--row", action="append", choices=ROWS, help="this row only; may repeat")
    parser.add_argument("--max-time", type=float, default=90.0, help="seconds for each of ours")
    parser.add_argument("--peers", action="store_true", help="scikit-learn on the same data")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.row or ROWS:
        row = ROWS[name]
        data = row.data()
        print(f"{name}: {data[0].shape[0]} × {data[0].shape[1]}", flush=True)
        print("  " + ours(row, data, options.max_time), flush=True)
        for line in peers(row, data) if options.peers else ():
            print("  " + line, flush=True)


if __name__ == "__main__":
    main()
