"""The clock of a call: how long it has worked, and when it must hand over what it has.

A deadline belongs to the call that set it, to everything it calls, and to the threads that work
for it (`momentron.arithmetic.threads` hands it on). Whatever takes long asks `require_time` between
two pieces of work, none of which should take more than a fraction of a second: that is how
`max_time` and Ctrl-C are obeyed everywhere.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from mmap import mmap
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 0.1  # seconds between two looks at the clock
THREAD_BYTES = 160 * 2**20  # what a new thread may take: a stack, and an arena of the C library

LAST_SECONDS = 0.6  # in which the last certificate must be there, after Ctrl-C or `max_time`
LAST_SHARE = 0.06  # or this share of `max_time`, if that is longer
NO_TIME = 1e-9  # seconds: what is left where the time is over

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


class OutOfTime(Exception):
    """The deadline leaves no time for the next piece of work."""


@contextmanager
def until(moment: float, *, is_later: bool = False) -> Iterator[None]:
    """Work inside must end by this moment of `time.perf_counter`, or by an earlier one in force.

    With `is_later`, an earlier one does not count: for the little that has to be done even where
    time is over.
    """
    token = _deadline.set(moment if is_later else min(moment, _deadline.get()))
    try:
        yield
    finally:
        _deadline.reset(token)


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


def has_room_for_thread() -> bool:
    """Whether there is memory for a thread to begin: Python waits for ever for one without."""
    try:
        mmap(-1, THREAD_BYTES).close()
    except OSError:
        return False
    return True


class Work(threading.Thread):
    """call(given_up) in a separate thread, which is abandoned at the deadline or at Ctrl-C.

    The event is then set, for the work to end as soon as it can.
    """

    def __init__(
        self, call: Callable[[threading.Event], Any], name: str = "momentron-work"
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._call, self._given_up, self._outcome = call, threading.Event(), Future[Any]()
        self._context = copy_context()  # the work may ask for the time that is left
        if not has_room_for_thread():
            raise MemoryError("no memory is left for another thread")
        self.start()

    def run(self) -> None:
        try:
            self._outcome.set_result(self._context.run(self._call, self._given_up))
        except BaseException as error:
            self._outcome.set_exception(error)

    def result(self) -> Any:
        """What the call returns or raises; OutOfTime at the deadline."""
        try:
            while self.is_alive():
                self.join(PATIENCE)
                if self.is_alive():
                    require_time()
        except BaseException:
            self._given_up.set()
            raise
        return self._outcome.result()


class TimeLimit:
    """The seconds that a call may take: made where the call begins, and passed down.

    What the user's own code spends is not counted.

    Parameters
    ----------
    max_time : float
    patience : float
        What the last certificate and the choice of a classifier may take beyond `max_time`, or
        after Ctrl-C; or a small share of `max_time`, if that is longer.
    whole : TimeLimit, optional
        The limit of which this one is a share.
    """

    def __init__(
        self,
        max_time: float = math.inf,
        patience: float = LAST_SECONDS,
        whole: "TimeLimit | None" = None,
    ) -> None:
        self.max_time, self.patience, self._whole = max_time, patience, whole
        share = LAST_SHARE * max_time if max_time < math.inf else 0.0
        self.grace = max(patience, share)  # what may be spent beyond `max_time`
        self._start = time.perf_counter()
        self._excluded = 0.0
        self.before = 0.0  # what earlier runs of the same solve took

    def seconds(self) -> float:
        """Seconds of this run."""
        return time.perf_counter() - self._start - self._excluded

    def total(self) -> float:
        """Seconds of all runs, if a checkpoint was read."""
        return self.before + self.seconds()

    def left(self) -> float:
        """Seconds until `max_time` is over."""
        return self.max_time - self.seconds()

    def moment(self, share: float = 1.0) -> float:
        """When this share of `max_time` is over, on the clock of `time.perf_counter`."""
        return self._start + self._excluded + share * self.max_time

    def closing(self, *, is_interrupted: bool) -> float:
        """When the result must be there if work ends now, on the same clock."""
        soon = time.perf_counter() + self.patience
        return soon if is_interrupted else max(soon, self.moment() + self.grace)

    def share(self, left: int, parts: int) -> "TimeLimit":
        """The limit of the next part of the work, of which this many are left.

        Each part has an equal share of the time that is left when its turn comes, and of what may
        be spent beyond it: all of them together take no longer than one would.
        """
        return TimeLimit(max(self.left(), NO_TIME) / left, self.grace / parts, self)

    def exclude(self, function: Callable[[T], Any] | None, argument: T) -> Any:
        """Call function(argument) off the clock: the deadline in force moves with it."""
        if function is None:
            return None
        begin = time.perf_counter()
        try:
            return function(argument)
        finally:
            elapsed = time.perf_counter() - begin
            limit: TimeLimit | None = self
            while limit is not None:
                limit._excluded += elapsed
                limit = limit._whole
            _deadline.set(_deadline.get() + elapsed)
