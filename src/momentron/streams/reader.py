"""Work in threads of its own: the next block is read while this one is worked on."""

import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime, require_time
from momentron.data.files._common import one_line
from momentron.errors import InputError
from momentron.streams.blocks import Block, as_block
from momentron.streams.source import Source

PATIENCE = 0.1  # seconds between two looks at the clock
FAREWELL = 0.5  # seconds to wait for a read that hangs; then its thread is left alone


class BlockError(OSError):
    """A block that could not be read; says which one, and why."""


class Work:
    """call(given_up) in a thread of its own, which is left alone at the deadline or at Ctrl-C.

    The event is then set, for the work to end as soon as it can.
    """

    def __init__(
        self, call: Callable[[threading.Event], Any], name: str = "momentron-work"
    ) -> None:
        self._given_up = threading.Event()
        self._found: list[Any] = []
        run = copy_context().run  # the work may ask for the time that is left
        self._thread = threading.Thread(target=run, args=(self._run, call), name=name, daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[threading.Event], Any]) -> None:
        try:
            self._found.append((call(self._given_up), None))
        except BaseException as error:
            self._found.append((None, error))

    def result(self) -> Any:
        """What the call returns or raises; OutOfTime at the deadline."""
        try:
            while self._thread.is_alive():
                self._thread.join(PATIENCE)
                if self._thread.is_alive():
                    require_time()
        except BaseException:
            self._given_up.set()
            raise
        value, error = self._found.pop()
        if error is not None:
            raise error
        return value

    def leave(self) -> None:
        """Wait a moment for the end, and no longer."""
        self._thread.join(FAREWELL)


class Reader:
    """The blocks of a source in order with their checksums, each read ahead by a thread.

    Two blocks are alive at most: one being worked on, one being read. An error of the source is
    raised here, with the number of the block. While a block is waited for the deadline holds. Use
    as a context manager.

    Parameters
    ----------
    source : Source
    n_blocks : int
        How many blocks the source has.
    """

    def __init__(self, source: Source, n_blocks: int) -> None:
        self._source, self._n_blocks = source, n_blocks
        self._work: Work | None = None

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        if self._work is not None:
            self._work.leave()

    def first(self) -> Block:
        """The first block alone."""
        self._work = self._begin(0, 0, None)
        block, _ = self._work.result()
        return block

    def __iter__(self) -> Iterator[tuple[Block, int]]:
        """Every block, and its checksum."""
        self._work = self._begin(0, 0, None)
        before: tuple[Block, int] | None = None
        for number in range(self._n_blocks):
            block, checksum = self._work.result()
            if before is not None:
                _require_untouched(*before, block)
            before = None  # else it would stay alive while the next is read
            if number + 1 < self._n_blocks:
                following = block.first + block.y.size
                self._work = self._begin(number + 1, following, block.X.shape[1])
            yield block, checksum
            before = block, checksum
            require_time()

    def _begin(self, number: int, first: int, width: int | None) -> Work:
        return Work(lambda _: self._read(number, first, width), "momentron-reader")

    def _read(self, number: int, first: int, width: int | None) -> tuple[Block, int]:
        try:
            X, y = self._source.block(number)
        except OutOfTime:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            what = f"block {number} of {self._n_blocks} cannot be read: {why}"
            kind = InputError if isinstance(error, InputError) else BlockError
            raise kind(what) from error
        block = as_block(X, y, number, first, width)
        return block, block.checksum()


def _require_untouched(before: Block, checksum: int, block: Block) -> None:
    """Refuse a source that has written a block over the one before, which was still in use."""
    if np.may_share_memory(before.values, block.values) and before.checksum() != checksum:
        raise InputError(
            f"block {block.number} was written over block {before.number}, which is still in use; "
            "a source must give every block in memory of its own"
        )
