"""The command line: `momentron fit | check | verify | race | reproduce | bench`."""

import sys

import typer
from rich.console import Console

from momentron.cli import bench, check, fit, race, reproduce, verify
from momentron.errors import InputError

app = typer.Typer(
    help="Certified maximum-margin classification.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(fit.fit)
app.command()(check.check)
app.command()(verify.verify)
app.command()(race.race)
app.command()(reproduce.reproduce)
app.command()(bench.bench)

BAD_INPUT = 2


def main(args: list[str] | None = None) -> None:
    """Run the command line; bad input gives one line on standard error and exit code 2."""
    try:
        app(args=args)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        # scikit-learn and numpy raise plain ValueErrors on bad arrays; ours are InputErrors
        lines = str(error).strip().splitlines() or [type(error).__name__]
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        Console(stderr=True, soft_wrap=True).print(
            f"momentron: {kind}{lines[0]}", markup=False, highlight=False
        )
        sys.exit(BAD_INPUT)
