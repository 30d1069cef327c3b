"""Working sets on blocks: solve the rows that matter in memory, scan all the others, repeat."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.arithmetic.clock import TimeLimit, require_time, time_left
from momentron.solvers.loop import Run, solve
from momentron.solvers.problem import Problem
from momentron.solvers.solver import DEFAULTS, Candidates, Primal, RunOptions, Solver, Start, State
from momentron.status import Status
from momentron.streams.block_problem import BlockProblem
from momentron.streams.first_pass import NEW_SHARE

ROUGH = 1e-3  # the first gaps asked of a working set: it will change anyway
AHEAD = 0.02  # the gap asked of a working set, as a share of the last


@dataclass
class RoundState(State):
    """What the rounds have found; the working set itself belongs to the problem."""

    tol: float
    stays: np.ndarray  # 1 for rows that never leave it, since they have weight, else 0
    gap: float = math.inf  # of the last round
    upper: float = math.inf  # the best bound so far, in units of R
    proposal: Candidates | None = None
    ending: Status | None = None  # why there is no further round

    @property
    def asked(self) -> float:
        """The gap to be asked of the working set."""
        return max(self.tol / 4.0, min(ROUGH, AHEAD * self.gap))

    def to_arrays(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"t": self.t, "gap": self.gap, "upper": self.upper, "stays": self.stays}


class Rounds(Solver):
    """A method for rows in memory that solves working sets, each checked by a pass.

    Parameters
    ----------
    method : Solver
    """

    wants_tight_radius = False

    def __init__(self, method: Solver) -> None:
        self.method = method
        self.name, self.vanishing = method.name, method.vanishing  # type: ignore[misc]

    def solved(self, problem: Problem, asked: float, start: Start | None = None) -> Run:
        """A working set, solved to a gap within the time that is left."""
        require_time()
        budget = RunOptions(asked, self.method.default_max_iter, start=start)
        outcome = solve(problem, self.method, budget, limit=TimeLimit(time_left()))
        if outcome.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return outcome

    def candidates(self, problem: BlockProblem, state: RoundState) -> Candidates:
        assert state.proposal is not None
        state.proposal.ending = Status.TIME_BUDGET if time_left() <= 0.0 else state.ending
        return state.proposal


class WorkingSetRounds(Rounds):
    """Hard margins by working sets that are checked against the whole stream.

    A round solves the working set and reads the stream once. The pass proves a lower bound, the
    weights of the working set an upper one, as any weights do. The rows that the classifier serves
    worst join the set; rows without weight, far from the margin, leave it where memory asks for it.
    As rows with weight never leave, the upper bound falls in every round. Three to ten passes are
    usual. Rows among which nothing separates prove it for all of them.
    """

    def init(self, problem: BlockProblem, options: RunOptions = DEFAULTS) -> RoundState:
        problem.working = problem.sample
        return RoundState(options.tol, np.zeros(problem.n_rows, np.int8))

    def step(self, problem: BlockProblem, state: RoundState) -> None:
        rows = problem.working
        outcome = self.solved(problem.of_rows(rows), state.asked)
        q = problem.spread(outcome.q, rows, outcome.problem)
        found = Candidates([], q, problem.upper(problem.gradient(q), q))
        if outcome.status is Status.NOT_SEPARABLE:  # nor is the whole: all that is to be known
            found.primals = [Primal(problem.zeros(), np.zeros(problem.size))]
        else:
            self._look(problem, state, outcome, found)
        state.proposal = found
        state.t += 1

    @staticmethod
    def _look(problem: BlockProblem, state: RoundState, outcome: Run, found: Candidates) -> None:
        """Evaluate the classifier of the working set in one pass, and renew the set."""
        labels, before, upper = problem.labels, problem.working, found.upper
        best = outcome.w if outcome.certificate.margin > 0.0 else outcome.last_w
        coef, b, _ = outcome.problem.classifier(best.astype(np.float64))
        w = problem.from_coef(coef)
        # rows whose margin is below that of the working set
        bar = -upper * problem.radius
        scores, seen = problem.scan(w, b=b, n_worst=problem.room // NEW_SHARE, bar=bar)
        found.primals = [Primal(w, scores / problem.radius)]
        weighs = np.zeros(problem.n_rows, np.int8)
        weighs[labels.examples(np.flatnonzero(found.q))] = 1
        working = before.joined_by(seen.lists)
        served = labels.some(working.numbers).scores(np.asarray(working.X @ w) + b)
        margins = -served.reshape(working.size, -1).max(axis=1)
        stays = (weighs | state.stays)[working.numbers]
        problem.working = working.trimmed(margins, stays, problem.room)
        if upper <= state.upper:
            state.stays, state.upper = weighs, upper
        if working.size == before.size:  # what is left of the gap is that of the working set,
            is_finest = state.asked <= state.tol / 4.0  # or rounding
            state.gap, state.ending = 0.0, Status.STALLED if is_finest else None
        else:
            state.gap = 1.0 - problem.margin(w, found.primals[0].scores) / max(upper, 1e-300)
