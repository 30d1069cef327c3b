"""The runner: every solver on every problem, in turn, under a time limit.

One worker process a solver lives as long as its problem. Rounds are interleaved (each solver once,
then each again), so that a slow minute of the machine strikes all alike; the best of the rounds
counts. Scores are computed afterwards, off the clock.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.suite.objective import Objective
from benchmarks.suite.problems import BenchProblem
from benchmarks.suite.solvers import REFERENCE, SOLVERS, BenchSolver
from benchmarks.suite.task import Task, write_task
from benchmarks.suite.worker import Timed, Worker
from momentron.errors import InputError

Say = Callable[[str], None]


@dataclass(frozen=True)
class Limits:
    """Seconds: a run may take `factor` times momentron's best, from `least` to `most`.

    A run above `repeat_below` is not repeated.
    """

    factor: float = 20.0
    least: float = 5.0
    most: float = 60.0
    repeat_below: float = 10.0
    rounds: int = 3

    def of(self, reference_seconds: float) -> float:
        """The limit for the peers, given momentron's best time (inf where it has none)."""
        return min(self.most, max(self.least, self.factor * reference_seconds))


FULL = Limits()
QUICK = Limits(least=2.0, most=5.0, repeat_below=1.0, rounds=2)


@dataclass(frozen=True)
class Entry:
    """One row of the table.

    `status` is "ok", "timeout", "failed" or "skipped". `seconds` is the best run's, or the limit
    of a time-out, or nan; `error` is the objective's score of the best run's answer.
    """

    solver: str
    status: str
    seconds: float = math.nan
    error: float = math.nan
    certified: bool = False
    note: str = ""
    runs: tuple[float, ...] = ()


@dataclass(frozen=True)
class ProblemResult:
    """All entries of a problem, momentron's first."""

    name: str
    kind: str
    description: str
    target: float
    limit: float
    optimum: float
    entries: tuple[Entry, ...]

    @property
    def reference(self) -> Entry:
        return next(entry for entry in self.entries if entry.solver == REFERENCE)


@dataclass
class _Contestant:
    """A solver while its problem lasts."""

    solver: BenchSolver
    worker: Worker | None = None
    runs: list[Timed] = field(default_factory=list)
    verdict: Timed | None = None  # what ended it early, if anything did

    @property
    def best(self) -> Timed | None:
        return min(self.runs, key=lambda run: run.seconds, default=None)

    def wants_another(self, limits: Limits) -> bool:
        return self.verdict is None and all(r.seconds <= limits.repeat_below for r in self.runs)

    def run(self, limit: float) -> None:
        assert self.worker is not None
        outcome = self.worker.run(limit)
        if outcome.status == "ok":
            self.runs.append(outcome)
        else:
            self.verdict = outcome

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()


def run_suite(
    problems: Iterable[BenchProblem],
    solvers: Iterable[BenchSolver],
    *,
    limits: Limits = FULL,
    say: Say = print,
) -> list[ProblemResult]:
    """Run solvers on problems; a problem whose data are not available is skipped, with a word."""
    chosen = with_reference(solvers)
    results = []
    for problem in problems:
        try:
            task = problem.task()
        except (InputError, OSError, ImportError) as error:
            say(f"{problem.name}: skipped, {error}")
            continue
        say(f"{problem.name}: {task.describe()}")
        results.append(run_problem(problem.name, task, chosen, limits=limits, say=say))
    return results


def with_reference(solvers: Iterable[BenchSolver]) -> list[BenchSolver]:
    """momentron first, for its time sets the limit of all others and its bound their scores."""
    chosen = list(solvers)
    own = [s for s in chosen if s.name == REFERENCE] or [SOLVERS[REFERENCE]]
    return own + [s for s in chosen if s.name != REFERENCE]


def run_problem(
    name: str,
    task: Task,
    solvers: Sequence[BenchSolver],
    *,
    limits: Limits = FULL,
    say: Say = print,
) -> ProblemResult:
    """All solvers on one task: start their workers, run the rounds, score."""
    reasons = {solver.name: solver.reason_against(task) for solver in solvers}
    contestants = [_Contestant(s) for s in solvers if reasons[s.name] is None]
    with tempfile.TemporaryDirectory(prefix="momentron-bench-") as folder:
        try:
            _start(contestants, task, Path(folder))
            limit = _run_rounds(contestants, limits, say)
        finally:
            for contestant in contestants:
                contestant.close()
    objective = Objective(task)
    objective.refer(c.best.answer for c in contestants if c.best and c.best.answer)
    by_name = {c.solver.name: _entry(c, objective) for c in contestants}
    entries = tuple(
        by_name.get(s.name) or Entry(s.name, "skipped", note=reasons[s.name] or "") for s in solvers
    )
    return ProblemResult(
        name, task.kind, task.describe(), objective.target, limit, objective.optimum, entries
    )


def _start(contestants: list[_Contestant], task: Task, folder: Path) -> None:
    """Start all workers at once, and wait until the last is warm: nothing else runs meanwhile."""
    file = folder / "task.npz"
    write_task(file, task)
    for contestant in contestants:
        log = folder / f"{contestant.solver.name}.log"
        contestant.worker = Worker(contestant.solver.run, file, log)
    for contestant in contestants:
        assert contestant.worker is not None
        contestant.verdict = contestant.worker.wait_until_ready()


def _run_rounds(contestants: list[_Contestant], limits: Limits, say: Say) -> float:
    """Each contestant once a round; returns the last time limit of the peers."""
    reference = next((c for c in contestants if c.solver.name == REFERENCE), None)
    limit = limits.most
    for number in range(limits.rounds):
        for contestant in contestants:
            if not contestant.wants_another(limits):
                continue
            own = contestant is reference
            contestant.run(limits.most if own else limit)
            if own:
                best = contestant.best
                limit = limits.of(best.seconds if best else math.inf)
            say(f"  round {number + 1}  {_progress(contestant)}")
    return limit


def _progress(contestant: _Contestant) -> str:
    last = contestant.verdict or contestant.runs[-1]
    return f"{contestant.solver.name:<16} {last.seconds:>9.4f} s  {last.status}"


def _entry(contestant: _Contestant, objective: Objective) -> Entry:
    best, verdict = contestant.best, contestant.verdict
    name, runs = contestant.solver.name, tuple(run.seconds for run in contestant.runs)
    if best is None or best.answer is None:
        status, seconds, note = "failed", math.nan, "no run"
        if verdict is not None:
            status, seconds, note = verdict.status, verdict.seconds, verdict.note
        return Entry(name, status, seconds, note=note)
    score = objective.score(best.answer)
    note = best.note if verdict is None else f"{best.note}; then {verdict.note}".lstrip("; ")
    return Entry(name, "ok", best.seconds, score, best.answer.certified, note, runs)
