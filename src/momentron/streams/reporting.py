"""Progress of a solve over blocks: passes, bytes a second, and the interval as it closes."""

import time
from collections.abc import Callable

from momentron.certificate import relative_gap
from momentron.streams.stream import Stream
from momentron.trace import Row

HEADER = (
    f"{'iteration':>9} {'passes':>7} {'read':>10} {'MB/s':>8} {'lower':>13} {'upper':>13} "
    f"{'gap':>9} {'seconds':>9}"
)


def format_progress(stream: Stream, row: Row | None) -> str:
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


class StreamReporter:
    """Hands lines to `say`: after steps, and in between where `is_live`, a few times a second.

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
        stream: Stream,
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
            stream.watch = self._look

    def __call__(self, row: Row) -> None:
        self._row, self._is_said = row, False
        self._look()

    def _look(self) -> None:
        if time.perf_counter() - self._last >= self._every:
            self._last = time.perf_counter()
            self._is_said = True
            self._say(format_progress(self._stream, self._row))

    def close(self) -> None:
        """Report the last row, if it was not."""
        self._stream.watch = None
        if not self._is_said:
            self._say(format_progress(self._stream, self._row))
