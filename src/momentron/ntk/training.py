"""How a network's tangent kernel evolves while the network is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from momentron.data.arguments import as_count
from momentron.errors import InputError, short
from momentron.ntk.evolution_table import KernelEvolution
from momentron.ntk.kernel_tracker import (
    Data,
    KernelTracker,
    Snapshot,
    as_epoch,
    class_outputs,
    modes_kept,
)
from momentron.views.progress import Progress, as_progress, part_of

USUAL_RATE = 0.01

Loss = Callable[[Tensor, Tensor], Tensor]
"""A number, from the outputs of a batch and its labels."""


def kernel_evolution(
    model: nn.Module,
    train: Data,
    test: Data,
    *,
    epochs: int | Iterable[float] = 100,
    lr: float | None = None,
    batch_size: int = 32,
    seed: int = 0,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    progress: Progress = None,
    **options: Any,
) -> KernelEvolution:
    r"""Train a model, and at some epochs fit the maximum-margin predictor in its tangent kernel.

    .. math:: K_t(x, x') = \sum_o ⟨∇_θ A_o(x; θ_t), ∇_θ A_o(x'; θ_t)⟩

    K_0 is the neural tangent kernel; later ones show how training changes it. Each snapshot
    costs the kernels of `EmpiricalNTK` for n and n_test × n examples, and one solve. One n × n
    kernel per snapshot is kept for the alignment with the last. To write your own training loop,
    with a DataLoader for instance, use `KernelTracker`.

    Parameters
    ----------
    model : torch.nn.Module
        One output per class, or a single one for two classes. It is trained in place, in training
        mode; snapshots are taken in evaluation mode.
    train, test : (X, y)
        Arrays or tensors of shape (n, ...), and labels of any kind.
    epochs : int or iterable of numbers
        When to take snapshots; 0 is before training, the largest ends it, and fractions are rounded
        to the nearest batch. An int n means 0, 1, 2, 4, 8 and so on, and n.
    lr : float, optional
        Step size of plain mini-batch gradient descent; 0.01 by default.
    batch_size : int
    seed : int
        Seed for the order of the examples and everything else random in training (dropout), and for
        method="adaptive". The model's initial weights do not depend on it.
    loss : callable, optional
        loss(outputs, y) with y as integers from 0; cross entropy by default.
    optimizer : torch.optim.Optimizer, optional
        Used instead of plain gradient descent. It must own parameters of the model.
    callback : callable, optional
        Called with the `Snapshot` at each epoch that is computed; a true return value ends the
        training there.
    progress : bool or callable, optional
        True for a line on standard error, or a function of the fraction of snapshots done.
    **options
        Passed to `KernelTracker`: method, fit_intercept, tol and max_iter of the predictor, and
        normalize, input_shape, max_memory, outputs and parameters of the kernel.

    Returns
    -------
    KernelEvolution
        One row per snapshot.

    References
    ----------
    Ji, Srebro, Telgarsky (2021), *Fast margin maximization via dual acceleration*, ICML, section 6.

    Examples
    --------
    >>> import torch
    >>> from momentron.ntk import kernel_evolution
    >>> X, y = torch.eye(4), ["a", "a", "b", "b"]
    >>> evolution = kernel_evolution(torch.nn.Linear(4, 2), (X, y), (X, y), epochs=[0, 200], lr=1.0)
    >>> evolution["network_error"][-1], evolution["kernel_error"][-1]
    (np.float64(0.0), np.float64(0.0))
    """
    marks = snapshot_epochs(epochs)
    tell = as_progress(progress, "kernel evolution")
    tracker = KernelTracker(train, test, seed=seed, **options)
    X = tracker.examples(model, "train")
    y = torch.tensor(np.searchsorted(tracker.classes, tracker.train[1])).to(X.device)
    size = as_count("batch_size", batch_size, 1)
    optimizer, loss = _optimizer(model, lr, optimizer), loss or usual_loss
    device = next(model.parameters()).device
    with modes_kept(model), torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        model.eval()  # its outputs are looked at before it is trained
        class_outputs(model, X.few(2), tracker.classes)
        inputs, trained, per_epoch = X.rows(slice(None)), 0, -(-len(X) // size)
        # each epoch in its own order
        order = (rows for _ in count() for rows in torch.randperm(len(X)).split(size))
        for done, mark in enumerate(marks):
            model.train()
            while trained < round(mark * per_epoch):
                rows = next(order)
                optimizer.zero_grad()
                loss(model(inputs[rows]), y[rows]).backward()
                optimizer.step()
                trained += 1
            part = part_of(tell, done / len(marks), (done + 1) / len(marks))
            snapshot = tracker.look(model, mark, tell=part)
            if callback is not None and callback(snapshot):
                break
    return tracker.evolution


def usual_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross entropy; for a single output, of its sign."""
    if outputs.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype))
    return functional.cross_entropy(outputs, y)


def _optimizer(
    model: nn.Module, lr: float | None, optimizer: torch.optim.Optimizer | None
) -> torch.optim.Optimizer:
    """The user's optimiser, or plain gradient descent."""
    if lr is not None and (not isinstance(lr, Real) or isinstance(lr, bool) or not lr > 0.0):
        raise InputError(f"lr={short(lr)} must be a number above 0")
    if optimizer is None:
        parameters = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.SGD(parameters, lr=USUAL_RATE if lr is None else float(lr))
    if lr is not None:
        raise InputError("lr has no effect with optimizer, which has its own; pass only one")
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not trained & owned:
        raise InputError(
            "the optimizer owns none of the model's parameters; build it from this model's "
            "parameters(), after any copy or move of the model"
        )
    return optimizer


def snapshot_epochs(epochs: int | Iterable[float]) -> list[float]:
    """The epochs at which to take snapshots, rising; whole ones as ints.

    >>> snapshot_epochs(10), snapshot_epochs([5, 0, 0.5])
    ([0, 1, 2, 4, 8, 10], [0, 0.5, 5])
    """
    try:
        if isinstance(epochs, Integral):
            last = as_count("epochs", epochs, 0)
            return sorted({0, last, *(2**i for i in range(last.bit_length()))})
        found = sorted({as_epoch(mark) for mark in epochs})  # type: ignore[union-attr]
    except (InputError, TypeError):
        found = []
    if not found:
        raise InputError(
            f"epochs={short(epochs)} must be an integer of at least 0, or a list of epochs"
        )
    return found
