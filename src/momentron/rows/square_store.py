"""K on one set of rows, in double precision: what is asked for again and again near the end."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from momentron.arithmetic.submatrices import copied, mirror_in_place, strips_of, submatrix
from momentron.arithmetic.threads import in_threads

STRIP = 256  # rows computed at a time


class SquareStore:
    """K[W][:, W] for the last set W that was asked for; the next one is built from it.

    Whatever ends a call on its way leaves the last set as it was.

    Parameters
    ----------
    compute : callable
        compute(rows, cols) = K[rows][:, cols] in float64, for index arrays; by several threads.
    n : int
        K has shape (n, n).

    Attributes
    ----------
    evaluations : int
        How many values of K were computed so far.
    """

    def __init__(self, compute: Callable[[np.ndarray, np.ndarray], np.ndarray], n: int) -> None:
        self._compute, self._n = compute, n
        self._kept: Kept | None = None  # replaced as a whole
        self.evaluations = 0

    def values(self, W: np.ndarray, max_bytes: int) -> np.ndarray:
        """A copy of K[W][:, W], which is kept."""
        kept = self._kept
        if kept is None or kept.rows.size != W.size or not kept.holds(W):
            kept = self._renewed(W, max_bytes)
        return copied(kept.K) if np.array_equal(kept.rows, W) else submatrix(kept.K, kept.place[W])

    def keep(self, W: np.ndarray, max_bytes: int) -> None:
        """Keep K[W][:, W], unless what is kept holds it."""
        if not self.holds(W):
            self._renewed(W, max_bytes)

    def _renewed(self, W: np.ndarray, max_bytes: int) -> "Kept":
        """What is kept from now on; the last one helps if both take no more memory than that."""
        kept = self._kept
        if kept is not None and 8 * (kept.rows.size**2 + W.size**2) > max_bytes:
            self._kept = None
        self._kept = kept = self._built(np.array(W, np.intp))
        return kept

    def _built(self, W: np.ndarray) -> "Kept":
        """What is known comes first, so that what is new is one block at the end."""
        old = self._kept
        is_known = np.zeros(W.size, bool) if old is None else old.place[W] >= 0
        rows = np.concatenate([W[is_known], W[~is_known]])
        size = int(np.count_nonzero(is_known))
        K = np.empty((W.size, W.size))
        if old is not None and size:
            submatrix(old.K, old.place[rows[:size]], K[:size, :size])

        def fill(strip: slice) -> None:
            K[strip, : strip.stop] = self._compute(rows[strip], rows[: strip.stop])

        strips = strips_of(size, W.size, STRIP)
        in_threads(fill, strips[::-1])  # the longest first
        mirror_in_place(K, size)
        self.evaluations += sum((s.stop - s.start) * s.stop for s in strips)
        place = np.full(self._n, -1, np.intp)
        place[rows] = np.arange(W.size)
        return Kept(rows, K, place)

    def holds(self, index: np.ndarray) -> bool:
        """Whether all these rows are in W."""
        return self._kept is not None and self._kept.holds(index)

    def scores(self, index: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """(W, K[W][:, index] @ a) for distinct rows, W in any order; None where W lacks some."""
        kept = self._kept
        if kept is None or not kept.holds(index):
            return None
        spread = np.zeros((kept.rows.size, *a.shape[1:]))
        spread[kept.place[index]] = a
        return kept.rows.copy(), kept.K @ spread


class Kept(NamedTuple):
    """The rows of W in some order, K in that order, and the place of every row in it, or −1."""

    rows: np.ndarray
    K: np.ndarray
    place: np.ndarray

    def holds(self, index: np.ndarray) -> bool:
        return bool((self.place[index] >= 0).all())
