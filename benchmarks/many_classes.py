"""Many classes at real size: the joint margin next to scikit-learn's linear classifiers.

    python -m benchmarks.many_classes [--row NAME …] [--max-time 90] [--peers]
    python -m benchmarks.many_classes --under-budgets [--row NAME …]
    python -m benchmarks.many_classes --growth
    python -m benchmarks.many_classes --reference 300

Each row is a problem; printed are time, memory beyond the data, test error, and what is certified.
With --peers, LinearSVC(multi_class="crammer_singer") and LogisticRegression run on the same data.
--under-budgets gives ours half, once and twice the time of the better of LogisticRegression and
LinearSVC at their defaults, and prints test errors, next to those of Algorithm 1 in the
same time. --growth prints times and exponents in n, d and k. --reference compares this many random
problems with Clarabel's optimum. MNIST is read as `momentron.datasets` reads it (folder
MOMENTRON_DATA, cache or network).
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from momentron import MarginResult, Status, datasets, max_margin
from momentron.solvers import Auto
from momentron.solvers.auto.settings import SETTINGS
from tests.counters import peak_resident

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
    "rbf-5000": Row(lambda: pixels(5_000), 1e-3, {"kernel": "rbf"}),
    "rbf-10000-C10": Row(
        lambda: pixels(10_000), 1e-3, {"C": 10.0, "kernel": "rbf", "cache_size": 2000.0}
    ),
    "rbf-10000": Row(lambda: pixels(10_000), 1e-3, {"kernel": "rbf", "cache_size": 2000.0}),
    "hundred": Row(hundred_classes, 1e-3, {}, HARD),
}


def test_error(row: Row, result: MarginResult, data: Split) -> float:
    """The share of test rows that the classifier gets wrong."""
    X, _, X_test, y_test = data
    if "kernel" not in row.options:
        outputs = X_test @ result.coef.T
    else:
        from sklearn.metrics.pairwise import rbf_kernel

        gamma = 1.0 / (X.shape[1] * X.var())  # as gamma="scale" has it
        outputs = rbf_kernel(X_test, X, gamma=gamma) @ result.coef.T
    labels = result.classes[(outputs + result.intercept).argmax(axis=1)]
    return float(np.mean(labels != y_test))


def ours(
    row: Row, data: Split, max_time: float, tol: float | None = None, method: str = "auto"
) -> str:
    """A line on `max_margin`."""
    X, y, _, _ = data
    tol = row.tol if tol is None else tol
    before, start = peak_resident(reset=True), time.perf_counter()
    result = max_margin(X, y, method=method, tol=tol, max_time=max_time, **row.options)
    seconds, memory = time.perf_counter() - start, (peak_resident() - before) / 1e6
    interval = f"[{result.lower:.6g}, {result.upper:.6g}], gap {result.gap:.1e}"
    error = test_error(row, result, data)
    return f"{method:14} {seconds:7.2f} s {memory:6.0f} MB  error {error:.4f}  {interval}"


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
        models = {"SVC": SVC(C=row.options.get("C", 1e10), cache_size=2000)}
    lines = []
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        error = np.mean(model.predict(X_test) != y_test)
        lines.append(f"{name:14} {seconds:7.2f} s            error {error:.4f}")
    return lines


def under_budgets(row: Row, data: Split) -> list[str]:
    """Test errors with half, once and twice the time of scikit-learn's defaults."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    X, y, X_test, y_test = data
    lines, best = [], (math.inf, math.inf)
    for model in (LogisticRegression(), LinearSVC()):
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        error = float(np.mean(model.predict(X_test) != y_test))
        lines.append(f"{type(model).__name__:20} {seconds:7.2f} s            error {error:.4f}")
        best = min(best, (error, seconds))
    for share in (0.5, 1.0, 2.0):
        for method in ("auto", "momentum"):
            line = ours(row, data, share * best[1], 0.0, method)
            lines.append(f"{share} × {best[1]:.2f} s:  {line}")
    return lines


def growth() -> None:
    """How soft and hard margins grow with n, d and k, with the exponents between two sizes.

    In seconds of the processor, of all threads together: others on the machine do not count.
    """
    rng = np.random.default_rng(5)
    sizes = {
        "n": [(5_000, 200, 10), (10_000, 200, 10), (20_000, 200, 10), (40_000, 200, 10)],
        "d": [(5_000, 200, 10), (5_000, 400, 10), (5_000, 800, 10), (5_000, 1_600, 10)],
        "k": [(5_000, 200, 10), (5_000, 200, 20), (5_000, 200, 40), (5_000, 200, 80)],
    }
    kinds: list[dict[str, Any]] = [{"C": 1.0}, {}]
    for options in kinds:
        for what, shapes in sizes.items():
            seconds = []
            for n, d, k in shapes:
                centres = 2.0 * rng.normal(size=(k, d)) / math.sqrt(d / 20)
                y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
                X = centres[y] + rng.normal(size=(n, d))
                times = []
                for _ in range(2):
                    start = time.process_time()
                    max_margin(X, y, tol=1e-3, max_time=120.0, **options)
                    times.append(time.process_time() - start)
                seconds.append(min(times))
            exponents = np.diff(np.log2(seconds))
            print(
                f"{'soft, C = 1' if options else 'hard':12} {what}: "
                + ", ".join(f"{shape}: {s:.2f} s" for shape, s in zip(shapes, seconds, strict=True))
                + f"; exponents {np.round(exponents, 2).tolist()}",
                flush=True,
            )


def reference(count: int) -> None:
    """Random problems whose optimum Clarabel computes, by the joint engine and by exact solves."""
    misses = gaps = 0
    for seed in range(count):
        problem = random_problem(seed)
        value = optimum(problem)
        if value is None:
            continue
        for pairs in (0, 10**9):
            kinds = ("many_pairs", "many_soft_pairs", "many_split_pairs")
            solver = Auto(replace(SETTINGS, **dict.fromkeys(kinds, pairs)))
            result = max_margin(
                problem.X, problem.y, method=solver, C=problem.C, fit_intercept=problem.b
            )
            slack = 1e-6 * max(value, 1e-9)
            misses += not result.lower - slack <= value <= result.upper + slack
            is_short = not (result.gap <= 1e-6 or result.status is Status.NOT_SEPARABLE)
            gaps += is_short
            if is_short:
                engine = "exact solves" if pairs else "joint engine"
                interval = f"[{result.lower:.9g}, {result.upper:.9g}]"
                print(
                    f"problem {seed}, {engine}: {interval}, Clarabel {value:.9g}, C {problem.C:g}"
                )
    print(f"{count} problems, twice each: {misses} intervals miss, {gaps} gaps above 1e-6")


@dataclass(frozen=True)
class RandomProblem:
    """Rows, labels, C, and whether there are intercepts."""

    X: np.ndarray
    y: np.ndarray
    C: float
    b: bool


def random_problem(seed: int) -> RandomProblem:
    """k = 3 to 30 classes, up to 200 × 50."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 31))
    n, d = int(rng.integers(k + 5, 201)), int(rng.integers(2, 51))
    y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    X = rng.normal(size=(n, d)) + (rng.choice([0.5, 2.0, 6.0]) * rng.normal(size=(k, d)))[y]
    C = float(rng.choice([math.inf, math.inf, 0.001, 0.1, 1.0, 100.0]))
    return RandomProblem(X, y, C, bool(rng.integers(2)))


def optimum(problem: RandomProblem) -> float | None:
    """The best margin by Clarabel: 1/√(2 · value), 0 where nothing separates, None if it fails."""
    import clarabel
    import scipy.sparse as sp

    X, y, k = problem.X, problem.y, int(problem.y.max()) + 1
    n, d = X.shape
    pairs = [(i, j) for i in range(n) for j in range(k) if j != y[i]]
    m, soft = len(pairs), math.isfinite(problem.C)
    rows = np.arange(m)
    example = np.array([i for i, _ in pairs])
    own, other = y[example], np.array([j for _, j in pairs])
    # variables: W (k·d), b (k), ξ (m); constraints −⟨margin⟩ − ξ ≤ −1
    dense = np.zeros((m, k, d))
    dense[rows, own] -= X[example]
    dense[rows, other] += X[example]
    A = sp.csc_matrix(dense.reshape(m, k * d))
    B = sp.csc_matrix(
        (np.r_[-np.ones(m), np.ones(m)], (np.r_[rows, rows], np.r_[own, other])), (m, k)
    )
    blocks, squares = [A], [np.ones(k * d)]
    if problem.b:
        blocks.append(B)
        squares.append(np.zeros(k))
    if soft:
        blocks.append(-sp.identity(m, format="csc"))
        squares.append(np.full(m, 2.0 * problem.C))
    matrix = sp.hstack(blocks, format="csc")
    diagonal = np.concatenate(squares)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(
        sp.diags(diagonal, format="csc"),
        np.zeros(diagonal.size),
        matrix,
        -np.ones(m),
        [clarabel.NonnegativeConeT(m)],
        settings,
    )
    found = solver.solve()
    if "Infeasible" in str(found.status):
        return 0.0
    if str(found.status) != "Solved":
        return None
    return 1.0 / math.sqrt(2.0 * found.obj_val)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_classes", description=__doc__)
    parser.add_argument("--row", action="append", choices=ROWS, help="this row only; may repeat")
    parser.add_argument("--max-time", type=float, default=90.0, help="seconds for each of ours")
    parser.add_argument("--peers", action="store_true", help="scikit-learn on the same data")
    parser.add_argument("--under-budgets", action="store_true", help="errors under budgets")
    parser.add_argument("--growth", action="store_true", help="times as n, d and k grow")
    parser.add_argument("--reference", type=int, help="random problems to compare with Clarabel")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.growth:
        growth()
        return
    if options.reference is not None:
        reference(options.reference)
        return
    for name in options.row or ROWS:
        row = ROWS[name]
        data = row.data()
        print(f"{name}: {data[0].shape[0]} × {data[0].shape[1]}", flush=True)
        if options.under_budgets:
            lines = under_budgets(row, data)
        else:
            print("  " + ours(row, data, options.max_time), flush=True)
            lines = peers(row, data) if options.peers else []
        for line in lines:
            print("  " + line, flush=True)


if __name__ == "__main__":
    main()
