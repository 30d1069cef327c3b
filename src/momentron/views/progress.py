"""How far a long computation is: one form of `progress` for every function that takes it.

    None, False   nothing is shown
    True          one line on standard error, updated as the work goes on
    a callable    progress(share), with the fraction of the work that is done, rising from 0 to 1

The last call is progress(1.0). An exception that the callable raises ends the work. For a tqdm bar:
``bar = tqdm(total=1.0)`` and ``progress=lambda share: bar.update(share - bar.n)``.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from momentron.errors import InputError, short

Progress = bool | Callable[[float], Any] | None
"""What users pass."""

Tell = Callable[[float], Any]
"""What the work calls."""

OFTEN = 0.2  # seconds between two looks of a line that is renewed in place
SELDOM = 10.0  # seconds between two lines where none can be renewed, as in a log file


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
