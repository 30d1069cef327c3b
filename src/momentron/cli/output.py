"""What commands print and write. Text from data, files and errors is shown, never interpreted."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rich.text import Text

from momentron.errors import InputError
from momentron.printable import printable
from momentron.safefiles import reason, write_atomically


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


def write_after_answer(path: Path, content: bytes | str | Callable[[IO[bytes]], object]) -> None:
    """Write a file once the answer has been printed, which a failure does not take back."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise InputError(
            f"{path} could not be written: {reason(error)}; the answer above stands"
        ) from error
