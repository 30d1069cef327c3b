"""
Out of core: a file in a few passes
===================================

``auto`` reads a file block by block, keeps the rows that matter, and closes the interval in a few
passes, however many rows there are. Momentum reads the file once per step.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from momentron import max_margin
from momentron.datasets import make_separable

# %%
# A file of 100,000 rows with a known best margin of 0.1, read in blocks of 2 MB.

data = make_separable(
    100_000, 40, n_support=30, margin=0.1, fit_intercept=True, dtype=np.float32, random_state=0
)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.npy"
    np.save(path, data.X)
    print(f"{path.stat().st_size / 1e6:.0f} MB on disk")
    fits = {
        "auto": max_margin(path, data.y, tol=1e-6, block_size="2MB"),
        "momentum": max_margin(
            path, data.y, method="momentum", tol=0, max_iter=60, block_size="2MB"
        ),
    }

# %%
# Both intervals contain the truth; one is narrow.

figure, ax = plt.subplots(figsize=(5.6, 3.5), layout="constrained")
for (name, result), colour in zip(fits.items(), ("#d55e00", "#0072b2"), strict=True):
    passes = int(result.trace["passes"][-1])
    print(f"{name:9} [{result.lower:.6f}, {result.upper:.6f}] after {passes} passes")
    ax.fill_between(
        result.trace["passes"], np.maximum(result.trace["lower"], 0), result.trace["upper"],
        alpha=0.2, color=colour,
    )  # fmt: skip
    ax.plot(result.trace["passes"], result.trace["upper"], "v-", color=colour, markersize=4)
    ax.plot(
        result.trace["passes"], np.maximum(result.trace["lower"], 0), "^-", color=colour,
        markersize=4, label=name,
    )  # fmt: skip
ax.axhline(0.1, color="0.2", linestyle="--", linewidth=1, label="the best margin, by construction")
ax.set(xscale="log", xlabel="passes over the file", ylabel="bounds on the best margin")
ax.set(ylim=(0, 0.4))
ax.set_xticks([2, 5, 10, 20, 60], [2, 5, 10, 20, 60])
ax.minorticks_off()
ax.legend(frameon=False)
plt.show()

# %%
# **Try next**: ``checkpoint="fit.state"``, then kill the run and start it again; a Parquet folder;
# a Dask array. The guide: :doc:`/howto/out-of-core`, and 4,000,000 rows:
# :doc:`/explanations/scaling`.
