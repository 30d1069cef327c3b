"""
A race of the paper's methods
=============================

Gradient descent on the exponential loss maximises the margin like 1/ln t, normalised gradient
descent like 1/t, and the paper's momentum like 1/t². The distance to the best margin, which
``auto`` certifies, shows the rates.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from momentron import max_margin

# %%
# Each method runs for the same number of iterations, on the same two digits.

X, y = load_digits(n_class=2, return_X_y=True)
best = max_margin(X, y, fit_intercept=False, tol=1e-12).lower
methods = [
    "momentum",
    "batch-perceptron",
    "normalized-perceptron",
    "normalized-gradient",
    "gradient-descent",
]
traces = {
    name: max_margin(X, y, method=name, fit_intercept=False, tol=0, max_iter=3000).trace
    for name in methods
}

# %%
# The trace of a result has one row per iteration.

figure, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
colours = ["#d55e00", "#0072b2", "#56b4e9", "#009e73", "#7f7f7f"]
for (name, trace), colour in zip(traces.items(), colours, strict=True):
    t = trace["iteration"]
    left = 1 - np.maximum.accumulate(trace["margin"]) / best
    ax.plot(t, left, color=colour, label=name)
    print(f"{name:22} after {t[-1]} iterations {left[-1]:.2e} short of the best margin")
t = np.arange(30, 3001)
ax.plot(t, 300 / t**2.0, "k:", linewidth=1, label="slope −2")
ax.set(xscale="log", yscale="log", xlabel="iteration", ylabel="1 − margin / best margin")
ax.set(ylim=(None, 3), title="Digits 0 and 1")
ax.legend(frameon=False, loc="lower left")
plt.show()

# %%
# **Try next**: ``momentron race digits --classes 3 8 --plot race.png`` does the same for any data;
# ``python -m paper fig1`` reproduces the paper's figure. Why the rate is 1/t²:
# :doc:`/explanations/dual-view`.
