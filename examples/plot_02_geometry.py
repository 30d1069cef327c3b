"""
Margins as distances: the two hulls
===================================

With an intercept, the best margin is half the distance between the convex hulls of the two classes.
The weights of the support vectors say which points of the hulls are nearest.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

from momentron import max_margin

# %%
# Two clouds in the plane, and the classifier with the largest margin.

rng = np.random.default_rng(4)
X = np.vstack([rng.normal((-1.6, -0.6), 0.7, (25, 2)), rng.normal((1.6, 0.6), 0.7, (25, 2))])
y = np.repeat(["left", "right"], 25)
result = max_margin(X, y, tol=1e-9)
print(result)

# %%
# The weights of each class sum to ½. Doubled, they give the nearest point of its hull: the two
# points are ``2 * margin`` apart.

weights = result.full_dual()
nearest = np.array([2 * weights[y == name] @ X[y == name] for name in ("left", "right")])
distance = np.linalg.norm(nearest[1] - nearest[0])
print(f"half the distance of the hulls {distance / 2:.9f}, margin {result.lower:.9f}")

# %%
# The strip between the dashed lines is empty, and no other strip is wider.

figure, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
for name, colour, mark in (("left", "#0072b2", "o"), ("right", "#d55e00", "s")):
    points = X[y == name]
    corners = points[ConvexHull(points).vertices]
    ax.fill(*corners.T, color=colour, alpha=0.12)
    ax.scatter(*points.T, color=colour, marker=mark, s=22, label=name)
support = result.support[result.dual > 1e-6]
ax.scatter(*X[support].T, s=140, facecolors="none", edgecolors="k", label="support vectors")
ax.plot(*nearest.T, "k.-", linewidth=2, label="nearest points of the hulls")
w, b = result.coef, result.intercept
along = np.array([-w[1], w[0]])
for shift, style in ((-result.lower, "--"), (0.0, "-"), (result.lower, "--")):
    middle = (shift - b) * w
    ends = np.array([middle - 3 * along, middle + 3 * along])
    ax.plot(*ends.T, style, color="0.3", linewidth=1)
ax.set_aspect("equal")
ax.set(xlim=(-3.6, 3.6), ylim=(-2.6, 2.6))
ax.legend(loc="upper left", frameon=False)
plt.show()

# %%
# **Try next**: move one support vector, and another point, and see which of them changes the
# margin; bring the clouds closer until the hulls meet, and ask
# :func:`momentron.check_separability`.
