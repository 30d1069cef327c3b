"""The clock of a call: how long it has worked, and when it must hand over what it has.

A deadline belongs to the call that set it, to everything it calls, and to the threads that work
for it (`momentron.arithmetic.threads` hands it on). Whatever takes long asks `require_time` between
two pieces of work, none of which should take more than a fraction of a second: that is how
`max_time` and Ctrl-C are obeyed everywhere.
"""

import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


class OutOfTime(Exception):
    """The deadline leaves no time for the next piece of work."""


class until:
    """Work inside must end by this moment of `time.perf_counter`, or by an earlier one in force.

    With `is_later`, an earlier one does not count: for the little that has to be done even where
    time is over.
    """

    __slots__ = ("_is_later", "_moment", "_token")

    def __init__(self, moment: float, *, is_later: bool = False) -> None:
        self._moment, self._is_later = moment, is_later

    def __enter__(self) -> None:
        moment = self._moment if self._is_later else min(self._moment, _deadline.get())
        self._token = _deadline.set(moment)

    def __exit__(self, *error: object) -> None:
        _deadline.reset(self._token)


def deadline() -> float:
    """The moment in force, on the clock of `time.perf_counter`; infinite where there is none."""
    return _deadline.get()


def time_left() -> float:
    """Seconds until the deadline in force."""
    return _deadline.get() - time.perf_counter()


def require_time(seconds: float = 0.0) -> None:
    """Raise OutOfTime unless there is time for work that takes this many seconds."""
    moment = _deadline.get()
    if moment != math.inf and time.perf_counter() + seconds >= moment:
        raise OutOfTime


class Stopwatch:
    """Seconds of work: what the user's own code spends is not counted."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._excluded = 0.0
        self.before = 0.0  # what earlier runs of the same solve took

    def seconds(self) -> float:
        """Seconds of this run, by which its budget is measured."""
        return time.perf_counter() - self._start - self._excluded

    def total(self) -> float:
        """Seconds of all runs, if a checkpoint was read."""
        return self.before + self.seconds()

    def deadline(self, seconds: float) -> float:
        """When this run will have lasted this many seconds, on the clock of `time.perf_counter`."""
        return time.perf_counter() + seconds - self.seconds()

    def leave_out(self, other: "Stopwatch") -> None:
        """Leave out what another one left out, which ran for a part of this one's time."""
        self._excluded += other._excluded

    def exclude(self, function: Callable[[T], Any] | None, argument: T) -> Any:
        """Call function(argument) off the clock: the deadline in force moves with it."""
        if function is None:
            return None
        begin = time.perf_counter()
        try:
            return function(argument)
        finally:
            elapsed = time.perf_counter() - begin
            self._excluded += elapsed
            _deadline.set(_deadline.get() + elapsed)
