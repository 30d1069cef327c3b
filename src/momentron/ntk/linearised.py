"""A model as a linear map of its parameters: products with its Jacobian J, one batch at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from momentron.errors import InputError
from momentron.ntk.inputs import Examples, Readout
from momentron.ntk.model_checks import flat_outputs
from momentron.ntk.model_structure import examine
from momentron.ntk.plan import SHARE, STEP_LIMIT, format_memory
from momentron.ntk.unstructured import ExampleGradients, differentiable_attention

Vector = list[Tensor]
"""One tensor per parameter."""


class Linearised:
    """J of some examples with respect to the chosen parameters, by products alone.

    Jᵀc is a backward pass. It is linear in c, so Jv is the derivative of ⟨Jᵀc, v⟩ with respect to
    c, a backward pass through the backward pass. Where the model has no such second pass, or
    ⟨c, Jv⟩ and ⟨Jᵀc, v⟩ differ on a few examples, each example's gradients are multiplied by v.

    Parameters
    ----------
    model : Module
    chosen : mapping of str to Parameter
    examples : Examples
        A few of them are sent through the model to examine it.
    readout : Readout
    """

    @torch.enable_grad()
    def __init__(
        self,
        model: nn.Module,
        chosen: Mapping[str, nn.Parameter],
        examples: Examples,
        readout: Readout,
    ) -> None:
        few = examples.few(4)
        structure = examine(model, few, chosen)
        self.model, self.readout = model, readout
        self.names, self.parameters = list(chosen), list(chosen.values())
        self.n_outputs = len(readout.numbers(structure.n_outputs))
        self.dtype = torch.promote_types(self.parameters[0].dtype, torch.float32)
        self.entries = sum(p.numel() for p in self.parameters)
        self.graph_bytes = structure.graph_bytes
        self._gradients: ExampleGradients | None = None
        if not self._has_second_pass(examples):
            self._gradients = ExampleGradients(model, self.names, few, readout)

    def plan(self, directions: int, limit: int) -> tuple[int, int]:
        """As many directions in the space of parameters, and examples, as the memory holds.

        Raises
        ------
        InputError
            If it does not hold one of each.
        """
        vector = self.entries * self.dtype.itemsize
        budget = int(SHARE * limit)
        # a gradient under way, and the gradients of the second pass
        fixed = 2 * vector
        example = 3 * self.graph_bytes + (3 * vector if self._gradients is not None else 0)
        least = fixed + vector + example
        if least > budget:
            raise InputError(
                f"max_memory={format_memory(limit)} is below the {format_memory(least / SHARE)} "
                "that one example and one direction take; pass a larger max_memory"
            )
        spare = budget - least
        held = 1 + min(directions - 1, spare // 2 // vector)
        batch = 1 + (spare - (held - 1) * vector) // max(example, 1)
        return held, min(batch, STEP_LIMIT)

    def zeros(self) -> Vector:
        return [torch.zeros_like(p, dtype=self.dtype) for p in self.parameters]

    @torch.enable_grad()
    def pull(
        self, examples: Examples, rows: slice, weights: Sequence[Tensor], into: Sequence[Vector]
    ) -> None:
        """Add Jᵀc of these rows to a vector, for each c of shape (n, outputs)."""
        found = self._outputs(examples, rows)
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

    @torch.enable_grad()
    def push(self, examples: Examples, rows: slice, directions: Sequence[Vector]) -> list[Tensor]:
        """Jv of these rows for each direction v, of shape (n, outputs)."""
        if self._gradients is None:
            return self._second_pass(examples, rows, directions)
        shape, device = (rows.stop - rows.start, self.n_outputs), examples.device
        found = [torch.zeros(shape, dtype=self.dtype, device=device) for _ in directions]
        for o, some, gradients in self._gradients(examples, rows, range(self.n_outputs)):
            for target, v in zip(found, directions, strict=True):
                for gradient, part in zip(gradients, v, strict=True):
                    flat = gradient.reshape(len(gradient), -1)
                    target[some, o] += flat.to(self.dtype) @ part.reshape(-1)
        return found

    def _second_pass(
        self, examples: Examples, rows: slice, directions: Sequence[Vector]
    ) -> list[Tensor]:
        with differentiable_attention():
            outputs = self._outputs(examples, rows)
        c = torch.zeros_like(outputs, requires_grad=True)
        found = torch.autograd.grad(
            outputs, self.parameters, c, create_graph=True, allow_unused=True
        )
        used = [i for i, gradient in enumerate(found) if gradient is not None]
        gradients = [found[i] for i in used]
        results = []
        for v in directions:
            along = [v[i].to(outputs.dtype) for i in used]
            (product,) = torch.autograd.grad(gradients, c, along, retain_graph=True)
            results.append(product.to(self.dtype))
        return results

    def _outputs(self, examples: Examples, rows: slice) -> Tensor:
        x = examples.rows(rows.start, rows.stop)
        return self.readout(flat_outputs(self.model(x), len(x)))

    def _has_second_pass(self, examples: Examples) -> bool:
        """Whether Jv of a few examples exists and agrees with the backward pass."""
        rows, generator = slice(0, min(4, len(examples))), torch.Generator().manual_seed(0)
        v, back = self.zeros(), self.zeros()
        for part in v:  # without torch's global generator
            part.copy_(torch.randn(part.shape, generator=generator))
        try:
            (forward,) = self._second_pass(examples, rows, [v])
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
        c = torch.randn(forward.shape, generator=generator).to(forward)
        self.pull(examples, rows, [c], [back])
        pairs = list(zip(back, v, strict=True))
        backward = sum(float((gradient * part).sum()) for gradient, part in pairs)
        size = sum(float(gradient.norm() * part.norm()) for gradient, part in pairs)
        limit = torch.finfo(self.parameters[0].dtype).eps ** 0.5 * size
        return abs(float((forward * c).sum()) - backward) <= limit
