"""`momentron race`: several methods side by side for the same number of passes."""

from functools import partial
from pathlib import Path

from momentron.cli.commands import Source
from momentron.cli.inputs import load_data, named_solver
from momentron.cli.output import answer, progress, say
from momentron.estimators.racing import DEFAULT_METHODS
from momentron.estimators.racing import race as run_race
from momentron.views.display.style import picture_of, require_picture, saved_figure


def race(
    source: Source, methods: list[str] | None, passes: int, intercept: bool, plot: Path | None
) -> None:
    """Run the methods, and print how far each came."""
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
