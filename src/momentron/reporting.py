"""The fixed-width table that `verbose=1` prints."""

import sys
import time
from typing import TextIO

from momentron.certificate import relative_gap
from momentron.trace import Row

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
    """Prints iterations 1, 2, 4, 8, … and besides at most one line a second.

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
        if self._printed is None:
            print(HEADER, file=stream)
        print(format_row(row), file=stream, flush=True)
        self._printed = row
        self._last_print = time.perf_counter()
