"""The derivatives of a block of examples, in forms that give inner products.

For one unit, with u_p the inputs and δ_p the output gradients of an example at position p,

    ⟨∂A(x), ∂A(x')⟩ = ⟨Σ_p δ_p u_pᵀ, Σ_p' δ'_p' u'_p'ᵀ⟩ = Σ_{p,p'} (u_p·u'_p')(δ_p·δ'_p'),

where u_p ends with a 1 if the bias is trained. `DirectFactor` keeps the gradients of the middle,
which is cheap for small weights read at many positions; `GramFactor` keeps u and δ, which is cheap
for large weights read at few. Outputs are stacked, so that their sum is part of one matrix product.
`WrittenGradients` keeps the gradients of parameters that no unit covers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from momentron.errors import InputError
from momentron.ntk.kernel_array import OutputPair
from momentron.ntk.model_structure import ELEMENTWISE, Unit
from momentron.ntk.selection import pieces, shifted


@dataclass(frozen=True)
class Workspace:
    """Where a factor may put its arrays, and how large its scratch arrays may be, in entries."""

    device: torch.device
    dtype: torch.dtype
    scratch: int

    def empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.device)


class FormCost(NamedTuple):
    """Memory and work of a form, for one example."""

    stored: int  # entries kept
    passing: int  # entries held only while the batch of the example is being filled in
    build: float  # flops to turn u and δ into what is kept
    pair: float  # flops of the inner products with another example, all outputs


class Gradients(ABC):
    """Derivatives of n examples with respect to some parameters, for some of the outputs."""

    @abstractmethod
    def add_products(
        self, other: Any, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        """Add inner products of rows here with rows there, for the outputs of each pair."""

    @abstractmethod
    def add_squares(self, target: Tensor) -> None:
        """Add each example's inner product with itself, summed over the outputs."""


class Factor(Gradients):
    """Derivatives of n examples with respect to one unit, for some of the outputs.

    It is filled in batches: `begin` a batch, `see` each call of the forward pass, `take` the
    gradient of each call for each output, then `finish` the batch.
    """

    u: Tensor  # (rows, g, P, F)
    delta: Tensor  # (rows, g, P, outputs, C)
    least_scratch = 0  # entries of a scratch array for one pair, as a multiple of P²

    def __init__(self, unit: Unit, n: int, outputs: int, workspace: Workspace) -> None:
        self.unit, self.n, self.outputs, self.workspace = unit, n, outputs, workspace
        ends = [sum(unit.positions[: k + 1]) for k in range(len(unit.positions))]
        self.places = [slice(end - p, end) for end, p in zip(ends, unit.positions, strict=True)]
        self._first, self._calls = 0, 0

    @staticmethod
    @abstractmethod
    def suits(unit: Unit) -> bool:
        """Whether the form exists for such a unit."""

    @staticmethod
    @abstractmethod
    def cost(unit: Unit, outputs: int, across: bool) -> FormCost:
        """The cost for one example and some outputs at a time; `across`: all outputs are paired."""

    def begin(self, rows: slice) -> None:
        """Make room for u and δ of these rows, unless there is room for all."""
        self._calls = 0

    def finish(self, rows: slice) -> None:
        """All calls and outputs of these rows are in: put them into the form that is kept."""
        self._require_calls(self._calls == len(self.places))

    def _require_calls(self, as_usual: bool) -> None:
        if not as_usual:
            raise InputError(
                f"a {type(self.unit.modules[0]).__name__} layer is called {self._calls} times for "
                f"some examples and {len(self.places)} times for the first; the kernel needs a "
                "model that runs the same layers for every example"
            )

    def _make_room(self, first: int, n: int) -> None:
        """For u and δ of n rows."""
        self._first, shape = first, (n, self.unit.groups, self.unit.total_positions)
        self.u = self.workspace.empty(*shape, self.unit.fan_in)
        # zeros, because calls without a path to the outputs receive no gradient
        self.delta = self.workspace.empty(*shape, self.outputs, self.unit.channels).zero_()

    @torch.no_grad()
    def see(self, rows: slice, module: nn.Module, x: Tensor) -> int:
        """Keep the input of a call, and return its number."""
        call = self._calls
        self._calls += 1
        self._require_calls(self._calls <= len(self.places))
        target = self.u[shifted(rows, -self._first), :, self.places[call]]
        has_bias = self.unit.bias is not None
        if self.unit.weight is not None:
            target[..., : self.unit.fan_in - has_bias] = self.unit.rule.features(module, x)
        if has_bias:
            target[..., -1] = 1
        return call

    def take(self, rows: slice, call: int, module: nn.Module, o: int, gradient: Tensor) -> None:
        """Keep the gradient of output o with respect to the output of a call."""
        delta = self.unit.rule.deltas(module, gradient)
        self.delta[shifted(rows, -self._first), :, self.places[call], o] = delta


class DirectFactor(Factor):
    """Gradients themselves: G of shape (n, g, outputs, C · F)."""

    def __init__(self, unit: Unit, n: int, outputs: int, workspace: Workspace) -> None:
        super().__init__(unit, n, outputs, workspace)
        self.gradients = workspace.empty(n, unit.groups, outputs, unit.channels * unit.fan_in)

    @staticmethod
    def suits(unit: Unit) -> bool:
        return not unit.rule.gives_tokens

    @staticmethod
    def cost(unit: Unit, outputs: int, across: bool) -> FormCost:
        stored = unit.groups * outputs * unit.channels * unit.fan_in
        passing = unit.groups * unit.total_positions * (unit.fan_in + outputs * unit.channels)
        build = 2.0 * stored * unit.total_positions + ELEMENTWISE * stored
        return FormCost(stored, passing, build, 2.0 * stored * (outputs if across else 1))

    def begin(self, rows: slice) -> None:
        super().begin(rows)
        self._make_room(rows.start, rows.stop - rows.start)

    def finish(self, rows: slice) -> None:
        super().finish(rows)
        delta, u = self.delta.flatten(3).flatten(0, 1).mT, self.u.flatten(0, 1)
        torch.bmm(delta, u, out=self.gradients[rows].view(len(u), -1, self.unit.fan_in))
        del self.u, self.delta

    def add_products(
        self, other: Self, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        for mine, others, target in pairs:
            left, right = self.gradients[rows, :, mine], other.gradients[columns, :, others]
            add(target, left.flatten(1) @ right.flatten(1).T)

    def add_squares(self, target: Tensor) -> None:
        flat = self.gradients.flatten(1)
        add(target, torch.einsum("nd,nd->n", flat, flat))


class GramFactor(Factor):
    """u and δ of all examples; for a single group, since others have small weights.

    Of the inputs of an embedding only tokens are kept: u_p·u'_p' is 1 where they agree, else 0.
    """

    least_scratch = 1

    def __init__(self, unit: Unit, n: int, outputs: int, workspace: Workspace) -> None:
        super().__init__(unit, n, outputs, workspace)
        self._make_room(0, n)
        if unit.rule.gives_tokens:
            self.u = self.u.to(torch.int64)

    @staticmethod
    def suits(unit: Unit) -> bool:
        return unit.groups == 1

    @staticmethod
    def cost(unit: Unit, outputs: int, across: bool) -> FormCost:
        P, pairs = unit.total_positions, outputs**2 if across else 1
        stored = P * (unit.fan_in + outputs * unit.channels)
        deltas = 2.0 * unit.channels * (pairs if across else outputs)
        pair = P * P * (2.0 * unit.fan_in + deltas + ELEMENTWISE * pairs)
        return FormCost(stored, 0, ELEMENTWISE * stored, pair)

    def add_products(
        self, other: Self, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        P, scratch = self.unit.total_positions, self.workspace.scratch
        height = max(1, min(rows.stop - rows.start, math.isqrt(scratch) // P))
        width = max(1, scratch // (height * P * P))
        for left in pieces(rows.stop - rows.start, height):
            u, delta = self._tile(shifted(left, rows.start))
            for right in pieces(columns.stop - columns.start, width):
                other_u, other_delta = other._tile(shifted(right, columns.start))
                inputs = self._inputs(u, other_u)
                for a, b, target in pairs:
                    part = target[left, right]
                    both = (delta[:, a].flatten(1) @ other_delta[:, b].flatten(1).T).mul_(inputs)
                    if P > 1:
                        both = both.view(len(part), P, -1, P).sum((1, 3))
                    add(part, both)

    def _tile(self, rows: slice) -> tuple[Tensor, Tensor]:
        """u and δ with one row for each example and position."""
        return self.u[rows].flatten(0, 2), self.delta[rows].flatten(0, 2)

    def _inputs(self, mine: Tensor, others: Tensor) -> Tensor:
        """u_p·u'_p'."""
        if not self.unit.rule.gives_tokens:
            return mine @ others.mT
        same = (mine == others.mT).logical_and_(mine >= 0)  # −1 is the padding token
        return same.to(self.workspace.dtype)

    def add_squares(self, target: Tensor) -> None:
        for rows in pieces(self.n, max(1, self.workspace.scratch // self.unit.total_positions**2)):
            u, delta = self.u[rows, 0], self.delta[rows, 0].flatten(2)
            add(target[rows], (delta @ delta.mT).mul_(self._inputs(u, u)).sum((1, 2)))


FORMS: tuple[type[Factor], ...] = (DirectFactor, GramFactor)


class WrittenGradients(Gradients):
    """∂A_o(x_i)/∂θ of n examples and some outputs, one tensor per output and parameter.

    Inner products do not care for the order of the entries, so tensors are kept as autograd
    leaves them where the examples come in one batch; only several batches are copied together.
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
        self, other: Self, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        for a, b, target in pairs:
            mine, others = chain(*self._of_output[a]), chain(*other._of_output[b])
            for left, right in map(_as_matrices, mine, others):
                add(target, left[rows] @ right[columns].T)

    def add_squares(self, target: Tensor) -> None:
        for gradient in chain(*self._of_output):
            flat, _ = _as_matrices(gradient, gradient)
            add(target, torch.einsum("nd,nd->n", flat, flat))


def written_cost(entries: int, outputs: int, across: bool) -> FormCost:
    """The cost of gradients that are written out, for one example."""
    pair = 2.0 * outputs * entries * (outputs if across else 1)
    return FormCost(outputs * entries, 3 * entries, 0.0, pair)


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


def add(target: Tensor, part: Tensor) -> None:
    """Add to a part of the result, which may be on another device and of another type."""
    target += part.to(target.device)
