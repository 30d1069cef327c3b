"""Checkpoints: the state of a solve in a file, so that a run that was killed goes on.

The file says of which problem and method it is, and has the arrays of the state; its format is that
of `momentron.arrayfile`. It is written beside its place and then moved there, so that a reader
finds the old one or the new one, whole. A file that is damaged, foreign or of another problem is an
error: it is never written over.
"""

import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, is_dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.arrayfile import Arrays, DamagedFile, ForeignFile, read_arrays, write_arrays
from momentron.errors import InputError, WriteWarning
from momentron.problem import Problem
from momentron.safefiles import (
    PRIVATE,
    Lock,
    open_regular,
    reason,
    require_writable,
    write_atomically,
)
from momentron.trace import Row, Trace

if TYPE_CHECKING:
    from momentron.clock import Stopwatch
    from momentron.solve import Incumbent, Judge

TITLE = b"momentron checkpoint 2\n"
EVERY = 5.0  # seconds between two writes


@dataclass(frozen=True)
class Progress:
    """All that a solve carries from one step to the next."""

    problem: Problem
    state: Any
    best: "Incumbent"
    judge: "Judge"
    trace: Trace
    stopwatch: "Stopwatch"

    def to_arrays(self) -> Arrays:
        best = self.best
        arrays = _prefixed("state", state_arrays(self.state))
        arrays |= _prefixed("best", {"w": best.w, "q": best.q, "last_w": best.last_w})
        rows = [astuple(row) for row in self.trace]
        arrays["trace"] = np.array(rows, dtype=np.float64).reshape(len(rows), len(Trace.columns))
        bounds = (best.lower, best.upper, self.judge.next, self.stopwatch.total())
        arrays["numbers"] = np.array(bounds, dtype=np.float64)
        own = getattr(self.problem, "to_arrays", None)
        return arrays | (_prefixed("problem", own()) if own is not None else {})

    def restore(self, arrays: Arrays) -> None:
        """Take everything from the arrays of an earlier run."""
        restore_state(self.state, section("state", arrays))
        best, found = self.best, section("best", arrays)
        best.w, best.q, best.last_w = found["w"], found["q"], found["last_w"]
        lower, upper, following, seconds = arrays["numbers"].tolist()
        best.lower, best.upper = lower, upper
        self.judge.next = int(following)
        self.stopwatch.before = seconds
        integers = {field.name for field in fields(Row) if field.type in (int, "int")}
        for values in arrays["trace"].tolist():
            named = zip(Trace.columns, values, strict=True)
            self.trace.append(Row(**{k: int(v) if k in integers else v for k, v in named}))
        own = getattr(self.problem, "from_arrays", None)
        if own is not None:
            own(section("problem", arrays))
        else:
            self.problem.operator.passes = max((row.passes for row in self.trace), default=0)


class Checkpoint:
    """A file that holds the progress of one solve; a context in which no other run may write it.

    Parameters
    ----------
    path : path
        A regular file, or none yet, in a folder that can be written to.
    identity : dict of str to str
        What the file is for; one that differs is refused.
    every : float
        Seconds between two writes, at least.
    """

    def __init__(
        self, path: str | os.PathLike[str], identity: Mapping[str, str], every: float = EVERY
    ) -> None:
        self.path = Path(path)
        self.identity = dict(identity)
        self._every = every
        self._written = time.perf_counter()
        self._lock = Lock(self.path)
        require_writable(self.path)

    def __enter__(self) -> "Checkpoint":
        self._lock.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.__exit__(kind, error, traceback)

    def read(self) -> Arrays | None:
        """The arrays of the file, checked; None where there is no file."""
        remedy = "move it away or name another path, it is left as it is"
        try:
            with open_regular(self.path, follow_links=False) as file:
                identity, arrays = read_arrays(file, TITLE)
        except FileNotFoundError:
            return None
        except ForeignFile:
            raise InputError(f"{self.path} is not a checkpoint of this version: {remedy}") from None
        except DamagedFile:
            raise InputError(f"checkpoint {self.path} is damaged: {remedy}") from None
        except MemoryError as error:
            raise InputError(f"checkpoint {self.path} {error}: {remedy}") from None
        except OSError as error:
            raise InputError(f"checkpoint {self.path} cannot be read: {reason(error)}") from error
        self._require_same(identity)
        return arrays

    def _require_same(self, found: Mapping[str, str]) -> None:
        for name in self.identity | dict(found):
            mine, theirs = self.identity.get(name), found.get(name)
            if mine != theirs:
                raise InputError(
                    f"checkpoint {self.path} is of another run: its {name} is {_short(theirs)}, "
                    f"here it is {_short(mine)}; move it away or name another path, it is left as "
                    "it is"
                )

    def resume(self, progress: Progress) -> bool:
        """Whether there was a file to go on from. Refuses a method whose state no file can hold."""
        state_arrays(progress.state)
        arrays = self.read()
        if arrays is not None:
            progress.restore(arrays)
        self._written = time.perf_counter()
        return arrays is not None

    def save(self, progress: Progress, *, is_last: bool = False) -> None:
        """Write the file, if the last time is long enough ago or there will be no other.

        A file that cannot be written is no reason to lose the run: it warns, and tries again later.
        """
        if not is_last and time.perf_counter() - self._written < self._every:
            return
        try:
            self.write(progress.to_arrays())
        except OSError as error:
            self._written = time.perf_counter()
            warnings.warn(
                f"checkpoint {self.path} could not be written ({reason(error)}); the run goes on, "
                "and the file is as it was",
                WriteWarning,
                stacklevel=2,
            )

    def write(self, arrays: Arrays) -> None:
        """Replace the file by one with these arrays, at once and whole."""
        write_atomically(
            self.path, lambda file: write_arrays(file, TITLE, self.identity, arrays), PRIVATE
        )
        self._written = time.perf_counter()


def _short(text: str | None) -> str:
    return str(text) if text is None or len(text) <= 80 else text[:79] + "…"


def state_arrays(state: Any) -> Arrays:
    """A solver's state as arrays: its own account of it, or all its fields where they are plain."""
    own = getattr(state, "to_arrays", None)
    if own is not None:
        return dict(own())
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    for name, value in values.items():
        if not isinstance(value, np.ndarray | float | int) or is_dataclass(value):
            raise InputError(
                f"checkpoint needs a method whose state is numbers, such as momentum; here "
                f"{name!r} is {type(value).__name__}: leave checkpoint out"
            )
    return {name: np.asarray(value) for name, value in values.items()}


def restore_state(state: Any, arrays: Arrays) -> None:
    """Set a fresh state to what `state_arrays` gave."""
    own = getattr(state, "from_arrays", None)
    if own is not None:
        own(arrays)
        return
    for field in fields(state):
        value, fresh = arrays[field.name], getattr(state, field.name)
        setattr(state, field.name, value if isinstance(fresh, np.ndarray) else value.item())


def _prefixed(prefix: str, arrays: Mapping[str, np.ndarray]) -> Arrays:
    return {f"{prefix}.{name}": value for name, value in arrays.items()}


def section(prefix: str, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The arrays whose names begin with the prefix and a dot, without it."""
    start = prefix + "."
    return {name[len(start) :]: v for name, v in arrays.items() if name.startswith(start)}
