"""
Many classes, with and without free intercepts
==============================================

With three or more classes the margin is joint: the score of every example's label exceeds every
other score by at least the margin. Unpenalised intercepts can make it much larger.
"""

import matplotlib.pyplot as plt
import numpy as np

from momentron import MaxMarginClassifier

# %%
# Four clouds away from the origin.

rng = np.random.default_rng(2)
centres = np.array([[2.0, 2.0], [5.0, 2.5], [3.0, 5.5], [6.5, 6.0]])
y = np.repeat(np.arange(4), 30)
X = centres[y] + rng.normal(scale=0.45, size=(120, 2))

models = {
    "free intercepts": MaxMarginClassifier(C=np.inf),
    "none": MaxMarginClassifier(fit_intercept=False, C=100.0),
}
for name, model in models.items():
    model.fit(X, y)
    print(f"{name:16} {model.status_}")
free = models["free intercepts"]
print(f"joint margin in [{free.certificate_.lower:.9f}, {free.certificate_.upper:.9f}]")

# %%
# Without intercepts the regions are cones with their tip at the origin. No such cones separate
# these clouds, so a soft margin is used.

grid_x, grid_y = np.meshgrid(np.linspace(-0.5, 8.5, 220), np.linspace(-0.5, 8, 220))
grid = np.column_stack([grid_x.ravel(), grid_y.ravel()])
colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]
for name, model in models.items():
    figure, ax = plt.subplots(figsize=(4.6, 3.4), layout="constrained")
    label = model.predict(grid).reshape(grid_x.shape)
    ax.contourf(grid_x, grid_y, label, [-0.5, 0.5, 1.5, 2.5, 3.5], colors=colours, alpha=0.18)
    for k, mark in enumerate("osD^"):
        ax.scatter(*X[y == k].T, c=colours[k], marker=mark, s=16)
    ax.plot(0, 0, "k+", markersize=10)
    ax.set_title(f"{name}: {model.score(X, y):.0%} right")
    if model is free:
        ax.scatter(*X[free.support_].T, s=70, facecolors="none", edgecolors="k", linewidths=0.8)
plt.show()

# %%
# **Try next**: ``momentron fit``, which fits the digits dataset; ``result_.full_dual()[i, j]``, the
# weight of example i against label j: weights flow in circles between classes
# (:doc:`/explanations/many-classes`).
