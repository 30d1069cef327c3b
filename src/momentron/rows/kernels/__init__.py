"""Kernels: by name as in scikit-learn, as a function, or as the matrix of their values."""

from momentron.rows.kernels.bound import BoundKernel, Kernel
from momentron.rows.kernels.choice import as_kernel
from momentron.rows.kernels.formulas import (
    GaussianKernel,
    LaplacianKernel,
    LinearKernel,
    PolynomialKernel,
)
from momentron.rows.kernels.values import (
    CallableKernel,
    PrecomputedKernel,
    negative_part,
    require_semidefinite,
)

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
