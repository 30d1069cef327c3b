"""The empirical tangent kernel of a torch model, exactly, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, Unpack

import torch
from torch import nn

from momentron.data.arguments import as_flag, parse_size
from momentron.errors import InputError
from momentron.ntk.jacobian import JacobianProducts, KernelOptions
from momentron.ntk.kernel_array import (
    PER_OUTPUT,
    SAME_OUTPUT,
    TRACED,
    Contraction,
    ResultType,
    normalize_in_place,
    require_finite,
)
from momentron.ntk.memory_plan import KernelShape
from momentron.ntk.model_structure import examine
from momentron.ntk.selection import (
    Examples,
    Outputs,
    Readout,
    Selection,
)
from momentron.ntk.sweep import Sweep


class EmpiricalNTK(JacobianProducts):
    r"""The tangent kernel of a model at its present weights.

    .. math::
        K(x, x') = \sum_o ⟨∇_θ A_o(x; θ), ∇_θ A_o(x'; θ)⟩,

    with θ all parameters that require a gradient, or those that are chosen. Called, it sums over
    the outputs as above; `per_output`, `same_output` and `pairs` keep them apart, `matvec`, `jvp`
    and `vjp` multiply without forming K.

    Dense and convolutional layers, embeddings and normalisation layers are differentiated layer by
    layer: their gradients are never written out where inner products do not need them. All other
    parameters go through `torch.func`, example by example; the two are mixed as the model needs. A
    layer that is called several times, or shares its weights with another, has its gradients added
    before inner products are taken.

    The cost is one backward pass per example and output, plus matrix products. With F
    inputs and C outputs read at P positions, a layer costs the lesser of 2·outputs·C·F and
    2·P²·(F + outputs·C) flops per entry of K.

    Parameters
    ----------
    model : torch.nn.Module
        It maps a batch, one example per row, to a tensor with one row per example. It must be in
        evaluation mode if that matters (batch normalisation, dropout), and is not changed.
    input_shape : tuple of int, optional
        Shape of one example, e.g. (3, 32, 32): rows of a 2-D array are reshaped to it, so that the
        kernel can be handed to scikit-learn.
    normalize : bool
        Divide the derivatives of each example, all outputs together, by their length: K_ij by
        √(K_ii K_jj). An example with no derivative at all (K_ii = 0) keeps zeros.
    max_memory : str or int
        Limit on the memory beyond model, inputs and result, as "256MB", "2GB" or bytes.
    outputs : int, slice or sequence of int, optional
        Which outputs count, in this order; all by default. Outputs of more than one axis are
        numbered as if flattened.
    parameters : str, sequence of str or callable, optional
        Which parameters count: names of parameters or of modules that hold them, with ``*``, ``?``
        and ``[…]`` as in file names (``head``, ``*.bias``, ``blocks.[0-3]``), or a function of
        name and parameter that says yes or no. All that require a gradient by default.
    dtype : dtype, optional
        float64 or float32. With a numpy dtype (float64 by default), results are numpy arrays; with
        a torch dtype, tensors on the model's device.

    Notes
    -----
    Products are taken in the type of the model's parameters (at least float32) and added up over
    layers in the type of the result. Examples are moved to the model's device and type as they are
    read; integers stay integers if the model has an embedding. `momentron.views.progress` explains
    the values of `progress`.

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
    >>> EmpiricalNTK(model, parameters="bias", dtype=torch.float32)([[1.0, 0.0], [1.0, 2.0]])
    tensor([[1., 1.],
            [1., 1.]])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        input_shape: tuple[int, ...] | None = None,
        normalize: bool = False,
        max_memory: str | int = "1GB",
        outputs: Outputs = None,
        parameters: Selection = None,
        dtype: Any = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"model is {type(model).__name__}; pass a torch.nn.Module")
        parse_size(max_memory, "max_memory")
        ResultType.parse(dtype)
        self.model = model
        self.input_shape = None if input_shape is None else tuple(input_shape)
        self.normalize = as_flag("normalize", normalize)
        self.max_memory = max_memory
        self.outputs = tuple(outputs) if isinstance(outputs, Iterator) else outputs
        self.parameters = tuple(parameters) if isinstance(parameters, Iterator) else parameters
        self.dtype = dtype

    def __repr__(self) -> str:
        given = {
            "input_shape": self.input_shape,
            "normalize": self.normalize or None,
            "max_memory": None if self.max_memory == "1GB" else self.max_memory,
            "outputs": self.outputs,
            "parameters": self.parameters,
            "dtype": self.dtype,
        }
        words = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        count = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        named = f"<{type(self.model).__name__}, {count:,} trained parameters>"
        return f"EmpiricalNTK({', '.join([named, *words])})"

    def __call__(self, X1: Any, X2: Any = None, **options: Unpack[KernelOptions]) -> Any:
        """The kernel of all pairs, summed over the outputs.

        Parameters
        ----------
        X1, X2 : array-like or Tensor of shape (n1, ...) and (n2, ...)
            Without X2, or if X2 is X1, the kernel of X1 with itself, computed on
            one side of the diagonal and mirrored.
        **options
            As in `KernelOptions`.

        Returns
        -------
        array of shape (n1, n2)
        """
        return self._kernel(TRACED, *self._sides(X1, X2), options)

    def per_output(self, X1: Any, X2: Any = None, **options: Unpack[KernelOptions]) -> Any:
        """⟨∇A_o(x), ∇A_p(x')⟩ for all pairs of examples and of outputs.

        Parameters as in a call. `block_matrix` turns it into an (n1·k) × (n2·k) kernel.

        Returns
        -------
        array of shape (n1, n2, k, k)
        """
        return self._kernel(PER_OUTPUT, *self._sides(X1, X2), options)

    def same_output(self, X1: Any, X2: Any = None, **options: Unpack[KernelOptions]) -> Any:
        """⟨∇A_o(x), ∇A_o(x')⟩: one kernel per output, the diagonal of `per_output`.

        Parameters as in a call.

        Returns
        -------
        array of shape (n1, n2, k)
        """
        return self._kernel(SAME_OUTPUT, *self._sides(X1, X2), options)

    def pairs(
        self,
        X1: Any,
        y1: Any,
        X2: Any = None,
        y2: Any = None,
        **options: Unpack[KernelOptions],
    ) -> Any:
        """Inner products of the features ∇(A_c − A_j)(x), c the label of x and j a wrong one.

        These are the rows of the paper's reduction of many classes to two: a direction θ with
        margin 1 on all of them keeps, to first order, each true output 1 ahead of every wrong one.

        Parameters
        ----------
        X1, X2 : array-like or Tensor
            As in a call.
        y1, y2 : array-like of int, of shape (n1,) and (n2,)
            Labels as output numbers; for a model with a single output, 0 or 1, which give
            ∓∇A.
        **options
            As in a call; features are divided by the length of the derivatives of all outputs.

        Returns
        -------
        array of shape (n1, n2, k − 1, k − 1)
            Wrong labels in rising order. `block_matrix` turns it into a kernel of all features.
        """
        if (X2 is None) != (y2 is None):
            raise InputError("X2 and y2 go together; one of them is missing")
        left, right = self._sides(X1, X2)
        if right is None and y2 is not None and y2 is not y1:
            right = copy(left)
        readout = Readout(self.outputs)
        with torch.enable_grad():
            k = examine(self.model, left.few(4)).n_outputs
        left.places = readout.places(y1, len(left), "y1", k)
        if right is not None:
            right.places = readout.places(y2, len(right), "y2", k)
        normalize, _, _ = self._settings("", **options)
        unscaled: KernelOptions = {**options, "normalize": False}
        kernel = torch.as_tensor(self._kernel(PER_OUTPUT, left, right, unscaled))
        if normalize:
            unscaled.pop("progress", None)
            rows = torch.as_tensor(self.diagonal(X1, **unscaled))
            columns = rows if X2 is None else torch.as_tensor(self.diagonal(X2, **unscaled))
            normalize_in_place(kernel, rows, columns)
        return ResultType.parse(self.dtype).finished(kernel)

    def diagonal(self, X: Any, **options: Unpack[KernelOptions]) -> Any:
        """K(x, x) for each row of X, without any other entry of the kernel.

        Parameters as in a call. Normalised, all are 1, or 0 where all derivatives are 0.

        Returns
        -------
        array of shape (n,)
        """
        normalize, limit, tell = self._settings("tangent kernel", **options)
        examples, result = self._examples(X, "X"), ResultType.parse(self.dtype)
        squares = result.zeros(examples.device, len(examples))
        with torch.enable_grad():
            sweep = Sweep(self, TRACED, examples, KernelShape(len(examples), 0), limit, tell)
            sweep.diagonal(examples, squares)
        require_finite(squares)
        return result.finished((squares > 0.0).to(squares.dtype) if normalize else squares)

    @torch.enable_grad()
    def _kernel(
        self,
        contraction: Contraction,
        left: Examples,
        right: Examples | None,
        options: KernelOptions,
    ) -> Any:
        """The kernel of all pairs of examples; without `right`, of `left` with itself."""
        normalize, limit, tell = self._settings("tangent kernel", **options)
        n1, n2 = len(left), len(left if right is None else right)
        shape = KernelShape(max(n1, n2), min(n1, n2), right is None, contraction.across)
        sweep = Sweep(self, contraction, left, shape, limit, tell)
        result = ResultType.parse(self.dtype)
        total = result.zeros(left.device, *contraction.shape(sweep.n_outputs, n1, n2))
        squares = None
        if normalize and right is not None:
            squares = result.zeros(left.device, n1), result.zeros(left.device, n2)
        if right is None or n1 >= n2:
            sweep.kernel(left, right, total, squares)
        else:  # the derivatives of the fewer are the ones to hold
            swapped = None if squares is None else squares[::-1]
            sweep.kernel(right, left, contraction.swapped(total), swapped)
        arranged = require_finite(contraction.arranged(total))
        if normalize:
            rows, columns = squares or [contraction.traces(total)] * 2
            normalize_in_place(arranged, require_finite(rows), require_finite(columns))
            if right is None and contraction is TRACED:
                arranged.fill_diagonal_(0.0).diagonal().add_(rows > 0.0)
        return result.finished(arranged)

    def _sides(self, X1: Any, X2: Any) -> tuple[Examples, Examples | None]:
        """Both sides of a kernel; None in place of a second that is the first."""
        left = self._examples(X1, "X1")
        if X2 is None or X2 is X1:
            return left, None
        right = self._examples(X2, "X2")
        if left.shape != right.shape:
            raise InputError(
                f"X1 has examples of shape {left.shape} and X2 of {right.shape}; they must agree"
            )
        return left, right
