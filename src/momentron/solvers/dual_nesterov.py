"""Algorithm 1 written in the dual: the reference that proves the equivalence."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.solvers.base import DEFAULTS, Candidates, EvaluatedState, Primal, RunOptions
from momentron.solvers.margin_problem import MarginProblem
from momentron.solvers.momentum import Momentum
from momentron.solvers.schedules import checked_lambda, checked_step


@dataclass
class NesterovState(EvaluatedState):
    """q_t, μ_t, ν_t of the paper's section 3.2, with the primal w_t of its equation (3.3)."""

    mu: Any = None
    nu: Any = None
    z_nu: np.ndarray = field(default_factory=lambda: np.empty(0))
    lam: float = 1.0


class DualNesterov(Momentum):
    r"""Nesterov's method with the entropy as distance, on φ(q) = ‖Zᵀq‖²/2.

    .. math::
        ν_t = (1-λ_t) μ_t + λ_t q_t, \quad
        q_{t+1} = ∇ψ\big(p_t - \tfrac{θ_t}{ρ λ_t} Z Z^T ν_t\big), \quad
        μ_{t+1} = (1-λ_t) μ_t + λ_t q_{t+1}

    Its iterates are those of `Momentum`, at as many passes per iteration; it exists to show so.
    """

    name = "dual-nesterov"

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> Any:
        state = NesterovState.begin(problem, options)
        state.mu = state.nu = state.q
        state.z_nu = np.full_like(state.w, np.inf)
        return state

    def step(self, problem: MarginProblem, state: Any) -> None:
        lam = checked_lambda(self.schedule, state.t, state.lam)
        size = checked_step(self.step_size, state.t) / (lam * problem.rho)
        state.nu = problem.mix(state.mu, 1.0 - lam, state.q, lam)
        state.z_nu = problem.gradient(state.nu)
        state.w = state.w - size * state.z_nu
        state.evaluate(problem)
        state.mu = problem.mix(state.mu, 1.0 - lam, state.q, lam)
        state.lam = lam
        state.t += 1

    def candidates(self, problem: MarginProblem, state: Any) -> Candidates:
        return Candidates(
            primals=[Primal(state.w, state.scores)],
            q=state.nu,
            upper=problem.upper(state.z_nu, state.nu),
        )
