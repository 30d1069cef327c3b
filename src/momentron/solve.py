"""The only loop: budgets, callback, trace, and stopping on the certified gap."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.certificate import Certificate, certify, relative_gap
from momentron.problem import Problem
from momentron.solvers.base import Candidates, Solver
from momentron.status import Status
from momentron.trace import Row, Trace

Callback = Callable[[Row], Any]
Reporter = Callable[[Row], None]


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


class Stopwatch:
    """Seconds of work: what the user's own code spends is not counted."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._excluded = 0.0

    def seconds(self) -> float:
        return time.perf_counter() - self._start - self._excluded

    def exclude(self, function: Callable[[Row], Any] | None, row: Row) -> Any:
        """Call function(row) off the clock."""
        if function is None:
            return None
        begin = time.perf_counter()
        try:
            return function(row)
        finally:
            self._excluded += time.perf_counter() - begin


@dataclass
class Incumbent:
    """The best w and the best q seen, as copies that a later step cannot overwrite."""

    w: np.ndarray
    q: np.ndarray
    lower: float = -math.inf
    upper: float = math.inf
    last_w: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.last_w = self.w

    def update(self, problem: Problem, candidates: Candidates) -> float:
        """Keep what is better; return the margin of the current iterate."""
        margins = [problem.margin(primal.w, primal.scores) for primal in candidates.primals]
        best = int(np.argmax(margins))
        if margins[best] > self.lower:
            self.lower = margins[best]
            self.w = candidates.primals[best].w.copy()
        if candidates.upper < self.upper:
            self.upper = candidates.upper
            self.q = candidates.q.copy()
        self.last_w = candidates.primals[0].w
        return margins[0]


class CertificateClock:
    """When to certify: as soon as the estimate says so, then again only after a tenth more steps.

    Where rounding keeps the certified gap above the tolerance, the loop would otherwise spend
    itself on certificates.
    """

    def __init__(self) -> None:
        self._next = 0

    def is_due(self, iteration: int) -> bool:
        if iteration < self._next:
            return False
        self._next = iteration + 1 + iteration // 10
        return True


def solve(
    problem: Problem,
    solver: Solver,
    budget: Budget,
    *,
    callback: Callback | None = None,
    reporter: Reporter | None = None,
) -> Outcome:
    """Run a method until its certified gap is within the tolerance, or a budget ends.

    `reporter` sees every row, for printing; `callback` too, and stops the run by returning a true
    value. Ctrl-C ends the run with what it has.
    """
    stopwatch, trace, clock = Stopwatch(), Trace(), CertificateClock()
    best = Incumbent(w=problem.operator.zeros(), q=np.ones(problem.n_rows))
    state = None
    try:
        state = solver.init(problem)
        while True:
            solver.step(problem, state)
            candidates = solver.candidates(problem, state)
            margin = best.update(problem, candidates)
            row = _row(problem, state.t, stopwatch.seconds(), margin, best, candidates.interval)
            trace.append(row)
            stopwatch.exclude(reporter, row)
            status = _answered(problem, best, budget, clock, state.t)
            if status is None and stopwatch.exclude(callback, row):
                status = Status.STOPPED
            status = status or _exhausted(budget, state.t, stopwatch.seconds())
            if status is not None:
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    certificate = certify(problem, best.w, best.q)
    return Outcome(
        status=status,
        certificate=certificate,
        w=best.w,
        last_w=best.last_w.copy(),
        q=problem.dual_set.normalize(best.q),
        n_iter=len(trace),
        seconds=stopwatch.seconds(),
        trace=trace,
    )


def _answered(
    problem: Problem, best: Incumbent, budget: Budget, clock: CertificateClock, iteration: int
) -> Status | None:
    """OPTIMAL or NOT_SEPARABLE where the certificate says so, asked only where it may."""
    separated = best.lower > 0.0 and relative_gap(best.lower, best.upper) <= budget.tol
    vanished = best.upper <= budget.tol
    if not (separated or vanished) or not clock.is_due(iteration):
        return None
    certificate = certify(problem, best.w, best.q)
    if certificate.lower > 0.0 and certificate.gap <= budget.tol:
        return Status.OPTIMAL
    if certificate.lower <= 0.0 and certificate.upper <= problem.to_units_of_x(budget.tol):
        return Status.NOT_SEPARABLE
    return None


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
        theorem_lower=problem.to_units_of_x(low),
        theorem_upper=problem.to_units_of_x(high),
    )
