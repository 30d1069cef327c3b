"""The tangent kernel of a two-layer ReLU network, in closed form and with numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from momentron.errors import InputError
from momentron.ntk.contraction import mirror

BLOCK = 2**21  # entries of the kernel worked on at a time


@dataclass(frozen=True)
class PreparedRows:
    """Rows with all that the kernel needs of them, from `TwoLayerReLUKernel.prepare`.

    Attributes
    ----------
    kernel : TwoLayerReLUKernel
        The kernel that made it.
    X : ndarray of shape (n, d)
    hidden : ndarray of shape (n, width)
        H = relu(XVᵀ).
    gates : ndarray of shape (n, width)
        G_ij = |a_j| where v_j·x_i > 0, else 0.
    scale : ndarray of shape (n,) or None
        1/√K_ii if the kernel is normalised (0 where K_ii = 0).
    """

    kernel: TwoLayerReLUKernel
    X: np.ndarray
    hidden: np.ndarray
    gates: np.ndarray
    scale: np.ndarray | None

    def __len__(self) -> int:
        return self.X.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> PreparedRows:
        """Some of the rows, by a slice or an array of indices."""
        scale = None if self.scale is None else self.scale[rows]
        return PreparedRows(self.kernel, self.X[rows], self.hidden[rows], self.gates[rows], scale)


class TwoLayerReLUKernel:
    r"""The tangent kernel of f(x) = Σ_j a_j relu(v_j·x), both layers trained.

    .. math::
        K(x, x') = \sum_j \mathrm{relu}(v_j·x)\, \mathrm{relu}(v_j·x')
                 + (x·x') \sum_j a_j^2 \, 1[v_j·x > 0] \, 1[v_j·x' > 0]

    An n1 × n2 kernel costs 2 n1 n2 (d + 2 width) flops in matrix products, once the rows of both
    sides are prepared at 2 d width flops each. Memory beyond the result and the prepared rows is
    a few megabytes.

    Parameters
    ----------
    n_features : int
        d.
    width : int
        The number of hidden units.
    random_state : int, Generator or None
        Weights are drawn from it: v_j ~ N(0, I/d) and a_j ~ N(0, 1/width).
    normalize : bool
        Divide K_ij by √(K_ii K_jj). A row with K_ii = 0 keeps zeros.
    dtype : float64 or float32
        Of all products and of the result; float32 takes half the time and memory.

    Attributes
    ----------
    V : ndarray of shape (width, n_features)
    a : ndarray of shape (width,)

    Examples
    --------
    >>> import numpy as np
    >>> kernel = TwoLayerReLUKernel.from_weights(np.eye(2), np.ones(2))
    >>> kernel([[1.0, 2.0]], [[1.0, 0.0], [1.0, 1.0]])  # relu and gates: 1 + 1·1, 3 + 3·2
    array([[2., 9.]])
    """

    def __init__(
        self,
        n_features: int,
        width: int = 128,
        random_state: int | np.random.Generator | None = 0,
        *,
        normalize: bool = False,
        dtype: DTypeLike = np.float64,
    ) -> None:
        for name, value in (("n_features", n_features), ("width", width)):
            if value < 1:
                raise InputError(f"{name}={value} is below the least of 1")
        rng = np.random.default_rng(random_state)
        V = rng.normal(scale=n_features**-0.5, size=(width, n_features))
        a = rng.normal(scale=width**-0.5, size=width)
        self._set(V, a, normalize, dtype)

    @classmethod
    def from_weights(
        cls,
        hidden: Any,
        outer: Any,
        *,
        normalize: bool = False,
        dtype: DTypeLike = np.float64,
    ) -> TwoLayerReLUKernel:
        """The kernel of given weights: `hidden` V of shape (width, d), `outer` a of (width,)."""
        kernel = cls.__new__(cls)
        kernel._set(hidden, outer, normalize, dtype)
        return kernel

    def _set(self, hidden: Any, outer: Any, normalize: bool, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float64, np.float32):
            raise InputError(f"dtype={self.dtype} is not supported; pass float64 or float32")
        self.V = np.ascontiguousarray(hidden, dtype=self.dtype)
        self.a = np.ascontiguousarray(outer, dtype=self.dtype)
        if self.V.ndim != 2 or self.a.shape != self.V.shape[:1]:
            raise InputError(
                f"hidden has shape {self.V.shape} and outer {self.a.shape}; "
                "they must be (width, d) and (width,)"
            )
        if not (np.isfinite(self.V).all() and np.isfinite(self.a).all()):
            raise InputError("hidden and outer weights must be finite; some are not")
        self.normalize = normalize

    def __repr__(self) -> str:
        width, d = self.V.shape
        words = [f"n_features={d}", f"width={width}"]
        words += ["normalize=True"] if self.normalize else []
        words += [f"dtype={self.dtype}"] if self.dtype != np.float64 else []
        return f"TwoLayerReLUKernel({', '.join(words)})"

    def __call__(self, X1: Any, X2: Any = None) -> np.ndarray:
        """The kernel of all pairs of rows.

        Parameters
        ----------
        X1, X2 : array-like of shape (n, d), or PreparedRows
            Without X2, or with X2 the same object as X1, the kernel of X1 with itself, exactly
            symmetric and at half the cost.

        Returns
        -------
        ndarray of shape (n1, n2)
        """
        symmetric = X2 is None or X2 is X1
        left = self.prepare(X1)
        right = left if symmetric else self.prepare(X2)
        n1, n2 = len(left), len(right)
        kernel = np.empty((n1, n2), self.dtype)
        size = max(1, min(n1, BLOCK // n2))
        scratch = np.empty((size, n2), self.dtype)
        for start in range(0, n1, size):
            stop = min(start + size, n1)
            first = start if symmetric else 0
            block = kernel[start:stop, first:]
            _fill(block, left[start:stop], right[first:], scratch[: stop - start, first:])
        if symmetric:
            mirror(kernel)
        if symmetric and left.scale is not None:
            np.fill_diagonal(kernel, left.scale > 0.0)
        return kernel

    def prepare(self, X: Any) -> PreparedRows:
        """What the kernel needs of rows that will be asked for more than once.

        Parameters
        ----------
        X : array-like of shape (n, d), or PreparedRows of this kernel

        Returns
        -------
        PreparedRows
            To be passed in place of X.
        """
        if isinstance(X, PreparedRows):
            if X.kernel is not self:
                raise InputError("these rows were prepared by another kernel; prepare them by this")
            return X
        X = self._rows(X)
        hidden = X @ self.V.T
        gates = (hidden > 0.0) * np.abs(self.a)
        np.maximum(hidden, 0.0, out=hidden)
        scale = _inverse_roots(_squares(X, hidden, gates)) if self.normalize else None
        return PreparedRows(self, X, hidden, gates, scale)

    def diagonal(self, X: Any) -> np.ndarray:
        """K(x, x) of each row, as the kernel has it on its diagonal."""
        rows = self.prepare(X)
        if rows.scale is not None:
            return (rows.scale > 0.0).astype(self.dtype)
        return _squares(rows.X, rows.hidden, rows.gates)

    def _rows(self, X: Any) -> np.ndarray:
        if sp.issparse(X):
            raise InputError("X is sparse; the kernel needs a dense array: pass X.toarray()")
        X = np.asarray(X, dtype=self.dtype)
        if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] != self.V.shape[1]:
            raise InputError(
                f"X has shape {X.shape}; the kernel needs at least 1 row "
                f"of {self.V.shape[1]} features"
            )
        with np.errstate(invalid="ignore", over="ignore"):
            total = X.sum(dtype=np.float64)
        if not np.isfinite(total) and not np.isfinite(X).all():
            raise InputError("X has entries that are not finite; remove or replace them")
        return X


def _fill(block: np.ndarray, left: PreparedRows, right: PreparedRows, scratch: np.ndarray) -> None:
    """K = (XX'ᵀ)∘(GG'ᵀ) + HH'ᵀ."""
    np.matmul(left.X, right.X.T, out=block)
    np.matmul(left.gates, right.gates.T, out=scratch)
    block *= scratch
    np.matmul(left.hidden, right.hidden.T, out=scratch)
    block += scratch
    if left.scale is not None and right.scale is not None:
        block *= left.scale[:, None]
        block *= right.scale[None, :]


def _squares(X: np.ndarray, hidden: np.ndarray, gates: np.ndarray) -> np.ndarray:
    """K(x, x) = ‖x‖² ‖g‖² + ‖h‖²."""
    x, h, g = (np.einsum("ij,ij->i", rows, rows) for rows in (X, hidden, gates))
    return x * g + h


def _inverse_roots(squares: np.ndarray) -> np.ndarray:
    roots = np.sqrt(squares)
    return np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0.0)
