"""Networks whose kernels the experiments follow."""

from __future__ import annotations

import math

import torch
from torch import nn

from momentron.errors import InputError


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
