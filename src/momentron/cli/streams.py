"""Standard output and error as they are found: closed, broken, or without the characters we use."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO, Any

from momentron.views.printable import in_encoding


class Guarded:
    """A stream that shows what it can: other characters as ASCII, nothing once nobody reads.

    Work goes on after the reader of a pipe has left: files are still to be written, and the exit
    code is an answer, too.

    Parameters
    ----------
    stream : text file or None
        None where the stream was closed before the program began.
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
            _discard_rest(self._stream)
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


def _discard_rest(stream: IO[str]) -> None:
    """Send what is still in the buffer nowhere: the interpreter flushes it at its end."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return  # not a file of the system's
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, descriptor)
    finally:
        os.close(null)
