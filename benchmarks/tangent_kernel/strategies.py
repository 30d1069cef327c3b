"""Ways to the kernel that the tutorial of torch.func documents, and ours.

Each is a generator that fills a kernel in and yields the share of the work that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from momentron.ntk import EmpiricalNTK
from tests.networks import OUTPUTS

Progress = Iterator[float]
"""A computation that says which share of the pairs is done."""


class Single:
    """A model as torch.func takes it: a function of parameters and one example."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.parameters = {name: p.detach() for name, p in model.named_parameters()}
        self.entries = sum(p.numel() for p in self.parameters.values())

    def __call__(self, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        found: Tensor = functional_call(self.model, parameters, (x.unsqueeze(0),))[0]
        return found


def ours(model: nn.Module, X: Tensor, kernel: np.ndarray, limit: int) -> Progress:
    kernel[:] = EmpiricalNTK(model, max_memory=limit)(X)
    yield 1.0


def jacobian_contraction(model: nn.Module, X: Tensor, kernel: np.ndarray, limit: int) -> Progress:
    single = Single(model)
    yield from _contract(
        lambda x: vmap(jacrev(single), (None, 0))(single.parameters, x),
        *(X, kernel, _block(limit, OUTPUTS * single.entries)),
    )


def output_by_output(model: nn.Module, X: Tensor, kernel: np.ndarray, limit: int) -> Progress:
    single = Single(model)
    for o in range(OUTPUTS):
        parts = _contract(_gradients_of(single, o), *(X, kernel, _block(limit, single.entries)))
        yield from ((o + share) / OUTPUTS for share in parts)


def _gradients_of(single: Single, o: int) -> Callable[[Tensor], Any]:
    def output(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return single(parameters, x)[o]

    return lambda x: vmap(grad(output), (None, 0))(single.parameters, x)


def vector_products(model: nn.Module, X: Tensor, kernel: np.ndarray, limit: int) -> Progress:
    """A column at a time: x_j against all x_i, i ≤ j."""
    single = Single(model)

    def of_pair(x1: Tensor, x2: Tensor) -> Tensor:
        _, back = vjp(lambda p: single(p, x1), single.parameters)

        def product(basis: Tensor) -> Tensor:
            vectors = back(basis)
            found: Tensor = jvp(lambda p: single(p, x2), (single.parameters,), vectors)[1]
            return found

        return torch.einsum("oo->", vmap(product)(torch.eye(OUTPUTS)))

    block = max(1, _block(limit, OUTPUTS * single.entries))
    n, done = len(X), 0
    for j in range(n):
        for start in range(0, j + 1, block):
            rows = slice(start, min(start + block, j + 1))
            with sdpa_kernel(SDPBackend.MATH):  # the one attention with a forward mode
                values = vmap(of_pair, (0, None))(X[rows], X[j])
            kernel[rows, j] = kernel[j, rows] = values.numpy()
            done += rows.stop - rows.start
            yield done / (n * (n + 1) / 2)


STRATEGIES: dict[str, Callable[[nn.Module, Tensor, np.ndarray, int], Progress]] = {
    "EmpiricalNTK": ours,
    "Jacobian contraction": jacobian_contraction,
    "NTK-vector products": vector_products,
    "gradients output by output": output_by_output,
}


def _block(limit: int, entries: int) -> int:
    """Examples whose gradients, twice and once more while they are made, fit the limit."""
    return max(1, limit // (3 * 4 * entries))


def _contract(
    gradients: Callable[[Tensor], dict[str, Tensor]], X: Tensor, kernel: np.ndarray, block: int
) -> Progress:
    n, done = len(X), 0
    blocks = [slice(start, min(start + block, n)) for start in range(0, n, block)]
    for i, rows in enumerate(blocks):
        left = gradients(X[rows])
        for columns in blocks[i:]:
            right = left if columns is rows else gradients(X[columns])
            part = sum(a.flatten(1) @ right[name].flatten(1).T for name, a in left.items())
            kernel[rows, columns] += part.numpy()
            if columns is not rows:
                kernel[columns, rows] = kernel[rows, columns].T
            done += 1
            yield done / (len(blocks) * (len(blocks) + 1) / 2)
