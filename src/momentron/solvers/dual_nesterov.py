"""Algorithm 1 written in the dual: the reference that proves the equivalence."""

from dataclasses import dataclass

import numpy as np

from momentron.problem import Problem
from momentron.solvers.base import AIM, Aim, Candidates, Primal, Solver, State
from momentron.solvers.schedules import (
    Schedule,
    as_schedule,
    checked_lambda,
    checked_step,
    paper_lambda,
)


@dataclass
class NesterovState(State):
    """q_t, μ_t, ν_t of the paper's section 3.2, with the primal w_t of its equation (3.1)."""

    w: np.ndarray
    scores: np.ndarray
    q: np.ndarray
    mu: np.ndarray
    nu: np.ndarray
    z_nu: np.ndarray
    lam: float = 1.0


class DualNesterov(Solver):
    r"""Nesterov's method with the entropy as distance, on φ(q) = ‖Zᵀq‖²/2.

    .. math::
        ν_t = (1-λ_t) μ_t + λ_t q_t, \quad
        q_{t+1} = ∇ψ\big(p_t - \tfrac{θ_t}{ρ λ_t} Z Z^T ν_t\big), \quad
        μ_{t+1} = (1-λ_t) μ_t + λ_t q_{t+1}

    Its iterates are those of `Momentum`, at the same two passes an iteration; it exists to show so.
    """

    name = "dual-nesterov"

    def __init__(self, schedule: Schedule = paper_lambda, step: float | Schedule = 1.0) -> None:
        self.schedule = schedule
        self.step_size = as_schedule(step)

    def init(self, problem: Problem, aim: Aim = AIM) -> NesterovState:
        w = problem.zeros()
        scores = np.zeros(problem.size)
        q, _ = problem.dual_set.link(scores)
        return NesterovState(
            w=w, scores=scores, q=q, mu=q.copy(), nu=q.copy(), z_nu=np.full_like(w, np.inf)
        )

    def step(self, problem: Problem, state: NesterovState) -> None:
        lam = checked_lambda(self.schedule, state.t, state.lam)
        size = checked_step(self.step_size, state.t) / (lam * problem.dual_set.rho)
        state.nu = (1.0 - lam) * state.mu + lam * state.q
        state.z_nu = problem.gradient(state.nu)
        state.w = state.w - size * state.z_nu
        state.scores = state.scores - size * problem.scores(state.z_nu)
        state.q, _ = problem.dual_set.link(state.scores)
        state.mu = (1.0 - lam) * state.mu + lam * state.q
        state.lam = lam
        state.t += 1

    def candidates(self, problem: Problem, state: NesterovState) -> Candidates:
        return Candidates(
            primals=[Primal(state.w, state.scores)],
            q=state.nu,
            upper=problem.norm(state.z_nu) / float(state.nu.sum()),
        )
