"""The array of a kernel: the axes of its outputs, its type, its scale.

An *output pair* is a sum ⟨∂A_o(x), ∂A_p(x')⟩ over pairs (o, p) of outputs, with the matrix of all
pairs of examples to which it is added. In memory the outputs are the first axes, so that the
examples of one output pair are a matrix with contiguous rows; `arranged` shows them as users know
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from momentron.errors import InputError, short
from momentron.ntk.selection import pieces

ROWS = 512  # of a symmetric kernel that are mirrored at a time
_TORCH = {np.dtype(np.float64): torch.float64, np.dtype(np.float32): torch.float32}


class OutputPair(NamedTuple):
    """Outputs of rows and of columns (paired off and summed), and where the sum goes."""

    left: slice
    right: slice
    target: Tensor


@dataclass(frozen=True)
class Contraction:
    """A way to treat outputs, by the number of axes that a result has for them.

    0 sums K_oo over o, 1 keeps K_oo for each o, and 2 keeps K_op for all o and p.
    """

    axes: int

    @property
    def across(self) -> bool:
        """Whether different outputs are paired."""
        return self.axes == 2

    def shape(self, k: int, *examples: int) -> tuple[int, ...]:
        """Of the array in memory, for k outputs of n1 × n2 examples."""
        return (k,) * self.axes + examples

    def output_pairs(self, total: Tensor, a: range, b: range, *examples: slice) -> list[OutputPair]:
        """Of outputs a of some rows with outputs b of some columns."""
        if self.axes == 0:
            every = slice(0, len(a))
            return [OutputPair(every, every, total[examples])]
        numbers = enumerate(a), enumerate(b)  # without `across`, b is the same as a
        pairs = product(*numbers) if self.across else zip(*numbers, strict=True)
        return [
            OutputPair(slice(i, i + 1), slice(j, j + 1), total[(o, p)[: self.axes] + examples])
            for (i, o), (j, p) in pairs
        ]

    def swapped(self, kernel: Any) -> Any:
        """A view of a result in which rows and columns have changed places."""
        kernel = kernel.swapaxes(0, 1)
        return kernel.swapaxes(2, 3) if self.across else kernel

    def mirror(self, total: Tensor) -> None:
        """Fill in what is below the diagonal of a symmetric kernel."""
        for outputs in product(range(len(total)), repeat=self.axes):
            upper, lower = total[outputs], total[outputs[::-1]]
            for rows in pieces(len(upper), ROWS):
                lower[rows.stop :, rows] = upper[rows, rows.stop :].T
                square = upper[rows, rows]
                below = torch.ones_like(square, dtype=torch.bool).tril(-1)
                lower[rows, rows] = torch.where(below, square.T, lower[rows, rows])
            if outputs < outputs[::-1]:  # the same numbers, from different products
                lower.diagonal().copy_(upper.diagonal())

    def arranged(self, total: Tensor) -> Tensor:
        """A view with the examples first."""
        return total.movedim(tuple(range(self.axes)), tuple(range(-self.axes, 0)))

    def traces(self, total: Tensor) -> Tensor:
        """Σ_o K_oo(x, x) of each example, from a kernel of examples with themselves."""
        return torch.einsum("o" * self.axes + "ii->i", total).clone()


TRACED, SAME_OUTPUT, PER_OUTPUT = (Contraction(axes) for axes in range(3))


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
