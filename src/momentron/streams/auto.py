"""`auto` on blocks: solve the rows that matter in memory, scan all the others, repeat."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from momentron.arithmetic.clock import OutOfTime, time_left
from momentron.result import MarginResult
from momentron.solvers.auto import Auto
from momentron.solvers.base import Candidates, Primal, State
from momentron.solvers.checkpoint import unusable
from momentron.solvers.loop import Budget
from momentron.status import Status
from momentron.streams.working_set import Rows

if TYPE_CHECKING:
    from momentron.streams.problem import BlockProblem

ROUGH = 1e-3  # the first gaps asked of a working set: it will change anyway
LEAST_ROWS = 500  # of a working set, however small the memory


@dataclass(frozen=True)
class MemoryPlan:
    """How many rows the memory allows: in the working set, in the first, and new ones per pass."""

    rows: int
    sample: int
    worst: int

    @classmethod
    def within(cls, nbytes: int, width: int, n_classes: int) -> "MemoryPlan":
        """An eighth of the rows at first, and as many new ones per pass."""
        rows = max(LEAST_ROWS, 16 * n_classes, nbytes // (8 * max(width, 1)))
        return cls(rows, rows // 8, rows // 8)


@dataclass
class BlockRounds(State):
    """Working sets in memory, checked against the whole stream in one pass per round.

    A round solves the working set by `auto` and reads the stream once. The pass proves a lower
    bound, the weights of the working set an upper one, as any weights do. The rows that the
    classifier serves worst join the set; rows without weight, far from the margin, leave it where
    memory asks for it. As rows with weight never leave, the upper bound falls in every round.
    Three to ten passes are usual. Rows among which nothing separates prove it for all of them.

    Attributes
    ----------
    working : Rows
    plan : MemoryPlan
    tol, deadline : float
        As in `RunOptions`.
    asked : float
        The gap asked of the working set.
    proposal : Candidates, optional
        What the last round proposed.
    ending : Status, optional
        Why there is no further round.
    """

    working: Rows
    plan: MemoryPlan
    tol: float
    deadline: float
    asked: float = ROUGH
    proposal: Candidates | None = None
    ending: Status | None = None

    def advance(self, problem: "BlockProblem") -> None:
        """One round."""
        remaining = min(self.deadline - time.perf_counter(), time_left())
        if remaining <= 0.0:
            raise OutOfTime
        budget = Budget(self.asked, Auto.default_max_iter, remaining)
        inner, q, upper = problem.solve_rows(self.working, Auto(), budget)
        if inner is None:
            start = problem.start()
            self.proposal = Candidates([Primal(start.w, start.scores)], q, upper)
            return
        w = problem.labels.from_coef(inner.coef)
        options = _ranking(problem, inner)
        scores, margin, worst = problem.rank(w, n_worst=self.plan.worst, **options)
        self.proposal = Candidates([Primal(w, scores)], q, upper)
        self._renew(problem, inner, worst, gap=1.0 - margin / max(inner.upper, 1e-300))

    def proposed(self, problem: "BlockProblem") -> Candidates:
        """What the last round proposes."""
        assert self.proposal is not None
        is_late = time.perf_counter() >= self.deadline
        self.proposal.ending = Status.TIME_BUDGET if is_late else self.ending
        return self.proposal

    def _renew(
        self, problem: "BlockProblem", inner: MarginResult, worst: Rows | None, gap: float
    ) -> None:
        """Rows that the classifier serves worse than the working set's own join it."""
        working, finest = self.working, self.tol / 4.0
        if worst is not None:
            is_new = ~np.isin(worst.numbers, working.numbers)
            worst = worst.chosen(np.flatnonzero(is_new)) if is_new.any() else None
        if worst is None:
            if self.asked <= finest:
                self.ending = Status.STALLED  # rounding is all that is left of the gap
            self.asked = finest
            return
        self.asked = max(finest, min(ROUGH, 0.05 * gap))
        room = self.plan.rows - worst.size
        if working.size > room:
            working = working.chosen(self._kept(problem, inner, room))
        self.working = working.joined(worst)

    def _kept(self, problem: "BlockProblem", inner: MarginResult, room: int) -> np.ndarray:
        """The rows with weight, those nearest to the margin, and some of every class."""
        working = self.working
        margins = working.margins(problem.labels, inner.coef, inner.intercept)
        margins[inner.support] = -np.inf
        kept = np.zeros(working.size, bool)
        kept[np.argsort(margins, kind="stable")[: max(room, 0)]] = True
        kept[inner.support] = True
        for code in range(problem.classes.size):
            rows = np.flatnonzero(working.codes == code)
            kept[rows[np.argmin(margins[rows])]] = True
        return np.flatnonzero(kept)

    # --- for checkpoints -----------------------------------------------------------------------

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


def _ranking(problem: "BlockProblem", inner: MarginResult) -> dict[str, np.ndarray]:
    """What finds the rows whose margin is below that of the working set."""
    if problem.labels.is_paired:
        b = np.asarray(inner.intercept)
        return {"b": b, "bars": np.full(b.size, -inner.upper)}
    # −y(x·w) > yb − margin, y = −1 and +1
    return {"bars": np.array([-inner.intercept, inner.intercept]) - inner.upper}
