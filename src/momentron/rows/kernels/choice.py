"""A kernel as users choose it: a name with parameters, a function, a matrix, or a Kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.errors import InputError, short
from momentron.rows import KernelOperator
from momentron.rows.kernels.base import Kernel
from momentron.rows.kernels.distances import GaussianKernel, LaplacianKernel
from momentron.rows.kernels.pairwise import LinearKernel, PolynomialKernel
from momentron.rows.kernels.parameters import as_gamma, require_parameters
from momentron.rows.kernels.points import as_rows
from momentron.rows.kernels.semidefinite import negative_part
from momentron.rows.kernels.values import CallableKernel, PrecomputedKernel

CHECKED_ROWS = 200  # on which a kernel that might be indefinite is tried, whatever the method
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
    number = as_gamma(gamma, as_rows(X), sample_weight)
    if kernel == "rbf":
        return GaussianKernel(number)
    if kernel == "laplacian":
        return LaplacianKernel(number)
    return PolynomialKernel(number, degree, coef0)


@dataclass(frozen=True)
class KernelChoice:
    """A kernel as users name it, and the memory in MB that its values may take."""

    kernel: str | Kernel | Callable[..., Any]
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    cache_size: float = 1000.0

    def __post_init__(self) -> None:
        require_parameters(
            gamma=self.gamma, degree=self.degree, coef0=self.coef0, cache_size=self.cache_size
        )

    @property
    def is_precomputed(self) -> bool:
        """Whether X is the matrix of the kernel's values."""
        is_named = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return is_named or isinstance(self.kernel, PrecomputedKernel)

    def resolve(self, X: Any, sample_weight: np.ndarray | None = None) -> Kernel:
        """The kernel with its parameters as numbers, which "scale" takes from the data."""
        return as_kernel(
            self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            X=X,
            sample_weight=sample_weight,
        )

    def operator(self, X: Any, kernel: Kernel | None = None) -> KernelOperator:
        """X as an operator, seen through the kernel, which may be resolved already."""
        bound = (kernel or self.resolve(X)).bind(X)
        if not bound.is_semidefinite:
            few = np.unique(np.linspace(0, bound.n - 1, CHECKED_ROWS).astype(int))
            values = bound.block(few, few)
            bound.diagonal_evaluations += 0 if bound.matrix is not None else values.size
            bound.widen(negative_part(values, few, bound.relative_error))
        return KernelOperator(bound, int(1e6 * self.cache_size))
