"""Working sets on blocks: solve the rows that matter in memory, scan all the others, repeat."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.arithmetic.clock import TimeLimit, require_time, time_left
from momentron.solvers.checkpoint import unusable
from momentron.solvers.loop import Run, solve
from momentron.solvers.problem import Problem
from momentron.solvers.solver import (
    DEFAULTS,
    Candidates,
    Primal,
    RunOptions,
    Solver,
    Start,
    State,
)
from momentron.status import Status
from momentron.streams.blocks import Rows
from momentron.streams.first_pass import NEW_SHARE

if TYPE_CHECKING:
    from momentron.streams.block_problem import BlockProblem

ROUGH = 1e-3  # the first gaps asked of a working set: it will change anyway


@dataclass
class RoundState(State):
    """What the last round found; the working set itself belongs to the problem."""

    room: int  # rows that it may have; those with weight are kept even if they are more
    tol: float
    kept: np.ndarray  # 1 for the rows that have weight in the best bound so far, else 0
    upper: float = math.inf  # that bound, in units of R
    asked: float = ROUGH  # the gap asked of the working set
    proposal: Candidates | None = None
    ending: Status | None = None  # why there is no further round

    def renewed(self, working: Rows, margins: np.ndarray, worst: Rows | None, gap: float) -> Rows:
        """The working set, joined by rows that the classifier serves worse than its own.

        `margins` are those of the working set, −∞ for rows with weight.
        """
        finest = self.tol / 4.0
        worst = None if worst is None else worst.without(working)
        if worst is None or worst.size == 0:
            if self.asked <= finest:
                self.ending = Status.STALLED  # rounding is all that is left of the gap
            self.asked = finest
            return working
        self.asked = max(finest, min(ROUGH, 0.05 * gap))
        return Rows.joined([working.trimmed(margins, self.room - worst.size), worst])

    # --- for checkpoints -----------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        return {"t": self.t, "asked": self.asked, "upper": self.upper, "kept": self.kept}

    def from_arrays(self, arrays: Mapping[str, Any]) -> None:
        self.t, self.asked = arrays["t"], arrays["asked"]
        self.upper, self.kept = arrays["upper"], arrays["kept"]
        if not 0.0 <= self.asked < 1.0:
            raise unusable(f"its inner tolerance is {self.asked}")


class Rounds(Solver):
    """A method for rows in memory that solves working sets, each checked by a pass.

    Parameters
    ----------
    method : Solver
    """

    wants_tight_radius = False

    def __init__(self, method: Solver) -> None:
        self.method = method
        self.name = method.name  # type: ignore[misc]

    def solved(self, problem: Problem, asked: float, start: Start | None = None) -> Run:
        """A working set, solved to a gap within the time that is left."""
        require_time()
        budget = RunOptions(asked, self.method.default_max_iter, start=start)
        outcome = solve(problem, self.method, budget, limit=TimeLimit(time_left()))
        if outcome.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return outcome


class WorkingSetRounds(Rounds):
    """Hard margins by working sets that are checked against the whole stream.

    A round solves the working set and reads the stream once. The pass proves a lower bound, the
    weights of the working set an upper one, as any weights do. The rows that the classifier serves
    worst join the set; rows without weight, far from the margin, leave it where memory asks for it.
    As rows with weight never leave, the upper bound falls in every round. Three to ten passes are
    usual. Rows among which nothing separates prove it for all of them.
    """

    def init(self, problem: "BlockProblem", options: RunOptions = DEFAULTS) -> RoundState:
        problem.working = problem.sample
        return RoundState(problem.room, options.tol, np.zeros(problem.n_rows, np.int8))

    def vanishing(self, tol: float) -> float:
        return self.method.vanishing(tol)

    def step(self, problem: "BlockProblem", state: RoundState) -> None:
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
    def _look(problem: "BlockProblem", state: RoundState, outcome: Run, found: Candidates) -> None:
        """Evaluate the classifier of the working set in one pass, and renew the set."""
        labels, working, upper = problem.labels, problem.working, found.upper
        best = outcome.w if outcome.certificate.margin > 0.0 else outcome.last_w
        coef, b, _ = outcome.problem.classifier(best.astype(np.float64))
        w = problem.from_coef(coef)
        # rows whose margin is below that of the working set
        bar = -upper * problem.radius
        scores, seen = problem.scan(w, b=b, n_worst=state.room // NEW_SHARE, bar=bar)
        found.primals = [Primal(w, scores / problem.radius)]
        weighs = np.zeros(problem.n_rows, np.int8)
        weighs[labels.examples(np.flatnonzero(found.q))] = 1
        is_kept = (weighs | state.kept)[working.numbers] > 0
        if upper <= state.upper:
            state.kept, state.upper = weighs, upper
        served = -outcome.problem.labels.scores(np.asarray(working.X @ w) + b)
        margins = np.where(is_kept, -np.inf, served.reshape(working.size, -1).min(axis=1))
        gap = 1.0 - problem.margin(w, found.primals[0].scores) / max(upper, 1e-300)
        problem.working = state.renewed(working, margins, seen.lists[0].chosen(), gap)

    def candidates(self, problem: "BlockProblem", state: RoundState) -> Candidates:
        assert state.proposal is not None
        state.proposal.ending = Status.TIME_BUDGET if time_left() <= 0.0 else state.ending
        return state.proposal
