"""`auto` on blocks: solve the rows that matter in memory, scan all the others, repeat."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from momentron.arithmetic.clock import OutOfTime, time_left
from momentron.solvers.auto import Auto
from momentron.solvers.base import Candidates, Primal, State
from momentron.solvers.checkpoint import unusable
from momentron.solvers.loop import Budget, solve
from momentron.status import Status
from momentron.streams.blocks import Rows

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
    def of_rows(cls, rows: int) -> "MemoryPlan":
        """An eighth of the rows at first, and as many new ones per pass."""
        return cls(rows, rows // 8, rows // 8)

    @classmethod
    def within(cls, nbytes: int, width: int) -> "MemoryPlan":
        """For rows that have `width` entries each."""
        return cls.of_rows(max(LEAST_ROWS, nbytes // (8 * max(width, 1))))

    def of_classes(self, n_classes: int) -> "MemoryPlan":
        """With some rows of every class, however small the memory."""
        return MemoryPlan.of_rows(max(self.rows, 16 * n_classes))


@dataclass
class BlockRounds(State):
    """Working sets in memory, checked against the whole stream in one pass per round.

    A round solves the working set by `auto` and reads the stream once. The pass proves a lower
    bound, the weights of the working set an upper one, as any weights do. The rows that the
    classifier serves worst join the set; rows without weight, far from the margin, leave it where
    memory asks for it. As rows with weight never leave, the upper bound falls in every round.
    Three to ten passes are usual. Rows among which nothing separates prove it for all of them.

    The rows of the working set belong to the problem, which knows that they are of the stream.

    Attributes
    ----------
    numbers : ndarray
        Of the rows of the working set.
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

    numbers: np.ndarray
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
        working = problem._working
        inner = problem.of_rows(working)
        outcome = solve(inner, Auto(), Budget(self.asked, Auto.default_max_iter, remaining))
        if outcome.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        q = problem.weights_of_working_set(outcome.q)
        upper, dual = q.upper, inner.sparse_dual(outcome.q)
        if outcome.status is Status.NOT_SEPARABLE:  # nor is the whole: all that is to be known
            nothing = Primal(problem.zeros(), np.zeros(problem.labels.arcs.size))
            self.proposal = Candidates([nothing], q, upper / problem.radius)
            return
        found = outcome.w if outcome.certificate.margin > 0.0 else outcome.last_w
        coef, b, _ = inner.classifier(found.astype(np.float64))
        w, labels = problem.labels.from_coef(coef), problem.labels
        scores = labels.block_scores(np.asarray(working.X @ w) + b, working.codes)
        margins = -(scores.max(axis=1) if labels.is_paired else scores).astype(np.float64)
        margins[dual.rows] = -np.inf
        # rows whose margin is below that of the working set
        bars = np.full(labels.n_classes, -upper)
        if not labels.is_paired:  # −y(x·w) > yb − margin, y = −1 and +1
            bars += np.array([-b, b])
        b = np.broadcast_to(b, labels.n_classes)
        scores, margin, worst = problem.rank(w, n_worst=self.plan.worst, b=b, bars=bars)
        self.proposal = Candidates([Primal(w, scores)], q, upper / problem.radius)
        gap = 1.0 - margin / max(upper, 1e-300)
        problem._working = self._renewed(working, margins, worst, gap)
        self.numbers = problem._working.numbers

    def proposed(self, problem: "BlockProblem") -> Candidates:
        """What the last round proposes."""
        assert self.proposal is not None
        is_late = time.perf_counter() >= self.deadline
        self.proposal.ending = Status.TIME_BUDGET if is_late else self.ending
        return self.proposal

    def _renewed(self, working: Rows, margins: np.ndarray, worst: Rows | None, gap: float) -> Rows:
        """The working set, joined by rows that the classifier serves worse than its own.

        `margins` are those of the working set, −∞ for rows with weight.
        """
        finest = self.tol / 4.0
        if worst is not None:
            is_new = ~np.isin(worst.numbers, working.numbers)
            worst = worst.chosen(np.flatnonzero(is_new)) if is_new.any() else None
        if worst is None:
            if self.asked <= finest:
                self.ending = Status.STALLED  # rounding is all that is left of the gap
            self.asked = finest
            return working
        self.asked = max(finest, min(ROUGH, 0.05 * gap))
        room = self.plan.rows - worst.size
        if working.size > room:  # rows with weight stay, those nearest to them, some of each class
            kept = np.isneginf(margins)
            kept[np.argsort(margins, kind="stable")[: max(room, 0)]] = True
            for code in np.unique(working.codes):
                rows = np.flatnonzero(working.codes == code)
                kept[rows[np.argmin(margins[rows])]] = True
            working = working.chosen(np.flatnonzero(kept))
        return Rows.joined([working, worst])

    # --- for checkpoints -----------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The rows of the set by their numbers: the pass that opens the next run reads them."""
        return {"t": np.array(self.t), "asked": np.array(self.asked), "numbers": self.numbers}

    def from_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        t, asked = arrays.get("t"), arrays.get("asked")
        if t is None or asked is None or t.shape != () or asked.shape != ():
            raise unusable("it does not say how far the method had come")
        if t.dtype.kind not in "iu" or asked.dtype.kind != "f" or not 0.0 <= float(asked) < 1.0:
            raise unusable(f"its iteration is {t} and its inner tolerance {asked}")
        self.t, self.asked = int(t), float(asked)
