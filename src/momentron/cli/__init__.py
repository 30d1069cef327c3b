"""The command line: `momentron fit | check | verify | race | reproduce`."""

import sys
import warnings
from typing import Any

import typer

from momentron.cli import check, fit, race, reproduce, verify
from momentron.cli.output import complain
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

BAD_INPUT = 2
INTERRUPTED = 130
# click's own, wherever this version of typer has it from
USAGE_ERROR: Any = typer.BadParameter.__mro__[2]


def main(args: list[str] | None = None) -> None:
    """Run the command line."""
    run(app, args)


def run(app: typer.Typer, args: list[str] | None = None) -> None:
    """Run some commands; bad input gives one line on standard error and exit code 2."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning  # one line, like errors
        try:
            sys.exit(app(args=args, standalone_mode=False))
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
