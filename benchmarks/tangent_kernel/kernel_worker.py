"""A process that computes one kernel in one way, as often as it is asked."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.tangent_kernel.strategies import STRATEGIES
from tests.counters import peak_resident
from tests.networks import MODELS


class Run(NamedTuple):
    """One computation: seconds on the clock and of the processor, peak bytes, the share done."""

    seconds: float
    cpu_seconds: float
    n_bytes: int
    share: float
    kernel: np.ndarray | None


@dataclass(frozen=True)
class Task:
    """What a worker computes.

    Attributes
    ----------
    model, strategy : str
    n : int
    max_bytes : int
    threads : int
    seconds : float
        After which a run is stopped, at the next block.
    """

    model: str
    strategy: str
    n: int
    max_bytes: int
    threads: int
    seconds: float


class Worker:
    """A fresh process with model, examples and whatever is loaded on first use."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, task), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()  # it is ready

    def run(self) -> Run | None:
        """Compute the kernel once; None if the process died of it, as for want of memory."""
        try:
            self._pipe.send(True)
            found: Run = self._pipe.recv()
        except (EOFError, OSError):
            return None
        return found

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send(False)
        self._process.join()


def _serve(pipe: Connection, task: Task) -> None:
    warnings.filterwarnings("ignore", message=".*performance drop.*")
    torch.set_num_threads(task.threads)
    torch.manual_seed(0)
    make, draw = MODELS[task.model]
    model, X = make().eval(), draw(task.n)
    work = STRATEGIES[task.strategy]
    for _ in work(model, X[:2], np.zeros((2, 2)), task.max_bytes):
        pass
    pipe.send(True)
    while pipe.recv():
        kernel = np.zeros((task.n, task.n))
        before, share = peak_resident(reset=True), 0.0
        start, cpu = time.perf_counter(), time.process_time()
        for done in work(model, X, kernel, task.max_bytes):
            share = done
            if time.perf_counter() - start > task.seconds:
                break
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
        peak = peak_resident() - before
        pipe.send(Run(seconds, cpu_seconds, peak, share, kernel if share >= 1.0 else None))
