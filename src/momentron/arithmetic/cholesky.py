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
    blas = _routines(M.dtype.char)
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        if not blas.factor(M, start, stop):
            return M, False
        quarters = [stop + (n - stop) * i // 4 for i in range(5)]
        in_threads(lambda part: blas.solve(M, start, stop, *part), list(pairwise(quarters)))  # noqa: B023
        strips = [(low, min(low + STRIP, n)) for low in range(stop, n, STRIP)]
        in_threads(lambda part: blas.update(M, start, stop, *part), strips)  # noqa: B023
    return M, True


def inverse_in_place(M: np.ndarray) -> tuple[np.ndarray, bool]:
    """(M⁻¹, exists), both halves of it, in the place of M; other threads may run meanwhile.

    Large ones are L⁻ᵀL⁻¹, some columns of L⁻¹ at a time, in threads.

    Parameters
    ----------
    M : ndarray of shape (n, n), float32 or float64, F-ordered
        Positive definite, or the inverse does not exist; its lower half counts.
    """
    assert M.flags.f_contiguous
    if M.shape[0] > ONE_CALL:
        return _inverse_by_strips(M)
    if not _routines(M.dtype.char).invert(M):
        return M, False
    for start in range(0, M.shape[0], PANEL):  # the upper half, a block at a time
        stop = min(start + PANEL, M.shape[0])
        M[start:stop, stop:] = M[stop:, start:stop].T
        square = M[start:stop, start:stop]
        square[...] = np.tril(square) + np.tril(square, -1).T
    return M, True


def _inverse_by_strips(M: np.ndarray) -> tuple[np.ndarray, bool]:
    L, exists = factor_in_place(M)
    if not exists:
        return M, False
    n, blas = M.shape[0], _routines(M.dtype.char)
    strips = strips_of(0, n, STRIP)
    inverses: list[np.ndarray] = [M] * len(strips)  # of L: each from its own first row on

    def invert(number: int) -> None:
        start, stop = strips[number].start, strips[number].stop
        inverses[number] = Y = np.zeros((n - start, stop - start), M.dtype, "F")
        np.fill_diagonal(Y, 1.0)
        blas.forward(L, start, Y)

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


@cache
def _routines(kind: str) -> "_Routines":
    return _Routines(kind)


class _Routines:
    """LAPACK's potrf and BLAS's trsm, syrk and gemm on blocks of one matrix, of either precision.

    They are those of scipy for Cython: called through ctypes they let other threads run, and they
    take blocks as they lie in a larger matrix.
    """

    def __init__(self, kind: str) -> None:
        letter = "s" if kind == "f" else "d"
        self._real: Any = ctypes.c_float if kind == "f" else ctypes.c_double
        self._potrf = _function(cython_lapack, f"{letter}potrf", 5)
        self._potri = _function(cython_lapack, f"{letter}potri", 5)
        self._trsm = _function(cython_blas, f"{letter}trsm", 11)
        self._syrk = _function(cython_blas, f"{letter}syrk", 10)
        self._gemm = _function(cython_blas, f"{letter}gemm", 13)

    def factor(self, M: np.ndarray, start: int, stop: int) -> bool:
        """Whether the diagonal block of the panel has a factor, which takes its place."""
        info = ctypes.c_int(0)
        size, lead = _int(stop - start), _int(M.shape[0])
        self._potrf(_char(b"L"), size, _at(M, start, start), lead, ctypes.byref(info))
        return info.value == 0

    def invert(self, M: np.ndarray) -> bool:
        """Whether M has an inverse, whose lower half takes the place of its own."""
        info, size = ctypes.c_int(0), _int(M.shape[0])
        for routine in (self._potrf, self._potri):
            routine(_char(b"L"), size, _at(M, 0, 0), size, ctypes.byref(info))
            if info.value != 0:
                return False
        return True

    def solve(self, M: np.ndarray, start: int, stop: int, low: int, high: int) -> None:
        """L₂₁ = A₂₁ L₁₁⁻ᵀ, for some rows of the panel."""
        lead, sizes = _int(M.shape[0]), (_int(high - low), _int(stop - start))
        sides = (_char(b"R"), _char(b"L"), _char(b"T"), _char(b"N"))
        block, corner = _at(M, low, start), _at(M, start, start)
        self._trsm(*sides, *sizes, self._number(1.0), corner, lead, block, lead)

    def forward(self, L: np.ndarray, start: int, Y: np.ndarray) -> None:
        """Y becomes the solution of L₂₂ Y′ = Y, for the rows of L from start on."""
        sizes, lead = (_int(Y.shape[0]), _int(Y.shape[1])), _int(L.shape[0])
        sides = (_char(b"L"), _char(b"L"), _char(b"N"), _char(b"N"))
        corner, depth = _at(L, start, start), _int(Y.shape[0])
        self._trsm(*sides, *sizes, self._number(1.0), corner, lead, _at(Y, 0, 0), depth)

    def update(self, M: np.ndarray, start: int, stop: int, low: int, high: int) -> None:
        """A₂₂ −= L₂₁L₂₁ᵀ, for some columns: the lower half of a square, and all below it."""
        n = M.shape[0]
        lead, depth, width = _int(n), _int(stop - start), _int(high - low)
        minus, one = self._number(-1.0), self._number(1.0)
        own, below = _at(M, low, start), _at(M, high, start)
        square = (minus, own, lead, one, _at(M, low, low), lead)
        self._syrk(_char(b"L"), _char(b"N"), width, depth, *square)
        if high < n:
            rest = (minus, below, lead, own, lead, one, _at(M, high, low), lead)
            self._gemm(_char(b"N"), _char(b"T"), _int(n - high), width, depth, *rest)

    def _number(self, value: float) -> Any:
        return ctypes.byref(self._real(value))


def _function(module: Any, name: str, count: int) -> Any:
    """A routine as ctypes calls it: `count` addresses."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = (
        ctypes.c_char_p,
        [ctypes.py_object],
    )
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = module.__pyx_capi__[name]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(address)


def _at(M: np.ndarray, row: int, column: int) -> int:
    """The address of an entry of an F-ordered matrix."""
    return M.ctypes.data + M.itemsize * (row + column * M.shape[0])


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _char(value: bytes) -> Any:
    return ctypes.byref(ctypes.c_char(value))
