"""What commands print and write. Text from data, files and errors is shown, never interpreted."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rich.text import Text

from momentron.cli.streams import Guarded
from momentron.data.safefiles import reason, write_atomically
from momentron.errors import InputError
from momentron.views.printable import in_encoding, printable


def say(*lines: object, file: IO[str] | None = None) -> None:
    """Print lines, each as one line whatever is in it."""
    print("\n".join(printable(line) for line in lines), file=file or sys.stdout)


def complain(text: str) -> None:
    """Print one line on standard error: the first of the text."""
    lines = text.strip().splitlines() or ["unknown error"]
    say(f"momentron: {lines[0]}", file=sys.stderr)


def cell(text: object) -> Text:
    """A cell of a table, or another text that rich lays out."""
    return Text(printable(text))


def require_reader() -> None:
    """Refuse to compute what is printed and nothing else, where standard output is closed."""
    if isinstance(sys.stdout, Guarded) and sys.stdout.is_gone:
        raise InputError("standard output is closed; write the answer to a file with --out")


def print_data(text: str) -> None:
    """Print what other programs read, with a warning where it cannot be printed as it is."""
    sys.stdout.write(text)
    encoding = getattr(sys.stdout, "encoding", None)
    if in_encoding(text, encoding) != text:
        complain(
            f"warning: the output is in {encoding}; characters that it lacks are written like "
            "\\xe9; --out writes UTF-8"
        )


def try_to_write(
    path: Path | None, content: bytes | str | Callable[[IO[bytes]], object]
) -> InputError | None:
    """Write a file, if one is asked for, before the answer is printed.

    The error, if there is one, is to be raised after that: a full disk does not take the answer
    back, and neither does a reader who leaves take the file.
    """
    if path is None:
        return None
    try:
        write_atomically(path, content)
    except OSError as error:
        found = InputError(f"{path} could not be written: {reason(error)}; the answer above stands")
        found.__cause__ = error
        return found
    return None
