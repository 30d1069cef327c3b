"""What plain gradient steps share: w_t = −Σ_j c_j Zᵀq_j, whose weighted average of q_j is free."""

from abc import abstractmethod
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

NOWHERE = np.empty(0)  # in place of w_0 = 0, which need not be subtracted


@dataclass
class DescentState(State):
    """w_t with scores and dual weights; `average` is Σ c_j q_j, `origin` w_0 unless that is 0."""

    w: np.ndarray
    scores: np.ndarray
    q: Any
    psi: float
    average: Any
    near: np.ndarray
    origin: np.ndarray


class Descent(Solver):
    """w_{t+1} = w_t − c_t Zᵀq_t with q_t = ∇ψ(Zw_t): two passes per iteration,
    one over data in blocks.

    −Zᵀ(Σ c_j q_j) is w_t − w_0, so its length over mass(Σ c_j q_j) is an upper bound at no cost.
    """

    warm_starts = True
    starts_anywhere = True

    @abstractmethod
    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        """c_t, the step along the normalised gradient Zᵀq_t."""

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> DescentState:
        first = first_evaluation(problem, options)
        return DescentState(
            w=first.w,
            scores=first.scores,
            q=first.weights,
            psi=first.psi,
            average=problem.no_weights(),
            near=first.near,
            origin=NOWHERE if options.start is None else first.w.copy(),
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
        moved = state.w - state.origin if state.origin.size else state.w
        return Candidates(
            primals=[Primal(state.w, state.scores, state.psi)],
            q=state.average,
            upper=problem.upper(moved, state.average),
        )
