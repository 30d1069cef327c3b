"""A solver in a process of its own, so that it can be killed, crash, or run out of memory."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.suite.task import Answer, Task, read_task, tiny_task

START_LIMIT = 120.0
"""Seconds for a worker to import its solver and load the data."""

SETTLE = 0.06
"""Seconds until the threads of another process that is done have gone to sleep."""

GRACE = 0.5
"""Seconds beyond a time limit for an answer in time to arrive."""


@dataclass(frozen=True)
class Timed:
    """What became of one run; `answer` is None unless `status` is "ok"."""

    status: str
    seconds: float
    answer: Answer | None = None
    note: str = ""


class Worker:
    """The parent's end: start, run under a time limit, close. Never waits beyond the limit."""

    def __init__(
        self,
        run: Callable[[Task], Answer],
        task_file: Path,
        log: Path,
        loads: tuple[str, ...] = (),
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._log = log
        self._process = context.Process(
            target=serve, args=(theirs, run, str(task_file), str(log), loads), daemon=True
        )
        self._process.start()
        theirs.close()  # so that a dead child reads as the end of the file

    def wait_until_ready(self, limit: float = START_LIMIT) -> Timed | None:
        """None when the worker has its data and modules, else what went wrong."""
        message = self._receive(limit)
        return None if isinstance(message, Timed) and message.status == "ready" else message

    def run(self, limit: float) -> Timed:
        """One timed run; the worker is dead afterwards unless the status is "ok"."""
        try:
            self._connection.send("run")
        except OSError:
            return self._fallen()
        outcome = self._receive(limit + GRACE)
        if outcome.status == "timeout" or (outcome.status == "ok" and outcome.seconds > limit):
            self.close()
            return Timed("timeout", limit, note=f"killed at {limit:.0f} s")
        if outcome.status != "ok":
            self.close()
        return outcome

    def close(self) -> None:
        self._connection.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _receive(self, limit: float) -> Timed:
        try:
            if not self._connection.poll(limit):
                return Timed("timeout", limit, note=f"not ready within {limit:.0f} s")
            message = self._connection.recv()
        except (EOFError, OSError):
            return self._fallen()
        if not isinstance(message, Timed):
            return Timed("failed", float("nan"), note="the worker sent no result")
        return message

    def _fallen(self) -> Timed:
        self._process.join(5.0)
        lines = self._log.read_text(errors="replace").split("\n") if self._log.exists() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        code = self._process.exitcode
        note = f"its process died (exit code {code}){': ' + last if last else ''}"
        return Timed("failed", float("nan"), note=note[:120])


def serve(
    connection: Connection,
    run: Callable[[Task], Answer],
    task_file: str,
    log: str,
    loads: tuple[str, ...],
) -> None:
    """The child's end: import and load off the clock, then answer each "run" with a Timed.

    The first run is cold: whatever the solver searches, compiles or starts when it is first called
    counts. Every later one is warm.
    """
    _quiet(log)
    task = read_task(Path(task_file))
    task.X.sum()
    for module in loads:
        importlib.import_module(module)
    connection.send(Timed("ready", 0.0))
    is_cold = True
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while connection.recv() == "run":
            # the threads of the last contestant's BLAS spin for a while after its run, and would
            # take a core from this one; while the others ran, this process grew cold: its threads
            # sleep, and its pages of code and data may have been taken away
            time.sleep(SETTLE)
            if is_cold:
                task.X.sum()
            else:
                _warm_up(run, task)
            is_cold = False
            connection.send(_timed(run, task))


def _warm_up(run: Callable[[Task], Answer], task: Task) -> None:
    """Touch the data, and run on a tiny problem; a solver that fails there may yet solve this."""
    task.X.sum()
    with contextlib.suppress(Exception):
        run(tiny_task(task))


def _timed(run: Callable[[Task], Answer], task: Task) -> Timed:
    start = time.perf_counter()
    try:
        answer = run(task)
    except Exception as error:
        seconds = time.perf_counter() - start
        text = " ".join(str(error).split())
        return Timed("failed", seconds, note=f"{type(error).__name__}: {text}"[:120])
    seconds = time.perf_counter() - start
    return Timed("ok", seconds, answer, answer.note)


def _quiet(log: str) -> None:
    """Send what solvers print to the log, and let the kernel end this process before others."""
    warnings.simplefilter("ignore")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
