"""How far a long computation is.

Functions that take `progress` understand

    None, False   nothing is shown
    True          one line on standard error, updated as the work goes on
    a callable    progress(share), with the fraction of the work that is done, rising from 0 to 1

The last call is progress(1.0). An exception that the callable raises ends the work. For a tqdm bar:
``bar = tqdm(total=1.0)`` and ``progress=lambda share: bar.update(share - bar.n)``.

With `verbose=1`, and by `momentron fit`, a table is printed while a method runs.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self, TextIO

from momentron.certificate import relative_gap
from momentron.errors import InputError, short
from momentron.views.trace import Row

Progress = bool | Callable[[float], Any] | None
"""What users pass."""

Tell = Callable[[float], Any]
"""What the work calls."""

OFTEN = 0.2  # seconds between two looks of a line that is renewed in place
SELDOM = 10.0  # seconds between two lines where none can be renewed, as in a log file
SILENCE = 2.0  # seconds after which a table says that an iteration is still running

HEADER = (
    f"{'iteration':>9} {'passes':>7} {'margin':>13} {'lower':>13} {'upper':>13} "
    f"{'gap':>9} {'seconds':>9}"
)


def as_progress(progress: Progress, words: str) -> Tell:
    """What to call with the share that is done.

    >>> as_progress(None, "kernel")(0.5)
    >>> as_progress(print, "kernel")(0.5)
    0.5
    """
    if progress is None or progress is False:
        return lambda share: None
    if progress is True:
        return Line(words)
    if not callable(progress):
        raise InputError(
            f"progress={short(progress)} must be True, False, None or a function of the fraction"
        )
    return progress


def part_of(tell: Tell, start: float, stop: float) -> Tell:
    """Progress of a part of the work, from share `start` to share `stop` of the whole."""
    return lambda share: tell(start + (stop - start) * share)


class Line:
    """The line that progress=True shows."""

    def __init__(self, words: str) -> None:
        self.words = words
        self._begun = time.monotonic()
        self._said = -1.0

    def __call__(self, share: float) -> None:
        if sys.stderr is None:  # closed, or a program without a console
            return
        is_terminal = sys.stderr.isatty()
        spent = time.monotonic() - self._begun
        wait = OFTEN if is_terminal else SELDOM
        if share < 1.0 and spent < self._said + wait:
            return
        self._said = spent
        left = f", {spent / share - spent:.0f} s left" if 0.0 < share < 1.0 else ""
        text = f"{self.words}: {share:4.0%}, {spent:.0f} s{left}"
        end = "\n" if share >= 1.0 or not is_terminal else ""
        start = "\r\x1b[K" if is_terminal else ""
        print(f"{start}{text}", end=end, file=sys.stderr, flush=True)


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
        self._stream, self._activity = stream, activity
        self._start = self._last_print = time.perf_counter()
        self._waiting: Row | None = None  # the last row, if it has not been printed
        self._has_head = False
        self._is_over = threading.Event()
        self._lock = threading.Lock()  # lines of two threads do not mix

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="momentron-report", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._waiting is not None:
            self._print_row(self._waiting)

    def _watch(self) -> None:
        """Break any silence of two seconds."""
        while not self._is_over.wait(max(0.05, self._last_print + SILENCE - time.perf_counter())):
            now = time.perf_counter()
            if now - self._last_print >= SILENCE:
                doing = "" if self._activity is None else f", {self._activity()}"
                self._print(f"{'':>9} working: {now - self._start:.0f} s{doing}")

    def __call__(self, row: Row) -> None:
        self._waiting = row
        is_power_of_two = row.iteration & (row.iteration - 1) == 0
        if is_power_of_two or time.perf_counter() - self._last_print > 1.0:
            self._print_row(row)

    def _print_row(self, row: Row) -> None:
        line = (
            f"{row.iteration:>9d} {row.passes:>7d} {row.margin:>13.6e} {row.lower:>13.6e} "
            f"{row.upper:>13.6e} {relative_gap(row.lower, row.upper):>9.2e} {row.seconds:>9.3f}"
        )
        self._print(*([] if self._has_head else [HEADER]), line)
        self._has_head, self._waiting = True, None

    def _print(self, *lines: str) -> None:
        with self._lock:
            print(*lines, sep="\n", file=self._stream or sys.stdout, flush=True)
            self._last_print = time.perf_counter()
