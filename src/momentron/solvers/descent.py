"""Methods that follow a loss along its gradient.

Gradient descent on the empirical risk has O(1/ln t); along normalised gradients it has O(1/t) with
θ = 1, and O(1/√t) with θ_t = 1/√(t + 1).
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from momentron.solvers.schedules import Schedule, as_schedule, inverse_root_step
from momentron.solvers.solver import (
    DEFAULTS,
    Candidates,
    Evaluation,
    MarginProblem,
    Primal,
    RunOptions,
    Solver,
    State,
)


@dataclass
class DescentState(State):
    """w_t as it was evaluated; and weights μ with their image Zᵀμ, together an upper bound."""

    now: Evaluation
    mu: np.ndarray
    z_mu: np.ndarray

    @classmethod
    def begin(cls, problem: MarginProblem, options: RunOptions) -> Self:
        return cls(problem.start(options.start), problem.no_weights(), problem.zeros())

    def move_to(self, problem: MarginProblem, w: np.ndarray) -> None:
        """Evaluate the next classifier, which is near the last."""
        self.now = problem.evaluate(w, self.now.near)


class LossMethod(Solver):
    """A method that follows a loss, from wherever it begins."""

    warm_starts = True
    starts_anywhere = True

    def candidates(self, problem: MarginProblem, state: Any) -> Candidates:
        return Candidates(
            primals=[Primal(state.now.w, state.now.scores, state.now.psi)],
            q=state.mu,
            upper=problem.upper(state.z_mu, state.mu),
        )


class Descent(LossMethod):
    """w_{t+1} = w_t − c_t Zᵀq_t with q_t = ∇ψ(Zw_t): two passes per iteration,
    one over data in blocks.

    μ is Σ c_j q_j, whose image is w_0 − w_t: its length over the mass of μ is an upper bound at no
    cost.
    """

    def __init__(self, step: float | Schedule = 1.0) -> None:
        self.step_size = as_schedule(step)

    @abstractmethod
    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        """c_t, the step along the normalised gradient Zᵀq_t."""

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> DescentState:
        return DescentState.begin(problem, options)

    def step(self, problem: MarginProblem, state: DescentState) -> None:
        size = self.coefficient(problem, state)
        q = state.now.weights
        state.mu = problem.mix(state.mu, 1.0, q, size, in_place=True)
        move = size * problem.gradient(q)
        state.z_mu += move
        state.move_to(problem, state.now.w - move)
        state.t += 1


class GradientDescent(Descent):
    """w_{t+1} = w_t − η_t ∇R(w_t), R the average loss (least over the intercept, if there is one).

    Parameters
    ----------
    step : float or callable
        η_t > 0; the paper takes 1.

    References
    ----------
    Soudry, Hoffer, Nacson, Gunasekar, Srebro (2018), JMLR 19.
    """

    name = "gradient-descent"

    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        return float(self.step_size(state.t)) * problem.risk_slope(state.now.psi)


class NormalizedGradient(Descent):
    """w_{t+1} = w_t − (θ_t/ρ) ∇R(w_t)/R(w_t): momentum's method without the momentum.

    Parameters
    ----------
    step : float or callable
        θ_t; the paper takes 1.

    References
    ----------
    Ji and Telgarsky (2021), ALT (θ = 1); Nacson et al. (2019), AISTATS (θ_t = 1/√(t+1)).
    """

    name = "normalized-gradient"

    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        return float(self.step_size(state.t)) / problem.rho


class NormalizedGradientRoot(NormalizedGradient):
    """`NormalizedGradient` with θ_t = 1/√(t + 1)."""

    name = "normalized-gradient-root"

    def __init__(self) -> None:
        super().__init__(inverse_root_step)
