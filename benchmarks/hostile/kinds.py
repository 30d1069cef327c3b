"""A small problem of every kind that `max_margin` takes, with its true answer.

A new kind is one line in `KINDS`: how the rows become arguments, and what the truth is.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.rows.kernels import PolynomialKernel
from tests.oracles.kernels import exact_kernel
from tests.oracles.truths import Rows, Truth, truth_of

C = 2.0
GAMMA = 0.25


@dataclass(frozen=True)
class Kind:
    """A way to pose a problem.

    Attributes
    ----------
    options : dict
        Of `max_margin`.
    pack : callable
        (X, y) as `max_margin` takes them, from dense arrays that are the caller's own.
    n_classes : int
    is_streamed : bool
        Whether it takes subclasses of Momentum alone.
    """

    options: dict[str, Any] = field(default_factory=dict)
    pack: Callable[[np.ndarray, np.ndarray], tuple[Any, Any]] = lambda X, y: (X, y)
    n_classes: int = 2
    is_streamed: bool = False

    def truth(self, X: np.ndarray, y: np.ndarray) -> Truth:
        """The answer for rows and labels as `rows_for` gives them."""
        options = self.options
        slack = Fraction(1) / Fraction(2.0 * options["C"]) if "C" in options else Fraction(0)
        kernel = options.get("kernel")
        if kernel == "rbf":
            rows = Rows.of_exponentials(X, GAMMA, 2)
        elif kernel == "poly":
            rows = Rows.of_kernel(exact_kernel(PolynomialKernel(GAMMA, options["degree"], 1.0), X))
        else:
            rows = Rows.of(X)
        return truth_of(rows, y, options["fit_intercept"], slack=slack, is_rounded=kernel == "rbf")


def _float32(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    return X.astype(np.float32), y


def _csr(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    return sp.csr_array(X), y


def _csc(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    return sp.csc_array(X), y


def _products(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    return X @ X.T, y  # exact: the rows are eighths of small whole numbers


def _file(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    folder = _folder()
    path = Path(folder) / f"rows-{X.shape[0]}-{X.shape[1]}.npy"
    np.save(path, X)
    return path, y


@cache
def _folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="hostile-")
    _KEPT.append(folder)
    return folder.name


_KEPT: list[Any] = []  # a folder that goes when the process ends


def _dask(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    import dask.array as da

    return da.from_array(X, chunks=(5, X.shape[1])), y


PLAIN = {"fit_intercept": False}
SHIFTED = {"fit_intercept": True}
RBF = {"kernel": "rbf", "gamma": GAMMA}
POLY = {"kernel": "poly", "gamma": GAMMA, "degree": 2, "coef0": 1.0}
FEW_COLUMNS = {"cache_size": 4e-4}  # four columns of twelve rows
BLOCKS = {"block_size": 120}

KINDS: dict[str, Kind] = {
    "dense": Kind(PLAIN),
    "dense, intercept": Kind(SHIFTED),
    "float32": Kind(SHIFTED, _float32),
    "csr": Kind(SHIFTED, _csr),
    "csc": Kind(PLAIN, _csc),
    "rbf": Kind(SHIFTED | RBF),
    "rbf, small cache": Kind(PLAIN | RBF | FEW_COLUMNS),
    "poly": Kind(SHIFTED | POLY),
    "precomputed": Kind(SHIFTED | {"kernel": "precomputed"}, _products),
    "soft": Kind(SHIFTED | {"C": C}),
    "soft rbf": Kind(PLAIN | RBF | {"C": C}),
    "many": Kind(PLAIN, n_classes=3),
    "many, intercepts": Kind(SHIFTED, n_classes=3),
    "many csr, intercepts": Kind(SHIFTED, _csr, n_classes=3),
    "many rbf": Kind(PLAIN | RBF, n_classes=3),
    "many soft": Kind(SHIFTED | {"C": C}, n_classes=3),
    "blocks": Kind(SHIFTED | BLOCKS, _file, is_streamed=True),
    "many blocks": Kind(SHIFTED | BLOCKS, n_classes=3, is_streamed=True),
    "dask": Kind(SHIFTED, _dask, is_streamed=True),
}


def rows_for(n_classes: int, is_separable: bool) -> tuple[np.ndarray, np.ndarray]:
    """Twelve rows in eighths, exact in float32 as in every product; nothing separates some."""
    rng = np.random.default_rng(n_classes + 10 * is_separable)
    y = np.arange(12) % n_classes
    X = rng.integers(-12, 13, (12, 4)) / 8.0
    if is_separable:
        X[np.arange(12), y] += 4.0
    else:
        X[:-2] *= 0.5
        X[-1] = X[-2]  # another label: this separates in no feature space
    return X, y


@cache
def known_truth(name: str, is_separable: bool) -> Truth:
    """The answer for a kind's own rows."""
    kind = KINDS[name]
    return kind.truth(*rows_for(kind.n_classes, is_separable))


def arguments(name: str, is_separable: bool) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """(X, y) as arrays of their own, and the options."""
    kind = KINDS[name]
    X, y = rows_for(kind.n_classes, is_separable)
    return kind.pack(X.copy(), y.copy()), dict(kind.options)
