"""Scores from kernel values in single precision, and what each may be wrong by."""

import math
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from momentron.arithmetic.rounding import SINGLE_ROUNDOFF, gamma
from momentron.rows.column_cache import RUN, ColumnCache, Index

if TYPE_CHECKING:
    from momentron.rows.kernels.single import SingleValues

VANISHED = 2.0**-100  # far above what underflow may cost, in units of the largest terms
MOST_WEIGHED = 0.75  # the share of rows with weight up to which few enough are left to be rough
WIDER = 1.001  # for the roundings of the bounds themselves, which are sums of few signs


class RoughScores:
    """Ka for coefficients a on some columns, and a bound on its error, at half the price.

    Parameters
    ----------
    single : SingleValues
    row_norms : ndarray of shape (n,)
        Upper bounds of √K_ii.
    max_bytes : int
        Memory for columns, and for the rows in single precision.

    Attributes
    ----------
    cache : ColumnCache
    """

    def __init__(self, single: "SingleValues", row_norms: np.ndarray, max_bytes: int) -> None:
        self._single, self._row_norms = single, row_norms
        self._taken = single.rows_nbytes if 4 * single.rows_nbytes <= max_bytes else 0
        self._lock = Lock()
        n = row_norms.size
        self.cache = ColumnCache(self._values, n, max_bytes - self._taken, is_single=True)

    def _values(self, rows: Index, cols: Index, out: np.ndarray | None = None) -> np.ndarray:
        """K[rows][:, cols]; the rows are rounded once, when the first values are asked for."""
        if self._taken and not self._single.is_held:
            with self._lock:
                if not self._single.is_held:
                    self._single.hold()
        return self._single.block(rows, cols, out)

    def resize(self, max_bytes: int) -> None:
        """Allow less memory."""
        self.cache.resize(max(0, max_bytes - self._taken))

    def serves(self, index: np.ndarray) -> bool:
        """Whether solvers take columns from here, and there are others than these."""
        return self.cache.size > 0 and index.size <= MOST_WEIGHED * self._row_norms.size

    def product(self, index: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(K[:, index] @ a, its error at most) for distinct columns; a of shape (l,) or (l, k).

        Each value errs by h_i h_j, times |K̂_ij| where that bound is relative; a is rounded to
        single precision, and a run of m terms errs by γ_{m+1} Σ |K̂_ij| |a_j|.
        """
        shape = (self._row_norms.size, *a.shape[1:])
        top = float(np.max(np.abs(a), initial=0.0))
        if top == 0.0:
            return np.zeros(shape), np.zeros(shape)
        # so that none over- or underflows; 2^1024 itself is no float
        unit = math.ldexp(1.0, min(math.frexp(top)[1], 1023))
        a = np.asarray(a, np.float64).reshape(index.size, -1) / unit
        h, size, k = self._single.weights, np.abs(a), a.shape[1]
        sums = gamma(RUN + 4, SINGLE_ROUNDOFF)
        if self._single.is_relative:
            stacked = np.concatenate([a, size * h[index][:, None], size], axis=1)
            found = self.cache.product(index, stacked)
            scores, spread, mass = found[:, :k], found[:, k : 2 * k], found[:, 2 * k :]
            errors = h[:, None] * spread + sums * mass
        else:
            scores, norms = self.cache.product(index, a), self._row_norms
            errors = np.outer(h, h[index] @ size)
            errors += 1.01 * sums * np.outer(norms, norms[index] @ size)
        lost = index.size * VANISHED * float(self._row_norms.max()) ** 2
        errors = WIDER * errors + lost
        return (scores * unit).reshape(shape), (errors * unit).reshape(shape)
