"""
A hostile solver, and why it cannot lie
=======================================

A solver only proposes. Here some solvers lie about everything they can: margins, weights, shapes,
endings; one writes into its data. The certified interval contains the truth each time.
"""

import matplotlib.pyplot as plt
import numpy as np

from momentron import max_margin
from momentron.datasets import make_separable
from momentron.solvers import Candidates, Momentum, Primal

# %%
# Liars, derived from an honest method. What they return is copied, checked and computed again.


class Boaster(Momentum):
    """Claims scores a thousand times better than they are."""

    name = "claims huge scores"

    def candidates(self, problem, state):
        found = super().candidates(problem, state)
        lies = [Primal(p.w, 1000 * p.scores - 10) for p in found.primals]
        return Candidates(lies, q=found.q, upper=found.upper)


class Understater(Momentum):
    """Claims that no margin is possible."""

    name = "claims upper = 0"

    def candidates(self, problem, state):
        found = super().candidates(problem, state)
        return Candidates(found.primals, q=found.q, upper=0.0, interval=(0.0, 0.0))


class Cheat(Momentum):
    """Proposes negative weights, which would prove anything."""

    name = "negative weights"

    def candidates(self, problem, state):
        found = super().candidates(problem, state)
        q = np.where(np.arange(len(found.q)) % 2, -1.0, 1.0)
        return Candidates(found.primals, q=q, upper=1e-9)


class Vandal(Momentum):
    """Tries to overwrite what it was given."""

    name = "overwrites its problem"

    def step(self, problem, state):
        problem.R = 1e-6
        super().step(problem, state)


class Noise(Momentum):
    """Proposes what is not a number."""

    name = "not a number"

    def candidates(self, problem, state):
        found = super().candidates(problem, state)
        found.primals[0].w[:] = np.nan
        return Candidates(found.primals, q=found.q * np.inf, upper=np.nan)


# %%
# The best margin of these data is 0.3, by construction.

data = make_separable(100, 10, margin=0.3, random_state=0)
solvers = [Momentum(), Boaster(), Understater(), Cheat(), Vandal(), Noise()]
results = [
    max_margin(data.X, data.y, method=s, fit_intercept=False, tol=1e-3, max_iter=200)
    for s in solvers
]
for solver, result in zip(solvers, results, strict=True):
    honest = result.lower <= 0.3 + 1e-12 and result.upper >= 0.3 - 1e-12
    print(f"{solver.name:24} [{result.lower:.4f}, {result.upper:.4f}] contains 0.3: {honest}")

# %%
# A lie can widen the interval, but never moves it off the truth.

figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
names = ["honest momentum", *(s.name for s in solvers[1:])]
for place, result in enumerate(results):
    colour = "#d55e00" if place else "#0072b2"
    ax.plot([result.lower, min(result.upper, 2)], [place, place], "|-", color=colour, linewidth=5)
ax.axvline(0.3, color="0.2", linestyle="--", linewidth=1)
ax.set_yticks(range(len(names)), names)
ax.invert_yaxis()
ax.set(xlabel="certified interval on the best margin (truth: 0.3)", xlim=(-0.02, None))
plt.show()

# %%
# **Try next**: your own liar (:doc:`/howto/write-a-solver`); ``python -m benchmarks.hostile
# --quick`` in a checkout tries 288 lies. Why none works: :doc:`/explanations/trust`.
