"""The engine of working sets: phase after phase, and what the search has found so far."""

import numpy as np

from momentron.solvers.auto.engine import Engine
from momentron.solvers.auto.phases import End, Phase, Reason, Search
from momentron.solvers.auto.rational_optimum import after_floats
from momentron.solvers.base import Candidates, Primal
from momentron.solvers.problem import Problem


class Rounds(Engine):
    """A search and its present phase."""

    def __init__(self, problem: Problem, search: Search, phase: Phase) -> None:
        self.problem, self.search, self.phase = problem, search, phase
        self.deadline = search.sets.deadline
        self.rounds = 0

    def advance(self) -> None:
        self.rounds += not self.phase.is_step
        try:
            self.phase = self.phase.advance(self.search)
        except (FloatingPointError, OverflowError, np.linalg.LinAlgError):
            self.phase = End(Reason.BROKEN)
        if self.phase.is_end:
            self.phase = after_floats(self.search, self.phase)
        if self.phase.reason in (Reason.MEMORY, Reason.ROOM):
            self.deadline.has_refused = True
        self.is_done = self.phase.is_end or self.rounds >= self.search.settings.rounds

    def candidates(self) -> Candidates:
        answer, problem = self.search.answer, self.problem
        w, scores = answer.w, problem.labels.scores(answer.products)
        if problem.is_soft:
            slack = answer.lam / (problem.penalty.stiffness * problem.penalty.shares)
            w, scores = problem.with_slack(w, slack), scores - slack
        scores = scores / problem.radius
        return Candidates([Primal(w, scores)], answer.lam, answer.upper / problem.radius)
