"""The fixed-width table that is printed while a method runs: `verbose=1`, and `momentron fit`."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Self, TextIO

from momentron.certificate import relative_gap
from momentron.views.trace import Row

SILENCE = 2.0  # seconds after which a table says that an iteration is still running

HEADER = (
    f"{'iteration':>9} {'passes':>8} {'margin':>13} {'lower':>13} {'upper':>13} "
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

    Inside a `with` statement it also says after every two seconds of silence that an iteration is
    still running, and prints the last row at the end.

    Parameters
    ----------
    stream : text file, optional
        Standard output by default.
    activity : callable, optional
        Returns what an iteration is doing, such as how much of a file it has read.
    """

    def __init__(
        self, stream: TextIO | None = None, activity: Callable[[], str] | None = None
    ) -> None:
        self._stream = stream
        self._activity = activity
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
        if self._last_row is not None and self._last_row is not self._printed:
            self._print(self._last_row)

    def _watch(self) -> None:
        """Break any silence of two seconds."""
        since = self._start
        while not self._is_over.wait(max(0.05, since + SILENCE - time.perf_counter())):
            since = max(since, self._last_print)
            if time.perf_counter() - since < SILENCE:
                continue
            since = time.perf_counter()
            words = f"working: {since - self._start:.0f} s"
            if self._activity is not None:
                words = f"{words}, {self._activity()}"
            with self._lock:
                print(f"{'':>9} {words}", file=self._stream or sys.stdout, flush=True)

    def __call__(self, row: Row) -> None:
        self._last_row = row
        is_power_of_two = row.iteration & (row.iteration - 1) == 0
        if is_power_of_two or time.perf_counter() - self._last_print > 1.0:
            self._print(row)

    def _print(self, row: Row) -> None:
        stream = self._stream or sys.stdout
        with self._lock:
            if self._printed is None:
                print(HEADER, file=stream)
            print(format_row(row), file=stream, flush=True)
            self._printed = row
            self._last_print = time.perf_counter()
