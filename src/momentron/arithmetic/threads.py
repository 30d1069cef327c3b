"""One BLAS thread while we work, and threads of our own for what can be divided.

Waking the others of BLAS costs more than they bring. On a busy machine the difference is a factor
of a hundred: threads that spin for a core which another process holds stall every one of a thousand
small products. Ours wait for nothing but the end.

The number of BLAS threads belongs to the whole process. The first of our calls lowers it to one and
the last to end restores it, however many run at once: nothing is raced, and since work is divided
by the user's setting and not by who else is there, results do not depend on that either. What the
user sets while we work stays.
"""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar, Token, copy_context
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar
from weakref import ref

import numpy as np
import scipy.linalg  # its BLAS is to be found

from momentron.arithmetic.clock import has_room_for_thread, require_time
from momentron.arithmetic.environment import standard_arithmetic

T = TypeVar("T")

WORTH_OWN_THREADS = 1e8  # flops from which a second thread of our own is worth waking
MOST_PARTS = 4  # into which a sum of products is divided: each takes memory for its result
WORTH_READING = 2_000_000  # entries from which a product with a vector is worth dividing
MOST_READ = 100_000_000  # entries that are read between two looks at the clock

OURS = (np, scipy)  # whose wheels bring OpenBLAS along
PREFIXES, SUFFIXES = ("scipy_", ""), ("64_", "_64", "")
NUMBERS = ("blas_cpu_number", "blas_num_threads")  # of threads in use, and of those there may be
OPENMP = 2  # what `openblas_get_parallel` says of such a build


# --- the BLAS libraries of this process -----------------------------------------------------------


@dataclass(frozen=True)
class Blas:
    """A BLAS library: how many threads it has, and a way to set that.

    With OpenMP each thread has its own number.
    """

    count: Callable[[], int]
    set: Callable[[int], Any]
    is_per_thread: bool = False

    @classmethod
    def of_openblas(cls, library: Any) -> "Blas | None":
        """An OpenBLAS with its own threads; None if it is not one."""
        for prefix, suffix in product(PREFIXES, SUFFIXES):
            name = f"{prefix}openblas_%s{suffix}"
            verbs = [name % verb for verb in ("get_num_threads", "set_num_threads", "get_parallel")]
            if all(hasattr(library, verb) for verb in verbs):
                count, set_count, parallel = (getattr(library, verb) for verb in verbs)
                return None if parallel() == OPENMP else cls(count, _lazy(library, set_count))
        return None


def _lazy(library: Any, set_count: Callable[[int], Any]) -> Callable[[int], Any]:
    """Set the number without restarting the threads that a fork has ended, which then spin."""
    if not all(hasattr(library, name) for name in NUMBERS):
        return set_count
    number, started = (ctypes.c_int.in_dll(library, name) for name in NUMBERS)

    def set_lazily(count: int) -> None:
        if count > started.value:
            set_count(count)
        else:
            number.value = count

    return set_lazily


def loaded_blas() -> list[Blas]:
    """The BLAS of numpy and of scipy; all that are loaded where these did not come in wheels.

    The OpenBLAS of a wheel is asked directly. threadpoolctl finds the others, but its search of
    all that the process has loaded takes 10 ms, more than a small problem.
    """
    try:
        found = [Blas.of_openblas(ctypes.CDLL(str(path))) for path in _wheel_paths()]
    except OSError:
        found = []
    known = [blas for blas in found if blas is not None]
    if len(known) == len(found) == len(OURS):
        return known
    from threadpoolctl import ThreadpoolController

    known = []
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        # threadpoolctl lets one thread alone set the number of an OpenBLAS: we set it ourselves
        own = Blas.of_openblas(library.dynlib)
        is_per_thread = getattr(library, "threading_layer", "") == "openmp"
        known.append(own or Blas(library.get_num_threads, library.set_num_threads, is_per_thread))
    return known


def _wheel_paths() -> list[Path]:
    """The OpenBLAS libraries that the wheels of numpy and scipy have brought along."""
    folders = [Path(str(p.__file__)).parents[1] / f"{p.__name__}.libs" for p in OURS]
    files = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return [path for path in files if "openblas" in path.name]


@cache
def _found() -> tuple[list[Blas], list[Blas]]:
    """The BLAS libraries with one number for the process, and with one per thread; found once."""
    found = loaded_blas()
    per_thread = [library for library in found if library.is_per_thread]
    return [library for library in found if not library.is_per_thread], per_thread


def _counts(libraries: list[Blas]) -> list[int]:
    """How many threads each has now."""
    return [library.count() for library in libraries]


# --- one BLAS thread for each of our calls -------------------------------------------------------


class _ActiveCalls:
    """The calls that are running, and what the user had set before the first.

    `settle` brings BLAS in line with that. It may be called at any moment, by any thread and inside
    itself, so that nothing is lost where Ctrl-C strikes between two lines.
    """

    def __init__(self) -> None:
        self.active: set[ref[_Call]] = set()
        self.before: list[int] | None = None
        self._lock = RLock()

    def settle(self) -> None:
        with self._lock:
            if self.active:
                if self.before is None:
                    self.before = _counts(_found()[0])
                    for library in _found()[0]:
                        library.set(1)
            elif self.before is not None:
                for library, count in zip(_found()[0], self.before, strict=True):
                    if library.count() == 1:  # else the user has set it since
                        library.set(count)
                self.before = None

    def leave(self, call: "ref[_Call]") -> None:
        with suppress(TypeError):  # Ctrl-C ended it before it was in the set: it has no hash
            self.active.discard(call)
        if not self.active:
            self.settle()

    def threads(self) -> int:
        """How many threads the user lets BLAS have."""
        with self._lock:
            call = _current.get()
            here = call() if call in self.active else None
            shared = self.before or _counts(_found()[0])
            return max([*shared, *(here.before if here else _counts(_found()[1]))], default=1)

    def begin_as_child(self) -> None:
        """After a fork: of all that were at work, the one that forked is left."""
        self._lock = RLock()
        call = _current.get()
        self.active = {call} if call in self.active else set()
        self.settle()


_calls = _ActiveCalls()
_current: ContextVar["ref[_Call] | None"] = ContextVar("call", default=None)


class _Call:
    """One call at work, for as long as it lives: forgotten where Ctrl-C left it no time to end."""

    _token: Token[Any]

    def __enter__(self) -> None:
        self._own = ref(self, _calls.leave)
        self.before = _counts(_found()[1])
        try:
            _calls.active.add(self._own)
            _calls.settle()
            for library in _found()[1]:
                library.set(1)
            self._token = _current.set(self._own)
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        _current.reset(self._token)
        self._leave()

    def _leave(self) -> None:
        _calls.leave(self._own)
        del self._own  # nobody needs to be told of the end
        for library, count in zip(_found()[1], self.before, strict=True):
            library.set(count)


def one_thread() -> AbstractContextManager[Any]:
    """One BLAS thread from here on; what is called inside, helpers too, has no more to do."""
    return nullcontext() if _current.get() in _calls.active else _Call()


@cache
def _helpers() -> ThreadPoolExecutor:
    """Threads of our own, started when first needed and kept: starting them takes a while."""
    number = max(1, _calls.threads() - 1)
    return ThreadPoolExecutor(number, "momentron", initializer=_begin_helping)


def _begin_helping() -> None:
    # for the rest of its life: a thread that was made earlier has the environment of then
    standard_arithmetic().__enter__()
    for library in _found()[1]:
        library.set(1)


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_helpers.cache_clear)
    os.register_at_fork(after_in_child=_calls.begin_as_child)


def in_threads(function: Callable[[T], Any], items: Sequence[T]) -> None:
    """Call function(item) for all items, in as many threads as the user lets BLAS have.

    Each call has one BLAS thread. Threads that share no barrier lose little on a busy machine,
    where those of BLAS lose a hundredfold. The caller's thread takes its share, and all of it
    where no helper has found the time to begin. The caller's deadline is looked at before each
    item, and Ctrl-C ends it after those that have begun: no item should take long.
    """
    number = _calls.threads()
    waiting = deque(items)

    def work() -> None:
        while waiting:
            try:
                item = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                require_time()
                function(item)
            except BaseException:
                waiting.clear()  # nobody needs the rest
                raise

    if number == 1 or len(items) == 1:
        work()
        return
    with one_thread():
        others = range(min(number, len(items)) - 1 if has_room_for_thread() else 0)
        helpers = [_helpers().submit(copy_context().run, work) for _ in others]
        try:
            work()
        finally:
            waiting.clear()  # Ctrl-C may have come between two items
            began = [helper for helper in helpers if not helper.cancel()]
            wait(began)
        for helper in began:
            helper.result()


def sum_in_threads(function: Callable[[T], np.ndarray], items: Sequence[T]) -> np.ndarray:
    """Σ function(item), in the order of the items; each returns a new array."""
    if len(items) == 1:
        return function(items[0])
    found: list[np.ndarray] = [np.empty(0)] * len(items)

    def keep(i: int) -> None:
        found[i] = function(items[i])

    in_threads(keep, range(len(items)))
    total = found[0]
    for part in found[1:]:
        total += part
    return total


def own_threads(flops: float) -> int:
    """How many threads of our own are worth waking for this many flops."""
    if flops < WORTH_OWN_THREADS:
        return 1
    return min(_calls.threads(), MOST_PARTS)


def shares_of(
    rows: int, amount: float, most: float = MOST_READ, worth: float = WORTH_READING
) -> list[slice]:
    """Runs of equally many rows, each with no more than `most` of the total amount.

    By default that is the number of entries that a product with a vector reads: memory and not
    arithmetic is what such products wait for. The number of runs is a multiple of the number of
    threads, which then end together; an amount that is not worth it is not divided.
    """
    count = 1
    if amount > worth:
        threads = _calls.threads()
        count = min(rows, threads * -(-int(amount) // int(threads * most)))
    return [slice(rows * i // count, rows * (i + 1) // count) for i in range(count)]
