"""Methods that the paper names or that came after it, for comparison: none is in the package.

Tseng's accelerated smoothing and progressive rescaling are solvers: ``max_margin(X, y,
method=AcceleratedSmoothing())``. The sublinear perceptron reads single columns, and is a function.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.data.arguments import as_count, as_number
from momentron.errors import InputError, short
from momentron.solvers import Candidates, MarginProblem, NormalizedGradient, Primal, RunOptions
from momentron.solvers.descent import DescentState
from momentron.solvers.schedules import Schedule
from momentron.solvers.solver import DEFAULTS, Solver, State


@dataclass
class SmoothingState(State):
    """x and z of the method; y, where the gradient is, with its scores; averaged weights."""

    x: np.ndarray
    z: np.ndarray
    y: np.ndarray
    scores: np.ndarray
    q: np.ndarray
    image: np.ndarray
    theta: float = 1.0


class AcceleratedSmoothing(Solver):
    r"""Tseng's method on the smoothed margin μψ(Zw/μ) in the unit ball, for a fixed μ.

    .. math::
        y = (1 - θ) x + θ z, \quad
        z ← P(z - \tfrac{μ}{θ} Z^T ∇ψ(Zy/μ)), \quad x ← (1 - θ) x + θ z

    The smoothed margin is within μψ(0) = `epsilon` of the margin, in units of R, and 1/μ-smooth:
    after t steps x has a margin of at least γ̄ − ε − 2ψ(0)/(ε (t + 1)²), so that a margin short of
    γ̄ by a fixed 2ε takes O(√ψ(0)/ε) steps, and more steps do not help. Two passes per iteration.

    References
    ----------
    Tseng (2008), *On accelerated proximal gradient methods for convex-concave optimization*.
    """

    name = "accelerated-smoothing"
    uses_loss = False

    def __init__(self, epsilon: float = 0.01) -> None:
        self.epsilon = as_number("epsilon", epsilon, "a number above 0")
        if not 0.0 < self.epsilon < math.inf:
            raise InputError(f"epsilon={short(epsilon)} must be a finite number above 0")

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> SmoothingState:
        zero, none = problem.zeros(), problem.no_weights()
        return SmoothingState(zero, zero, zero, problem.start().scores, none, zero)

    def step(self, problem: MarginProblem, state: SmoothingState) -> None:
        theta, mu = state.theta, self.epsilon / max(problem.psi_zero, 1e-3)
        state.y = (1.0 - theta) * state.x + theta * state.z
        found = problem.evaluate(state.y / mu)
        state.scores = mu * found.scores
        gradient = problem.gradient(found.weights)
        # μ_t and its image, with Tseng's weights: they bound the best margin from above
        state.q = problem.mix(state.q, 1.0 - theta, found.weights, theta)
        state.image = (1.0 - theta) * state.image + theta * gradient
        z = state.z - mu / theta * gradient
        state.z = z / max(1.0, problem.norm(z))
        state.x = (1.0 - theta) * state.x + theta * state.z
        # (1 − θ′)/θ′² = 1/θ²
        state.theta = 2.0 / (1.0 + math.sqrt(1.0 + 4.0 / theta**2))
        state.t += 1

    def candidates(self, problem: MarginProblem, state: SmoothingState) -> Candidates:
        upper = problem.upper(state.image, state.q)
        return Candidates(primals=[Primal(state.y, state.scores)], q=state.q, upper=upper)


@dataclass
class RescaledState(DescentState):
    """What gradient descent has, and the radius R_k, zero until the first rescaling."""

    radius: float = 0.0


class ProgressiveRescaling(NormalizedGradient):
    """PRGD: normalised gradient steps inside a ball, to whose surface w is stretched as it grows.

    After `warm_up` steps R_0 = ‖w‖, and every `every` steps R_{k+1} = ratio · R_k and w becomes
    R_{k+1} w/‖w‖; after the others w is projected to the ball of radius R_k. Where w is long, the
    gradient is that of the boundary rows alone, which for some data gives the direction an
    exponential rate; where R grows faster than the steps can turn w, it converges to another one.
    μ averages the q_t with weights t, as Algorithm 1 does.

    Parameters
    ----------
    ratio : float
        How much R grows, above 1.
    every : int
        Steps between two rescalings.
    warm_up : int
        Steps of plain normalised gradient descent.
    step : float or callable
        θ_t; the paper takes 1.

    References
    ----------
    Wang, Min, Wu (2024), *Achieving margin maximization exponentially fast via progressive norm
    rescaling*, ICML.
    """

    name = "progressive-rescaling"

    def __init__(
        self,
        ratio: float = 1.02,
        every: int = 5,
        warm_up: int = 100,
        step: float | Schedule = 1.0,
    ) -> None:
        super().__init__(step)
        self.ratio = as_number("ratio", ratio, "a number above 1")
        if not 1.0 < self.ratio < math.inf:
            raise InputError(f"ratio={short(ratio)} must be a finite number above 1")
        self.every, self.warm_up = as_count("every", every), as_count("warm_up", warm_up)

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> RescaledState:
        return RescaledState.begin(problem, options)

    def step(self, problem: MarginProblem, state: Any) -> None:
        q, share = state.now.weights, 2.0 / (state.t + 2.0)
        gradient = problem.gradient(q)
        state.mu = problem.mix(state.mu, 1.0 - share, q, share, in_place=True)
        state.z_mu = (1.0 - share) * state.z_mu + share * gradient
        w = state.now.w - self.coefficient(problem, state) * gradient
        after, length = state.t + 1 - self.warm_up, problem.norm(w)
        if after >= 0 and length > 0.0:
            if after % self.every == 0:
                state.radius = self.ratio * state.radius if state.radius > 0.0 else length
            if after % self.every == 0 or length > state.radius:
                w *= state.radius / length
        state.move_to(problem, w)
        state.t += 1


@dataclass(frozen=True)
class Look:
    """The average of a sublinear run, after a number of iterations and of entries read."""

    iteration: int
    entries: int
    w: np.ndarray


def sublinear_perceptron(
    Z: np.ndarray, n_steps: int, *, every: int = 1, random_state: int | None = None
) -> Iterator[Look]:
    """The sublinear perceptron of Clarkson, Hazan and Woodruff: n + d entries per iteration.

    One row of Z, drawn by its weight, moves w; one column, drawn by w_j², estimates all scores,
    from which the weights follow by a multiplicative update of clipped estimates. Z has the rows
    z_i = −y_i x_i / R. The steps are those of the paper, √(ln n/T) and 1/√(2T), without its factors
    1/100 and 200², which make it longer than any run.

    References
    ----------
    Clarkson, Hazan, Woodruff (2012), *Sublinear optimization for machine learning*, J. ACM 59.
    """
    n, d = Z.shape
    rng = np.random.default_rng(random_state)
    eta = math.sqrt(math.log(n) / n_steps)
    logs, y, total = np.zeros(n), np.zeros(d), np.zeros(d)
    for t in range(1, n_steps + 1):
        w = y / max(1.0, float(np.linalg.norm(y)))
        total += w
        weights = np.exp(logs - logs.max())
        y = y - Z[rng.choice(n, p=weights / weights.sum())] / math.sqrt(2.0 * n_steps)
        square = float(w @ w)
        if square > 0.0:
            column = rng.choice(d, p=w * w / square)
            estimates = np.clip(-Z[:, column] * (square / w[column]), -1.0 / eta, 1.0 / eta)
            logs += np.log1p(-eta * estimates + (eta * estimates) ** 2)
        if t % every == 0 or t == n_steps:
            yield Look(t, t * (n + d), total / t)
