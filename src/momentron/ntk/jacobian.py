"""Gradients example by example, and the Jacobian of a model as a linear map, by products alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from momentron.errors import InputError, short
from momentron.ntk.memory_plan import SHARE, STEP_LIMIT, format_memory
from momentron.ntk.model_structure import Unit, examine, flat_outputs, hooked
from momentron.ntk.selection import Examples, Readout, chosen_parameters, pieces, shifted

if TYPE_CHECKING:
    from momentron.ntk.empirical import EmpiricalNTK

Vector = list[Tensor]
"""One tensor per parameter."""


class Piece(NamedTuple):
    """Derivatives of one output with respect to what is asked for, for some examples."""

    output: int
    rows: slice  # counted from the first that was asked for
    inputs: list[Tensor]  # u of each unit, (n, P, F)
    deltas: list[Tensor]  # δ of each unit, (n, P, C), and gradients of other parameters, (n, 1, C)


class ExampleGradients:
    """∂A_o(x_i)/∂θ for some parameters θ, and u and δ of some units.

    The examples of a batch are sent through `torch.func.vmap`, each with its own parameters that
    share one memory, and with zeros that are added to the outputs of the layers of units. One
    backward pass per output then gives the derivatives with respect to all of them. A model that
    vmap cannot transform (recurrent layers, control flow on values) is run example by example; a
    few rows `x` tell which it is.
    """

    def __init__(
        self,
        model: nn.Module,
        names: Sequence[str],
        x: Tensor,
        readout: Readout,
        units: Sequence[Unit] = (),
    ) -> None:
        self.model, self.readout, self.units = model, readout, units
        self.names = list(names)
        self.parameters = [model.get_parameter(name) for name in names]
        self._place = {id(m): place for place, unit in enumerate(units) for m in unit.modules}
        self.is_vectorised = self._can_vectorise(x[:2])

    def __call__(self, X: Examples, rows: slice, outputs: range) -> Iterator[Piece]:
        """The derivatives of each output, for all rows at once or for one after the other."""
        n = rows.stop - rows.start
        for part in pieces(n, n if self.is_vectorised else 1):
            some = shifted(part, rows.start)
            found, inputs, leaves = self._forward(X.rows(some))
            found = self.readout(found, None if X.places is None else X.places[some])
            for o in outputs:
                values = iter(_gradients(found[:, o].sum(), leaves, o != outputs[-1]))
                gradients = [next(values).reshape(len(found), 1, -1) for _ in self.names]
                deltas = [unit.deltas([next(values) for _ in unit.zeros]) for unit in self.units]
                yield Piece(o, part, inputs, deltas + gradients)

    def _forward(self, x: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Outputs, u of each unit, and what to differentiate by; of one example, or by vmap."""
        zeros = [[_copies(zero, len(x)) for zero in unit.zeros] for unit in self.units]
        if self.is_vectorised:
            own = [_copies(p.detach(), len(x)) for p in self.parameters]
            named = dict(zip(self.names, own, strict=True))
            with plain_operations():
                outputs, inputs = vmap(self._run_one)(named, zeros, x)
        else:
            own = self.parameters
            first = [[zero[0] for zero in each] for each in zeros]
            alone, each = self._run_one({}, first, x[0])
            outputs = alone.unsqueeze(0)
            inputs = [[x.unsqueeze(0) for x in calls] for calls in each]
        u = [unit.features(calls) for unit, calls in zip(self.units, inputs, strict=True)]
        return outputs, u, [*own, *chain(*zeros)]

    def _run_one(
        self, named: dict[str, Tensor], zeros: list[list[Tensor]], row: Tensor
    ) -> tuple[Tensor, list[list[Tensor]]]:
        """The outputs of one example, and the inputs of each call of each unit."""
        inputs: list[list[Tensor]] = [[] for _ in self.units]

        def on_call(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            place = self._place[id(module)]
            calls, given = inputs[place], zeros[place]
            calls.append(x.detach().clone())  # which may be changed in place
            return y + given[len(calls) - 1] if len(calls) <= len(given) else y

        modules = [module for unit in self.units for module in unit.modules]
        with hooked(modules, on_call):
            x = row.unsqueeze(0)
            outputs = functional_call(self.model, named, (x,)) if named else self.model(x)
        for unit, calls in zip(self.units, inputs, strict=True):
            if len(calls) != len(unit.zeros):
                raise InputError(
                    f"a {type(unit.modules[0]).__name__} layer is called {len(calls)} times for "
                    f"some examples and {len(unit.zeros)} times for the first; the kernel needs a "
                    "model that runs the same layers for every example"
                )
        return outputs.reshape(-1), inputs

    def _can_vectorise(self, x: Tensor) -> bool:
        # vmap gives the padding token of an embedding a gradient, autograd does not
        own = {id(p) for p in self.parameters}
        for module in self.model.modules():
            if getattr(module, "padding_idx", None) is not None and id(module.weight) in own:
                return False
        self.is_vectorised = True
        try:
            with torch.no_grad():
                expected = self.model(x)
            found, _, leaves = self._forward(x)
            _gradients(found[:, 0].sum(), leaves, False)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
        with torch.no_grad():
            difference = (found - expected.reshape(len(x), -1)).abs().max()
            limit = torch.finfo(found.dtype).eps ** 0.5 * found.abs().max()
            return bool(difference <= limit)


def _copies(one: Tensor, n: int) -> Tensor:
    """The same numbers for n examples, in one memory, to differentiate by."""
    return one.expand(n, *one.shape).requires_grad_()


def _gradients(
    output: Tensor, parameters: Sequence[Tensor], keep: bool, weights: Tensor | None = None
) -> list[Tensor]:
    """Of an output, or of the sum of several with weights."""
    found = torch.autograd.grad(
        output, parameters, weights, retain_graph=keep, materialize_grads=True
    )
    return [gradient.to_dense() if gradient.is_sparse else gradient for gradient in found]


@contextmanager
def plain_operations() -> Iterator[None]:
    """Attention by its formula, and no warning where vmap loops over an operation: it is meant to.

    The fast path of attention must go, since vmap hides from it that a derivative is wanted; its
    fused kernels have no forward mode, and vmap would loop over them.
    """
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):
            warnings.filterwarnings("ignore", message=".*performance drop.*")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


class Linearised:
    """J of some examples with respect to the chosen parameters, by products alone.

    Jᵀc is a backward pass. It is linear in c, so Jv is the derivative of ⟨Jᵀc, v⟩ with respect to
    c, a backward pass through the backward pass. Where the model has no such second pass, or it
    gives something else for a few examples, each example's gradients are multiplied by v.
    """

    @torch.enable_grad()
    def __init__(self, ntk: EmpiricalNTK, examples: Examples) -> None:
        self.model, self.readout, few = ntk.model, Readout(ntk.outputs), examples.few(4)
        chosen = chosen_parameters(ntk.model, ntk.parameters)
        structure = examine(ntk.model, few, chosen)
        self.names, self.parameters = list(chosen), list(chosen.values())
        self.n_outputs = len(self.readout.numbers(structure.n_outputs))
        self.dtype = torch.promote_types(self.parameters[0].dtype, torch.float32)
        self.graph_bytes = structure.graph_bytes
        self._gradients: ExampleGradients | None = None
        if not self._has_second_pass(examples):
            self._gradients = ExampleGradients(ntk.model, self.names, few, self.readout)

    def plan(self, directions: int, limit: int) -> tuple[int, int]:
        """As many directions in the space of parameters, and examples, as the memory holds."""
        vector = sum(p.numel() for p in self.parameters) * self.dtype.itemsize
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

    def vector(self, direction: Mapping[str, Any]) -> Vector:
        """A direction as users pass it; parameters that it leaves out do not move."""
        if not isinstance(direction, Mapping):
            raise InputError(
                f"direction is {type(direction).__name__}; pass a mapping from names of parameters "
                "to arrays, as vjp returns it"
            )
        found = dict(zip(self.names, self.zeros(), strict=True))
        for name, values in direction.items():
            if name not in found:
                raise InputError(
                    f"direction names {short(name)}; the chosen parameters are {self.names}"
                )
            given = _as_tensor(values, f"direction[{short(name)}]")
            if given.shape != found[name].shape:
                raise InputError(
                    f"direction[{short(name)}] has shape {tuple(given.shape)}; "
                    f"its parameter has {tuple(found[name].shape)}"
                )
            found[name].copy_(given)
        return list(found.values())

    @torch.enable_grad()
    def pull(
        self, examples: Examples, rows: slice, weights: Sequence[Tensor], into: Sequence[Vector]
    ) -> None:
        """Add Jᵀc of these rows to a vector, for each c of shape (n, outputs)."""
        found = self._outputs(examples, rows)
        for i, (c, total) in enumerate(zip(weights, into, strict=True)):
            keep = i < len(weights) - 1
            gradients = _gradients(found, self.parameters, keep, c.to(found.dtype))
            for part, gradient in zip(total, gradients, strict=True):
                part += gradient

    @torch.enable_grad()
    def push(self, examples: Examples, rows: slice, directions: Sequence[Vector]) -> list[Tensor]:
        """Jv of these rows for each direction v, of shape (n, outputs)."""
        if self._gradients is None:
            return self._second_pass(examples, rows, directions)
        shape, device = (rows.stop - rows.start, self.n_outputs), examples.device
        found = [torch.zeros(shape, dtype=self.dtype, device=device) for _ in directions]
        for piece in self._gradients(examples, rows, range(self.n_outputs)):
            for target, v in zip(found, directions, strict=True):
                for gradient, part in zip(piece.deltas, v, strict=True):
                    along = gradient[:, 0].to(self.dtype) @ part.reshape(-1)
                    target[piece.rows, piece.output] += along
        return found

    def _second_pass(
        self, examples: Examples, rows: slice, directions: Sequence[Vector]
    ) -> list[Tensor]:
        with plain_operations():
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
        x = examples.rows(rows)
        return self.readout(flat_outputs(self.model(x), len(x)))

    def _has_second_pass(self, examples: Examples) -> bool:
        """Whether Jv of a few examples exists, and ⟨c, Jv⟩ = ‖v‖² for v = Jᵀc."""
        rows, generator = slice(0, min(4, len(examples))), torch.Generator().manual_seed(0)
        # without torch's global generator
        c = torch.randn(rows.stop, self.n_outputs, generator=generator).to(examples.device)
        v = self.zeros()
        self.pull(examples, rows, [c], [v])
        try:
            (found,) = self._second_pass(examples, rows, [v])
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
        square = sum(float(part.square().sum()) for part in v)
        limit = torch.finfo(self.parameters[0].dtype).eps ** 0.5 * square
        return abs(float((found * c).sum()) - square) <= limit


def _as_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    found = np.asarray(values)
    if found.dtype.kind not in "fiub":
        raise InputError(f"{name} has dtype {found.dtype}; it must be real numbers")
    return torch.tensor(np.ascontiguousarray(found, np.float64))


def as_matrix(
    values: Any, name: str, linear: Linearised, examples: Examples, width: int | None = None
) -> Tensor:
    """One row per example; a vector is one column. `width` is the number of columns, if fixed."""
    found, n = _as_tensor(values, name), len(examples)
    if found.ndim not in (1, 2) or len(found) != n:
        raise InputError(
            f"{name} has shape {tuple(found.shape)}; its first axis must be {n}, one per example"
        )
    found = found.to(linear.dtype).to(examples.device).reshape(n, -1)
    if width not in (None, found.shape[1]):
        raise InputError(
            f"{name} has shape {tuple(found.shape)}; it must be ({n}, {width}), one column per "
            "output"
        )
    return found
