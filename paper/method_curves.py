"""Curves: a method is run by the only loop there is, recorded while it runs, and drawn."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from inspect import get_annotations
from typing import Any

import numpy as np

from momentron.arithmetic.clock import TimeLimit
from momentron.certificate import Certificate
from momentron.solvers import as_solver
from momentron.solvers.loop import solve
from momentron.solvers.problem import Problem
from momentron.solvers.solver import DEFAULTS, Candidates, RunOptions, Solver
from momentron.views.display.style import BLUE, GREEN, PURPLE, VERMILLION, saved_figure
from momentron.views.trace import Row
from paper.data import Sample, require_end
from paper.runner import Measured, Part, Report

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
    """Run a method for a number of iterations, and return its trace as columns.

    `pose` makes the problem from the data, on the clock, as for `max_margin`; `extras` computes
    further columns, off the clock. Only the iterations in `marks` are kept; None: all of them.
    """
    watched, rows = Watched(solver), []
    wanted = None if marks is None else frozenset(marks)

    def keep(row: Row) -> None:
        if wanted is None or row.iteration in wanted:
            further = extras(watched.proposal) if extras and watched.proposal else {}
            rows.append(asdict(row) | further)
        report(row.iteration / iterations)

    budget = RunOptions(0.0, iterations, random_state=random_state)
    problem = pose()
    problem.certify = claim_nothing  # type: ignore[method-assign]
    outcome = solve(problem, watched, budget, callback=keep, limit=TimeLimit())
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


class Watched(Solver):
    """A method whose latest proposal can be looked at; to the loop it is the method itself."""

    def __init__(self, solver: Solver) -> None:
        vars(self).update({trait: getattr(solver, trait) for trait in get_annotations(Solver)})
        self._solver = solver
        self.proposal: Candidates | None = None

    def init(self, problem: Problem, options: RunOptions = DEFAULTS) -> Any:
        return self._solver.init(problem, options)

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


@dataclass(frozen=True)
class Method:
    """A method of the registry: its label, its passes per iteration, colour and line.

    The colours are Okabe and Ito's, which colour-blind readers can tell apart.
    """

    name: str
    label: str
    passes: int
    colour: str
    line: str = "-"


MOMENTUM = Method("momentum", "momentum (Algorithm 1)", 2, VERMILLION)
PERCEPTRON = Method("batch-perceptron", "batch perceptron", 1, BLUE)
NORMALIZED = Method("normalized-gradient", "normalised gradient, θ = 1", 2, GREEN)
NORMALIZED_ROOT = Method(
    "normalized-gradient-root", "normalised gradient, θ = 1/√t", 2, GREEN, "--"
)
DESCENT = Method("gradient-descent", "gradient descent", 2, PURPLE)

METHODS = (MOMENTUM, PERCEPTRON, NORMALIZED, NORMALIZED_ROOT, DESCENT)


def errors_of(method: Method, test_error: Callable[[np.ndarray], float]) -> Extras:
    """The test error of what a method proposes; of the batch perceptron, its last iterate's too."""

    def errors(proposal: Candidates) -> dict[str, float]:
        found = {"test_error": test_error(proposal.primals[0].w)}
        if method is PERCEPTRON:
            found["last_test_error"] = test_error(proposal.primals[1].w)
        return found

    return errors


def method_part(
    method: Method,
    sample: Sample,
    iterations: int,
    *,
    extras: Extras | None = None,
    per_decade: int | None = None,
) -> Part:
    """The curve of one method; `per_decade` thins it to this many iterations per decade."""

    def measure(report: Report) -> Measured:
        marks = None if per_decade is None else log_spaced(iterations, per_decade)
        solver, pose = as_solver(method.name), sample.problem
        return Measured(record(pose, solver, iterations, report, extras=extras, marks=marks))

    parameters = {
        "method": method.name,
        "iterations": iterations,
        "per_decade": per_decade,
        "extras": extras is not None,
    }
    return Part(method.name, parameters, float(iterations * method.passes), measure)


def row_of_panels(title: str, count: int = 2) -> tuple[Any, Any]:
    """A figure with panels side by side, and room below for the legend."""
    figure, panels = saved_figure(1, count, size=(4.6 * count, 4.3))
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure, panels


def draw_curve(
    axes: Any, columns: Mapping[str, np.ndarray], x: str, y: str, method: Method
) -> None:
    """One method's line; momentum's, which the paper is about, above the others."""
    kept = thin(columns["iteration"])
    above = method.name == "momentum"
    axes.plot(
        columns[x][kept],
        columns[y][kept],
        color=method.colour,
        linestyle=method.line,
        linewidth=2.2 if above else 1.7,
        zorder=4 if above else 3,
        label=method.label,
    )


def thin(iterations: np.ndarray, per_decade: int = 150) -> np.ndarray:
    """The positions of rows that are enough for a smooth line on a log axis."""
    return np.flatnonzero(np.isin(iterations, log_spaced(int(iterations[-1]), per_decade)))


def shared_legend(figure: Any, panels: Any, *, columns: int = 3) -> None:
    """One legend for all panels, below them; each label once."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)
