"""The only loop: budgets, trace, stopping on the certified gap, and what a callback sees."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime, TimeLimit, until
from momentron.arithmetic.rounding import up
from momentron.certificate import Certificate, admitted, read_only, relative_gap
from momentron.data.models import as_coef
from momentron.errors import SolverError
from momentron.solvers.checkpoint import Checkpoint
from momentron.solvers.problem import Problem
from momentron.solvers.solver import Candidates, Primal, RunOptions, Solver
from momentron.status import Status
from momentron.views.trace import Row, Trace

Callback = Callable[["Iterate"], Any]
Reporter = Callable[[Row], None]
# the reference that a callback named last, and what it is as a classifier: it is converted once
References = list[tuple[Any, np.ndarray]]

BUDGETS = (Status.TIME_BUDGET, Status.ITERATION_BUDGET)
ENDINGS = (None, Status.STALLED, Status.NO_ROOM, *BUDGETS)
LARGEST_ROUNDING = 1e-4  # or tol, of the longest row: above it nothing is called not separable
CLOSING = 0.05  # seconds before the deadline in which every step is saved


def solve(problem: Problem, solver: Solver, budget: RunOptions, **options: Any) -> "Run":
    """Run a method until its certified gap is within the tolerance, or a budget ends.

    The options are those of `Run`. Ctrl-C ends the run with what it has.
    """
    run = Run(problem, solver, budget, **options)
    with run.checkpoint or nullcontext():
        run.complete()
    return run


@dataclass
class Run:
    """One solve: the best w and the best q that were proposed, when to stop, and how it ended.

    Both are copies that no solver can reach. Which proposal is best is judged by the solver's own
    claims, `lower` and `upper` in units of R: claims that lie cost digits, never truth. What is
    certified is published by one assignment, so that an interrupt at any moment leaves a pair with
    its own certificate. The status follows from the certificate alone; a method may only say why
    it ends without an answer.

    Parameters
    ----------
    problem, solver, budget
    callback : callable, optional
        Sees the iterates that the trace keeps, and stops the run by returning a true value.
    reporter : callable, optional
        Sees every row, for printing.
    checkpoint : Checkpoint, optional
        Read before the first step, if its file exists, and written after some of them.
    limit : TimeLimit, optional
        The seconds that it may take, some of which may have passed; by default there is no limit.
    record_every : int
        Which iterations the trace keeps.

    Attributes
    ----------
    status : Status
    w, q : ndarray
        The best pair, which is the one certified once the run is over.
    certificate : Certificate
    last_w : ndarray
        The last iterate.
    closing : float
        When the result must be there, on the clock of `time.perf_counter`.
    n_iter, passes, seconds : int, int, float
        What it took.
    """

    problem: Problem
    solver: Solver
    budget: RunOptions
    callback: Callback | None = None
    reporter: Reporter | None = None
    checkpoint: Checkpoint | None = None
    limit: TimeLimit = field(default_factory=TimeLimit)
    record_every: int = 1

    def __post_init__(self) -> None:
        problem = self.problem
        self.seen = problem.for_solver()
        self.state: Any = None
        self.trace = Trace(self.record_every)
        self.w = self.last_w = problem.zeros()
        self.q = np.ones(problem.size)
        self.lower, self.upper = -math.inf, math.inf
        self.n_iter, self.passes, self.seconds = 0, 0, 0.0
        self.next = 0  # the iteration from which to ask for a certificate again
        self._certified: tuple[np.ndarray, np.ndarray, Certificate] | None = None
        self._refined: tuple[np.ndarray, np.ndarray] | None = None
        self._vanishing = min(self.budget.tol, self.solver.vanishing)
        self._references: References = []

    def complete(self) -> None:
        """Run to the end, and certify the pair of the result."""
        problem, limit = self.problem, self.limit
        deadline = limit.moment() - problem.closing_seconds()
        try:
            with until(deadline):
                self.status = self._iterate(deadline)
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED
        except OutOfTime:
            self.status = Status.TIME_BUDGET
        if self.status in (Status.INTERRUPTED, Status.TIME_BUDGET):
            problem.close()
        self.closing = limit.closing(is_interrupted=self.status is Status.INTERRUPTED)
        with suppress(KeyboardInterrupt, OutOfTime):
            self._close()
        # where there was no time for the best pair, it is the one certified last
        closed = self._certified or (self.w, self.q, without_time(problem))
        self.w, self.q, self.certificate = closed
        self.n_iter, self.passes = self.trace.n_iter, self.seen.operator.passes
        self.seconds = limit.total()

    def _iterate(self, deadline: float) -> Status:
        """Step after step, until there is a status."""
        solver, trace, checkpoint, budget = self.solver, self.trace, self.checkpoint, self.budget
        if solver.wants_tight_radius:
            self.seen = self.problem.for_solver(tight=True)
        options = RunOptions(
            budget.tol, budget.max_iter, deadline, budget.start, budget.random_state, budget.memory
        )
        seen, state = self.seen, solver.init(self.seen, options)
        self.state, status = state, None
        if checkpoint is not None and checkpoint.resume(self):
            status = self._verdict(None) or self._exhausted()
        while status is None:
            begun = time.perf_counter()
            solver.step(seen, state)
            candidates = solver.candidates(seen, state)
            row, is_recorded = self._kept(candidates), trace.wants_row
            self.limit.exclude(self.reporter, row)
            if is_recorded:
                trace.append(row)
            status = self._verdict(candidates.ending)
            if status is None and is_recorded and self.callback is not None:
                shown = Iterate(row, seen, candidates.primals[0], self._references)
                status = Status.STOPPED if self.limit.exclude(self.callback, shown) else None
            status = status or self._exhausted()
            if status is not None and not is_recorded:
                trace.append(row)
            if checkpoint is not None:
                # a step that the deadline cuts short leaves nothing to save
                took = time.perf_counter() - begun
                is_late = deadline - time.perf_counter() < max(3.0 * took, CLOSING)
                checkpoint.save(self, is_last=status is not None or is_late)
        return status

    def _exhausted(self) -> Status | None:
        if self.trace.n_iter >= self.budget.max_iter:
            return Status.ITERATION_BUDGET
        return Status.TIME_BUDGET if self.limit.left() <= 0.0 else None

    # --- what is proposed ----------------------------------------------------------------------

    def _kept(self, candidates: Candidates) -> Row:
        """Keep what is better; return the trace row of the iteration, in the units of X.

        What float64 estimates cannot tell from the best so far is kept as well.
        """
        problem, seen, primals = self.problem, self.seen, candidates.primals
        if not primals:
            raise SolverError("a method must propose at least one classifier after each step")
        try:
            margins = [seen.margin(primal.w, primal.scores) for primal in primals]
        except TypeError as error:
            raise SolverError(f"a method must propose real numbers: {error}") from None
        if candidates.refined is not None:
            self._refined = problem.admitted_pair(*candidates.refined)
        if candidates.gives_up:
            self._vanishing = self.budget.tol
        best = max(range(len(margins)), key=margins.__getitem__)
        if margins[best] > self.lower:
            self.w = admitted(primals[best].w, problem.w_shape, "w")
            self.lower = margins[best]
        if candidates.upper < self.upper:
            self.q = admitted(candidates.q, (problem.size,), "q")
            self.upper = candidates.upper
        self.last_w = primals[0].w
        self.trace.n_iter += 1
        to_units_of_x = seen.to_units_of_x
        low, high = math.nan, math.nan
        if candidates.interval is not None:
            low, high = map(to_units_of_x, candidates.interval)
        return Row(
            iteration=self.trace.n_iter,
            seconds=self.limit.total(),
            passes=seen.operator.passes,
            margin=to_units_of_x(margins[0]),
            lower=to_units_of_x(max(0.0, self.lower)),
            upper=to_units_of_x(self.upper),
            evaluations=seen.operator.evaluations,
            theorem_lower=low,
            theorem_upper=high,
        )

    # --- what is certified ---------------------------------------------------------------------

    def _verdict(self, ending: Status | None) -> Status | None:
        """OPTIMAL or NOT_SEPARABLE where the certificate says so, else the method's own ending.

        The first certificate is asked for as soon as the estimates say so; where rounding keeps
        the certified gap above the tolerance, the next only after a tenth more iterations.
        """
        if ending not in ENDINGS:
            raise SolverError(
                f"a method may end with STALLED, NO_ROOM or a budget, not with {ending!r}: whether "
                "the question is answered is for the certificate to say"
            )
        iteration, tol = self.trace.n_iter, self.budget.tol
        separated = self.lower > 0.0 and relative_gap(self.lower, self.upper) <= tol
        is_worth_asking = separated or self.upper <= self._vanishing
        if ending in BUDGETS and not is_worth_asking:
            return ending
        if ending is None and (not is_worth_asking or iteration < self.next):
            return None
        for sharp in (False, True):
            status = self._answer(self._certificate(sharp=sharp))
            # a pair with more digits may show a margin where float64 sees none
            if status is Status.OPTIMAL or (status is not None and self._refined is None):
                return status
        self.next = iteration + 1 + iteration // 10
        return (self._adopt_refined() if self._refined is not None else None) or ending

    def _answer(self, certificate: Certificate) -> Status | None:
        tol, problem = self.budget.tol, self.problem
        if certificate.margin > 0.0 and certificate.gap <= tol:  # of a w that float64 has
            return Status.OPTIMAL
        if problem.is_soft:
            return None  # a soft margin is positive, however small
        longest = problem.to_units_of_x(problem.operator.some_row_length / problem.radius)
        if certificate.upper > max(tol, LARGEST_ROUNDING) * longest:
            return None  # where rounding hides everything, it shows nothing
        floor = problem.to_units_of_x(problem.operator.resolution)  # all that a witness can reach
        limit = problem.to_units_of_x(self._vanishing)
        if certificate.lower > 0.0 or certificate.upper > max(limit, floor):
            return None
        # the tight radius costs passes, so it is asked for last
        limit *= problem.tight_radius / problem.radius
        return Status.NOT_SEPARABLE if certificate.upper <= max(limit, floor) else None

    def _certificate(self, *, sharp: bool) -> Certificate:
        """The certificate of the present pair."""
        w, q = self.w, self.q
        certificate = self.problem.certify(w, q, sharp=sharp)
        self._certified = w, q, certificate
        return certificate

    def _adopt_refined(self) -> Status | None:
        """Take the pair with more digits, if its certificate is the better one.

        The classifier of the result is its w, rounded to float64, with a margin of its own.
        """
        assert self._refined is not None
        w, q = self._refined
        certificate = self.problem.certify(w, q, sharp=True)
        if self._certified is None or certificate.gap < self._certified[2].gap:
            self.w, self.q = w.astype(np.float64), q.astype(np.float64)
            margin = self.problem.certified_margin(self.w, sharp=True)
            certificate = certificate.with_margin(margin, is_bound=True)
            self._certified = self.w, self.q, certificate
        return self._answer(self._certified[2])

    def _close(self) -> None:
        """Certify the pair of the result; sharply where rounding is what is left of the gap."""
        # until here the last iterate may be the solver's own array
        self.last_w = admitted(self.last_w, self.problem.w_shape, "w")
        done = self._certified
        if done is not None and done[0] is self.w and done[1] is self.q:
            return
        with until(self.closing):
            certificate = self._certificate(sharp=False)
            is_short = self.status in (Status.TIME_BUDGET, Status.INTERRUPTED)
            gap = relative_gap(max(0.0, self.lower), self.upper)
            if not is_short and gap < 0.5 * certificate.gap:
                self._certificate(sharp=True)


class Iterate(Row):
    """A row of the trace with the classifier itself, which costs nothing until it is asked for.

    The method goes on with the same arrays: keep `coef`, or a copy of `w`, not `w` itself. It has
    the columns of the trace, ``iteration``, ``lower`` and all the others, and besides:

    Attributes
    ----------
    w : ndarray of shape (d,), or (k, d) for k ≥ 3 classes
        The current iterate, without a copy and read-only, in the method's units: for rows divided
        by R, the longest of them (seen from their mean where there is an intercept). With a kernel
        one number per example.
    coef : ndarray of the same shape
        A copy in the units of X, as `initial` takes it: x·coef is what the method makes of x.
    norm : float
        ‖w‖ in the space where the classifier lives, slack included where C is finite.
    loss : float
        The average loss that the method follows, over examples, or examples and wrong labels; the
        least over the intercepts.
    """

    _problem: Problem
    _primal: Primal
    _references: References

    def __init__(self, row: Row, problem: Problem, primal: Primal, references: References) -> None:
        own = {"_problem": problem, "_primal": primal, "_references": references}
        self.__dict__.update(vars(row), **own)

    @property
    def w(self) -> np.ndarray:
        return read_only(self._problem.shown(self._primal.w))

    @property
    def coef(self) -> np.ndarray:
        return np.array(self.w / self._problem.to_units_of_x(1.0), order="C")

    @property
    def norm(self) -> float:
        return self._problem.norm(self._primal.w)

    @property
    def loss(self) -> float:
        problem, psi = self._problem, self._primal.psi
        return problem.risk(problem.potential(self._primal.scores) if psi is None else psi)

    def angle_to(self, reference: Any) -> float:
        """The angle in degrees to a classifier: a `MarginResult`, or an array as `coef` is."""
        problem, known = self._problem, self._references
        if not known or known[0][0] is not reference:
            shape = problem.shown(problem.zeros()).shape
            coef = as_coef(getattr(reference, "coef", reference), shape, "reference")
            known[:] = [(reference, problem.from_coef(coef))]
        w = problem.parts(self._primal.w)[0]
        return angle_between(w, known[0][1], problem.norm)


def angle_between(w: np.ndarray, v: np.ndarray, norm: Callable[[np.ndarray], float]) -> float:
    """The angle of two classifiers in degrees, right to the last digits for small angles, too."""
    lengths = norm(w), norm(v)
    if not all(0.0 < length < math.inf for length in lengths):
        return math.nan
    w, v = w / lengths[0], v / lengths[1]
    return math.degrees(2.0 * math.atan2(norm(w - v), norm(w + v)))


def without_time(problem: Problem) -> Certificate:
    """What is known without a pass: weights give no vector longer than the longest row of Z."""
    if problem.penalty.has_box:  # of whose 1/√(2D) nothing is known
        return Certificate.from_bounds(-math.inf, math.inf)
    longest = problem.to_units_of_x(problem.longest / problem.radius)
    return Certificate.from_bounds(-math.inf, up(longest))
