"""A thread that reads the next block while this one is worked on."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from momentron.errors import InputError
from momentron.streams.source import Source

PATIENCE = 0.1  # seconds between two looks at whether the other side is still there
FAREWELL = 10.0  # seconds to wait for a read that hangs, as the loop is left


class BlockError(OSError):
    """A block that could not be read; says which one, and why."""


class Reader:
    """The blocks of a source in order, each read ahead by a thread.

    Three blocks are alive at most: one being worked on, one waiting, one being read. Leaving the
    loop, by an error or Ctrl-C as well, stops the thread; an error of the source is raised here,
    with the number of the block. Use as a context manager.

    Parameters
    ----------
    source : Source
    ahead : int
        How many blocks may wait.
    meanwhile : callable, optional
        Called from time to time while a block is waited for; may raise.
    """

    def __init__(
        self, source: Source, ahead: int = 1, meanwhile: Callable[[], None] | None = None
    ) -> None:
        self._source = source
        self._meanwhile = meanwhile or (lambda: None)
        self._n_blocks = len(source)
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="momentron-reader", daemon=True)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(FAREWELL)

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """(number, X, y) of every block."""
        for number in range(self._n_blocks):
            found = self._next()
            if isinstance(found, BaseException):
                raise explained(number, self._n_blocks, found) from found
            yield (number, *found)

    def _next(self) -> Any:
        while True:
            try:
                return self._queue.get(timeout=PATIENCE)
            except queue.Empty:
                self._meanwhile()
                if not self._thread.is_alive() and self._queue.empty():
                    raise BlockError("the reader thread ended without its last block") from None

    def _read(self) -> None:
        for number in range(self._n_blocks):
            if self._stop.is_set():
                return
            try:
                X, y = self._source.block(number)
                found: Any = (X, y)
                del X, y  # else the block would stay alive while the next is read
            except BaseException as error:
                found = error
            if not self._put(found) or isinstance(found, BaseException):
                return
            del found

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
    if not isinstance(error, Exception):
        return error
    what = f"block {number} of {n_blocks} cannot be read: {type(error).__name__}: {error}"
    return InputError(what) if isinstance(error, InputError) else BlockError(what)
