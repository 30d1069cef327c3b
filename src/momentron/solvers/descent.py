"""What plain gradient steps share: w_t = −Σ_j c_j Zᵀq_j, whose weighted average of q_j is free."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.margin_problem import MarginProblem
from momentron.solvers.base import DEFAULTS, Candidates, Primal, RunOptions, Solver, State


@dataclass
class DescentState(State):
    """w_t with scores and dual weights; `average` is Σ c_j q_j."""

    w: np.ndarray
    scores: np.ndarray
    q: Any
    psi: float
    average: Any
    near: np.ndarray


class Descent(Solver):
    """w_{t+1} = w_t − c_t Zᵀq_t with q_t = ∇ψ(Zw_t): two passes per iteration,
    one over data in blocks.

    −Zᵀ(Σ c_j q_j) is w_t itself, so ‖w_t‖ / mass(Σ c_j q_j) is an upper bound at no cost.
    """

    @abstractmethod
    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        """c_t, the step along the normalised gradient Zᵀq_t."""

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> DescentState:
        first = problem.start()
        return DescentState(
            w=first.w,
            scores=first.scores,
            q=first.weights,
            psi=first.psi,
            average=problem.no_weights(),
            near=first.near,
        )

    def step(self, problem: MarginProblem, state: DescentState) -> None:
        size = self.coefficient(problem, state)
        state.average = problem.mix(state.average, 1.0, state.q, size, in_place=True)
        state.w -= size * problem.gradient(state.q)
        found = problem.evaluate(state.w, state.near)
        state.scores, state.q, state.psi = found.scores, found.weights, found.psi
        state.near = found.near
        state.t += 1

    def candidates(self, problem: MarginProblem, state: DescentState) -> Candidates:
        return Candidates(
            primals=[Primal(state.w, state.scores)],
            q=state.average,
            upper=problem.upper(state.w, state.average),
        )
