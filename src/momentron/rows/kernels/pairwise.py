"""Kernels of pairs of rows by formula, in double and in single precision.

The rows, what a formula says, its values in tiles, and scores from rough ones with their errors.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.rounding import SINGLE_ROUNDOFF, gamma
from momentron.arithmetic.squares import strips_of
from momentron.arithmetic.threads import in_threads, shares_of
from momentron.certificate import read_only
from momentron.errors import short
from momentron.rows.column_cache import ColumnCache
from momentron.rows.kernels.bound import (
    BoundKernel,
    Index,
    Kernel,
    require_features,
    require_finite_values,
)
from momentron.rows.operator import read_only_copy, row_blocks, squared_row_norms
from momentron.rows.validation import as_matrix

TILE_SIDE = 512  # the shorter side of a tile: long enough for a matrix product
FEW_ROWS = 4
TILE_BYTES = 1 << 23  # rows copied or converted at a time, on either side of a block
TILE_VALUES = 1 << 20  # values of a block worked on at a time: as many bytes
RUN = 128  # columns in single precision that are summed at a time
SINGLE_RUN = 400  # terms of an inner product in single precision that are summed at a time
DENSE_ENOUGH = 0.05  # the share of stored entries from which dense arithmetic is faster
VANISHED = 2.0**-100  # far above what underflow may cost, in units of the largest terms
WIDER = 1.001  # for the roundings of the bounds themselves, which are sums of few signs
MOST_USED = 0.95  # the share of features beyond which leaving out the others does not pay


def as_rows(X: Any) -> Any:
    """X as a 2-D array or canonical CSR matrix of floats: itself, if it is one."""
    X = as_matrix(X)
    return X.tocsr() if sp.issparse(X) else X


def pieces(index: Index, n: int, size: int) -> Iterator[tuple[slice, Index]]:
    """The index cut into parts of `size` rows: (where the part lies in the index, the part)."""
    if isinstance(index, slice) and index.step not in (None, 1):
        index = np.arange(n)[index]
    whole = range(n)[index] if isinstance(index, slice) else index
    for place in strips_of(0, len(whole), size):
        part = whole[place]
        yield place, part if isinstance(part, np.ndarray) else slice(part.start, part.stop)


class Points:
    """The rows of X, an array or CSR matrix that is held and not copied, or of X less a centre.

    The centre is taken from each row as it is handed out, which makes it dense.
    """

    dtype: type = np.float64  # of values computed from them

    def __init__(self, X: Any, centre: np.ndarray | None = None) -> None:
        self.X = read_only_copy(X)
        self.n, self.d = int(X.shape[0]), int(X.shape[1])
        self.centre = None if centre is None else read_only(centre)
        self.is_sparse = sp.issparse(X) and centre is None

    def take(self, index: Index, *, as_dense: bool = False) -> Any:
        """The named rows in float64: a view where X has them so."""
        rows = self.X[index]
        if sp.issparse(rows) and (as_dense or self.centre is not None):
            rows = rows.toarray()
        rows = rows.astype(np.float64, copy=False)
        return rows if self.centre is None else rows - self.centre

    @cached_property
    def squares(self) -> np.ndarray:
        """‖x‖² of every row."""
        if self.centre is None:
            return read_only(squared_row_norms(self.X))
        parts = row_blocks(self.n, self.d)
        return read_only(np.concatenate([squared_row_norms(self.take(p)) for p in parts]))

    @cached_property
    def length(self) -> int:
        """The most entries in a row: no inner product has more terms that are not zero."""
        return int(np.diff(self.X.indptr).max(initial=0)) if self.is_sparse else self.d

    @property
    def is_crowded(self) -> bool:
        """Whether sparse rows have enough entries for dense arithmetic to be faster."""
        return self.is_sparse and self.X.nnz >= DENSE_ENOUGH * self.n * self.d

    def tile(self, *, as_dense: bool = False) -> int:
        """How many rows to take at a time."""
        width = 2 * self.X.nnz // self.n + 1 if self.is_sparse and not as_dense else self.d
        return max(1, TILE_BYTES // (8 * width))


class SinglePoints(Points):
    """The same rows in single precision, dense, and scaled by a power of two.

    The longest has a length between ½ and 1. Those that are kept are rounded once.
    """

    dtype = np.float32
    is_sparse = False

    def __init__(self, points: Points) -> None:
        self._points, self.n, self.d = points, points.n, points.d
        longest = math.sqrt(float(points.squares.max())) * (1.0 + 1e-6)
        self.scale = math.ldexp(1.0, -math.frexp(longest)[1])  # takes it below 1, not below ½
        self.squares = points.squares * self.scale * self.scale
        self._held: np.ndarray | None = None

    def take(self, index: Index, *, as_dense: bool = False) -> np.ndarray:
        return self._rounded(index) if self._held is None else self._held[index]

    def _rounded(self, index: Index) -> np.ndarray:
        rows = self._points.take(index, as_dense=True)
        return (rows * self.scale).astype(np.float32)

    def hold(self) -> None:
        """Keep the rows, without features that are 0 in all."""
        if self._held is not None:
            return
        held = np.empty((self.n, self.d), np.float32)
        is_used = np.zeros(self.d, bool)

        def fill(rows: slice) -> None:
            held[rows] = self._rounded(rows)
            is_used[held[rows].any(axis=0)] = True

        in_threads(fill, row_blocks(self.n, self.d))
        if is_used.mean() <= MOST_USED:
            held = held.compress(is_used, axis=1)
        self._held = held  # only now: Ctrl-C leaves no half of it


def inner_products(A: Any, B: Any, out: np.ndarray) -> None:
    """⟨a, b⟩ for all rows of A and of B, into out; in single precision, in runs of terms."""
    if sp.issparse(A) or sp.issparse(B):
        products = A @ B.T
        out[...] = products.toarray() if sp.issparse(products) else products
        return
    d = A.shape[1]
    first, *others = strips_of(0, d, SINGLE_RUN if out.dtype == np.float32 else d)
    np.matmul(A[:, first], B[:, first].T, out=out)
    for run in others:
        out += A[:, run] @ B[:, run].T


def single_roundings(d: int) -> int:
    """How many roundings an inner product of d terms then has, those of the rows included."""
    return min(d, SINGLE_RUN) + -(-d // SINGLE_RUN) + 4


class PairwiseKernel(Kernel):
    """A formula in ⟨x, x′⟩ and the squared norms, or in the differences of two rows."""

    is_bounded = False  # whether every value is finite for finite rows
    most_coordinates = math.inf  # in a tile, where the time goes by these
    name_in_libsvm = ""  # if it has the kernel, with parameters of the same names

    def bind(self, X: Any) -> BoundPairwise:
        return BoundPairwise(self, Points(as_rows(X)))

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        """Whether to turn the sparse rows on either side into dense ones, for a block so large."""
        if not (left.is_sparse and right.is_sparse):
            return False, False
        # one side is enough, and for a few rows it is faster however sparse they are
        on_left = shape[0] <= shape[1]
        pays = min(shape) <= FEW_ROWS or (left if on_left else right).is_crowded
        return pays and on_left, pays and not on_left

    @abstractmethod
    def fill(self, A: Any, B: Any, a2: Any, b2: Any, out: Any) -> None:
        """K(a, b) for all rows of A and of B into out, with a2 and b2 their ‖a‖² and ‖b‖².

        In single precision the rows and out are float32.
        """

    def single_weights(self, points: Points) -> tuple[np.ndarray, bool] | None:
        """(h, whether relative) as `SingleScores` explains them; None where there is no bound.

        Of the class itself: it is not inherited, since `fill` may differ.
        """
        return None

    @abstractmethod
    def measured(self, points: Points) -> tuple[np.ndarray, float, float, float]:
        """(K(x, x) of every row, and the errors): the arguments of `BoundKernel.set_errors`."""


def values_of(
    kernel: PairwiseKernel, left: Points, rows: Index, right: Points, cols: Index
) -> np.ndarray:
    """K of some rows on the left with some on the right, in their precision, a tile at a time."""
    n_rows, n_cols = np.arange(left.n)[rows].size, np.arange(right.n)[cols].size
    out: np.ndarray = np.empty((n_rows, n_cols), right.dtype)
    dense_left, dense_right = kernel.as_dense(left, right, out.shape)
    height, width = left.tile(as_dense=dense_left), right.tile(as_dense=dense_right)
    most = int(min(TILE_VALUES, kernel.most_coordinates // max(right.length, 1)))
    # long and narrow, since strided memory is slow to work on
    if n_rows <= n_cols:
        height = max(1, min(height, n_rows, TILE_SIDE))
        width = min(width, max(1, most // height))
    else:
        width = max(1, min(width, n_cols, TILE_SIDE))
        height = min(height, max(1, most // width))

    def fill(tile: tuple[tuple[slice, Any], tuple[slice, Any]]) -> None:
        (across, some_cols), (along, some_rows) = tile
        A = left.take(some_rows, as_dense=dense_left)
        B = right.take(some_cols, as_dense=dense_right)
        values = out[along, across]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            kernel.fill(A, B, left.squares[some_rows], right.squares[some_cols], values)
        if not kernel.is_bounded:
            require_finite_values(values, repr(kernel))

    in_threads(fill, list(product(pieces(cols, right.n, width), pieces(rows, left.n, height))))
    return out


class BoundPairwise(BoundKernel):
    """A formula over the rows of X. Memory beyond a result: some 32 MB."""

    def __init__(self, kernel: PairwiseKernel, points: Points) -> None:
        self.kernel = kernel
        self.points = points
        with np.errstate(over="ignore", invalid="ignore"):
            diagonal, relative, on_diagonal, absolute = kernel.measured(points)
        require_finite_values(diagonal, short(kernel))
        if not diagonal.any() and not points.X.max() and not points.X.min():
            absolute = 0.0  # X is zero, so that nothing can have vanished
        self.set_errors(diagonal, relative, on_diagonal, absolute)

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        return values_of(self.kernel, self.points, rows, self.points, cols)

    def cross(self, B: Any, index: Index = slice(None)) -> np.ndarray:
        B = as_rows(B)
        require_features(B, self.points.d)
        left = Points(B, self.points.centre)
        return values_of(self.kernel, left, slice(None), self.points, index)

    def for_libsvm(self) -> tuple[Any, dict[str, Any]]:
        name = self.kernel.name_in_libsvm
        return (self.points.X, {"kernel": name, **vars(self.kernel)}) if name else (None, {})

    def single_scores(self, max_bytes: int) -> SingleScores | None:
        # a subclass that does not say how may have another formula
        is_known = "single_weights" in vars(type(self.kernel))
        if not is_known or (self.points.is_sparse and not self.points.is_crowded):
            return None
        weighed = self.kernel.single_weights(self.points)
        return None if weighed is None else SingleScores(self, *weighed, max_bytes)


class SingleScores(ColumnCache):
    """Columns of K in single precision, and Ka for coefficients a with a bound on its error.

    The rows are scaled and rounded to single precision, u = 2⁻²⁴. Inner products are summed in runs
    of at most SINGLE_RUN terms, so that their error is γ_k ‖x‖‖x′‖ with k little more than that,
    whatever the number of features and the order of BLAS. The values cost less than half of those
    in double precision.

    |K̂_ij − K_ij| ≤ h_i h_j |K̂_ij|, or h_i h_j where not relative, with h the `weights`, rounded
    up. What is too small for single precision may vanish besides: 2⁻¹²⁵ at most. The rows of the
    bound kernel are dense or nearly so; `max_bytes` are for columns, and for the rows in single
    precision, if these take no more than a quarter.
    """

    def __init__(self, bound: Any, weights: np.ndarray, is_relative: bool, max_bytes: int) -> None:
        self.weights, self.is_relative = read_only(weights), is_relative
        self.points = points = SinglePoints(bound.points)
        self._row_norms, gamma = bound.row_norms, bound.kernel.gamma
        self._formula = replace(bound.kernel, gamma=gamma / points.scale / points.scale)
        rows_bytes = 4 * points.n * points.d
        self._taken = rows_bytes if 4 * rows_bytes <= max_bytes else 0
        super().__init__(self.values, points.n, max_bytes - self._taken, np.float32)

    def resize(self, max_bytes: int) -> None:
        super().resize(max(0, max_bytes - self._taken))

    def values(self, rows: Index, cols: Index) -> np.ndarray:
        """K[rows][:, cols] in single precision; the rows are rounded once, at the first time."""
        if self._taken:
            self.points.hold()
        return values_of(self._formula, self.points, rows, self.points, cols)

    def serves(self) -> bool:
        """Whether solvers take columns from here."""
        return self.size > 0

    def _add(self, weights: np.ndarray, columns: np.ndarray, total: np.ndarray) -> None:
        """Runs of RUN columns are summed in single precision, and these sums in double."""
        single = weights.astype(np.float32)

        def add(rows: slice) -> None:
            for part in strips_of(0, columns.shape[0], RUN):
                total[..., rows] += single[..., part] @ columns[part, rows]

        in_threads(add, shares_of(total.shape[-1], columns.size))

    def scores(self, index: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(K[:, index] @ a, its error at most) for distinct columns; a of shape (l,) or (l, k).

        Each value errs by h_i h_j, times |K̂_ij| where that bound is relative; a is rounded to
        single precision, and a run of m terms errs by γ_{m+1} Σ |K̂_ij| |a_j|.
        """
        shape = (self.n, *a.shape[1:])
        top = float(np.max(np.abs(a), initial=0.0))
        if top == 0.0:
            return np.zeros(shape), np.zeros(shape)
        # so that none over- or underflows; 2^1024 itself is not a float
        unit = math.ldexp(1.0, min(math.frexp(top)[1], 1023))
        a = np.asarray(a, np.float64).reshape(index.size, -1) / unit
        h, size, k = self.weights, np.abs(a), a.shape[1]
        sums = gamma(RUN + 4, SINGLE_ROUNDOFF)
        if self.is_relative:
            stacked = np.concatenate([a, size * h[index][:, None], size], axis=1)
            found = self.product(index, stacked)
            scores, spread, mass = found[:, :k], found[:, k : 2 * k], found[:, 2 * k :]
            errors = h[:, None] * spread + sums * mass
        else:
            scores, norms = self.product(index, a), self._row_norms
            errors = np.outer(h, h[index] @ size)
            errors += 1.01 * sums * np.outer(norms, norms[index] @ size)
        lost = index.size * VANISHED * float(self._row_norms.max()) ** 2
        errors = WIDER * errors + lost
        return (scores * unit).reshape(shape), (errors * unit).reshape(shape)
