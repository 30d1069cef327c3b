"""Time to a certified gap with a kernel, against LIBSVM and oneDAL, as the data grow.

    python -m benchmarks.kernel_race --rows 2000 5000 10000 30000 60000
    python -m benchmarks.kernel_race --rows 5000 --kernel poly
    python -m benchmarks.kernel_race --rows 5000 --gamma-times 10

MNIST, even against odd digits: momentron to a certified gap of 1e-4, scikit-learn's SVC and
scikit-learn-intelex's with C=1e10 and tol=1e-4, which certify nothing. gamma is "scale", or a
multiple of it. Each run has a process of its own, in turn; up to 10,000 rows the best of three
counts. A process is ended at the time limit, which then counts as its time. Peak memory is that
beyond the loaded data.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.counters import peak_resident

SOLVERS = ("momentron", "libsvm", "onedal")
KERNELS = ("rbf", "poly", "laplacian")


def even_odd(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first n training images as float64, and whether each digit is odd."""
    from momentron.datasets import load

    data = load("mnist")
    X = np.ascontiguousarray(data.X[:n], dtype=np.float64)
    return X, np.asarray(data.y)[:n] % 2


def run_momentron(X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> dict[str, Any]:
    from momentron import max_margin

    result = max_margin(X, y, tol=1e-4, **options)
    return {
        "lower": result.lower,
        "upper": result.upper,
        "gap": result.gap,
        "support": int(result.support.size),
        "status": str(result.status),
        "columns": int(result.trace["evaluations"][-1]) / X.shape[0],
    }


def run_libsvm(X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> dict[str, Any]:
    from sklearn.svm import SVC

    return _margin(SVC(C=1e10, tol=1e-4, **options).fit(X, y))


def run_onedal(X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> dict[str, Any]:
    from sklearnex.svm import SVC

    return _margin(SVC(C=1e10, tol=1e-4, **options).fit(X, y))


def _margin(model: Any) -> dict[str, Any]:
    weights = np.abs(model.dual_coef_).sum()  # Σα = ‖w‖² at the optimum
    return {"margin": 1.0 / math.sqrt(weights), "support": int(model.support_.size)}


RUNS: dict[str, Callable[..., dict[str, Any]]] = {
    "momentron": run_momentron,
    "libsvm": run_libsvm,
    "onedal": run_onedal,
}


def work(solver: str, n: int, settings: argparse.Namespace) -> None:
    """One run, in this process: prints one JSON object."""
    X, y = even_odd(n)
    gamma = settings.gamma_times / (X.shape[1] * X.var())
    options = {"kernel": settings.kernel, "gamma": gamma, "cache_size": settings.cache}
    if settings.kernel == "poly":
        options |= {"degree": 3, "coef0": 1.0}
    run = RUNS[solver]
    run(X[:200], y[:200], options)  # imports and thread pools are not what is measured
    before = peak_resident(reset=True)  # loading takes more than the rows that are kept
    begin, cpu = time.perf_counter(), time.process_time()
    answer = run(X, y, options)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    megabytes = (peak_resident() - before) / 1e6
    print(json.dumps({"seconds": seconds, "cpu": cpu, "megabytes": megabytes, **answer}))


def measure(solver: str, n: int, settings: argparse.Namespace) -> dict[str, Any]:
    """One run in a process of its own; the limit as its time where it does not end."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
    command += ["--solver", solver, "--rows", str(n), "--cache", str(settings.cache)]
    command += ["--kernel", settings.kernel, "--gamma-times", str(settings.gamma_times)]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=settings.limit, check=True
        )
    except subprocess.TimeoutExpired:
        return {"seconds": settings.limit, "timed_out": True}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 10_000, 60_000])
    parser.add_argument("--kernel", choices=KERNELS, default="rbf")
    parser.add_argument("--gamma-times", type=float, default=1.0, help="a multiple of scale")
    parser.add_argument("--against", nargs="*", choices=SOLVERS[1:], default=SOLVERS[1:])
    parser.add_argument("--cache", type=float, default=2000.0, help="MB for kernel values")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds for each run")
    parser.add_argument("--repeat-up-to", type=int, default=10_000, help="rows; best of three")
    parser.add_argument("--solver", choices=SOLVERS, help="run this one here, on --rows N")
    settings = parser.parse_args()
    if settings.solver:
        work(settings.solver, settings.rows[0], settings)
        return
    names = (SOLVERS[0], *settings.against)
    if settings.kernel == "laplacian":
        names = SOLVERS[:1]  # the others have none
    ours: list[float] = []
    for n in settings.rows:
        repeats = 3 if n <= settings.repeat_up_to else 1
        tries = [{name: measure(name, n, settings) for name in names} for _ in range(repeats)]
        runs = {
            name: min((runs[name] for runs in tries), key=lambda run: run["seconds"])
            for name in names
        }
        ours.append(runs["momentron"]["seconds"])
        ratios = [f"{name} {runs[name]['seconds'] / ours[-1]:.2f}" for name in names[1:]]
        print(f"n = {n}, times as long as momentron: {', '.join(ratios) or 'none'}", flush=True)
        for name, run in runs.items():
            print(f"  {name:<10} {json.dumps(run)}", flush=True)
    if len(ours) > 1:
        slope = np.polyfit(np.log(settings.rows), np.log(ours), 1)[0]
        print(f"momentron's time grows like n^{slope:.2f}")


if __name__ == "__main__":
    main()
