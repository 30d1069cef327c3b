"""Time to a certified gap with a kernel, against scikit-learn's SVC, as the data grow.

    python -m benchmarks.kernel_race --rows 5000 10000 60000

MNIST, even against odd digits, RBF with gamma="scale": momentron to a certified gap of 1e-4, SVC
with C=1e10 and tol=1e-4, which certifies nothing. Each run has a process of its own, in turn; up to
10,000 rows the best of three counts. SVC's process is ended at the time limit, which then counts as
its time. Peak memory is that beyond the loaded data.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.memory import peak_resident

SOLVERS = ("momentron", "svc")


def even_odd(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first n training images as float64, and whether each digit is odd."""
    from momentron.datasets import load

    data = load("mnist")
    X = np.ascontiguousarray(data.X[:n], dtype=np.float64)
    return X, np.asarray(data.y)[:n] % 2


def run_momentron(X: np.ndarray, y: np.ndarray, cache: float) -> dict[str, Any]:
    from momentron import max_margin

    result = max_margin(X, y, kernel="rbf", tol=1e-4, cache_size=cache)
    return {
        "lower": result.lower,
        "upper": result.upper,
        "gap": result.gap,
        "support": int(result.support.size),
        "status": str(result.status),
        "columns": int(result.trace["evaluations"][-1]) / X.shape[0],
    }


def run_svc(X: np.ndarray, y: np.ndarray, cache: float) -> dict[str, Any]:
    from sklearn.svm import SVC

    model = SVC(kernel="rbf", gamma="scale", C=1e10, tol=1e-4, cache_size=cache).fit(X, y)
    weights = np.abs(model.dual_coef_).sum()  # Σα = ‖w‖² at the optimum
    return {"margin": 1.0 / math.sqrt(weights), "support": int(model.support_.size)}


def work(solver: str, n: int, cache: float) -> None:
    """One run, in this process: prints one JSON object."""
    X, y = even_odd(n)
    run = run_momentron if solver == "momentron" else run_svc
    run(X[:200], y[:200], cache)  # imports and thread pools are not what is measured
    before = peak_resident(reset=True)  # loading takes more than the rows that are kept
    begin = time.perf_counter()
    answer = run(X, y, cache)
    seconds = time.perf_counter() - begin
    megabytes = (peak_resident() - before) / 1e6
    print(json.dumps({"seconds": seconds, "megabytes": megabytes, **answer}))


def measure(solver: str, n: int, cache: float, limit: float) -> dict[str, Any]:
    """One run in a process of its own; the limit as its time where it does not end."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
    command += ["--solver", solver, "--rows", str(n), "--cache", str(cache)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return {"seconds": limit, "timed_out": True}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 10_000, 60_000])
    parser.add_argument("--cache", type=float, default=2000.0, help="MB for kernel values")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds for SVC")
    parser.add_argument("--repeat-up-to", type=int, default=10_000, help="rows; best of three")
    parser.add_argument("--solver", choices=SOLVERS, help="run this one here, on --rows N")
    options = parser.parse_args()
    if options.solver:
        work(options.solver, options.rows[0], options.cache)
        return
    ours: list[float] = []
    for n in options.rows:
        repeats = 3 if n <= options.repeat_up_to else 1
        tries = [
            {name: measure(name, n, options.cache, options.limit) for name in SOLVERS}
            for _ in range(repeats)
        ]
        runs = {
            name: min((runs[name] for runs in tries), key=lambda run: run["seconds"])
            for name in SOLVERS
        }
        ours.append(runs["momentron"]["seconds"])
        ratio = runs["svc"]["seconds"] / ours[-1]
        print(f"n = {n}: SVC takes {ratio:.1f} times as long", flush=True)
        for name, run in runs.items():
            print(f"  {name:<10} {json.dumps(run)}", flush=True)
    if len(ours) > 1:
        slope = np.polyfit(np.log(options.rows), np.log(ours), 1)[0]
        print(f"momentron's time grows like n^{slope:.2f}")


if __name__ == "__main__":
    main()
