"""`momentron race`: several methods side by side for the same number of passes."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from momentron.cli.inputs import Source, load_data, named_solver, reads_data
from momentron.cli.output import answer, progress, say
from momentron.estimators.racing import DEFAULT_METHODS
from momentron.estimators.racing import race as run_race
from momentron.views.display.style import picture_of, require_picture, saved_figure


@reads_data("formula", "weight", "failures")
def race(
    source: Source,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method", help="A method to run, or module:Class of a solver; repeat for more."
        ),
    ] = None,
    passes: Annotated[int, typer.Option(min=2, help="Passes over the data for each.")] = 1000,
    intercept: Annotated[bool, "Fit an unpenalised intercept."] = True,
    plot: Annotated[Path | None, "Save a plot to this file."] = None,
) -> None:
    """Run several methods for the same number of passes and compare their margins."""
    solvers = {name: named_solver(name) for name in methods or DEFAULT_METHODS}
    if plot is not None:
        require_picture(plot)
    data = load_data(source)
    with progress("racing") as watch:
        found = run_race(
            data.X, data.y, solvers, passes=passes, fit_intercept=intercept, watch=watch
        )
    picture = b""
    if plot is not None:
        figure, axes = saved_figure(size=(7.0, 4.5))
        found.plot(axes, title=source.title)
        picture = picture_of(plot, figure)
    lines = [
        f"{source.title}: margins by the number of passes over the data",
        *str(found).splitlines(),
        f"best margin in [{found.best.lower:.9g}, {found.best.upper:.9g}]",
        str(found.best.status),
    ]
    answer(partial(say, *lines), plot, picture, word="drawn")
