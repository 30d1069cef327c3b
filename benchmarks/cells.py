"""Every penalty on every kind of rows, to a certified gap of 1e-3, next to the peer for it.

    python -m benchmarks.cells --out cells.json [--only text sparse] [--before CHECKOUT]

Processor seconds of one thread. Each solver has a process of its own, which loads the data and
solves up to three times; the best counts, and a time limit ends it. momentron stops at the gap that
is asked for, the peers at their own default tolerances, which certify nothing: through a kernel the
soft margin 1/√(2P) of what they found is computed here, after the clock has stopped. With
`--before`, another checkout of momentron runs too. What is in the file is not run again;
`--page docs/benchmarks.md` runs nothing and writes the tables of that page from it.

oneDAL gets w8a as a dense array: from the CSR matrix it returns classifiers whose objective is up
to a hundred times the least (scikit-learn-intelex 2199.9.9).

    python -m benchmarks.cells --tolerances

shows what a certified gap of 1e-3 costs next to one of 1e-6, for every penalty and kind of rows.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
OURS, BEFORE = "momentron", "before"
ENOUGH = 15.0  # seconds of a run that is not repeated: the first one pays for new memory
REPEATS = 3

Data = tuple[Any, np.ndarray]


@dataclass(frozen=True)
class Cell:
    """A problem, how we are asked to solve it, and the peers that can."""

    load: Callable[[], Data]
    options: dict[str, Any]
    peers: tuple[str, ...] = ()
    peer_options: dict[str, Any] = field(default_factory=dict)
    dense: tuple[str, ...] = ()  # peers that get a dense array


@cache
def text() -> Data:
    """Farm ads as TF-IDF: 4,143 × 54,877, 0.4 % of it filled."""
    from sklearn.feature_extraction.text import TfidfTransformer

    from momentron.datasets import load

    data = load("farm-ads", download=False)
    return TfidfTransformer().fit_transform(data.X), _codes(data.y)


@cache
def sparse() -> Data:
    """60,000 × 20,000 with 40 entries in a row, a tenth of the labels wrong."""
    rng = np.random.default_rng(0)
    n, d, filled = 60_000, 20_000, 40
    columns = rng.integers(0, d, n * filled)
    X = sp.csr_matrix((rng.normal(size=n * filled), columns, np.arange(0, n * filled + 1, filled)))
    X.sum_duplicates()
    y = X @ rng.normal(size=d) > 0.0
    return X, (y ^ (rng.random(n) < 0.1)).astype(int)


def _codes(y: Any) -> np.ndarray:
    return np.unique(np.asarray(y), return_inverse=True)[1].ravel()


def rows_of(name: str, n: int) -> Data:
    from momentron.datasets import load

    data = load(name, download=False)
    chosen = np.sort(np.random.default_rng(0).permutation(np.asarray(data.y).size)[:n])
    return data.X[chosen], _codes(data.y)[chosen]


def few_features() -> Data:
    """10,000 × 16 that nothing was tuned on: a quadratic rule with noise."""
    rng = np.random.default_rng(16)
    X = rng.normal(size=(10_000, 16))
    rule = (X[:, :8] * X[:, 8:]).sum(axis=1) + rng.normal(size=10_000)
    return X, (rule > 0.0).astype(int)


def embeddings() -> Data:
    """20,000 × 768, dense, with a linear rule and noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 768))
    score = X @ rng.normal(size=768) / math.sqrt(768.0)
    return X, (score + 0.5 * rng.normal(size=20_000) > 0.0).astype(int)


def sector() -> Data:
    from momentron.datasets import load

    data = load("sector.scale", download=False)
    return data.X, np.asarray(data.y)


def pixels() -> Data:
    from momentron.datasets import load

    data = load("mnist", download=False)
    return np.ascontiguousarray(data.X[:20_000], np.float64), np.asarray(data.y)[:20_000]


def _scale(X: Any) -> float:
    """The default gamma of SVC."""
    mean = X.mean()
    square = X.multiply(X).mean() if sp.issparse(X) else (X * X).mean()
    return 1.0 / (X.shape[1] * float(square - mean * mean))


def cells() -> Iterator[tuple[str, Cell]]:
    """Name and cell of each; C, and gamma over its default, are in the name."""
    load: Callable[[], Data]
    for C in (0.1, 1.0, 10.0):
        for penalty in ("squared_hinge", "hinge"):
            for name, load in (("text", text), ("sparse", sparse)):
                peer = {"C": C, "loss": penalty, "max_iter": 100_000}
                options = {"C": C, "penalty": penalty, "tol": 1e-3}
                yield f"{name} {penalty} C={C:g}", Cell(load, options, ("liblinear",), peer)
    for C in (0.1, 10.0):
        options = {"C": C, "penalty": "hinge", "tol": 1e-3}
        peer = {"C": C, "loss": "hinge", "max_iter": 100_000}
        yield f"embeddings hinge C={C:g}", Cell(embeddings, options, ("liblinear",), peer)
    grid: dict[str, Callable[[], Data]] = {
        "a9a": lambda: rows_of("a9a", 10_000),
        "w8a": lambda: rows_of("w8a", 10_000),
        "few": few_features,
    }
    for name, load in grid.items():
        for C in (0.1, 1.0, 10.0, 100.0):
            for factor in (0.1, 1.0, 10.0):
                options = {"C": C, "penalty": "hinge", "kernel": "rbf", "gamma": factor}
                options |= {"tol": 1e-3, "cache_size": 2000.0}
                peer = {"C": C, "gamma": factor, "cache_size": 2000}
                dense = ("onedal",) if name == "w8a" else ()
                cell = Cell(load, options, ("libsvm", "onedal"), peer, dense)
                yield f"rbf {name} C={C:g} gamma×{factor:g}", cell
    for multi_class in ("joint", "ovr"):
        options = {"C": 1.0, "tol": 1e-3, "multi_class": multi_class}
        yield f"sector {multi_class}", Cell(sector, options, ("liblinear",), {"C": 1.0})
    yield "ten classes, hard", Cell(pixels, {"tol": 1e-3})


def kinds_of_rows() -> Iterator[tuple[str, Data, dict[str, Any]]]:
    """A data set of every kind of rows, and its options."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(3)
    wide = rng.normal(size=(900, 1500))
    yield "dense, tall", embeddings(), {}
    yield "dense, wide", (wide, (wide[:, 0] + rng.normal(size=900) > 0.0).astype(int)), {}
    yield "sparse, few features", rows_of("a9a", 30_000), {}
    yield "sparse, by products", text(), {}
    yield "pairs", load_digits(return_X_y=True), {}
    yield "kernel, noisy", rows_of("a9a", 5000), {"kernel": "rbf"}
    yield "kernel, clean", rows_of("mnist", 1500), {"kernel": "rbf", "gamma": 1e-7}


def tolerances() -> None:
    """Processor seconds, the best of three, at two tolerances."""
    print("| rows | penalty | 1e-3 | 1e-6 | 1e-3 over 1e-6 |\n|---|---|---|---|---|")
    for name, (X, y), more in kinds_of_rows():
        for penalty in ("squared_hinge", "hinge"):
            best = []
            for tol in (1e-3, 1e-6):
                options = {"C": 1.0, "penalty": penalty, "tol": tol, **more}
                best.append(min(_seconds(X, y, options) for _ in range(REPEATS)))
            times = " | ".join(f"{seconds:.4f}" for seconds in best)
            print(f"| {name} | {penalty} | {times} | {best[0] / best[1]:.2f} |", flush=True)


def _seconds(X: Any, y: np.ndarray, options: dict[str, Any]) -> float:
    begin = time.process_time()
    run_ours(X, y, options)
    return time.process_time() - begin


Outcome = tuple[str, float | None]  # what a solver says, and the soft margin that it has reached


def run_ours(X: Any, y: np.ndarray, options: dict[str, Any]) -> Outcome:
    from momentron import MaxMarginClassifier, max_margin

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "multi_class" in options:
            model = MaxMarginClassifier(**options).fit(X, y)
            return ", ".join(sorted({str(status) for status in np.ravel(model.status_)})), None
        found = max_margin(X, y, **options)
    return f"{found.status.name}, gap {found.gap:.1e}", found.lower


def run_liblinear(X: Any, y: np.ndarray, options: dict[str, Any]) -> Outcome:
    from sklearn.svm import LinearSVC

    return f"{LinearSVC(**options).fit(X, y).n_iter_} iterations", None


def run_libsvm(X: Any, y: np.ndarray, options: dict[str, Any]) -> Any:
    from sklearn.svm import SVC

    return SVC(**options).fit(X, y)


def run_onedal(X: Any, y: np.ndarray, options: dict[str, Any]) -> Any:
    from sklearnex.svm import SVC

    return SVC(**options).fit(X, y)


def outcome_of(model: Any, X: Any, y: np.ndarray) -> Outcome:
    """What an SVC has found, by the values of its kernel that scikit-learn computes."""
    from sklearn.metrics.pairwise import rbf_kernel

    support, found = model.support_, model.dual_coef_
    coef = (found.toarray() if sp.issparse(found) else found)[0]
    scores = rbf_kernel(X, X[support], gamma=model.gamma) @ coef
    slack = np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * (scores + model.intercept_[0]))
    objective = 0.5 * float(coef @ scores[support]) + model.C * float(slack.sum())
    return f"{support.size} support vectors", 1.0 / math.sqrt(2.0 * objective)


RUNS = {
    OURS: run_ours,
    BEFORE: run_ours,
    "liblinear": run_liblinear,
    "libsvm": run_libsvm,
    "onedal": run_onedal,
}


def work(name: str, solver: str) -> None:
    """One solver on one cell, in this process: prints one JSON object."""
    cell = dict(cells())[name]
    X, y = cell.load()
    options = dict(cell.options if solver in (OURS, BEFORE) else cell.peer_options)
    if "gamma" in options:
        options["gamma"] *= _scale(X)
    if solver in cell.dense:
        X = X.toarray()
    best, found = math.inf, None
    for _ in range(REPEATS):
        begin = time.process_time()
        found = RUNS[solver](X, y, options)
        seconds = time.process_time() - begin
        best = min(best, seconds)
        if seconds > ENOUGH:
            break
    said, margin = found if isinstance(found, tuple) else outcome_of(found, X, y)
    print(json.dumps({"seconds": best, "said": said, "margin": margin}))


def measured(name: str, solver: str, limit: float, before: Path | None) -> dict[str, Any]:
    """The same in a process of its own."""
    source = Path(__file__).parents[1] if solver != BEFORE else before
    paths = os.pathsep.join([f"{source}/src", str(Path(__file__).parents[1])])
    command = [sys.executable, "-m", "benchmarks.cells", "--work", name, solver]
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": paths}
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"seconds": None, "said": f"not solved in {limit:g} s"}
    if ended.returncode != 0:
        return {
            "seconds": None,
            "said": (ended.stderr.strip().splitlines() or ["failed"])[-1][:200],
        }
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


def table(known: dict[str, Any], *beginnings: str) -> list[str]:
    """The cells that were run: our time, that of the version before, and each peer's over ours.

    And by how much a peer's soft margin falls short of ours.
    """
    has_before = any(key.endswith(f"| {BEFORE}") for key in known)
    titles = ["cell", "momentron, s", "", "before / ours", "peers / ours", "peers fall short by"]
    lines = []
    for name, cell in cells():
        ours = known.get(f"{name} | {OURS}")
        if ours is None or not name.startswith(beginnings or ""):
            continue
        seconds = ours["seconds"] or math.inf

        def ratio(solver: str, seconds: float = seconds, name: str = name) -> str:
            found = known.get(f"{name} | {solver}", {"seconds": None})["seconds"]
            if found is None:
                return ""
            return f"{found / seconds:.2f}" if found >= seconds else f"**{found / seconds:.2f}**"

        def shortfall(solver: str, ours: dict[str, Any] = ours, name: str = name) -> str:
            margin, best = known.get(f"{name} | {solver}", {}).get("margin"), ours.get("margin")
            return f"{1.0 - margin / best:.1e}" if margin and best else ""

        peers = ", ".join(f"{peer} {ratio(peer) or '–'}" for peer in cell.peers)
        short = ", ".join(f"{peer} {shortfall(peer)}" for peer in cell.peers if shortfall(peer))
        shown = f"{seconds:.3f}" if ours["seconds"] else "–"
        lines.append([name, shown, ours["said"], ratio(BEFORE), peers, short])
    rows = [titles, ["---"] * len(titles), *lines]
    kept = [place for place, title in enumerate(titles) if title != titles[3] or has_before]
    return [f"| {' | '.join(row[place] for place in kept)} |" for row in rows]


def write_page(page: Path, known: dict[str, Any]) -> None:
    """Write the tables of a page: one after each mark, which names the beginnings of its cells."""

    def filled(found: re.Match[str]) -> str:
        rows = "\n".join(table(known, *found[2].split()))
        return f"{found[1]}\n\n{rows}\n\n<!-- end of cells -->"

    marks = r"(<!-- cells([\w ]*) -->).*?<!-- end of cells -->"
    text, count = re.subn(marks, filled, page.read_text("utf-8"), flags=re.DOTALL)
    if not count:
        raise SystemExit(f"{page} has no table between <!-- cells --> and <!-- end of cells -->")
    page.write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("cells.json"))
    parser.add_argument("--only", nargs="*", default=[""], help="beginnings of the cells' names")
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds of a process")
    parser.add_argument("--again", action="store_true", help="run our own cells again")
    parser.add_argument("--tolerances", action="store_true", help="what 1e-3 and 1e-6 cost")
    parser.add_argument("--page", type=Path, help="run nothing: write the tables of this page")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(*asked.work)
        return
    if asked.tolerances:
        tolerances()
        return
    known = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    if asked.page:
        write_page(asked.page, known)
        return
    for name, cell in cells():
        if not name.startswith(tuple(asked.only)):
            continue
        for solver in (OURS, *([BEFORE] if asked.before else []), *cell.peers):
            key = f"{name} | {solver}"
            if key in known and not (asked.again and solver == OURS):
                continue
            known[key] = measured(name, solver, asked.limit, asked.before)
            asked.out.write_text(json.dumps(known, indent=1))
            print(key, known[key], flush=True)
    print("\n".join(table(known)))


if __name__ == "__main__":
    main()
