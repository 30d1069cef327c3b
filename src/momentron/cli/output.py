"""What commands print and write, on streams as they are found: closed, broken, or narrow.

Text from data, files and errors is shown, never interpreted.
"""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import IO, Any

from momentron.data.safefiles import reason, write_atomically
from momentron.errors import InputError
from momentron.views.markup import in_encoding, printable


def say(*lines: object, file: IO[str] | None = None) -> None:
    """Print lines, each as one line whatever is in it."""
    print("\n".join(printable(line) for line in lines), file=file or sys.stdout)


def say_facts(title: str, facts: Sequence[tuple[str, object]]) -> None:
    """Print a title, if there is one, and below it one fact per line; those without a value go."""
    lines = [f"{name:<15} {value}" for name, value in facts if value not in (None, "")]
    say(*([title] if title else []), *lines)


def say_json(summary: dict[str, Any]) -> None:
    """Print one JSON object."""
    print(json.dumps(summary))


def complain(text: str) -> None:
    """Print one line on standard error: the first of the text."""
    lines = text.strip().splitlines() or ["unknown error"]
    say(f"momentron: {lines[0]}", file=sys.stderr)


def cell(text: object) -> Any:
    """A cell of a table, or another text that rich lays out."""
    from rich.text import Text  # rich takes a tenth of the time in which help is shown

    return Text(printable(text))


@contextmanager
def progress(
    words: str, *, max_time: float | None = None, quiet: bool = False
) -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error that is gone at the end; nothing if that is not a terminal.

    `words` say what is being done; after `max_time` seconds the work ends in any case. What is
    yielded takes what is being done now, and the share of the work that is done.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, TimeElapsedColumn

    if max_time is not None:
        words = f"{words}, at most {max_time:g} s"
    console = Console(stderr=True)
    bar = Progress(
        *Progress.get_default_columns(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=quiet or not console.is_terminal,
    )
    with bar:
        task = bar.add_task(escape(printable(words)), total=None)

        def tell(words: str, share: float) -> None:
            bar.update(task, description=escape(printable(words)), total=1.0, completed=share)

        yield tell


def print_data(text: str) -> None:
    """Print what other programs read, with a warning where it cannot be printed as it is."""
    sys.stdout.write(text)
    encoding = getattr(sys.stdout, "encoding", None)
    if in_encoding(text, encoding) != text:
        complain(
            f"warning: the output is in {encoding}; characters that it lacks are written like "
            "\\xe9; --out writes UTF-8"
        )


def answer(
    show: Callable[[], None],
    path: Path | None = None,
    content: bytes | str | Callable[[IO[bytes]], object] = b"",
    *,
    word: str | None = "saved",
) -> None:
    """Write the file that was asked for, if any, show the answer, and say where the file is.

    A file that cannot be written is an error after the answer: a full disk does not take that
    back, and a reader who leaves does not keep the file from being written.
    """
    try:
        if path is not None:
            write_atomically(path, content)
    except OSError as error:
        show()
        raise InputError(
            f"{path} could not be written: {reason(error)}; the answer above is valid"
        ) from error
    show()
    if path is not None and word is not None:
        say(f"{word:<15} {path}")


class Guarded:
    """A stream that shows what it can: other characters as ASCII, nothing once nobody reads.

    Work goes on after the reader of a pipe has left: files are still to be written, and the exit
    code is an answer, too. A stream that was closed before the program began is None.
    """

    def __init__(self, stream: IO[str] | None) -> None:
        self.is_gone = stream is None
        self._stream: Any = io.StringIO() if stream is None else stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._attempt("write", in_encoding(text, getattr(self._stream, "encoding", None)))
        return len(text)

    def flush(self) -> None:
        self._attempt("flush")

    def _attempt(self, name: str, *arguments: str) -> None:
        if self.is_gone:
            return
        try:
            getattr(self._stream, name)(*arguments)
        except OSError as error:
            self.is_gone = True
            with suppress(OSError, ValueError):  # the interpreter flushes the rest at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if not isinstance(error, BrokenPipeError):  # a full disk, of which the user is told
                raise


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Print to guarded streams inside, and leave nothing in their buffers."""
    streams = Guarded(sys.stdout), Guarded(sys.stderr)
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            yield
        finally:
            for stream in streams:
                stream.flush()


def fill_closed_descriptors() -> None:
    """Keep a file that is opened later from becoming standard output, where that was closed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is this one
