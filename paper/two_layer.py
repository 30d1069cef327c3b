"""The tangent kernel of a two-layer ReLU network, in closed form, and curves through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from momentron.arithmetic.rounding import gamma
from momentron.arithmetic.threads import in_threads, one_thread
from momentron.rows.kernels import BoundKernel, Kernel
from momentron.rows.kernels.bound import Index
from momentron.solvers import Adaptive, BatchPerceptron, Solver
from momentron.solvers.adaptive import AdaptiveState
from momentron.solvers.problem import KernelChoice, Problem
from momentron.solvers.solver import Candidates
from momentron.views.display.style import GREEN, VERMILLION
from paper.data import Sample
from paper.method_curves import PERCEPTRON, Method, errors_of, log_spaced, record
from paper.runner import Measured, Part, Report

FEW_ROWS = 8  # up to which sparse products beat dense ones


@dataclass(frozen=True)
class PreparedRows:
    """Rows with all that the kernel needs of them."""

    X: np.ndarray  # (n, d)
    hidden: np.ndarray  # (n, width): H = relu(XVᵀ)
    gates: np.ndarray  # (n, width): G_ij = |a_j| where v_j·x_i > 0, else 0
    scale: np.ndarray  # (n,): 1/√K_ii if the kernel is normalised (0 where K_ii = 0), else 1
    diagonal: np.ndarray  # (n,): K(x, x) of each row

    def __getitem__(self, rows: Index) -> PreparedRows:
        """Some of the rows, by a slice or an array of indices."""
        return PreparedRows(*(getattr(self, field.name)[rows] for field in fields(self)))


class TwoLayerReLUKernel(Kernel):
    r"""The tangent kernel of f(x) = Σ_j a_j relu(v_j·x), both layers trained.

    .. math::
        K(x, x') = \sum_j \mathrm{relu}(v_j·x)\, \mathrm{relu}(v_j·x')
                 + (x·x') \sum_j a_j^2 \, 1[v_j·x > 0] \, 1[v_j·x' > 0]

    Parameters
    ----------
    n_features : int
        d.
    width : int
        The number of hidden units.
    seed : int
        Of the weights: v_j ~ N(0, I/d) and a_j ~ N(0, 1/width).
    normalize : bool
        Divide K_ij by √(K_ii K_jj). A row with K_ii = 0 keeps zeros.

    Attributes
    ----------
    V : ndarray of shape (width, n_features)
    a : ndarray of shape (width,)
    """

    def __init__(
        self, n_features: int, width: int = 128, seed: int = 0, *, normalize: bool = False
    ) -> None:
        rng = np.random.default_rng(seed)
        self.V = rng.normal(scale=n_features**-0.5, size=(width, n_features))
        self.a = rng.normal(scale=width**-0.5, size=width)
        self.normalize = normalize

    def prepare(self, X: np.ndarray) -> PreparedRows:
        """What the kernel needs of rows, once for all values of them."""
        hidden = X @ self.V.T
        gates = (hidden > 0.0) * np.abs(self.a)
        np.maximum(hidden, 0.0, out=hidden)
        x, h, g = (np.einsum("ij,ij->i", rows, rows) for rows in (X, hidden, gates))
        squares = x * g + h
        if not self.normalize:
            return PreparedRows(X, hidden, gates, np.ones(len(X)), squares)
        is_there = squares > 0.0
        scale = np.divide(1.0, np.sqrt(squares), out=np.zeros(len(X)), where=is_there)
        return PreparedRows(X, hidden, gates, scale, is_there.astype(float))

    def __call__(self, X1: np.ndarray, X2: np.ndarray) -> np.ndarray:
        """The kernel of all pairs of rows, of shape (n1, n2)."""
        K = values(self.prepare(X1), self.prepare(X2))
        if X1 is X2:  # a normalised kernel has ones there, without their rounding
            np.fill_diagonal(K, self.diagonal(X1))
        return K

    def bind(self, X: Any) -> TangentColumns:
        return TangentColumns(self, X)


def values(left: PreparedRows, right: PreparedRows) -> np.ndarray:
    """K = (XX'ᵀ)∘(GG'ᵀ) + HH'ᵀ."""
    found: np.ndarray = left.X @ right.X.T
    found *= left.gates @ right.gates.T
    found += left.hidden @ right.hidden.T
    found *= left.scale[:, None]
    found *= right.scale
    return found


class TangentColumns(BoundKernel):
    """The kernel over the rows of X, whose hidden layer is computed once.

    Few columns at a time come from the pixels and hidden units of a row that are not zero. Those
    are a fifth of the pixels and half of the units: a column takes a third of the time of dense
    products, and its sums have one order whatever the number of threads.
    """

    def __init__(self, network: TwoLayerReLUKernel, X: Any) -> None:
        self.network = network
        self.rows = network.prepare(X)
        self.n = len(X)
        width, d = network.V.shape
        # three inner products; by Cauchy and Schwarz each errs by γ times a share of √(K_ii K_jj)
        error = gamma(d + 2 * width + 16)
        self.set_errors(self.rows.diagonal, error, on_diagonal=error)
        self.diagonal_evaluations = self.n
        self._halves = [slice(0, self.n // 2), slice(self.n // 2, self.n)]
        self._columns = [self._transposed(half) for half in self._halves]

    def _transposed(self, half: slice) -> list[np.ndarray]:
        rows = self.rows[half]
        return [np.ascontiguousarray(array.T) for array in (rows.X, rows.gates, rows.hidden)]

    def cross(self, B: Any, index: Index = slice(None)) -> np.ndarray:
        return values(self.network.prepare(B), self.rows[index])

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        few = self.rows[rows]
        if len(few.X) > FEW_ROWS or not (isinstance(cols, slice) and cols == slice(0, self.n)):
            return values(few, self.rows[cols])
        factors = [csr_array(array) for array in (few.X, few.gates, few.hidden)]
        found = np.empty((len(few.X), self.n))

        def fill(place: int) -> None:
            columns = zip(factors, self._columns[place], strict=True)
            products, gates, hidden = (row @ column for row, column in columns)
            products *= gates
            products += hidden
            found[:, self._halves[place]] = products

        in_threads(fill, range(len(self._halves)))
        found *= few.scale[:, None]
        found *= self.rows.scale
        return found


class TestRows:
    """The errors of classifiers on the test rows.

    The kernel values of a training row are computed when it first counts, and kept: 8 bytes for
    each test row.
    """

    __test__ = False  # to pytest

    def __init__(self, network: TwoLayerReLUKernel, sample: Sample) -> None:
        self._network, self._X = network, sample.X
        self._test = network.prepare(sample.X_test)
        self._own = np.searchsorted(np.unique(sample.y), sample.y_test)
        self._is_known = np.zeros(len(sample.X), bool)
        self._blocks: list[tuple[np.ndarray, np.ndarray]] = []

    def error(self, coef: np.ndarray) -> float:
        """The share that Σ a_i φ(x_i) gets wrong, for a of shape (n, k); a tie is wrong."""
        new = np.flatnonzero(coef.any(axis=1) & ~self._is_known)
        scores = np.zeros((coef.shape[1], self._own.size))
        with one_thread():
            if new.size:
                prepared = self._network.prepare(self._X[new])
                self._blocks.append((new, values(prepared, self._test)))
                self._is_known[new] = True
            for rows, kernel in self._blocks:
                scores += coef[rows].T @ kernel
        place = np.arange(self._own.size)
        own = scores[self._own, place]
        scores[self._own, place] = -np.inf
        return float(np.mean(own <= scores.max(axis=0)))


CACHE_SIZE = 4000.0  # MB: 8,333 columns of 60,000 values
PER_DECADE = 50

AGGRESSIVE = Method("adaptive-aggressive", "Algorithm 2, β = t/(t + 1), θ = 1", 1, VERMILLION)
THEORY = Method("adaptive-theory", "Algorithm 2, parameters of the theorem", 1, GREEN)
ORDER = (AGGRESSIVE, PERCEPTRON, THEORY)
"""By their margins, as the paper has it."""

Curves = Mapping[str, Mapping[str, np.ndarray]]


class Unending(Adaptive):
    """Algorithm 2 without an end of its own, so that its last row is kept."""

    def candidates(self, problem: Problem, state: AdaptiveState) -> Candidates:
        # the budget ends the run at the same step; a method's own ending would come before the
        # callback, which is to see that step
        return replace(super().candidates(problem, state), ending=None)


@dataclass(frozen=True)
class Features:
    """The tangent features of a two-layer network with random weights."""

    width: int
    seed: int  # of the weights, and of Algorithm 2's draws
    normalize: bool  # whether the features of each row have length 1


def measure_curve(
    method: Method, sample: Sample, iterations: int, features: Features, report: Report
) -> Measured:
    """The curve of one method, margins and test errors, at marks evenly spaced on a log axis."""
    network = TwoLayerReLUKernel(
        sample.X.shape[1], features.width, features.seed, normalize=features.normalize
    )
    kernel = KernelChoice(network, cache_size=CACHE_SIZE)
    test = TestRows(network, sample)
    pose = partial(Problem.from_data, sample.X, sample.y, fit_intercept=False, kernel=kernel)
    return Measured(
        record(
            pose,
            make_solver(method, iterations),
            iterations,
            report,
            extras=errors_of(method, lambda w: test.error(w[0])),
            marks=log_spaced(iterations, PER_DECADE),
            random_state=features.seed,
        )
    )


def make_solver(method: Method, iterations: int) -> Solver:
    """The method with the paper's parameters."""
    if method is PERCEPTRON:
        return BatchPerceptron()
    if method is AGGRESSIVE:
        return Unending()
    return Unending("theory", n_steps=iterations)


def curve_part(
    name: str, method: Method, sample: Sample, iterations: int, features: Features
) -> Part:
    """The curve of one method as a part of a figure."""
    parameters = {
        "method": method.name,
        "iterations": iterations,
        "per_decade": PER_DECADE,
        "cache_size": CACHE_SIZE,
        "rows": sample.fingerprint,
        **asdict(features),
    }
    weight = float(iterations * (len(sample.X) + len(sample.X_test)))
    measure = partial(measure_curve, method, sample, iterations, features)
    return Part(name, parameters, weight, measure)


def last_of(curves: Curves, column: str) -> dict[str, float]:
    """The last entry of a column of each curve, the first method of the paper's order first."""
    return {m.name: float(curves[m.name][column][-1]) for m in ORDER}


def in_order(margins: Mapping[str, float]) -> bool:
    """Are the margins those of the paper's order: aggressive, batch perceptron, theory."""
    first, second, third = (margins[m.name] for m in ORDER)
    return first > second > third
