"""The loops over blocks of examples and of outputs, and the derivatives of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from momentron.ntk.gradient_factors import Factor, Gradients, Workspace, WrittenGradients
from momentron.ntk.jacobian import ExampleGradients
from momentron.ntk.kernel_array import Contraction, OutputPair
from momentron.ntk.memory_plan import KernelShape, make_plan
from momentron.ntk.model_structure import examine, flat_outputs, hooked, output_gradients
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
        self.model, self.contraction, self.tell = ntk.model, contraction, tell
        self.readout, few = Readout(ntk.outputs), examples.few(4)
        structure = examine(ntk.model, few, chosen_parameters(ntk.model, ntk.parameters))
        width = len(self.readout.numbers(structure.n_outputs))
        self.n_outputs = width if examples.places is None else max(width - 1, 1)
        structure = replace(structure, n_outputs=self.n_outputs)
        dtype = torch.promote_types(next(ntk.model.parameters()).dtype, torch.float32)
        views = [structure, structure.without_units()] if structure.units else [structure]
        while True:
            self.plan = make_plan(views, shape, dtype.itemsize, limit)
            names = list(self.plan.structure.unstructured)
            self.unstructured = ExampleGradients(ntk.model, names, few, self.readout)
            if self.plan.structure is structure or self.unstructured.is_vectorised:
                break
            views = [structure]  # without units all depends on vmap, which fails here
        self.workspace = Workspace(examples.device, dtype, self.plan.scratch)
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
            for b, held in self._blocks(right, columns):
                if squares is not None:
                    _add_squares(held, squares[1][columns])
                for a in self._partners(b):
                    for rows in parts:
                        inside = X2 is None and rows.start >= columns.start
                        passing, mine = held, shifted(rows, -columns.start)
                        if not (inside and a == b):
                            passing = self._block(X1, rows, a)
                            mine = slice(0, rows.stop - rows.start)
                        after = slice(rows.start, columns.stop) if inside else columns
                        pairs = self.contraction.output_pairs(total, a, b, rows, after)
                        _add_products(passing, held, mine, shifted(after, -columns.start), pairs)
                        if squares is not None and a == b and columns.start == 0:
                            _add_squares(passing, squares[0][rows])
                        del passing
                        self.tell(next(steps))
                del held  # before the next is made
        if X2 is None:
            self.contraction.mirror(total)

    def diagonal(self, X: Examples, total: Tensor) -> None:
        """Add Σ_o K_oo(x, x) of each row to `total`."""
        steps = self._steps(-(-len(X) // self.plan.step))
        for rows in pieces(len(X), self.plan.step):
            for _, block in self._blocks(X, rows):
                _add_squares(block, total[rows])
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

    def _partners(self, b: range) -> list[range]:
        """The chunks that this one is paired with."""
        return self._chunks if self.contraction.across else [b]

    def _steps(self, count: int) -> Iterator[float]:
        """The share done after each step, of a number of steps for each pair of chunks."""
        total = count * len(self._chunks) * len(self._partners(self._chunks[0]))
        return (done / total for done in range(1, total + 1))

    def _block(self, X: Examples, rows: slice, outputs: range) -> list[Gradients]:
        """Derivatives of some rows: one part per unit, and one for all other parameters."""
        n, units = rows.stop - rows.start, self.plan.structure.units
        factors = [
            form(unit, n, len(outputs), self.workspace)
            for form, unit in zip(self.plan.forms, units, strict=True)
        ]
        written = WrittenGradients(n, len(outputs), self.workspace)
        for part in pieces(n, self.plan.step):
            if factors:
                self._fill(factors, X, shifted(part, rows.start), part, outputs)
            for o, some, gradients in self.unstructured(X, shifted(part, rows.start), outputs):
                written.take(o - outputs.start, shifted(some, part.start), gradients)
        return [*factors, written]

    def _blocks(self, X: Examples, rows: slice) -> Iterator[tuple[range, list[Gradients]]]:
        """One block per chunk of outputs, in turn, from one forward pass where possible.

        Whoever reads them lets go of each before the next is made.
        """
        n, is_vectorised = rows.stop - rows.start, self.unstructured.is_vectorised
        if not is_vectorised or n > self.plan.step or self.plan.structure.units:
            for chunk in self._chunks:
                yield chunk, self._block(X, rows, chunk)
            return
        found = self.unstructured(X, rows, range(self.n_outputs))
        for chunk in self._chunks:
            written = WrittenGradients(n, len(chunk), self.workspace)
            for o, some, values in islice(found, len(chunk)):
                written.take(o - chunk.start, some, values)
            yield chunk, [written]

    def _fill(
        self, factors: list[Factor], X: Examples, rows: slice, part: slice, outputs: range
    ) -> None:
        """Send rows of X, which are a part of the block, through the model and back."""
        x = X.rows(rows)
        owner = {id(module): factor for factor in factors for module in factor.unit.modules}
        seen: list[tuple[Factor, int, nn.Module]] = []
        layers: list[Tensor] = []
        for factor in factors:
            factor.begin(part)

        def on_call(module: nn.Module, x: Tensor, y: Tensor) -> None:
            factor = owner[id(module)]
            seen.append((factor, factor.see(part, module, x), module))
            layers.append(y)

        with hooked((module for factor in factors for module in factor.unit.modules), on_call):
            found = self.readout(flat_outputs(self.model(x), len(x)), X.places_of(rows))
        for o in outputs:
            gradients = output_gradients(found[:, o].sum(), layers, keep=o != outputs[-1])
            for (factor, call, module), gradient in zip(seen, gradients, strict=True):
                if gradient is not None:
                    factor.take(part, call, module, o - outputs.start, gradient)
        for factor in factors:
            factor.finish(part)


def _add_products(
    block: list[Gradients],
    other: list[Gradients],
    rows: slice,
    columns: slice,
    pairs: list[OutputPair],
) -> None:
    # a function, so that no name keeps a part alive that its caller lets go of
    for mine, others in zip(block, other, strict=True):
        mine.add_products(others, rows, columns, pairs)


def _add_squares(block: list[Gradients], target: Tensor) -> None:
    for part in block:
        part.add_squares(target)
