"""Gradients of parameters that no unit covers, example by example, and their inner products."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from momentron.ntk.contraction import OutputPair
from momentron.ntk.gradient_factors import FormCost, Gradients, Workspace, add
from momentron.ntk.inputs import Readout
from momentron.ntk.model_checks import flat_outputs

Piece = tuple[int, slice, list[Tensor]]


class ExampleGradients:
    """∂A_o(x_i)/∂θ for the parameters θ that no structured unit covers.

    The examples of a batch are sent through `torch.func.vmap`, each with parameters of its own that
    share one memory; one backward pass per output then gives the gradients of all of them. A model
    that vmap cannot transform (recurrent layers, control flow on values) is run example by example.

    Parameters
    ----------
    model : Module
    names : sequence of str
    x : tensor of shape (n, ...)
        A few rows, to see whether vmap works.
    """

    def __init__(self, model: nn.Module, names: Sequence[str], x: Tensor) -> None:
        self.model = model
        self.names = list(names)
        self.parameters = [model.get_parameter(name) for name in names]
        self.is_vectorised = self._can_vectorise(x)

    def __call__(self, x: Tensor, outputs: range, readout: Readout, start: int) -> Iterator[Piece]:
        """Yield (o, rows, gradients), each gradient of shape (rows, entries of the parameter).

        `readout` says what is differentiated, and x begins with its row `start`.
        """
        if self.is_vectorised:
            yield from self._vectorised(x, outputs, readout, start)
        else:
            yield from self._one_by_one(x, outputs, readout, start)

    def _can_vectorise(self, x: Tensor) -> bool:
        if has_padding(self.model):  # vmap gives the padding token a gradient, autograd does not
            return False
        try:
            with torch.no_grad():
                expected = self.model(x)
            for _, _, gradients in self._vectorised(x, range(1), Readout(), 0):
                del gradients
            found, _ = self._forward(x)
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

    def _vectorised(
        self, x: Tensor, outputs: range, readout: Readout, start: int
    ) -> Iterator[Piece]:
        found, own = self._forward(x)
        found = readout(found, slice(start, start + len(x)))
        for o in outputs:
            yield o, slice(0, len(x)), _gradients(found[:, o].sum(), own, o != outputs[-1])

    def _one_by_one(
        self, x: Tensor, outputs: range, readout: Readout, start: int
    ) -> Iterator[Piece]:
        for i in range(len(x)):
            found = flat_outputs(self.model(x[i : i + 1]), 1)
            found = readout(found, slice(start + i, start + i + 1))
            for o in outputs:
                gradients = _gradients(found[0, o], self.parameters, o != outputs[-1])
                yield o, slice(i, i + 1), [gradient.unsqueeze(0) for gradient in gradients]


def has_padding(model: nn.Module) -> bool:
    """Whether an embedding has a token that learns nothing, whatever its derivative is."""
    return any(getattr(module, "padding_idx", None) is not None for module in model.modules())


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


class WrittenGradients(Gradients):
    """∂A_o(x_i)/∂θ of n examples and some outputs, one tensor per output and parameter.

    Inner products do not care for the order of the entries, so tensors are kept as autograd
    leaves them where the examples come in one batch; only several batches are copied together.

    Parameters
    ----------
    n, outputs : int
        How many of each.
    workspace : Workspace
    """

    def __init__(self, n: int, outputs: int, workspace: Workspace) -> None:
        self.n = n
        self.workspace = workspace
        self._of_output: list[list[Tensor]] = [[] for _ in range(outputs)]

    def take(self, o: int, rows: slice, gradients: Sequence[Tensor]) -> None:
        """Keep the gradients of output o for some of the examples, one tensor per parameter."""
        dtype = self.workspace.dtype
        if rows.stop - rows.start == self.n:
            self._of_output[o] = [gradient.to(dtype) for gradient in gradients]
            return
        if not self._of_output[o]:
            self._of_output[o] = [
                self.workspace.empty(self.n, *gradient.shape[1:]) for gradient in gradients
            ]
        for whole, gradient in zip(self._of_output[o], gradients, strict=True):
            whole[rows] = gradient

    def add_products(
        self, other: WrittenGradients, rows: slice, columns: slice, pairs: Sequence[OutputPair]
    ) -> None:
        """Add inner products of rows here with rows there to the target of each output pair."""
        for left, right, target in self._pairs(other, pairs):
            add(target, left[rows] @ right[columns].T)

    def add_squares(self, other: WrittenGradients, pairs: Sequence[OutputPair]) -> None:
        """Add each example's inner products with itself."""
        for left, right, target in self._pairs(other, pairs):
            add(target, torch.einsum("nd,nd->n", left, right))

    def _pairs(
        self, other: WrittenGradients, pairs: Sequence[OutputPair]
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for mine, others, target in pairs:
            outputs = zip(self._of_output[mine], other._of_output[others], strict=True)
            for left_output, right_output in outputs:
                for left, right in zip(left_output, right_output, strict=True):
                    yield *_as_matrices(left, right), target


def written_cost(entries: int, outputs: int, across: bool) -> FormCost:
    """Of gradients that are written out, for one example."""
    pair = 2.0 * outputs * entries * (outputs if across else 1)
    return FormCost(outputs * entries, 3 * entries, 0.0, pair, long=pair)


def _as_matrices(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """One row per example, with the entries of both in the same order; no copy where one serves."""
    order = _order(left)
    if order == _order(right):
        left, right = left.permute(order), right.permute(order)
    return left.reshape(len(left), -1), right.reshape(len(right), -1)


def _order(gradients: Tensor) -> list[int]:
    """The axes as they follow in memory, the examples first."""
    strides = gradients.stride()
    return [0, *sorted(range(1, gradients.ndim), key=lambda axis: -strides[axis])]
