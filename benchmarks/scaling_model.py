"""How far it scales: ``python -m benchmarks.scaling_model``.

A model of the time that `auto` on blocks takes to a gap of 1e-4,

    T(n, d, P) = passes(n, d) · (n·d·4 bytes / (P·rate) + talk(d, P)) + rounds · (a·d + b·d³)

with P workers that hold a P-th of the float32 rows each, a working set of 400 rows a feature solved
where the fit was called, and talk the network's share: one graph, w to every worker, and the rows
that join the working set up a tree. Its coefficients are measured here, on one machine: the rate of
a pass, a and b of the working sets, and the number of passes as a line in log(n/d) that does not
fall, from problems with a known margin whose rows are drawn again, seeded, for every block that is
requested. The largest of these problems is held back, and the model checked against it. What is
assumed and not measured is printed with the table: the bandwidth, and the cost of a graph unless
``--cluster`` measures it, with the bytes of an iteration, on a LocalCluster of two processes.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from benchmarks.out_of_core import MARGIN, Case, write_case
from momentron.api import max_margin
from momentron.datasets import make_separable
from momentron.streams import DiskStream, open_file
from momentron.streams.scan import Scan
from momentron.views.trace import Row
from tests.counters import sent_over_loopback

SET_ROWS = 400  # rows of the working set for each feature: what the memory is chosen for
BANDWIDTH = 1.25e9  # bytes a second: ten gigabits
GRAPH = 0.1  # seconds for a graph to go out and come back, with few workers
TOLERANCE = 1e-4
SIZES = (
    *((n, 50) for n in (30_000, 100_000, 300_000, 1_000_000)),
    *((n, 100) for n in (100_000, 300_000, 600_000)),
    *((n, 200) for n in (200_000, 600_000)),
)


class Drawn:
    """Rows with a known margin, drawn when they are asked for: as `write_case`, without a file."""

    def __init__(self, n: int, d: int, block: int = 20_000, seed: int = 0) -> None:
        self.n, self.d, self.size, self.seed = n, d, block, seed
        support = 3 * d // 4
        self.made = make_separable(
            support, d, n_support=support, margin=MARGIN, fit_intercept=True, random_state=seed
        )

    def __len__(self) -> int:
        return math.ceil(self.n / self.size)

    def block(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng((self.seed, i))
        made, m = self.made, min(self.size, self.n - i * self.size)
        y = rng.choice(np.array([-1.0, 1.0]), m)
        rows = rng.standard_normal((m, self.d)) / math.sqrt(self.d)
        heights = y * MARGIN * (1.05 + rng.exponential(size=m)) - made.intercept
        rows += np.outer(heights - rows @ made.coef, made.coef)
        mine = np.arange(i, made.y.size, len(self))  # the deciding rows, dealt out to the blocks
        rows[: mine.size], y[: mine.size] = made.X[mine], made.y[mine]
        return rows.astype(np.float32), y.astype(np.int8)


@dataclass(frozen=True)
class Fit:
    """What one fit took."""

    n: int
    d: int
    passes: int
    rounds: int
    seconds: float
    in_sets: float
    gap: float


def measure_fit(n: int, d: int, seed: int = 0) -> Fit:
    """A fit of drawn rows: its passes count, and the time of its working sets."""
    # the working set takes eight blocks, of rows in float64
    result = max_margin(Drawn(n, d, seed=seed), block_size=SET_ROWS * d * d, tol=TOLERANCE)
    in_sets = result.seconds - result.pass_seconds
    return Fit(n, d, result.passes, result.n_iter, result.seconds, in_sets, result.gap)


def measure_rate(n: int = 500_000, d: int = 200, repeats: int = 3) -> tuple[float, float]:
    """(bytes, rows) a second of one worker's pass over a file; the best of a few."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case.named(Path(folder), "rate")
        write_case(case, n, d, separable=True)
        stream = DiskStream(open_file(case.rows, str(case.labels)))
        w = np.random.default_rng(0).standard_normal(d)
        scan = Scan(np.array([-1, 1], np.int8), True, w)
        times = []
        for _ in range(repeats + 1):
            begin = time.perf_counter()
            stream.run(scan)
            times.append(time.perf_counter() - begin)
        best = min(times[1:])
        return case.rows.stat().st_size / best, n / best


@dataclass(frozen=True)
class Talk:
    """What an iteration of Algorithm 1 costs on a cluster, apart from the products."""

    seconds: float
    sent: int
    limit: int


def measure_cluster(d: int = 30_000, k: int = 3, workers: int = 2, steps: int = 12) -> Talk:
    """Median seconds and least bytes over the loopback of a step on a LocalCluster.

    Few rows, so that the products take no time; the loopback counts all that is sent, and others on
    the machine may use it too.
    """
    import dask.array as da
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    y = np.arange(8 * k) % k
    X = rng.standard_normal((k, d))[y] + 0.1 * rng.standard_normal((y.size, d))
    marks: list[tuple[float, int]] = []

    def mark(_: Row) -> None:
        marks.append((time.perf_counter(), sent_over_loopback()))

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        lazy = da.from_array(X, chunks=(4, -1)), da.from_array(y, chunks=4)
        lazy = client.persist(list(lazy))
        max_margin(
            *lazy,
            method="momentum",
            fit_intercept=False,
            tol=0.0,
            max_iter=steps,
            callback=mark,
        )
    took = np.diff(np.array([moment for moment, _ in marks]))
    sent = np.diff(np.array([count for _, count in marks]))
    return Talk(float(np.median(took)), int(sent.min()), 2 * workers * d * k * 8)


@dataclass(frozen=True)
class Model:
    """The coefficients.

    Attributes
    ----------
    rate : float
        Bytes a second of a worker.
    linear, cubic : float
        A round in a working set takes linear · d + cubic · d³ seconds.
    level, slope : float
        passes = level + slope · log10(n/d).
    graph : float
        Seconds for a graph on few workers.
    """

    rate: float
    linear: float
    cubic: float
    level: float
    slope: float
    graph: float = GRAPH

    def passes(self, n: float, d: float) -> float:
        return self.level + self.slope * math.log10(n / d)

    def talk(self, d: float, workers: int) -> float:
        """Seconds of a pass on the network: w out, and up a tree the rows that join."""
        if workers == 1:
            return 0.0
        levels = math.ceil(math.log(workers, 4))
        joining = SET_ROWS / 8 * d * d * 4.0
        return self.graph * (1.0 + workers / 256) + levels * (8.0 * d + joining) / BANDWIDTH

    def solving(self, n: float, d: float) -> float:
        """Seconds in working sets; the first pass has none."""
        return (self.passes(n, d) - 1.0) * (self.linear * d + self.cubic * d**3)

    def seconds(self, n: float, d: float, workers: int = 1) -> float:
        a_pass = n * d * 4.0 / (workers * self.rate) + self.talk(d, workers)
        return self.passes(n, d) * a_pass + self.solving(n, d)


def fitted(fits: Sequence[Fit], rate: float, graph: float = GRAPH) -> Model:
    """The model that these fits give, by least squares for the passes."""
    x = np.log10([fit.n / fit.d for fit in fits])
    passes = np.array([fit.passes for fit in fits])
    slope = max(0.0, float(np.polyfit(x, passes, 1)[0]))
    level = float(np.mean(passes - slope * x))
    d = np.array([float(fit.d) for fit in fits])
    terms = np.stack([d, d**3], axis=1)
    seconds = np.array([fit.in_sets / fit.rounds for fit in fits])
    (linear, cubic), _ = nnls(terms / seconds[:, None], np.ones(d.size))  # relative errors count
    return Model(rate, float(linear), float(cubic), level, slope, graph)


def simulate(model: Model, n: int, d: int, workers: int, seed: int = 0) -> float:
    """Seconds of a fit with workers that differ: each pass waits for the slowest.

    A worker's rate is drawn for every pass, log-normal with a spread of a tenth; the number of
    passes is the model's, rounded at random.
    """
    rng = np.random.default_rng(seed)
    passes = model.passes(n, d)
    count = math.floor(passes) + int(rng.random() < passes % 1.0)
    share = n * d * 4.0 / (workers * model.rate)
    total = model.solving(n, d)
    for _ in range(count):
        total += share * float(rng.lognormal(0.0, 0.1, workers).max()) + model.talk(d, workers)
    return total


def run(*, with_cluster: bool = False) -> None:
    """Measure, fit, check, and print the table for 1e9 × 1,000."""
    graph = GRAPH
    if with_cluster:
        talk = measure_cluster()
        graph = talk.seconds
        print(
            f"an iteration on 2 workers, 30,000 × 3: {1e3 * graph:.0f} ms, {talk.sent:,} bytes "
            f"sent; the limit 2 · workers · d · k · 8 is {talk.limit:,}"
        )
    rate, rows = measure_rate()
    print(f"a pass here: {rate / 1e9:.2f} GB/s, {1e9 / rows:.1f} ns a row of 200 float32")
    fits = [measure_fit(n, d) for n, d in SIZES]
    *known, held = fits
    model = fitted(known, rate, graph)
    print(
        f"passes {model.level:.2f} + {model.slope:.2f} log10(n/d), a round in a working set "
        f"{model.linear:.2e} d + {model.cubic:.2e} d³ s"
    )
    print(f"{'n':>9} {'d':>5} {'passes':>7} {'model':>6} {'sets, s':>8} {'model':>6} {'gap':>8}")
    for fit in fits:
        note = "  held back" if fit is held else ""
        print(
            f"{fit.n:>9,} {fit.d:>5} {fit.passes:>7} {model.passes(fit.n, fit.d):>6.1f} "
            f"{fit.in_sets:>8.2f} {model.solving(fit.n, fit.d):>6.2f} {fit.gap:>8.1e}{note}"
        )
    _print_table(model, 10**9, 1000)


def _print_table(model: Model, n: int, d: int) -> None:
    print(
        f"\n{n:.0e} × {d:,} float32, gap {TOLERANCE:g}; assumed: {BANDWIDTH / 1e9:.2f} GB/s of "
        f"network, {model.graph * 1e3:.0f} ms a graph on few workers"
    )
    print(f"{'workers':>8} {'passes':>7} {'hours':>8} {'talk':>7} {'sets':>7} {'simulated':>10}")
    for workers in (1, 16, 256):
        total, passes = model.seconds(n, d, workers), model.passes(n, d)
        talk, sets = passes * model.talk(d, workers) / total, model.solving(n, d) / total
        slow = np.mean([simulate(model, n, d, workers, seed) for seed in range(20)])
        print(
            f"{workers:>8} {passes:>7.1f} {total / 3600:>8.3f} {talk:>7.1%} {sets:>7.1%} "
            f"{slow / 3600:>10.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", action="store_true", help="measure a LocalCluster too")
    run(with_cluster=parser.parse_args().cluster)


if __name__ == "__main__":
    main()
