"""The classifier for data that nothing separates, beside scikit-learn's linear classifiers.

    python -m benchmarks.fallback [--row NAME …] [--max-time 60] [--no-peers]

For each set: rows × columns × classes, then held-out errors in percent, of ours and of
LogisticRegression and LinearSVC at their defaults on standardised columns (sparse ones are scaled,
not centred); then the seconds until the verdict on separability, those of the fallback after it,
and those of the faster peer. Small sets are split many times, and errors averaged. Data are read as
`momentron.datasets` reads them (folder MOMENTRON_DATA, cache or network).
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from momentron import Status, datasets
from momentron.fitting.fallback import fallback
from momentron.solvers import as_solver
from momentron.solvers.loop import Budget, solve
from momentron.solvers.problem import Problem


class Split(NamedTuple):
    """Rows to fit and rows held out."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def held_out(X: Any, y: np.ndarray, seed: int = 0, share: float = 0.3) -> Split:
    order = np.random.default_rng(seed).permutation(y.size)
    test, train = np.split(order, [int(share * y.size)])
    return Split(X[train], y[train], X[test], y[test])


def from_file(name: str) -> Iterator[Split]:
    data = datasets.load(name)
    yield held_out(data.X, data.y)


@cache
def images(name: str) -> Split:
    data = datasets.load(name)
    X, X_test = (part.reshape(len(part), -1) for part in (data.X, data.X_test))
    return Split(X, np.asarray(data.y), X_test, np.asarray(data.y_test))


def pairs(name: str, one: int, two: int) -> Iterator[Split]:
    X, y, X_test, y_test = images(name)
    train, test = np.isin(y, (one, two)), np.isin(y_test, (one, two))
    yield Split(X[train], y[train], X_test[test], y_test[test])


def even_digits() -> Iterator[Split]:
    X, y, X_test, y_test = images("mnist")
    yield Split(X, y % 2, X_test, y_test % 2)


def ten_digits(n: int) -> Iterator[Split]:
    X, y, X_test, y_test = images("mnist")
    chosen = np.random.default_rng(0).permutation(y.size)[:n]
    yield Split(X[chosen], y[chosen], X_test, y_test)


def photographs(*, is_binary: bool) -> Iterator[Split]:
    """CIFAR-10 at 8 × 8 pixels: animals against vehicles, or all ten classes."""
    X, y, X_test, y_test = images("cifar10")
    small = [part.reshape(-1, 3, 8, 4, 8, 4).mean(axis=(3, 5)) for part in (X, X_test)]
    X, X_test = (part.reshape(len(part), -1) for part in small)
    if is_binary:
        y, y_test = (np.isin(part, (2, 3, 4, 5, 6, 7)).astype(int) for part in (y, y_test))
    yield Split(X, y, X_test, y_test)


def flipped_labels() -> Iterator[Split]:
    """Breast cancer, with one label in twenty turned."""
    data = datasets.load("breast-cancer")
    for seed in range(20):
        is_turned = np.random.default_rng(seed).random(data.y.size) < 0.05
        yield held_out(data.X, np.where(is_turned, 1 - data.y, data.y), seed)


def clinical(n: int) -> Iterator[Split]:
    """Three columns as in the study of endometrial cancer, one of them a rare yes or no."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        size = n + 400
        rare = (rng.random(size) < 0.16).astype(float)
        X = np.c_[rare, rng.normal(17.0, 10.0, size).clip(0.0, 49.0), rng.gamma(4.0, 0.4, size)]
        log_odds = 4.3 + 3.0 * X[:, 0] - 0.04 * X[:, 1] - 2.9 * X[:, 2]
        y = (rng.random(size) < 1.0 / (1.0 + np.exp(-log_odds))).astype(int)
        yield Split(X[:n], y[:n], X[n:], y[n:])


def terrain(n: int = 100_000) -> Iterator[Split]:
    """As the forest cover types: ten columns in their own units, 44 that are 0 or 1."""
    rng = np.random.default_rng(3)
    units = np.array([280, 110, 7, 212, 58, 1559, 27, 20, 38, 1325.0])
    Z = rng.normal(size=(n, 10)) @ rng.normal(size=(10, 10)) / np.sqrt(10.0)
    area, soil = rng.integers(0, 4, n), rng.integers(0, 40, n)
    is_one = np.zeros((n, 44))
    is_one[np.arange(n), area] = is_one[np.arange(n), 4 + soil] = 1.0
    score = Z @ rng.normal(size=10) + np.tanh(Z[:, 0] * Z[:, 1]) + 1.5 * rng.logistic(size=n)
    score += rng.normal(size=40)[soil] + rng.normal(size=4)[area]
    yield held_out(np.hstack([8.0 * units + units * Z, is_one]), (score > 0.0).astype(int))


ROWS: dict[str, Callable[[], Iterator[Split]]] = {
    "clinical 80": partial(clinical, 80),
    "clinical 300": partial(clinical, 300),
    "breast cancer, 5 % flipped": flipped_labels,
    "a9a": partial(from_file, "a9a"),
    "w8a": partial(from_file, "w8a"),
    "terrain": terrain,
    "CIFAR-10, animals": partial(photographs, is_binary=True),
    "CIFAR-10, ten classes": partial(photographs, is_binary=False),
    "letter": partial(from_file, "letter.scale"),
    "MNIST 3/5": partial(pairs, "mnist", 3, 5),
    "MNIST 4/9": partial(pairs, "mnist", 4, 9),
    "MNIST even/odd": even_digits,
    "MNIST, ten classes, 20,000": partial(ten_digits, 20_000),
}


class Measured(NamedTuple):
    """Of one split: errors held out, and seconds."""

    ours: float
    proof: float
    fallback: float
    is_decided: bool


def measure(split: Split, max_time: float) -> Measured:
    problem = Problem.from_data(split.X, split.y)
    outcome = solve(problem, as_solver("auto"), Budget(max_time=max_time))
    begin = time.perf_counter()
    w, b = fallback(problem, seconds=outcome.seconds)
    seconds = time.perf_counter() - begin
    outputs = split.X_test @ w + b
    codes = outputs.argmax(axis=1) if outputs.ndim == 2 else (outputs > 0.0).astype(int)
    error = float(np.mean(problem.classes[codes] != split.y_test))
    return Measured(error, outcome.seconds, seconds, outcome.status is Status.NOT_SEPARABLE)


def measure_peer(split: Split, model: Any) -> tuple[float, float]:
    """(error, seconds), those of scaling included."""
    begin = time.perf_counter()
    scaler = StandardScaler(with_mean=not sp.issparse(split.X)).fit(split.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 100 iterations are few
        model.fit(scaler.transform(split.X), split.y)
    seconds = time.perf_counter() - begin
    return 1.0 - model.score(scaler.transform(split.X_test), split.y_test), seconds


def report(name: str, max_time: float, *, has_peers: bool) -> str:
    """One line of the table."""
    ours: list[Measured] = []
    peers: list[list[tuple[float, float]]] = [[], []]
    shape = ""
    for split in ROWS[name]():
        n, d = split.X.shape
        shape = f"{n}×{d}×{np.unique(split.y).size}"
        if not ours:
            measure(split, max_time=0.2)  # the first call of a process pays for imports
        ours.append(measure(split, max_time))
        if has_peers:
            peers[0].append(measure_peer(split, LogisticRegression()))
            peers[1].append(measure_peer(split, LinearSVC()))
    mean = np.mean([[run.ours, run.proof, run.fallback] for run in ours], axis=0)
    decided = sum(run.is_decided for run in ours)
    line = f"{name:28} {shape:>16} {100 * mean[0]:7.2f}"
    seconds = ""
    if has_peers:
        both = np.mean(peers, axis=1)
        line += f" {100 * both[0, 0]:7.2f} {100 * both[1, 0]:7.2f}"
        seconds = f" {both[:, 1].min():8.3f}"
    return f"{line} {mean[1]:8.3f} {mean[2]:8.3f}{seconds}  {decided}/{len(ours)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", action="append", choices=list(ROWS))
    parser.add_argument("--max-time", type=float, default=60.0, help="seconds for the proof")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    has_peers = not options.no_peers
    head = f"{'set':28} {'n × d × k':>16} {'ours %':>7}"
    head += f" {'LR %':>7} {'SVC %':>7}" if has_peers else ""
    head += f" {'proof s':>8} {'fallb. s':>8}" + (f" {'peer s':>8}" if has_peers else "")
    print(f"{head}  not separable")
    for name in options.row or ROWS:
        print(report(name, options.max_time, has_peers=has_peers), flush=True)


if __name__ == "__main__":
    main()
