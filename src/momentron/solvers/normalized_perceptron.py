"""The normalised perceptron: the average of the worst examples met so far."""

from dataclasses import dataclass

import numpy as np

from momentron.problem import Problem
from momentron.solvers.base import AIM, Aim, Candidates, Primal, Solver, State


@dataclass
class NormalizedPerceptronState(State):
    """w = −Zᵀq with q in the dual set, and its scores."""

    w: np.ndarray
    scores: np.ndarray
    q: np.ndarray


class NormalizedPerceptron(Solver):
    """w_{t+1} = (1 − θ_t) w_t − θ_t z_{i_t}, θ_t = 1/(t + 1), i_t the worst example for w_t.

    w_t = −Zᵀq_t with q_t in the dual set, so ‖w_t‖ is its own upper bound. One pass an iteration.

    References
    ----------
    Ramdas and Peña (2016), *Towards a deeper geometric, analytic and algorithmic understanding of
    margins*, Optimization Methods and Software 31.
    """

    name = "normalized-perceptron"
    uses_loss = False

    def init(self, problem: Problem, aim: Aim = AIM) -> NormalizedPerceptronState:
        return NormalizedPerceptronState(
            w=problem.zeros(),
            scores=np.zeros(problem.size),
            q=np.zeros(problem.size),
        )

    def step(self, problem: Problem, state: NormalizedPerceptronState) -> None:
        share = 1.0 / (state.t + 1.0)
        vertex = problem.dual_set.vertex(state.scores)
        state.w += share * (-problem.vertex_gradient(vertex) - state.w)
        state.q *= 1.0 - share
        state.q[vertex.index] += share * vertex.weight
        state.scores = problem.scores(state.w)
        state.t += 1

    def candidates(self, problem: Problem, state: NormalizedPerceptronState) -> Candidates:
        return Candidates(
            primals=[Primal(state.w, state.scores)],
            q=state.q,
            upper=problem.norm(state.w),
        )
