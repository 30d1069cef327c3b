"""Kernels as users get them: of numpy or torch, finite, and normalised on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentron.errors import InputError, short

_NUMPY = {np.dtype(np.float64): torch.float64, np.dtype(np.float32): torch.float32}
_TORCH = (torch.float64, torch.float32)


@dataclass(frozen=True)
class ResultType:
    """The type of a result, and the library that it belongs to.

    Attributes
    ----------
    dtype : torch.dtype
    is_tensor : bool
        A tensor on the model's device, else an array of numpy.
    """

    dtype: torch.dtype
    is_tensor: bool

    @classmethod
    def parse(cls, dtype: Any) -> ResultType:
        """From what users pass: None, or float64 or float32 of numpy or of torch."""
        if isinstance(dtype, torch.dtype):
            if dtype in _TORCH:
                return cls(dtype, True)
        else:
            try:
                found = np.dtype(np.float64 if dtype is None else dtype)
            except TypeError:
                found = np.dtype(object)
            if found in _NUMPY:
                return cls(_NUMPY[found], False)
        raise InputError(f"dtype={short(dtype)} must be float64 or float32, from numpy or torch")

    def zeros(self, device: torch.device, *shape: int) -> Tensor:
        """Where a result is added up."""
        return torch.zeros(shape, dtype=self.dtype, device=device if self.is_tensor else "cpu")

    def finished(self, total: Tensor) -> Any:
        """The result as users get it; no copy where it has its type, and its place, already."""
        total = total if self.is_tensor else total.cpu()
        total = total.to(self.dtype)
        return total if self.is_tensor else total.numpy()


def inverse_roots(squares: Tensor) -> Tensor:
    """1/√s, and 0 where s is 0."""
    roots = squares.clamp(min=0.0).sqrt()
    return torch.where(roots > 0.0, 1.0 / roots, torch.zeros_like(roots))


def normalize_in_place(kernel: Tensor, rows: Tensor, columns: Tensor) -> None:
    """K_ij/√(K_ii K_jj); both factors at once, which keeps a symmetric kernel so."""
    left, right = inverse_roots(rows), inverse_roots(columns)
    for row, factor in zip(kernel, left, strict=True):
        row *= (factor * right).reshape(-1, *[1] * (row.ndim - 1))


def require_finite(kernel: Tensor) -> Tensor:
    """The kernel, unless it has an entry that is not finite."""
    if not bool(kernel.sum().isfinite()) and not bool(kernel.isfinite().all()):
        place = (~kernel.isfinite()).nonzero()[0].tolist()
        raise InputError(
            f"entry {tuple(place)} of the kernel is {float(kernel[tuple(place)])}; "
            "check that the inputs and the weights are finite and of moderate size"
        )
    return kernel


def block_matrix(kernel: Any) -> Any:
    """The kernel of all examples and outputs, from one that keeps the outputs apart.

    Parameters
    ----------
    kernel : array or Tensor of shape (n1, n2, k1, k2)
        As `EmpiricalNTK.per_output` and `EmpiricalNTK.pairs` return it.

    Returns
    -------
    array or Tensor of shape (n1·k1, n2·k2)
        Row i·k1 + o is output o of example i.

    Examples
    --------
    >>> import numpy as np
    >>> block_matrix(np.arange(8.0).reshape(1, 2, 2, 2))  # output 0 of one example, then 1
    array([[0., 1., 4., 5.],
           [2., 3., 6., 7.]])
    """
    if getattr(kernel, "ndim", 0) != 4:
        shape = tuple(getattr(kernel, "shape", ()))
        raise InputError(f"the kernel has shape {shape}; it must have 4 axes, (n1, n2, k1, k2)")
    n1, n2, k1, k2 = kernel.shape
    return kernel.swapaxes(1, 2).reshape(n1 * k1, n2 * k2)
