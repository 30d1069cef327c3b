"""Passes over blocks: a task for each block, and one answer for all of them."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from momentron.clock import OutOfTime
from momentron.errors import InputError
from momentron.identity import digest_of
from momentron.streams.blocks import Block, as_block
from momentron.streams.reader import Reader, explained
from momentron.streams.source import Source


class Task(Protocol):
    """What a pass does: a finding from every block, merged in any order.

    `task(block, seen)` may use what has been seen already to save work, never to change the sum.
    `merge(a, b)` is associative and commutative up to rounding, and may reuse a.
    """

    def __call__(self, block: Block, seen: Any = None) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any: ...


class Stream(ABC):
    """Blocks of rows that are read again in every pass.

    Attributes
    ----------
    passes : int
        How often all the blocks have been read.
    nbytes : int
        Bytes read in all.
    seconds : float
        Time spent in passes.
    is_remote : bool
        Whether what a task holds travels over a network.
    share_of_pass : float
        How much of the present pass is done; 0 between passes.
    watch : callable, optional
        Called after each block, or each second of a pass on a cluster.
    deadline : float
        When to give up a pass with `OutOfTime`, on the clock of `time.perf_counter`.
    """

    passes: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    is_remote: bool = False
    deadline: float = math.inf
    share_of_pass: float = 0.0
    watch: Callable[[], None] | None = None
    n_blocks: int
    _begun: float = math.nan
    _per_pass: int = 0

    def run(self, task: Task) -> Any:
        """One pass."""
        self._begun = time.perf_counter()
        try:
            found = self._fold(task)
        finally:
            self.seconds += time.perf_counter() - self._begun
            self._begun, self.share_of_pass = math.nan, 0.0
        self.passes += 1
        self.nbytes += found.nbytes
        self._per_pass = found.nbytes
        return found

    @property
    def seconds_now(self) -> float:
        """`seconds`, with those of the present pass."""
        running = 0.0 if math.isnan(self._begun) else time.perf_counter() - self._begun
        return self.seconds + running

    @property
    def nbytes_now(self) -> int:
        """`nbytes`, with an estimate for the present pass."""
        return self.nbytes + int(self.share_of_pass * self._per_pass)

    def report(self, share: float) -> None:
        """Say how much of the pass is done."""
        self.share_of_pass = share
        if self.watch is not None:
            self.watch()

    def require_time(self) -> None:
        """Raise `OutOfTime` at the deadline."""
        if time.perf_counter() >= self.deadline:
            raise OutOfTime

    @abstractmethod
    def _fold(self, task: Task) -> Any: ...

    @abstractmethod
    def entries_per_row(self) -> int:
        """Features, or entries that a sparse row holds: from a look at the first block."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the first, the middle and the last block."""

    @property
    def hashed_blocks(self) -> list[int]:
        return sorted({0, self.n_blocks // 2, self.n_blocks - 1})


class DiskStream(Stream):
    """The blocks of a source, one after another, the next read while this one is worked on."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.n_blocks = count_blocks(source)

    def _fold(self, task: Task) -> Any:
        found: Any = None
        first, width = 0, None
        with Reader(self.source, meanwhile=self.require_time) as reader:
            for number, X, y in reader:
                block = as_block(X, y, number, first, width)
                del X, y
                part = task(block, found)
                found = part if found is None else task.merge(found, part)
                self._per_pass = max(self._per_pass, found.nbytes)
                self.report((number + 1) / self.n_blocks)
                self.require_time()
                first, width = first + block.y.size, block.X.shape[1]
        return found

    def _block(self, number: int) -> Block:
        try:
            X, y = self.source.block(number)
        except Exception as error:
            raise explained(number, self.n_blocks, error) from error
        return as_block(X, y, number, 0)

    def entries_per_row(self) -> int:
        return entries_per_row(self._block(0))

    def fingerprint(self) -> str:
        return "-".join(block_digest(self._block(number)) for number in self.hashed_blocks)


def entries_per_row(block: Block) -> int:
    """Features, or the average number of entries stored."""
    X = block.X
    return int(X.shape[1]) if isinstance(X, np.ndarray) else max(1, X.nnz // X.shape[0])


def block_digest(block: Block) -> str:
    """A hash of a block's rows and labels."""
    y = block.y.astype(str) if block.y.dtype.kind == "O" else block.y
    if isinstance(block.X, np.ndarray):
        return digest_of(block.X, y)
    return digest_of(block.X.data, block.X.indices, block.X.indptr, y)


def count_blocks(source: Source) -> int:
    """len(source), checked."""
    n_blocks = len(source)
    if n_blocks < 1:
        raise InputError(f"{source!r} has 0 blocks; give at least 1")
    return n_blocks
