"""A toy solver, as CONTRIBUTING.md tells a reader to write one."""

from dataclasses import dataclass
from typing import Any

from momentron.solvers import Candidates, Primal, Solver, State


@dataclass
class Average(State):
    """w = −Zᵀq with its weights q."""

    average: Any


class FrankWolfe(Solver):
    """The shortest Zᵀq: towards the worst row, by the step 2/(t + 2)."""

    uses_loss = False

    def init(self, problem, aim=None):
        return Average(problem.combination())

    def step(self, problem, state):
        share = 2 / (state.t + 2)
        worst = state.average.vertex()
        state.average.shrink(1 - share)
        state.average.move(worst, share)
        state.t += 1

    def candidates(self, problem, state):
        average = state.average
        return Candidates([Primal(average.w, average.scores())], average.q, average.upper())
