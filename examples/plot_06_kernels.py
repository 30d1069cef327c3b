"""
Kernels: the same data in three feature spaces
==============================================

Margins are distances in the feature space of the kernel, and the interval is for the true
kernel of the data, not for the rounded matrix.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from momentron import KernelMaxMarginClassifier

# %%
# Two moons, which no line separates.

X, y = make_moons(120, noise=0.12, random_state=3)
models = {
    "rbf, gamma=2": KernelMaxMarginClassifier(kernel="rbf", gamma=2.0, C=np.inf),
    "poly, degree=5": KernelMaxMarginClassifier(
        kernel="poly", degree=5, coef0=1.0, gamma=1.0, C=np.inf
    ),
    "laplacian, gamma=1": KernelMaxMarginClassifier(kernel="laplacian", gamma=1.0, C=np.inf),
}
for name, model in models.items():
    model.fit(X, y)
    interval = model.certificate_
    print(f"{name:19} margin in [{interval.lower:.9f}, {interval.upper:.9f}], "
          f"{len(model.support_)} support vectors")  # fmt: skip

# %%
# Margins of different kernels have different units; divide by √K(x, x) before comparing. The
# pictures show the boundary, and the lines where the distance in feature space equals the margin.

grid_x, grid_y = np.meshgrid(np.linspace(-1.6, 2.6, 160), np.linspace(-1.1, 1.6, 120))
grid = np.column_stack([grid_x.ravel(), grid_y.ravel()])
for name, model in models.items():
    figure, ax = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
    distance = model.decision_function(grid).reshape(grid_x.shape)
    m = model.margin_
    ax.contourf(grid_x, grid_y, distance, [-1e9, 0, 1e9], colors=["#0072b2", "#d55e00"], alpha=0.12)
    ax.contour(grid_x, grid_y, distance, [-m, 0, m], colors="0.3", linestyles=["--", "-", "--"])
    for label, colour, mark in ((0, "#0072b2", "o"), (1, "#d55e00", "s")):
        ax.scatter(*X[y == label].T, c=colour, marker=mark, s=14)
    ax.scatter(*X[model.support_].T, s=60, facecolors="none", edgecolors="k", linewidths=0.8)
    ax.set_title(name)
plt.show()

# %%
# **Try next**: a soft margin (``C=1.0``), ``gamma="scale"``, your own kernel as a function
# ``f(A, B)``. What is certified, and how memory is bounded: :doc:`/explanations/kernels`.
