"""Soft margins of every kind against their exact optima.

Two penalties, rows and kernels, weights, two classes and many, cold and warm starts, paths of C and
estimators, at any scale. Checked of every result: its interval holds the exact optimum; its
classifier attains what `MarginResult` promises; its dual weights are feasible and prove `upper`.
Nothing is raised but an `InputError` of one line.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from flint import fmpq, fmpq_mat

from benchmarks.hostile.guard import outcome
from momentron import (
    InputError,
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    MaxMarginClassifierCV,
    margin_path,
    max_margin,
)
from tests.oracles.soft_margins import fraction, rational
from tests.oracles.soft_results import Posed, shape
from tests.oracles.truths import Rows

SECONDS = 20.0  # of one trial: a hundred times what any of them needs


# --- problems ------------------------------------------------------------------------------------


def pose(rng: np.random.Generator) -> Posed:
    """Rows of any degeneracy, labels, weights and a penalty, seen as they are or by a kernel."""
    k = int(rng.choice([2, 2, 2, 3, 4]))
    n, d = int(rng.integers(k, 11 if k == 2 else 8)), int(rng.integers(1, 5))
    kernel = str(
        rng.choice(["", "", "", "linear", "poly", "rbf", "laplacian", "precomputed", "own"])
    )
    is_whole = kernel in ("precomputed", "own") or rng.random() < 0.4
    X = rng.integers(-3, 4, (n, d)).astype(np.float64) if is_whole else rng.normal(size=(n, d))
    y = rng.permutation(np.r_[np.arange(k), rng.integers(0, k, n - k)])
    if rng.random() < 0.4:
        X[:, 0] += np.rint(8.0 * rng.random() * y)
    _spoil(rng, X)
    options: dict[str, Any] = {
        "penalty": str(rng.choice(["hinge", "squared_hinge"])),
        "fit_intercept": bool(rng.integers(2)),
        "tol": float(rng.choice([1e-3, 1e-6, 1e-6, 1e-9, 1e-12])),
    }
    weights = _weights(rng, y, options)
    if rng.random() < 0.15:
        options["max_memory"] = int(rng.choice([1_000, 10_000, 1_000_000]))
    if not kernel:
        if rng.random() < 0.25:
            X = np.ldexp(X, int(rng.choice([-332, -160, -60, 60, 160, 332])))
        rows = rational(X)
        data = sp.csr_array(X) if rng.random() < 0.2 else X
        return Posed(data, y, options, rows, rows * rows.transpose(), weights)
    if rng.random() < 0.4:
        options["cache_size"] = float(rng.choice([1e-4, 3e-4, 1e-3, 5e-3]))
    data, K = _seen_by(rng, kernel, X, options)
    return Posed(data, y, options, K, K, weights, kernel in ("rbf", "laplacian"))


def _spoil(rng: np.random.Generator, X: np.ndarray) -> None:
    """Repeat rows, whatever their labels; zero rows and columns; a far offset."""
    n, d = X.shape
    if rng.random() < 0.3:
        i, j = rng.integers(n, size=2)
        X[i] = X[j]
    if rng.random() < 0.15:
        X[rng.integers(n)] = 0.0
    if rng.random() < 0.25:
        X[:, rng.integers(d)] = 0.0
    if rng.random() < 0.05:
        X += 1000.0


def _weights(rng: np.random.Generator, y: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """Factors of C by rows and by classes, over none or many decades."""
    weights = np.ones(y.size)
    if rng.random() < 0.35:
        reach = int(rng.choice([2, 10, 30]))
        options["sample_weight"] = 2.0 ** rng.integers(-reach, reach + 1, y.size)
        weights = weights * options["sample_weight"]
    if rng.random() < 0.2:
        factors = 2.0 ** rng.integers(-6, 7, int(y.max()) + 1)
        options["class_weight"] = {c: float(v) for c, v in enumerate(factors)}
        weights = weights * factors[y]
    return weights


def _seen_by(
    rng: np.random.Generator, kernel: str, X: np.ndarray, options: dict[str, Any]
) -> tuple[Any, fmpq_mat]:
    """(X as it is passed, the kernel's matrix)."""
    rows = rational(X)
    products = rows * rows.transpose()
    options["kernel"] = kernel
    if kernel == "linear":
        return X, products
    if kernel == "precomputed":
        return X @ X.T, products
    if kernel == "own":  # exact, as X is whole
        options["kernel"] = lambda A, B: (A @ B.T + 1.0) ** 2
        return X, fmpq_mat(*shape(products), [(v + 1) ** 2 for v in products.entries()])
    options["gamma"] = 2.0 ** int(rng.integers(-6, 5))
    if kernel == "poly":
        options |= {"degree": int(rng.integers(1, 4)), "coef0": float(rng.integers(2))}
        gamma, coef0 = rational([options["gamma"], options["coef0"]]).entries()
        values = [(gamma * v + coef0) ** options["degree"] for v in products.entries()]
        return X, fmpq_mat(*shape(products), values)
    found = Rows.of_exponentials(X, options["gamma"], 2 if kernel == "rbf" else 1)
    unit = fmpq(found.unit.numerator, found.unit.denominator)
    values = [v * unit for v in found.points.entries()]
    return X, fmpq_mat(*shape(products), values)


def draw_C(rng: np.random.Generator, posed: Posed) -> float:
    """In proportion to the rows, over many decades."""
    top = max(posed.K[i, i] for i in range(posed.K.nrows()))
    # of a scale 1e±100 the square is a float as well
    scale = 1.0 / float(fraction(top)) if top > 0 and rng.random() < 0.9 else 1.0
    return float(10.0 ** rng.uniform(-12.0, 12.0) * scale)


# --- ways to solve them --------------------------------------------------------------------------


def cold(rng: np.random.Generator, posed: Posed) -> str | None:
    C = draw_C(rng, posed)
    return posed.refutes(C, max_margin(posed.X, posed.y, C=C, **posed.options))


def warm(rng: np.random.Generator, posed: Posed) -> str | None:
    """From the result of another C, or of fewer rows."""
    C, first = draw_C(rng, posed), posed
    if rng.random() < 0.4:
        sizes = [m for m in range(2, posed.y.size) if set(posed.y[:m]) == set(posed.y)]
        first = posed.some(sizes[0]) if sizes else posed
    before = C * float(rng.choice([1.0, 1e-3, 0.1, 10.0, 1e6]))
    start = max_margin(first.X, first.y, C=before, **first.options)
    found = max_margin(posed.X, posed.y, C=C, initial=start, **posed.options)
    return first.refutes(before, start) or posed.refutes(C, found)


def path(rng: np.random.Generator, posed: Posed) -> str | None:
    middle = draw_C(rng, posed)
    Cs = middle * 10.0 ** np.arange(-3.0, 4.0, 2.0)
    found = margin_path(posed.X, posed.y, Cs=Cs, **posed.options)
    reasons = (posed.refutes(C, result) for C, result in found.results.items())
    return next((reason for reason in reasons if reason), None)


def estimator(rng: np.random.Generator, posed: Posed) -> str | None:
    """Twice, the second time from the first."""
    options, C = dict(posed.options), draw_C(rng, posed)
    weights = options.pop("sample_weight", None)
    kind = KernelMaxMarginClassifier if posed.is_kernel else MaxMarginClassifier
    model = kind(C=10.0 * C, warm_start=True, **options)
    model.fit(posed.X, posed.y, sample_weight=weights)
    reason = posed.refutes(10.0 * C, model.result_)
    model.set_params(C=C).fit(posed.X, posed.y, sample_weight=weights)
    return reason or posed.refutes(C, model.result_)


def cross_validated(rng: np.random.Generator, posed: Posed) -> str | None:
    """Every row three times, so that each fold has all classes."""
    C, posed = draw_C(rng, posed), posed.copied(3)
    options = dict(posed.options)
    weights = options.pop("sample_weight", None)
    kind = KernelMaxMarginClassifierCV if posed.is_kernel else MaxMarginClassifierCV
    model = kind(Cs=[0.01 * C, C, 100.0 * C], cv=2, **options)
    model.fit(posed.X, posed.y, sample_weight=weights)
    return posed.refutes(model.C_, model.result_)


# way: how often it is drawn
WAYS: dict[Callable[[np.random.Generator, Posed], str | None], float] = {
    cold: 0.45,
    warm: 0.25,
    path: 0.12,
    estimator: 0.12,
    cross_validated: 0.06,
}


def trial(seed: int, number: int) -> str | None:
    """One problem, solved one way: why an answer is false, or None."""
    rng = np.random.default_rng([seed, number])
    ways = list(WAYS)
    way = ways[int(rng.choice(len(ways), p=np.array(list(WAYS.values()))))]
    posed = pose(rng)

    def attempt() -> str | None:
        warnings.simplefilter("error", RuntimeWarning)  # such as an overflow that users would see
        try:
            return way(rng, posed)
        except InputError as error:
            if "\n" in str(error) or len(str(error)) > 300:
                return f"a message that is not plain: {error}"
            return None

    reason = outcome(attempt, lambda found: found, SECONDS, may_refuse=False)
    if reason is None:
        return None
    what = {name: v for name, v in posed.options.items() if name not in ("sample_weight",)}
    return f"{reason} [{way.__name__}, {posed.y.size} rows, {what}]"


assert math.isclose(sum(WAYS.values()), 1.0)
