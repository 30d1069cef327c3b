"""`python -m benchmarks.suite`: momentron against its peers, each in its own process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from momentron.cli import run
from momentron.data.safefiles import require_writable, write_atomically
from momentron.errors import InputError
from momentron.views.display.style import picture_of, require_picture

Named = TypeVar("Named")


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Small problems, two rounds, short limits.")
    ] = False,
    problems: Annotated[
        list[str] | None, typer.Option("--problem", help="A problem to run; repeat for more.")
    ] = None,
    solvers: Annotated[
        list[str] | None,
        typer.Option("--solver", help="A solver to compare with momentron; repeat for more."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Runs of each solver; the best counts.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the time ratios here.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write every number here.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Keep each row here when it is done; rows that are there are not run."),
    ] = None,
    growth: Annotated[
        bool, typer.Option("--growth", help="How time and memory grow, instead of the suite.")
    ] = False,
    before: Annotated[
        Path | None, typer.Option(help="Another checkout of momentron, for --growth.")
    ] = None,
    list_names: Annotated[
        bool, typer.Option("--list", help="List the problems and the solvers.")
    ] = False,
) -> None:
    """Time momentron to a certified gap of 1e-6 against its peers, and score every answer.

    Needs the extra `bench` for all peers; those not installed are left out, with a word.
    """
    from dataclasses import replace

    from benchmarks.suite import suite_report
    from benchmarks.suite.growth import draw, run_growth
    from benchmarks.suite.problems import PROBLEMS
    from benchmarks.suite.saved import append_result, read_results
    from benchmarks.suite.solvers import SOLVERS
    from benchmarks.suite.turns import FULL, QUICK, run_suite

    default = [p.name for p in PROBLEMS.values() if p.quick or not quick]
    chosen_problems = _choose("--problem", problems or default, PROBLEMS)
    chosen_solvers = _choose("--solver", solvers or list(SOLVERS), SOLVERS)
    if plot is not None:
        require_picture(plot)
    for path in (json, resume):
        if path is not None:
            require_writable(path)
    if list_names:
        print(_listing(PROBLEMS, SOLVERS))
        return
    if growth:
        peers = chosen_solvers if solvers else ()
        growths = run_growth(peers=peers, before=before, quick=quick)
        if plot is not None:
            write_atomically(plot, picture_of(plot, draw(growths)))
        return
    limits = QUICK if quick else FULL
    if rounds is not None:
        limits = replace(limits, rounds=rounds)
    results = run_suite(
        chosen_problems,
        chosen_solvers,
        limits=limits,
        say=_progress,
        done=read_results(resume) if resume else {},
        keep=(lambda result: append_result(resume, result)) if resume else None,
    )
    if not results:
        raise InputError("no problem could be loaded; see the reasons above")
    print(suite_report.format_table(results))
    print()
    print(suite_report.format_summary(suite_report.summarise(results)))
    if json is not None:
        write_atomically(json, suite_report.as_json(results))
    if plot is not None:
        write_atomically(plot, picture_of(plot, suite_report.draw(results)))


def _progress(line: str) -> None:
    typer.echo(line, err=True)


def _choose(option: str, names: Sequence[str], known: Mapping[str, Named]) -> list[Named]:
    for name in names:
        if name not in known:
            raise InputError(f"{option} {name!r} is not known; choose from {list(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def _listing(problems: Mapping[str, object], solvers: Mapping[str, object]) -> str:
    lines = ["problems"]
    for name, problem in problems.items():
        quick = ", quick" if getattr(problem, "quick", False) else ""
        intercept = ", intercept" if getattr(problem, "fit_intercept", False) else ""
        lines.append(f"  {name:<22} {getattr(problem, 'kind', '')}{intercept}{quick}")
    return "\n".join([*lines, "solvers", *(f"  {name}" for name in solvers)])


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command()(bench)
    run(app)
