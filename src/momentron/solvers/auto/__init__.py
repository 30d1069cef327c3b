"""`auto`: accelerate, identify, solve, certify. Machine precision at the price of a few passes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.clock import OutOfTime
from momentron.constraints import Slack
from momentron.problem import Problem
from momentron.solvers.auto import interpolation
from momentron.solvers.auto.forms import Deadline
from momentron.solvers.auto.joint_kernel import JointKernel
from momentron.solvers.auto.joint_margin import JointMargin
from momentron.solvers.auto.rounds import Rounds
from momentron.solvers.auto.soft import SoftMargin
from momentron.solvers.base import AIM, Aim, Candidates, Primal, Solver, State
from momentron.status import Status

MANY_SLACKS = 2000  # from which a soft margin may end before its first good proposal


Work = Rounds | SoftMargin | JointMargin | JointKernel


@dataclass
class AutoState(State):
    """The rounds of a hard margin, or the one solve of a soft one; and what they propose."""

    work: Work
    first: Primal | None = None
    proposal: Candidates | None = None

    def advance(self, problem: Problem) -> None:
        """One round."""
        work = self.work
        try:
            work.advance()
            self.proposal = _propose(problem, work)
        except (FloatingPointError, np.linalg.LinAlgError, OutOfTime) as error:
            work.is_done = True  # the last proposal stands: the certificate says what it is worth
            work.deadline.was_met |= isinstance(error, OutOfTime)
            if isinstance(work, JointMargin | JointKernel) and work.has_begun:
                self.proposal = work.candidates()  # a step that was cut short has changed nothing

    def proposed(self, problem: Problem) -> Candidates:
        """What the last round proposes."""
        proposal = self.proposal or _nothing(problem)
        if self.first is not None:
            proposal.primals.append(self.first)
            self.first = None
        if self.work.deadline.was_met:
            proposal.ending = Status.TIME_BUDGET
        elif self.work.is_done:
            proposal.ending = Status.STALLED
        return proposal


class Auto(Solver):
    """Working sets, solved exactly, checked against all the rows.

    A round ranks the rows by rough soft margins (semismooth Newton on the squared hinge, a few
    hundred rows), or solves the hard margin on the rows that matter, to rounding: by Newton with
    multipliers where support vectors are few, by an interior point where they are many. Then one
    pass over all the data certifies the answer, or names the violators. On data that are not
    separable the multipliers, normalised, are a witness: ‖Zᵀq‖ falls to rounding level. Three to
    ten passes in all.

    A finite C is solved directly, by Newton on all the rows. Data in blocks are solved by rounds of
    their own, which keep the rows that matter in memory (`MarginProblem.rounds`).
    """

    name = "auto"
    uses_loss = False
    warm_starts = True
    wants_tight_radius = False
    uses_working_sets = True
    default_max_iter = 1000

    def init(self, problem: Any, aim: Aim = AIM) -> Any:
        rounds = problem.rounds(aim)  # of data in blocks
        return self._in_memory(problem, aim) if rounds is None else rounds

    @staticmethod
    def _in_memory(problem: Problem, aim: Aim) -> "AutoState":
        deadline = Deadline()
        work: Work
        first = None
        if JointMargin.suits(problem):
            work = JointMargin(problem, deadline, aim.start)
        elif aim.start is None and JointKernel.suits(problem):
            work = JointKernel(problem, aim.tol, deadline)
        elif isinstance(problem.constraints, Slack):
            work = SoftMargin(problem, deadline, aim.start)
        else:
            work = Rounds(problem, aim.tol, deadline)
            if aim.start is not None:
                work.begin_from(aim.start)
            elif interpolation.suits(work.sets):
                first = _first_primal(problem, work)
        if isinstance(problem.constraints, Slack) and problem.size > MANY_SLACKS:
            first = _all_slack(problem, problem.constraints)
        return AutoState(work, first)

    def vanishing(self, tol: float) -> float:
        """A witness at rounding level is what this method is for, whatever the tolerance."""
        return min(tol, 1e-12)

    def step(self, problem: Any, state: Any) -> None:
        state.advance(problem)
        state.t += 1

    def candidates(self, problem: Any, state: Any) -> Candidates:
        proposal: Candidates = state.proposed(problem)
        return proposal


def _propose(problem: Problem, work: Work) -> Candidates:
    """(w, q) of the work so far, in units of R."""
    if isinstance(work, JointMargin | JointKernel):
        return work.candidates()
    if isinstance(work, SoftMargin):
        w = Slack.join(work.w, math.sqrt(work.C) * work.slack())
        q = problem.dual_set.normalize(work.lam)
        upper = problem.constraints.dual_norm(q) / problem.radius
        return Candidates([Primal(w, problem.scores(w))], q, upper)
    scores = problem.constraints.from_products(work.products) / problem.radius
    return Candidates([Primal(work.w, scores)], work.lam, work.upper() / problem.radius)


def _first_primal(problem: Problem, work: Rounds) -> Primal | None:
    """A classifier that fits the labels of few wide examples, where there is time for it."""
    try:
        w = interpolation.interpolate(work.sets, work.deadline)
    except (OutOfTime, FloatingPointError):
        return None
    return Primal(w, problem.scores(w))


def _nothing(problem: Problem) -> Candidates:
    """What is known before any round: w = 0 and even weights."""
    constraints, n = problem.constraints, problem.size
    if isinstance(constraints, Slack):
        primal = _all_slack(problem, constraints)
    else:
        primal = Primal(problem.zeros(), np.zeros(n))
    return Candidates([primal], np.ones(n), math.inf)


def _all_slack(problem: Problem, constraints: Slack) -> Primal:
    """W = 0 with slack 1 for all, which proves a lower bound of 1/√(C n)."""
    tail = np.full(problem.size, 1.0 / constraints.root)
    scores = np.full(problem.size, -1.0 / problem.radius)
    return Primal(Slack.join(constraints.base.zeros(), tail), scores)
