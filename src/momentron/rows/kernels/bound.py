"""What a kernel offers: values for pairs of rows, and a bound on how far they are from the true."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.arithmetic.rounding import UNIT_ROUNDOFF, up
from momentron.certificate import read_only
from momentron.errors import InputError
from momentron.rows.column_cache import Index

if TYPE_CHECKING:
    from momentron.rows.kernels.pairwise import SingleScores


class Kernel(ABC):
    """A positive semidefinite function of two rows, K(x, x′) = ⟨φ(x), φ(x′)⟩."""

    is_linear = False  # whether φ(x) is x itself

    @abstractmethod
    def bind(self, X: Any) -> "BoundKernel":
        """The kernel over the rows of X, which are held but not copied."""

    def block(self, A: Any, B: Any) -> np.ndarray:
        """K(a, b) for all rows of A and of B: float64 of shape (len(A), len(B))."""
        return self.bind(B).cross(A)

    def diagonal(self, A: Any) -> np.ndarray:
        """K(a, a) for each row of A, in float64."""
        return self.bind(A).diagonal()


class BoundKernel:
    """A kernel over the n rows of X: the matrix K, a block at a time.

    Parameters
    ----------
    block, cross : callable
        What the methods of these names do, unless a subclass has its own.
    matrix : ndarray of shape (n, n), optional
        K itself, if it is already in memory: float64, in C or Fortran order.

    Attributes
    ----------
    n : int
    relative_error : float
        ε: every value that `block` returns is within ε r_i r_j of the true K_ij, r the `row_norms`.
    row_norms : ndarray of shape (n,)
        Sure upper bounds of √K_ii. They are a hair above, so that ε r_i r_j also covers values too
        small for float64; zero only where X is zero altogether.
    diagonal_evaluations : int
        Number of kernel values computed for the diagonal; values read off the data are free.
    is_semidefinite : bool
        Whether K is positive semidefinite by construction; else it has to be checked.
    """

    n: int
    relative_error: float
    row_norms: np.ndarray
    diagonal_evaluations: int = 0
    is_semidefinite: bool = True
    matrix: np.ndarray | None = None
    _diagonal: np.ndarray

    def __init__(
        self,
        block: Callable[[Index, Index], np.ndarray],
        cross: Callable[[Any, Index], np.ndarray],
        matrix: np.ndarray | None = None,
    ) -> None:
        self._block, self._cross, self.matrix = block, cross, matrix

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        """K[rows][:, cols] in float64: to be read, not written, since it may be a view."""
        return self._block(rows, cols)

    def cross(self, B: Any, index: Index = slice(None)) -> np.ndarray:
        """K(b, x_i) for all rows of B and the named rows of X: what prediction needs."""
        return self._cross(B, index)

    def diagonal(self) -> np.ndarray:
        """K_ii of all rows."""
        return self._diagonal

    def single_scores(self, max_bytes: int) -> "SingleScores | None":
        """Scores from values in single precision, where a bound on their error is known."""
        return None

    def for_libsvm(self) -> tuple[Any, dict[str, Any]]:
        """The rows, and the kernel in the words of `SVC`; (None, {}) if it has none for it."""
        return None, {}

    def some(self, index: np.ndarray, K: np.ndarray) -> "BoundKernel":
        """The same over some of the rows, given the matrix of all their values."""
        kernel = BoundKernel(
            lambda rows, cols: K[rows][:, cols], lambda B, part: self.cross(B, index[part]), K
        )
        kernel.n, kernel.relative_error = index.size, self.relative_error
        kernel.is_semidefinite = self.is_semidefinite
        kernel.row_norms = read_only(self.row_norms[index])
        kernel._diagonal = self.diagonal()[index]
        return kernel

    def set_errors(
        self, diagonal: np.ndarray, relative: float, on_diagonal: float, absolute: float = 0.0
    ) -> None:
        """Keep the diagonal, ε and the row norms.

        Computed values are within `relative`·√(K_ii K_jj) + `absolute` of the true ones, and the
        diagonal within the relative error `on_diagonal`.
        """
        self.n, self._diagonal = diagonal.size, read_only(diagonal)
        self.relative_error = relative
        # K_ii ≤ K̂_ii/(1 − δ) and 1/√(1 − δ) ≤ 1 + δ up to δ = ½; the root and this product round
        grown = 1.0 + on_diagonal + 8.0 * UNIT_ROUNDOFF if on_diagonal <= 0.5 else np.inf
        # the error ε r_i r_j is at least `absolute` where both r are at least √(absolute/ε)
        pad = np.sqrt(absolute / relative) * (1.0 + 8.0 * UNIT_ROUNDOFF) if absolute > 0.0 else 0.0
        self.row_norms = read_only(np.sqrt(diagonal) * grown + pad)

    def widen(self, relative: float) -> None:
        """Allow this much more error, relative to √(K_ii K_jj), the diagonal included."""
        if relative > 0.0:
            self.relative_error = up(self.relative_error + relative)
            self.row_norms = read_only(self.row_norms * up(1.0 + relative, 8))


def require_finite_values(values: np.ndarray, name: str) -> None:
    """Raise with the first value that is NaN or infinite, if there is one."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InputError(
            f"{name} gives {values.ravel()[bad[0]]} for a pair of rows; kernel values must be "
            "finite: rescale X, or choose a kernel that does not overflow"
        )


def require_features(B: Any, n_features: int) -> None:
    """Raise unless B has as many columns as the rows that the kernel is bound to."""
    if B.shape[1] != n_features:
        raise InputError(
            f"the rows have {B.shape[1]} features, but the kernel was given rows with "
            f"{n_features}; they must agree"
        )
