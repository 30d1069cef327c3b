"""Data larger than memory: ``python -m benchmarks.out_of_core FOLDER``.

Writes 4,000,000 × 200 float32 rows with a known margin to a .npy file, and a twin that nothing
separates, and fits both from disk in fresh processes. Reported are the certified interval, the
passes, the peak of resident memory beyond that of the interpreter with everything imported, and the
throughput: bytes of all passes over the seconds of the whole fit, against a bare loop that reads
the same blocks and multiplies each by one vector, one pass of it after every round. ``--kills 20``
adds a run of Algorithm 1 on a twentieth of the rows that is killed with SIGKILL at twenty random
moments and started again each time, next to one that is not.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from momentron.datasets import make_separable
from momentron.solvers.checkpoint import TITLE, read_arrays
from momentron.views.trace import Row
from tests.counters import peak_resident
from tests.makers import make_nonseparable

MARGIN = 0.1
SUPPORT = 150
WITNESS = 30
CHUNK = 50_000
LONG = 2000  # steps of the fit that is killed: longer than twenty lives


@dataclass(frozen=True)
class Case:
    """Files of one problem."""

    rows: Path
    labels: Path

    @classmethod
    def named(cls, folder: Path, name: str) -> Case:
        return cls(folder / f"{name}.npy", folder / f"{name}-labels.npy")


def write_case(case: Case, n: int, d: int, *, separable: bool, seed: int = 0) -> None:
    """Rows behind the margin, a chunk at a time, with the deciding rows scattered among them.

    Orthogonal to w they are Gaussian of length about 1; along w they are margin·(1 + 0.05 + e) from
    the plane, e exponential. The deciding rows are those of `make_separable`, with the same w and
    b, or a combination of `make_nonseparable` that vanishes exactly.
    """
    rng = np.random.default_rng(seed)
    made = make_separable(
        SUPPORT, d, n_support=SUPPORT, margin=MARGIN, fit_intercept=True, random_state=seed
    )
    w, b = made.coef, made.intercept
    if separable:
        few, few_y = made.X.astype(np.float32), made.y
    else:
        overlap = make_nonseparable(
            WITNESS,
            d,
            n_support=WITNESS,
            fit_intercept=True,
            dtype=np.float32,
            random_state=seed,
        )
        few, few_y = overlap.X, overlap.y
    places = np.sort(rng.choice(n, few_y.size, replace=False))
    labels = rng.choice(np.array([-1, 1], dtype=np.int8), n)
    labels[places] = few_y
    np.save(case.labels, labels)
    with case.rows.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, d)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, CHUNK):
            y = labels[start : start + CHUNK].astype(np.float64)
            heights = MARGIN * (1.05 + rng.exponential(size=y.size))
            rows = rng.standard_normal((y.size, d), dtype=np.float32) / np.float32(np.sqrt(d))
            rows += np.outer(y * heights - b - rows @ w, w).astype(np.float32)
            inside = (places >= start) & (places < start + y.size)
            rows[places[inside] - start] = few[inside]
            rows.tofile(file)


def bare_loop(case: Case) -> float:
    """Seconds for reading the blocks and multiplying each by one vector."""
    from momentron.streams import open_file

    source = open_file(case.rows, str(case.labels))
    w = np.ones(source.block(0)[0].shape[1], np.float32)
    begin = time.perf_counter()
    for i in range(len(source)):
        X, _ = source.block(i)
        X @ w
    return time.perf_counter() - begin


def fit(case: Case) -> dict[str, Any]:
    """One fit in this process, with its memory and its throughput next to that of the bare loop."""
    from momentron import max_margin

    tiny = np.random.default_rng(0).standard_normal((500, 3))
    max_margin(tiny, tiny[:, 0] > 0.0, block_size=2_000)  # everything is imported from here on
    np.ones((1000, 1000)) @ np.ones((1000, 1000))
    baseline = peak_resident()
    bare = [bare_loop(case)]

    def interleave(_: Row) -> None:  # off the clock of the fit
        bare.append(bare_loop(case))

    result = max_margin(
        str(case.rows), str(case.labels), tol=1e-4, callback=interleave, block_size="16MiB"
    )
    peak = peak_resident()
    bare.append(bare_loop(case))
    throughput = result.bytes_read / result.seconds
    size = case.rows.stat().st_size
    return {
        "status": result.status.name,
        "lower": result.lower,
        "upper": result.upper,
        "gap": result.gap,
        "passes": result.passes,
        "support": int(result.support.size),
        "seconds": result.seconds,
        "in passes": result.pass_seconds,
        "memory beyond imports, MB": (peak - baseline) / 1e6,
        "interpreter, MB": baseline / 1e6,
        "throughput, GB/s": throughput / 1e9,
        "bare loop, GB/s": [size / seconds / 1e9 for seconds in bare],
        "share of the bare loop": throughput * float(np.mean(bare)) / size,
    }


def long_fit(case: Case, checkpoint: str | Path | None = None) -> str:
    """Many steps of Algorithm 1, and the classifier they end with, to the last bit."""
    from momentron import max_margin
    from momentron.solvers.checkpoint import digest_of

    result = max_margin(
        str(case.rows),
        str(case.labels),
        method="momentum",
        tol=0.0,
        max_iter=LONG,
        checkpoint=checkpoint,
    )
    classifier = digest_of(result.coef)
    return f"{result.n_iter} steps, margin {result.margin.hex()}, classifier {classifier}"


def killed_fit(case: Case, checkpoint: Path, kills: int, seed: int = 0) -> dict[str, Any]:
    """A fit that is killed at random moments and goes on from its checkpoint each time."""
    rng = np.random.default_rng(seed)
    command = [sys.executable, "-m", __spec__.name, "--long", str(case.rows), str(case.labels)]
    straight = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    command.append(str(checkpoint))
    done, steps = 0, []
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            process.wait(timeout=float(rng.uniform(1.0, 16.0)))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            done += 1
        steps.append(_steps_in(checkpoint))
    resumed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {
        "kills": done,
        "steps kept at each": steps,
        "not killed": straight.strip(),
        "killed": resumed.strip(),
        "the same": straight == resumed,
    }


def _steps_in(checkpoint: Path) -> int:
    """How many steps a checkpoint holds."""
    if not checkpoint.exists():
        return 0
    with checkpoint.open("rb") as file:
        return int(read_arrays(file, TITLE)[1]["state.t"])


def run(folder: Path, n: int, d: int, kills: int) -> None:
    """Write, fit, report and remove the two problems."""
    for name, separable in (("separable", True), ("twin", False)):
        case = Case.named(folder, name)
        write_case(case, n, d, separable=separable)
        command = [sys.executable, "-m", __spec__.name, "--worker", str(case.rows)]
        command.append(str(case.labels))
        try:
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            _print(f"{name}: {n:,} × {d}", json.loads(found.splitlines()[-1]))
        finally:
            case.rows.unlink()
            case.labels.unlink()
    if kills:
        case, checkpoint = Case.named(folder, "killed"), folder / "killed.checkpoint"
        write_case(case, n // 20, d, separable=True)
        try:
            _print("killed and started again", killed_fit(case, checkpoint, kills))
        finally:
            for path in (case.rows, case.labels, checkpoint):
                path.unlink(missing_ok=True)


def _print(title: str, report: dict[str, Any]) -> None:
    print(title)
    for key, value in report.items():
        print(f"  {key:<26} {value}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--worker", nargs=2, metavar="FILE", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--long", nargs="+", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(fit(Case(*options.worker))))
    elif options.long:
        print(long_fit(Case(*options.long[:2]), *options.long[2:]))
    else:
        run(options.folder, options.rows, options.features, options.kills)


if __name__ == "__main__":
    main()
