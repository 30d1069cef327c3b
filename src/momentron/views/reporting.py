"""The fixed-width tables that are printed while a method runs."""

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TextIO

from momentron.certificate import relative_gap
from momentron.views.trace import Row

if TYPE_CHECKING:
    from momentron.streams.stream import Stream

SILENCE = 2.0  # seconds after which a table says that it is still at work

HEADER = (
    f"{'iteration':>9} {'passes':>8} {'margin':>13} {'lower':>13} {'upper':>13} "
    f"{'gap':>9} {'seconds':>9}"
)

PASS_HEADER = (
    f"{'iteration':>9} {'passes':>7} {'read':>10} {'MB/s':>8} {'lower':>13} {'upper':>13} "
    f"{'gap':>9} {'seconds':>9}"
)


def format_row(row: Row) -> str:
    """One line of the table."""
    return (
        f"{row.iteration:>9d} {row.passes:>8d} {row.margin:>13.6e} {row.lower:>13.6e} "
        f"{row.upper:>13.6e} {relative_gap(row.lower, row.upper):>9.2e} {row.seconds:>9.3f}"
    )


class TableReporter:
    """Prints iterations 1, 2, 4, 8, …, and others at most once per second.

    Inside a `with` statement it also says every two seconds that an iteration is still at work, and
    prints the last row at the end.

    Parameters
    ----------
    stream : text file, optional
        Standard output where none is given.
    every : int, optional
        Print each such iteration instead.
    """

    def __init__(self, stream: TextIO | None = None, every: int | None = None) -> None:
        self._stream = stream
        self._every = every
        self._last_print = float("-inf")
        self._last_row: Row | None = None
        self._printed: Row | None = None
        self._start = time.perf_counter()
        self._is_over = threading.Event()
        self._lock = threading.Lock()  # lines of two threads do not mix

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="momentron-report", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.close()

    def _watch(self) -> None:
        """Break any silence of two seconds."""
        since = self._start
        while not self._is_over.wait(max(0.05, since + SILENCE - time.perf_counter())):
            since = max(since, self._last_print)
            if time.perf_counter() - since < SILENCE:
                continue
            since = time.perf_counter()
            with self._lock:
                words = f"{'':>9} at work for {since - self._start:.0f} s"
                print(words, file=self._stream or sys.stdout, flush=True)

    def __call__(self, row: Row) -> None:
        self._last_row = row
        if self._every is not None:
            due = row.iteration % self._every == 0
        else:
            power_of_two = row.iteration & (row.iteration - 1) == 0
            due = power_of_two or time.perf_counter() - self._last_print > 1.0
        if due:
            self._print(row)

    def close(self) -> None:
        """Print the last row, if it was not."""
        if self._last_row is not None and self._last_row is not self._printed:
            self._print(self._last_row)

    def _print(self, row: Row) -> None:
        stream = self._stream or sys.stdout
        with self._lock:
            if self._printed is None:
                print(HEADER, file=stream)
            print(format_row(row), file=stream, flush=True)
            self._printed = row
            self._last_print = time.perf_counter()


def format_progress(stream: "Stream", row: Row | None) -> str:
    """One line; without a row the first pass is still on its way."""
    speed = stream.nbytes_now / stream.seconds_now / 1e6 if stream.seconds_now > 0.0 else 0.0
    passes = f"{stream.passes + stream.share_of_pass:.1f}"
    done = f"{stream.nbytes_now / 1e9:.3f} GB"
    if row is None:
        return f"{0:>9d} {passes:>7} {done:>10} {speed:>8.0f} {'':>13} {'':>13}"
    return (
        f"{row.iteration:>9d} {passes:>7} {done:>10} {speed:>8.0f} {row.lower:>13.6e} "
        f"{row.upper:>13.6e} {relative_gap(row.lower, row.upper):>9.2e} {row.seconds:>9.1f}"
    )


class PassReporter:
    """For data in blocks, whose passes may take minutes: hands lines to `say`.

    After steps, and in between where `is_live`, a few times per second.

    Parameters
    ----------
    stream : Stream
    say : callable
        Takes a line.
    is_live : bool
        Report within passes too, for a line that is replaced.
    every : float
        Seconds between two lines, but for the first and the last.
    """

    def __init__(
        self,
        stream: "Stream",
        say: Callable[[str], None],
        *,
        is_live: bool = False,
        every: float = 1.0,
    ) -> None:
        self._stream, self._say, self._every = stream, say, every
        self._last = -float("inf")
        self._row: Row | None = None
        self._is_said = True
        if is_live:
            stream.watch = self._report

    def __call__(self, row: Row) -> None:
        self._row, self._is_said = row, False
        self._report()

    def _report(self) -> None:
        if time.perf_counter() - self._last >= self._every:
            self._last = time.perf_counter()
            self._is_said = True
            self._say(format_progress(self._stream, self._row))

    def close(self) -> None:
        """Report the last row, if it was not."""
        self._stream.watch = None
        if not self._is_said:
            self._say(format_progress(self._stream, self._row))
