"""
The certified margin of a probe
===============================

A linear probe reads a concept off the features of a model. Here its accuracy is 100 % in every
layer; its certified margin tells the layers apart.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from momentron import max_margin

# %%
# A network with three hidden layers learns the ten digits. It never sees the concept to probe for,
# "is the digit odd?".

X, y = load_digits(return_X_y=True)
X = X / 16.0
rows = np.random.default_rng(0).choice(len(X), 400, replace=False)
odd = y[rows] % 2


def layers(network, X):
    """Activations after each hidden layer, the pixels first."""
    found = [X]
    for weights, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        found.append(np.maximum(found[-1] @ weights + bias, 0))
    return found


def relative_margin(features):
    """The certified interval, over the mean distance of the features from their centre."""
    spread = np.linalg.norm(features - features.mean(0), axis=1).mean()
    result = max_margin(features, odd, tol=1e-6)
    return result.lower / spread, result.upper / spread


sizes = (100, 100, 100)
untrained = MLPClassifier(sizes, random_state=0)
untrained.partial_fit(X[:2], y[:2], classes=np.unique(y))  # one tiny step: as good as random
learned = MLPClassifier(sizes, random_state=0, learning_rate_init=5e-3)
for _ in range(15):
    learned.partial_fit(X, y, classes=np.unique(y))

margins = {
    name: [relative_margin(features) for features in layers(network, X[rows])]
    for name, network in (("untrained", untrained), ("trained on digits", learned))
}
for name, found in margins.items():
    print(f"{name:18}", "  ".join(f"{lower:.5f}" for lower, _ in found))

# %%
# Training on the ten digits has pushed odd and even apart. The intervals are narrower than the
# plotted lines, so the difference is due to the layers, not to the optimiser.

figure, ax = plt.subplots(figsize=(5.6, 3.5), layout="constrained")
names = ["pixels", "layer 1", "layer 2", "layer 3"]
for (name, found), mark, colour in zip(margins.items(), "os", ("#0072b2", "#d55e00"), strict=True):
    ax.plot(names, [lower for lower, _ in found], f"{mark}-", color=colour, label=name)
ax.set(ylabel="margin / spread", ylim=(0, None))
ax.set_title("“Is the digit odd?”: certified margin of a linear probe")
ax.legend(frameon=False)
plt.show()

# %%
# **Try next**: activations of your own model; another concept, such as ``y >= 5``; random
# labels, whose margin is the least that a probe must beat. The guide: :doc:`/howto/probe`.
