"""The batch perceptron: supergradient ascent on the margin itself."""

from dataclasses import dataclass

import numpy as np

from momentron.problem import Problem
from momentron.solvers.base import AIM, Aim, Candidates, Primal, Solver, State


@dataclass
class BatchPerceptronState(State):
    """The last iterate and the running average, with scores; and Σ η_j e_{i_j} with its Zᵀ."""

    w: np.ndarray
    scores: np.ndarray
    mean_w: np.ndarray
    mean_scores: np.ndarray
    weights: np.ndarray
    z_weights: np.ndarray


class BatchPerceptron(Solver):
    """Step along the worst example, project to the unit ball, average (slack 0).

    η_t = η_0/√(t + 1) with η_0 = 1/√max K_ii, which is 1 in units of R. One pass an iteration, plus
    the worst example's row. With an intercept the worst of each class is taken, half and half.

    References
    ----------
    Cotter, Shalev-Shwartz, Srebro (2012), *The kernelized stochastic batch perceptron*, ICML.
    """

    name = "batch-perceptron"
    uses_loss = False

    def init(self, problem: Problem, aim: Aim = AIM) -> BatchPerceptronState:
        w, scores = problem.zeros(), np.zeros(problem.size)
        return BatchPerceptronState(
            w=w,
            scores=scores,
            mean_w=w.copy(),
            mean_scores=scores.copy(),
            weights=np.zeros(problem.size),
            z_weights=w.copy(),
        )

    def step(self, problem: Problem, state: BatchPerceptronState) -> None:
        size = (state.t + 1.0) ** -0.5
        vertex = problem.dual_set.vertex(state.scores)
        gradient = problem.vertex_gradient(vertex)
        state.weights[vertex.index] += size * vertex.weight
        state.z_weights += size * gradient
        state.w -= size * gradient
        length = problem.norm(state.w)
        if length > 1.0:
            state.w /= length
        state.scores = problem.scores(state.w)
        share = 1.0 / (state.t + 1.0)
        state.mean_w += share * (state.w - state.mean_w)
        state.mean_scores += share * (state.scores - state.mean_scores)
        state.t += 1

    def candidates(self, problem: Problem, state: BatchPerceptronState) -> Candidates:
        return Candidates(
            primals=[Primal(state.mean_w, state.mean_scores), Primal(state.w, state.scores)],
            q=state.weights,
            upper=problem.norm(state.z_weights) / float(state.weights.sum()),
        )
