"""Curves through the tangent kernel of a two-layer network: the methods that figure 3 compares."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from momentron.display.style import GREEN, VERMILLION
from momentron.ntk import TwoLayerReLUKernel
from momentron.problem import KernelChoice, Problem
from momentron.solvers import Adaptive, BatchPerceptron, Solver
from momentron.solvers.adaptive import AdaptiveState
from momentron.solvers.base import DEFAULTS, Candidates, RunOptions
from paper.figure import Measured, Part, Report
from paper.methods import PERCEPTRON, Method
from paper.recording import log_spaced, record
from paper.sample import Sample
from paper.tangent import SparseTangentKernel, TestRows

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
    kernel = KernelChoice(SparseTangentKernel(network), cache_size=CACHE_SIZE)
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

    def measure(report: Report) -> Measured:
        return measure_curve(method, sample, iterations, features, report)

    parameters = {
        "method": method.name,
        "iterations": iterations,
        "per_decade": PER_DECADE,
        "cache_size": CACHE_SIZE,
        "rows": sample.fingerprint,
        **asdict(features),
    }
    weight = float(iterations * (len(sample.X) + len(sample.X_test)))
    return Part(name, parameters, weight, measure)


def last_of(curves: Curves, column: str) -> dict[str, float]:
    """The last entry of a column of each curve, the first method of the paper's order first."""
    return {m.name: float(curves[m.name][column][-1]) for m in ORDER}


def in_order(margins: Mapping[str, float]) -> bool:
    """Are the margins those of the paper's order: aggressive, batch perceptron, theory."""
    first, second, third = (margins[m.name] for m in ORDER)
    return first > second > third
