"""
Predicting with a network's kernel
==================================

A network in the limit of small steps is linear in its weights: it predicts by kernel ridge
regression in its tangent kernel, and a Gaussian process with that kernel says how certain that is.
Both are from scikit-learn; the kernel is `EmpiricalNTK`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel
from sklearn.kernel_ridge import KernelRidge
from torch import nn

from momentron.ntk import EmpiricalNTK

# %%
# A noisy sine, observed in two intervals, and an untrained network.

rng = np.random.default_rng(0)
X = np.concatenate([rng.uniform(-3.0, -1.0, 15), rng.uniform(0.5, 2.5, 15)])[:, None]
y = np.sin(2.0 * X[:, 0]) + 0.05 * rng.normal(size=len(X))
grid = np.linspace(-4.0, 4.0, 201)[:, None]

torch.manual_seed(0)
network = nn.Sequential(
    nn.Linear(1, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1)
).double()
nn.init.normal_(network[0].weight)
nn.init.normal_(network[0].bias)
ntk = EmpiricalNTK(network)

# %%
# Kernel ridge regression takes the matrices themselves.

ridge = KernelRidge(alpha=0.01, kernel="precomputed").fit(ntk(X), y)
curve = ridge.predict(ntk(grid, X))

# %%
# A Gaussian process needs an object with a scale that it can fit to the data: a wrapper of a few
# lines. The kernel of the same rows is not computed again while the scale is fitted.


class Tangent(Kernel):
    """scale · K(x, x'), with K the tangent kernel of a network."""

    def __init__(self, ntk, scale=1.0, scale_bounds=(1e-5, 1e5)):
        self.ntk, self.scale, self.scale_bounds = ntk, scale, scale_bounds

    @property
    def hyperparameter_scale(self):
        return Hyperparameter("scale", "numeric", self.scale_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        K = self.scale * self.ntk(X, Y)
        return (K, K[:, :, None]) if eval_gradient else K  # d K / d ln scale is K

    def diag(self, X):
        return self.scale * self.ntk.diagonal(X)

    def is_stationary(self):
        return False


class Remembered:
    """A kernel that keeps the last matrix of rows with themselves."""

    def __init__(self, ntk):
        self.ntk, self.diagonal = ntk, ntk.diagonal
        self.rows = self.matrix = None

    def __call__(self, X, Y=None):
        if Y is not None:
            return self.ntk(X, Y)
        if self.rows is None or not np.array_equal(X, self.rows):
            self.rows, self.matrix = X.copy(), self.ntk(X)
        return self.matrix

    def __deepcopy__(self, memo):
        return self  # scikit-learn clones kernels; the network is the same


process = GaussianProcessRegressor(Tangent(Remembered(ntk)), alpha=0.05**2).fit(X, y)
mean, deviation = process.predict(grid, return_std=True)
print(f"fitted scale {process.kernel_.scale:.2g}")

# %%
# Between and beyond the examples the Gaussian process is uncertain; ridge regression cannot say so.

near = (np.abs(grid - X.T) < 0.1).any(axis=1)
far = (np.abs(grid - X.T) > 0.6).all(axis=1)
print(f"deviation near examples {deviation[near].mean():.2f}, far away {deviation[far].mean():.2f}")
assert deviation[far].min() > deviation[near].max()

figure, axes = plt.subplots(figsize=(5.8, 3.6), layout="constrained")
axes.fill_between(
    grid[:, 0], mean - 2.0 * deviation, mean + 2.0 * deviation, color="#0072b2", alpha=0.2
)
axes.plot(grid, mean, color="#0072b2", label="Gaussian process, two deviations")
axes.plot(grid, curve, "--", color="#d55e00", label="kernel ridge")
axes.plot(grid, np.sin(2.0 * grid), color="0.5", linewidth=1.0, label="the truth")
axes.plot(X, y, "o", color="black", markersize=4, label="examples")
axes.set(xlabel="x", ylim=(-2.3, 3.2))
axes.legend(frameon=False, ncols=2, loc="upper center")
plt.show()

# %%
# **Try next**: a network after some training, whose kernel has seen the sine; `parameters="4"`, its
# last layer alone; relu instead of tanh. The guide: :doc:`/howto/network-kernel`.
