"""The batch perceptron: supergradient ascent on the margin itself."""

from dataclasses import dataclass, field

import numpy as np

from momentron.dual.combination import move_towards
from momentron.solvers.base import DEFAULTS, Candidates, Primal, RunOptions, Solver
from momentron.solvers.margin_problem import MarginProblem
from momentron.solvers.normalized_perceptron import PerceptronState, begun_perceptron


@dataclass
class BatchPerceptronState(PerceptronState):
    """The last iterate, as a combination of the worst examples, and the running average."""

    mean_w: np.ndarray = field(default_factory=lambda: np.empty(0))
    mean_scores: np.ndarray = field(default_factory=lambda: np.empty(0))


class BatchPerceptron(Solver):
    """Step along the worst example, project to the unit ball, average (slack 0).

    η_t = η_0/√(t + 1) with η_0 = 1/√max K_ii, which is 1 in units of R. One pass per iteration,
    or n kernel values unless the worst example's are in memory. With an intercept the worst of each
    class is taken, half and half.

    The iterate is −Zᵀq, with weights q that the projections shrink as they do the iterate: ‖Zᵀq‖
    over their mass is an upper bound. On data in blocks the mean's scores are the mean of the
    iterates' largest scores: its margin is then a lower bound, until the certificate looks at it.

    References
    ----------
    Cotter, Shalev-Shwartz, Srebro (2012), *The kernelized stochastic batch perceptron*, ICML.
    """

    name = "batch-perceptron"
    warm_starts = True
    uses_loss = False

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> BatchPerceptronState:
        begun = begun_perceptron(problem, options, length=1.0)
        means = problem.zeros(), np.zeros_like(problem.start().scores)
        return BatchPerceptronState(begun.iterate, begun.before, *means)

    def step(self, problem: MarginProblem, state: BatchPerceptronState) -> None:
        iterate = state.iterate
        iterate.move(iterate.vertex(), (state.t + 1.0 + state.before) ** -0.5)
        length = problem.norm(iterate.w)
        if length > 1.0:
            iterate.shrink(1.0 / length)
        share = 1.0 / (state.t + 1.0)
        move_towards(state.mean_w, iterate.w, share)
        move_towards(state.mean_scores, iterate.scores(), share)
        state.t += 1

    def candidates(self, problem: MarginProblem, state: BatchPerceptronState) -> Candidates:
        iterate = state.iterate
        return Candidates(
            primals=[Primal(state.mean_w, state.mean_scores), Primal(iterate.w, iterate.scores())],
            q=iterate.q,
            upper=iterate.upper(),
        )
