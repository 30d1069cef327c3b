"""The command line: `momentron fit | predict | check | verify | race | report | info`."""

import sys
import warnings
from importlib.metadata import version
from typing import Annotated, Any

import typer

from momentron.cli import check, fit, info, predict, race, report, verify
from momentron.cli.output import complain, fill_closed_descriptors, guarded_streams, say
from momentron.errors import InputError

EXAMPLES = {  # that the help of each command ends with
    fit.fit: (
        "momentron fit patients.csv --target outcome",
        "momentron fit digits --kernel rbf -C 10 --save model.npz",
        "momentron fit large.npy --out-of-core --memory 2GB --checkpoint state",
    ),
    predict.predict: (
        "momentron predict model.npz new.csv -o labels.csv",
        "momentron predict model.npz new.csv --decision",
    ),
    check.check: (
        "momentron check patients.csv --target outcome --features",
        "momentron check patients.csv --target outcome --proof proof.json",
    ),
    verify.verify: ("momentron verify proof.json patients.csv --target outcome",),
    race.race: (
        "momentron race digits --passes 500 --plot race.png",
        "momentron race iris --method momentum --method batch-perceptron",
    ),
    report.report: (
        "momentron report patients.csv --target outcome -o report.html",
        "momentron report digits --classes 3 8",
    ),
    info.info: ("momentron info --json",),
}
OVERVIEW = [EXAMPLES[command][0] for command in (fit.fit, check.check, report.report)]
BAD_INPUT = 2
INTERRUPTED = 130
# click's own, wherever this version of typer has it from
USAGE_ERROR: Any = typer.BadParameter.__mro__[2]


def _epilog(lines: tuple[str, ...] | list[str]) -> str:
    """The end of a help text; the mark keeps its lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # names and labels in brackets are not markup
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command, lines in EXAMPLES.items():
    app.command(epilog=_epilog(lines))(command)


def _print_version(asked: bool) -> None:
    if asked:
        say(f"momentron {version('momentron')}")
        raise typer.Exit


@app.callback(epilog=_epilog(OVERVIEW))
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
            complain(f"{kind}{str(error).strip() or 'no details are known'}")
        sys.exit(BAD_INPUT)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    complain(f"warning: {message}")
