"""The empirical tangent kernel of a torch model, exactly, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn

from momentron.data.arguments import as_flag, parse_size
from momentron.errors import InputError
from momentron.ntk.jacobian import Linearised, as_matrix
from momentron.ntk.kernel_array import (
    Contraction,
    ResultType,
    inverse_roots,
    normalize_in_place,
    require_finite,
)
from momentron.ntk.memory_plan import KernelShape
from momentron.ntk.model_structure import examine
from momentron.ntk.selection import Examples, Outputs, Readout, Selection, pieces
from momentron.ntk.sweep import Sweep
from momentron.views.progress import Progress, Tell, as_progress, part_of


class EmpiricalNTK:
    r"""The tangent kernel of a model at its present weights.

    .. math::
        K(x, x') = \sum_o ⟨∇_θ A_o(x; θ), ∇_θ A_o(x'; θ)⟩,

    with θ all parameters that require a gradient, or those that are chosen. Called, it sums over
    the outputs as above; `per_output`, `same_output` and `pairs` keep them apart, `matvec`, `jvp`
    and `vjp` multiply without forming K.

    The examples of a batch go through the model together, each as if it were alone, by
    `torch.func.vmap`; a model that vmap cannot transform (recurrent layers, control flow on values)
    is run example by example. The gradients of dense and convolutional layers and of embeddings are
    products of inputs and output gradients, and are never written out where inner products do not
    need them. A layer that is called several times, or shares its weights with another, has its
    gradients added before inner products are taken.

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
        count = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        words = [f"<{type(self.model).__name__}, {count:,} trained parameters>"]
        for name in ("input_shape", "normalize", "max_memory", "outputs", "parameters", "dtype"):
            value = repr(getattr(self, name))
            if value not in ("None", "False", "'1GB'"):
                words.append(f"{name}={value}")
        return f"EmpiricalNTK({', '.join(words)})"

    def __call__(self, X1: Any, X2: Any = None, **options: Any) -> Any:
        """The kernel of all pairs, summed over the outputs.

        Parameters
        ----------
        X1, X2 : array-like or Tensor of shape (n1, ...) and (n2, ...)
            Without X2, or if X2 is X1, the kernel of X1 with itself, computed on
            one side of the diagonal and mirrored.
        **options
            normalize and max_memory, instead of the values given to the constructor, and progress:
            True for a line on standard error, or a function of the fraction done.

        Returns
        -------
        array of shape (n1, n2)
        """
        return self._kernel(Contraction.TRACED, *self._sides(X1, X2), options)

    def per_output(self, X1: Any, X2: Any = None, **options: Any) -> Any:
        """⟨∇A_o(x), ∇A_p(x')⟩ for all pairs of examples and of outputs.

        Parameters as in a call. `block_matrix` turns it into an (n1·k) × (n2·k) kernel.

        Returns
        -------
        array of shape (n1, n2, k, k)
        """
        return self._kernel(Contraction.PER_OUTPUT, *self._sides(X1, X2), options)

    def same_output(self, X1: Any, X2: Any = None, **options: Any) -> Any:
        """⟨∇A_o(x), ∇A_o(x')⟩: one kernel per output, the diagonal of `per_output`.

        Parameters as in a call.

        Returns
        -------
        array of shape (n1, n2, k)
        """
        return self._kernel(Contraction.SAME_OUTPUT, *self._sides(X1, X2), options)

    def pairs(self, X1: Any, y1: Any, X2: Any = None, y2: Any = None, **options: Any) -> Any:
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
        unscaled = options | {"normalize": False}
        kernel = torch.as_tensor(self._kernel(Contraction.PER_OUTPUT, left, right, unscaled))
        if normalize:
            rows = self._squares(X1, options)
            normalize_in_place(kernel, rows, rows if X2 is None else self._squares(X2, options))
        return self._result.finished(kernel)

    @torch.enable_grad()
    def diagonal(self, X: Any, **options: Any) -> Any:
        """K(x, x) for each row of X, without any other entry of the kernel.

        Parameters as in a call. Normalised, all are 1, or 0 where all derivatives are 0.

        Returns
        -------
        array of shape (n,)
        """
        normalize, limit, tell = self._settings("tangent kernel", **options)
        examples = self._examples(X, "X")
        squares = self._result.zeros(examples.device, len(examples))
        shape = KernelShape(len(examples), 0)
        Sweep(self, Contraction.TRACED, examples, shape, limit, tell).diagonal(examples, squares)
        require_finite(squares)
        return self._result.finished((squares > 0.0).to(squares.dtype) if normalize else squares)

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
        v = linear.vector(direction)
        _, batch = linear.plan(1, limit)
        batches = pieces(len(examples), batch, tell)
        found = torch.cat([linear.push(examples, rows, [v])[0] for rows in batches])
        return self._result.finished(require_finite(found))

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
        c = as_matrix(weights, "weights", linear, examples, linear.n_outputs)
        total, (_, batch) = linear.zeros(), linear.plan(1, limit)
        for rows in pieces(len(examples), batch, tell):
            linear.pull(examples, rows, [c[rows]], [total])
        return {
            name: self._result.finished(require_finite(part))
            for name, part in zip(linear.names, total, strict=True)
        }

    def matvec(self, X1: Any, v: Any, X2: Any = None, **options: Any) -> Any:
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
        columns = as_matrix(v, "v", linear, right)
        if normalize:
            squares = self._squares(X1 if X2 is None else X2, options)
            columns = columns * inverse_roots(squares).to(columns)[:, None]
        total = self._result.zeros(left.device, len(left), columns.shape[1])
        seeds = [(o, j) for j in range(columns.shape[1]) for o in range(linear.n_outputs)]
        held, batch = linear.plan(len(seeds), limit)
        for start in range(0, len(seeds), held):
            some = seeds[start : start + held]
            begun, ended = start / len(seeds), (start + len(some)) / len(seeds)
            middle = 0.5 * (begun + ended)
            vectors = [linear.zeros() for _ in some]
            for rows in pieces(len(right), batch, part_of(tell, begun, middle)):
                weights = [columns.new_zeros(len(columns[rows]), linear.n_outputs) for _ in some]
                for c, (o, j) in zip(weights, some, strict=True):
                    c[:, o] = columns[rows, j]
                linear.pull(right, rows, weights, vectors)
            for rows in pieces(len(left), batch, part_of(tell, middle, ended)):
                for (o, j), found in zip(some, linear.push(left, rows, vectors), strict=True):
                    total[rows, j] += found[:, o].to(total.device)
        if normalize:
            total *= inverse_roots(self._squares(X1, options)).to(total)[:, None]
        return self._result.finished(require_finite(total.reshape(len(left), *np.shape(v)[1:])))

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

    @torch.enable_grad()
    def _kernel(
        self,
        contraction: Contraction,
        left: Examples,
        right: Examples | None,
        options: dict[str, Any],
    ) -> Any:
        """The kernel of all pairs of examples; without `right`, of `left` with itself."""
        is_swapped = False
        if right is not None and len(left) < len(right):  # the fewer are the ones to hold
            left, right, is_swapped = right, left, True
        n1, n2 = len(left), len(left if right is None else right)
        normalize, limit, tell = self._settings("tangent kernel", **options)
        shape = KernelShape(n1, n2, right is None, contraction.across)
        sweep = Sweep(self, contraction, left, shape, limit, tell)
        zeros = partial(self._result.zeros, left.device)
        total = zeros(*contraction.shape(sweep.n_outputs, n1, n2))
        squares = zeros(n1), zeros(n2 if right is not None else 0)
        sweep.kernel(left, right, total, squares if normalize and right is not None else None)
        if normalize and right is None:
            squares = (torch.einsum("bimim->i", total),) * 2
        if is_swapped:
            total, squares = total.permute(0, 3, 4, 1, 2), squares[::-1]
        arranged = require_finite(contraction.arranged(total))
        if normalize:
            normalize_in_place(arranged, *map(require_finite, squares))
            if right is None and contraction is Contraction.TRACED:
                arranged.fill_diagonal_(0.0).diagonal().add_(squares[0] > 0.0)
        return self._result.finished(arranged)

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

    @property
    def _result(self) -> ResultType:
        return ResultType.parse(self.dtype)

    def _examples(self, X: Any, name: str) -> Examples:
        return Examples(X, self.model, self.input_shape, name)

    def _squares(self, X: Any, options: dict[str, Any]) -> Tensor:
        """K(x, x) of each row, to normalise by."""
        quiet = options | {"normalize": False, "progress": None}
        return torch.as_tensor(self.diagonal(X, **quiet))

    def _settings(
        self,
        words: str,
        *,
        normalize: bool | None = None,
        max_memory: str | int | None = None,
        progress: Progress = None,
    ) -> tuple[bool, int, Tell]:
        """The options of a call, with the kernel's own settings where none is given."""
        return (
            self.normalize if normalize is None else as_flag("normalize", normalize),
            parse_size(self.max_memory if max_memory is None else max_memory, "max_memory"),
            as_progress(progress, words),
        )
