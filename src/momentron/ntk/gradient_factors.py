"""The derivatives of a block of examples, in forms that give inner products.

For one unit, with u_p the inputs and δ_p the output gradients of an example at position p,

    ⟨∂A(x), ∂A(x')⟩ = ⟨Σ_p δ_p u_pᵀ, Σ_p' δ'_p' u'_p'ᵀ⟩ = Σ_{p,p'} (u_p·u'_p' + 1)(δ_p·δ'_p'),

where the 1 is there if the bias is trained. `DirectFactor` keeps the gradients of the middle, which
is cheap for small weights read at many positions; `GramFactor` keeps u and δ, which is cheap for
large weights read at few. Outputs are stacked, so that their sum is part of one matrix product.
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
    long : float
        How many of these are in products of long rows.
    """

    stored: int
    passing: int
    build: float
    pair: float
    long: float


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

    @abstractmethod
    def see(self, rows: slice, call: int, module: nn.Module, x: Tensor) -> None:
        """Keep the input of a call."""

    @abstractmethod
    def take(self, rows: slice, call: int, module: nn.Module, o: int, gradient: Tensor) -> None:
        """Keep the gradient of output o with respect to the output of a call."""

    @abstractmethod
    def finish(self, rows: slice) -> None:
        """All calls and outputs of these rows are in: put them into the form that is kept."""


class DirectFactor(Factor):
    """Gradients themselves: G of shape (n, outputs, g · C · F), and those of the bias."""

    def __init__(self, unit: Unit, n: int, outputs: int, workspace: Workspace) -> None:
        super().__init__(unit, n, outputs, workspace)
        width = unit.groups * unit.channels
        self.weights = workspace.empty(n, outputs, width * unit.fan_in) if unit.weight else None
        self.biases = workspace.empty(n, outputs, width) if unit.bias else None
        self._u: Tensor | None = None
        self._delta: Tensor | None = None

    @staticmethod
    def suits(unit: Unit) -> bool:
        return not unit.rule.gives_tokens

    @staticmethod
    def cost(unit: Unit, outputs: int, across: bool) -> FormCost:
        fan_in = unit.fan_in if unit.weight else 0
        stored = unit.groups * outputs * unit.channels * (fan_in + unit.bias)
        passing = unit.groups * unit.total_positions * (fan_in + outputs * unit.channels)
        if unit.groups > 1:  # the groups' gradients are put in order by a copy
            passing += unit.groups * outputs * unit.channels * max(fan_in, 1)
        build = 2.0 * stored * unit.total_positions + ELEMENTWISE * stored
        pair = 2.0 * stored * (outputs if across else 1)
        return FormCost(stored, passing, build, pair, long=pair)

    def see(self, rows: slice, call: int, module: nn.Module, x: Tensor) -> None:
        unit, n, P = self.unit, rows.stop - rows.start, self.unit.total_positions
        if self._delta is None:
            # zeros, because calls without a path to the outputs receive no gradient
            self._delta = self.workspace.zeros(n, unit.groups, self.outputs, unit.channels, P)
        if unit.weight:
            if self._u is None:
                self._u = self.workspace.empty(n, unit.groups, P, unit.fan_in)
            self._u[:, :, self.places[call]] = unit.rule.features(module, x)

    def take(self, rows: slice, call: int, module: nn.Module, o: int, gradient: Tensor) -> None:
        assert self._delta is not None
        self._delta[:, :, o, :, self.places[call]] = self.unit.rule.deltas(module, gradient)

    def finish(self, rows: slice) -> None:
        assert self._delta is not None
        n, g, k, _, P = self._delta.shape
        if self.biases is not None:
            bias = self._delta.sum(4).transpose(1, 2)  # groups after outputs
            self.biases[rows].view(n, k, g, -1).copy_(bias)
        if self.weights is not None and self._u is not None:
            delta, u = self._delta.view(n * g, -1, P), self._u.view(n * g, P, -1)
            if g == 1:
                torch.bmm(delta, u, out=self.weights[rows].view(n, -1, self.unit.fan_in))
            else:
                weight = torch.bmm(delta, u).view(n, g, k, -1).transpose(1, 2)
                self.weights[rows].view(n, k, g, -1).copy_(weight)
        self._u = self._delta = None

    def _parts(self, other: Self) -> Iterator[tuple[Tensor, Tensor]]:
        for left, right in ((self.weights, other.weights), (self.biases, other.biases)):
            if left is not None and right is not None:
                yield left, right

    def add_products(
        self, other: Self, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        for left, right in self._parts(other):
            for mine, others, target in pairs:
                add(target, left[rows, mine].flatten(1) @ right[columns, others].flatten(1).T)

    def add_squares(self, other: Self, pairs: Sequence[OutputPair]) -> None:
        for left, right in self._parts(other):
            for mine, others, target in pairs:
                pair = left[:, mine].flatten(1), right[:, others].flatten(1)
                add(target, torch.einsum("nd,nd->n", *pair))


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
        return unit.weight and not unit.rule.gives_tokens

    @staticmethod
    def cost(unit: Unit, outputs: int, across: bool) -> FormCost:
        positions, pairs = unit.groups * unit.total_positions, outputs**2 if across else 1
        stored = positions * (unit.fan_in + outputs * unit.channels)
        deltas = 2.0 * unit.channels * (pairs if across else outputs)
        products = 2.0 * unit.fan_in + deltas + ELEMENTWISE * pairs
        pair = positions * unit.total_positions * products
        return FormCost(stored, 0, ELEMENTWISE * stored, pair, long=0.0)

    def see(self, rows: slice, call: int, module: nn.Module, x: Tensor) -> None:
        u = self.unit.rule.features(module, x)
        self.u[:, rows, self.places[call]] = u.transpose(0, 1)

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
        width = min(shape[1], max(1, scratch // (height * P * P)))
        depth = min(P, max(1, scratch // (height * width * P)))  # below P for one pair only
        for group in range(self.unit.groups):
            for left in pieces(shape[0], height):
                for right in pieces(shape[1], width):
                    targets = [pair.target[left, right] for pair in pairs]
                    tile = other._tile(group, shifted(right, columns), slice(0, P))
                    for positions in pieces(P, depth):
                        mine = self._tile(group, shifted(left, rows), positions)
                        self._add_tile(mine, tile, pairs, targets)

    def _tile(self, group: int, rows: slice, positions: slice) -> tuple[Tensor, Tensor]:
        """u and δ with one row for each example and position."""
        u, delta = self.u[group, rows, positions], self.delta[group, rows, positions]
        return u.flatten(0, 1), delta.flatten(0, 1)

    def _add_tile(
        self,
        mine: tuple[Tensor, Tensor],
        others: tuple[Tensor, Tensor],
        pairs: Sequence[OutputPair],
        targets: Sequence[Tensor],
    ) -> None:
        """Sum (u_p·u'_p' + 1)(δ_p·δ'_p') over all pairs of positions, for each pair."""
        inputs = self._inputs(mine[0], others[0])
        for pair, target in zip(pairs, targets, strict=True):
            left, right = (
                mine[1][:, pair.left].flatten(1),
                others[1][:, pair.right].flatten(1),
            )
            both = (left @ right.T).mul_(inputs)
            height, width = target.shape
            if both.shape != target.shape:
                both = both.view(height, -1, width, both.shape[1] // width).sum((1, 3))
            add(target, both)

    def _inputs(self, mine: Tensor, others: Tensor) -> Tensor:
        """u_p·u'_p' + 1."""
        products = mine @ others.mT
        return products.add_(1.0) if self.unit.bias else products

    def add_squares(self, other: Self, pairs: Sequence[OutputPair]) -> None:
        size = self.workspace.scratch // self.unit.total_positions**2
        if size == 0:
            for rows in pieces(self.n, 1):
                alone = [OutputPair(a, b, target[rows, None]) for a, b, target in pairs]
                self.add_products(other, rows, rows, alone)
            return
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
        return FormCost(stored, 0, ELEMENTWISE * stored, pair, long=0.0)

    def _inputs(self, mine: Tensor, others: Tensor) -> Tensor:
        same = (mine == others.mT).logical_and_(mine >= 0)  # −1 is the padding token
        return same.to(self.workspace.dtype)


FORMS: tuple[type[Factor], ...] = (DirectFactor, GramFactor, TokenFactor)


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
