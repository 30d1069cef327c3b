"""Gradients that are written out: those of the parameters that no unit covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from momentron.ntk.contraction import Meeting
from momentron.ntk.factors import Workspace, add


class WrittenGradients:
    """∂A_o(x_i)/∂θ of n examples and some outputs, one tensor per output and parameter.

    Inner products do not care for the order of the entries, so tensors are kept as autograd
    leaves them where the examples come in one batch; only several batches are copied together.

    Parameters
    ----------
    n, outputs : int
        How many of each.
    workspace : Workspace
    """

    def __init__(self, n: int, outputs: int, workspace: Workspace) -> None:
        self.n = n
        self.workspace = workspace
        self._of_output: list[list[Tensor]] = [[] for _ in range(outputs)]

    def take(self, o: int, rows: slice, gradients: Sequence[Tensor]) -> None:
        """Keep the gradients of output o for some of the examples, one tensor per parameter."""
        dtype = self.workspace.dtype
        if rows.stop - rows.start == self.n:
            self._of_output[o] = [gradient.to(dtype) for gradient in gradients]
            return
        if not self._of_output[o]:
            self._of_output[o] = [
                self.workspace.empty(self.n, *gradient.shape[1:]) for gradient in gradients
            ]
        for whole, gradient in zip(self._of_output[o], gradients, strict=True):
            whole[rows] = gradient

    def add_products(
        self, other: WrittenGradients, rows: slice, columns: slice, meetings: Sequence[Meeting]
    ) -> None:
        """Add inner products of rows here with rows there to where each meeting has its place."""
        for left, right, target in self._pairs(other, meetings):
            add(target, left[rows] @ right[columns].T)

    def add_squares(self, other: WrittenGradients, meetings: Sequence[Meeting]) -> None:
        """Add each example's inner products with itself."""
        for left, right, target in self._pairs(other, meetings):
            add(target, torch.einsum("nd,nd->n", left, right))

    def _pairs(
        self, other: WrittenGradients, meetings: Sequence[Meeting]
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for mine, others, target in meetings:
            outputs = zip(self._of_output[mine], other._of_output[others], strict=True)
            for left_output, right_output in outputs:
                for left, right in zip(left_output, right_output, strict=True):
                    yield *_as_matrices(left, right), target


def _as_matrices(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """One row per example, with the entries of both in the same order; no copy where one serves."""
    order = _order(left)
    if order == _order(right):
        left, right = left.permute(order), right.permute(order)
    return left.reshape(len(left), -1), right.reshape(len(right), -1)


def _order(gradients: Tensor) -> list[int]:
    """The axes as they follow in memory, the examples first."""
    strides = gradients.stride()
    return [0, *sorted(range(1, gradients.ndim), key=lambda axis: -strides[axis])]
