"""What an attempt may end in: an answer, or one line; a hang and a traceback are failures."""

import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import get_ident
from types import FrameType
from typing import Any

DEPTH = 6  # lines of each thread that the report of a hang shows

# what surrounds an attempt, and not its judge: an odd machine, for instance
surroundings: Callable[[], AbstractContextManager[None]] = nullcontext


class Hang(BaseException):
    """The time limit of an attempt has passed; says where every thread was."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `Hang` in the main thread after this many seconds; warnings are not errors here."""

    def ring(_: int, frame: FrameType | None) -> None:
        frames = {**sys._current_frames(), get_ident(): frame}
        places = "; ".join(_place(frame) for frame in frames.values())
        raise Hang(f"no answer after {seconds:g} s; threads are at {places}")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _place(frame: FrameType | None) -> str:
    """The innermost lines of a thread, the last first."""
    lines: list[str] = []
    while frame is not None and len(lines) < DEPTH:
        lines.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(lines)


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
    except Hang as hang:
        return f"HANG: {hang}"
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
