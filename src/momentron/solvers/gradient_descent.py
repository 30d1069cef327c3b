"""Gradient descent on the empirical risk, O(1/ln t), and along normalised gradients.

Those have O(1/t) with θ = 1, and O(1/√t) with θ_t = 1/√(t + 1).
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.solvers.margin_problem import MarginProblem
from momentron.solvers.schedules import Schedule, as_schedule, inverse_root_step
from momentron.solvers.solver import (
    DEFAULTS,
    Candidates,
    EvaluatedState,
    Primal,
    RunOptions,
    Solver,
)


@dataclass
class DescentState(EvaluatedState):
    """w_t, with `average` Σ c_j q_j, and `origin` w_0."""

    average: Any = None
    origin: np.ndarray | float = 0.0


class Descent(Solver):
    """w_{t+1} = w_t − c_t Zᵀq_t with q_t = ∇ψ(Zw_t): two passes per iteration,
    one over data in blocks.

    −Zᵀ(Σ c_j q_j) is w_t − w_0, so its length over mass(Σ c_j q_j) is an upper bound at no cost.
    """

    warm_starts = True
    starts_anywhere = True

    def __init__(self, step: float | Schedule = 1.0) -> None:
        self.step_size = as_schedule(step)

    @abstractmethod
    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        """c_t, the step along the normalised gradient Zᵀq_t."""

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> DescentState:
        state = DescentState.begin(problem, options)
        state.average = problem.no_weights()
        if options.start is not None:
            state.origin = state.w.copy()
        return state

    def step(self, problem: MarginProblem, state: DescentState) -> None:
        size = self.coefficient(problem, state)
        state.average = problem.mix(state.average, 1.0, state.q, size, in_place=True)
        state.w -= size * problem.gradient(state.q)
        state.evaluate(problem)
        state.t += 1

    def candidates(self, problem: MarginProblem, state: DescentState) -> Candidates:
        return Candidates(
            primals=[Primal(state.w, state.scores, state.psi)],
            q=state.average,
            upper=problem.upper(state.w - state.origin, state.average),
        )


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
        return float(self.step_size(state.t)) * problem.risk_slope(state.psi)


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
