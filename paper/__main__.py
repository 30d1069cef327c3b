"""`python -m paper fig1`: the paper's figures, and its claims about them, measured."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from momentron.cli import run as run_commands
from momentron.cli.output import cell, say
from momentron.errors import InputError
from momentron.views.progress import as_progress
from paper import FIGURES, Figure, Reproduction
from paper import reproduce as measure
from paper.judge import measured_words

INTERRUPTED = 130
EVERYTHING = "all"
FEW = 10  # parts that are worth their names


def reproduce(
    figure: Annotated[str, typer.Argument(help="fig1, fig2, fig3, fig4, rates, paths or all.")],
    out: Annotated[
        Path, typer.Option(help="Write to a folder of the figure's name in this one.")
    ] = Path("figures"),
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Fewer rows and iterations, below a minute each; theorems alone are judged.",
        ),
    ] = False,
    max_time: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Begin no further part after this many seconds; fig4 is shown as far as it is.",
        ),
    ] = None,
) -> None:
    """Draw a figure of the paper from new measurements, and judge the paper's claims about it.

    Two further ones answer questions that the paper leaves open: `rates` measures how fast
    Algorithm 2 with momentum reaches the best margin, `paths` compares Algorithm 1 with the soft
    margin on data that nothing separates.

    Writes the picture (PNG, SVG), the curves (CSV), a page and claims.json. Each curve is saved
    when finished: after an interrupt the same command goes on from there; delete the folder to
    start again. The data are read from the folder MOMENTRON_DATA or the cache, or downloaded. Needs
    the extra `plot`.
    """
    names = list(FIGURES) if figure == EVERYTHING else [figure]
    if figure != EVERYTHING and figure not in FIGURES:
        known = ", ".join(FIGURES)
        raise InputError(f"figure {figure!r} is not known; choose one of {known}, {EVERYTHING}")
    console = Console(highlight=False)
    failures = []
    for name in names:
        try:
            results = run(name, FIGURES[name](quick), out, max_time)
            print_results(console, name, results)
        except InputError as error:
            # one figure's data may be missing where another's are at hand
            failures.append(f"{name}: {error}")
        except KeyboardInterrupt:
            say(f"{name}: interrupted; the same command goes on from here")
            raise typer.Exit(INTERRUPTED) from None
    if failures:
        raise InputError("; ".join(failures))


def run(name: str, figure: Figure, out: Path, max_time: float | None) -> Reproduction:
    """Measure one figure, with a line of progress."""
    tell = as_progress(True, name)
    return measure(figure, out, watch=lambda part, share: tell(share), max_time=max_time)


def print_results(console: Console, name: str, results: Reproduction) -> None:
    """The claims with their numbers, and where everything is."""
    table = Table("claim", "measured", "confirmed", title=name, title_justify="left")
    for claim in results.claims:
        plain = claim.to_dict()
        words = measured_words(plain["measured"])
        table.add_row(
            cell(plain["claim"]),
            cell(words),
            "NO" if claim.verdict == "no" else claim.verdict,
            end_section=True,
        )
    console.print(table)
    names = results.resumed if len(results.resumed) <= FEW else [f"{len(results.resumed)} parts"]
    earlier = f", of which earlier: {', '.join(names)}" if names else ""
    say(f"{results.seconds:.1f} s of work{earlier}", f"written to {results.folder}")


def main(args: list[str] | None = None) -> None:
    """Run the command."""
    app = typer.Typer(
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command()(reproduce)
    run_commands(app, args)


if __name__ == "__main__":
    main()
