"""The derivatives of a block of examples with respect to every trained parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from momentron.errors import InputError
from momentron.ntk.anatomy import Anatomy, Unit
from momentron.ntk.contraction import Meeting
from momentron.ntk.examples import Examples
from momentron.ntk.factors import Factor, Workspace
from momentron.ntk.fallback import ExampleGradients, Piece
from momentron.ntk.outputs import flat_outputs
from momentron.ntk.rest import WrittenGradients
from momentron.ntk.taps import Receive, make_anchor, tapped


class GradientBlock:
    """One factor per unit, and the gradients of the other parameters, for some of the outputs.

    Attributes
    ----------
    n : int
    factors : list of Factor
    rest : WrittenGradients or None
    """

    def __init__(self, n: int, factors: list[Factor], rest: WrittenGradients | None) -> None:
        self.n = n
        self.factors = factors
        self.rest = rest

    def add_products(
        self, other: GradientBlock, rows: slice, columns: slice, meetings: Sequence[Meeting]
    ) -> None:
        """Add inner products of rows here with rows there to where each meeting has its place."""
        for mine, others in zip(self.factors, other.factors, strict=True):
            mine.add_products(others, rows, columns, meetings)
        if self.rest is not None and other.rest is not None:
            self.rest.add_products(other.rest, rows, columns, meetings)

    def add_squares(self, other: GradientBlock, meetings: Sequence[Meeting]) -> None:
        """Add each example's inner products with itself; the targets have one entry per example."""
        for mine, others in zip(self.factors, other.factors, strict=True):
            mine.add_squares(others, meetings)
        if self.rest is not None and other.rest is not None:
            self.rest.add_squares(other.rest, meetings)


@dataclass(frozen=True)
class _Batch:
    """The examples of a block that go through the model at once."""

    examples: Examples
    start: int  # of the block
    part: slice  # of the block

    @property
    def rows(self) -> slice:
        return slice(self.start + self.part.start, self.start + self.part.stop)

    def x(self) -> Tensor:
        return self.examples.rows(self.rows.start, self.rows.stop)

    def read(self, outputs: Tensor) -> Tensor:
        return self.examples.readout(outputs, self.rows)


@dataclass(frozen=True)
class Differentiator:
    """Turns rows of input into blocks of derivatives.

    Parameters
    ----------
    model : Module
    anatomy : Anatomy
    forms : tuple of Factor types
        The form of each unit.
    workspace : Workspace
    gradients : ExampleGradients or None
        For the parameters that no unit covers, if there are any.
    """

    model: nn.Module
    anatomy: Anatomy
    forms: tuple[type[Factor], ...]
    workspace: Workspace
    gradients: ExampleGradients | None

    def __call__(self, examples: Examples, rows: slice, outputs: range, step: int) -> GradientBlock:
        """Derivatives of some rows, filled in `step` of them at a time."""
        n, workspace = rows.stop - rows.start, self.workspace
        factors = [
            form(unit, n, len(outputs), workspace)
            for form, unit in zip(self.forms, self.anatomy.units, strict=True)
        ]
        rest = None
        if self.gradients is not None:
            rest = WrittenGradients(n, len(outputs), workspace)
        for i in range(0, n, step):
            part = slice(i, min(i + step, n))
            batch = _Batch(examples, rows.start, part)
            if factors:
                self._fill(factors, batch, outputs)
            if rest is not None:
                self._fill_rest(rest, batch, outputs)
        return GradientBlock(n, factors, rest)

    def chunks(
        self, examples: Examples, rows: slice, chunks: Sequence[range], step: int
    ) -> Iterator[tuple[range, GradientBlock]]:
        """The same for one chunk of outputs after another, from one forward pass where it can be.

        Whoever reads them lets go of each before the next is made.
        """
        n = rows.stop - rows.start
        in_turn = self.gradients is not None and self.gradients.is_vectorised
        if self.anatomy.units or not in_turn or n > step:
            for chunk in chunks:
                yield chunk, self(examples, rows, chunk, step)
            return
        assert self.gradients is not None
        batch = _Batch(examples, rows.start, slice(0, n))
        every = range(chunks[0].start, chunks[-1].stop)
        pieces = self.gradients(batch.x(), every, examples.readout, rows.start)
        for chunk in chunks:
            yield chunk, self._next_block(pieces, n, chunk)

    def _next_block(self, pieces: Iterator[Piece], n: int, chunk: range) -> GradientBlock:
        rest = WrittenGradients(n, len(chunk), self.workspace)
        for number in range(len(chunk)):
            _, some, gradients = next(pieces)
            rest.take(number, some, gradients)
        return GradientBlock(n, [], rest)

    def _fill(self, factors: list[Factor], batch: _Batch, outputs: range) -> None:
        x, rows = batch.x(), batch.part
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
                factor.see(rows, call, module, x)
            return lambda gradient: factor.take(rows, call, module, current, gradient)

        modules = (module for factor in factors for module in factor.unit.modules)
        with tapped(modules, anchor, on_call):
            found = batch.read(flat_outputs(self.model(x), len(x)))
        for factor in factors:
            if calls[id(factor)] != len(factor.unit.positions):
                raise InputError(_other_calls(factor.unit, calls[id(factor)]))
        for o in outputs:
            current = o - outputs.start  # read by the taps
            keep = o != outputs[-1]
            torch.autograd.grad(found[:, o].sum(), anchor, retain_graph=keep, allow_unused=True)
        for factor in factors:
            factor.finish(rows)

    def _fill_rest(self, rest: WrittenGradients, batch: _Batch, outputs: range) -> None:
        assert self.gradients is not None
        start = batch.part.start
        found = self.gradients(batch.x(), outputs, batch.examples.readout, batch.rows.start)
        for o, some, gradients in found:
            rows = slice(start + some.start, start + some.stop)
            rest.take(o - outputs.start, rows, gradients)


def _other_calls(unit: Unit, found: int) -> str:
    kind = type(unit.modules[0]).__name__
    return (
        f"a {kind} layer is called {found} times for some examples and {len(unit.positions)} times "
        "for the first; the kernel needs a model that runs the same layers for every example"
    )
