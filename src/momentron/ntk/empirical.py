"""The empirical tangent kernel of a torch model, exactly, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from momentron.arguments import parse_size
from momentron.errors import InputError
from momentron.ntk.anatomy import examine
from momentron.ntk.blocks import Differentiator
from momentron.ntk.examples import Examples
from momentron.ntk.factors import Workspace
from momentron.ntk.fallback import ExampleGradients
from momentron.ntk.plan import KernelShape, make_plan
from momentron.ntk.sweep import Progress, Sweep


class EmpiricalNTK:
    r"""The tangent kernel of a model at its present weights, traced over its outputs.

    .. math::
        K(x, x') = \sum_o ⟨∇_θ A_o(x; θ), ∇_θ A_o(x'; θ)⟩,

    with θ all parameters that require a gradient. Dense and convolutional layers, embeddings and
    normalisation layers are differentiated layer by layer: their gradients are never written out
    where inner products can be had without. All other parameters go through `torch.func`, example
    by example; the two are mixed as the model needs. A layer that is called several times, or
    shares its weights with another, has its gradients added before inner products are taken.

    The cost is that of one backward pass per example and output, and of matrix products. With F
    inputs and C outputs read at P positions, a layer costs the lesser of 2·outputs·C·F and
    2·P²·(F + outputs·C) flops per entry of K.

    Parameters
    ----------
    model : torch.nn.Module
        It maps a batch, one example per row, to a tensor with one row per example. It must be in
        evaluation mode where that matters (batch normalisation, dropout), and is left as it is.
    input_shape : tuple of int, optional
        Shape of one example, e.g. (3, 32, 32): rows of a 2-D array are reshaped to it, so that the
        kernel can be handed to scikit-learn.
    normalize : bool
        Divide K_ij by √(K_ii K_jj). An example with no derivative at all (K_ii = 0) keeps zeros.
    max_memory : str or int
        Limit on the memory beyond model, inputs and result, as "256MB", "2GB" or bytes.

    Notes
    -----
    Products are taken in the type of the model's parameters (at least float32) and added up over
    layers in float64. Examples are moved to the model's device and type as they are read; whole
    numbers stay so if the model has an embedding.

    References
    ----------
    Jacot, Gabriel and Hongler (2018), "Neural tangent kernel". Novak, Sohl-Dickstein and
    Schoenholz (2022), "Fast finite width neural tangent kernel".

    Examples
    --------
    >>> import torch
    >>> from momentron.ntk import EmpiricalNTK
    >>> model = torch.nn.Linear(2, 1)
    >>> EmpiricalNTK(model)([[1.0, 0.0], [1.0, 2.0]])  # x·x' + 1
    array([[2., 2.],
           [2., 6.]])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        input_shape: tuple[int, ...] | None = None,
        normalize: bool = False,
        max_memory: str | int = "1GB",
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"model is {type(model).__name__}; pass a torch.nn.Module")
        parse_size(max_memory, "max_memory")
        self.model = model
        self.input_shape = None if input_shape is None else tuple(input_shape)
        self.normalize = normalize
        self.max_memory = max_memory

    @torch.enable_grad()
    def __call__(
        self,
        X1: Any,
        X2: Any = None,
        *,
        normalize: bool | None = None,
        max_memory: str | int | None = None,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """The kernel of all pairs.

        Parameters
        ----------
        X1, X2 : array-like or Tensor of shape (n1, ...) and (n2, ...)
            Without X2, or with X2 the same object as X1, the kernel of X1 with itself, computed on
            one side of the diagonal and mirrored.
        normalize, max_memory : optional
            In place of those given to the constructor.
        progress : callable, optional
            Called as progress(done, total) after each block.

        Returns
        -------
        ndarray of shape (n1, n2)
            In float64.
        """
        normalize = self.normalize if normalize is None else normalize
        left = Examples(X1, self.model, self.input_shape, "X1")
        if X2 is None or X2 is X1:
            shape = KernelShape(len(left), len(left), symmetric=True)
            kernel = self._sweep(left, shape, max_memory, progress).symmetric(left)
            _require_finite(kernel)
            if normalize:
                squares = np.diagonal(kernel).copy()
                _normalize(kernel, squares, squares)
                np.fill_diagonal(kernel, squares > 0.0)
            return kernel
        right = Examples(X2, self.model, self.input_shape, "X2")
        if left.shape != right.shape:
            raise InputError(
                f"X1 has examples of shape {left.shape} and X2 of {right.shape}; they must be alike"
            )
        swapped = len(left) < len(right)  # the derivatives of the fewer are the ones to hold
        if swapped:
            left, right = right, left
        shape = KernelShape(len(left), len(right))
        sweep = self._sweep(left, shape, max_memory, progress)
        kernel, rows, columns = sweep.rectangular(left, right, squares=normalize)
        _require_finite(kernel)
        if normalize:
            _normalize(kernel, _require_finite(rows), _require_finite(columns))
        return np.ascontiguousarray(kernel.T) if swapped else kernel

    @torch.enable_grad()
    def diagonal(
        self,
        X: Any,
        *,
        normalize: bool | None = None,
        max_memory: str | int | None = None,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """K(x, x) for each row of X, without any other entry of the kernel.

        Parameters are those of a call. Normalised, all are 1, or 0 where there is no derivative.

        Returns
        -------
        ndarray of shape (n,)
        """
        examples = Examples(X, self.model, self.input_shape, "X")
        sweep = self._sweep(examples, KernelShape(len(examples), 0), max_memory, progress)
        squares = _require_finite(sweep.diagonal(examples))
        if self.normalize if normalize is None else normalize:
            return (squares > 0.0).astype(np.float64)
        return squares

    def _sweep(
        self,
        examples: Examples,
        shape: KernelShape,
        max_memory: str | int | None,
        progress: Progress | None,
    ) -> Sweep:
        """Look at the model, make a plan, and put together what carries it out."""
        size = self.max_memory if max_memory is None else max_memory
        limit = parse_size(size, "max_memory")
        few = examples.few(4)
        anatomy = examine(self.model, few)
        dtype = torch.promote_types(next(self.model.parameters()).dtype, torch.float32)
        plan = make_plan(anatomy, shape, dtype.itemsize, limit)
        gradients = ExampleGradients(self.model, anatomy.rest, few) if anatomy.rest else None
        workspace = Workspace(examples.device, dtype, plan.scratch)
        differentiate = Differentiator(self.model, anatomy, plan.forms, workspace, gradients)
        return Sweep(differentiate, plan, anatomy.n_outputs, progress)


def _normalize(kernel: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
    """K_ij/√(K_ii K_jj), in place; both factors at once, which keeps a symmetric kernel so."""
    left, right = (_inverse_roots(squares) for squares in (rows, columns))
    for row, factor in zip(kernel, left, strict=True):
        row *= factor * right


def _inverse_roots(squares: np.ndarray) -> np.ndarray:
    roots = np.sqrt(np.maximum(squares, 0.0))
    return np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0.0)


def _require_finite(kernel: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        total = kernel.sum()
    if not np.isfinite(total):
        place = np.argwhere(~np.isfinite(kernel))[0]
        raise InputError(
            f"entry {tuple(map(int, place))} of the kernel is {kernel[tuple(place)]}; "
            "check that the inputs and the weights are finite and of moderate size"
        )
    return kernel
