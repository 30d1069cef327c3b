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

from momentron.arguments import as_count
from momentron.errors import InputError
from momentron.ntk.examples import Examples

Step = Callable[[nn.Module, Tensor, Tensor], Any]
"""One update: the model, a batch of examples, and their labels as whole numbers from 0."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""A number, from the outputs of a batch and its labels."""

USUAL_RATE = 0.01
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
        self, pair: Any, model: nn.Module, input_shape: tuple[int, ...] | None, name: str
    ) -> None:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"{name} is {type(pair).__name__}; pass a pair (X, y)")
        self.examples = Examples(pair[0], model, input_shape, f"{name}[0]")
        y = pair[1].detach().cpu().numpy() if isinstance(pair[1], Tensor) else pair[1]
        self.y = np.asarray(y)
        if self.y.shape != (len(self.examples),):
            raise InputError(
                f"{name} has {len(self.examples)} examples and labels of shape {self.y.shape}; "
                f"they must have shape ({len(self.examples)},)"
            )

    def __len__(self) -> int:
        return len(self.examples)

    def codes(self, classes: np.ndarray) -> Tensor:
        """Each label's place in the sorted classes."""
        places = torch.tensor(np.searchsorted(classes, self.y))
        return places.to(self.examples.device)


class Training:
    """Epochs of mini-batches in an order that the seed draws.

    Parameters
    ----------
    model : Module
    data : Labelled
    classes : ndarray
    lr : float, optional
        Of plain gradient steps.
    batch_size, seed : int
    loss : callable, optional
    optimizer : torch.optim.Optimizer, optional
    step : callable, optional
    """

    def __init__(
        self,
        model: nn.Module,
        data: Labelled,
        classes: np.ndarray,
        *,
        lr: float | None,
        batch_size: int,
        seed: int,
        loss: Loss | None,
        optimizer: torch.optim.Optimizer | None,
        step: Step | None,
    ) -> None:
        as_count("batch_size", batch_size, 1)
        as_count("seed", seed, 0)
        _require_one_way(lr, loss, optimizer, step)
        self.model, self._batch_size = model, int(batch_size)
        self._X, self._codes = data.examples.rows(0, len(data)), data.codes(classes)
        self._order = torch.Generator().manual_seed(int(seed))
        self._loss = loss or usual_loss
        self._optimizer = optimizer
        if optimizer is None and step is None:
            rate = USUAL_RATE if lr is None else float(lr)
            trained = [p for p in model.parameters() if p.requires_grad]
            self._optimizer = torch.optim.SGD(trained, lr=rate)
        self._step = step or self._descend

    def epoch(self) -> None:
        """Go through all examples once."""
        self.model.train()
        for batch in torch.randperm(len(self._X), generator=self._order).split(self._batch_size):
            part = batch.to(self._X.device)
            self._step(self.model, self._X[part], self._codes[part])

    def _descend(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        assert self._optimizer is not None
        self._optimizer.zero_grad()
        self._loss(model(x), y).backward()
        self._optimizer.step()


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
def seeded(model: nn.Module, seed: int) -> Iterator[None]:
    """Torch draws from this seed inside, dropout included; its state and the mode come back."""
    modes = [(module, module.training) for module in model.modules()]
    device = next(model.parameters()).device
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _require_one_way(lr: float | None, loss: Any, optimizer: Any, step: Any) -> None:
    """Refuse parameters that another one would make idle."""
    if lr is not None and (not isinstance(lr, Real) or isinstance(lr, bool) or not lr > 0.0):
        raise InputError(f"lr={lr!r} must be a number above 0")
    if step is not None:
        given = {"lr": lr, "loss": loss, "optimizer": optimizer}
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} has no meaning beside step, which does it all; drop one")
    if optimizer is not None and lr is not None:
        raise InputError("lr has no meaning beside optimizer, which has its own; drop one")
