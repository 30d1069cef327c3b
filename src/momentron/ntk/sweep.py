"""The loops over blocks of examples and of outputs, and the derivatives of a block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from momentron.errors import InputError
from momentron.ntk.contraction import Contraction, OutputPair
from momentron.ntk.gradient_factors import Factor, Gradients, Workspace, pieces, shifted
from momentron.ntk.inputs import Examples
from momentron.ntk.model_checks import flat_outputs
from momentron.ntk.model_structure import Receive, Unit, hooked, make_anchor
from momentron.ntk.plan import Plan
from momentron.ntk.unstructured import ExampleGradients, WrittenGradients
from momentron.views.progress import Tell

PANELS = 4  # of rows, of a block with itself: the more, the less is computed below the diagonal
LEAST_PANEL = 32  # rows, of which a product is nearly as fast as it can be


@dataclass(frozen=True)
class GradientBlock:
    """The derivatives of n examples: one part per unit, and one for all other parameters."""

    n: int
    parts: Sequence[Gradients]

    def add_products(
        self, other: GradientBlock, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        """Add inner products of rows here with rows there to the target of each output pair."""
        for mine, others in zip(self.parts, other.parts, strict=True):
            mine.add_products(others, rows, columns, pairs)

    def add_squares(self, other: GradientBlock, pairs: Sequence[OutputPair]) -> None:
        """Add each example's inner products with itself; the targets have one entry per example."""
        for mine, others in zip(self.parts, other.parts, strict=True):
            mine.add_squares(others, pairs)


@dataclass(frozen=True)
class Differentiator:
    """Turns rows of input into blocks of derivatives.

    Parameters
    ----------
    model : Module
    plan : Plan
    workspace : Workspace
    unstructured : ExampleGradients or None
        For the parameters that no unit covers, if there are any.
    """

    model: nn.Module
    plan: Plan
    workspace: Workspace
    unstructured: ExampleGradients | None

    def block(self, X: Examples, rows: slice, outputs: range) -> GradientBlock:
        """Derivatives of some rows, filled in a step of the plan at a time."""
        n, units = rows.stop - rows.start, self.plan.structure.units
        factors = [
            form(unit, n, len(outputs), self.workspace)
            for form, unit in zip(self.plan.forms, units, strict=True)
        ]
        others = []
        if self.unstructured is not None:
            others = [WrittenGradients(n, len(outputs), self.workspace)]
        for part in pieces(n, self.plan.step):
            if factors:
                self._fill(factors, X, shifted(part, rows), part, outputs)
            for written in others:
                self._fill_unstructured(written, X, shifted(part, rows), part, outputs)
        return GradientBlock(n, [*factors, *others])

    def blocks(
        self, X: Examples, rows: slice, chunks: Sequence[range]
    ) -> Iterator[tuple[range, GradientBlock]]:
        """One block per chunk of outputs, in turn, from one forward pass where possible.

        Whoever reads them lets go of each before the next is made.
        """
        n, gradients = rows.stop - rows.start, self.unstructured
        is_one_pass = gradients is not None and gradients.is_vectorised and n <= self.plan.step
        if gradients is None or not is_one_pass or self.plan.structure.units:
            for chunk in chunks:
                yield chunk, self.block(X, rows, chunk)
            return
        every = range(chunks[0].start, chunks[-1].stop)
        found = gradients(X.rows(rows.start, rows.stop), every, X.readout, rows.start)
        for chunk in chunks:
            written = WrittenGradients(n, len(chunk), self.workspace)
            for number in range(len(chunk)):
                _, some, values = next(found)
                written.take(number, some, values)
            block = GradientBlock(n, [written])
            del written
            yield chunk, block
            del block

    def _fill(
        self, factors: list[Factor], X: Examples, rows: slice, part: slice, outputs: range
    ) -> None:
        """Send rows of X, which are a part of the block, through the model and back."""
        x = X.rows(rows.start, rows.stop)
        owner = {id(module): factor for factor in factors for module in factor.unit.modules}
        calls: Counter[int] = Counter()
        anchor = make_anchor(x.device)
        current = 0

        def on_call(module: nn.Module, x: Tensor, y: Tensor) -> Receive:
            factor = owner[id(module)]
            call = calls[id(factor)]
            calls[id(factor)] += 1
            if call >= len(factor.unit.positions):
                raise InputError(_other_calls(factor.unit, call + 1))
            with torch.no_grad():
                factor.see(part, call, module, x)
            return lambda gradient: factor.take(part, call, module, current, gradient)

        modules = (module for factor in factors for module in factor.unit.modules)
        with hooked(modules, anchor, on_call):
            found = X.readout(flat_outputs(self.model(x), len(x)), rows)
        for factor in factors:
            if calls[id(factor)] != len(factor.unit.positions):
                raise InputError(_other_calls(factor.unit, calls[id(factor)]))
        for o in outputs:
            current = o - outputs.start  # read by the hooks
            keep = o != outputs[-1]
            torch.autograd.grad(found[:, o].sum(), anchor, retain_graph=keep, allow_unused=True)
        for factor in factors:
            factor.finish(part)

    def _fill_unstructured(
        self, written: WrittenGradients, X: Examples, rows: slice, part: slice, outputs: range
    ) -> None:
        assert self.unstructured is not None
        x = X.rows(rows.start, rows.stop)
        for o, some, gradients in self.unstructured(x, outputs, X.readout, rows.start):
            written.take(o - outputs.start, shifted(some, part), gradients)


def _other_calls(unit: Unit, found: int) -> str:
    kind = type(unit.modules[0]).__name__
    return (
        f"a {kind} layer is called {found} times for some examples and {len(unit.positions)} times "
        "for the first; the kernel needs a model that runs the same layers for every example"
    )


@dataclass
class Sweep:
    """Carries out a plan.

    Parameters
    ----------
    differentiate : Differentiator
    contraction : Contraction
    n_outputs : int
    tell : callable
        Told the share that is done.
    """

    differentiate: Differentiator
    contraction: Contraction
    n_outputs: int
    tell: Tell
    _done: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._plan = self.differentiate.plan
        parts = pieces(self.n_outputs, self._plan.outputs)
        self._chunks = [range(part.start, part.stop) for part in parts]
        self._partners = len(self._chunks) if self.contraction.across else 1

    def symmetric(self, X: Examples, total: Tensor) -> None:
        """Add the kernel of X with itself to `total`, exactly symmetric."""
        step, blocks = self._plan.step, list(pieces(len(X), self._plan.columns))
        self._start(sum(1 + -(-columns.start // step) for columns in blocks))
        for columns in blocks:
            for b, held in self.differentiate.blocks(X, columns, self._chunks):
                for a in self._paired(b):
                    if a is b:
                        self._meet_itself(held, columns, b, total)
                    else:
                        self._meet_above(X, held, columns, a, b, total)
                    self._advance()
                    for rows in pieces(columns.start, step):
                        passing = self.differentiate.block(X, rows, a)
                        self._meet(passing, held, rows, columns, a, b, total)
                        del passing
                        self._advance()
                del held  # before the next is made
        self.contraction.mirror(total)

    def _meet_itself(self, held: GradientBlock, columns: slice, b: range, total: Tensor) -> None:
        panels = min(PANELS, max(1, held.n // LEAST_PANEL))
        for rows in pieces(held.n, min(self._plan.step, -(-held.n // panels))):
            after = slice(rows.start, held.n)
            places = shifted(rows, columns), shifted(after, columns)
            pairs = self.contraction.output_pairs(total, b, b, *places)
            held.add_products(held, rows, after, pairs)

    def _meet_above(
        self, X: Examples, held: GradientBlock, columns: slice, a: range, b: range, total: Tensor
    ) -> None:
        """Other outputs of the same examples, on and above the diagonal."""
        for part in pieces(held.n, self._plan.step):
            rows, after = shifted(part, columns), slice(part.start, held.n)
            passing = self.differentiate.block(X, rows, a)
            pairs = self.contraction.output_pairs(total, a, b, rows, shifted(after, columns))
            passing.add_products(held, slice(0, passing.n), after, pairs)

    def rectangular(
        self, X1: Examples, X2: Examples, total: Tensor, squares: tuple[Tensor, Tensor] | None
    ) -> None:
        """Add the kernel of X1 with X2 to `total`, and K(x, x) of both to `squares` if given."""
        step, blocks = self._plan.step, list(pieces(len(X2), self._plan.columns))
        self._start(len(blocks) * -(-len(X1) // step))
        for columns in blocks:
            for b, held in self.differentiate.blocks(X2, columns, self._chunks):
                if squares is not None:
                    _add_squares(held, b, squares[1][columns])
                for a in self._paired(b):
                    for rows in pieces(len(X1), step):
                        passing = self.differentiate.block(X1, rows, a)
                        self._meet(passing, held, rows, columns, a, b, total)
                        if squares is not None and columns.start == 0:
                            _add_squares(passing, a, squares[0][rows])
                        del passing
                        self._advance()
                del held

    def diagonal(self, X: Examples, total: Tensor) -> None:
        """Add K(x, x) of each row to `total`."""
        self._start(-(-len(X) // self._plan.step))
        for rows in pieces(len(X), self._plan.step):
            for b, held in self.differentiate.blocks(X, rows, self._chunks):
                for a in self._paired(b):
                    other = held if a is b else self.differentiate.block(X, rows, a)
                    other.add_squares(held, self.contraction.output_pairs(total, a, b, rows))
                    del other
                    self._advance()
                del held

    def _meet(
        self,
        passing: GradientBlock,
        held: GradientBlock,
        rows: slice,
        columns: slice,
        a: range,
        b: range,
        total: Tensor,
    ) -> None:
        pairs = self.contraction.output_pairs(total, a, b, rows, columns)
        passing.add_products(held, slice(0, passing.n), slice(0, held.n), pairs)

    def _paired(self, b: range) -> list[range]:
        """The chunks that this one is paired with; itself is the very object."""
        if not self.contraction.across:
            return [b]
        return [b if chunk == b else chunk for chunk in self._chunks]

    def _start(self, steps: int) -> None:
        """So many steps for each pair of chunks."""
        self._done, self._total = 0, steps * len(self._chunks) * self._partners

    def _advance(self) -> None:
        self._done += 1
        self.tell(self._done / self._total)


def _add_squares(block: GradientBlock, outputs: range, target: Tensor) -> None:
    every = slice(0, len(outputs))
    block.add_squares(block, [OutputPair(every, every, target)])
