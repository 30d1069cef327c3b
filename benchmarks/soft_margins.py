"""Soft margins at C = 1, hinge and squared hinge, against LIBLINEAR, LIBSVM, oneDAL and skglm.

    python -m benchmarks.soft_margins --out rows.json [--only a9a] [--kernel rbf] [--limit 600]

momentron to a certified gap of 1e-6; the others at tol = 1e-4, which certifies nothing. Each run
has a process of its own, which loads the data and solves three times, so that imports and first
calls do not count; the time limit ends it. All solvers take turns in each of several rounds, and
the best of all counts. A run that is in the file is not made again: rows can be added one at a
time, and the table is printed from the file.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

PROBLEMS = ("a9a", "w8a", "mushrooms", "covtype-like", "mnist")
KERNELS = ("linear", "rbf")
PENALTIES = ("hinge", "squared_hinge")
SOLVERS = ("momentron", "liblinear", "libsvm", "onedal", "skglm")
KERNEL_ROWS = 10_000  # of the problems through a kernel, at most


def problem(name: str, kernel: str) -> tuple[Any, np.ndarray]:
    """(X, labels 0 and 1)."""
    from momentron.datasets import load

    if name == "covtype-like":
        rng = np.random.default_rng(0)
        n = 500_000 if kernel == "linear" else KERNEL_ROWS
        X = rng.normal(size=(n, 54))
        X[:, 10:] = X[:, 10:] > 1.0
        return X, (X @ rng.normal(size=54) + 3.0 * rng.normal(size=n) > 0.0).astype(int)
    data = load(name, download=False)
    X, y = data.X, np.asarray(data.y)
    if name == "mnist":
        X, y = np.ascontiguousarray(X, np.float64), y % 2
    y = np.unique(y, return_inverse=True)[1].ravel()
    if kernel == "rbf":
        rows = np.sort(np.random.default_rng(0).permutation(y.size)[:KERNEL_ROWS])
        X, y = X[rows], y[rows]
    return X, y


def run_momentron(X: Any, y: np.ndarray, kernel: str, penalty: str) -> str:
    from momentron import max_margin

    options: dict[str, Any] = {"kernel": "rbf", "cache_size": 4000.0} if kernel == "rbf" else {}
    found = max_margin(X, y, C=1.0, penalty=penalty, tol=1e-6, **options)
    return f"gap {found.gap:.1e}, objective {0.5 / found.lower**2:.9g}"


def run_liblinear(X: Any, y: np.ndarray, kernel: str, penalty: str) -> str:
    from sklearn.svm import LinearSVC

    model = LinearSVC(C=1.0, loss=penalty, tol=1e-4, max_iter=100_000, dual="auto")
    return f"{model.fit(X, y).n_iter_} iterations"


def run_libsvm(X: Any, y: np.ndarray, kernel: str, penalty: str) -> str:
    from sklearn.svm import SVC

    model = SVC(C=1.0, kernel=kernel, tol=1e-4, cache_size=4000).fit(X, y)
    return f"{model.support_.size} support vectors"


def run_onedal(X: Any, y: np.ndarray, kernel: str, penalty: str) -> str:
    from sklearnex.svm import SVC

    model = SVC(C=1.0, kernel=kernel, tol=1e-4, cache_size=4000).fit(X, y)
    return f"{model.support_.size} support vectors"


def run_skglm(X: Any, y: np.ndarray, kernel: str, penalty: str) -> str:
    from skglm import LinearSVC

    model = LinearSVC(C=1.0, tol=1e-4, fit_intercept=False).fit(X, np.where(y == 1, 1, -1))
    return f"{np.size(model.coef_)} coefficients"


RUNS: dict[str, Callable[[Any, np.ndarray, str, str], str]] = {
    "momentron": run_momentron,
    "liblinear": run_liblinear,
    "libsvm": run_libsvm,
    "onedal": run_onedal,
    "skglm": run_skglm,
}


def suits(solver: str, kernel: str, penalty: str) -> bool:
    """Whether the solver has such a problem."""
    if solver == "liblinear":
        return kernel == "linear"
    if solver == "skglm":
        return kernel == "linear" and penalty == "hinge"
    return solver == "momentron" or penalty == "hinge"


def work(name: str, kernel: str, penalty: str, solver: str) -> None:
    """One run, in this process: prints one JSON object."""
    X, y = problem(name, kernel)
    seconds, said = [], ""
    for _ in range(3):
        begin, cpu = time.perf_counter(), time.process_time()
        said = RUNS[solver](X, y, kernel, penalty)
        seconds.append(time.perf_counter() - begin)
        cpu = time.process_time() - cpu
        if seconds[0] > 10.0:
            break
    print(json.dumps({"seconds": min(seconds), "last_cpu": cpu, "said": said}))


def measured(name: str, kernel: str, penalty: str, solver: str, limit: float) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.soft_margins", "--work"]
    command += [name, kernel, penalty, solver]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"seconds": limit, "said": "ended at the time limit"}
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["failed"])[-1]
        return {"seconds": None, "said": last[:200]}
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


def _seconds(found: dict[str, Any]) -> float:
    return math.inf if found["seconds"] is None else float(found["seconds"])


def table(known: dict[str, Any]) -> None:
    """Ours and the fastest other one, row by row, and the rows that are lost."""
    print("| problem | kernel | penalty | momentron, s | best other, s | ratio |")
    print("|---|---|---|---|---|---|")
    lost, n_rows = [], 0
    for name, kernel, penalty in product(PROBLEMS, KERNELS, PENALTIES):
        times = {
            solver: known[key]["seconds"]
            for solver in SOLVERS
            if (key := f"{name} {kernel} {penalty} {solver}") in known
            and known[key]["seconds"] is not None
        }
        ours = times.pop("momentron", None)
        if ours is None:
            continue
        row = f"| {name} | {kernel} | {penalty} | {ours:.3f} |"
        if not times:
            print(f"{row} none | |")
            continue
        best = min(times, key=lambda solver: times[solver])
        ratio, n_rows = times[best] / ours, n_rows + 1
        if ratio < 1.0:
            lost.append(f"{name} {kernel} {penalty} to {best}")
        print(f"{row} {best} {times[best]:.3f} | {ratio:.2f} |")
    print(f"\nlost {len(lost)} of {n_rows} rows" + "".join(f"\n- {row}" for row in lost))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("soft_margins.json"))
    parser.add_argument("--only", nargs="*", default=list(PROBLEMS), choices=PROBLEMS)
    parser.add_argument("--kernel", nargs="*", default=list(KERNELS), choices=KERNELS)
    parser.add_argument("--penalty", nargs="*", default=list(PENALTIES), choices=PENALTIES)
    parser.add_argument("--against", nargs="*", default=SOLVERS[1:], choices=SOLVERS[1:])
    parser.add_argument("--rounds", type=int, default=2, help="of all solvers, in turn")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of a run")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(*asked.work)
        return
    known = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    for row in product(asked.only, asked.kernel, asked.penalty):
        fresh = {
            solver: " ".join((*row, solver))
            for solver in (SOLVERS[0], *asked.against)
            if suits(solver, *row[1:]) and " ".join((*row, solver)) not in known
        }
        for _ in range(asked.rounds):
            for solver, key in fresh.items():
                found = measured(*row, solver, asked.limit)
                known[key] = min(known.get(key, found), found, key=_seconds)
        asked.out.write_text(json.dumps(known, indent=1))
        for key in fresh.values():
            print(f"{key}: {known[key]}", flush=True)
    table(known)


if __name__ == "__main__":
    main()
