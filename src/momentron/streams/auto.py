"""`auto` on streams: solve the rows that matter in memory, look at all the others, repeat."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.checkpoint import unusable
from momentron.clock import OutOfTime, time_left
from momentron.in_memory import fit_in_memory
from momentron.options import FitOptions
from momentron.result import MarginResult
from momentron.solvers.base import AIM, Aim, Candidates, Primal, Solver, State
from momentron.status import Status
from momentron.streams.look import Seen
from momentron.streams.problem import StreamProblem
from momentron.streams.shortlist import Shortlist
from momentron.streams.working_set import WorkingSet
from momentron.validation import TrainingData

ROUGH = 1e-3  # the first gaps asked of a working set: it will change anyway
# where nothing separates, Algorithm 1 still classifies well (the paper's Figure 2)
FOLLOWING = {"method": "momentum", "tol": 0.0, "max_iter": 50}
LEAST_ROWS = 500  # of a working set, however small the memory


@dataclass(frozen=True)
class Room:
    """How many rows the memory allows: in the working set, in the first, and new ones a pass."""

    rows: int
    sample: int
    worst: int

    @classmethod
    def within(cls, nbytes: int, width: int, n_classes: int) -> "Room":
        """An eighth of the rows at first, and as many new ones a pass."""
        rows = max(LEAST_ROWS, 16 * n_classes, nbytes // (8 * max(width, 1)))
        return cls(rows, rows // 8, rows // 8)


@dataclass
class StreamAutoState(State):
    """The working set, the gap asked of it, and what its last solve proposed."""

    working: WorkingSet
    tol: float
    deadline: float
    asked: float = ROUGH
    proposal: Candidates | None = None
    ending: Status | None = field(default=None)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The rows of the set by their numbers: the pass that opens the next run reads them."""
        numbers = self.working.numbers
        return {"t": np.array(self.t), "asked": np.array(self.asked), "numbers": numbers}

    def from_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        t, asked = arrays.get("t"), arrays.get("asked")
        if t is None or asked is None or t.shape != () or asked.shape != ():
            raise unusable("it does not say how far the method had come")
        if t.dtype.kind not in "iu" or asked.dtype.kind != "f" or not 0.0 <= float(asked) < 1.0:
            raise unusable(f"its iteration is {t} and its inner tolerance {asked}")
        self.t, self.asked = int(t), float(asked)


class StreamAuto(Solver):
    """Working sets in memory, checked against the whole stream in one pass a round.

    A round solves the working set by `auto` and reads the stream once. The pass proves a lower
    bound, the weights of the working set an upper one, as any weights do. The rows that the
    classifier serves worst join the set; rows without weight, far from the margin, leave it where
    memory asks for it. As rows with weight never leave, the upper bound falls in every round.
    Three to ten passes are usual. Rows among which nothing separates prove it for all of them.

    Parameters
    ----------
    room : Room
    resumed : WorkingSet, optional
        The set to begin with, where a checkpoint named its rows; else a sample.
    """

    name = "auto"
    uses_loss = False
    wants_tight_radius = False
    default_max_iter = 100

    def __init__(self, room: Room, resumed: WorkingSet | None = None) -> None:
        self.room, self.resumed = room, resumed

    def init(self, problem: Any, aim: Aim = AIM) -> StreamAutoState:
        assert isinstance(problem, StreamProblem)
        working = self.resumed
        if working is None:
            working = WorkingSet.from_shortlist(problem.found.sample, problem.classes)
        assert working is not None
        return StreamAutoState(working, aim.tol, aim.deadline)

    def vanishing(self, tol: float) -> float:
        """A witness at rounding level is what this method is for, whatever the tolerance."""
        return min(tol, 1e-12)

    def step(self, problem: Any, state: StreamAutoState) -> None:
        assert isinstance(problem, StreamProblem)
        state.t += 1
        inner = self._solve(problem, state)
        problem._keep_weights(state.working, inner.dual, inner.upper)
        q, upper = problem.even_weights(), inner.upper / problem.radius
        if inner.status is Status.NOT_SEPARABLE:
            w = problem.pose.from_coef(self._solve(problem, state, **FOLLOWING).coef)
            state.proposal = Candidates([_primal(problem, w, problem.look(w))], q, upper)
            return
        w = problem.pose.from_coef(inner.coef)
        seen = problem.look(w, n_worst=self.room.worst, **_ranking(problem, inner))
        state.proposal = Candidates([_primal(problem, w, seen)], q, upper)
        known = problem.known(w)
        gap = 1.0 - known.margin / max(inner.upper, 1e-300) if known is not None else 1.0
        self._renew(problem, state, inner, seen.worst, gap)

    def candidates(self, problem: Any, state: StreamAutoState) -> Candidates:
        assert state.proposal is not None
        state.proposal.ending = state.ending
        if time.perf_counter() >= state.deadline:
            state.proposal.ending = Status.TIME_BUDGET
        return state.proposal

    def _solve(
        self, problem: StreamProblem, state: StreamAutoState, **options: Any
    ) -> MarginResult:
        """The working set, solved in memory."""
        remaining = min(state.deadline - time.perf_counter(), time_left())
        if remaining <= 0.0:
            raise OutOfTime
        asked = FitOptions.from_arguments(
            fit_intercept=problem.pose.fit_intercept,
            max_time=remaining,
            **({"tol": state.asked} | options),
        )
        classes = np.arange(problem.classes.size)  # the blocks were checked as they were read
        data = TrainingData(state.working.X, classes, state.working.codes)
        inner = fit_in_memory(data, asked).result
        if inner.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return inner

    def _renew(
        self,
        problem: StreamProblem,
        state: StreamAutoState,
        inner: MarginResult,
        worst: Shortlist,
        gap: float,
    ) -> None:
        """Rows that the classifier serves worse than the working set's own join it."""
        found = WorkingSet.from_shortlist(worst)
        working, finest = state.working, state.tol / 4.0
        if found is not None:
            found = found.chosen(np.flatnonzero(~np.isin(found.numbers, working.numbers)))
        if found is None or found.size == 0:
            if state.asked <= finest:
                state.ending = Status.STALLED  # rounding is all that is left of the gap
            state.asked = finest
            return
        state.asked = max(finest, min(ROUGH, 0.05 * gap))
        room = self.room.rows - found.size
        if working.size > room:
            working = self._pruned(problem, working, inner, room)
        state.working = working.joined(found)

    def _pruned(
        self, problem: StreamProblem, working: WorkingSet, inner: MarginResult, room: int
    ) -> WorkingSet:
        """The rows with weight, the nearest to the margin beside them, and some of every class."""
        margins = working.margins(problem.pose, inner.coef, inner.intercept)
        weights = inner.dual if inner.dual.ndim == 1 else inner.dual.sum(axis=1)
        margins[weights > 0.0] = -np.inf
        kept = np.zeros(working.size, bool)
        kept[np.argsort(margins, kind="stable")[: max(room, 0)]] = True
        kept[weights > 0.0] = True
        for code in range(problem.classes.size):
            rows = np.flatnonzero(working.codes == code)
            kept[rows[np.argmin(margins[rows])]] = True
        return working.chosen(np.flatnonzero(kept))


def _primal(problem: StreamProblem, w: np.ndarray, seen: Seen) -> Primal:
    """A classifier with what a pass has seen of it."""
    scores = np.zeros(problem.size)
    scores[: problem.pose.n_arcs] = seen.tops / problem.radius
    return Primal(w, scores)


def _ranking(problem: StreamProblem, inner: MarginResult) -> dict[str, np.ndarray]:
    """What finds the rows whose margin is below that of the working set."""
    if problem.pose.is_paired:
        b = np.asarray(inner.intercept)
        return {"b": b, "bars": np.full(b.size, -inner.upper)}
    # −y(x·w) > yb − margin, y = −1 and +1
    return {"bars": np.array([-inner.intercept, inner.intercept]) - inner.upper}
