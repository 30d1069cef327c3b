"""Cholesky factors of large matrices, a panel at a time and in threads of our own.

One call of LAPACK for a matrix of ten thousand rows takes ten seconds in which no deadline and no
Ctrl-C is heard, and scipy's holds the interpreter all the while. Here the same routines of scipy's
BLAS are called on blocks where they lie, each a fraction of a second, as fast as the one call.
"""

import ctypes
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack, lapack

from momentron.arithmetic.submatrices import strips_of
from momentron.arithmetic.threads import in_threads

ONE_CALL = 1024  # rows up to which LAPACK does it at once
PANEL = 256
STRIP = 512  # columns updated at a time by one thread


def factor_in_place(M: np.ndarray) -> tuple[np.ndarray, bool]:
    """(L, exists): the lower Cholesky factor of M, in its place; only lower halves count.

    Parameters
    ----------
    M : ndarray of shape (n, n), float32 or float64, F-ordered
        Overwritten, also where it is not positive definite.
    """
    n = M.shape[0]
    if n <= ONE_CALL:
        potrf = lapack.spotrf if M.dtype == np.float32 else lapack.dpotrf
        factor, info = potrf(M, lower=1, clean=0, overwrite_a=1)
        return factor, info == 0
    assert M.flags.f_contiguous
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        if not _succeeds("potrf", M[start:, start:], stop - start, n):
            return M, False
        quarters = [stop + (n - stop) * i // 4 for i in range(5)]
        in_threads(lambda rows: _solve_panel(M, start, stop, *rows), list(pairwise(quarters)))  # noqa: B023
        strips = [(low, min(low + STRIP, n)) for low in range(stop, n, STRIP)]
        in_threads(lambda columns: _update(M, start, stop, *columns), strips)  # noqa: B023
    return M, True


def _solve_panel(M: np.ndarray, start: int, stop: int, low: int, high: int) -> None:
    """L₂₁ = A₂₁ L₁₁⁻ᵀ, for some rows of the panel."""
    lead, sizes = M.shape[0], (high - low, stop - start)
    corner, block = (M[start:, start:], lead), (M[low:, start:], lead)
    _call("trsm", b"R", b"L", b"T", b"N", *sizes, 1.0, *corner, *block)


def _update(M: np.ndarray, start: int, stop: int, low: int, high: int) -> None:
    """A₂₂ −= L₂₁L₂₁ᵀ, for some columns: the lower half of a square, and all below it."""
    lead, depth, width = M.shape[0], stop - start, high - low
    own, square = (M[low:, start:], lead), (M[low:, low:], lead)
    _call("syrk", b"L", b"N", width, depth, -1.0, *own, 1.0, *square)
    if high < lead:
        below, rest = (M[high:, start:], lead), (M[high:, low:], lead)
        _call("gemm", b"N", b"T", lead - high, width, depth, -1.0, *below, *own, 1.0, *rest)


def inverse_in_place(M: np.ndarray) -> tuple[np.ndarray, bool]:
    """(M⁻¹, exists), both halves of it, in the place of M; other threads may run meanwhile.

    Large ones are L⁻ᵀL⁻¹, some columns of L⁻¹ at a time, in threads.

    Parameters
    ----------
    M : ndarray of shape (n, n), float32 or float64, F-ordered
        Positive definite, or the inverse does not exist; its lower half counts.
    """
    assert M.flags.f_contiguous
    n = M.shape[0]
    if n > ONE_CALL:
        return _inverse_by_strips(M)
    if not (_succeeds("potrf", M, n, n) and _succeeds("potri", M, n, n)):
        return M, False
    for start in range(0, n, PANEL):  # the upper half, a block at a time
        stop = min(start + PANEL, n)
        M[start:stop, stop:] = M[stop:, start:stop].T
        square = M[start:stop, start:stop]
        square[...] = np.tril(square) + np.tril(square, -1).T
    return M, True


def _inverse_by_strips(M: np.ndarray) -> tuple[np.ndarray, bool]:
    L, exists = factor_in_place(M)
    if not exists:
        return M, False
    n = M.shape[0]
    strips = strips_of(0, n, STRIP)
    inverses: list[np.ndarray] = [M] * len(strips)  # of L: each from its own first row on

    def invert(number: int) -> None:
        start, stop = strips[number].start, strips[number].stop
        inverses[number] = Y = np.zeros((n - start, stop - start), M.dtype, "F")
        np.fill_diagonal(Y, 1.0)
        _call("trsm", b"L", b"L", b"N", b"N", *Y.shape, 1.0, L[start:, start:], n, Y, n - start)

    def multiply(pair: tuple[int, int]) -> None:
        below, beside = pair
        rows, columns = strips[below], strips[beside]
        left, right = inverses[below], inverses[beside][rows.start - columns.start :]
        M[rows, columns] = left.T @ right
        if below > beside:
            M[columns, rows] = M[rows, columns].T

    numbers = range(len(strips))
    in_threads(invert, numbers)
    in_threads(multiply, [(i, j) for i in numbers for j in range(i + 1)])
    return M, True


# --- LAPACK and BLAS where a matrix lies ---------------------------------------------------------


def _succeeds(name: str, block: np.ndarray, size: int, lead: int) -> bool:
    """Whether a routine of LAPACK reports success on the lower half of a block, in its place."""
    info = ctypes.c_int(0)
    _call(name, b"L", size, block, lead, info)
    return info.value == 0


def _call(name: str, *arguments: Any) -> None:
    """Call scipy's routine for Cython, through ctypes: other threads may run meanwhile.

    Arrays stand for the address of their first entry, and their precision is the routine's.
    """
    is_single = any(isinstance(a, np.ndarray) and a.dtype == np.float32 for a in arguments)
    real = ctypes.c_float if is_single else ctypes.c_double
    kinds: dict[type, Any] = {bytes: ctypes.c_char, int: ctypes.c_int, float: real}
    passed: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            passed.append(value.ctypes.data)
        else:
            make = kinds.get(type(value))
            passed.append(ctypes.byref(value if make is None else make(value)))
    _routine(("s" if is_single else "d") + name, len(passed))(*passed)


@cache
def _routine(name: str, count: int) -> Any:
    """A routine that takes this many addresses."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    module = cython_lapack if name[1:].startswith("pot") else cython_blas
    capsule = module.__pyx_capi__[name]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(address)
