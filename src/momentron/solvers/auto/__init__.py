"""`auto`: accelerate, identify, solve, certify. Machine precision at the price of a few passes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime
from momentron.solvers.auto.class_rows import WideRows
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.hard import first_phase
from momentron.solvers.auto.hinge import HingeEngine
from momentron.solvers.auto.last_digits import after_floats
from momentron.solvers.auto.multiclass import ClassKernel, ClassMargin
from momentron.solvers.auto.search import Engine, Search
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.soft import soft_phase
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import (
    DEFAULTS,
    Candidates,
    Primal,
    RunOptions,
    Solver,
    Start,
    State,
)
from momentron.solvers.problem import Problem
from momentron.status import Status

__all__ = ["Auto", "AutoSettings", "AutoState"]

# Unknowns, (classes − 1) × (features + 1), from which supports are so large that a share of many
# pairs is enough, and that share: usually, and for the simple ones.
MANY_UNKNOWNS, CROWDED_SHARE = 1800, (0.18, 0.34)
TAME = (1e-30, 1e30)  # √K_ii with which products of kernel values, which nobody scales, are floats


@dataclass
class AutoState(State):
    """The engine at work, and what it proposes; `closing` makes the one that may follow it."""

    work: Engine
    closing: Callable[[Start | None], Engine] | None = None
    first: Primal | None = None
    proposal: Candidates | None = None

    def advance(self, problem: Problem) -> None:
        """One round; what overflows in it, where C‖x‖² is beyond 1e150, proves nothing."""
        work = self.work
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                work.advance()
                self.proposal = work.candidates()
                self._go_on()
        except (FloatingPointError, OverflowError, np.linalg.LinAlgError, OutOfTime) as error:
            work.is_done = True  # the last proposal stands: the certificate says what it is worth
            if isinstance(error, OutOfTime) and not work.deadline.has_refused:
                work.deadline.is_over = True
            if work.is_interruptible:
                self.proposal = work.candidates()

    def _go_on(self) -> None:
        """From an engine that stands still to exact solves, where these can take over."""
        if not self.work.is_done or self.closing is None:
            return
        start = self.work.left_off()
        if start is not None or self.work.has_given_up:
            self.work, self.closing = self.closing(start), None

    def proposed(self, problem: Problem) -> Candidates:
        """What the last round proposes."""
        proposal = self.proposal or self._nothing(problem)
        if self.first is not None:
            proposal.primals.append(self.first)
            self.first = None
        if self.work.deadline.is_over:
            proposal.ending = Status.TIME_BUDGET
        elif self.work.deadline.has_refused:
            proposal.ending = Status.NO_ROOM
        elif self.work.is_done:
            proposal.ending = Status.STALLED
        return proposal

    def _nothing(self, problem: Problem) -> Candidates:
        """What is proposed before any round is done."""
        return self.work.candidates() if self.work.is_interruptible else _nothing(problem)


class Auto(Solver):
    """Working sets, solved exactly, checked against all the rows.

    A round ranks the rows by rough soft margins (semismooth Newton on the squared hinge, a few
    hundred rows), or solves the hard margin on the rows that matter, to rounding: by Newton with
    multipliers where support vectors are few, by an interior point where they are many. Then one
    pass over all the data certifies the answer, or names the violators. On data that are not
    separable the multipliers, normalised, are a witness: ‖Zᵀq‖ falls to rounding level. Three to
    ten passes in all.

    A finite C is solved directly, by Newton on all the rows; with the plain hinge by an interior
    point. Many classes have an engine of their own: alternating directions where inner products
    are in memory, and Newton with conjugate gradients. Data in blocks are solved by rounds that
    keep the rows that matter in memory (`CertifiedProblem.rounds`).

    Parameters
    ----------
    settings : AutoSettings, optional
    """

    name = "auto"
    uses_loss = False
    warm_starts = True
    wants_tight_radius = False
    uses_working_sets = True
    default_max_iter = 1000
    settings: AutoSettings = SETTINGS

    def __init__(self, settings: AutoSettings | None = None) -> None:
        if settings is not None:
            self.settings = settings

    def init(self, problem: Any, options: RunOptions = DEFAULTS) -> Any:
        rounds = problem.rounds(options)  # of data in blocks
        return self._in_memory(problem, options) if rounds is None else rounds

    def _in_memory(self, problem: Any, options: RunOptions) -> AutoState:
        """Choose the engine.

        Pairs (example, wrong label) that are too many for exact solves on working sets of them go
        to the engine of many classes; those of a kernel only if all examples nearly fit a working
        set. So do fewer pairs where alternating directions are likely to be faster; where they are
        not, exact solves take over. All else goes to working sets: soft margins in phases of their
        own, hard ones in the phases rank, solve, refine.
        """
        deadline, settings = Deadline(), self.settings.within(options.memory)
        work: Engine
        closing = None

        def exact(start: Start | None) -> Search:
            sets = WorkingSets(problem, deadline, settings)
            search = Search(problem, sets, options.tol, after_floats)
            begin = soft_phase if math.inf > search.C else first_phase
            search.phase = begin(search, start)
            return search

        if problem.penalty.has_box:
            return AutoState(HingeEngine(problem, options.tol, deadline, settings, options.start))
        first = None
        kernel = problem.operator.as_kernel()
        has_many = _has_many_pairs(problem, settings)
        is_few = not has_many and _may_split(problem, options, settings)
        has_pairs = has_many or is_few
        if has_pairs and kernel is None:
            work = ClassMargin(problem, deadline, options.start, settings, is_few=is_few)
            closing = exact
        elif has_pairs and kernel and ClassKernel.fits(kernel, settings):
            start = options.start
            work = ClassKernel(problem, options.tol, deadline, settings, start, is_few=is_few)
            closing = exact if is_few else None
        else:
            work = exact(options.start)
        if problem.is_soft:  # where rounds find nothing better, it still proves a bound
            first = _nothing(problem).primals[0]
        return AutoState(work, closing, first)

    def vanishing(self, tol: float) -> float:
        """A witness at rounding level is what this method is for, whatever the tolerance."""
        return min(tol, 1e-12)

    def step(self, problem: Any, state: Any) -> None:
        state.advance(problem)
        state.t += 1

    def candidates(self, problem: Any, state: Any) -> Candidates:
        proposal: Candidates = state.proposed(problem)
        return proposal


def _has_many_pairs(problem: Problem, settings: AutoSettings) -> bool:
    """Whether there are many classes, and too many pairs for matrices of them."""
    labels = problem.labels
    if not labels.is_paired:
        return False
    is_simple = not (problem.is_soft or problem.dual_set.fits_intercept)
    many = settings.many_simple_pairs if is_simple else settings.many_pairs
    matrix = problem.operator.as_matrix()
    if matrix is not None:
        unknowns = (labels.n_classes - 1) * (matrix.shape[1] + 1)
        if unknowns >= MANY_UNKNOWNS:
            many = int(many * CROWDED_SHARE[is_simple])
    return problem.size >= many


def _may_split(problem: Problem, options: RunOptions, settings: AutoSettings) -> bool:
    """Whether fewer pairs are worth alternating directions, which single precision ends."""
    if not problem.labels.is_paired or problem.size < settings.many_split_pairs:
        return False
    if options.tol < settings.split_finest:
        return False
    matrix, kernel = problem.operator.as_matrix(), problem.operator.as_kernel()
    if matrix is not None:
        return WideRows.suit(matrix, settings, is_warm=options.start is not None)
    return kernel is not None and TAME[0] < kernel.radius < TAME[1]


def _nothing(problem: Problem) -> Candidates:
    """What is known before any round: even weights, and w = 0.

    With slack 1 for all, where there is slack, that proves a lower bound of 1/√(2C n).
    """
    n = problem.size
    slack = np.full(n, 1.0 if problem.is_soft else 0.0)
    w = problem.with_slack(problem.base.zeros(), slack)
    return Candidates([Primal(w, -slack / problem.radius)], np.ones(n), math.inf)
