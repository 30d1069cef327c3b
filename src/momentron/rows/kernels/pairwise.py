"""Kernels of pairs of rows by formula: what a formula says, and its values a tile at a time."""

from abc import abstractmethod
from itertools import product
from typing import Any

import numpy as np

from momentron.arithmetic.threads import in_threads
from momentron.errors import short
from momentron.rows.kernels.bound import (
    BoundKernel,
    Index,
    Kernel,
    require_features,
    require_finite_values,
)
from momentron.rows.kernels.points import TILE_VALUES, Points, as_rows, pieces
from momentron.rows.kernels.single import SingleScores
from momentron.rows.operator import read_only_rows, shallow_copy

TILE_SIDE = 512  # the shorter side of a tile: long enough for a matrix product
FEW_ROWS = 4


class PairwiseKernel(Kernel):
    """A formula in ⟨x, x′⟩ and the squared norms, or in the differences of two rows."""

    is_bounded = False  # whether every value is finite for finite rows

    def bind(self, X: Any) -> "BoundPairwise":
        return BoundPairwise(self, self.points(as_rows(X)))

    def points(self, X: Any) -> Points:
        """The rows of X, placed where the formula loses the fewest digits."""
        return Points(X)

    def as_dense(self, left: Points, right: Points, shape: tuple[int, int]) -> tuple[bool, bool]:
        """Whether to turn the sparse rows on either side into dense ones, for a block so large."""
        if not (left.is_sparse and right.is_sparse):
            return False, False
        # one side is enough, and for a few rows it is faster however sparse they are
        on_left = shape[0] <= shape[1]
        pays = min(shape) <= FEW_ROWS or (left if on_left else right).is_crowded
        return pays and on_left, pays and not on_left

    def tile_values(self, points: Points) -> int:
        """How many values to compute at a time: few enough for deadlines and Ctrl-C to wait."""
        return TILE_VALUES

    @abstractmethod
    def fill(self, A: Any, B: Any, a2: Any, b2: Any, out: Any, scale: float = 1.0) -> None:
        """K(a, b) for all rows of A and of B into out, with a2 and b2 their ‖a‖² and ‖b‖².

        In single precision, rows and out are float32 and the rows have been multiplied by `scale`.
        """

    def single_weights(self, points: Points) -> tuple[np.ndarray, bool] | None:
        """(h, whether relative) as `SingleScores` explains them; None where there is no bound.

        Of the class itself: it is not inherited, since `fill` may differ.
        """
        return None

    @abstractmethod
    def errors(self, points: Points) -> tuple[float, float, float]:
        """(relative, on the diagonal, absolute) as `BoundKernel` explains them."""

    @abstractmethod
    def diagonal_of(self, points: Points) -> np.ndarray:
        """K(x, x) of every row."""


class BoundPairwise(BoundKernel):
    """A formula over the rows of X. Memory beyond a result: some 32 MB.

    Parameters
    ----------
    kernel : PairwiseKernel
    points : Points
    """

    def __init__(self, kernel: PairwiseKernel, points: Points) -> None:
        self.kernel = kernel
        self.points = points
        with np.errstate(over="ignore", invalid="ignore"):
            diagonal = kernel.diagonal_of(points)
        require_finite_values(diagonal, short(kernel))
        relative, on_diagonal, absolute = kernel.errors(points)
        if not diagonal.any() and not points.X.max() and not points.X.min():
            absolute = 0.0  # X is zero, so that nothing can have vanished
        self.set_errors(diagonal, relative, on_diagonal=on_diagonal, absolute=absolute)

    def for_solver(self) -> "BoundPairwise":
        other = shallow_copy(self)
        other.points = shallow_copy(self.points)
        other.points.X = read_only_rows(self.points.X)
        return other

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        return self.values(self.points, rows, cols)

    def single_scores(self, max_bytes: int) -> SingleScores | None:
        # a subclass that does not say how may have another formula
        is_known = "single_weights" in vars(type(self.kernel))
        if not is_known or (self.points.is_sparse and not self.points.is_crowded):
            return None
        weighed = self.kernel.single_weights(self.points)
        return None if weighed is None else SingleScores(self, *weighed, max_bytes)

    def cross(self, B: Any, index: Index = slice(None)) -> np.ndarray:
        B = as_rows(B)
        require_features(B, self.points.d)
        return self.values(Points(B, self.points.centre), slice(None), index)

    def values(
        self, left: Points, rows: Index, cols: Index, single: SingleScores | None = None
    ) -> np.ndarray:
        """K of some rows on the left with some of the bound ones, a tile at a time.

        In single precision where `single` has the rows for it, which are then those on the left.
        """
        right = self.points
        n_rows, n_cols = np.arange(left.n)[rows].size, np.arange(right.n)[cols].size
        out = np.empty((n_rows, n_cols), np.float64 if single is None else np.float32)
        dense_left, dense_right = self.kernel.as_dense(left, right, out.shape)
        if single is not None:  # whose rows are dense, whatever X is
            dense_left = dense_right = True
        height, width = left.tile(as_dense=dense_left), right.tile(as_dense=dense_right)
        most = self.kernel.tile_values(right)
        # long and narrow, since strided memory is slow to work on
        if n_rows <= n_cols:
            height = max(1, min(height, n_rows, TILE_SIDE))
            width = min(width, max(1, most // height))
        else:
            width = max(1, min(width, n_cols, TILE_SIDE))
            height = min(height, max(1, most // width))

        def fill(tile: tuple[tuple[slice, Any], tuple[slice, Any]]) -> None:
            (across, some_cols), (along, some_rows) = tile
            squares = left.squares[some_rows], right.squares[some_cols]
            tile_out = out[along, across]
            if single is not None:
                A, B = single.rows(some_rows), single.rows(some_cols)
                with np.errstate(under="ignore"):
                    self.kernel.fill(A, B, *squares, tile_out, single.scale)
                return
            A = left.take(some_rows, as_dense=dense_left)
            B = right.take(some_cols, as_dense=dense_right)
            with np.errstate(over="ignore", invalid="ignore"):
                self.kernel.fill(A, B, *squares, tile_out)
                if not self.kernel.is_bounded:
                    require_finite_values(tile_out, repr(self.kernel))

        parts = product(pieces(cols, right.n, width), pieces(rows, left.n, height))
        in_threads(fill, list(parts))
        return out
