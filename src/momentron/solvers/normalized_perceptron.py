"""The normalised perceptron: the average of the worst examples met so far."""

from dataclasses import dataclass
from typing import Any

from momentron.solvers.base import (
    DEFAULTS,
    Candidates,
    Primal,
    RunOptions,
    Solver,
    State,
    begun_combination,
)
from momentron.solvers.margin_problem import MarginProblem


@dataclass
class NormalizedPerceptronState(State):
    """w = −Zᵀq with q in the dual set."""

    iterate: Any
    before: float = 0.0  # how many steps a warm start counts for


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

    def init(
        self, problem: MarginProblem, options: RunOptions = DEFAULTS
    ) -> NormalizedPerceptronState:
        iterate, before = begun_combination(problem, options)
        return NormalizedPerceptronState(iterate=iterate, before=before)

    def step(self, problem: MarginProblem, state: NormalizedPerceptronState) -> None:
        share, iterate = 1.0 / (state.t + 1.0 + state.before), state.iterate
        vertex = iterate.vertex()
        iterate.shrink(1.0 - share)
        iterate.move(vertex, share)
        iterate.scores()  # which is where data in blocks are read
        state.t += 1

    def candidates(self, problem: MarginProblem, state: NormalizedPerceptronState) -> Candidates:
        iterate = state.iterate
        return Candidates(
            primals=[Primal(iterate.w, iterate.scores())], q=iterate.q, upper=iterate.upper()
        )
