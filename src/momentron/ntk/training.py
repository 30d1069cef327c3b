"""Training a model by mini-batches, the same way for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from momentron.errors import InputError, short
from momentron.ntk.batches import Batches, Place
from momentron.ntk.examples import Examples
from momentron.ntk.loaders import labels_of

Step = Callable[[nn.Module, Tensor, Tensor], Any]
"""One update: the model, a batch of examples, and their labels as whole numbers from 0."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""A number, from the outputs of a batch and its labels."""

USUAL_RATE = 0.01
USUAL_BATCH = 32
BATCH = 256  # examples that pass through the model at once to be classified


class Labelled:
    """Examples with labels, as a model reads them.

    Parameters
    ----------
    pair : (X, y)
    model : Module
    input_shape : tuple of int, optional
    name : str
        For errors.
    """

    def __init__(
        self,
        pair: tuple[Any, Any],
        model: nn.Module,
        input_shape: tuple[int, ...] | None,
        name: str,
    ) -> None:
        self.examples = Examples(pair[0], model, input_shape, f"{name}[0]")
        self.y = labels_of(pair[1])
        if self.y.shape != (len(self.examples),):
            raise InputError(
                f"{name} has {len(self.examples)} examples and labels of shape {self.y.shape}; "
                f"they must have shape ({len(self.examples)},)"
            )

    def __len__(self) -> int:
        return len(self.examples)

    def codes(self, classes: np.ndarray) -> Tensor:
        """Each label's place in the sorted classes."""
        return places_of(self.y, classes).to(self.examples.device)


def places_of(y: np.ndarray, classes: np.ndarray) -> Tensor:
    """Each label's place in the sorted classes."""
    places = np.searchsorted(classes, y).clip(0, classes.size - 1)
    wrong = classes[places] != y
    if wrong.any():
        raise InputError(
            f"train has label {short(y[wrong][0])}; the classes are {classes.tolist()}"
        )
    return torch.tensor(places)


class Training:
    """Mini-batches in an order that the seed draws, or a loader's own.

    Parameters
    ----------
    model : Module
    batches : Batches
    lr : float, optional
        Of plain gradient steps.
    loss : callable, optional
    optimizer : torch.optim.Optimizer, optional
    step : callable, optional
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        *,
        lr: float | None,
        loss: Loss | None,
        optimizer: torch.optim.Optimizer | None,
        step: Step | None,
    ) -> None:
        _require_one_way(lr, loss, optimizer, step)
        self.model = model
        self._loss = loss or usual_loss
        self.optimizer = optimizer
        if optimizer is not None:
            _require_owner(optimizer, model)
        elif step is None:
            rate = USUAL_RATE if lr is None else float(lr)
            trained = [p for p in model.parameters() if p.requires_grad]
            self.optimizer = torch.optim.SGD(trained, lr=rate)
        self._step = step or self._descend
        self.place = Place(batches)

    def advance(self, epoch: float) -> None:
        """Train until so many epochs are done, to the nearest batch."""
        self.model.train()
        for x, codes in self.place.until(epoch):
            self._step(self.model, x, codes)

    def _descend(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        assert self.optimizer is not None
        self.optimizer.zero_grad()
        self._loss(model(x), y).backward()
        self.optimizer.step()


def usual_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross entropy; of a single output, that of its sign."""
    if outputs.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype))
    return functional.cross_entropy(outputs, y)


def network_error(model: nn.Module, data: Labelled, classes: np.ndarray) -> float:
    """The share of examples that the network itself gets wrong; NaN outputs are an error."""
    wrong, codes = 0, data.codes(classes)
    with torch.no_grad():
        for start in range(0, len(data), BATCH):
            stop = min(start + BATCH, len(data))
            outputs = model(data.examples.rows(start, stop))
            require_outputs(outputs, stop - start, classes)
            if outputs.shape[1] == 1:
                answers = (outputs[:, 0] > 0.0).long()
            else:
                answers = outputs.argmax(dim=1)
            wrong += int((answers != codes[start:stop]).sum())
    return wrong / len(data)


def require_classes(model: nn.Module, data: Labelled, classes: np.ndarray) -> None:
    """Refuse a model whose outputs do not fit the classes, before it is trained."""
    model.eval()
    with torch.no_grad():
        require_outputs(model(data.examples.few(2)), 2, classes)


def require_outputs(outputs: Any, n: int, classes: np.ndarray) -> None:
    """Refuse outputs that do not name one class per example."""
    k = classes.size
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if shape != (n, k) and not (k == 2 and shape == (n, 1)):
        raise InputError(
            f"the outputs of {n} examples are {shape}; {k} classes need ({n}, {k})"
            + (f" or ({n}, 1)" if k == 2 else "")
        )
    if not bool(outputs.isfinite().all()):
        raise InputError(
            "the outputs of the network are not finite: training went astray; take a smaller lr"
        )


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """Training and evaluation modes come back as they were, module by module."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def seeded(model: nn.Module, seed: int) -> Iterator[None]:
    """Torch draws from this seed inside, dropout included; its state and the mode come back."""
    device = next(model.parameters()).device
    devices = [device] if device.type == "cuda" else []
    with modes_kept(model), torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


def _require_owner(optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    """Refuse an optimiser whose steps would leave the model as it is."""
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not trained & owned:
        raise InputError(
            "the optimizer owns none of the model's parameters; build it from this model's "
            "parameters(), after any copy or move of the model"
        )


def _require_one_way(lr: float | None, loss: Any, optimizer: Any, step: Any) -> None:
    """Refuse parameters that another one would make idle."""
    if lr is not None and (not isinstance(lr, Real) or isinstance(lr, bool) or not lr > 0.0):
        raise InputError(f"lr={short(lr)} must be a number above 0")
    if step is not None:
        given = {"lr": lr, "loss": loss, "optimizer": optimizer}
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} has no meaning beside step, which does it all; drop one")
    if optimizer is not None and lr is not None:
        raise InputError("lr has no meaning beside optimizer, which has its own; drop one")
