"""What becomes of the outputs in a kernel: summed, each with itself, or each with each.

An *output pair* is a sum ⟨∂A_o(x), ∂A_p(x')⟩ over pairs (o, p) of outputs, with the matrix of all
pairs of examples to which it is added. In memory the outputs are the first axes, so that the
examples of one output pair are a matrix with contiguous rows; `arranged` shows them as users know
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:  # the kernel in closed form mirrors, too, and needs numpy alone
    from torch import Tensor

_ROWS = 512


class OutputPair(NamedTuple):
    """Outputs of rows and of columns (paired off and summed), and where the sum goes."""

    left: slice
    right: slice
    target: Tensor


@dataclass(frozen=True)
class Contraction:
    """A way to treat outputs.

    Attributes
    ----------
    axes : int
        Axes of outputs that a result has: 0 sums K_oo over o, 1 keeps K_oo for each o, and 2 keeps
        K_op for all o and p.
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
        if self.axes == 1:  # b is the same as a
            return [OutputPair(_only(i), _only(i), total[(o, *examples)]) for i, o in enumerate(a)]
        return [
            OutputPair(_only(i), _only(j), total[(o, p, *examples)])
            for i, o in enumerate(a)
            for j, p in enumerate(b)
        ]

    def swapped(self, total: Tensor) -> Tensor:
        """A view in which rows and columns have changed places."""
        return total.transpose(0, 1).mT if self.across else total.mT

    def mirror(self, total: Tensor) -> None:
        """Fill in what is below the diagonal of a symmetric kernel."""
        for outputs in product(range(len(total)), repeat=self.axes):
            upper, lower = total[outputs], total[outputs[::-1]]
            mirror(upper, lower)
            if outputs < outputs[::-1]:  # the same numbers, from different products
                lower.diagonal().copy_(upper.diagonal())

    def arranged(self, total: Tensor) -> Tensor:
        """A view with the examples first."""
        return total.movedim(tuple(range(self.axes)), tuple(range(-self.axes, 0)))

    def traces(self, total: Tensor) -> Tensor:
        """Σ_o K_oo(x, x) of each example, from a kernel of examples with themselves."""
        squares = total.diagonal(dim1=-2, dim2=-1)
        if self.across:
            squares = squares.diagonal(dim1=0, dim2=1).mT
        return squares.sum(0) if self.axes else squares.clone()


TRACED, SAME_OUTPUT, PER_OUTPUT = (Contraction(axes) for axes in range(3))


def mirror(upper: Any, lower: Any = None) -> None:
    """Copy what is above the diagonal of a matrix to below the diagonal of another, or the same.

    Both are arrays of numpy, or tensors of torch.
    """
    lower = upper if lower is None else lower
    n = upper.shape[0]
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        lower[stop:, start:stop] = upper[start:stop, stop:].T
        below = np.tri(stop - start, k=-1, dtype=bool)
        lower[start:stop, start:stop][below] = upper[start:stop, start:stop].T[below]


def _only(output: int) -> slice:
    return slice(output, output + 1)
