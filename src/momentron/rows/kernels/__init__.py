"""Kernels: by name as in scikit-learn, as a function, or as the matrix of their values."""

from typing import Any

import numpy as np

from momentron.errors import InputError, short
from momentron.rows.kernels.base import BoundKernel, Kernel
from momentron.rows.kernels.distances import GaussianKernel, LaplacianKernel
from momentron.rows.kernels.pairwise import LinearKernel, PolynomialKernel
from momentron.rows.kernels.parameters import as_gamma
from momentron.rows.kernels.points import as_rows
from momentron.rows.kernels.semidefinite import negative_part, require_semidefinite
from momentron.rows.kernels.values import CallableKernel, PrecomputedKernel

__all__ = [
    "BoundKernel",
    "CallableKernel",
    "GaussianKernel",
    "Kernel",
    "LaplacianKernel",
    "LinearKernel",
    "PolynomialKernel",
    "PrecomputedKernel",
    "as_kernel",
    "negative_part",
    "require_semidefinite",
]

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
        number. Others have none and ignore it, as scikit-learn does.
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
