"""The loops over blocks of examples and of outputs, and the derivatives of a block.

A block has its derivatives in a form that gives inner products. For one unit, with u_p the inputs
and δ_p the output gradients of an example at position p,

    ⟨∂A(x), ∂A(x')⟩ = ⟨Σ_p δ_p u_pᵀ, Σ_p' δ'_p' u'_p'ᵀ⟩ = Σ_{p,p'} (u_p·u'_p')(δ_p·δ'_p'),

where u_p ends with a 1 if the bias is trained. A unit that is *factored* keeps u and δ, which is
cheap for large weights read at few positions. All other gradients are written out, which is cheap
for small weights read at many: they are the δ of a single position, without u.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from momentron.ntk.jacobian import ExampleGradients, Piece
from momentron.ntk.kernel_array import Contraction, mirror
from momentron.ntk.memory_plan import KernelShape, Plan, make_plan
from momentron.ntk.model_structure import examine
from momentron.ntk.selection import Examples, Readout, chosen_parameters, pieces, shifted
from momentron.views.progress import Tell

if TYPE_CHECKING:
    from momentron.ntk.empirical import EmpiricalNTK

PANELS = 4  # of rows, of a block with itself: the more, the less is computed below the diagonal
LEAST_PANEL = 32  # rows, of which a product is nearly as fast as it can be


class Sweep:
    """Examines a model with some of the examples, plans the blocks of a kernel, and computes them.

    Blocks take at most `limit` bytes; `tell` is told the share that is done.
    """

    def __init__(
        self,
        ntk: EmpiricalNTK,
        contraction: Contraction,
        examples: Examples,
        shape: KernelShape,
        limit: int,
        tell: Tell,
    ) -> None:
        self.contraction, self.tell = contraction, tell
        readout, few = Readout(ntk.outputs), examples.few(4)
        structure = examine(ntk.model, few, chosen_parameters(ntk.model, ntk.parameters))
        width = len(readout.numbers(structure.n_outputs))
        self.n_outputs = width if examples.places is None else max(width - 1, 1)
        names, units = structure.unstructured, structure.units
        self.gradients = ExampleGradients(ntk.model, names, few, readout, units)
        has_one_pass = self.gradients.is_vectorised
        structure = replace(structure, n_outputs=self.n_outputs, has_one_pass=has_one_pass)
        self.dtype = torch.promote_types(next(ntk.model.parameters()).dtype, torch.float32)
        self.plan = make_plan(structure, shape, self.dtype.itemsize, limit)
        parts = pieces(self.n_outputs, self.plan.outputs)
        self._chunks = [range(part.start, part.stop) for part in parts]

    def kernel(
        self,
        X1: Examples,
        X2: Examples | None,
        total: Tensor,
        squares: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Add the kernel of X1 with X2 to `total`; without X2, of X1 with itself, symmetric.

        If `squares` are given, Σ_o K_oo(x, x) of X1 and of X2 is added to them.
        """
        right = X1 if X2 is None else X2
        tiles = [
            (columns, list(self._rows(len(X1), columns, X2 is None)))
            for columns in pieces(len(right), self.plan.columns)
        ]
        steps = self._steps(sum(len(parts) for _, parts in tiles))
        for columns, parts in tiles:
            for held in self._blocks(right, columns, self._chunks):
                b = held.outputs
                if squares is not None:
                    held.add_squares(squares[1][columns])
                for a in self._chunks if self.contraction.across else [b]:
                    for rows in parts:
                        inside = X2 is None and rows.start >= columns.start
                        passing, mine = held, shifted(rows, -columns.start)
                        if not (inside and a == b):
                            [passing] = self._blocks(X1, rows, [a])
                            mine = slice(0, rows.stop - rows.start)
                        after = slice(rows.start, columns.stop) if inside else columns
                        theirs = shifted(after, -columns.start)
                        targets = self.contraction.targets(total, a, b, rows, after)
                        passing.add_products(held, mine, theirs, self.contraction, targets)
                        if squares is not None and a == b and columns.start == 0:
                            passing.add_squares(squares[0][rows])
                        del passing
                        self.tell(next(steps))
                del held  # before the next is made
        if X2 is None:
            mirror(total)

    def diagonal(self, X: Examples, total: Tensor) -> None:
        """Add Σ_o K_oo(x, x) of each row to `total`."""
        steps = self._steps(-(-len(X) // self.plan.step))
        for rows in pieces(len(X), self.plan.step):
            for block in self._blocks(X, rows, self._chunks):
                block.add_squares(total[rows])
                del block
                self.tell(next(steps))

    def _rows(self, n: int, columns: slice, symmetric: bool) -> Iterator[slice]:
        """The rows that pass by a block; if symmetric, those before it and then its own."""
        yield from pieces(columns.start if symmetric else n, self.plan.step)
        if symmetric:
            width = columns.stop - columns.start
            panels = min(PANELS, max(1, width // LEAST_PANEL))
            for part in pieces(width, min(self.plan.step, -(-width // panels))):
                yield shifted(part, columns.start)

    def _steps(self, count: int) -> Iterator[float]:
        """The share done after each step, of a number of steps for each pair of chunks."""
        total = count * self.plan.chunks * self.plan.partners
        return (done / total for done in range(1, total + 1))

    def _blocks(self, X: Examples, rows: slice, chunks: Sequence[range]) -> Iterator[Block]:
        """Derivatives of some rows, one block per chunk of outputs, in turn.

        They come from one forward pass where possible. Whoever reads them lets go of each before
        the next is made.
        """
        n, step, once = rows.stop - rows.start, self.plan.step, None
        if self.gradients.is_vectorised and n <= step:
            once = self.gradients(X, rows, range(chunks[0].start, chunks[-1].stop))
        for chunk in chunks:
            block = Block(self.plan, n, chunk, self.dtype)
            for part in pieces(n, step):
                batch = shifted(part, rows.start)
                own = islice(once, len(chunk)) if once else self.gradients(X, batch, chunk)
                for piece in own:
                    block.take(piece, part.start)
            yield block
            del block


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
                    inputs = None
                    if place in self.u:
                        u, v = self.u[place][here], other.u[place][there]
                        inputs = _inner(u.flatten(0, 1), v.flatten(0, 1).T, self.dtype)
                        inputs = inputs.view(*u.shape[:2], *v.shape[:2])
                    others = contraction.parts(other.delta[place][there])
                    for a, b, target in zip(mine, others, targets, strict=True):
                        both = a.flatten(0, 2) @ b.flatten(0, 2).T
                        if inputs is not None:
                            both = both.view(*a.shape[:3], *b.shape[:3])
                            both.mul_(inputs[:, :, None, :, :, None])
                            both = both.sum((1, 4)) if P > 1 else both
                        part = target[left, :, right]
                        part += both.view(part.shape).to(part.device)

    def add_squares(self, target: Tensor) -> None:
        """Add each example's inner product with itself, summed over the outputs."""
        for place, delta in self.delta.items():
            for rows in pieces(self.n, max(1, self.plan.scratch // delta.shape[1] ** 2)):
                flat = delta[rows].flatten(2)
                products = flat @ flat.mT
                if place in self.u:
                    u = self.u[place][rows]
                    products.mul_(_inner(u, u.mT, self.dtype))
                target[rows] += products.sum((1, 2)).to(target.device)


def _inner(u: Tensor, others: Tensor, dtype: torch.dtype) -> Tensor:
    """Inner products; of tokens, 1 where they agree."""
    if u.dtype == dtype:
        return u @ others
    same = (u == others).logical_and_(u >= 0)  # −1 is the padding token
    return same.to(dtype)
