"""The engine of hard margins: rank the rows, solve a working set, look at all, repeat; refine."""

import math

import numpy as np

from momentron.problem import Problem
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.engine import Engine
from momentron.solvers.auto.phases import End, Phase, Reason, Search
from momentron.solvers.auto.rank import first_phase, first_working_set
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.solving import SolveByNewton, SolveByPivots
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import Candidates, Primal, Start


class Rounds(Engine):
    """A search and its present phase."""

    def __init__(
        self,
        problem: Problem,
        tol: float,
        deadline: Deadline,
        settings: AutoSettings,
        start: Start | None = None,
    ) -> None:
        self.problem, self.deadline = problem, deadline
        self.sets = WorkingSets(problem, problem.constraints, deadline, settings)
        self.search = Search.of(self.sets, tol, first_working_set(self.sets))
        self.phase = (start and _warm_phase(self.search, start)) or first_phase(self.search)
        self.rounds = 0

    def advance(self) -> None:
        self.rounds += 1
        self.phase = self.phase.advance(self.search)
        if self.rounds >= self.sets.settings.rounds and not self.phase.is_end:
            self.phase = End(Reason.ROUNDS)
        self.is_done = self.phase.is_end

    def candidates(self) -> Candidates:
        answer, radius = self.search.answer, self.problem.radius
        scores = self.sets.labels.scores(answer.products) / radius
        return Candidates([Primal(answer.w, scores)], answer.lam, answer.upper / radius)


def _warm_phase(search: Search, start: Start) -> Phase | None:
    """The phase that begins from a start, whose classifier and weights rank the rows."""
    settings = search.settings
    weights = np.zeros(search.size)
    weights[: start.q.size] = start.q
    upper = search.sets.upper(weights)
    if not (np.any(start.w) and 0.0 < upper < math.inf):
        return None
    # w = Σ λ_i a_i has functional margin 1 where λ = q/γ²
    search.look(start.w, start.b, weights / upper**2, is_exact=False)
    support = np.flatnonzero(search.answer.lam)
    if not search.has_all:
        search.W = search.smallest(max(settings.small, 2 * support.size), support)
    if SolveByPivots.suits(search):
        return SolveByPivots(settings.first_C)
    return SolveByNewton(settings.first_C)
