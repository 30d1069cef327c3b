"""A toy solver, as CONTRIBUTING.md tells a reader to write one."""

from momentron.solvers import Candidates, Primal, Solver, State


class FrankWolfe(Solver):
    """The shortest Zᵀq: towards the worst row, by the step 2/(t + 2)."""

    uses_loss = False

    def init(self, problem, options=None):
        state = State()
        state.average = problem.combination()
        return state

    def step(self, problem, state):
        share = 2 / (state.t + 2)
        worst = state.average.vertex()
        state.average.shrink(1 - share)
        state.average.move(worst, share)
        state.t += 1

    def candidates(self, problem, state):
        average = state.average
        return Candidates([Primal(average.w, average.scores())], average.q, average.upper())
