"""`momentron race`: several methods side by side for the same number of passes."""

from pathlib import Path
from typing import Annotated

import typer

from momentron.api import max_margin
from momentron.cli.data import (
    PLAIN,
    ClassesOption,
    DataArgument,
    TargetOption,
    load_data,
    with_table_options,
)
from momentron.cli.methods import named_solver
from momentron.cli.output import say, try_to_write
from momentron.cli.progress import Progress
from momentron.data.files import TableOptions
from momentron.estimators.racing import DEFAULT_METHODS
from momentron.estimators.racing import race as run_race
from momentron.views.display.race import draw_race
from momentron.views.display.style import picture_of, require_picture


@with_table_options("weight", "failures")
def race(
    data: DataArgument = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    table: TableOptions = PLAIN,
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
    loaded = load_data(data, target, classes, table)
    with Progress("the best margin", max_time=60.0):
        best = max_margin(loaded.X, loaded.y, fit_intercept=intercept, max_time=60.0)
    with Progress("racing") as progress:
        found = run_race(
            loaded.X,
            loaded.y,
            solvers,
            passes=passes,
            fit_intercept=intercept,
            best=best,
            watch=progress.update,
        )
    failure = None
    if plot is not None:
        picture = picture_of(plot, draw_race(found.traces, best, title=loaded.title))
        failure = try_to_write(plot, picture)
    say(f"{loaded.title}: margins after so many passes over the data")
    for line in str(found).splitlines():
        say(line)
    say(f"best margin in [{best.lower:.9g}, {best.upper:.9g}]")
    say(str(best.status))
    if failure is not None:
        raise failure
    if plot is not None:
        say(f"drawn: {plot}")
