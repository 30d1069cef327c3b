"""The batch perceptron: supergradient ascent on the margin itself."""

from dataclasses import dataclass

import numpy as np

from momentron.problem import Problem
from momentron.solvers.base import AIM, Aim, Candidates, Primal, Solver, State
from momentron.solvers.combination import Combination, direction, move_towards


@dataclass
class BatchPerceptronState(State):
    """The last iterate, as a combination of the worst examples, and the running average."""

    iterate: Combination
    scores: np.ndarray
    mean_w: np.ndarray
    mean_scores: np.ndarray


class BatchPerceptron(Solver):
    """Step along the worst example, project to the unit ball, average (slack 0).

    η_t = η_0/√(t + 1) with η_0 = 1/√max K_ii, which is 1 in units of R. One pass an iteration, or
    n kernel values unless the worst example's are in memory. With an intercept the worst of each
    class is taken, half and half.

    The iterate is −Zᵀq, with weights q that the projections shrink as they do the iterate: ‖Zᵀq‖
    over their mass is an upper bound.

    References
    ----------
    Cotter, Shalev-Shwartz, Srebro (2012), *The kernelized stochastic batch perceptron*, ICML.
    """

    name = "batch-perceptron"
    uses_loss = False

    def init(self, problem: Problem, aim: Aim = AIM) -> BatchPerceptronState:
        return BatchPerceptronState(
            iterate=Combination(problem),
            scores=np.zeros(problem.size),
            mean_w=problem.zeros(),
            mean_scores=np.zeros(problem.size),
        )

    def step(self, problem: Problem, state: BatchPerceptronState) -> None:
        iterate = state.iterate
        vertex = problem.dual_set.vertex(state.scores)
        iterate.move(direction(problem, vertex), (state.t + 1.0) ** -0.5)
        length = problem.norm(iterate.w)
        if length > 1.0:
            iterate.shrink(1.0 / length)
        state.scores = iterate.scores()
        share = 1.0 / (state.t + 1.0)
        move_towards(state.mean_w, iterate.w, share)
        move_towards(state.mean_scores, state.scores, share)
        state.t += 1

    def candidates(self, problem: Problem, state: BatchPerceptronState) -> Candidates:
        iterate = state.iterate
        return Candidates(
            primals=[Primal(state.mean_w, state.mean_scores), Primal(iterate.w, state.scores)],
            q=iterate.q,
            upper=iterate.upper(problem),
        )
