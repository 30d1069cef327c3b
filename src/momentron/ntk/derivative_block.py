"""The derivatives of a block of examples, in forms that give inner products.

For one unit, with u_p the inputs and δ_p the output gradients of an example at position p,

    ⟨∂A(x), ∂A(x')⟩ = ⟨Σ_p δ_p u_pᵀ, Σ_p' δ'_p' u'_p'ᵀ⟩ = Σ_{p,p'} (u_p·u'_p')(δ_p·δ'_p'),

where u_p ends with a 1 if the bias is trained. A unit that is *factored* keeps u and δ, which is
cheap for large weights read at few positions; all other gradients are written out, which is cheap
for small weights read at many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from momentron.ntk.jacobian import Piece
from momentron.ntk.kernel_array import OutputPair
from momentron.ntk.memory_plan import Plan
from momentron.ntk.model_structure import Unit
from momentron.ntk.selection import pieces, shifted


class Block:
    """Derivatives of n examples, for some of the outputs."""

    def __init__(self, plan: Plan, n: int, outputs: range, dtype: torch.dtype) -> None:
        self.n, self.outputs, self.dtype, self.scratch = n, outputs, dtype, plan.scratch
        self.units, self.is_factored = plan.structure.units, plan.factored
        self.u: dict[int, Tensor] = {}  # of each unit that is factored, (n, P, F)
        self.delta: dict[int, Tensor] = {}  # of each unit that is factored, (n, P, outputs, C)
        # of each output and all else, (n, entries)
        self.written: list[dict[Any, Tensor]] = [{} for _ in outputs]

    def take(self, piece: Piece, start: int = 0) -> None:
        """Keep derivatives of some examples, which are counted from `start`."""
        rows, o, dtype = shifted(piece.rows, start), piece.output - self.outputs.start, self.dtype
        for place, unit in enumerate(self.units):
            u, delta = piece.inputs[place], piece.deltas[place].to(dtype)
            u = u if unit.rule.gives_tokens else u.to(dtype)
            if not self.is_factored[place]:
                product = unit.rule.products(unit.modules[0], u, delta)
                self._keep(self.written[o], place, rows, product)
                continue
            if place not in self.delta:
                shape = self.n, unit.positions, len(self.outputs), unit.channels
                self.delta[place] = delta.new_empty(shape)
            self.delta[place][rows, :, o] = delta
            if o == 0:
                self._keep(self.u, place, rows, u)
        for name, gradient in piece.gradients.items():
            self._keep(self.written[o], name, rows, gradient.reshape(len(gradient), -1).to(dtype))

    def _keep(self, wholes: dict[Any, Tensor], place: Any, rows: slice, part: Tensor) -> None:
        """Fill in some rows; no copy where they are all."""
        if rows.stop - rows.start == self.n:
            wholes[place] = part
            return
        if place not in wholes:
            wholes[place] = part.new_empty(self.n, *part.shape[1:])
        wholes[place][rows] = part

    def add_products(
        self, other: Block, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        """Add inner products of rows here with rows there, for the outputs of each pair."""
        for place in self.u:
            self._add_factored(place, other, rows, columns, pairs)
        for a, b, target in pairs:
            for left, right in zip(self._written(a), other._written(b), strict=True):
                _add(target, left[rows] @ right[columns].T)

    def _written(self, outputs: slice) -> Iterator[Tensor]:
        return chain.from_iterable(found.values() for found in self.written[outputs])

    def _add_factored(
        self, place: int, other: Block, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        unit, scratch = self.units[place], self.scratch
        P = unit.positions
        height = max(1, min(rows.stop - rows.start, math.isqrt(scratch) // P))
        width = max(1, scratch // (height * P * P))
        for left in pieces(rows.stop - rows.start, height):
            u, delta = self._tile(place, shifted(left, rows.start))
            for right in pieces(columns.stop - columns.start, width):
                other_u, other_delta = other._tile(place, shifted(right, columns.start))
                inputs = self._input_products(unit, u, other_u)
                for a, b, target in pairs:
                    part = target[left, right]
                    both = (delta[:, a].flatten(1) @ other_delta[:, b].flatten(1).T).mul_(inputs)
                    if P > 1:
                        both = both.view(len(part), P, -1, P).sum((1, 3))
                    _add(part, both)

    def _tile(self, place: int, rows: slice) -> tuple[Tensor, Tensor]:
        """u and δ with one row for each example and position."""
        return self.u[place][rows].flatten(0, 1), self.delta[place][rows].flatten(0, 1)

    def _input_products(self, unit: Unit, mine: Tensor, others: Tensor) -> Tensor:
        """u_p·u'_p'; of tokens, 1 where they agree."""
        if not unit.rule.gives_tokens:
            return mine @ others.mT
        same = (mine == others.mT).logical_and_(mine >= 0)  # −1 is the padding token
        return same.to(self.dtype)

    def add_squares(self, target: Tensor) -> None:
        """Add each example's inner product with itself, summed over the outputs."""
        for place, u in self.u.items():
            unit, delta = self.units[place], self.delta[place]
            for rows in pieces(self.n, max(1, self.scratch // unit.positions**2)):
                flat, inputs = delta[rows].flatten(2), self._input_products(unit, u[rows], u[rows])
                _add(target[rows], (flat @ flat.mT).mul_(inputs).sum((1, 2)))
        for gradient in self._written(slice(None)):
            _add(target, torch.einsum("nd,nd->n", gradient, gradient))


def _add(target: Tensor, part: Tensor) -> None:
    """Add to a part of the result, which may be on another device and of another type."""
    target += part.to(target.device)
