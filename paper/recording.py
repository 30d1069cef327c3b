"""Curves: a method is run by the only loop there is, and looked at while it runs."""

import math
from collections.abc import Callable, Collection
from dataclasses import asdict
from inspect import get_annotations
from typing import Any

import numpy as np

from momentron.certificate import Certificate
from momentron.clock import Stopwatch
from momentron.problem import Problem
from momentron.solve import Budget, solve
from momentron.solvers.base import DEFAULTS, Candidates, RunOptions, Solver
from momentron.status import Status
from momentron.trace import Row
from paper.figure import Report

Extras = Callable[[Candidates], dict[str, float]]
"""Further columns, from what the method proposes at an iteration."""


def record(
    pose: Callable[[], Problem],
    solver: Solver,
    iterations: int,
    report: Report,
    *,
    extras: Extras | None = None,
    marks: Collection[int] | None = None,
    random_state: int | None = None,
) -> dict[str, np.ndarray]:
    """Run a method for so many iterations, and return its trace as columns.

    Parameters
    ----------
    pose : callable
        Makes the problem from the data; on the clock, as for `max_margin`.
    solver : Solver
    iterations : int
    report : callable
    extras : callable, optional
        Computes further columns; off the clock.
    marks : collection of int, optional
        The iterations to keep; all where None.
    random_state : int, optional
        The seed of methods that draw.
    """
    watched, rows = Watched(solver), []
    wanted = None if marks is None else frozenset(marks)

    def keep(row: Row) -> None:
        if wanted is None or row.iteration in wanted:
            further = extras(watched.proposal) if extras and watched.proposal else {}
            rows.append(asdict(row) | further)
        report(row.iteration / iterations)

    stopwatch, budget = Stopwatch(), Budget(0.0, iterations)
    outcome = solve(
        pose(),
        watched,
        budget,
        random_state=random_state,
        callback=keep,
        stopwatch=stopwatch,
        certifier=claim_nothing,
    )
    require_end(outcome.status)
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    if not columns["evaluations"].any():  # there is no kernel
        del columns["evaluations"]
    return columns


def claim_nothing(w: np.ndarray, q: np.ndarray, *, sharp: bool = False) -> Certificate:
    """In place of the certificate of the last pair, which a curve has no use for.

    With a kernel it would cost a column for each row that was ever drawn.
    """
    return Certificate(lower=0.0, upper=math.inf, margin=-math.inf)


def require_end(status: Status) -> None:
    """Raise an interrupt again that the loop has turned into a result: half a curve is none."""
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt


class Watched(Solver):
    """A method whose latest proposal can be looked at; to the loop it is the method itself."""

    def __init__(self, solver: Solver) -> None:
        vars(self).update({trait: getattr(solver, trait) for trait in get_annotations(Solver)})
        self._solver = solver
        self.proposal: Candidates | None = None

    def init(self, problem: Problem, options: RunOptions = DEFAULTS) -> Any:
        return self._solver.init(problem, options)

    def vanishing(self, tol: float) -> float:
        return self._solver.vanishing(tol)

    def step(self, problem: Problem, state: Any) -> None:
        self._solver.step(problem, state)

    def candidates(self, problem: Problem, state: Any) -> Candidates:
        self.proposal = self._solver.candidates(problem, state)
        return self.proposal


def log_spaced(last: int, per_decade: int = 100) -> list[int]:
    """Whole numbers from 1 to `last`, all of the first and evenly spaced on a log axis after.

    >>> log_spaced(20, per_decade=5)
    [1, 2, 3, 4, 6, 10, 16, 20]
    """
    count = int(per_decade * math.log10(last)) + 1
    exponents = np.arange(count) / per_decade
    return sorted({*np.rint(10.0**exponents).astype(int).tolist(), last})
