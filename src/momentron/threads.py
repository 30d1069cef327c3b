"""One BLAS thread for small matrices: waking the others costs more than they bring.

On a busy machine the difference is a factor of a hundred: threads that spin for a core which
another process holds stall every one of a thousand small products.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

WORTH_THREADS = 5e10  # flops (seconds of work) from which a second thread is worth its risk
SMALL_MATRIX = 2_000_000  # entries up to which a product is faster with one thread


@cache
def _pools() -> tuple[Any, int]:
    """numpy's and scipy's thread pools, and the user's own setting, as first met.

    Finding them takes milliseconds, so it is done once.
    """
    pools = ThreadpoolController().select(user_api="blas")
    return pools, max((pool.num_threads for pool in pools.lib_controllers), default=1)


def _threads(many: bool) -> AbstractContextManager[Any]:
    """A context with as many BLAS threads as the user set, or with one."""
    pools, number = _pools()
    return pools.limit(limits=number if many else 1)


def one_thread() -> AbstractContextManager[Any]:
    """One BLAS thread, for a loop of small matrices; large pieces inside may ask for more."""
    return _threads(many=False)


def threads_for_factor(flops: float) -> AbstractContextManager[Any]:
    """Many threads for a factor or a matrix product that takes so much arithmetic."""
    return _threads(many=True) if flops > WORTH_THREADS else nullcontext()


def threads_for_products(entries: int) -> AbstractContextManager[Any]:
    """Many threads for products of a vector with a dense matrix of many entries."""
    return _threads(many=entries > SMALL_MATRIX)
