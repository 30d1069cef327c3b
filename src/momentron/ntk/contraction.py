"""What becomes of the outputs in a kernel: summed, each with itself, or each with each.

A *meeting* is a sum ⟨∂A_o(x), ∂A_p(x')⟩ over pairs (o, p) of outputs, with the matrix of all pairs
of examples to which it is added. Arrays are laid out so that the examples of one meeting are a
matrix with contiguous rows; `arranged` shows them as users know them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor

from momentron.ntk.symmetry import mirror


class Meeting(NamedTuple):
    """Outputs of the rows, those of the columns (paired off and summed), and where it goes."""

    left: slice
    right: slice
    target: Tensor


class Contraction(ABC):
    """A way to treat outputs.

    Attributes
    ----------
    across : bool
        Whether different outputs meet.
    """

    across: bool = False

    @abstractmethod
    def shape(self, n1: int, n2: int, k: int) -> tuple[int, ...]:
        """Of the array in memory, for n1 × n2 examples and k outputs."""

    @abstractmethod
    def meetings(
        self, total: Tensor, a: range, b: range, rows: slice, columns: slice
    ) -> list[Meeting]:
        """Of outputs a of some rows with outputs b of some columns."""

    @abstractmethod
    def diagonal_shape(self, n: int, k: int) -> tuple[int, ...]:
        """Of the array in memory for K(x, x) of n examples: the examples are the last axis."""

    @abstractmethod
    def on_diagonal(self, total: Tensor, a: range, b: range, rows: slice) -> list[Meeting]:
        """Of outputs a with outputs b of the same rows."""

    @abstractmethod
    def swapped(self, total: Tensor) -> Tensor:
        """A view in which rows and columns have changed places."""

    @abstractmethod
    def mirror(self, total: Tensor) -> None:
        """Fill in what is below the diagonal of a symmetric kernel."""

    @abstractmethod
    def arranged(self, total: Tensor) -> Tensor:
        """A view of shape (n1, n2, …)."""

    @abstractmethod
    def traces(self, total: Tensor) -> Tensor:
        """Σ_o K_oo(x, x) of each example of a symmetric kernel."""


class Traced(Contraction):
    """K = Σ_o K_oo, of shape (n1, n2)."""

    def shape(self, n1: int, n2: int, k: int) -> tuple[int, ...]:
        return n1, n2

    def meetings(
        self, total: Tensor, a: range, b: range, rows: slice, columns: slice
    ) -> list[Meeting]:
        every = slice(0, len(a))
        return [Meeting(every, every, total[rows, columns])]

    def diagonal_shape(self, n: int, k: int) -> tuple[int, ...]:
        return (n,)

    def on_diagonal(self, total: Tensor, a: range, b: range, rows: slice) -> list[Meeting]:
        every = slice(0, len(a))
        return [Meeting(every, every, total[rows])]

    def swapped(self, total: Tensor) -> Tensor:
        return total.T

    def mirror(self, total: Tensor) -> None:
        mirror(total)

    def arranged(self, total: Tensor) -> Tensor:
        return total

    def traces(self, total: Tensor) -> Tensor:
        return total.diagonal().clone()


class SameOutput(Contraction):
    """K_oo for each o: of shape (k, n1, n2) in memory, and (n1, n2, k) for users."""

    def shape(self, n1: int, n2: int, k: int) -> tuple[int, ...]:
        return k, n1, n2

    def meetings(
        self, total: Tensor, a: range, b: range, rows: slice, columns: slice
    ) -> list[Meeting]:
        return [
            Meeting(_only(i), _only(i), total[o, rows, columns])
            for i, o in enumerate(a)  # b is the same
        ]

    def diagonal_shape(self, n: int, k: int) -> tuple[int, ...]:
        return k, n

    def on_diagonal(self, total: Tensor, a: range, b: range, rows: slice) -> list[Meeting]:
        return [Meeting(_only(i), _only(i), total[o, rows]) for i, o in enumerate(a)]

    def swapped(self, total: Tensor) -> Tensor:
        return total.transpose(1, 2)

    def mirror(self, total: Tensor) -> None:
        for kernel in total:
            mirror(kernel)

    def arranged(self, total: Tensor) -> Tensor:
        return total.permute(1, 2, 0)

    def traces(self, total: Tensor) -> Tensor:
        return total.diagonal(dim1=1, dim2=2).sum(0)


class PerOutput(Contraction):
    """K_op for all o and p: (k, n1, k, n2) in memory, and (n1, n2, k, k) for users."""

    across = True

    def shape(self, n1: int, n2: int, k: int) -> tuple[int, ...]:
        return k, n1, k, n2

    def meetings(
        self, total: Tensor, a: range, b: range, rows: slice, columns: slice
    ) -> list[Meeting]:
        return [
            Meeting(_only(i), _only(j), total[o, rows, p, columns])
            for i, o in enumerate(a)
            for j, p in enumerate(b)
        ]

    def diagonal_shape(self, n: int, k: int) -> tuple[int, ...]:
        return k, k, n

    def on_diagonal(self, total: Tensor, a: range, b: range, rows: slice) -> list[Meeting]:
        return [
            Meeting(_only(i), _only(j), total[o, p, rows])
            for i, o in enumerate(a)
            for j, p in enumerate(b)
        ]

    def swapped(self, total: Tensor) -> Tensor:
        return total.permute(2, 3, 0, 1)

    def mirror(self, total: Tensor) -> None:
        k = total.shape[0]
        for o in range(k):
            for p in range(k):
                mirror(total[o, :, p], total[p, :, o])
                if o < p:  # the same numbers, from different products
                    total[p, :, o].diagonal().copy_(total[o, :, p].diagonal())

    def arranged(self, total: Tensor) -> Tensor:
        return total.permute(1, 3, 0, 2)

    def traces(self, total: Tensor) -> Tensor:
        return total.diagonal(dim1=0, dim2=2).diagonal(dim1=0, dim2=1).sum(0)


TRACED, SAME_OUTPUT, PER_OUTPUT = Traced(), SameOutput(), PerOutput()


def _only(output: int) -> slice:
    return slice(output, output + 1)
