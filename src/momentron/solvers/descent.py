"""What plain gradient steps share: w_t = −Σ_j c_j Zᵀq_j, whose weighted average of q_j is free."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from momentron.problem import Problem
from momentron.solvers.base import AIM, Aim, Candidates, Primal, Solver, State


@dataclass
class DescentState(State):
    """w_t with scores and dual weights; `average` is Σ c_j q_j, of mass `mass` times mean mass."""

    w: np.ndarray
    scores: np.ndarray
    q: np.ndarray
    psi: float
    average: np.ndarray


class Descent(Solver):
    """w_{t+1} = w_t − c_t Zᵀq_t with q_t = ∇ψ(Zw_t): two passes an iteration.

    −Zᵀ(Σ c_j q_j) is w_t itself, so ‖w_t‖ / mass(Σ c_j q_j) is an upper bound at no cost.
    """

    @abstractmethod
    def coefficient(self, problem: Problem, state: DescentState) -> float:
        """c_t, the step along the normalised gradient Zᵀq_t."""

    def init(self, problem: Problem, aim: Aim = AIM) -> DescentState:
        scores = np.zeros(problem.size)
        q, psi = problem.dual_set.link(scores)
        return DescentState(
            w=problem.zeros(), scores=scores, q=q, psi=psi, average=np.zeros_like(q)
        )

    def step(self, problem: Problem, state: DescentState) -> None:
        size = self.coefficient(problem, state)
        state.average += size * state.q
        state.w -= size * problem.gradient(state.q)
        state.scores = problem.scores(state.w)
        state.q, state.psi = problem.dual_set.link(state.scores)
        state.t += 1

    def candidates(self, problem: Problem, state: DescentState) -> Candidates:
        mass = float(state.average.sum())
        return Candidates(
            primals=[Primal(state.w, state.scores)],
            q=state.average,
            upper=problem.norm(state.w) / mass if mass > 0.0 else np.inf,
        )
