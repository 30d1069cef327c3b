"""The derivatives of a block of examples, in a form that gives inner products.

For one unit, with u_p the inputs and δ_p the output gradients of an example at position p,

    ⟨∂A(x), ∂A(x')⟩ = ⟨Σ_p δ_p u_pᵀ, Σ_p' δ'_p' u'_p'ᵀ⟩ = Σ_{p,p'} (u_p·u'_p')(δ_p·δ'_p'),

where u_p ends with a 1 if the bias is trained. A unit that is *factored* keeps u and δ, which is
cheap for large weights read at few positions. All other gradients are written out, which is cheap
for small weights read at many: they are the δ of a single position, without u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from momentron.ntk.jacobian import Piece
from momentron.ntk.kernel_array import Contraction
from momentron.ntk.memory_plan import Plan
from momentron.ntk.selection import pieces, shifted


class Block:
    """Derivatives of n examples, for some of the outputs."""

    def __init__(self, plan: Plan, n: int, outputs: range, dtype: torch.dtype) -> None:
        self.plan, self.n, self.outputs, self.dtype = plan, n, outputs, dtype
        self.u: dict[int, Tensor] = {}  # of each unit that is factored, (n, P, F)
        self.delta: dict[int, Tensor] = {}  # of each unit and all else, (n, P, outputs, C)

    def take(self, piece: Piece, start: int = 0) -> None:
        """Keep derivatives of some examples, which are counted from `start`."""
        rows, o, dtype = shifted(piece.rows, start), piece.output - self.outputs.start, self.dtype
        for place, delta in enumerate(piece.deltas):
            delta = delta.to(dtype)
            if place < len(piece.inputs):
                unit, u = self.plan.structure.units[place], piece.inputs[place]
                u = u if unit.rule.gives_tokens else u.to(dtype)
                if not self.plan.factored[place]:
                    delta = unit.rule.products(unit.modules[0], u, delta).unsqueeze(1)
                elif o == 0:
                    if place not in self.u:
                        self.u[place] = u.new_empty(self.n, *u.shape[1:])
                    self.u[place][rows] = u
            n, P, C = delta.shape
            if n == self.n and len(self.outputs) == 1:
                self.delta[place] = delta.contiguous().unsqueeze(2)  # most often no copy
                continue
            if place not in self.delta:
                self.delta[place] = delta.new_empty(self.n, P, len(self.outputs), C)
            self.delta[place][rows, :, o] = delta

    def add_products(
        self,
        other: Block,
        rows: slice,
        columns: slice,
        contraction: Contraction,
        targets: Sequence[Tensor],
    ) -> None:
        """Add inner products of rows here with rows there, for each kernel of a contraction."""
        n1, n2 = rows.stop - rows.start, columns.stop - columns.start
        for place, delta in self.delta.items():
            P, (_, m1, _, m2) = delta.shape[1], targets[0].shape
            height = max(1, min(n1, math.isqrt(self.plan.scratch) // (P * m1)))
            width = max(1, self.plan.scratch // (height * P * m1 * P * m2))
            for left in pieces(n1, height):
                here = shifted(left, rows.start)
                mine = contraction.parts(delta[here])
                for right in pieces(n2, width):
                    there = shifted(right, columns.start)
                    inputs = self._input_products(place, here, other, there)
                    others = contraction.parts(other.delta[place][there])
                    for a, b, target in zip(mine, others, targets, strict=True):
                        both = a.flatten(0, 2) @ b.flatten(0, 2).T
                        if inputs is not None:
                            both = both.view(*a.shape[:3], *b.shape[:3])
                            both.mul_(inputs[:, :, None, :, :, None])
                            both = both.sum((1, 4)) if P > 1 else both
                        part = target[left, :, right]
                        _add(part, both.view(part.shape))

    def _input_products(
        self, place: int, rows: slice, other: Block, columns: slice
    ) -> Tensor | None:
        """u_p·u'_p' of shape (rows, P, columns, P); of tokens, 1 where they agree."""
        if place not in self.u:
            return None
        u, others = self.u[place][rows], other.u[place][columns]
        mine, theirs = u.flatten(0, 1), others.flatten(0, 1).T
        return _inner(mine, theirs, self.dtype).view(*u.shape[:2], *others.shape[:2])

    def add_squares(self, target: Tensor) -> None:
        """Add each example's inner product with itself, summed over the outputs."""
        for place, delta in self.delta.items():
            for rows in pieces(self.n, max(1, self.plan.scratch // delta.shape[1] ** 2)):
                flat = delta[rows].flatten(2)
                products = flat @ flat.mT
                if place in self.u:
                    u = self.u[place][rows]
                    products.mul_(_inner(u, u.mT, self.dtype))
                _add(target[rows], products.sum((1, 2)))


def _inner(u: Tensor, others: Tensor, dtype: torch.dtype) -> Tensor:
    """Inner products; of tokens, 1 where they agree."""
    if u.dtype == dtype:
        return u @ others
    same = (u == others).logical_and_(u >= 0)  # −1 is the padding token
    return same.to(dtype)


def _add(target: Tensor, part: Tensor) -> None:
    """Add to a part of the result, which may be on another device and of another type."""
    target += part.to(target.device)
