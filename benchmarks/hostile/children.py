"""Trials in forked children: what crashes or hangs there is a finding, not the end of the run."""

import faulthandler
import json
import os
import resource
import selectors
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUN = 40  # trials of a child before the next one


@dataclass
class Child:
    """A forked process with some trials to make, and what it has said so far."""

    trials: list[int]
    pid: int
    pipe: int
    since: float = field(default_factory=time.perf_counter)
    text: bytes = b""


def run_trials(
    trial: Callable[[int], str | None],
    numbers: Sequence[int],
    *,
    seconds: float,
    workers: int = 2,
    memory: int | None = None,
    is_fresh: bool = False,
) -> Iterator[tuple[int, str | None]]:
    """(number, why it failed or None) of every trial, as they end.

    Parameters
    ----------
    trial : callable
        number ↦ None, or one line that begins with FALSE, CRASH or HANG.
    seconds : float
        After which a trial counts as a hang, and is killed.
    memory : int, optional
        Bytes of address space that a child may have besides those it is forked with.
    is_fresh : bool
        A child for each trial, where trials change the process they run in.
    """
    size = 1 if is_fresh else RUN
    waiting = [list(numbers[start : start + size]) for start in range(0, len(numbers), size)]
    waiting.reverse()
    selector = selectors.DefaultSelector()
    running: dict[int, Child] = {}
    scratch = tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True)
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                child = _fork(trial, waiting.pop(), memory, scratch.name)
                running[child.pipe] = child
                selector.register(child.pipe, selectors.EVENT_READ)
            for key, _ in selector.select(timeout=0.2):
                child = running[key.fd]
                content = os.read(child.pipe, 1 << 16)
                yield from _heard(child, content)
                if not content:
                    yield from _ended(child, running, selector, waiting, "")
            for child in list(running.values()):
                if time.perf_counter() - child.since > seconds:
                    os.kill(child.pid, signal.SIGKILL)
                    reason = f"HANG: no answer after {seconds:g} s"
                    yield from _ended(child, running, selector, waiting, reason)
    finally:
        for child in running.values():
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            os.close(child.pipe)
        scratch.cleanup()  # what children leave that were killed, too


def _heard(child: Child, content: bytes) -> Iterator[tuple[int, str | None]]:
    """What the child has reported, line by line."""
    child.text += content
    *lines, child.text = child.text.split(b"\n")
    for line in lines:
        number, reason = json.loads(line)
        child.trials.remove(number)
        child.since = time.perf_counter()
        yield number, reason


def _ended(
    child: Child,
    running: dict[int, Child],
    selector: Any,
    waiting: list[list[int]],
    reason: str,
) -> Iterator[tuple[int, str | None]]:
    """The child is gone: the trial it was at has failed, those after it go to another."""
    selector.unregister(child.pipe)
    os.close(child.pipe)
    del running[child.pipe]
    _, status = os.waitpid(child.pid, 0)
    if not child.trials:
        return
    if not reason:
        code = os.waitstatus_to_exitcode(status)
        what = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        reason = f"CRASH: the process ended by {what}"
    yield child.trials[0], reason
    if child.trials[1:]:
        waiting.append(child.trials[1:])


def _fork(
    trial: Callable[[int], str | None], trials: list[int], memory: int | None, scratch: str
) -> Child:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of BLAS that are idle
        pid = os.fork()
    if pid:
        os.close(writer)
        return Child(list(trials), pid, reader)
    try:
        os.close(reader)
        faulthandler.disable()  # a crash is reported by the parent, in one line
        tempfile.tempdir = scratch
        if memory is not None:
            memory += _address_space()
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        for number in trials:
            os.write(writer, json.dumps([number, _made(trial, number)]).encode() + b"\n")
    finally:
        os._exit(0)


def _address_space() -> int:
    """Bytes that this process has mapped: large test processes have gigabytes of libraries."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[0]) * resource.getpagesize() if pages.exists() else 0


def _made(trial: Callable[[int], str | None], number: int) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return trial(number)
    except BaseException as error:  # a fault of the trial itself must not pass for a success
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        return f"CRASH: {text} at {os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119
