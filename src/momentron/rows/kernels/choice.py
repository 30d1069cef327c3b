"""A kernel as users choose it: a name with parameters, a function, a matrix, or a Kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.rows import KernelOperator
from momentron.rows.kernels import (
    BoundKernel,
    Kernel,
    PrecomputedKernel,
    as_kernel,
    negative_part,
)
from momentron.rows.kernels.parameters import require_parameters

CHECKED_ROWS = 200  # on which a kernel that might be indefinite is tried, whatever the method


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

    def bind(self, X: Any) -> BoundKernel:
        """The kernel over the rows of X."""
        return self.resolve(X).bind(X)

    def operator(self, X: Any) -> KernelOperator:
        """X as an operator, seen through the kernel."""
        bound = self.bind(X)
        if not bound.is_semidefinite:
            few = np.unique(np.linspace(0, bound.n - 1, CHECKED_ROWS).astype(int))
            values = bound.block(few, few)
            bound.diagonal_evaluations += 0 if bound.matrix is not None else values.size
            bound.widen(negative_part(values, few, bound.relative_error))
        return KernelOperator(bound, int(1e6 * self.cache_size))
