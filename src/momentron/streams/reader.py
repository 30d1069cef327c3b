"""A thread that reads the next block while this one is worked on."""

import queue
import threading
import weakref
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import numpy as np

from momentron.clock import OutOfTime, require_time
from momentron.datafiles._common import one_line
from momentron.errors import InputError
from momentron.streams.blocks import Block, as_block
from momentron.streams.source import Source

PATIENCE = 0.1  # seconds between two looks at whether the other side is still there
FAREWELL = 0.5  # seconds to wait for a read that hangs; then its thread is left alone


class BlockError(OSError):
    """A block that could not be read; says which one, and why."""


class Reader:
    """The blocks of a source in order with their checksums, each read ahead by a thread.

    Three blocks are alive at most: one being worked on, one waiting, one being read. Leaving the
    loop, by an error or Ctrl-C as well, stops the thread; an error of the source is raised here,
    with the number of the block. While a block is waited for the deadline holds. Use as a context
    manager.

    Parameters
    ----------
    source : Source
    n_blocks : int
        How many blocks the source has.
    wanted : int, optional
        How many of them to read, the first ones.
    ahead : int
        How many blocks may wait.
    """

    def __init__(
        self,
        source: Source,
        n_blocks: int,
        wanted: int | None = None,
        ahead: int = 1,
    ) -> None:
        self._source, self._n_blocks = source, n_blocks
        self._wanted = n_blocks if wanted is None else wanted
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        read = copy_context().run  # a source may ask for the time that is left
        self._thread = threading.Thread(
            target=read, args=(self._read,), name="momentron-reader", daemon=True
        )

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(FAREWELL)

    def __iter__(self) -> Iterator[tuple[Block, int]]:
        """Every block, and its checksum."""
        for _ in range(self._wanted):
            found = self._next()
            if isinstance(found, BaseException):
                raise found
            yield found
            del found
            require_time()

    def _next(self) -> Any:
        while True:
            try:
                return self._queue.get(timeout=PATIENCE)
            except queue.Empty:
                require_time()
                if not self._thread.is_alive() and self._queue.empty():
                    raise BlockError("the reader thread ended without its last block") from None

    def _read(self) -> None:
        first, width = 0, None
        alive: list[tuple[weakref.ref[Block], int]] = []
        for number in range(self._wanted):
            if self._stop.is_set():
                return
            try:
                block = self._block(number, first, width)
                self._require_untouched(alive, block)
                found: Any = (block, block.checksum())
                first, width = first + block.y.size, block.X.shape[1]
                alive = [*alive[-2:], (weakref.ref(block), found[1])]
                del block  # else it would stay alive while the next is read
            except BaseException as error:
                found = error
            if not self._put(found) or isinstance(found, BaseException):
                return
            del found

    def _block(self, number: int, first: int, width: int | None) -> Block:
        try:
            X, y = self._source.block(number)
        except BaseException as error:
            raise explained(number, self._n_blocks, error) from error
        return as_block(X, y, number, first, width)

    def _require_untouched(
        self, alive: list[tuple["weakref.ref[Block]", int]], block: Block
    ) -> None:
        """Refuse a source that writes over a block which is still waiting or being worked on."""
        for reference, checksum in alive:
            before = reference()
            if before is None or not np.may_share_memory(before.values, block.values):
                continue
            if before.checksum() != checksum:
                raise InputError(
                    f"block {block.number} was written over block {before.number}, which is still "
                    "in use; a source must give every block in memory of its own"
                )

    def _put(self, found: Any) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(found, timeout=PATIENCE)
                return True
            except queue.Full:
                continue
        return False


def explained(number: int, n_blocks: int, error: BaseException) -> BaseException:
    """An error of a source, with the number of the block; Ctrl-C stays what it is."""
    if not isinstance(error, Exception) or isinstance(error, OutOfTime):
        return error
    what = f"block {number} of {n_blocks} cannot be read: {type(error).__name__}: {one_line(error)}"
    return InputError(what) if isinstance(error, InputError) else BlockError(what)
