"""Random small problems of every family, their answers, and what the library says of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.hostile.doors import doors, duplicate_entries
from benchmarks.hostile.guard import outcome
from momentron import check_separability, max_margin, verify
from momentron.rows.kernels import PolynomialKernel
from momentron.solvers import SOLVERS
from tests.oracles.kernels import exact_kernel
from tests.oracles.truths import Rows, Truth, kind_of, truth_of

SECONDS = 20.0  # of one problem: a hundred times what any of them needs


@dataclass(frozen=True)
class Draw:
    """Rows and labels in floats, with the choice of an intercept."""

    X: np.ndarray
    y: np.ndarray
    fit_intercept: bool


def draw(rng: np.random.Generator, *, n_classes: int = 2, widest: int = 4, most: int = 12) -> Draw:
    """A few rows of any shape, scale and degeneracy."""
    n = int(rng.integers(max(2, n_classes), most + 1))
    X = _entries(rng, n, int(rng.integers(1, widest + 1)))
    y = rng.integers(0, n_classes, n)
    y[rng.permutation(n)[:n_classes]] = np.arange(n_classes)
    if rng.random() < 0.6:
        _pull_apart(rng, X, y)
    _spoil(rng, X)
    return Draw(X, y, bool(rng.integers(2)))


def _entries(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Whole numbers with many ties, normals, mixed magnitudes, one line, or a far offset."""
    kind = rng.choice(["grid", "normal", "rows", "columns", "entries", "line", "offset"])
    if kind == "grid":
        return rng.integers(-3, 4, (n, d)).astype(np.float64)
    X = rng.normal(size=(n, d))
    if kind in ("rows", "columns", "entries"):
        shape = {"rows": (n, 1), "columns": (1, d), "entries": (n, d)}[str(kind)]
        return X * 10.0 ** rng.uniform(-float(rng.choice([3.0, 30.0, 150.0])), 0.0, shape)
    if kind == "line":
        return np.outer(rng.integers(-4, 5, n), X[0]) + float(rng.choice([0.0, 1e-9])) * X
    if kind == "offset":
        return X + 10.0 ** rng.uniform(0.0, 12.0) * rng.normal(size=d)
    return X


def _pull_apart(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> None:
    """Move the classes away from each other, by little or by much."""
    shift = rng.normal(size=(int(y.max()) + 1, X.shape[1])) * 10.0 ** rng.uniform(-2.0, 1.5)
    X += np.rint(shift)[y] if rng.random() < 0.5 else shift[y]


def _spoil(rng: np.random.Generator, X: np.ndarray) -> None:
    """Repeat rows, whatever their labels; zero rows, columns and entries."""
    n, d = X.shape
    if rng.random() < 0.25:
        i, j = rng.integers(n, size=2)
        X[i] = X[j]
    if rng.random() < 0.1:
        X[rng.integers(n)] = 0.0
    if rng.random() < 0.1:
        X[:, rng.integers(d)] = 0.0
    if rng.random() < 0.15:
        X[rng.random((n, d)) < 0.5] = 0.0


def scaled(rng: np.random.Generator, X: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """X times anything between the ends of its type's range; what overflows is cut."""
    if rng.random() < 0.4:
        return X.astype(dtype).astype(np.float64)
    limit = 30.0 if dtype == np.float32 else float(rng.choice([5.0, 150.0, 300.0, 308.0]))
    with np.errstate(over="ignore", under="ignore"):
        X = X * 10.0 ** rng.uniform(-limit, limit)
        top = float(np.finfo(dtype).max) / 64.0
        return np.clip(X, -top, top).astype(dtype).astype(np.float64)


LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: X[::-1].copy()[::-1],
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "csr_matrix": sp.csr_matrix,
    "list": lambda X: X.tolist(),
}


def _tolerance(rng: np.random.Generator) -> float:
    return float(rng.choice([1e-3, 1e-6, 1e-9, 1e-12, 0.0]))


def _method(rng: np.random.Generator) -> dict[str, Any]:
    """Half the time what users take; the rest is any method, for some steps."""
    if rng.random() < 0.5:
        return {"method": "auto"}
    name = str(rng.choice(list(SOLVERS)))
    return {"method": name, "max_iter": int(rng.integers(1, 60)), "random_state": 0}


def _judged(X: Any, y: Any, truth: Truth, options: dict[str, Any]) -> str | None:
    return outcome(
        lambda: max_margin(X, y, **options),
        lambda found: truth.refutes(found, options["tol"]),
        SECONDS,
    )


def in_memory(rng: np.random.Generator) -> str | None:
    """Dense and sparse rows of every layout, by every method."""
    drawn = draw(rng)
    dtype = np.float32 if rng.random() < 0.25 else np.float64
    X = scaled(rng, drawn.X, dtype)
    layout = str(rng.choice(list(LAYOUTS)))
    options = _method(rng) | {"tol": _tolerance(rng), "fit_intercept": drawn.fit_intercept}
    truth = truth_of(Rows.of(X), drawn.y, drawn.fit_intercept)
    return _judged(LAYOUTS[layout](X.astype(dtype)), drawn.y, truth, options)


def soft(rng: np.random.Generator) -> str | None:
    """Soft margins, whose 1/√(2C) is a float."""
    drawn = draw(rng, n_classes=int(rng.choice([2, 2, 3])))
    C = 0.5 * 4.0 ** int(rng.integers(-8, 9))
    X = np.clip(drawn.X, -1e6, 1e6)
    options = _method(rng) | {"tol": _tolerance(rng), "fit_intercept": drawn.fit_intercept, "C": C}
    truth = truth_of(Rows.of(X), drawn.y, drawn.fit_intercept, slack=1 / Fraction(2.0 * C))
    return _judged(X, drawn.y, truth, options)


def many_classes(rng: np.random.Generator) -> str | None:
    """Three to five classes, jointly."""
    drawn = draw(rng, n_classes=int(rng.integers(3, 6)), most=10)
    X = scaled(rng, drawn.X)
    options = _method(rng) | {"tol": _tolerance(rng), "fit_intercept": drawn.fit_intercept}
    truth = truth_of(Rows.of(X), drawn.y, drawn.fit_intercept)
    layout = str(rng.choice(list(LAYOUTS)))
    return _judged(LAYOUTS[layout](X), drawn.y, truth, options)


def streams(rng: np.random.Generator) -> str | None:
    """Blocks of any size, of two classes and more."""
    drawn = draw(rng, n_classes=int(rng.choice([2, 2, 2, 3])))
    X = scaled(rng, drawn.X)
    method: dict[str, Any] = {"method": "auto", "max_iter": 30}  # passes, which tol=0 would spend
    if rng.random() < 0.4:
        method = {"method": "momentum", "max_iter": int(rng.integers(1, 12))}
    row = 8 * X.shape[1]
    options = method | {
        "tol": _tolerance(rng),
        "fit_intercept": drawn.fit_intercept,
        "block_size": int(rng.integers(row, 13 * row)),
    }
    truth = truth_of(Rows.of(X), drawn.y, drawn.fit_intercept)
    return _judged(sp.csr_array(X) if rng.random() < 0.3 else X, drawn.y, truth, options)


def kernels(rng: np.random.Generator) -> str | None:
    """Named kernels with parameters over many decades, and matrices of products."""
    drawn = draw(rng, n_classes=int(rng.choice([2, 2, 2, 3])), most=8)
    X, gamma = drawn.X, 10.0 ** rng.uniform(-3.0, 3.0)
    if rng.random() < 0.3:
        gamma = float(rng.choice([1e-300, 1e-100, 1e-20, 1e20, 1e100, 1e300, 1e304]))
    if rng.random() < 0.2:
        X = np.rint(X) + 1e6
    if rng.random() < 0.1:
        X = X * 100.0
    name = str(rng.choice(["rbf", "rbf", "rbf", "poly", "laplacian", "precomputed"]))
    options: dict[str, Any] = {"kernel": name, "fit_intercept": drawn.fit_intercept}
    options |= {"tol": _tolerance(rng)} | _method(rng)
    if rng.random() < 0.3:
        options["cache_size"] = float(rng.choice([1e-4, 3e-4, 1e-3]))
    if rng.random() < 0.2:
        options["C"] = 0.5 * 4.0 ** int(rng.integers(-3, 4))
    if name == "precomputed":
        points = rng.integers(-9, 10, (X.shape[0], 3)).astype(np.float64)
        data, exact = points @ points.T, Rows.of(points)
    elif name == "poly":
        gamma = float(np.clip(gamma, 1e-3, 1e3))
        X = np.clip(X, -1e6, 1e6)
        options |= {"gamma": gamma, "degree": int(rng.integers(1, 4)), "coef0": 1.0}
        kernel = PolynomialKernel(gamma, options["degree"], 1.0)
        data, exact = X, Rows.of_kernel(exact_kernel(kernel, X))
    else:
        options["gamma"] = gamma
        data, exact = X, Rows.of_exponentials(X, gamma, 2 if name == "rbf" else 1)
    slack = 1 / Fraction(2.0 * options["C"]) if "C" in options else Fraction(0)
    truth = truth_of(exact, drawn.y, drawn.fit_intercept, slack=slack, is_rounded=True)
    return _judged(data, drawn.y, truth, options)


def verdicts(rng: np.random.Generator) -> str | None:
    """`check_separability` against circuits, its interval, and `verify` on its own proof."""
    drawn = draw(rng, widest=3, most=8)
    X = scaled(rng, drawn.X)
    layout = str(rng.choice(list(LAYOUTS)))
    data, y, fit_intercept = LAYOUTS[layout](X), drawn.y, drawn.fit_intercept
    truth = truth_of(Rows.of(X), y, fit_intercept)
    kind = kind_of(X, y, fit_intercept)

    def judge(verdict: Any) -> str | None:
        if verdict.kind not in (kind, "undecided"):
            return f"{verdict.kind} for {kind} data"
        return truth.contradicts(verdict.lower, verdict.upper)

    def attempt() -> Any:
        verdict = check_separability(data, y, fit_intercept=fit_intercept, decimals="binary")
        verify(verdict.to_json(), data, y)
        return verdict

    return outcome(attempt, judge, SECONDS)


# family: how often it is drawn
FAMILIES: dict[Callable[[np.random.Generator], str | None], float] = {
    in_memory: 0.28,
    doors: 0.06,
    duplicate_entries: 0.03,
    soft: 0.06,
    many_classes: 0.12,
    streams: 0.1,
    kernels: 0.2,
    verdicts: 0.15,
}


def trial(seed: int, number: int) -> str | None:
    """One problem: why the answer is false, or None."""
    rng = np.random.default_rng([seed, number])
    families = list(FAMILIES)
    family = families[int(rng.choice(len(families), p=np.array(list(FAMILIES.values()))))]
    reason = family(rng)
    return None if reason is None else f"{reason} [{family.__name__}]"


assert math.isclose(sum(FAMILIES.values()), 1.0)
