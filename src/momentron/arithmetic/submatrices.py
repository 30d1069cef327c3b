"""Parts of large square matrices: gathered, signed and mirrored in threads of our own.

Memory is what these wait for, and one processor does not use up what there is of it.
"""

from collections.abc import Callable

import numpy as np

from momentron.arithmetic.threads import in_threads

ROWS = 128  # worked on at a time; whole rows are gathered first, at twice the speed of entries
TILE = 256  # rows and columns that are mirrored at a time: both sides fit a cache
WORTH_DIVIDING = 1_000_000  # entries from which a second thread is worth waking


def submatrix(K: np.ndarray, index: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """K[index][:, index] for a C-ordered K; out may be of another precision."""
    if out is None:
        if index.size <= ROWS:
            return K.take(index, axis=0).take(index, axis=1)
        out = np.empty((index.size, index.size), K.dtype)

    def gather(rows: slice) -> None:
        out[rows] = K.take(index[rows], axis=0).take(index, axis=1)

    by_strips(gather, out.shape)
    return out


def sign_in_place(K: np.ndarray, signs: np.ndarray) -> None:
    """K_ij becomes s_i K_ij s_j."""

    def sign(rows: slice) -> None:
        part = K[rows]
        part *= signs
        part *= signs[rows, None]

    by_strips(sign, K.shape)


def mirror_in_place(K: np.ndarray, start: int) -> None:
    """The rows above `start`, and what is above the diagonal, from the rows below."""

    def mirror(rows: slice) -> None:
        for low in range(0, rows.start, TILE):
            columns = slice(low, min(low + TILE, rows.start))
            K[columns, rows] = K[rows, columns].T

    in_threads(mirror, strips_of(start, K.shape[0], TILE)[::-1])  # the longest first


def by_strips(work: Callable[[slice], None], shape: tuple[int, ...]) -> None:
    """work(rows) for all rows of a matrix of that shape, some at a time; in threads if it pays."""
    if shape[0] * shape[1] >= WORTH_DIVIDING:
        in_threads(work, strips_of(0, shape[0], ROWS))
    else:
        work(slice(0, shape[0]))


def strips_of(start: int, stop: int, height: int) -> list[slice]:
    """Runs of `height` rows, and a shorter last one, from start to stop."""
    return [slice(low, min(low + height, stop)) for low in range(start, stop, height)]
