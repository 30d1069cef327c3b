"""Whole numbers that floats may not hold, through every door: the true answer, or a refusal."""

import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from flint import fmpz_mat

from benchmarks.hostile.guard import outcome
from momentron import check_separability, max_margin
from momentron.data.files import read_data
from tests.oracles.truths import Rows, truth_of

SECONDS = 20.0
BASES = (0, 2**24, 2**52, 2**53, 2**60, 2**62)


class GivesArray:
    """An object that numpy turns into an array of whole numbers."""

    def __init__(self, X: np.ndarray) -> None:
        self._X = X

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._X if dtype is None else self._X.astype(dtype)


def _text(suffix: str, separator: str) -> Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]:
    def read(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        if suffix == ".svm":
            rows = [[f"{j + 1}:{v}" for j, v in enumerate(row)] for row in X.tolist()]
            lines = [f"{c} {' '.join(row)}" for c, row in zip(y.tolist(), rows, strict=True)]
        else:
            lines = [
                separator.join(map(str, [*row, f"class{c}"]))
                for row, c in zip(X.tolist(), y.tolist(), strict=True)
            ]
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            path = Path(folder) / f"data{suffix}"
            path.write_text("\n".join(lines) + "\n")
            file = read_data(path)
        return file.X, file.y

    return read


def _blocks(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    class Source:
        def __len__(self) -> int:
            return 1

        def block(self, number: int) -> tuple[Any, Any]:
            return X, y

    return Source(), None


def _dates(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    import pandas as pd

    return pd.DataFrame({f"f{j}": X[:, j].astype("datetime64[ns]") for j in range(X.shape[1])}), y


def _frame(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])]), y


DOORS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]] = {
    "int64": lambda X, y: (X, y),
    "uint64": lambda X, y: (X.astype(np.uint64), y),
    "list": lambda X, y: (X.tolist(), y),
    "objects": lambda X, y: (X.astype(object), y),
    "numeric strings": lambda X, y: (X.astype(str), y),
    "objects of strings": lambda X, y: (X.astype(str).astype(object), y),
    "memoryview": lambda X, y: (memoryview(cast(Any, X)), y),
    "__array__": lambda X, y: (GivesArray(X), y),
    "fractions": lambda X, y: ([[Fraction(v) for v in row] for row in X.tolist()], y),
    "csr": lambda X, y: (sp.csr_array(X), y),
    "csc": lambda X, y: (sp.csc_array(X), y),
    "frame": _frame,
    "dates": _dates,
    "datetime64": lambda X, y: (X.astype("datetime64[s]"), y),
    "csv": _text(".csv", ","),
    "tsv": _text(".tsv", "\t"),
    "svmlight": _text(".svm", " "),
    "a source": _blocks,
}


def _judged(X: Any, y: Any, whole: list[list[int]], codes: Any, fit_intercept: bool) -> str | None:
    truth = truth_of(Rows(fmpz_mat(whole), Fraction(1)), codes, fit_intercept)

    def attempt() -> Any:
        data, labels = X(), y
        if isinstance(data, tuple):
            data, labels = data
        found = max_margin(data, labels, fit_intercept=fit_intercept)
        verdict = None
        if not callable(getattr(data, "block", None)):
            verdict = check_separability(
                data, labels, fit_intercept=fit_intercept, decimals="binary"
            )
        return found, verdict

    def judge(answers: Any) -> str | None:
        found, verdict = answers
        if verdict is not None:
            if (verdict.kind == "separable") != (truth.squared > 0) and verdict.kind != "undecided":
                return f"{verdict.kind} where the margin is {truth.margin!r}"
            reason = truth.contradicts(verdict.lower, verdict.upper)
            if reason is not None:
                return reason
        return truth.refutes(found, 1e-6)

    return outcome(attempt, judge, SECONDS)


def doors(rng: np.random.Generator) -> str | None:
    """Whole numbers near a power of two, in any form that data come in."""
    n, d = int(rng.integers(2, 7)), int(rng.integers(1, 3))
    X = int(rng.choice(BASES)) + rng.integers(-4, 5, (n, d))
    if rng.random() < 0.5:
        X = np.abs(X)
    y = rng.integers(0, 2, n)
    y[:2] = [0, 1]
    name = str(rng.choice(list(DOORS)))
    fit_intercept = bool(rng.integers(2))
    reason = _judged(lambda: DOORS[name](X, y), y, X.tolist(), y, fit_intercept)
    return reason and f"{reason} [{name}]"


def duplicate_entries(rng: np.random.Generator) -> str | None:
    """Sparse matrices whose entries are given in two parts, which overflow or round when added."""
    n, d = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    dtype, base = [
        (np.uint8, 200),
        (np.int8, 100),
        (np.int64, 2**53),
        (np.int64, 2**62),
        (np.float64, 2**53),
        (np.float32, 2**24),
        (np.float32, 0),
    ][int(rng.integers(7))]
    first = base + rng.integers(0, 5, (n, d))
    second = base // 2 * rng.integers(0, 2, (n, d)) + rng.integers(0, 4, (n, d))
    rows, cols = np.repeat(np.arange(n), d), np.tile(np.arange(d), n)
    entries = np.concatenate([first.ravel(), second.ravel()]).astype(dtype)
    place = (np.concatenate([rows, rows]), np.concatenate([cols, cols]))
    coo = sp.coo_array((entries, place), shape=(n, d))
    order = np.argsort(place[0], kind="stable")
    indptr = np.arange(n + 1) * 2 * d
    csr = sp.csr_array((entries[order], place[1][order], indptr), shape=(n, d))
    y = rng.integers(0, 2, n)
    y[:2] = [0, 1]
    total = [[int(a) + int(b) for a, b in zip(p, q, strict=True)] for p, q in _rows(entries, n, d)]
    X = csr if rng.random() < 0.7 else coo
    fit_intercept = bool(rng.integers(2))
    reason = _judged(lambda: X, y, total, y, fit_intercept)
    return reason and f"{reason} [{type(X).__name__} {np.dtype(dtype)}]"


def _rows(entries: np.ndarray, n: int, d: int) -> Any:
    half = entries.size // 2
    parts = entries[:half].reshape(n, d), entries[half:].reshape(n, d)
    return zip(parts[0].tolist(), parts[1].tolist(), strict=True)
