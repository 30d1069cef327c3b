"""A kernel that is a function of the user's: f(A, B) gives the values of all pairs of rows."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError, InputTypeError, one_line
from momentron.kernels.base import BoundKernel, Index, Kernel, require_finite_values
from momentron.kernels.matrix import FLOAT_ERROR
from momentron.rounding import up

DIAGONAL_ROWS = 32  # rows per call for the diagonal: only one value in so many is used
SAMPLE_ROWS = 31  # odd, so that the two halves differ in size
LARGEST_NOISE = 1e-4  # what is refused, relative to √(K_ii K_jj)


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """K(a, b) = f(A, B) for a row of A and one of B, as scikit-learn's callable kernels.

    Parameters
    ----------
    function : callable
        f(A, B) of shape (len(A), len(B)); A and B are rows of X as it was passed.

    Notes
    -----
    The values are taken as they are. Certificates hold for every positive semidefinite matrix that
    differs from theirs by at most ε√(K_ii K_jj) an entry: ε is 16u, u = 2⁻⁵³, and four times what
    the values for one pair of rows were found to differ from call to call, and what was found of
    negative eigenvalues, as `PrecomputedKernel` says. For a function that computes in float32 that
    is some 1e-7; the matrix of its values, computed once and passed as "precomputed", has no such
    noise.
    """

    function: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        try:
            inspect.signature(self.function).bind(None, None)
        except TypeError as error:
            raise InputTypeError(
                f"the kernel {one_line(self.name, 40)} cannot be called as f(A, B): "
                f"{one_line(error)}; pass a function of two arrays of rows"
            ) from None
        except ValueError:
            pass  # written in another language, it has no signature

    @property
    def name(self) -> str:
        """What the function calls itself."""
        return str(getattr(self.function, "__qualname__", type(self.function).__qualname__))

    def bind(self, X: Any) -> "BoundFunction":
        return BoundFunction(self, X if sp.issparse(X) else np.asarray(X))

    def values(self, A: Any, B: Any) -> np.ndarray:
        """f(A, B), checked."""
        values = np.asarray(self.function(A, B))
        shape = (A.shape[0], B.shape[0])
        if values.shape != shape:
            raise InputError(
                f"the kernel {self.name} returned an array of shape {values.shape} for {shape[0]} "
                f"and {shape[1]} rows; it must have shape {shape}"
            )
        if values.dtype.kind not in "biuf":
            raise InputError(
                f"the kernel {self.name} returned entries of type {values.dtype}; they must be "
                "real numbers"
            )
        values = values.astype(np.float64, copy=False)
        require_finite_values(values, f"the kernel {self.name}")
        return values


class BoundFunction(BoundKernel):
    """A function over the rows of X.

    Parameters
    ----------
    kernel : CallableKernel
    X : ndarray or sparse matrix with n rows
        Held, not copied.
    """

    is_semidefinite = False

    def __init__(self, kernel: CallableKernel, X: Any) -> None:
        if X.ndim == 0 or X.shape[0] == 0:
            raise InputError(f"X has shape {X.shape}; a kernel needs at least one row")
        self.kernel = kernel
        self.X = X.tocsr() if sp.issparse(X) else X
        self.n = int(X.shape[0])
        diagonal = self._compute_diagonal()
        error = up(FLOAT_ERROR + 4.0 * self._measured_noise(np.sqrt(diagonal)), 8)
        self._set_errors(diagonal, error, on_diagonal=FLOAT_ERROR, absolute=0.0)

    def _compute_diagonal(self) -> np.ndarray:
        diagonal = np.empty(self.n)
        for start in range(0, self.n, DIAGONAL_ROWS):
            part = slice(start, min(start + DIAGONAL_ROWS, self.n))
            rows = self.X[part]
            values = self.kernel.values(rows, rows)
            diagonal[part] = np.diagonal(values)
            self.diagonal_evaluations += values.size
        i = int(diagonal.argmin())
        if diagonal[i] < 0.0:
            raise InputError(
                f"the kernel {self.kernel.name} gives {float(diagonal[i])!r} for row {i} with "
                "itself; a positive semidefinite kernel gives at least 0"
            )
        return diagonal

    def _measured_noise(self, roots: np.ndarray) -> float:
        """By how much values for one pair of rows differ from call to call, over √(K_ii K_jj).

        A few rows are asked for in either order, and all together.
        """
        sample = np.unique(np.linspace(0, self.n - 1, min(SAMPLE_ROWS, self.n)).astype(np.intp))
        half = (sample.size + 1) // 2
        if half == sample.size:
            return 0.0
        A, B = sample[:half], sample[half:]
        forth, back, rows = self.block(A, B), self.block(B, A), self.X[sample]
        whole = self.kernel.values(rows, rows)
        self.diagonal_evaluations += forth.size + back.size + whole.size
        several = np.stack([forth, back.T, whole[:half, half:], whole[half:, :half].T])
        low, high = several.min(axis=0), several.max(axis=0)
        limits = np.outer(roots[A], roots[B])
        bad = np.argwhere(high - low > LARGEST_NOISE * limits)
        if bad.size:
            i, j = bad[0]
            raise InputError(
                f"the kernel {self.kernel.name} gives {float(low[i, j])!r} and "
                f"{float(high[i, j])!r} for rows {A[i]} and {B[j]}, as the order or the number of "
                "rows in the call has it; it must be a symmetric function of two rows"
            )
        return float(((high - low)[limits > 0.0] / limits[limits > 0.0]).max(initial=0.0))

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        return self.kernel.values(self.X[rows], self.X[cols])

    def cross(self, B: Any, index: Index = slice(None)) -> np.ndarray:
        B = B.tocsr() if sp.issparse(B) else np.asarray(B)
        return self.kernel.values(B, self.X[index])
