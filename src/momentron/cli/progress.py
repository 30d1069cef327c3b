"""What a terminal shows while work goes on: nothing for two seconds, then a line with time left."""

import math
import time
from collections import deque
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from momentron.certificate import relative_gap
from momentron.views.printable import printable
from momentron.views.reporting import HEADER, format_row
from momentron.views.trace import Row

PATIENCE = 2.0  # seconds before anything is shown
BAR = 24  # characters
REMEMBERED = 64  # rows from which the speed is estimated


class Progress:
    """A line on standard error that is gone at the end; nothing where that is not a terminal.

    Parameters
    ----------
    words : str
        What is being done.
    max_time : float, optional
        Seconds after which the work ends in any case.

    Examples
    --------
    >>> with Progress("deciding", max_time=60.0) as progress:
    ...     progress.update(share=0.5)
    """

    def __init__(self, words: str, *, max_time: float | None = None, quiet: bool = False) -> None:
        self._words = words
        self._max_time = max_time
        self._share: float | None = None
        self._left: float | None = None
        self._start = time.monotonic()
        console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        if console.is_terminal and not quiet:
            self._live = Live(
                console=console,
                get_renderable=self._line,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(
        self, words: str | None = None, share: float | None = None, left: float | None = None
    ) -> None:
        """What is being done now, the share that is done, or the seconds that are left."""
        self._words = self._words if words is None else words
        self._share, self._left = share, left

    def _line(self) -> Text:
        spent = time.monotonic() - self._start
        return Text("") if spent < PATIENCE else Text(self.line(spent), style="cyan")

    def line(self, spent: float) -> str:
        """The words, a bar where the share is known, the time spent and the time left."""
        parts = [printable(self._words)]
        left = self._left
        if self._share is not None and 0.0 < self._share <= 1.0:
            full = round(BAR * self._share)
            parts.append(f"{'━' * full}{'─' * (BAR - full)} {self._share:4.0%}")
            left = spent * (1.0 / self._share - 1.0) if left is None else left
        parts.append(clock(spent))
        most = None if self._max_time is None else max(0.0, self._max_time - spent)
        if left is not None and math.isfinite(left):
            parts.append(f"{clock(left if most is None else min(left, most))} left")
        elif most is not None:
            parts.append(f"at most {clock(most)} left")
        return "  ".join(parts)


class TimeLeft:
    """Seconds until a solve reaches its tolerance, from how its gap has closed lately.

    The gap of these methods falls about geometrically, so its logarithm is followed along a line.
    """

    def __init__(self, tol: float) -> None:
        self._tol = max(tol, 1e-16)
        self._seen: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)

    def __call__(self, row: Row) -> float | None:
        gap = relative_gap(row.lower, row.upper)
        if not 0.0 < gap < 1.0:
            return None
        self._seen.append((row.seconds, math.log(gap)))
        (first, high), (last, low) = self._seen[0], self._seen[-1]
        if last <= first or low >= high:
            return None
        return max(0.0, (low - math.log(self._tol)) * (last - first) / (high - low))


class LiveRow:
    """The last row of a solve on a terminal, with an estimate of the time left; gone at the end.

    A reporter for `solve`. Before the first row, which may take long where kernels are large, the
    time spent is shown.
    """

    def __init__(self, console: Console, tol: float) -> None:
        self._time_left = TimeLeft(tol)
        self._row: Row | None = None
        self._left: float | None = None
        self._start = time.monotonic()
        self._live = Live(
            console=console, get_renderable=self._lines, refresh_per_second=8, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def __call__(self, row: Row) -> None:
        self._row, self._left = row, self._time_left(row)

    def _lines(self) -> Text:
        return Text(self.lines(time.monotonic() - self._start), style="cyan")

    def lines(self, spent: float) -> str:
        """What is shown after so many seconds."""
        if self._row is None:
            return "" if spent < PATIENCE else f"preparing the first iteration  {clock(spent)}"
        words = "" if self._left is None else f"\nabout {clock(self._left)} left"
        return f"{HEADER}\n{format_row(self._row)}{words}"


def clock(seconds: float) -> str:
    """Seconds as people read them.

    >>> clock(7.4), clock(75), clock(7300)
    ('7 s', '1:15', '2:01:40')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
