"""The runner: every solver on every problem, in turn, under a time limit.

One worker process a solver lives as long as its problem. Rounds are interleaved (each solver once,
then each again), so that a slow minute of the machine strikes all alike; the best of the rounds
counts. Scores are computed afterwards, off the clock.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
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

    A run above `repeat_below` is not repeated; one below `short` is repeated `short_rounds` times.
    """

    factor: float = 20.0
    least: float = 5.0
    most: float = 60.0
    repeat_below: float = 10.0
    rounds: int = 3
    short: float = 0.01
    short_rounds: int = 9

    def of(self, reference_seconds: float) -> float:
        """The limit for the peers, given momentron's best time (inf where it has none)."""
        return min(self.most, max(self.least, self.factor * reference_seconds))


FULL = Limits()
QUICK = Limits(least=2.0, most=5.0, repeat_below=1.0, rounds=2, short_rounds=7)


@dataclass(frozen=True)
class Entry:
    """One row of the table.

    `status` is "ok", "timeout", "failed" or "skipped". `seconds` is the best run's, or the limit
    of a time-out, or nan; `error` is the objective's score of the best run's answer. `cold` is the
    first run in its process, and `runs` are those after it, or it alone where it was not repeated.
    """

    solver: str
    status: str
    seconds: float = math.nan
    error: float = math.nan
    certified: bool = False
    note: str = ""
    runs: tuple[float, ...] = ()
    cold: float = math.nan


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
    cold: Timed | None = None
    runs: list[Timed] = field(default_factory=list)
    verdict: Timed | None = None  # what ended it early, if anything did

    @property
    def best(self) -> Timed | None:
        return min(self.runs, key=lambda run: run.seconds, default=self.cold)

    def wants_another(self, limits: Limits) -> bool:
        """A cold run, then as many warm ones as its time asks for."""
        best = self.best
        if self.verdict is not None or best is None:
            return self.verdict is None
        is_short = best.seconds < limits.short
        rounds = max(limits.rounds, limits.short_rounds if is_short else 0)
        return len(self.runs) < rounds and best.seconds <= limits.repeat_below

    def run(self, limit: float) -> None:
        assert self.worker is not None
        outcome = self.worker.run(limit)
        if outcome.status == "ok" and self.cold is None:
            self.cold = outcome
        elif outcome.status == "ok":
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
    done: Mapping[str, ProblemResult] | None = None,
    keep: Callable[[ProblemResult], None] | None = None,
) -> list[ProblemResult]:
    """Run solvers on problems; a problem whose data are not available is skipped, with a word.

    Those of `done` are not run again; `keep` is told of each that was run, as soon as it was.
    """
    chosen = with_reference(solvers)
    results = []
    for problem in problems:
        known = (done or {}).get(problem.name)
        if known is not None:
            results.append(known)
            continue
        try:
            task = problem.task()
        except (InputError, OSError, ImportError) as error:
            say(f"{problem.name}: skipped, {error}")
            continue
        say(f"{problem.name}: {task.describe()}")
        results.append(run_problem(problem.name, task, chosen, limits=limits, say=say))
        if keep is not None:
            keep(results[-1])
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
    """Start all workers at once, and wait until the last is ready: nothing else runs meanwhile."""
    file = folder / "task.npz"
    write_task(file, task)
    for contestant in contestants:
        log = folder / f"{contestant.solver.name}.log"
        solver = contestant.solver
        contestant.worker = Worker(solver.run, file, log, solver.loads)
    for contestant in contestants:
        assert contestant.worker is not None
        contestant.verdict = contestant.worker.wait_until_ready()


def _run_rounds(contestants: list[_Contestant], limits: Limits, say: Say) -> float:
    """Each contestant once a round, the first one cold; the last time limit of the peers."""
    reference = next((c for c in contestants if c.solver.name == REFERENCE), None)
    limit = limits.most
    for number in range(1 + max(limits.rounds, limits.short_rounds)):
        for contestant in contestants:
            if not contestant.wants_another(limits):
                continue
            own = contestant is reference
            contestant.run(limits.most if own else limit)
            if own:
                best = contestant.best
                limit = limits.of(best.seconds if best else math.inf)
            say(f"  {f'round {number}' if number else 'cold   '}  {_progress(contestant)}")
    return limit


def _progress(contestant: _Contestant) -> str:
    last = contestant.verdict or (contestant.runs[-1] if contestant.runs else contestant.cold)
    assert last is not None
    return f"{contestant.solver.name:<16} {last.seconds:>9.4f} s  {last.status}"


def _entry(contestant: _Contestant, objective: Objective) -> Entry:
    best, verdict = contestant.best, contestant.verdict
    name, cold = contestant.solver.name, contestant.cold
    runs = tuple(run.seconds for run in contestant.runs or ([cold] if cold else []))
    if best is None or best.answer is None:
        status, seconds, note = "failed", math.nan, "no run"
        if verdict is not None:
            status, seconds, note = verdict.status, verdict.seconds, verdict.note
        return Entry(name, status, seconds, note=note)
    score = objective.score(best.answer)
    note = best.note if verdict is None else f"{best.note}; then {verdict.note}".lstrip("; ")
    first = cold.seconds if cold else math.nan
    return Entry(name, "ok", best.seconds, score, best.answer.certified, note, runs, first)
