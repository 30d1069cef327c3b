"""
An interval closes around the best margin
=========================================

A solver proposes a classifier and weights of the rows, which prove a lower and an upper bound on
the best margin. However early the solver is stopped, the truth lies between the bounds.

``python examples/plot_01_interval.py docs/figures/interval.png`` draws the picture of the README.
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from momentron import max_margin

# %%
# Stop Algorithm 1 of the paper after different numbers of iterations: each run ends with a
# certified interval. The default method, ``auto``, closes it at once.

X, y = load_digits(n_class=2, return_X_y=True)
best = max_margin(X, y, tol=1e-10)
stops = [3, 10, 30, 100, 300, 1000, 3000]
early = [max_margin(X, y, method="momentum", tol=0, max_iter=t) for t in stops]
for t, result in zip(stops, early, strict=True):
    print(f"{t:5} steps: best margin in [{result.lower:7.4f}, {result.upper:7.4f}]")
print(f" auto, {best.n_iter} round: in [{best.lower:.8f}, {best.upper:.8f}]")

# %%
# No point of the band has to be taken on trust: anyone can compute both bounds from the data.

figure, ax = plt.subplots(figsize=(6.8, 3.4), layout="constrained")
lower, upper = [r.lower for r in early], [r.upper for r in early]
ax.fill_between(stops, lower, upper, color="#0072b2", alpha=0.18, label="proven interval")
ax.plot(stops, upper, "v-", color="#0072b2", label="no classifier has more")
ax.plot(stops, lower, "^-", color="#d55e00", label="this classifier has as much")
ax.axhline(best.lower, color="0.2", linestyle="--", linewidth=1)
ax.annotate(
    f"best margin {best.lower:.5f}", (stops[-1], best.lower), xytext=(0, 6),
    textcoords="offset points", ha="right",
)  # fmt: skip
ax.set(xscale="log", xlabel="iterations on the digits 0 and 1", ylabel="margin, in grey levels")
ax.set_title("Stopped early the answer is wide, but never wrong")
ax.legend(loc="lower right", frameon=False)
if len(sys.argv) > 1 and sys.argv[1].endswith(".png"):
    figure.savefig(sys.argv[1], dpi=160, metadata={"Software": None})
plt.show()

# %%
# **Try next**: other digits (``load_digits()`` has ten), ``method="batch-perceptron"``, or
# ``fit_intercept=False``. How the bounds are proven: :doc:`/explanations/trust`.
