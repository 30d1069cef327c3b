"""Working sets on blocks: solve the rows that matter in memory, scan all the others, repeat."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.arithmetic.clock import TimeLimit, require_time, time_left
from momentron.solvers.checkpoint import taken, unusable
from momentron.solvers.loop import Budget, Run, solve
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

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {"t": np.array(self.t), "asked": np.array(self.asked)}

    def from_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.t = int(taken("t", arrays, np.array(0)))
        self.asked = float(taken("asked", arrays, np.array(0.0)))
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
        budget, limit = Budget(asked, self.method.default_max_iter), TimeLimit(time_left())
        outcome = solve(problem, self.method, budget, start=start, limit=limit)
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

    def init(self, problem: Any, options: RunOptions = DEFAULTS) -> RoundState:
        problem.begin_rounds()
        return RoundState(problem.room, options.tol)

    def vanishing(self, tol: float) -> float:
        return self.method.vanishing(tol)

    def step(self, problem: "BlockProblem", state: RoundState) -> None:
        outcome = self.solved(problem.of_rows(problem.working), state.asked)
        q = problem.weights_of_working_set(outcome.q)
        if outcome.status is Status.NOT_SEPARABLE:  # nor is the whole: all that is to be known
            nothing = Primal(problem.zeros(), np.zeros(problem.labels.arcs.size))
            state.proposal = Candidates([nothing], q, q.upper / problem.radius)
        else:
            self._look(problem, state, outcome, q)
        state.t += 1

    @staticmethod
    def _look(problem: "BlockProblem", state: RoundState, outcome: Run, q: Any) -> None:
        """Evaluate the classifier of the working set in one pass, and renew the set."""
        labels, working, upper = problem.labels, problem.working, q.upper
        found = outcome.w if outcome.certificate.margin > 0.0 else outcome.last_w
        coef, b, _ = outcome.problem.classifier(found.astype(np.float64))
        w = problem.from_coef(coef)
        scores = labels.block_scores(np.asarray(working.X @ w) + b, working.codes)
        margins = -(scores.max(axis=1) if labels.is_paired else scores).astype(np.float64)
        for weights in (q, problem.best_weights):
            margins[np.isin(working.numbers, weights.rows.rows)] = -np.inf
        # rows whose margin is below that of the working set
        bars = np.full(labels.n_classes, -upper)
        if not labels.is_paired:  # −y(x·w) > yb − margin, y = −1 and +1
            bars += np.array([-b, b])
        b = np.broadcast_to(b, labels.n_classes)
        scores, margin, worst = problem.rank(w, n_worst=state.room // NEW_SHARE, b=b, bars=bars)
        state.proposal = Candidates([Primal(w, scores)], q, upper / problem.radius)
        gap = 1.0 - margin / max(upper, 1e-300)
        problem.working = state.renewed(working, margins, worst, gap)

    def candidates(self, problem: "BlockProblem", state: RoundState) -> Candidates:
        assert state.proposal is not None
        state.proposal.ending = Status.TIME_BUDGET if time_left() <= 0.0 else state.ending
        return state.proposal
