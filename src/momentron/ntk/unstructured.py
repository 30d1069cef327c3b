"""Gradients of parameters that no unit covers, example by example."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from momentron.ntk.model_checks import flat_outputs
from momentron.ntk.selection import Examples, Readout

Piece = tuple[int, slice, list[Tensor]]


class ExampleGradients:
    """∂A_o(x_i)/∂θ for the parameters θ that no structured unit covers.

    The examples of a batch are sent through `torch.func.vmap`, each with its own parameters that
    share one memory; one backward pass per output then gives the gradients of all of them. A model
    that vmap cannot transform (recurrent layers, control flow on values) is run example by example.

    Parameters
    ----------
    model : Module
    names : sequence of str
    x : tensor of shape (n, ...)
        A few rows, to see whether vmap works.
    readout : Readout
    """

    def __init__(self, model: nn.Module, names: Sequence[str], x: Tensor, readout: Readout) -> None:
        self.model = model
        self.readout = readout
        self.names = list(names)
        self.parameters = [model.get_parameter(name) for name in names]
        self.is_vectorised = bool(self.names) and self._can_vectorise(x)

    def __call__(self, X: Examples, rows: slice, outputs: range) -> Iterator[Piece]:
        """Yield (o, part, gradients), each gradient with one row for each example of the part.

        A part is a slice of the rows, counted from their start.
        """
        if not self.names:
            return
        x, n = X.rows(rows), rows.stop - rows.start
        if self.is_vectorised:
            found, own = self._forward(x)
            found = self.readout(found, X.places_of(rows))
            for o in outputs:
                yield o, slice(0, n), _gradients(found[:, o].sum(), own, o != outputs[-1])
            return
        for i in range(n):
            place = X.places_of(slice(rows.start + i, rows.start + i + 1))
            found = self.readout(flat_outputs(self.model(x[i : i + 1]), 1), place)
            for o in outputs:
                gradients = _gradients(found[0, o], self.parameters, o != outputs[-1])
                yield o, slice(i, i + 1), [gradient.unsqueeze(0) for gradient in gradients]

    def _can_vectorise(self, x: Tensor) -> bool:
        # vmap gives the padding token of an embedding a gradient, autograd does not
        if any(getattr(m, "padding_idx", None) is not None for m in self.model.modules()):
            return False
        try:
            with torch.no_grad():
                expected = self.model(x)
            found, own = self._forward(x)
            _gradients(found[:, 0].sum(), own, False)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
        with torch.no_grad():
            difference = (found - expected.reshape(len(x), -1)).abs().max()
            limit = torch.finfo(found.dtype).eps ** 0.5 * found.abs().max()
            return bool(difference <= limit)

    def _forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The outputs, and the parameters of each example, on which they depend."""
        own = [p.detach().expand(len(x), *p.shape).requires_grad_() for p in self.parameters]

        def outputs_of_one(parameters: list[Tensor], row: Tensor) -> Tensor:
            named = dict(zip(self.names, parameters, strict=True))
            return functional_call(self.model, named, (row.unsqueeze(0),)).reshape(-1)

        with _loops_allowed(), differentiable_attention():
            return vmap(outputs_of_one)(own, x), own


def _gradients(output: Tensor, parameters: Sequence[Tensor], keep: bool) -> list[Tensor]:
    with _loops_allowed():
        found = torch.autograd.grad(output, parameters, retain_graph=keep, allow_unused=True)
    return [
        torch.zeros_like(p) if g is None else g.to_dense() if g.is_sparse else g
        for g, p in zip(found, parameters, strict=True)
    ]


@contextmanager
def _loops_allowed() -> Iterator[None]:
    """No warning where vmap loops over an operation that has no batching rule: it is meant to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*performance drop.*")
        yield


@contextmanager
def differentiable_attention() -> Iterator[None]:
    """Attention by its formula.

    Its fast path must go, since vmap hides from it that a derivative is wanted; its fused kernels
    have no forward mode, and vmap would loop over them.
    """
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
