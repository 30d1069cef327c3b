"""What an attempt may end in: an answer, or one line; a hang and a traceback are failures."""

import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

# what surrounds an attempt, and not its judge: an odd machine, for instance
surroundings: Callable[[], AbstractContextManager[None]] = nullcontext


class Hang(BaseException):
    """The time limit of an attempt has passed."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `Hang` in the main thread after so many seconds; warnings are not errors here."""

    def ring(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def is_one_line(error: BaseException) -> bool:
    """Whether this is an error that users can read: an Exception with one line of text."""
    text = str(error).strip()
    if isinstance(error, MemoryError):
        return "\n" not in text  # its name says it all
    return isinstance(error, Exception) and text != "" and "\n" not in text


def outcome(
    attempt: Callable[[], Any],
    judge: Callable[[Any], str | None],
    seconds: float,
    *,
    may_refuse: bool = True,
) -> str | None:
    """Why the attempt fails, or None: its answer is judged, its error must be one line."""
    try:
        with limited(seconds), surroundings():
            answer = attempt()
    except Hang:
        return f"HANG: no answer after {seconds:g} s"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if not may_refuse:
            return f"CRASH: {type(error).__name__}: {str(error)[:200]}"
        if is_one_line(error):
            return None
        return f"CRASH: {type(error).__name__}: {str(error)[:200]!r} is not one line"
    reason = judge(answer)
    return None if reason is None else f"FALSE: {reason}"
