"""Passes over blocks: a task for each block, and one answer for all of them."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from momentron.arithmetic.clock import OutOfTime, Work, require_time
from momentron.errors import InputError, counted, one_line
from momentron.rows.validation import clean_weights
from momentron.solvers.checkpoint import taken, unusable
from momentron.streams.blocks import Block, as_block
from momentron.streams.source import Source

FAREWELL = 0.5  # seconds to wait for a read that hangs; then its thread is left alone


def with_block(task: Any, found: Any, block: Block, is_kept: np.ndarray | None) -> Any:
    """What was found, None at first, with what the task finds in the rows that have a weight."""
    block = block if is_kept is None else block.weighted(is_kept)
    if block.y.size == 0:
        return found
    part = task(block, found)
    return part if found is None else task.merge(found, part)


class Stream(ABC):
    """Blocks of rows that are read again in every pass, and must be the same each time."""

    def __init__(self, n_blocks: int, weights: np.ndarray | None = None) -> None:
        self.n_blocks = n_blocks
        self.weights = weights  # those of the rows, if they have some
        self.is_kept = None if weights is None or weights.all() else weights > 0.0
        self.passes = 0  # how often all the blocks have been read,
        self.nbytes, self.seconds = 0, 0.0  # and what that took in total
        self.share = 0.0  # of the present pass that is done, or was when it failed
        self._checksums: dict[int, int] = {}
        self._clock = self._begun = 0.0

    def run_first(self, task: Any) -> Any:
        """A pass that all later ones must agree with: they must read the same blocks."""
        self._checksums = {}
        return self.run(task)

    def run(self, task: Any) -> Any:
        """One pass: a finding from every block, merged in any order.

        `task(block, so_far)` may use what earlier blocks gave to save work, never to change the
        sum. `task.merge(a, b)` is associative and commutative up to rounding, and may reuse a.
        """
        self._clock = self._begun = time.perf_counter()
        self.share = 0.0
        try:
            found = self._fold(task)
        finally:
            self.report(self.share)
        self.passes += 1
        self.share = 0.0
        return found

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps: what has been read."""
        counts = (self.passes, self.nbytes, self.seconds)
        return {"counts": np.array(counts, dtype=np.float64), "content": self.content}

    def from_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Count what an earlier run has read, if it has read the same data."""
        if not np.array_equal(arrays.get("content", ()), self.content):
            raise unusable("it belongs to a different data set")
        counts = taken("counts", arrays, np.zeros(3))
        if not ((counts >= 0.0) & (counts < 2.0**53)).all():
            raise unusable(f"its counts of passes, bytes and seconds are {counts.tolist()}")
        self.passes += int(counts[0])
        self.nbytes += int(counts[1])
        self.seconds += float(counts[2])

    def report(self, share: float, nbytes: int = 0) -> None:
        """How much of the pass is done, and how many more bytes were read."""
        now = time.perf_counter()
        self.seconds += now - self._clock
        self._clock, self.share = now, share
        self.nbytes += nbytes

    def activity(self) -> str:
        """What is being read, as a table says it while a pass is running."""
        speed = self.nbytes / max(self.seconds, 1e-9) / 1e6
        read = f"{self.nbytes / 1e9:.4g} GB at {speed:.0f} MB/s"
        if self.share in (0.0, 1.0):
            return f"{counted(self.passes, 'pass')}, {read}"
        left = (self._clock - self._begun) * (1.0 / self.share - 1.0)
        return f"pass {self.passes + 1}: {self.share:.0%}, {left:.0f} s left, {read}"

    def require_same(self, number: int, checksum: int) -> None:
        """Refuse a block that is not what the first pass read."""
        if self._checksums.setdefault(number, checksum) != checksum:
            raise InputError(
                f"block {number} differs from the first pass; the data must not change while they "
                "are read"
            )

    @property
    def content(self) -> np.ndarray:
        """The checksums of all the blocks, and of who has a weight: a checkpoint is bound to it."""
        sums = [self._checksums[i] for i in sorted(self._checksums)]
        if self.is_kept is not None:
            sums.append(xxh3_64_intdigest(self.is_kept.data))
        return np.array(sums, np.uint64)

    @abstractmethod
    def _fold(self, task: Any) -> Any: ...


class BlockError(OSError):
    """A block that could not be read; says which one, and why."""


def read_ahead(source: Source, n_blocks: int) -> Generator[tuple[Block, int], None, None]:
    """The first blocks of a source with their checksums, each read by a thread before its turn.

    Two blocks are alive at most: one being worked on, one being read. An error of the source is
    raised here, with the number of the block. While a block is waited for the deadline holds.
    Close it where it is left early.
    """
    work = _begin_reading(source, 0, 0)
    try:
        before: tuple[Block, int] | None = None
        for number in range(n_blocks):
            block, checksum = work.result()
            if before is not None:
                shares = np.may_share_memory(before[0].arrays[0], block.arrays[0])
                if shares and before[0].checksum() != before[1]:
                    raise InputError(
                        f"block {number} was written over block {number - 1}, which is still in "
                        "use; a source must allocate new memory for every block"
                    )
            before = None  # else it would stay alive while the next is read
            if number + 1 < n_blocks:
                work = _begin_reading(source, number + 1, block.first + block.y.size)
            yield block, checksum
            before = block, checksum
            require_time()
    finally:
        work.join(FAREWELL)


def _begin_reading(source: Source, number: int, first: int) -> Work:
    def read(_: threading.Event) -> tuple[Block, int]:
        try:
            X, y = source.block(number)
        except OutOfTime:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            what = f"block {number} of {len(source)} cannot be read: {why}"
            kind = InputError if isinstance(error, InputError) else BlockError
            raise kind(what) from error
        block = as_block(X, y, number, first)
        return block, block.checksum()

    return Work(read, "momentron-reader")


class DiskStream(Stream):
    """The blocks of a source, one after another, the next read while this one is worked on."""

    def __init__(self, source: Source, weights: np.ndarray | None = None) -> None:
        super().__init__(count_blocks(source), weights)
        self.source = source

    def _fold(self, task: Any) -> Any:
        if count_blocks(self.source) != self.n_blocks:
            raise InputError(
                f"the source had {self.n_blocks} blocks in the first pass and now has "
                f"{len(self.source)}; the data must not change while they are read"
            )
        found, n_rows = None, 0
        with closing(read_ahead(self.source, self.n_blocks)) as blocks:
            for block, checksum in blocks:
                self.require_same(block.number, checksum)
                n_rows += block.y.size
                found = with_block(task, found, block, self.is_kept)
                self.report((block.number + 1) / self.n_blocks, block.nbytes)
        if self.weights is not None and self.weights.size != n_rows:
            clean_weights(self.weights, n_rows)  # says so
        return found


def count_blocks(source: Source) -> int:
    """len(source), checked."""
    n_blocks = len(source)
    if n_blocks < 1:
        raise InputError(f"{source!r} has 0 blocks; give at least 1")
    return n_blocks
