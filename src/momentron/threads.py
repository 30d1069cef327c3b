"""One BLAS thread for small matrices: waking the others costs more than they bring.

On a busy machine the difference is a factor of a hundred: threads that spin for a core which
another process holds stall every one of a thousand small products.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

WORTH_THREADS = 1500  # order of a factor from which a second thread gains
SMALL_MATRIX = 2_000_000  # entries up to which a product is faster with one thread


@cache
def _pools() -> Any:
    """numpy's and scipy's thread pools; finding them takes milliseconds, so it is done once."""
    return ThreadpoolController().select(user_api="blas")


def threads_for_factor(order: int) -> AbstractContextManager[Any]:
    """One BLAS thread for factors of a small order, else the user's own setting."""
    return nullcontext() if order >= WORTH_THREADS else _pools().limit(limits=1)


def threads_for_products(shape: tuple[int, int]) -> AbstractContextManager[Any]:
    """One BLAS thread for products with a small matrix, else the user's own setting."""
    return nullcontext() if shape[0] * shape[1] > SMALL_MATRIX else _pools().limit(limits=1)
