"""The networks of figure 4: how they are drawn, and trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from momentron.errors import InputError
from paper.grid import CONVOLUTIONAL, HE, Cell, Training
from paper.runner import Report


def alexnet(
    n_outputs: int = 10,
    *,
    width: int = 64,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> nn.Sequential:
    """AlexNet for 3 × 32 × 32 images: five convolutions and three dense layers.

    A usual adaptation to CIFAR-10: channels, kernels and strides are those of torchvision's
    AlexNet; the first padding is wider and pooling is 2 × 2, so that small images are not used up
    before the last layer (sizes with width w = 64; a ReLU after each layer but the last):

    ======  =======================================  ============
    layer   what it does                             output
    ======  =======================================  ============
    conv 1  3 → w, 11 × 11, stride 4, pad 5; pool    64 × 4 × 4
    conv 2  w → 3w, 5 × 5, pad 2; pool               192 × 2 × 2
    conv 3  3w → 6w, 3 × 3, pad 1                    384 × 2 × 2
    conv 4  6w → 4w, 3 × 3, pad 1                    256 × 2 × 2
    conv 5  4w → 4w, 3 × 3, pad 1; pool              256
    dense   4w → 64w → 64w → outputs                 4096, 4096, 10
    ======  =======================================  ============

    It has 20,344,650 parameters with 10 outputs. There is no dropout: it has no parameters, and a
    tangent kernel is that of the network without it.

    Parameters
    ----------
    n_outputs : int
    width : int
        Channels of the first layer; all others grow with it.
    seed : int
        The weights depend on it alone: uniform on ±1/√(fan-in), as torch draws them. The global
        random state is neither read nor changed.
    dtype : torch.dtype

    Returns
    -------
    torch.nn.Sequential

    References
    ----------
    Krizhevsky, Sutskever and Hinton (2012), "ImageNet classification with deep convolutional neural
    networks".
    """
    for name, value in (("n_outputs", n_outputs), ("width", width)):
        if value < 1:
            raise InputError(f"{name}={value} is below the least of 1")
    w = width
    with torch.device("meta"):  # no numbers are drawn here
        model = nn.Sequential(
            nn.Conv2d(3, w, 11, stride=4, padding=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(w, 3 * w, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(3 * w, 6 * w, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(6 * w, 4 * w, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(4 * w, 4 * w, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(4 * w, 64 * w),
            nn.ReLU(),
            nn.Linear(64 * w, 64 * w),
            nn.ReLU(),
            nn.Linear(64 * w, n_outputs),
        )
    model = model.to_empty(device="cpu").to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                bound = 1.0 / math.sqrt(layer.weight[0].numel())
                for parameter in layer.parameters():
                    parameter.uniform_(-bound, bound, generator=generator)
    return model


OUTPUTS = 10


def build(cell: Cell, width: int, seed: int) -> nn.Sequential:
    """The network of a cell; its weights depend on the seed alone, up to their scale.

    A seed draws the same numbers in all cells: He's weights are torch's times √6, and a network
    without biases is the one with them, where they are taken away.
    """
    model = alexnet(OUTPUTS, width=width, seed=seed)
    if cell.head == CONVOLUTIONAL:
        model = _read_out(model, 4 * width, seed)
    with torch.no_grad():
        for layer in model:
            if not isinstance(layer, nn.Conv2d | nn.Linear):
                continue
            if cell.weights == HE:
                layer.weight.mul_(math.sqrt(6.0))
                layer.bias.zero_()
            if not cell.biases:
                layer.bias = None
    return model


def _read_out(model: nn.Sequential, channels: int, seed: int) -> nn.Sequential:
    """AlexNet's convolutions, read out by one linear map in place of its dense layers."""
    flat = next(i for i, layer in enumerate(model) if isinstance(layer, nn.Flatten))
    last = nn.utils.skip_init(nn.Linear, channels, OUTPUTS)
    generator = torch.Generator().manual_seed(seed)
    bound = 1.0 / math.sqrt(channels)
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return nn.Sequential(*list(model)[: flat + 1], last)


@dataclass(frozen=True)
class Trained:
    """How a training ended."""

    epochs: int
    loss: float  # cross entropy on all training images
    fitted: bool  # whether it is below the one asked for

    @property
    def is_finite(self) -> bool:
        """Whether the weights are still numbers."""
        return math.isfinite(self.loss)


class Descent:
    """Plain mini-batch gradient descent on the cross entropy, in an order that a seed draws.

    The model is trained in place, on images X and labels y, whole numbers from 0.
    """

    def __init__(
        self,
        model: nn.Sequential,
        X: Tensor,
        y: Tensor,
        *,
        step: float,
        settings: Training,
        seed: int,
    ) -> None:
        self.model, self._X, self._y = model, X, y
        self._settings = settings
        self._generator = torch.Generator().manual_seed(seed)
        self._optimizer = torch.optim.SGD(model.parameters(), lr=step)
        self.epochs = 0
        self.loss = self._loss()

    def until(self, epoch: int, report: Report) -> Trained | None:
        """Train up to an epoch; how it ended, or None where there is more to come."""
        settings = self._settings
        while self.epochs < epoch:
            self._train_epoch()
            report(self.epochs / settings.max_epochs)
            done = self.loss < settings.loss
            # a network that has begun to learn may rise above it again, and goes on
            stuck = self.epochs == settings.stuck_epoch and self.loss > settings.stuck_loss
            if done or stuck or self.epochs >= settings.max_epochs or not math.isfinite(self.loss):
                return Trained(self.epochs, self.loss, done)
        return None

    def further(self, epochs: int, report: Report) -> None:
        """Train for further epochs, whatever the loss."""
        for done in range(epochs):
            self._train_epoch()
            report((done + 1) / epochs)

    def _train_epoch(self) -> None:
        order = torch.randperm(len(self._X), generator=self._generator)
        for batch in order.split(self._settings.batch_size):
            self._optimizer.zero_grad()
            functional.cross_entropy(self.model(self._X[batch]), self._y[batch]).backward()
            self._optimizer.step()
        self.epochs += 1
        self.loss = self._loss()

    def _loss(self) -> float:
        with torch.no_grad():
            return float(functional.cross_entropy(self.model(self._X), self._y))
