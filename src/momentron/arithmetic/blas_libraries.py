"""The BLAS libraries that this process has loaded, and how many threads each has.

We call those of numpy and scipy. Their wheels bring OpenBLAS along, which is asked directly; any
other is found by threadpoolctl, whose search takes some 10 ms, more than a small problem.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy

OURS = (np, scipy)
PREFIXES, SUFFIXES = ("scipy_", ""), ("64_", "_64", "")
NUMBERS = ("blas_cpu_number", "blas_num_threads")  # of threads in use, and of those there may be
OPENMP = 2  # what `openblas_get_parallel` says of such a build


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
    """The BLAS of numpy and of scipy, or all that are loaded if these cannot be told apart."""
    try:
        found = [Blas.of_openblas(ctypes.CDLL(str(path))) for path in _loaded_paths()]
    except OSError:
        found = []
    known = [blas for blas in found if blas is not None]
    if len(known) == len(found) == len(OURS):
        return known
    from threadpoolctl import ThreadpoolController  # whose search takes milliseconds

    known = []
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        # threadpoolctl lets one thread alone set the number of an OpenBLAS: we set it ourselves
        own = Blas.of_openblas(library.dynlib)
        is_per_thread = getattr(library, "threading_layer", "") == "openmp"
        known.append(own or Blas(library.get_num_threads, library.set_num_threads, is_per_thread))
    return known


def _loaded_paths() -> list[Path]:
    """What the wheels of numpy and scipy have brought along."""
    folders = [Path(str(p.__file__)).parents[1] / f"{p.__name__}.libs" for p in OURS]
    return [path for folder in folders for path in sorted(folder.glob("*openblas*"))]
