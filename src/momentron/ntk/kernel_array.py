"""The array of a kernel: the axes of its outputs, its type, its scale.

In memory its shape is (b, n1, m, n2, m): b kernels, each of m outputs of every example, and each a
matrix with contiguous rows. `arranged` shows them as users know them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentron.errors import InputError, short
from momentron.ntk.selection import pieces

ROWS = 512  # of a symmetric kernel that are mirrored at a time
_TORCH = {np.dtype(np.float64): torch.float64, np.dtype(np.float32): torch.float32}


class Contraction(Enum):
    """A way to treat outputs: sum K_oo over o, keep K_oo for each o, or keep K_op for all o and p.

    The value is the number of axes that a result has for them.
    """

    TRACED = 0
    SAME_OUTPUT = 1
    PER_OUTPUT = 2

    @property
    def across(self) -> bool:
        """Whether different outputs are paired."""
        return self is Contraction.PER_OUTPUT

    def shape(self, k: int, n1: int, n2: int) -> tuple[int, ...]:
        """Of the array in memory, for k outputs of n1 × n2 examples."""
        m = k if self.across else 1
        return (k if self is Contraction.SAME_OUTPUT else 1, n1, m, n2, m)

    def parts(self, delta: Tensor) -> list[Tensor]:
        """Views (n, P, m, C) of derivatives (n, P, outputs, C), one for each of the kernels."""
        if self is Contraction.TRACED:
            return [delta.flatten(2).unsqueeze(2)]
        return [delta] if self.across else list(delta.split(1, dim=2))

    def targets(
        self, total: Tensor, a: range, b: range, rows: slice, columns: slice
    ) -> list[Tensor]:
        """Of outputs a of some rows with outputs b of some columns: (rows, m, columns, m) each."""
        left, right = slice(a.start, a.stop), slice(b.start, b.stop)
        if self is Contraction.SAME_OUTPUT:
            return list(total[left, rows, :, columns])
        return [total[0, rows, left, columns, right] if self.across else total[0, rows, :, columns]]

    def arranged(self, total: Tensor) -> Tensor:
        """A view with the examples first: (n1, n2), (n1, n2, k) or (n1, n2, k, k)."""
        if self is Contraction.SAME_OUTPUT:
            return total[:, :, 0, :, 0].movedim(0, 2)
        return total[0].transpose(1, 2) if self.across else total[0, :, 0, :, 0]


def mirror(total: Tensor) -> None:
    """Fill in what is below the diagonal of each symmetric kernel."""
    for kernel in total.flatten(3).flatten(1, 2):
        for rows in pieces(len(kernel), ROWS):
            kernel[rows.stop :, rows] = kernel[rows, rows.stop :].T
            square = kernel[rows, rows]
            square.copy_(square.triu() + square.triu(1).T)


@dataclass(frozen=True)
class ResultType:
    """The type of a result: a tensor on the model's device, or an array of numpy."""

    dtype: torch.dtype
    is_tensor: bool

    @classmethod
    def parse(cls, dtype: Any) -> ResultType:
        """From what users pass: None, or float64 or float32 of numpy or of torch."""
        is_tensor = isinstance(dtype, torch.dtype)
        try:
            found = dtype if is_tensor else _TORCH.get(np.dtype(dtype))  # None is float64
        except TypeError:
            found = None
        if found not in _TORCH.values():
            raise InputError(
                f"dtype={short(dtype)} must be float64 or float32, from numpy or torch"
            )
        return cls(found, is_tensor)

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
