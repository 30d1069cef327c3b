"""The derivatives of a block of examples with respect to every trained parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from momentron.errors import InputError
from momentron.ntk.anatomy import Anatomy, Unit
from momentron.ntk.factors import Factor, Workspace
from momentron.ntk.fallback import ExampleGradients
from momentron.ntk.outputs import flat_outputs
from momentron.ntk.taps import Receive, make_anchor, tapped


class GradientBlock:
    """One factor a unit, and the gradients of the other parameters, for some of the outputs.

    Attributes
    ----------
    n : int
    factors : list of Factor
    rest : tensor of shape (outputs, n, entries) or None
    """

    def __init__(self, n: int, factors: list[Factor], rest: Tensor | None) -> None:
        self.n = n
        self.factors = factors
        self.rest = rest

    def products(self, other: GradientBlock, rows: slice, columns: slice) -> np.ndarray:
        """Inner products of rows here with rows there, units added up in float64."""
        total = np.zeros((rows.stop - rows.start, columns.stop - columns.start))
        for mine, others in zip(self.factors, other.factors, strict=True):
            total += _on_host(mine.products(others, rows, columns))
        if self.rest is not None and other.rest is not None:
            for mine_o, others_o in zip(self.rest, other.rest, strict=True):
                total += _on_host(mine_o[rows] @ others_o[columns].T)
        return total

    def squares(self) -> np.ndarray:
        """The squared norm of each example's derivative."""
        total = np.zeros(self.n)
        for factor in self.factors:
            total += _on_host(factor.squares())
        if self.rest is not None:
            for gradients in self.rest:
                total += _on_host(torch.linalg.vector_norm(gradients, dim=1).square())
        return total


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

    def __call__(
        self, rows: Callable[[int, int], Tensor], start: int, stop: int, outputs: range, step: int
    ) -> GradientBlock:
        """Derivatives of the examples `rows(start, stop)`, filled in `step` of them at a time."""
        n, workspace = stop - start, self.workspace
        factors = [
            form(unit, n, len(outputs), workspace)
            for form, unit in zip(self.forms, self.anatomy.units, strict=True)
        ]
        rest = None
        if self.gradients is not None:
            rest = workspace.empty(len(outputs), n, self.anatomy.rest_entries)
        for i in range(0, n, step):
            part = slice(i, min(i + step, n))
            x = rows(start + part.start, start + part.stop)
            if factors:
                self._fill(factors, x, part, outputs)
            if rest is not None:
                self._fill_rest(rest, x, part, outputs)
        return GradientBlock(n, factors, rest)

    def _fill(self, factors: list[Factor], x: Tensor, rows: slice, outputs: range) -> None:
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
            found = flat_outputs(self.model(x), len(x))
        for factor in factors:
            if calls[id(factor)] != len(factor.unit.positions):
                raise InputError(_other_calls(factor.unit, calls[id(factor)]))
        for o in outputs:
            current = o - outputs.start  # read by the taps
            keep = o != outputs[-1]
            torch.autograd.grad(found[:, o].sum(), anchor, retain_graph=keep, allow_unused=True)
        for factor in factors:
            factor.finish(rows)

    def _fill_rest(self, rest: Tensor, x: Tensor, rows: slice, outputs: range) -> None:
        assert self.gradients is not None
        for o, some, gradients in self.gradients(x, outputs):
            target = rest[o - outputs.start, rows][some]
            column = 0
            for gradient in gradients:
                flat = gradient.reshape(len(gradient), -1)
                target[:, column : column + flat.shape[1]] = flat
                column += flat.shape[1]


def _other_calls(unit: Unit, found: int) -> str:
    kind = type(unit.modules[0]).__name__
    return (
        f"a {kind} layer is called {found} times for some examples and {len(unit.positions)} times "
        "for the first; the kernel needs a model that runs the same layers for every example"
    )


def _on_host(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.to("cpu", torch.float64).numpy()
    return array
