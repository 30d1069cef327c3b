"""The only loop: budgets, callback, trace, and stopping on the certified gap."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime, Stopwatch, until
from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.rounding import up
from momentron.arithmetic.threads import one_thread
from momentron.certificate import Certificate, admitted, relative_gap
from momentron.errors import SolverError
from momentron.solvers.base import Candidates, RunOptions, Solver, Start
from momentron.solvers.certified_problem import CertifiedProblem
from momentron.solvers.checkpoint import Checkpoint, RunState
from momentron.solvers.iterate import Iterate, Watch
from momentron.status import Status
from momentron.views.trace import Row, Trace

Callback = Callable[[Iterate], Any]
Reporter = Callable[[Row], None]
Certifier = Callable[..., Certificate]

ENDINGS = (
    None,
    Status.STALLED,
    Status.NO_ROOM,
    Status.TIME_BUDGET,
    Status.ITERATION_BUDGET,
)
LARGEST_ROUNDING = 1e-4  # or tol, of the longest row: above it nothing is called not separable
PATIENCE = 0.6  # seconds in which the last certificate must be there, after Ctrl-C or the budget
PATIENCE_SHARE = 0.06  # or this share of the budget, if that is longer


@dataclass(frozen=True)
class Budget:
    """What a solve may spend. `tol` bounds the certified relative gap.

    `max_memory` is in bytes, besides X and the memory for kernel values; None: the default.
    `patience` is what the last certificate and the choice of a classifier may take beyond
    `max_time`, or after Ctrl-C; or a small share of `max_time`, if that is longer.
    """

    tol: float = 1e-6
    max_iter: int = 10_000
    max_time: float = math.inf
    max_memory: int | None = None
    patience: float = PATIENCE

    @property
    def grace(self) -> float:
        """What may be spent beyond `max_time`."""
        if self.max_time == math.inf:
            return self.patience
        return max(self.patience, PATIENCE_SHARE * self.max_time)

    def left(self, spent: float) -> "Budget":
        """What is left of the time; hardly any where it is over."""
        return replace(self, max_time=max(self.max_time - spent, 1e-9))


class Turns:
    """One budget for several parts of the work, one after the other.

    Each has an equal share of the time that is left when its turn comes, and of what may be spent
    beyond it: all of them together take no longer than one would.
    """

    def __init__(self, budget: Budget, parts: int, stopwatch: Stopwatch) -> None:
        self._budget, self._parts, self._stopwatch = budget, parts, stopwatch
        self._begun = 0

    def next(self) -> Budget:
        """The budget of the next part."""
        left = self._budget.left(self._stopwatch.seconds())
        parts, self._begun = self._parts - self._begun, self._begun + 1
        grace = self._budget.grace / self._parts
        return replace(left, max_time=left.max_time / parts, patience=grace)

    def end(self) -> None:
        """No more time for those that follow: the user is waiting."""
        self._budget = replace(self._budget, max_time=0.0)


@dataclass
class Outcome:
    """What the loop hands over: the best pair seen, certified, and how it ended."""

    status: Status
    certificate: Certificate
    w: np.ndarray
    last_w: np.ndarray
    last_b: np.ndarray | None  # the method's own intercepts for last_w, if it names any
    q: Any  # as the problem has weights
    n_iter: int
    passes: int
    seconds: float
    trace: Trace
    closing: float  # when the result must be there, on the clock of `time.perf_counter`


@dataclass(frozen=True)
class Certified:
    """A pair with the certificate that was computed from it."""

    w: np.ndarray
    q: Any
    certificate: Certificate


class Incumbent:
    """The best w and the best q that were proposed, as copies that no solver can reach.

    Which proposal is best is judged by the solver's own claims, `lower` and `upper` in units of R:
    claims that lie cost digits, never truth. What is certified is published by one assignment, so
    that an interrupt at any moment leaves a pair with its own certificate.
    """

    def __init__(self, problem: CertifiedProblem, certifier: Certifier | None = None) -> None:
        self._certify = certifier or problem.certify
        self.w = self.last_w = problem.zeros()
        self.last_b: np.ndarray | None = None
        k = problem.classes.size
        self._n_outputs = k if k > 2 else 1
        self.q: Any = problem.even_weights()
        self.lower, self.upper = -math.inf, math.inf
        self.certified: Certified | None = None
        self._problem = problem
        self._refined: tuple[np.ndarray, Any] | None = None

    def update(self, seen: CertifiedProblem, candidates: Candidates) -> float:
        """Keep what is better; return the claimed margin of the current iterate.

        What float64 estimates cannot tell from the best so far is kept as well.
        """
        problem, primals = self._problem, candidates.primals
        if not primals:
            raise SolverError("a method must propose at least one classifier after each step")
        margins = [seen.margin(primal.w, primal.scores) for primal in primals]
        if primals[0].w.dtype == np.longdouble:
            w = problem.admitted_w(primals[0].w)
            self._refined = w, problem.admitted_weights(candidates.q)
        best = max(range(len(margins)), key=margins.__getitem__)
        if margins[best] > self.lower:
            self.w = problem.admitted_w(primals[best].w)
            self.lower = margins[best]
        if candidates.upper < self.upper:
            self.q = problem.admitted_weights(candidates.q)
            self.upper = candidates.upper
        fallback = candidates.fallback
        self.last_w = primals[0].w if fallback is None else fallback.w
        self.last_b = None if fallback is None else fallback.b
        return margins[0]

    def take_last(self) -> None:
        """Make a copy of the last iterate, which until then may be the solver's own array."""
        self.last_w = self._problem.admitted_w(self.last_w)
        if self.last_b is not None:
            self.last_b = admitted(self.last_b, (self._n_outputs,), "b")

    @property
    def is_refined(self) -> bool:
        """Whether a pair in extended precision was proposed."""
        return self._refined is not None

    @property
    def is_certified(self) -> bool:
        """Whether the present pair is the one that was certified last."""
        done = self.certified
        return done is not None and done.w is self.w and done.q is self.q

    def certify(self, *, sharp: bool) -> Certificate:
        """The certificate of the present pair."""
        w, q = self.w, self.q
        certificate = self._certify(w, q, sharp=sharp)
        self.certified = Certified(w, q, certificate)
        return certificate

    def adopt_refined(self) -> Certificate | None:
        """Take the pair in extended precision, if its certificate is the better one."""
        if self._refined is None:
            return None
        w, q = self._refined
        certificate = self._certify(w, q, sharp=True)
        if self.certified is None or certificate.gap < self.certified.certificate.gap:
            self.w, self.q = w, q
            self.certified = Certified(w, q, certificate)
        return self.certified.certificate


class StoppingRule:
    """Asks the certificate whether the question is answered, no more often than is worth it.

    The status follows from the certificate alone; a method may only say why it ends without an
    answer. The first certificate is asked for as soon as the estimates say so; where rounding keeps
    the certified gap above the tolerance, the next only after a tenth more iterations.
    """

    def __init__(self, problem: CertifiedProblem, budget: Budget, solver: Solver) -> None:
        self._problem = problem
        self._tol = budget.tol
        self._vanishing = min(budget.tol, solver.vanishing(budget.tol))
        self.next = 0  # the iteration from which to ask again

    def verdict(self, best: Incumbent, iteration: int, ending: Status | None) -> Status | None:
        """OPTIMAL or NOT_SEPARABLE where the certificate says so, else the method's own ending."""
        if ending not in ENDINGS:
            raise SolverError(
                f"a method may end with STALLED, NO_ROOM or a budget, not with {ending!r}: whether "
                "the question is answered is for the certificate to say"
            )
        separated = best.lower > 0.0 and relative_gap(best.lower, best.upper) <= self._tol
        vanished = best.upper <= self._vanishing
        is_worth_asking = separated or vanished
        is_budget = ending in (Status.TIME_BUDGET, Status.ITERATION_BUDGET)
        if is_budget and not is_worth_asking:
            return ending
        if ending is None and (not is_worth_asking or iteration < self.next):
            return None
        for sharp in (False, True):
            status = self._answer(best.certify(sharp=sharp))
            # a pair in extended precision may show a margin where float64 sees none
            if status is Status.OPTIMAL or (status is not None and not best.is_refined):
                return status
        self.next = iteration + 1 + iteration // 10
        refined = best.adopt_refined()
        return (self._answer(refined) if refined is not None else None) or ending

    def _answer(self, certificate: Certificate) -> Status | None:
        if certificate.lower > 0.0 and certificate.gap <= self._tol:
            return Status.OPTIMAL
        problem = self._problem
        if problem.is_soft:
            return None  # a soft margin is positive, however small
        if certificate.upper > max(self._tol, LARGEST_ROUNDING) * problem.to_units_of_x(
            problem.reach
        ):
            return None  # where rounding hides everything, it shows nothing
        floor = problem.to_units_of_x(problem.resolution)  # all that a witness can reach
        limit = problem.to_units_of_x(self._vanishing)
        if certificate.lower > 0.0 or certificate.upper > max(limit, floor):
            return None
        # the tight radius costs passes, so it is asked for last
        limit *= problem.tight_radius / problem.radius
        return Status.NOT_SEPARABLE if certificate.upper <= max(limit, floor) else None

    def close(self, best: Incumbent, status: Status) -> None:
        """Certify the pair of the result; sharply where rounding is what is left of the gap."""
        if best.is_certified:
            return
        certificate = best.certify(sharp=False)
        if status in (Status.TIME_BUDGET, Status.INTERRUPTED):
            return
        if relative_gap(max(0.0, best.lower), best.upper) < 0.5 * certificate.gap:
            best.certify(sharp=True)


class Recorder:
    """Fills the trace, and tells the reporter and the callback of each iteration.

    A row is made only where somebody wants it.
    """

    def __init__(
        self,
        problem: CertifiedProblem,
        best: Incumbent,
        stopwatch: Stopwatch,
        trace: Trace,
        reporter: Reporter | None,
        callback: Callback | None,
    ) -> None:
        self._problem, self._best, self._stopwatch, self._trace = problem, best, stopwatch, trace
        self._reporter, self._callback = reporter, callback
        self._watch = Watch(problem)
        self._is_kept = False

    def note(self, margin: float, candidates: Candidates) -> None:
        """An iteration is done; `margin` is that of its iterate."""
        self._margin, self._candidates = margin, candidates
        self._trace.n_iter += 1
        self._is_kept = self._trace.wants_row
        if self._is_kept or self._reporter is not None:
            self._row = self._make_row()
            self._stopwatch.exclude(self._reporter, self._row)
        if self._is_kept:
            self._trace.append(self._row)

    def is_asked_to_stop(self) -> bool:
        """Show the callback the iteration, if it is one that is kept."""
        if self._callback is None or not self._is_kept:
            return False
        seen = self._watch.iterate(self._row, self._candidates.primals[0])
        return bool(self._stopwatch.exclude(self._callback, seen))

    def keep_last(self) -> None:
        """The last iteration is in the trace, whatever else is kept."""
        if not self._is_kept:
            self._trace.append(self._make_row())

    def _make_row(self) -> Row:
        """The trace row in the units of X."""
        problem, best = self._problem, self._best
        low, high = self._candidates.interval or (math.nan, math.nan)
        return Row(
            iteration=self._trace.n_iter,
            seconds=self._stopwatch.total(),
            passes=problem.passes,
            margin=problem.to_units_of_x(self._margin),
            lower=problem.to_units_of_x(max(0.0, best.lower)),
            upper=problem.to_units_of_x(best.upper),
            evaluations=problem.evaluations,
            theorem_lower=problem.to_units_of_x(low),
            theorem_upper=problem.to_units_of_x(high),
        )


@standard_arithmetic()
def solve(
    problem: CertifiedProblem,
    solver: Solver,
    budget: Budget,
    *,
    start: Start | None = None,
    random_state: Any = None,
    callback: Callback | None = None,
    reporter: Reporter | None = None,
    stopwatch: Stopwatch | None = None,
    certifier: Certifier | None = None,
    checkpoint: Checkpoint | None = None,
    record_every: int = 1,
) -> Outcome:
    """Run a method until its certified gap is within the tolerance, or a budget ends.

    `reporter` sees every row, for printing; `callback` those that the trace keeps, with their
    iterates, and stops the run by returning a true value. `record_every` says which are kept.
    `start` is for methods that begin warm, `random_state` for those that draw; `stopwatch` may have
    been running already. `certifier` takes the place of the problem's own `certify`, for whoever
    needs no proof. A `checkpoint` is read before the first step, if it exists, and written after
    some of them. Ctrl-C ends the run with what it has.
    """
    stopwatch = stopwatch or Stopwatch()
    best = Incumbent(problem, certifier)
    stopping = StoppingRule(problem, budget, solver)
    trace = Trace(record_every)
    seen = problem.for_solver()
    moment = stopwatch.deadline(budget.max_time)
    deadline = moment - problem.closing_seconds()
    options = RunOptions(budget.tol, deadline, start, random_state, budget.max_memory)
    with checkpoint or nullcontext(), one_thread():
        try:
            with until(options.deadline):
                if solver.wants_tight_radius:
                    seen = problem.for_solver(tight=True)
                state = solver.init(seen, options)
                status = None
                run = RunState(seen, state, best, stopping, trace, stopwatch)
                if checkpoint is not None and checkpoint.resume(run):
                    status = stopping.verdict(best, trace.n_iter, None)
                    status = status or _exhausted(budget, trace.n_iter, stopwatch.seconds())
                recorder = Recorder(seen, best, stopwatch, trace, reporter, callback)
                while status is None:
                    solver.step(seen, state)
                    candidates = solver.candidates(seen, state)
                    recorder.note(best.update(seen, candidates), candidates)
                    status = stopping.verdict(best, trace.n_iter, candidates.ending)
                    if status is None and recorder.is_asked_to_stop():
                        status = Status.STOPPED
                    status = status or _exhausted(budget, trace.n_iter, stopwatch.seconds())
                    if status is not None:
                        recorder.keep_last()
                    if checkpoint is not None:
                        checkpoint.save(run, is_last=status is not None)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except OutOfTime:
            status = Status.TIME_BUDGET
        if status in (Status.INTERRUPTED, Status.TIME_BUDGET):
            problem.close()
        closing = time.perf_counter() + budget.patience
        if status is not Status.INTERRUPTED:
            closing = max(closing, stopwatch.deadline(budget.max_time + budget.grace))
        done = _closed(problem, best, stopping, status, closing)
    return Outcome(
        status=status,
        certificate=done.certificate,
        w=done.w,
        last_w=best.last_w,
        last_b=best.last_b,
        q=done.q,
        n_iter=trace.n_iter,
        passes=seen.passes,
        seconds=stopwatch.total(),
        trace=trace,
        closing=closing,
    )


def _closed(
    problem: CertifiedProblem,
    best: Incumbent,
    stopping: StoppingRule,
    status: Status,
    closing: float,
) -> Certified:
    """The best pair, certified; where there is no time for it, the one that was certified last."""
    try:
        with until(closing):
            best.take_last()
            stopping.close(best, status)
    except (KeyboardInterrupt, OutOfTime):
        pass
    if best.certified is not None:
        return best.certified
    return Certified(best.w, best.q, without_time(problem))


def without_time(problem: CertifiedProblem) -> Certificate:
    """What is known without a pass: weights give no vector longer than the longest row of Z."""
    longest = up(problem.to_units_of_x(problem.trivial_upper))
    return Certificate.from_bounds(-math.inf, longest)


def _exhausted(budget: Budget, iteration: int, seconds: float) -> Status | None:
    if iteration >= budget.max_iter:
        return Status.ITERATION_BUDGET
    if seconds >= budget.max_time:
        return Status.TIME_BUDGET
    return None
