"""A model as a linear map of its parameters: products with its Jacobian J, one batch at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp

from momentron.errors import InputError
from momentron.ntk.inputs import Examples, Readout
from momentron.ntk.model_checks import flat_outputs
from momentron.ntk.model_structure import examine
from momentron.ntk.plan import SHARE, STEP_LIMIT, format_memory
from momentron.ntk.unstructured import ExampleGradients, differentiable_attention, has_padding

Vector = list[Tensor]
"""One tensor per parameter."""


@dataclass(frozen=True)
class ProductPlan:
    """How many directions in the space of parameters are held, and examples in a batch."""

    directions: int
    batch: int


class Linearised:
    """J of some examples with respect to the chosen parameters, by products alone.

    Jᵀc is a backward pass. Jv is a forward pass in forward mode, where every operation of the
    model has one and ⟨c, Jv⟩ = ⟨Jᵀc, v⟩ on a few examples; else the gradients of each example are
    multiplied by v.

    Parameters
    ----------
    model : Module
    chosen : mapping of str to Parameter
    few : tensor of shape (4, ...)
        Some examples, to look at the model.
    readout : Readout
    """

    def __init__(
        self, model: nn.Module, chosen: Mapping[str, nn.Parameter], few: Tensor, readout: Readout
    ) -> None:
        structure = examine(model, few, chosen)
        self.model = model
        self.names, self.parameters = list(chosen), list(chosen.values())
        self.n_outputs = readout.width(structure.n_outputs)
        self.dtype = torch.promote_types(self.parameters[0].dtype, torch.float32)
        self.entries = sum(p.numel() for p in self.parameters)
        self.graph_bytes = structure.graph_bytes
        self._rows: ExampleGradients | None = None
        if not self._has_forward_mode(few, Readout(readout.chosen)):
            self._rows = ExampleGradients(model, self.names, few)

    def plan(self, directions: int, limit: int) -> ProductPlan:
        """As many directions and examples at a time as the memory holds.

        Raises
        ------
        InputError
            If it does not hold one of each.
        """
        vector = self.entries * self.dtype.itemsize
        budget = int(SHARE * limit)
        # the gradient under way, and in forward mode a direction in the parameters' type
        fixed = 2 * vector
        example = 3 * self.graph_bytes + (3 * vector if self._rows is not None else 0)
        least = fixed + vector + example
        if least > budget:
            raise InputError(
                f"max_memory={format_memory(limit)} is below the {format_memory(least / SHARE)} "
                "that one example and one direction take; pass a larger max_memory"
            )
        spare = budget - least
        held = 1 + min(directions - 1, spare // 2 // vector)
        batch = 1 + (spare - (held - 1) * vector) // max(example, 1)
        return ProductPlan(held, min(batch, STEP_LIMIT))

    def zeros(self) -> Vector:
        return [torch.zeros_like(p, dtype=self.dtype) for p in self.parameters]

    def pull(
        self, examples: Examples, rows: slice, weights: Sequence[Tensor], into: Sequence[Vector]
    ) -> None:
        """Add Jᵀc of these rows to a vector, for each c of shape (n, outputs)."""
        found = self._outputs(examples.rows(rows.start, rows.stop), examples.readout, rows)
        for i, (c, total) in enumerate(zip(weights, into, strict=True)):
            gradients = torch.autograd.grad(
                found,
                self.parameters,
                c.to(found.dtype),
                retain_graph=i < len(weights) - 1,
                allow_unused=True,
            )
            for part, gradient in zip(total, gradients, strict=True):
                if gradient is not None:
                    part += gradient.to_dense() if gradient.is_sparse else gradient

    def push(self, examples: Examples, rows: slice, directions: Sequence[Vector]) -> list[Tensor]:
        """Jv of these rows for each direction v, of shape (n, outputs)."""
        x = examples.rows(rows.start, rows.stop)
        if self._rows is None:
            return [self._forward_mode(x, examples.readout, rows, v) for v in directions]
        found = [
            torch.zeros(len(x), self.n_outputs, dtype=self.dtype, device=x.device)
            for _ in directions
        ]
        pieces = self._rows(x, range(self.n_outputs), examples.readout, rows.start)
        for o, some, gradients in pieces:
            for target, v in zip(found, directions, strict=True):
                for gradient, part in zip(gradients, v, strict=True):
                    flat = gradient.reshape(len(gradient), -1)
                    target[some, o] += flat.to(self.dtype) @ part.reshape(-1)
        return found

    def _outputs(self, x: Tensor, readout: Readout, rows: slice) -> Tensor:
        return readout(flat_outputs(self.model(x), len(x)), rows)

    def _forward_mode(self, x: Tensor, readout: Readout, rows: slice, v: Vector) -> Tensor:
        def outputs(parameters: dict[str, Tensor]) -> Tensor:
            found = functional_call(self.model, parameters, (x.clone(),))
            return readout(found.reshape(len(x), -1), rows)

        point = {n: p.detach() for n, p in zip(self.names, self.parameters, strict=True)}
        along = {n: part.to(point[n].dtype) for n, part in zip(self.names, v, strict=True)}
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message=".*torch.jit.script.*")  # torch's own use
            stack.enter_context(torch.no_grad())
            stack.enter_context(differentiable_attention())
            result: Tensor = jvp(outputs, (point,), (along,))[1]
        return result.to(self.dtype)

    def _has_forward_mode(self, x: Tensor, readout: Readout) -> bool:
        """Whether forward mode agrees with the backward pass on a few examples."""
        if has_padding(self.model):
            return False  # the padding token moves in forward mode, but receives no gradient
        draw = _normal(x.device, self.dtype)
        v = [draw(p.shape) for p in self.parameters]
        rows, c = slice(0, len(x)), draw((len(x), 1))
        try:
            forward = self._forward_mode(x, readout, rows, v)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
        found = self._outputs(x.clone(), readout, rows)
        c = c.expand_as(forward)
        gradients = torch.autograd.grad(
            found, self.parameters, c.to(found.dtype), allow_unused=True
        )
        backward, size = 0.0, 0.0
        for gradient, part in zip(gradients, v, strict=True):
            if gradient is not None:
                gradient = gradient.to_dense() if gradient.is_sparse else gradient
                backward += float((gradient * part).sum())
                size += float(gradient.norm() * part.norm())
        limit = torch.finfo(found.dtype).eps ** 0.5 * size
        return abs(float((forward * c).sum()) - backward) <= limit


def _normal(device: torch.device, dtype: torch.dtype) -> Callable[[Sequence[int]], Tensor]:
    """Normal numbers, without torch's global generator."""
    generator = torch.Generator().manual_seed(0)
    return lambda shape: torch.randn(tuple(shape), generator=generator, dtype=dtype).to(device)
