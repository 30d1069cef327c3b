"""`race`: several methods on the same data for the same number of passes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.api import max_margin
from momentron.data.arguments import as_count
from momentron.errors import InputError, one_line, short
from momentron.result import MarginResult
from momentron.solvers import Solver, as_solver
from momentron.status import Status
from momentron.views.display import RaceDisplay
from momentron.views.trace import Trace

DEFAULT_METHODS = (
    "momentum",
    "simplex-fista",
    "batch-perceptron",
    "normalized-perceptron",
    "normalized-gradient",
    "normalized-gradient-root",
    "gradient-descent",
)
MARKS = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000)
WIDTH, LONGEST_NAME, CELL = 80, 30, 11  # columns of a table, and of its parts


@dataclass(frozen=True)
class Race:
    """What `race` returns: printed, a table of margins; `plot` draws it.

    Attributes
    ----------
    results : dict of str to MarginResult
        By the names of the methods.
    best : MarginResult
        The certified optimum.
    passes : int
    """

    results: dict[str, MarginResult]
    best: MarginResult
    passes: int

    @property
    def traces(self) -> dict[str, Trace]:
        """The history of each method."""
        return {name: result.trace for name, result in self.results.items()}

    def margins(self, passes: int) -> dict[str, float]:
        """The margin of each method's iterate after a number of passes, or after its first step.

        NaN where `max_time` ended a method before that.
        """
        found = {}
        for name, result in self.results.items():
            done, margins = result.trace["passes"], result.trace["margin"]
            place = int(np.searchsorted(done, passes, side="right")) - 1
            is_cut = result.status is Status.TIME_BUDGET and done[-1] < passes
            found[name] = float("nan") if is_cut else float(margins[max(0, place)])
        return found

    def plot(self, ax: Any = None, **options: Any) -> RaceDisplay:
        """Margins against passes; needs the extra `plot` (matplotlib)."""
        return RaceDisplay(self.traces, self.best).plot(ax=ax, **options)

    def to_frame(self) -> Any:
        """All traces as one pandas frame, with the method as a column; needs pandas."""
        import pandas as pd

        frames = [trace.to_pandas().assign(method=name) for name, trace in self.traces.items()]
        return pd.concat(frames, ignore_index=True)

    def __str__(self) -> str:
        width = min(LONGEST_NAME, max(6, *map(len, self.results)))
        columns = (WIDTH - width) // CELL
        earlier = [mark for mark in MARKS if mark < self.passes]
        marks = [*earlier[-(columns - 1) :], self.passes]
        table = {mark: self.margins(mark) for mark in marks}
        lines = [f"{'passes':<{width}}" + "".join(f"{mark:>{CELL}}" for mark in marks)]
        for name in self.results:
            cells = "".join(f"{table[mark][name]:>{CELL}.4g}" for mark in marks)
            cells = cells.replace("nan", "  –")
            lines.append(f"{one_line(name, width):<{width}}{cells}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Race over {self.passes} passes, margins:\n{self}"


def race(
    X: Any,
    y: Any,
    methods: Mapping[str, str | Solver] | Iterable[str | Solver] | None = None,
    *,
    passes: int = 1000,
    fit_intercept: bool = True,
    best: MarginResult | None = None,
    max_time: float | None = 60.0,
    watch: Callable[[str, float], None] | None = None,
) -> Race:
    """Run several methods for the same number of passes over the data, and compare their margins.

    Parameters
    ----------
    X, y
        As in `max_margin`.
    methods : mapping of names to methods, or iterable of methods, optional
        Each as in `max_margin`: a name, or a solver. By default the methods of the paper's
        Figure 1, and FISTA on the dual.
    passes : int
        Passes over the data for each, at least 2.
    fit_intercept : bool
    best : MarginResult, optional
        The optimum, if you have it; else method="auto" finds it.
    max_time : float, optional
        Seconds for each method, and for the optimum; None: no limit. The status of a result says
        whether its method had time for all passes.
    watch : callable, optional
        Called with a method's name and the fraction of the race that is done.

    Returns
    -------
    Race

    Examples
    --------
    >>> from momentron.datasets import make_separable
    >>> data = make_separable(40, 5, random_state=0)
    >>> found = race(data.X, data.y, ["momentum", "gradient-descent"], passes=100)
    >>> margins = found.margins(100)
    >>> margins["momentum"] > margins["gradient-descent"]
    True
    """
    passes = as_count("passes", passes, 2)
    solvers = _named(DEFAULT_METHODS if methods is None else methods)
    results: dict[str, MarginResult] = {}
    for number, (name, solver) in enumerate(solvers.items()):

        def is_over(row: Any, name: str = name, number: int = number) -> bool:
            if watch is not None:
                watch(name, (number + min(row.passes / passes, 1.0)) / len(solvers))
            return bool(row.passes >= passes)

        results[name] = max_margin(
            X,
            y,
            method=solver,
            callback=is_over,
            tol=0.0,
            max_iter=passes,
            fit_intercept=fit_intercept,
            max_time=max_time,
        )
        if not len(results[name].trace):
            raise InputError(f"{name!r} did not finish an iteration: {results[name].status}")
    if best is None:
        best = max_margin(X, y, fit_intercept=fit_intercept, max_time=max_time)
    return Race(results, best, passes)


def _named(methods: Any) -> dict[str, Solver]:
    if isinstance(methods, str | Solver):
        methods = [methods]
    if not np.iterable(methods):
        raise InputError(f"methods={short(methods)} must be a list of methods, or a mapping")
    if not isinstance(methods, Mapping):
        listed = [as_solver(method) for method in methods]
        methods = {solver.name: solver for solver in listed}
        if len(methods) < len(listed):
            raise InputError("two methods have the same name; pass a mapping of names to methods")
    if not methods:
        raise InputError("methods is empty; name at least one")
    return {str(name): as_solver(method) for name, method in methods.items()}
