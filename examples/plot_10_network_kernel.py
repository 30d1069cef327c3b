"""
A network's kernel through training
===================================

At some epochs of the training the network is frozen, and the classifier with the largest margin
in its tangent kernel is fitted: this judges the network's features without the network.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from momentron.datasets import load
from momentron.ntk import kernel_evolution

# %%
# Two convolutions and two dense layers for the 8 × 8 digits; 100 to train on, 200 to test on.

torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Linear(64, 10),
)
digits = load("digits")
images = torch.tensor(digits.X / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
train, test = np.arange(0, 1797, 18), np.arange(1, 1797, 9)
evolution = kernel_evolution(
    network,
    (images[train], digits.y[train]),
    (images[test], digits.y[test]),
    epochs=[0, 5, 15, 30],
    lr=0.2,
    batch_size=20,
    seed=0,
)
print(evolution)

# %%
# The margin in the kernel grows as the network learns, and the kernel moves away from the first
# one. Its predictor makes far fewer errors than the network does early on, but does not improve: a
# larger margin on the training rows promises nothing for other rows.

epochs = np.maximum([row.epoch for row in evolution], 1)
figure, left = plt.subplots(figsize=(5.6, 3.5), layout="constrained")
left.fill_between(
    epochs, [r.lower for r in evolution], [r.upper for r in evolution], color="#0072b2", alpha=0.2
)
left.plot(epochs, [r.lower for r in evolution], "o-", color="#0072b2")
left.set(
    xscale="log", xlabel="epoch (the first: untrained)", title="certified margin in the kernel"
)

figure, right = plt.subplots(figsize=(5.6, 3.5), layout="constrained")
for key, colour, mark, name in (
    ("kernel_error", "#d55e00", "s", "test error of the kernel"),
    ("network_error", "#009e73", "^", "test error of the network"),
    ("alignment_first", "0.4", "o", "alignment with the first kernel"),
):
    right.plot(epochs, [getattr(r, key) for r in evolution], f"{mark}-", color=colour, label=name)
right.set(xscale="log", xlabel="epoch (the first: untrained)", ylim=(0, 1.05))
right.legend(frameon=False)
plt.show()

# %%
# **Try next**: another seed, a wider network, your own module instead of ``network``. The paper's
# version on CIFAR-10 is :doc:`/figures/fig4`; the guide: :doc:`/howto/network-kernel`.
