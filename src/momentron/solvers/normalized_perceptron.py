"""The normalised perceptron: the average of the worst examples met so far."""

from dataclasses import dataclass
from typing import Any

from momentron.solvers.base import DEFAULTS, Candidates, Primal, RunOptions, Solver, State
from momentron.solvers.margin_problem import MarginProblem


@dataclass
class PerceptronState(State):
    """w = −Zᵀq, to be moved along the worst examples."""

    iterate: Any
    before: float = 0.0  # how many steps a warm start counts for


def begun_perceptron(
    problem: MarginProblem, options: RunOptions, length: float | None = None
) -> PerceptronState:
    """Where a perceptron begins: at w = 0, or at a start, brought to some length.

    A start counts for (R/γ)² steps, which is how many mistakes lead a perceptron to the margin γ:
    otherwise the first steps would be so long that nothing of the start would be left.
    """
    state, start = PerceptronState(problem.combination()), options.start
    if start is not None:
        state.iterate.begin(start.q, length)
        state.before = problem.norm(problem.begin(start.w, start.b).w) ** 2
    return state


class NormalizedPerceptron(Solver):
    """w_{t+1} = (1 − θ_t) w_t − θ_t z_{i_t}, θ_t = 1/(t + 1), i_t the worst example for w_t.

    w_t = −Zᵀq_t with q_t in the dual set, so ‖w_t‖ is its own upper bound. One pass per iteration;
    two where many classes of data in blocks have intercepts.

    References
    ----------
    Ramdas and Peña (2016), *Towards a deeper geometric, analytic and algorithmic understanding of
    margins*, Optimization Methods and Software 31.
    """

    name = "normalized-perceptron"
    warm_starts = True
    uses_loss = False

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> PerceptronState:
        return begun_perceptron(problem, options)

    def step(self, problem: MarginProblem, state: PerceptronState) -> None:
        share, iterate = 1.0 / (state.t + 1.0 + state.before), state.iterate
        vertex = iterate.vertex()
        iterate.shrink(1.0 - share)
        iterate.move(vertex, share)
        iterate.scores()  # which is where data in blocks are read
        state.t += 1

    def candidates(self, problem: MarginProblem, state: PerceptronState) -> Candidates:
        iterate = state.iterate
        return Candidates(
            primals=[Primal(iterate.w, iterate.scores())], q=iterate.q, upper=iterate.upper()
        )
