"""The BLAS libraries that this process has loaded, and how many threads each has.

threadpoolctl finds them all, and follows the path of every library that is loaded to do so: some 15
ms, which is more than a small problem takes. Where the loader names none but OpenBLAS, which is
what the wheels of numpy and scipy bring along, they are asked directly. Every other case, and every
other system, is threadpoolctl's.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

NAMES = (  # how the file names of BLAS libraries begin
    "libopenblas",
    "libscipy_openblas",
    "libblas",
    "libcblas",
    "libflexiblas",
    "libmkl_rt",
    "mkl_rt",
    "libblis",
    "libarmpl",
)
PREFIXES, SUFFIXES = ("scipy_", ""), ("64_", "_64", "")
OPENMP = 2  # what `openblas_get_parallel` says of such a build


class Blas:
    """A BLAS library: how many threads it has, and a way to set that.

    Attributes
    ----------
    count : callable
    set : callable
    is_per_thread : bool
        Whether each thread has a number of its own, as with OpenMP.
    """

    def __init__(
        self, count: Callable[[], int], set_count: Callable[[int], Any], *, is_per_thread: bool
    ) -> None:
        self.count, self.set, self.is_per_thread = count, set_count, is_per_thread

    @classmethod
    def of_openblas(cls, library: Any) -> "Blas | None":
        """An OpenBLAS with threads of its own; None where it is not one."""
        for prefix, suffix in product(PREFIXES, SUFFIXES):
            name = f"{prefix}openblas_%s{suffix}"
            verbs = [name % verb for verb in ("get_num_threads", "set_num_threads", "get_parallel")]
            if all(hasattr(library, verb) for verb in verbs):
                count, set_count, parallel = (getattr(library, verb) for verb in verbs)
                if parallel() == OPENMP:
                    return None
                return cls(count, set_count, is_per_thread=False)
        return None

    @classmethod
    def of_controller(cls, library: Any) -> "Blas":
        """One that threadpoolctl has found.

        It listens to the first thread alone that sets a number, so OpenBLAS is told by itself.
        """
        is_per_thread = getattr(library, "threading_layer", "") == "openmp"
        if library.internal_api == "openblas" and not is_per_thread:
            found = cls.of_openblas(library.dynlib)
            if found is not None:
                return found
        return cls(library.get_num_threads, library.set_num_threads, is_per_thread=is_per_thread)


def loaded_blas() -> list[Blas]:
    """numpy's and scipy's, and whatever else is there."""
    found = _loaded_openblas()
    if found:
        return found
    from threadpoolctl import ThreadpoolController  # on its own search it spends milliseconds

    controllers = ThreadpoolController().select(user_api="blas").lib_controllers
    return [Blas.of_controller(controller) for controller in controllers]


def _loaded_openblas() -> list[Blas]:
    """Those that the loader names, if all are OpenBLAS with threads of their own; else none."""
    paths = [path for path in _loaded_paths() if path.rpartition("/")[2].startswith(NAMES)]
    found: list[Blas] = []
    for path in dict.fromkeys(paths):
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:
            return []
        blas = Blas.of_openblas(library)
        if blas is None:
            return []
        found.append(blas)
    return found


class _Header(ctypes.Structure):
    """The beginning of dl_phdr_info."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


def _loaded_paths() -> list[str]:
    """What the dynamic loader has loaded; nothing where it is not that of Linux."""
    if not sys.platform.startswith("linux"):
        return []
    try:
        iterate = ctypes.CDLL(None).dl_iterate_phdr
    except (OSError, AttributeError):
        return []
    paths: list[str] = []

    def note(header: Any, _size: int, _data: Any) -> int:
        name = header.contents.name
        if name:
            paths.append(os.fsdecode(name))
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Header), ctypes.c_size_t, ctypes.c_void_p)
    iterate(kind(note), None)
    return paths
