"""One computation of a tangent kernel: from what was asked to the array that is returned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from momentron.ntk.anatomy import Anatomy, examine
from momentron.ntk.blocks import Differentiator
from momentron.ntk.contraction import TRACED, Contraction
from momentron.ntk.examples import Examples
from momentron.ntk.factors import Workspace
from momentron.ntk.fallback import ExampleGradients
from momentron.ntk.plan import KernelShape, make_plan
from momentron.ntk.readout import Outputs, Readout
from momentron.ntk.results import ResultType
from momentron.ntk.scaling import inverse_roots, normalize_in_place, require_finite
from momentron.ntk.selection import Selection, chosen_parameters
from momentron.ntk.sweep import Sweep
from momentron.progress import Tell


@dataclass(frozen=True)
class Computation:
    """What is common to all entries of a kernel.

    Parameters
    ----------
    model : Module
    outputs, parameters
        Those that count, as `EmpiricalNTK` takes them.
    result : ResultType
    normalize : bool
        Divide the derivatives of each example, all outputs together, by their length.
    limit : int
        Bytes beyond model, inputs and result.
    tell : callable
        Told the share that is done.
    """

    model: nn.Module
    outputs: Outputs
    parameters: Selection
    result: ResultType
    normalize: bool
    limit: int
    tell: Tell

    @torch.enable_grad()
    def kernel(self, contraction: Contraction, left: Examples, right: Examples | None) -> Any:
        """Of all pairs of examples; without `right`, of `left` with itself."""
        n1, n2 = len(left), len(left if right is None else right)
        shape = KernelShape(max(n1, n2), min(n1, n2), right is None, contraction.across)
        sweep = self._sweep(contraction, left, shape)
        total = self.result.zeros(left.device, *contraction.shape(n1, n2, sweep.n_outputs))
        squares = None
        if right is None:
            sweep.symmetric(left, total)
        else:
            if contraction is TRACED and self.normalize:  # both diagonals cost little on the way
                squares = tuple(self.result.zeros(left.device, n) for n in (n1, n2))
            if n1 < n2:  # the derivatives of the fewer are the ones to hold
                swapped = None if squares is None else squares[::-1]
                sweep.rectangular(right, left, contraction.swapped(total), swapped)
            else:
                sweep.rectangular(left, right, total, squares)
        arranged = require_finite(contraction.arranged(total))
        if self.normalize:
            rows, columns = squares or self._lengths(contraction, left, right, total)
            normalize_in_place(arranged, require_finite(rows), require_finite(columns))
            if right is None and contraction is TRACED:
                arranged.fill_diagonal_(0.0).diagonal().add_(rows > 0.0)
        return self.result.finished(arranged)

    def diagonal(self, examples: Examples) -> Any:
        """K(x, x) of each example."""
        squares = self._diagonal(TRACED, examples)
        if self.normalize:
            squares = (squares > 0.0).to(squares.dtype)
        return self.result.finished(squares)

    def per_output_diagonal(self, contraction: Contraction, examples: Examples) -> Any:
        """The same with the outputs kept apart."""
        found = self._diagonal(contraction, examples)
        if self.normalize:
            found *= inverse_roots(found.diagonal().sum(1)) ** 2
        return self.result.finished(found.permute(2, 0, 1))

    def _lengths(
        self, contraction: Contraction, left: Examples, right: Examples | None, total: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Σ_o K_oo(x, x) of both sides, of the outputs themselves and not of their differences."""
        if right is None and left.readout.labels is None:
            found = contraction.traces(total)
            return found, found
        silent = replace(self, tell=lambda share: None)
        lengths = [
            silent._diagonal(TRACED, examples.with_readout(Readout(self.outputs)))
            for examples in (left, right)
            if examples is not None
        ]
        return lengths[0], lengths[-1]

    @torch.enable_grad()
    def _diagonal(self, contraction: Contraction, examples: Examples) -> Tensor:
        shape = KernelShape(len(examples), 0, across=contraction.across)
        sweep = self._sweep(contraction, examples, shape)
        sizes = contraction.diagonal_shape(len(examples), sweep.n_outputs)
        total = self.result.zeros(examples.device, *sizes)
        sweep.diagonal(examples, total)
        return require_finite(total)

    def _sweep(self, contraction: Contraction, examples: Examples, shape: KernelShape) -> Sweep:
        """Look at the model, make a plan, and put together what carries it out."""
        few = examples.few(4)
        anatomy = examine(self.model, few, chosen_parameters(self.model, self.parameters))
        anatomy = replace(anatomy, n_outputs=examples.readout.width(anatomy.n_outputs))
        dtype = torch.promote_types(next(self.model.parameters()).dtype, torch.float32)
        views = [anatomy, anatomy.without_units()] if anatomy.units else [anatomy]
        plan = make_plan(views, shape, dtype.itemsize, self.limit)
        gradients = self._gradients(plan.anatomy, few)
        if plan.anatomy is not anatomy and not (gradients and gradients.is_vectorised):
            plan = make_plan([anatomy], shape, dtype.itemsize, self.limit)
            gradients = self._gradients(anatomy, few)
        workspace = Workspace(examples.device, dtype, plan.scratch)
        differentiate = Differentiator(self.model, plan.anatomy, plan.forms, workspace, gradients)
        return Sweep(differentiate, plan, contraction, anatomy.n_outputs, self.tell)

    def _gradients(self, anatomy: Anatomy, few: Tensor) -> ExampleGradients | None:
        return ExampleGradients(self.model, list(anatomy.rest), few) if anatomy.rest else None
