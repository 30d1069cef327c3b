"""The loops over blocks of examples and of outputs, and the derivatives of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from momentron.ntk.derivative_block import Block
from momentron.ntk.jacobian import ExampleGradients
from momentron.ntk.kernel_array import Contraction, mirror
from momentron.ntk.memory_plan import KernelShape, make_plan
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
