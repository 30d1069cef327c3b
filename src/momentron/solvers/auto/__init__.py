"""`auto`: accelerate, identify, solve, certify. Machine precision at the price of a few passes."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime
from momentron.solvers.auto.class_kernel import ClassKernel, SplitMargin
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.hard import HardSearch
from momentron.solvers.auto.multiclass import ClassEngine, ClassMargin
from momentron.solvers.auto.search import Engine
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.soft import SoftSearch
from momentron.solvers.problem import Problem
from momentron.solvers.solver import DEFAULTS, Candidates, RunOptions, Solver, Start, State
from momentron.status import Status

__all__ = ["Auto", "AutoSettings", "AutoState"]

FAILURES = (FloatingPointError, OverflowError, np.linalg.LinAlgError, OutOfTime)  # of a round
TAME = (1e-30, 1e30)  # √K_ii with which products of kernel values, which nobody scales, are floats


@dataclass
class AutoState(State):
    """The engine at work, and what its last round proposes."""

    work: Engine
    proposal: Candidates

    def ask(self) -> None:
        """Take what the engine proposes, unless it overflowed: then the last proposal stands."""
        found = self.work.candidates()
        scores = found.primals[0].scores
        if not math.isnan(scores @ scores):
            self.proposal = found


class Auto(Solver):
    """Working sets, solved exactly, checked against all the rows.

    A round ranks the rows by approximate soft margins (semismooth Newton on the squared hinge, a
    few hundred rows), or solves the hard margin on the rows that matter, to rounding: by Newton
    with multipliers where support vectors are few, by an interior point where they are many. Then
    one pass over all the data certifies the answer, or finds violators. On data that are not
    separable the multipliers, normalised, are a witness: ‖Zᵀq‖ falls to rounding level. Three to
    ten passes in all.

    A finite C is solved by Newton, on all the rows or on working sets of them; with the plain hinge
    by Newton with multipliers, and by an interior point where intercepts are many. Many classes
    have their own engine: alternating directions where inner products are in memory, and Newton
    with conjugate gradients. Of data in blocks it sees the rows that matter
    (`momentron.streams.rounds`).

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
    vanishing = 1e-12  # a witness at rounding level is what this method is for
    settings: AutoSettings = SETTINGS

    def __init__(self, settings: AutoSettings | None = None) -> None:
        if settings is not None:
            self.settings = settings

    def init(self, problem: Any, options: RunOptions = DEFAULTS) -> AutoState:
        """Choose the engine: that of many classes where it is better, or working sets."""
        deadline, settings = Deadline(), self.settings.within(options.memory)

        def exact(start: Start | None) -> Engine:
            search = SoftSearch if problem.is_soft else HardSearch
            return search(problem, options.tol, deadline, settings, start)

        work = class_engine(problem, options, deadline, settings, exact) or exact(options.start)
        return AutoState(work, work.candidates())

    def step(self, problem: Any, state: Any) -> None:
        """One round; what overflows in it, where C‖x‖² is beyond 1e150, proves nothing."""
        work = state.work
        state.t += 1
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                work.advance()
                state.ask()
                if work.is_done:
                    state.work = work.successor() or work
        except FAILURES as error:
            work.is_done = True
            if isinstance(error, OutOfTime) and not work.deadline.has_refused:
                work.deadline.is_over = True
            with suppress(*FAILURES):
                state.ask()

    def candidates(self, problem: Any, state: Any) -> Candidates:
        work: Engine = state.work
        proposal: Candidates = state.proposal
        if work.deadline.is_over:
            proposal.ending = Status.TIME_BUDGET
        elif work.deadline.has_refused:
            proposal.ending = Status.NO_ROOM
        elif work.is_done:
            proposal.ending = Status.STALLED
        return proposal


def class_engine(
    problem: Problem,
    options: RunOptions,
    deadline: Deadline,
    settings: AutoSettings,
    exact: Callable[[Start | None], Engine],
) -> ClassEngine | None:
    """The engine of many classes for a problem, or None where exact solves are better.

    Pairs (example, wrong label) that are too many for exact solves on working sets of them have
    one; those of a kernel only if all examples nearly fit a working set. So do fewer pairs where
    alternating directions, which single precision ends, are likely to be faster; where they are
    not, exact solves take over.
    """
    n_pairs, tol, start = problem.size, options.tol, options.start
    if not problem.labels.is_paired or problem.penalty.has_box:
        return None
    is_rough = tol >= settings.split_finest
    most = settings.many_soft_pairs if problem.is_soft and is_rough else settings.many_pairs
    is_few = n_pairs < most
    if is_few and not (is_rough and n_pairs >= settings.many_split_pairs):
        return None
    matrix, kernel = problem.operator.as_matrix(), problem.operator.as_kernel()
    n_bytes = settings.kernel_entry_bytes * problem.operator.shape[0] ** 2
    given: dict[str, Any] = {"tol": tol, "start": start, "exact": exact, "is_few": is_few}
    if matrix is not None:
        # A warm start is a classifier in features, which need not be a combination of the rows.
        is_wide = matrix.shape[0] < matrix.shape[1] and start is None
        if is_wide and n_bytes <= settings.memory:
            return SplitMargin(problem, deadline, settings, **given)
        return None if is_few else ClassMargin(problem, deadline, settings, **given)
    if kernel is None or not kernel.kernel.is_semidefinite or n_bytes > 3 * kernel.cache_bytes:
        return None
    if is_few and not TAME[0] < kernel.radius < TAME[1]:
        return None
    return ClassKernel(problem, deadline, settings, **given)
