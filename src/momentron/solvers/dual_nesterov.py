"""Algorithm 1 written in the dual: the reference that proves the equivalence."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.solvers.base import (
    DEFAULTS,
    Candidates,
    Primal,
    RunOptions,
    Solver,
    State,
    first_evaluation,
)
from momentron.solvers.margin_problem import MarginProblem
from momentron.solvers.schedules import (
    Schedule,
    as_schedule,
    checked_lambda,
    checked_step,
    paper_lambda,
)


@dataclass
class NesterovState(State):
    """q_t, μ_t, ν_t of the paper's section 3.2, with the primal w_t of its equation (3.3)."""

    w: np.ndarray
    scores: np.ndarray
    q: Any
    mu: Any
    nu: Any
    z_nu: np.ndarray
    near: np.ndarray
    lam: float = 1.0


class DualNesterov(Solver):
    r"""Nesterov's method with the entropy as distance, on φ(q) = ‖Zᵀq‖²/2.

    .. math::
        ν_t = (1-λ_t) μ_t + λ_t q_t, \quad
        q_{t+1} = ∇ψ\big(p_t - \tfrac{θ_t}{ρ λ_t} Z Z^T ν_t\big), \quad
        μ_{t+1} = (1-λ_t) μ_t + λ_t q_{t+1}

    Its iterates are those of `Momentum`, at as many passes per iteration; it exists to show so.
    """

    name = "dual-nesterov"
    warm_starts = True
    starts_anywhere = True

    def __init__(self, schedule: Schedule = paper_lambda, step: float | Schedule = 1.0) -> None:
        self.schedule = schedule
        self.step_size = as_schedule(step)

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> NesterovState:
        first = first_evaluation(problem, options)
        q = first.weights
        z_nu = np.full_like(first.w, np.inf)
        return NesterovState(
            w=first.w, scores=first.scores, q=q, mu=q, nu=q, z_nu=z_nu, near=first.near
        )

    def step(self, problem: MarginProblem, state: NesterovState) -> None:
        lam = checked_lambda(self.schedule, state.t, state.lam)
        size = checked_step(self.step_size, state.t) / (lam * problem.rho)
        state.nu = problem.mix(state.mu, 1.0 - lam, state.q, lam)
        state.z_nu = problem.gradient(state.nu)
        state.w = state.w - size * state.z_nu
        found = problem.evaluate(state.w, state.near)
        state.scores, state.q, state.near = found.scores, found.weights, found.near
        state.mu = problem.mix(state.mu, 1.0 - lam, state.q, lam)
        state.lam = lam
        state.t += 1

    def candidates(self, problem: MarginProblem, state: NesterovState) -> Candidates:
        return Candidates(
            primals=[Primal(state.w, state.scores)],
            q=state.nu,
            upper=problem.upper(state.z_nu, state.nu),
        )
