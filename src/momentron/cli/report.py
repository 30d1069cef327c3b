"""`momentron report`: one page about a data set."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from momentron.cli.check import EXIT_CODES
from momentron.cli.data import (
    PLAIN,
    ClassesOption,
    DataArgument,
    TargetOption,
    load_data,
    with_table_options,
)
from momentron.cli.output import say, try_to_write
from momentron.cli.progress import Progress
from momentron.cli.report_page import examine, render
from momentron.data.files import TableOptions
from momentron.data.safefiles import require_writable


@with_table_options("weight", "failures")
def report(
    data: DataArgument = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    table: TableOptions = PLAIN,
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the page to this file.")] = Path(
        "report.html"
    ),
    intercept: Annotated[bool, typer.Option(help="Allow an intercept.")] = True,
    max_time: Annotated[
        float | None, typer.Option(help="Time budget in seconds for each step.")
    ] = None,
) -> None:
    """Write a report: one HTML page with the verdict, its proof, pictures, and how to repeat it.

    The page needs no network and no scripts. Exit codes are those of `momentron check`.
    """
    require_writable(out)
    loaded = load_data(data, target, classes, table)
    with Progress("reading", max_time=None) as progress:
        findings = examine(
            loaded.X,
            loaded.y,
            title=loaded.title,
            feature_names=loaded.feature_names,
            fit_intercept=intercept,
            max_time=max_time,
            watch=lambda words, share: progress.update(words, share),
        )
        page = render(
            findings,
            source=data or "digits",
            options=_repeated(target, classes, table, intercept=intercept),
        )
    verdict = findings.verdict
    failure = try_to_write(out, page)
    say(
        f"{loaded.title}: {verdict.sentence}",
        f"best margin     in [{verdict.lower:.12g}, {verdict.upper:.12g}]",
    )
    if failure is not None:
        raise failure
    say(f"written         {out}")
    raise typer.Exit(EXIT_CODES[verdict.kind])


def _repeated(
    target: str | None, classes: tuple[str, str] | None, table: TableOptions, *, intercept: bool
) -> str:
    """The options of this run, as the shell takes them."""
    words = []
    if target is not None:
        words += ["--target", target]
    if classes is not None:
        words += ["--classes", *classes]
    for name in ("columns", "drop", "na"):
        for value in getattr(table, name) or ():
            words += [f"--{name}", str(value)]
    for name in ("delimiter", "decimal"):
        if getattr(table, name) is not None:
            words += [f"--{name}", getattr(table, name).replace("\t", "tab")]
    words += ["--drop-na"] * table.drop_na + ["--dummies"] * table.dummies
    if not intercept:
        words.append("--no-intercept")
    return "".join(f" {shlex.quote(word)}" for word in words)
