"""What the contract tests run on: solvers × kinds of rows × label schemes, with known answers.

A new solver or a new kind of rows is one line here: in `momentron.solvers.SOLVERS` or `OUTSIDE`,
and in `ROWS`. `tests/conftest.py` makes fixtures of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from toy_frank_wolfe import FrankWolfe
from toy_low_rank import LowRank

from momentron.solvers import SOLVERS

OUTSIDE = [FrankWolfe]  # solvers that are not in the registry
ALL_SOLVERS = {kind.name: kind for kind in [*SOLVERS.values(), *OUTSIDE]}

HADAMARD = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])
ROTATION = np.kron(HADAMARD, np.eye(2)) / 2.0  # orthogonal, and its entries are floats
BLOCK = 640  # bytes: ten rows of float64


@dataclass(frozen=True)
class Scheme:
    """Two classes or many, with or without intercepts."""

    n_classes: int
    fit_intercept: bool

    def __str__(self) -> str:
        with_or_without = "intercepts" if self.fit_intercept else "no-intercepts"
        return f"{self.n_classes}-classes-{with_or_without}"


SCHEMES = [Scheme(k, fit_intercept) for k in (2, 4) for fit_intercept in (False, True)]


@dataclass(frozen=True)
class Known:
    """Rows X = corners · rotationᵀ without any rounding, and the square of their best margin."""

    scheme: Scheme
    corners: np.ndarray
    y: np.ndarray
    margin_squared: Fraction

    @property
    def X(self) -> np.ndarray:
        return self.corners @ ROTATION.T


@cache
def known(scheme: Scheme) -> Known:
    """Support vectors in pairs (s, ±v), other points behind them, all turned and shifted.

    The mean of a pair is a multiple s of ±e_1 for two classes, of e_c for many: the best margins of
    these means are 1 and 1/√(k − 1), and the v cancel. A shift is for the intercepts to find.
    """
    rng, k = np.random.default_rng(0), scheme.n_classes
    y = np.tile([-1, 1] if k == 2 else np.arange(k), 24 // k)
    group = np.arange(24) // k  # two of support vectors, the others behind them
    depth = np.where(group < 2, 1.0, 1.0 + rng.integers(1, 8, 24) / 4)
    corners = np.zeros((24, 8))
    corners[:, 4:] = rng.integers(-2, 3, (24, 4))
    corners[k : 2 * k, 4:] = -corners[:k, 4:]
    corners[np.arange(24), 0 if k == 2 else y] = depth * (y if k == 2 else 1)
    if scheme.fit_intercept:
        corners += rng.integers(-1, 2, 8)
    corners.flags.writeable = y.flags.writeable = False
    return Known(scheme, corners, y, Fraction(1, k - 1))


def saved(problem: Known, folder: Any) -> Any:
    np.save(folder / "rows.npy", problem.X)
    return folder / "rows.npy"


def with_dask(problem: Known, _: Any) -> Any:
    array = pytest.importorskip("dask.array")
    return array.from_array(problem.X, chunks=(10, -1))


@dataclass(frozen=True)
class RowKind:
    """A kind of rows: X of a problem in a folder for files, and the options that go with it."""

    make: Callable[[Known, Any], Any]
    options: dict[str, Any] = field(default_factory=dict)
    is_in_blocks: bool = False


def in_blocks(make: Callable[[Known, Any], Any]) -> RowKind:
    return RowKind(make, {"block_size": BLOCK}, is_in_blocks=True)


ROWS = {
    "dense": RowKind(lambda problem, _: problem.X),
    "float32": RowKind(lambda problem, _: problem.X.astype(np.float32)),
    "sparse": RowKind(lambda problem, _: sp.csr_array(problem.X)),
    "sparse-columns": RowKind(lambda problem, _: sp.csc_array(problem.X)),
    "toy": RowKind(lambda problem, _: LowRank(problem.corners, ROTATION)),
    "kernel": RowKind(lambda problem, _: problem.X, {"kernel": "linear"}),
    "kernel-matrix": RowKind(lambda problem, _: problem.X @ problem.X.T, {"kernel": "precomputed"}),
    "blocks": in_blocks(lambda problem, _: problem.X),
    "sparse-blocks": in_blocks(lambda problem, _: sp.csr_array(problem.X)),
    "toy-blocks": in_blocks(lambda problem, _: LowRank(problem.corners, ROTATION)),
    "file": in_blocks(saved),
    "dask": RowKind(with_dask, is_in_blocks=True),
}


# --- checks in exact arithmetic ------------------------------------------------------------------


def exact(values: Any) -> np.ndarray:
    """Floats as fractions, which numpy adds and multiplies without rounding."""
    values = np.asarray(values, np.float64)
    return np.array([Fraction(v) for v in values.ravel().tolist()], object).reshape(values.shape)


@dataclass(frozen=True)
class ExactProblem:
    """Rows and labels in fractions; `gram` in the place of rows where the rows are a kernel's."""

    problem: Known
    has_kernel: bool

    @property
    def X(self) -> np.ndarray:
        X = exact(self.problem.X)
        return X @ X.T if self.has_kernel else X

    @property
    def codes(self) -> np.ndarray:
        return np.unique(self.problem.y, return_inverse=True)[1]

    def squared_norm(self, w: np.ndarray) -> Fraction:
        """‖w‖², for coefficients of shape (d,) or (k, d)."""
        return Fraction(np.sum(w * (w @ self.X if self.has_kernel else w)))

    def functional_margin(self, coef: np.ndarray, intercept: Any) -> Fraction:
        """The least y (x·w + b), or the least lead of a row's own class over another."""
        outputs = self.X @ exact(coef).T + exact(intercept)
        if outputs.ndim == 1:
            return min(self.problem.y * outputs)
        rows = np.arange(self.codes.size)
        leads = outputs[rows, self.codes][:, None] - outputs
        leads[rows, self.codes] = leads.max()
        return leads.min()

    def squared_bound(self, dual: np.ndarray) -> Fraction:
        """‖Zᵀq‖² over the squared mass of q: no margin is larger than its root."""
        q = exact(dual)
        a = q * self.problem.y if q.ndim == 1 else q.copy()
        if q.ndim == 2:
            a[np.arange(self.codes.size), self.codes] = -q.sum(axis=1)
        w = a.T if self.has_kernel else (self.X.T @ a).T
        return self.squared_norm(w) / q.sum() ** 2
