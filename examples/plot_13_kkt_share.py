"""
How close a network is to a KKT point
=====================================

Gradient descent turns the weights of a homogeneous network towards a KKT point of its margin. The
KKT share says how far it has come: 1 at such a point, and never more. Here it is followed, with a
proof at each look, while networks of two and of three layers learn to tell threes from eights.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from momentron.datasets import load
from momentron.ntk import KKTTracker

# %%
# 120 digits, and networks of linear layers without biases and ReLU, which are homogeneous of order
# L, the number of layers.

torch.set_num_threads(1)  # threads only get in the way of operations this small
digits = load("digits")
rows = np.flatnonzero(np.isin(digits.y, [3, 8]))[:120]
X, y = torch.tensor(digits.X[rows] / 16, dtype=torch.float32), digits.y[rows]
signs = torch.tensor(np.where(y == 8, 1.0, -1.0), dtype=torch.float32)


def network(layers):
    torch.manual_seed(0)
    sizes, parts = [64] * layers + [1], []
    for fan_in, fan_out in pairwise(sizes):
        parts += [nn.Linear(fan_in, fan_out, bias=False), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


# %%
# Full-batch gradient descent on the logarithm of the exponential loss, whose gradient does not
# vanish as the loss does. Its curvature grows like the squared gradients of f, as ‖θ‖ to the power
# 2L − 2, and steps shrink accordingly.

STEPS = 10_000
LOOKS = {0, *np.geomspace(1, STEPS, 25).astype(int).tolist()}


def length(model):
    return sum(float(p.detach().square().sum()) for p in model.parameters()) ** 0.5


def train(layers):
    model, tracker = network(layers), KKTTracker(X, y)
    begin, parameters = length(model), list(model.parameters())
    for step in range(STEPS + 1):
        if step in LOOKS:
            tracker.look(model, step)
        loss = torch.logsumexp(-signs * model(X)[:, 0], 0)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            rate = 0.02 * (length(model) / begin) ** (2 - 2 * layers)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= rate * gradient
    return tracker


trackers = {f"{layers} layers": train(layers) for layers in (2, 3)}
for name, tracker in trackers.items():
    first, last = tracker.looks[0], tracker.looks[-1]
    print(
        f"{name}: KKT share {first.share:.3f} at first, {last.share:.3f} to {last.share_upper:.3f} "
        f"after {STEPS:,} steps, {last.angle:.0f} degrees"
    )

# %%
# Below 0 the network still errs. Its weights then turn to the direction of largest margin in their
# own tangent kernel, a kernel that changes with them. The angle between the two is at most the arc
# cosine of the share, the dotted line.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for (name, tracker), colour in zip(trackers.items(), ("#0072b2", "#d55e00"), strict=True):
    at, looks = np.maximum(tracker.looks["step"], 0.7), tracker.looks
    left.plot(at, looks["share"], "o-", markersize=3, color=colour, label=name)
    right.plot(at, looks["angle"], "o-", markersize=3, color=colour, label=name)
    bound = np.degrees(np.arccos(np.clip(looks["share"], -1.0, 1.0)))
    right.plot(at, bound, ":", color=colour, label="arc cosine of the share")
left.axhline(1.0, color="0.6", linewidth=0.8)
left.axhline(0.0, color="0.6", linewidth=0.8)
left.set(xscale="log", xlabel="step (the first: untrained)", title="KKT share, certified")
right.set(
    xscale="log",
    xlabel="step (the first: untrained)",
    ylim=(0, None),
    title="degrees to the best direction in the kernel",
)
left.legend(frameon=False)
right.legend(frameon=False)
plt.show()

# %%
# **Try next**: other widths and seeds, a bias in the first layer (the network stays homogeneous) or
# in the last (it does not, and the tracker says so). The guide: :doc:`/howto/kkt-share`.
