"""`momentron report`: one page about a data set."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from momentron.cli.check import EXIT_CODES
from momentron.cli.inputs import Source, load_data, reads_data
from momentron.cli.output import answer, progress, say
from momentron.cli.report_page import examine, render
from momentron.data.safefiles import require_writable
from momentron.views.display.style import require


@reads_data("formula", "weight", "failures")
def report(
    source: Source,
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the page to this file.")] = Path(
        "report.html"
    ),
    intercept: Annotated[bool, typer.Option(help="Allow an intercept.")] = True,
    max_time: Annotated[
        float | None, typer.Option(help="Time budget in seconds for each step.")
    ] = None,
) -> None:
    """Write a report: one HTML page with the verdict, its proof, pictures, and how to repeat it.

    The page needs no network and no scripts; drawing it needs the extra plot (matplotlib). Exit
    codes are those of `momentron check`.
    """
    require_writable(out)
    require()
    loaded = load_data(source)
    design = loaded.design
    words = [*source.words(), *([] if intercept else ["--no-intercept"])]
    with progress("reading") as watch:
        findings = examine(
            design.X,
            design.y,
            title=loaded.title,
            feature_names=design.feature_names,
            fit_intercept=intercept,
            max_time=max_time,
            watch=watch,
        )
        options = "".join(f" {shlex.quote(word)}" for word in words)
        page = render(findings, source=source.data or "digits", options=options)
    verdict = findings.verdict

    def show() -> None:
        say(
            f"{loaded.title}: {verdict.sentence}",
            f"best margin     in [{verdict.lower:.12g}, {verdict.upper:.12g}]",
        )

    answer(show, out, page, word="written")
    raise typer.Exit(EXIT_CODES[verdict.kind])
