"""The problems of the suite, by name.

Soft-margin problems have no intercept, so that LIBLINEAR, which penalises its own, minimises the
same objective as everyone else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from benchmarks.suite.task import Kind, Task
from momentron.datasets import load
from tests.makers import make_sparse_separable

Data = tuple[Any, np.ndarray]


@dataclass(frozen=True)
class BenchProblem:
    """A named question: where its data come from, and what is asked of them.

    `loader` returns X and labels ±1, and raises InputError where a set is not available. `quick`
    problems are those of `python -m benchmarks.suite --quick`.
    """

    name: str
    loader: Callable[[], Data]
    kind: Kind = "separable"
    fit_intercept: bool = False
    C: float = math.inf
    quick: bool = False

    def load(self) -> Data:
        X, y = self.loader()
        return X, np.asarray(y, dtype=np.float64)

    def task(self) -> Task:
        X, y = self.load()
        return Task(X, y, self.kind, self.fit_intercept, self.C)


def noise(n: int, d: int) -> Data:
    """Gaussian rows, labels by coin: separable where n < 2d, with very many support vectors."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.choice(np.array([-1.0, 1.0]), n)


def teacher(n: int, d: int, *, decay: bool = False) -> Data:
    """Gaussian rows, labels by a random hyperplane; with `decay` feature j is scaled by 1/j."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if decay:
        X /= np.arange(1.0, d + 1.0)
    return X, np.where(X @ rng.normal(size=d) > 0.0, 1.0, -1.0)


def real(
    name: str,
    *,
    classes: Sequence[int] | None = None,
    dtype: type = np.float64,
    dense: bool = False,
) -> Data:
    """A real set of two classes; the larger label is the positive one."""
    bunch = load(name, classes=classes, dtype=dtype)
    X = bunch.X.toarray() if dense and hasattr(bunch.X, "toarray") else bunch.X
    return X, np.where(bunch.y == np.max(bunch.y), 1.0, -1.0)


def consistent(name: str) -> Data:
    """A real sparse set without the rows that occur under both labels, which nothing separates."""
    X, y = real(name)
    keys = [
        (X.indices[begin:end].tobytes(), X.data[begin:end].tobytes())
        for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]
    labels: dict[tuple[bytes, bytes], set[float]] = {}
    for key, label in zip(keys, y, strict=True):
        labels.setdefault(key, set()).add(float(label))
    keep = np.array([len(labels[key]) == 1 for key in keys])
    return X[keep], y[keep]


def iris(first: int, second: int) -> Data:
    """Two kinds of iris flowers, of scikit-learn's own copy."""
    X, y = load_iris(return_X_y=True)
    kept = (y == first) | (y == second)
    return X[kept], np.where(y[kept] == second, 1.0, -1.0)


def sparse(n: int, d: int, density: float) -> Data:
    problem = make_sparse_separable(n, d, density=density, n_support=200, random_state=0)
    return problem.X, problem.y


_mnist35 = partial(real, "mnist", classes=(3, 5))
_mnist01 = partial(real, "mnist", classes=(0, 1))

PROBLEMS: dict[str, BenchProblem] = {
    problem.name: problem
    for problem in (
        BenchProblem("mnist-01", _mnist01, quick=True),
        BenchProblem("noise-1000x800", partial(noise, 1000, 800), quick=True),
        BenchProblem("noise-2000x1500", partial(noise, 2000, 1500)),
        BenchProblem("teacher-5000x200", partial(teacher, 5000, 200), quick=True),
        BenchProblem("teacher-20000x500", partial(teacher, 20_000, 500)),
        BenchProblem("decay-5000x200", partial(teacher, 5000, 200, decay=True)),
        BenchProblem("wide-100x5000", partial(noise, 100, 5000), quick=True),
        BenchProblem("mnist-01-intercept", _mnist01, fit_intercept=True),
        BenchProblem("mnist-01-float32", partial(_mnist01, dtype=np.float32)),
        # leu and colon-cancer are dense matrices in a sparse file
        BenchProblem("leu", partial(real, "leu", dense=True), quick=True),
        BenchProblem("colon-cancer", partial(real, "colon-cancer", dense=True), quick=True),
        BenchProblem("golub", partial(real, "golub")),
        BenchProblem("mushrooms", partial(real, "mushrooms"), quick=True),
        # 16 of its 4143 rows contradict each other
        BenchProblem("farm-ads", partial(consistent, "farm-ads")),
        BenchProblem("sparse-100000x50000", partial(sparse, 100_000, 50_000, 2e-4)),
        BenchProblem("tall-1000000x20", partial(teacher, 1_000_000, 20)),
        BenchProblem("mnist-35", _mnist35, kind="witness"),
        BenchProblem("teacher-200x5", partial(teacher, 200, 5), fit_intercept=True, quick=True),
        BenchProblem("noise-60x300", partial(noise, 60, 300), fit_intercept=True, quick=True),
        BenchProblem("iris-01", partial(iris, 0, 1), fit_intercept=True, quick=True),
        BenchProblem("iris-02", partial(iris, 0, 2), fit_intercept=True),
        BenchProblem("a9a-soft", partial(real, "a9a"), kind="soft", C=1.0),
        BenchProblem("w8a-soft", partial(real, "w8a"), kind="soft", C=1.0),
        BenchProblem("a9a-hinge", partial(real, "a9a"), kind="hinge", C=1.0),
        BenchProblem("w8a-hinge", partial(real, "w8a"), kind="hinge", C=1.0),
        BenchProblem("mnist-35-hinge", _mnist35, kind="hinge", C=1e-6),
    )
}
