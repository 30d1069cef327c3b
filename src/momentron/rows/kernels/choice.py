"""A kernel as users choose it: a name with parameters, a function, a matrix, or a Kernel."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.data.arguments import as_count, as_number, is_positive
from momentron.errors import InputError, short
from momentron.rows import KernelOperator
from momentron.rows.kernels.bound import Kernel
from momentron.rows.kernels.formulas import (
    GaussianKernel,
    LaplacianKernel,
    LinearKernel,
    PolynomialKernel,
    require_gamma,
)
from momentron.rows.kernels.pairwise import Points, as_rows
from momentron.rows.kernels.values import CallableKernel, PrecomputedKernel, negative_part
from momentron.rows.operator import squared_row_norms

CHECKED_ROWS = 200  # on which a kernel that might be indefinite is tried, whatever the method
RULES = ("scale", "auto")  # for gamma
NAMES = ("linear", "rbf", "poly", "polynomial", "laplacian", "precomputed")


def as_kernel(
    kernel: Any,
    *,
    X: Any,
    gamma: str | float = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    sample_weight: np.ndarray | None = None,
) -> Kernel:
    """The kernel that is meant by a name, a function or a Kernel, for training rows X.

    Parameters
    ----------
    kernel : str, callable or Kernel
        "linear", "rbf", "poly" (or "polynomial"), "laplacian" or "precomputed"; or a function
        f(A, B) that returns the (len(A), len(B)) values of all pairs of rows.
    X : array-like of shape (n, d)
        The training rows, from which gamma="scale" is computed.
    gamma : "scale", "auto" or float
        γ > 0 of "rbf", "poly" and "laplacian": 1/(d · variance of all entries of X), 1/d, or a
        number. Other kernels ignore it, as in scikit-learn.
    degree : int
        The degree of "poly", at least 1.
    coef0 : float
        The constant of "poly", at least 0.
    sample_weight : ndarray of shape (n,), optional
        How often each row counts for gamma="scale".

    Returns
    -------
    Kernel

    Examples
    --------
    >>> from momentron.rows.kernels import as_kernel
    >>> X = [[0.0, 1.0], [1.0, 1.0]]
    >>> kernel = as_kernel("poly", degree=2, gamma=1.0, X=X)
    >>> kernel.block(X, X)
    array([[1., 1.],
           [1., 4.]])
    """
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel) and not isinstance(kernel, type):
        return CallableKernel(kernel)
    if not isinstance(kernel, str) or kernel not in NAMES:
        raise InputError(
            f"kernel={short(kernel)} is unknown; choose one of {', '.join(NAMES)}, or pass a "
            "function f(A, B); for a matrix of values, pass it as X with kernel='precomputed'"
        )
    if kernel == "linear":
        return LinearKernel()
    if kernel == "precomputed":
        return PrecomputedKernel()
    number = _as_gamma(gamma, as_rows(X), sample_weight)
    if kernel == "rbf":
        return GaussianKernel(number)
    if kernel == "laplacian":
        return LaplacianKernel(number)
    return PolynomialKernel(number, degree, coef0)


def _as_gamma(gamma: Any, X: Any, sample_weight: np.ndarray | None) -> float:
    """γ as a number: 1/(d·variance of X's entries) for "scale", 1/d for "auto"."""
    require_gamma(gamma, RULES)
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    variance = _entry_variance(X, sample_weight)
    value = 1.0 / (X.shape[1] * variance) if variance != 0.0 else 1.0
    if not math.isfinite(value) or value <= 0.0:
        raise InputError(
            f"gamma='scale' is {value} for X, whose entries have the variance {variance}; "
            "rescale X or pass gamma as a number"
        )
    return value


@np.errstate(over="ignore", invalid="ignore")
def _entry_variance(X: Any, sample_weight: np.ndarray | None) -> float:
    """The variance of all entries of X, zeros included, in float64.

    E[(x − E[x])²] for dense X, E[x²] − E[x]² for sparse: as `SVC(gamma="scale")` has it. A row
    counts by its share, of which the mean is 1.
    """
    n, d = X.shape
    shares = np.ones(n) if sample_weight is None else sample_weight / sample_weight.mean()
    size = float(n) * d
    mean = float(shares @ np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()) / size
    if sp.issparse(X):
        squares = float(shares @ squared_row_norms(X))
        return max(0.0, squares / size - mean**2)
    return float(shares @ Points(X, np.full(d, mean)).squares) / size


@dataclass(frozen=True)
class KernelChoice:
    """A kernel as users name it, and the memory in MB that its values may take."""

    kernel: str | Kernel | Callable[..., Any]
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    cache_size: float = 1000.0

    def __post_init__(self) -> None:
        # also those that the kernel does not use
        require_gamma(self.gamma, RULES)
        as_count("degree", self.degree)
        as_number("coef0", self.coef0, "a finite number", math.isfinite)
        as_number("cache_size", self.cache_size, "a positive, finite number of MB", is_positive)

    @property
    def is_precomputed(self) -> bool:
        """Whether X is the matrix of the kernel's values."""
        is_named = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return is_named or isinstance(self.kernel, PrecomputedKernel)

    def resolve(self, X: Any, sample_weight: np.ndarray | None = None) -> Kernel:
        """The kernel with its parameters as numbers, which "scale" takes from the data."""
        options = {name: value for name, value in vars(self).items() if name != "cache_size"}
        return as_kernel(**options, X=X, sample_weight=sample_weight)

    def operator(self, X: Any, kernel: Kernel | None = None) -> KernelOperator:
        """X as an operator, seen through the kernel, which may be resolved already."""
        bound = (kernel or self.resolve(X)).bind(X)
        if not bound.is_semidefinite:
            few = np.unique(np.linspace(0, bound.n - 1, CHECKED_ROWS).astype(int))
            values = bound.block(few, few)
            bound.diagonal_evaluations += 0 if bound.matrix is not None else values.size
            bound.widen(negative_part(values, few, bound.relative_error))
        return KernelOperator(bound, int(1e6 * self.cache_size))
