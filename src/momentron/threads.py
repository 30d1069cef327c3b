"""One BLAS thread for small matrices, and threads of our own for what can be divided.

Waking the others of BLAS costs more than they bring. On a busy machine the difference is a factor
of a hundred: threads that spin for a core which another process holds stall every one of a thousand
small products. Ours wait for nothing but the end.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")

WORTH_THREADS = 5e10  # flops (seconds of work) from which a second thread is worth its risk
WORTH_OWN_THREADS = 1e8  # the same for threads of our own, which do not spin
MOST_PARTS = 4  # into which a sum of products is divided: each takes memory for its result
SMALL_MATRIX = 2_000_000  # entries up to which a product is faster with one thread


_current: ContextVar[int | None] = ContextVar("blas_threads", default=None)


@cache
def _pools() -> tuple[Any, int]:
    """numpy's and scipy's thread pools, and the user's own setting, as first met.

    Finding them takes milliseconds, so it is done once.
    """
    pools = ThreadpoolController().select(user_api="blas")
    return pools, max((pool.num_threads for pool in pools.lib_controllers), default=1)


NOTHING_TO_DO: AbstractContextManager[Any] = nullcontext()


def _threads(many: bool) -> AbstractContextManager[Any]:
    """As many BLAS threads as the user set, or one; nothing to do where that is so already."""
    wanted = _pools()[1] if many else 1
    return NOTHING_TO_DO if _current.get() == wanted else _setting(wanted)


@contextmanager
def _setting(wanted: int) -> Iterator[None]:
    """So many BLAS threads, and then as many as before."""
    libraries = _pools()[0].lib_controllers
    before = [library.num_threads for library in libraries]
    token = _current.set(wanted)
    try:
        for library in libraries:
            library.set_num_threads(wanted)
        yield
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set_num_threads(count)
        _current.reset(token)


@cache
def _helpers() -> ThreadPoolExecutor:
    """Threads of our own, started when first needed and kept: starting them takes a while."""
    return ThreadPoolExecutor(max(1, _pools()[1] - 1), thread_name_prefix="momentron")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_helpers.cache_clear)


def in_threads(function: Callable[[T], Any], items: Sequence[T]) -> None:
    """Call function(item) for all items, in as many threads as the user lets BLAS have.

    Each call has one BLAS thread. Threads that share no barrier lose little on a busy machine,
    where those of BLAS lose a hundredfold. The caller's thread takes its share, and all of it
    where no helper has found the time to begin.
    """
    _, number = _pools()
    if number == 1 or len(items) == 1:
        for item in items:
            function(item)
        return
    waiting = deque(items)

    def work() -> None:
        while waiting:
            try:
                item = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                function(item)
            except BaseException:
                waiting.clear()  # nobody needs the rest
                raise

    with one_thread():
        others = range(min(number, len(items)) - 1)
        helpers = [_helpers().submit(copy_context().run, work) for _ in others]
        try:
            work()
        finally:
            began = [helper for helper in helpers if not helper.cancel()]
            wait(began)
        for helper in began:
            helper.result()


def own_threads(flops: float) -> int:
    """How many threads of our own are worth waking for so much arithmetic."""
    if flops < WORTH_OWN_THREADS:
        return 1
    return min(_pools()[1], MOST_PARTS)


def one_thread() -> AbstractContextManager[Any]:
    """One BLAS thread, for a loop of small matrices; large pieces inside may ask for more."""
    return _threads(many=False)


def threads_for_factor(flops: float) -> AbstractContextManager[Any]:
    """Many threads for a factor or a matrix product that takes so much arithmetic."""
    return _threads(many=True) if flops > WORTH_THREADS else NOTHING_TO_DO


def threads_for_products(entries: int) -> AbstractContextManager[Any]:
    """Many threads for products of a vector with a dense matrix of many entries."""
    return _threads(many=entries > SMALL_MATRIX)
