"""`momentron race`: several methods side by side for the same number of passes."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from momentron.api import max_margin
from momentron.cli.data import ClassesOption, DataArgument, TargetOption, load_data
from momentron.cli.methods import named_solver
from momentron.cli.output import say, write_after_answer
from momentron.cli.progress import Progress
from momentron.display.race import draw_race
from momentron.display.style import picture_of, require_picture
from momentron.result import MarginResult
from momentron.solvers import Solver
from momentron.trace import Row, Trace

DEFAULT_METHODS = [
    "momentum",
    "batch-perceptron",
    "normalized-perceptron",
    "normalized-gradient",
    "normalized-gradient-root",
    "gradient-descent",
]


def race(
    data: DataArgument = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method", help="A method to run, or module:Class of a solver; repeat for more."
        ),
    ] = None,
    passes: Annotated[int, typer.Option(min=2, help="Passes over the data for each.")] = 1000,
    intercept: Annotated[bool, typer.Option(help="Fit an unpenalised intercept.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw the race into this picture.")] = None,
) -> None:
    """Run several methods for the same number of passes and compare their margins."""
    solvers = {name: named_solver(name) for name in methods or DEFAULT_METHODS}
    if plot is not None:
        require_picture(plot)
    loaded = load_data(data, target, classes)
    console = Console()
    traces: dict[str, Trace] = {}
    with Progress("racing") as progress:
        for number, (name, solver) in enumerate(solvers.items()):

            def watch(row: Row, name: str = name, number: int = number) -> None:
                share = (number + min(row.passes / passes, 1.0)) / len(solvers)
                progress.update(name, share)

            found = run_for_passes(loaded.X, loaded.y, solver, passes, intercept, watch)
            traces[name] = found.trace
    with Progress("the best margin", max_time=60.0):
        best = max_margin(loaded.X, loaded.y, fit_intercept=intercept, max_time=60.0)
    say(f"{loaded.title}: margins against passes over the data")
    console.print(margin_table(traces, passes))
    say(f"best margin in [{best.lower:.9g}, {best.upper:.9g}] ({best.status})")
    if plot is not None:
        write_after_answer(plot, picture_of(plot, draw_race(traces, best, title=loaded.title)))
        say(f"drawn: {plot}")


def run_for_passes(
    X: object,
    y: object,
    method: str | Solver,
    passes: int,
    fit_intercept: bool,
    watch: Callable[[Row], None] = lambda row: None,
) -> MarginResult:
    """Run a method until it has spent its passes; `watch` is told of each iteration."""

    def spent(row: Row) -> bool:
        watch(row)
        return row.passes >= passes

    return max_margin(
        X, y, method=method, fit_intercept=fit_intercept, tol=0.0, max_iter=passes, callback=spent
    )


def margin_table(traces: dict[str, Trace], passes: int) -> Table:
    """Rows are methods, columns are passes 10, 30, 100, … and the last."""
    marks = [m for m in (10, 30, 100, 300, 1000, 3000, 10_000, 30_000) if m < passes] + [passes]
    table = Table("method", *[f"{m} passes" for m in marks])
    for name, trace in traces.items():
        spent, margins = trace["passes"], trace["margin"]
        cells = [margins[max(0, int(np.searchsorted(spent, m, side="right")) - 1)] for m in marks]
        table.add_row(name, *[f"{cell:.6g}" for cell in cells])
    return table
