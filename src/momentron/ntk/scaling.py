"""Kernels as users get them: finite, and normalised if asked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from momentron.errors import InputError


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
    """The kernel, unless it has an entry that is no number."""
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
