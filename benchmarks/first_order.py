"""Passes over the data until first-order methods certify a gap of 1e-3 and 1e-6.

    python -m benchmarks.first_order [--passes 4000] [--only NAME …] [--picture FILE] [--rows FILE]

Every product with Z or its transpose counts, of line searches and of first steps, too. Certified
means by max_margin's certificate; the passes to 1e-3 are read off the same run's trace. The
picture needs matplotlib. The last table compares the sublinear perceptron with the batch
perceptron, by iterations and by entries of Z that are read. Runs are counted in passes, so that
they need no idle machine; a problem that is in the file --rows is not run again.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from momentron import max_margin
from momentron.datasets import load, make_separable
from momentron.solvers import MarginProblem, Momentum, Solver
from momentron.solvers.descent import LossMethod
from momentron.solvers.solver import Candidates
from paper.named_methods import AcceleratedSmoothing, ProgressiveRescaling, sublinear_perceptron

Data = tuple[np.ndarray, np.ndarray]
TARGETS = (1e-3, 1e-6)
MARKS = 300  # points of a curve


class MomentumMeanAlone(Momentum):
    """Algorithm 1 with the average over all q_t as its only upper bound, and w_t alone."""

    name = "momentum, mean over all"

    def candidates(self, problem: MarginProblem, state: Any) -> Candidates:
        return LossMethod.candidates(self, problem, state)


METHODS: dict[str, str | Solver] = {
    "momentum, mean over all": MomentumMeanAlone(),
    "momentum": "momentum",
    'momentum, step="adaptive"': Momentum(step="adaptive"),
    "simplex-fista": "simplex-fista",
    "smooth-perceptron": "smooth-perceptron",
    "accelerated smoothing, ε = 0.01": AcceleratedSmoothing(0.01),
    "progressive rescaling": ProgressiveRescaling(),
    "batch-perceptron": "batch-perceptron",
}


def separable(n: int, d: int, margin: float, **options: Any) -> Callable[[], Data]:
    def make() -> Data:
        data = make_separable(n, d, margin=margin, random_state=0, **options)
        return data.X, data.y

    return make


def mnist(rows: int | None) -> Callable[[], Data]:
    def make() -> Data:
        data = load("mnist", classes=[0, 1], subset=rows, download=False)
        return np.asarray(data.X, np.float64), np.where(np.asarray(data.y) == 1, 1, -1)

    return make


PROBLEMS: dict[str, Callable[[], Data]] = {
    "1000×20, margin 0.15": separable(1000, 20, 0.15),
    "5000×50, margin 0.02": separable(5000, 50, 0.02),
    "500×200, 60 support vectors": separable(500, 200, 0.1, n_support=60),
    "MNIST 0/1, 2,000 rows": mnist(2000),
    "MNIST 0/1, 12,665 rows": mnist(None),
}


def run(method: str | Solver, data: Data, passes: int) -> dict[str, Any]:
    """The curve of one method: passes and gaps, and when it reached each target."""
    found = max_margin(
        *data,
        method=method,
        fit_intercept=False,
        tol=TARGETS[-1],
        max_iter=passes,
        callback=lambda row: row.passes >= passes,
    )
    done, lower = found.trace["passes"], found.trace["lower"]
    gaps = 1.0 - lower / found.trace["upper"]
    reached = {target: int(np.argmax(gaps <= target)) for target in TARGETS}
    first = {str(t): int(done[place]) for t, place in reached.items() if gaps[place] <= t}
    if found.gap > TARGETS[-1]:
        first.pop(str(TARGETS[-1]), None)
    kept = np.unique(np.geomspace(1, done.size, MARKS).astype(int)) - 1
    curve = [done[kept].tolist(), gaps[kept].tolist()]
    return {"reached": first, "gap": float(found.gap), "passes": int(done[-1]), "curve": curve}


def cell(measured: dict[str, Any]) -> str:
    reached, gap = measured["reached"], measured["gap"]
    words = [f"{reached[str(t)]:,}" if str(t) in reached else "–" for t in TARGETS]
    return " / ".join(words) + ("" if str(TARGETS[-1]) in reached else f" ({gap:.0e})")


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Methods × problems, in Markdown."""
    lines = ["| method | " + " | ".join(rows) + " |", "|---" * (len(rows) + 1) + "|"]
    for name in METHODS:
        lines.append(f"| {name} | " + " | ".join(cell(row[name]) for row in rows.values()) + " |")
    return "\n".join(lines)


def draw(rows: dict[str, dict[str, Any]], path: Path) -> None:
    """One panel per problem: the gap against passes."""
    from momentron.views.display.style import CLASS_COLOURS, GREY, YELLOW, saved_figure, styled

    colours = [GREY if colour == YELLOW else colour for colour in CLASS_COLOURS]  # seen on white
    figure, panels = saved_figure(2, 3, size=(11.0, 6.2))
    figure.get_layout_engine().set(wspace=0.03, hspace=0.04)
    for axes, (title, row) in zip(panels.flat, rows.items(), strict=False):
        for (name, measured), colour in zip(row.items(), colours, strict=True):
            done, gaps = (np.array(part) for part in measured["curve"])
            shown = (gaps < 1.0) & (gaps > 0.0)
            # it is hidden by the smooth perceptron otherwise
            style = {"linestyle": "--", "zorder": 5} if name.endswith("mean over all") else {}
            axes.loglog(done[shown], gaps[shown], color=colour, label=name, **style)
        axes.set(title=title, xlabel="passes over the data", ylabel="gap", ylim=(5e-7, 1.2))
        axes.axhline(TARGETS[-1], color="#767676", linewidth=0.8)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    for axes in panels.flat[len(rows) :]:
        axes.axis("off")
    with styled():
        panels.flat[-1].legend(handles, labels, loc="center", title="gap = 1 − lower/upper")
        figure.savefig(path, dpi=110)


def sublinear_table(data: Data) -> str:
    """Shares of the best margin, of one run of 50,000 iterations and of the batch perceptron."""
    X, y = data
    Z = -y[:, None] * X / np.linalg.norm(X, axis=1).max()
    optimum = max_margin(X, y, fit_intercept=False)
    best = optimum.lower / np.linalg.norm(X, axis=1).max()
    lines = ["| method | iterations | entries read, in passes | share of the best margin |"]
    lines.append("|---|---|---|---|")
    for look in sublinear_perceptron(Z, 50_000, every=10_000, random_state=0):
        norm = float(np.linalg.norm(look.w))
        share = -float((Z @ look.w).max()) / norm / best
        cells = f"{look.iteration:,} | {look.entries / Z.size:.1f} | {share:.2f}"
        lines.append(f"| sublinear perceptron | {cells} |")
    method = "batch-perceptron"
    trace = max_margin(X, y, method=method, fit_intercept=False, tol=0.0, max_iter=1000).trace
    for mark in (10, 68, 100, 300, 1000):
        share = trace["margin"][mark - 1] / optimum.lower
        cells = f"{mark:,} | {trace['passes'][mark - 1]:.1f} | {share:.2f}"
        lines.append(f"| batch perceptron | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=4000)
    parser.add_argument("--only", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--rows", type=Path)
    settings = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    if settings.rows is not None and settings.rows.exists():
        rows = json.loads(settings.rows.read_text())
    for name in settings.only:
        if name not in rows:
            data = PROBLEMS[name]()
            rows[name] = {key: run(made, data, settings.passes) for key, made in METHODS.items()}
            if settings.rows is not None:
                settings.rows.write_text(json.dumps(rows))
    print(table({name: rows[name] for name in settings.only}))
    if settings.picture is not None:
        draw(rows, settings.picture)
    print("\n" + sublinear_table(PROBLEMS["MNIST 0/1, 12,665 rows"]()))


if __name__ == "__main__":
    main()
