"""Curves through the tangent kernel of a two-layer network, one column per iteration."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from momentron.arithmetic.rounding import gamma
from momentron.arithmetic.threads import in_threads, one_thread
from momentron.rows.kernels import BoundKernel, Kernel
from momentron.rows.kernels.base import Index
from momentron.solvers import Adaptive, BatchPerceptron, Solver
from momentron.solvers.adaptive import AdaptiveState
from momentron.solvers.base import DEFAULTS, Candidates, RunOptions
from momentron.solvers.problem import KernelChoice, Problem
from momentron.views.display.style import GREEN, VERMILLION
from paper.curves import PERCEPTRON, Method, log_spaced, record
from paper.data import Sample
from paper.figure import Measured, Part, Report
from paper.two_layer import TwoLayerReLUKernel

FEW_ROWS = 8  # up to which sparse products beat dense ones


@dataclass(frozen=True)
class TangentKernel(Kernel):
    """A two-layer ReLU kernel that keeps what it needs of the rows it is bound to."""

    network: TwoLayerReLUKernel

    def bind(self, X: Any) -> "TangentColumns":
        return TangentColumns(self.network, X)


class TangentColumns(BoundKernel):
    """The kernel over the rows of X, whose hidden layer is computed once.

    Few columns at a time come from the pixels and hidden units of a row that are not zero. Those
    are a fifth of the pixels and half of the units: a column takes a third of the time of dense
    products, and its sums have one order whatever the number of threads.
    """

    def __init__(self, network: TwoLayerReLUKernel, X: Any) -> None:
        self.network = network
        self.rows = network.prepare(X)
        self.n = len(self.rows)
        width, d = network.V.shape
        # three inner products; by Cauchy and Schwarz each errs by γ times a share of √(K_ii K_jj)
        error = gamma(d + 2 * width + 16)
        diagonal = network.diagonal(self.rows)
        self.set_errors(diagonal, error, on_diagonal=error, absolute=0.0)
        self.diagonal_evaluations = self.n
        middle = self.n // 2
        self._halves = [slice(0, middle), slice(middle, self.n)]
        self._columns = [self._transposed(half) for half in self._halves]

    def _transposed(self, half: slice) -> list[np.ndarray]:
        rows = self.rows[half]
        return [np.ascontiguousarray(array.T) for array in (rows.X, rows.gates, rows.hidden)]

    def cross(self, B: Any, index: Index = slice(None)) -> np.ndarray:
        return self.network(B, self.rows[index])

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        few = self.rows[rows]
        if len(few) > FEW_ROWS or not (isinstance(cols, slice) and cols == slice(0, self.n)):
            return self.network(few, self.rows[cols])
        factors = [csr_array(array) for array in (few.X, few.gates, few.hidden)]
        values = np.empty((len(few), self.n))

        def fill(place: int) -> None:
            columns = zip(factors, self._columns[place], strict=True)
            products, gates, hidden = (row @ column for row, column in columns)
            products *= gates  # K = (XX'ᵀ)∘(GG'ᵀ) + HH'ᵀ
            products += hidden
            values[:, self._halves[place]] = products

        in_threads(fill, range(len(self._halves)))
        if few.scale is not None and self.rows.scale is not None:
            values *= few.scale[:, None]
            values *= self.rows.scale
        return values


class TestRows:
    """The errors of classifiers on the test rows.

    The kernel values of a training row are computed when it first counts, and kept: 8 bytes for
    each test row.

    Parameters
    ----------
    network : TwoLayerReLUKernel
    sample : Sample
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
                self._blocks.append((new, self._network(self._X[new], self._test)))
                self._is_known[new] = True
            for rows, values in self._blocks:
                scores += coef[rows].T @ values
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


class Seeded(Adaptive):
    """Algorithm 2 whose draws are the same in every run, and whose last row is kept."""

    def __init__(self, parameters: str = "aggressive", *, seed: int = 0, **options: Any) -> None:
        super().__init__(parameters, **options)
        self.seed = seed

    def init(self, problem: Problem, options: RunOptions = DEFAULTS) -> AdaptiveState:
        return super().init(problem, replace(options, random_state=self.seed))

    def candidates(self, problem: Problem, state: AdaptiveState) -> Candidates:
        # the budget ends the run at the same step; a method's own ending would come before the
        # callback, which is to see that step
        return replace(super().candidates(problem, state), ending=None)


@dataclass(frozen=True)
class Features:
    """The tangent features of a two-layer network with random weights.

    Attributes
    ----------
    width : int
    seed : int
        Of the weights, and of Algorithm 2's draws.
    normalize : bool
        Whether the features of each row have length 1.
    """

    width: int
    seed: int
    normalize: bool


def measure_curve(
    method: Method, sample: Sample, iterations: int, features: Features, report: Report
) -> Measured:
    """The curve of one method, margins and test errors, at marks evenly spaced on a log axis."""
    network = TwoLayerReLUKernel(
        sample.X.shape[1], features.width, features.seed, normalize=features.normalize
    )
    kernel = KernelChoice(TangentKernel(network), cache_size=CACHE_SIZE)
    test = TestRows(network, sample)

    def pose() -> Problem:
        return Problem.from_data(sample.X, sample.y, fit_intercept=False, kernel=kernel)

    def errors(proposal: Candidates) -> dict[str, float]:
        found = {"test_error": test.error(proposal.primals[0].w[0])}
        if method is PERCEPTRON:
            found["last_test_error"] = test.error(proposal.primals[1].w[0])
        return found

    marks = log_spaced(iterations, PER_DECADE)
    solver = make_solver(method, iterations, features.seed)
    return Measured(record(pose, solver, iterations, report, extras=errors, marks=marks))


def make_solver(method: Method, iterations: int, seed: int = 0) -> Solver:
    """The method with the paper's parameters."""
    if method is PERCEPTRON:
        return BatchPerceptron()
    if method is AGGRESSIVE:
        return Seeded(seed=seed)
    return Seeded("theory", seed=seed, n_steps=iterations)


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
