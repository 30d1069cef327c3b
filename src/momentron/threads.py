"""One BLAS thread for small matrices: waking the others costs more than they bring.

On a busy machine the difference is a factor of a hundred: threads that spin for a core which
another process holds stall every one of a thousand small products.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")

WORTH_THREADS = 5e10  # flops (seconds of work) from which a second thread is worth its risk
SMALL_MATRIX = 2_000_000  # entries up to which a product is faster with one thread


_current: ContextVar[int | None] = ContextVar("blas_threads", default=None)


@cache
def _pools() -> tuple[Any, int]:
    """numpy's and scipy's thread pools, and the user's own setting, as first met.

    Finding them takes milliseconds, so it is done once.
    """
    pools = ThreadpoolController().select(user_api="blas")
    return pools, max((pool.num_threads for pool in pools.lib_controllers), default=1)


@contextmanager
def _threads(many: bool) -> Iterator[None]:
    """As many BLAS threads as the user set, or one; nothing to do where that is so already."""
    pools, number = _pools()
    wanted = number if many else 1
    if _current.get() == wanted:
        yield
        return
    token = _current.set(wanted)
    try:
        with pools.limit(limits=wanted):
            yield
    finally:
        _current.reset(token)


def in_threads(function: Callable[[T], Any], items: Sequence[T]) -> None:
    """Call function(item) for all items, in as many threads as the user lets BLAS have.

    Each call has one BLAS thread. Threads that share no barrier lose little on a busy machine,
    where those of BLAS lose a hundredfold.
    """
    _, number = _pools()
    if number == 1 or len(items) == 1:
        for item in items:
            function(item)
        return
    with one_thread(), ThreadPoolExecutor(min(number, len(items))) as pool:
        for done in [pool.submit(copy_context().run, function, item) for item in items]:
            done.result()


def one_thread() -> AbstractContextManager[Any]:
    """One BLAS thread, for a loop of small matrices; large pieces inside may ask for more."""
    return _threads(many=False)


def threads_for_factor(flops: float) -> AbstractContextManager[Any]:
    """Many threads for a factor or a matrix product that takes so much arithmetic."""
    return _threads(many=True) if flops > WORTH_THREADS else nullcontext()


def threads_for_products(entries: int) -> AbstractContextManager[Any]:
    """Many threads for products of a vector with a dense matrix of many entries."""
    return _threads(many=entries > SMALL_MATRIX)
