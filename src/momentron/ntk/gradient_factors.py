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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from momentron.ntk.contraction import OutputPair
from momentron.ntk.model_structure import ELEMENTWISE, Unit


@dataclass(frozen=True)
class Workspace:
    """Where a factor may put its arrays, and how large its scratch arrays may be, in entries."""

    device: torch.device
    dtype: torch.dtype
    scratch: int

    def empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=self.dtype, device=self.device)


class FormCost(NamedTuple):
    """Memory and work of a form, for one example.

    Attributes
    ----------
    stored : int
        Entries kept.
    passing : int
        Entries held only while the batch of the example is being filled in.
    build : float
        Flops to turn u and δ into what is kept.
    pair : float
        Flops of the inner products with another example, all outputs.
    """

    stored: int
    passing: int
    build: float
    pair: float


class Gradients(ABC):
    """Derivatives of n examples with respect to some parameters, for some of the outputs."""

    @abstractmethod
    def add_products(
        self, other: Any, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        """Add inner products of rows here with rows there, for the outputs of each pair."""

    @abstractmethod
    def add_squares(self, other: Any, pairs: Sequence[OutputPair]) -> None:
        """Add each example's inner products with itself, in another block of the same examples."""


class ExplicitGradients(Gradients):
    """Gradients that are written out."""

    @abstractmethod
    def _matrices(
        self, other: Any, pairs: Sequence[OutputPair]
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Gradients here and there, one row per example, and where their products are added."""

    def add_products(
        self, other: Any, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        for left, right, target in self._matrices(other, pairs):
            add(target, left[rows] @ right[columns].T)

    def add_squares(self, other: Any, pairs: Sequence[OutputPair]) -> None:
        for left, right, target in self._matrices(other, pairs):
            add(target, torch.einsum("nd,nd->n", left, right))


class Factor(Gradients):
    """Derivatives of n examples with respect to one unit, for some of the outputs.

    It is filled in batches: `see` each call of the forward pass, `take` the gradient of each call
    for each output, then `finish` the batch.

    Parameters
    ----------
    unit : Unit
    n, outputs : int
        How many of each.
    workspace : Workspace
    """

    def __init__(self, unit: Unit, n: int, outputs: int, workspace: Workspace) -> None:
        self.unit = unit
        self.n = n
        self.outputs = outputs
        self.workspace = workspace
        ends = [sum(unit.positions[: k + 1]) for k in range(len(unit.positions))]
        self.places = [slice(end - p, end) for end, p in zip(ends, unit.positions, strict=True)]

    @staticmethod
    @abstractmethod
    def suits(unit: Unit) -> bool:
        """Whether the form exists for such a unit."""

    @staticmethod
    @abstractmethod
    def cost(unit: Unit, outputs: int, across: bool) -> FormCost:
        """Of one example and some outputs at a time; `across` if all outputs are paired."""

    @staticmethod
    def least_scratch(unit: Unit) -> int:
        """Entries of a scratch array that the products of one pair of examples take."""
        return 0

    @abstractmethod
    def see(self, rows: slice, call: int, module: nn.Module, x: Tensor) -> None:
        """Keep the input of a call."""

    @abstractmethod
    def take(self, rows: slice, call: int, module: nn.Module, o: int, gradient: Tensor) -> None:
        """Keep the gradient of output o with respect to the output of a call."""

    @abstractmethod
    def finish(self, rows: slice) -> None:
        """All calls and outputs of these rows are in: put them into the form that is kept."""


class DirectFactor(ExplicitGradients, Factor):
    """Gradients themselves: G of shape (n, outputs, g · C · F)."""

    def __init__(self, unit: Unit, n: int, outputs: int, workspace: Workspace) -> None:
        super().__init__(unit, n, outputs, workspace)
        self.gradients = workspace.empty(n, outputs, unit.groups * unit.channels * unit.fan_in)
        self._u: Tensor | None = None
        self._delta: Tensor | None = None

    @staticmethod
    def suits(unit: Unit) -> bool:
        return not unit.rule.gives_tokens

    @staticmethod
    def cost(unit: Unit, outputs: int, across: bool) -> FormCost:
        stored = unit.groups * outputs * unit.channels * unit.fan_in
        passing = unit.groups * unit.total_positions * (unit.fan_in + outputs * unit.channels)
        if unit.groups > 1:  # the groups' gradients are put in order by a copy
            passing += stored
        build = 2.0 * stored * unit.total_positions + ELEMENTWISE * stored
        return FormCost(stored, passing, build, 2.0 * stored * (outputs if across else 1))

    def see(self, rows: slice, call: int, module: nn.Module, x: Tensor) -> None:
        unit, n, P = self.unit, rows.stop - rows.start, self.unit.total_positions
        if self._u is None:
            self._u = self.workspace.empty(n, unit.groups, P, unit.fan_in)
            # zeros, because calls without a path to the outputs receive no gradient
            self._delta = self.workspace.zeros(n, unit.groups, self.outputs, unit.channels, P)
        unit.write_features(self._u[:, :, self.places[call]], module, x)

    def take(self, rows: slice, call: int, module: nn.Module, o: int, gradient: Tensor) -> None:
        assert self._delta is not None
        self._delta[:, :, o, :, self.places[call]] = self.unit.rule.deltas(module, gradient)

    def finish(self, rows: slice) -> None:
        assert self._u is not None and self._delta is not None
        n, g, k, _, P = self._delta.shape
        delta, u = self._delta.view(n * g, -1, P), self._u.view(n * g, P, -1)
        if g == 1:
            torch.bmm(delta, u, out=self.gradients[rows].view(n, -1, self.unit.fan_in))
        else:
            ordered = torch.bmm(delta, u).view(n, g, k, -1).transpose(1, 2)
            self.gradients[rows].view(n, k, g, -1).copy_(ordered)
        self._u = self._delta = None

    def _matrices(
        self, other: Self, pairs: Sequence[OutputPair]
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for mine, others, target in pairs:
            left, right = self.gradients[:, mine], other.gradients[:, others]
            yield left.flatten(1), right.flatten(1), target


class GramFactor(Factor):
    """u of shape (g, n, P, F) and δ of shape (g, n, P, outputs · C)."""

    def __init__(self, unit: Unit, n: int, outputs: int, workspace: Workspace) -> None:
        super().__init__(unit, n, outputs, workspace)
        self.u = self._empty_u()
        # zeros, because calls without a path to the outputs receive no gradient
        self.delta = workspace.zeros(unit.groups, n, unit.total_positions, outputs, unit.channels)

    def _empty_u(self) -> Tensor:
        unit = self.unit
        return self.workspace.empty(unit.groups, self.n, unit.total_positions, unit.fan_in)

    @staticmethod
    def suits(unit: Unit) -> bool:
        return not unit.rule.gives_tokens

    @staticmethod
    def least_scratch(unit: Unit) -> int:
        return unit.total_positions**2

    @staticmethod
    def cost(unit: Unit, outputs: int, across: bool) -> FormCost:
        positions, pairs = unit.groups * unit.total_positions, outputs**2 if across else 1
        stored = positions * (unit.fan_in + outputs * unit.channels)
        deltas = 2.0 * unit.channels * (pairs if across else outputs)
        products = 2.0 * unit.fan_in + deltas + ELEMENTWISE * pairs
        pair = positions * unit.total_positions * products
        return FormCost(stored, 0, ELEMENTWISE * stored, pair)

    def see(self, rows: slice, call: int, module: nn.Module, x: Tensor) -> None:
        self.unit.write_features(self.u[:, rows, self.places[call]].transpose(0, 1), module, x)

    def take(self, rows: slice, call: int, module: nn.Module, o: int, gradient: Tensor) -> None:
        delta = self.unit.rule.deltas(module, gradient)
        self.delta[:, rows, self.places[call], o] = delta.permute(1, 0, 3, 2)

    def finish(self, rows: slice) -> None:
        """Nothing is left to do: u and δ are what is kept."""

    def add_products(
        self, other: Self, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        P, scratch = self.unit.total_positions, self.workspace.scratch
        height = min(shape[0], max(1, math.isqrt(scratch) // P))
        width = max(1, scratch // (height * P * P))
        for group in range(self.unit.groups):
            for left in pieces(shape[0], height):
                mine = self._tile(group, shifted(left, rows))
                for right in pieces(shape[1], width):
                    targets = [pair.target[left, right] for pair in pairs]
                    others = other._tile(group, shifted(right, columns))
                    self._add_tile(mine, others, pairs, targets)

    def _tile(self, group: int, rows: slice) -> tuple[Tensor, Tensor]:
        """u and δ with one row for each example and position."""
        return self.u[group, rows].flatten(0, 1), self.delta[group, rows].flatten(0, 1)

    def _add_tile(
        self,
        mine: tuple[Tensor, Tensor],
        others: tuple[Tensor, Tensor],
        pairs: Sequence[OutputPair],
        targets: Sequence[Tensor],
    ) -> None:
        """Sum (u_p·u'_p')(δ_p·δ'_p') over all pairs of positions, for each pair."""
        inputs = self._inputs(mine[0], others[0])
        for pair, target in zip(pairs, targets, strict=True):
            left, right = mine[1][:, pair.left].flatten(1), others[1][:, pair.right].flatten(1)
            both = (left @ right.T).mul_(inputs)
            if both.shape != target.shape:
                P = self.unit.total_positions
                both = both.view(len(target), P, -1, P).sum((1, 3))
            add(target, both)

    def _inputs(self, mine: Tensor, others: Tensor) -> Tensor:
        """u_p·u'_p'."""
        return mine @ others.mT

    def add_squares(self, other: Self, pairs: Sequence[OutputPair]) -> None:
        size = max(1, self.workspace.scratch // self.unit.total_positions**2)
        for group in range(self.unit.groups):
            for rows in pieces(self.n, size):
                inputs = self._inputs(self.u[group, rows], other.u[group, rows])
                for a, b, target in pairs:
                    left = self.delta[group, rows][:, :, a].flatten(2)
                    right = other.delta[group, rows][:, :, b].flatten(2)
                    add(target[rows], (left @ right.mT).mul_(inputs).sum((1, 2)))


class TokenFactor(GramFactor):
    """A Gram form for embeddings: u_p·u'_p' is 1 where two tokens are the same, else 0."""

    def _empty_u(self) -> Tensor:
        shape = (1, self.n, self.unit.total_positions, 1)
        return torch.empty(shape, dtype=torch.int64, device=self.workspace.device)

    @staticmethod
    def suits(unit: Unit) -> bool:
        return unit.rule.gives_tokens

    @staticmethod
    def cost(unit: Unit, outputs: int, across: bool) -> FormCost:
        stored = unit.total_positions * (2 + outputs * unit.channels)
        pairs = outputs**2 if across else 1
        deltas = unit.channels * (pairs if across else outputs)
        pair = unit.total_positions**2 * 2.0 * (deltas + ELEMENTWISE * pairs)
        return FormCost(stored, 0, ELEMENTWISE * stored, pair)

    def _inputs(self, mine: Tensor, others: Tensor) -> Tensor:
        same = (mine == others.mT).logical_and_(mine >= 0)  # −1 is the padding token
        return same.to(self.workspace.dtype)


FORMS: tuple[type[Factor], ...] = (DirectFactor, GramFactor, TokenFactor)


class WrittenGradients(ExplicitGradients):
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

    def _matrices(
        self, other: WrittenGradients, pairs: Sequence[OutputPair]
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for mine, others, target in pairs:
            outputs = zip(self._of_output[mine], other._of_output[others], strict=True)
            for left_output, right_output in outputs:
                for left, right in zip(left_output, right_output, strict=True):
                    yield *_as_matrices(left, right), target


def written_cost(entries: int, outputs: int, across: bool) -> FormCost:
    """Of gradients that are written out, for one example."""
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


def pieces(n: int, size: int) -> Iterator[slice]:
    """0 to n in parts of a size; the last may be smaller."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def shifted(part: slice, whole: slice) -> slice:
    """A part of a block, in the rows that the block is a part of."""
    return slice(whole.start + part.start, whole.start + part.stop)
