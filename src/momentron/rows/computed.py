"""Rows that a class of the user's computes when they are asked for: no matrix is kept."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.certificate import read_only
from momentron.data.exactness.conversion import as_exact
from momentron.errors import InputError, short
from momentron.rows.dense import MatrixOperator
from momentron.rows.operator import row_blocks


class ComputedRows(ABC):
    """Rows that are computed on demand: what `max_margin` takes as X if there is no matrix.

    A subclass sets `shape` and computes the rows. These floats are the data for which everything is
    certified. `times` and `transposed_times` are used by solvers only, which nothing trusts, so a
    fast product may round as it likes.

    Attributes
    ----------
    shape : (n, d)

    Examples
    --------
    Differences of the rows of two tables, n·m of them:

    >>> import numpy as np
    >>> from momentron import max_margin
    >>> from momentron.rows import ComputedRows
    >>> class Differences(ComputedRows):
    ...     def __init__(self, A, B):
    ...         self.A, self.B = A, B
    ...         self.shape = (len(A) * len(B), A.shape[1])
    ...     def rows(self, index):
    ...         return self.A[index // len(self.B)] - self.B[index % len(self.B)]
    >>> X = Differences(np.array([[2.0, 0.0], [3.0, 1.0]]), np.array([[0.0, 0.0], [0.0, 5.0]]))
    >>> result = max_margin(X, [1, -1, 1, -1], max_iter=50)
    >>> X[:].shape
    (4, 2)
    """

    shape: tuple[int, int]
    dtype = np.dtype(np.float64)
    itemsize = 8
    ndim = 2

    @abstractmethod
    def rows(self, index: np.ndarray) -> np.ndarray:
        """The named rows, an array of shape (m, d) for m numbers; may be called by any thread.

        A row must have the same floats whenever it is asked for, alone or with others. Sums that
        BLAS orders by the size of a product may differ in the last digit: add up in a fixed
        order.
        """

    def times(self, w: np.ndarray) -> np.ndarray:
        """X w, for w of shape (d,) or (d, k)."""
        products = np.empty((self.shape[0], *w.shape[1:]), np.result_type(w, np.float64))
        for part in row_blocks(*self.shape):
            require_time()
            products[part] = self[part] @ w
        return products

    def transposed_times(self, a: np.ndarray) -> np.ndarray:
        """Xᵀ a, for a of shape (n,) or (n, k)."""
        total = np.zeros((self.shape[1], *a.shape[1:]), np.result_type(a, np.float64))
        for part in row_blocks(*self.shape):
            require_time()
            total += self[part].T @ a[part]
        return total

    # --- as an array ---------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many entries the rows have."""
        return self.shape[0] * self.shape[1]

    def __getitem__(self, index: slice | np.ndarray) -> np.ndarray:
        """The named rows, checked, in float64; not to be written to, since they may be the user's
        own."""
        if isinstance(index, slice):
            index = np.arange(*index.indices(self.shape[0]))
        rows = as_exact(self.rows(index))
        return read_only(_expected(self, "rows", rows, (index.size, self.shape[1])))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All the rows as a matrix."""
        return self[:].astype(dtype or np.float64, copy=False)

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        return self.times(w)


def require_shape(X: ComputedRows) -> None:
    """Refuse rows without a shape of two positive integers."""
    shape: Any = getattr(X, "shape", None)
    is_pair = isinstance(shape, tuple) and len(shape) == 2
    if not (is_pair and all(isinstance(size, int | np.integer) and size > 0 for size in shape)):
        raise InputError(
            f"{type(X).__name__}.shape is {short(shape)}; set it in __init__ to (rows, features), "
            "two positive integers"
        )


class ComputedOperator(MatrixOperator):
    """Computed rows as an operator: products by the user's class, certificates from the rows."""

    X: ComputedRows

    def apply(self, w: np.ndarray) -> np.ndarray:
        self.passes += 1
        return _expected(self.X, "times", self.X.times(w), (self.shape[0], *w.shape[1:]))

    def adjoint(self, a: np.ndarray) -> np.ndarray:
        self.passes += 1
        found = self.X.transposed_times(a)
        return _expected(self.X, "transposed_times", found, (self.shape[1], *a.shape[1:]))

    def scores_in_double(self, w: np.ndarray) -> np.ndarray:
        return ComputedRows.times(self.X, w)  # whatever the class makes of `times`


def _expected(X: ComputedRows, method: str, found: Any, shape: tuple[int, ...]) -> np.ndarray:
    """What a class of the user's gave, as float64 of the right shape."""
    if not isinstance(found, np.ndarray) or found.shape != shape:
        what = found.shape if isinstance(found, np.ndarray) else type(found).__name__
        raise InputError(
            f"{type(X).__name__}.{method} returned {what}; it must return an array of shape {shape}"
        )
    return found.astype(np.float64, copy=False)
