"""The only loop: budgets, callback, trace, and stopping on the certified gap."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.certificate import Certificate, certify, relative_gap
from momentron.checkpoint import Checkpoint, Progress
from momentron.clock import OutOfTime, Stopwatch
from momentron.problem import Problem
from momentron.solvers.base import Aim, Candidates, Solver, Start
from momentron.status import Status
from momentron.threads import one_thread
from momentron.trace import Row, Trace

Callback = Callable[[Row], Any]
Reporter = Callable[[Row], None]
Certifier = Callable[..., Certificate]


@dataclass(frozen=True)
class Budget:
    """What a solve may spend. `tol` bounds the certified relative gap."""

    tol: float = 1e-6
    max_iter: int = 10_000
    max_time: float = math.inf


@dataclass
class Outcome:
    """What the loop hands over: the best pair seen, certified, and how it ended."""

    status: Status
    certificate: Certificate
    w: np.ndarray
    last_w: np.ndarray
    q: np.ndarray
    n_iter: int
    seconds: float
    trace: Trace


@dataclass
class Incumbent:
    """The best w and the best q seen, as copies that a later step cannot overwrite."""

    w: np.ndarray
    q: np.ndarray
    certifier: Certifier = certify
    lower: float = -math.inf
    upper: float = math.inf
    last_w: np.ndarray = field(init=False)
    certificate: Certificate | None = field(default=None, init=False)
    refined: tuple[np.ndarray, np.ndarray] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.last_w = self.w

    def adopt_refined(self, problem: Problem) -> Certificate | None:
        """Take the pair in extended precision, if its certificate is the better one."""
        if self.refined is None:
            return None
        certificate = self.certifier(problem, *self.refined, sharp=True)
        if self.certificate is None or certificate.gap < self.certificate.gap:
            (self.w, self.q), self.certificate = self.refined, certificate
        return self.certificate

    def certify(self, problem: Problem, *, sharp: bool) -> Certificate:
        """The certificate of the pair as it stands; forgotten when the pair improves."""
        self.certificate = self.certifier(problem, self.w, self.q, sharp=sharp)
        return self.certificate

    def update(self, problem: Problem, candidates: Candidates) -> float:
        """Keep what is better; return the margin of the current iterate.

        What float64 estimates cannot tell from the best so far is kept beside it.
        """
        if candidates.primals[0].w.dtype == np.longdouble:
            self.refined = (candidates.primals[0].w.copy(), candidates.q.copy())
        margins = [problem.margin(primal.w, primal.scores) for primal in candidates.primals]
        best = max(range(len(margins)), key=margins.__getitem__)
        if margins[best] > self.lower:
            self.lower = margins[best]
            self.w = candidates.primals[best].w.copy()
            self.certificate = None
        if candidates.upper < self.upper:
            self.upper = candidates.upper
            self.q = candidates.q.copy()
            self.certificate = None
        self.last_w = candidates.primals[0].w
        return margins[0]


class Judge:
    """Asks the certificate whether the question is answered, no more often than is worth it.

    The first certificate is asked for as soon as the estimates say so; where rounding keeps the
    certified gap above the tolerance, the next only after a tenth more iterations.
    """

    def __init__(self, problem: Problem, budget: Budget, vanishing: float) -> None:
        self._problem = problem
        self._tol = budget.tol
        self._vanishing = vanishing
        self.next = 0  # the iteration from which to ask again

    def verdict(self, best: Incumbent, iteration: int, ending: Status | None) -> Status | None:
        """OPTIMAL or NOT_SEPARABLE where the certificate says so, else the method's own ending."""
        separated = best.lower > 0.0 and relative_gap(best.lower, best.upper) <= self._tol
        vanished = best.upper <= self._vanishing
        is_worth_asking = separated or vanished
        is_budget = ending in (Status.TIME_BUDGET, Status.ITERATION_BUDGET)
        if is_budget and not is_worth_asking:
            return ending
        if ending is None and (not is_worth_asking or iteration < self.next):
            return None
        for sharp in (False, True):
            status = self._answer(best.certify(self._problem, sharp=sharp))
            if status is not None:
                return status
        self.next = iteration + 1 + iteration // 10
        refined = best.adopt_refined(self._problem)
        return (self._answer(refined) if refined is not None else None) or ending

    def _answer(self, certificate: Certificate) -> Status | None:
        if certificate.lower > 0.0 and certificate.gap <= self._tol:
            return Status.OPTIMAL
        problem = self._problem
        # rounding is all that any witness can reach
        floor = problem.to_units_of_x(problem.operator.resolution)
        limit = problem.to_units_of_x(self._vanishing)
        if certificate.lower > 0.0 or certificate.upper > max(limit, floor):
            return None
        # the tight radius costs passes, so it is asked for last
        limit *= problem.tight_radius / problem.radius
        return Status.NOT_SEPARABLE if certificate.upper <= max(limit, floor) else None

    def final(self, best: Incumbent, status: Status) -> Certificate:
        """The certificate of the result; sharp where rounding is what is left of the gap."""
        if best.certificate is not None:
            return best.certificate
        certificate = best.certify(self._problem, sharp=False)
        if status is Status.TIME_BUDGET:
            return certificate
        if relative_gap(max(0.0, best.lower), best.upper) < 0.5 * certificate.gap:
            return best.certify(self._problem, sharp=True)
        return certificate


def solve(
    problem: Problem,
    solver: Solver,
    budget: Budget,
    *,
    start: Start | None = None,
    random_state: Any = None,
    callback: Callback | None = None,
    reporter: Reporter | None = None,
    stopwatch: Stopwatch | None = None,
    certifier: Certifier = certify,
    checkpoint: Checkpoint | None = None,
) -> Outcome:
    """Run a method until its certified gap is within the tolerance, or a budget ends.

    `reporter` sees every row, for printing; `callback` too, and stops the run by returning a true
    value. `start` is for methods that begin warm, `random_state` for those that draw; `stopwatch`
    may have been running already. `certifier` turns a pair into an interval where the data are not
    in memory. A `checkpoint` is read before the first step, if it exists, and written after some of
    them. Ctrl-C ends the run with what it has.
    """
    stopwatch = stopwatch or Stopwatch()
    best = Incumbent(problem.zeros(), problem.even_weights(), certifier)
    judge = Judge(problem, budget, solver.vanishing(budget.tol))
    trace = Trace()
    remaining = budget.max_time - stopwatch.seconds() - _closing_seconds(problem)
    aim = Aim(budget.tol, time.perf_counter() + remaining, start, random_state)
    with one_thread():
        try:
            if solver.wants_tight_radius:
                problem.tighten()
            state = solver.init(problem, aim)
            status = None
            progress = Progress(problem, state, best, judge, trace, stopwatch)
            if checkpoint is not None and checkpoint.resume(progress):
                status = judge.verdict(best, state.t, None)
                status = status or _exhausted(budget, state.t, stopwatch.seconds())
            while status is None:
                solver.step(problem, state)
                candidates = solver.candidates(problem, state)
                margin = best.update(problem, candidates)
                row = _row(problem, state.t, stopwatch.total(), margin, best, candidates.interval)
                trace.append(row)
                stopwatch.exclude(reporter, row)
                status = judge.verdict(best, state.t, candidates.ending)
                if status is None and stopwatch.exclude(callback, row):
                    status = Status.STOPPED
                status = status or _exhausted(budget, state.t, stopwatch.seconds())
                if checkpoint is not None:
                    checkpoint.save(progress, is_last=status is not None)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except OutOfTime:  # in the middle of a pass over data on disk
            status = Status.TIME_BUDGET
        certificate = judge.final(best, status)
    return Outcome(
        status=status,
        certificate=certificate,
        w=best.w,
        last_w=best.last_w.copy(),
        q=problem.dual_set.normalize(best.q),
        n_iter=len(trace),
        seconds=stopwatch.total(),
        trace=trace,
    )


def _closing_seconds(problem: Problem) -> float:
    """Roughly what the last certificate and the classifier take: four passes, some vectors."""
    operator = problem.operator
    entries = operator.dense_entries or 20 * operator.shape[0]
    return 4.0 * entries / 3e9 + 100.0 * operator.shape[0] / 1e9


def _exhausted(budget: Budget, iteration: int, seconds: float) -> Status | None:
    if iteration >= budget.max_iter:
        return Status.ITERATION_BUDGET
    if seconds >= budget.max_time:
        return Status.TIME_BUDGET
    return None


def _row(
    problem: Problem,
    iteration: int,
    seconds: float,
    margin: float,
    best: Incumbent,
    interval: tuple[float, float] | None,
) -> Row:
    """The trace row in the units of X."""
    low, high = interval or (math.nan, math.nan)
    return Row(
        iteration=iteration,
        seconds=seconds,
        passes=problem.passes,
        margin=problem.to_units_of_x(margin),
        lower=problem.to_units_of_x(max(0.0, best.lower)),
        upper=problem.to_units_of_x(best.upper),
        evaluations=problem.operator.evaluations,
        theorem_lower=problem.to_units_of_x(low),
        theorem_upper=problem.to_units_of_x(high),
    )
