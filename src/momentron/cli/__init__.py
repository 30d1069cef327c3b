"""The command line: `momentron fit | predict | check | verify | race | report | info`."""

import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer

from momentron.cli import check, fit, info, predict, race, report, verify
from momentron.cli.examples import EXAMPLES, OVERVIEW, epilog
from momentron.cli.output import complain, say
from momentron.cli.streams import fill_closed_descriptors, guarded_streams
from momentron.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # names and labels in brackets are not markup
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: tuple[Callable[..., None], ...] = (
    fit.fit,
    predict.predict,
    check.check,
    verify.verify,
    race.race,
    report.report,
    info.info,
)
for command in COMMANDS:
    app.command(epilog=epilog(EXAMPLES[command.__name__]))(command)

BAD_INPUT = 2
INTERRUPTED = 130
# click's own, wherever this version of typer has it from
USAGE_ERROR: Any = typer.BadParameter.__mro__[2]


def _print_version(asked: bool) -> None:
    if asked:
        say(f"momentron {version('momentron')}")
        raise typer.Exit


@app.callback(epilog=epilog(OVERVIEW))
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """Certified maximum-margin classification: a margin, and a proof of how good it is.

    Each command has examples of its own: momentron COMMAND --help
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line."""
    fill_closed_descriptors()
    run(app, args)


def run(app: typer.Typer, args: list[str] | None = None) -> None:
    """Run some commands; bad input gives one line on standard error and exit code 2."""
    with guarded_streams(), warnings.catch_warnings():
        warnings.showwarning = _show_warning  # one line, like errors
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
            sys.exit(INTERRUPTED)
        except (ValueError, OSError, ImportError, MemoryError) as error:
            # scikit-learn and numpy raise plain ValueErrors on bad arrays; ours are InputErrors
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            complain(f"{kind}{str(error).strip() or 'no more is known'}")
        sys.exit(BAD_INPUT)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    complain(f"warning: {message}")
