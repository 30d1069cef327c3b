"""Follow the tangent kernel of a small network while it learns scikit-learn's digits.

    python examples/probe_a_network.py [picture.png]

At ten moments of the training the network is frozen, and the classifier with the largest margin in
its tangent kernel is fitted: the network's own features, judged without the network. The table says
how large that margin is (proven from both sides), how often the classifier errs on digits that it
has not seen, how often the network does, and how far the kernel has turned from where it began.
Needs torch and matplotlib: pip install "momentron[ntk,plot]".
"""

import sys
import time

import numpy as np
import torch
from torch import nn

from momentron.datasets import load
from momentron.ntk import kernel_evolution

EPOCHS = [0, 1, 2, 4, 8, 16, 32, 64, 100, 150]


def small_network(seed: int) -> nn.Sequential:
    """Two convolutions and two dense layers for 8 × 8 pixels."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def main(picture: str = "kernel_evolution.png") -> None:
    digits = load("digits")
    images = torch.tensor(digits.X / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
    train = images[::9], digits.y[::9]
    held_out = np.arange(len(images)) % 9 % 2 == 1  # none of them a multiple of 9
    test = images[held_out], digits.y[held_out]

    start = time.perf_counter()
    evolution = kernel_evolution(
        small_network(seed=0), train, test, epochs=EPOCHS, lr=0.1, batch_size=32, seed=0
    )
    print(evolution)
    print(f"{time.perf_counter() - start:.1f} s")

    title = f"A small network on digits: {len(train[1])} to train on, {len(test[1])} to test on"
    evolution.plot(picture, title=title)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
