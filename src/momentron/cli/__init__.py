"""The command line: `momentron fit | predict | check | verify | race | report | info`."""

import sys
import warnings
from collections.abc import Iterable
from importlib.metadata import version
from typing import Annotated, Any

import typer

from momentron.cli import commands
from momentron.cli.output import complain, fill_closed_descriptors, guarded_streams, say
from momentron.errors import InputError

COMMANDS = {  # the examples with which the help of each ends
    "fit": (
        "momentron fit patients.csv --target outcome",
        "momentron fit digits --kernel rbf -C 10 --save model.npz",
        "momentron fit large.npy --out-of-core --memory 2GB --checkpoint state",
    ),
    "predict": (
        "momentron predict model.npz new.csv -o labels.csv",
        "momentron predict model.npz new.csv --decision",
    ),
    "check": (
        "momentron check patients.csv --target outcome --features",
        "momentron check patients.csv --target outcome --proof proof.json",
    ),
    "verify": ("momentron verify proof.json patients.csv --target outcome",),
    "race": (
        "momentron race digits --passes 500 --plot race.png",
        "momentron race iris --method momentum --method batch-perceptron",
    ),
    "report": (
        "momentron report patients.csv --target outcome -o report.html",
        "momentron report digits --classes 3 8",
    ),
    "info": ("momentron info --json",),
}
SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,  # names and labels in brackets are not markup
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
# click's own, wherever this version of typer has it from
USAGE_ERROR: Any = typer.BadParameter.__mro__[2]


def _epilog(lines: Iterable[str]) -> str:
    """The end of a help text; the mark keeps its lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


app = typer.Typer(no_args_is_help=True, **SETTINGS)
for name, examples in COMMANDS.items():
    app.command(name, epilog=_epilog(examples))(getattr(commands, name))


def load_command(name: str) -> Any:
    """A command with its options."""
    group: Any = typer.main.get_command(app)
    return group.commands[name]


def _print_version(asked: bool) -> None:
    if asked:
        say(f"momentron {version('momentron')}")
        raise typer.Exit


@app.callback(epilog=_epilog(COMMANDS[name][0] for name in ("fit", "check", "report")))
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Certified maximum-margin classification: a margin, and a proof of how good it is.

    Each command has its own examples: momentron COMMAND --help
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line."""
    fill_closed_descriptors()
    run(app, args)


def run(app: typer.Typer, args: list[str] | None = None) -> None:
    """Run some commands; bad input gives one line on standard error and exit code 2."""
    with guarded_streams(), warnings.catch_warnings():
        # one line, like errors
        warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
        try:
            code = app(args=args, standalone_mode=False)
            sys.stdout.flush()  # a full disk is noticed here
            sys.exit(code)
        except USAGE_ERROR as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()  # the help itself
            else:
                complain(f"{error.format_message().rstrip('.')}; see --help")
        except typer.Abort:
            complain("interrupted")
            sys.exit(130)
        except (ValueError, OSError, ImportError, MemoryError) as error:
            # scikit-learn and numpy raise plain ValueErrors on bad arrays; ours are InputErrors
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            complain(f"{kind}{str(error).strip() or 'no details are known'}")
        sys.exit(2)
