"""Products with a tangent kernel and with the Jacobian behind it, without forming either."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn

from momentron.data.arguments import as_flag, parse_size
from momentron.errors import InputError, short
from momentron.ntk.kernel_array import ResultType, inverse_roots, require_finite
from momentron.ntk.memory_plan import SHARE, STEP_LIMIT, format_memory
from momentron.ntk.model_checks import flat_outputs
from momentron.ntk.model_structure import examine
from momentron.ntk.selection import (
    Examples,
    Outputs,
    Readout,
    Selection,
    chosen_parameters,
    pieces,
)
from momentron.ntk.unstructured import ExampleGradients, differentiable_attention
from momentron.views.progress import Progress, Tell, as_progress, part_of

Vector = list[Tensor]
"""One tensor per parameter."""


class KernelOptions(TypedDict, total=False):
    """What each form of a kernel takes besides the examples.

    Attributes
    ----------
    normalize : bool
    max_memory : str or int
        Instead of the values given to the constructor.
    progress : bool or callable
        True for a line on standard error, or a function of the fraction done.
    """

    normalize: bool | None
    max_memory: str | int | None
    progress: Progress


class JacobianProducts(ABC):
    """J, Jᵀ and K = JJᵀ as linear maps; the part of `EmpiricalNTK` that forms no matrix."""

    model: nn.Module
    input_shape: tuple[int, ...] | None
    outputs: Outputs
    parameters: Selection
    normalize: bool
    max_memory: str | int
    dtype: Any

    @abstractmethod
    def diagonal(self, X: Any, **options: Unpack[KernelOptions]) -> Any:
        """K(x, x) of each row."""

    def jvp(self, X: Any, direction: Mapping[str, Any], *, progress: Progress = None) -> Any:
        """Jv: how fast each output changes as the parameters move in a direction.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, ...)
        direction : mapping of str to array-like or Tensor
            From names of chosen parameters to arrays of the same shape; parameters that are left
            out do not move.
        progress : bool or callable, optional

        Returns
        -------
        array of shape (n, k)
        """
        examples = self._examples(X, "X")
        _, limit, tell = self._settings("Jacobian product", progress=progress)
        linear = Linearised(self, examples)
        v = _as_vector(linear, direction)
        _, batch = linear.plan(1, limit)
        parts = [
            linear.push(examples, rows, [v])[0] for rows in _batches(len(examples), batch, tell)
        ]
        return ResultType.parse(self.dtype).finished(require_finite(torch.cat(parts)))

    def vjp(self, X: Any, weights: Any, *, progress: Progress = None) -> dict[str, Any]:
        """Jᵀc: the gradient of Σ c_io A_o(x_i), summed over all examples.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, ...)
        weights : array-like or Tensor of shape (n, k)
            c.
        progress : bool or callable, optional

        Returns
        -------
        dict
            An array of the parameter's shape for each name of a chosen parameter.
        """
        examples = self._examples(X, "X")
        _, limit, tell = self._settings("Jacobian product", progress=progress)
        linear = Linearised(self, examples)
        c = _as_matrix(weights, "weights", linear, examples, linear.n_outputs)
        total, (_, batch) = linear.zeros(), linear.plan(1, limit)
        for rows in _batches(len(examples), batch, tell):
            linear.pull(examples, rows, [c[rows]], [total])
        result = ResultType.parse(self.dtype)
        return {
            name: result.finished(require_finite(part))
            for name, part in zip(linear.names, total, strict=True)
        }

    def matvec(self, X1: Any, v: Any, X2: Any = None, **options: Unpack[KernelOptions]) -> Any:
        """K(X1, X2) v, with the kernel summed over the outputs, and without forming it.

        It costs one backward pass over X2, and one through the backward pass over X1, for each
        output and column of v, whatever the number of pairs, and memory for as many copies of the
        parameters as `max_memory` holds, at least one.

        Parameters
        ----------
        X1, X2 : array-like or Tensor of shape (n1, ...) and (n2, ...)
            X2 is X1 by default.
        v : array-like or Tensor of shape (n2,) or (n2, m)
        **options
            As in a call of the kernel.

        Returns
        -------
        array of shape (n1,) or (n1, m)
        """
        normalize, limit, tell = self._settings("kernel product", **options)
        left = self._examples(X1, "X1")
        right = left if X2 is None else self._examples(X2, "X2")
        linear = Linearised(self, right)
        columns = _as_matrix(v, "v", linear, right)
        if normalize:
            columns = columns * self._scale(X1 if X2 is None else X2).to(columns)[:, None]
        result = ResultType.parse(self.dtype)
        total = result.zeros(left.device, len(left), columns.shape[1])
        seeds = [(o, j) for j in range(columns.shape[1]) for o in range(linear.n_outputs)]
        held, batch = linear.plan(len(seeds), limit)
        for start in range(0, len(seeds), held):
            some = seeds[start : start + held]
            begun, ended = start / len(seeds), (start + len(some)) / len(seeds)
            middle = 0.5 * (begun + ended)
            vectors = [linear.zeros() for _ in some]
            for rows in _batches(len(right), batch, part_of(tell, begun, middle)):
                weights = [columns.new_zeros(len(columns[rows]), linear.n_outputs) for _ in some]
                for c, (o, j) in zip(weights, some, strict=True):
                    c[:, o] = columns[rows, j]
                linear.pull(right, rows, weights, vectors)
            for rows in _batches(len(left), batch, part_of(tell, middle, ended)):
                for (o, j), found in zip(some, linear.push(left, rows, vectors), strict=True):
                    total[rows, j] += found[:, o].to(total.device)
        if normalize:
            total *= self._scale(X1).to(total)[:, None]
        return result.finished(require_finite(total.reshape(len(left), *np.shape(v)[1:])))

    def linear_operator(self, X: Any) -> LinearOperator:
        """K(X, X) as an operator of scipy, for its eigenvalue and linear solvers.

        Every product is a `matvec`; the diagonal that a normalised kernel needs is computed once
        per product.
        """
        kernel = copy(self)
        kernel.dtype = None
        n = len(self._examples(X, "X"))

        def product(v: np.ndarray) -> np.ndarray:
            found: np.ndarray = kernel.matvec(X, v.reshape(n, -1))
            return found.reshape(v.shape)

        return LinearOperator(
            (n, n), matvec=product, rmatvec=product, matmat=product, dtype=np.float64
        )

    def _examples(self, X: Any, name: str) -> Examples:
        return Examples(X, self.model, self.input_shape, name)

    def _scale(self, X: Any) -> Tensor:
        """1/√K(x, x)."""
        return inverse_roots(torch.as_tensor(self.diagonal(X, normalize=False)))

    def _settings(
        self,
        words: str,
        *,
        normalize: bool | None = None,
        max_memory: str | int | None = None,
        progress: Progress = None,
    ) -> tuple[bool, int, Tell]:
        """`KernelOptions` with the kernel's own settings where none is given."""
        return (
            self.normalize if normalize is None else as_flag("normalize", normalize),
            parse_size(self.max_memory if max_memory is None else max_memory, "max_memory"),
            as_progress(progress, words),
        )


def _batches(n: int, size: int, tell: Tell) -> Iterator[slice]:
    for rows in pieces(n, size):
        yield rows
        tell(rows.stop / n)


class Linearised:
    """J of some examples with respect to the chosen parameters, by products alone.

    Jᵀc is a backward pass. It is linear in c, so Jv is the derivative of ⟨Jᵀc, v⟩ with respect to
    c, a backward pass through the backward pass. Where the model has no such second pass, or
    ⟨c, Jv⟩ and ⟨Jᵀc, v⟩ differ on a few examples, each example's gradients are multiplied by v.

    Parameters
    ----------
    ntk : JacobianProducts
        The model, and which of its parameters and outputs count.
    examples : Examples
        A few of them are sent through the model to examine it.
    """

    @torch.enable_grad()
    def __init__(self, ntk: JacobianProducts, examples: Examples) -> None:
        self.model, self.readout, few = ntk.model, Readout(ntk.outputs), examples.few(4)
        chosen = chosen_parameters(ntk.model, ntk.parameters)
        structure = examine(ntk.model, few, chosen)
        self.names, self.parameters = list(chosen), list(chosen.values())
        self.n_outputs = len(self.readout.numbers(structure.n_outputs))
        self.dtype = torch.promote_types(self.parameters[0].dtype, torch.float32)
        self.entries = sum(p.numel() for p in self.parameters)
        self.graph_bytes = structure.graph_bytes
        self._gradients: ExampleGradients | None = None
        if not self._has_second_pass(examples):
            self._gradients = ExampleGradients(ntk.model, self.names, few, self.readout)

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
        x = examples.rows(rows)
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


def _as_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    found = np.asarray(values)
    if found.dtype.kind not in "fiub":
        raise InputError(f"{name} has dtype {found.dtype}; it must be real numbers")
    return torch.tensor(np.ascontiguousarray(found, np.float64))


def _as_matrix(
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


def _as_vector(linear: Linearised, direction: Mapping[str, Any]) -> Vector:
    if not isinstance(direction, Mapping):
        raise InputError(
            f"direction is {type(direction).__name__}; pass a mapping from names of parameters "
            "to arrays, as vjp returns it"
        )
    unknown = [name for name in direction if name not in linear.names]
    if unknown:
        raise InputError(
            f"direction names {short(unknown[0])}; the chosen parameters are {linear.names}"
        )
    found = linear.zeros()
    for name, part in zip(linear.names, found, strict=True):
        if name in direction:
            given = _as_tensor(direction[name], f"direction[{short(name)}]")
            if given.shape != part.shape:
                raise InputError(
                    f"direction[{short(name)}] has shape {tuple(given.shape)}; "
                    f"its parameter has {tuple(part.shape)}"
                )
            part.copy_(given)
    return found
