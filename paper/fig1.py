"""Figure 1: margins on separable data, MNIST digits 0 and 1."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from momentron.api import max_margin
from momentron.display.race import scale_to_best
from paper import style
from paper.claims import Claim
from paper.figure import Figure, Measured, Part, Report
from paper.methods import (
    DESCENT,
    METHODS,
    MOMENTUM,
    NORMALIZED,
    NORMALIZED_ROOT,
    PERCEPTRON,
    method_part,
)
from paper.path import AT_THIS_HORIZON, PART, overtakes, path_part
from paper.recording import require_end
from paper.sample import Sample, mnist_pair

TOL = 1e-9
BEST = "auto"


class Figure1(Figure):
    """Margin against iterations and seconds; the best margin, certified, from `auto`."""

    name = "fig1"
    title = "Figure 1, margins on separable data"

    def __init__(
        self, sample: Sample, *, iterations: int, path: int | None = None, quick: bool
    ) -> None:
        super().__init__(sample, quick=quick)
        self.iterations = iterations
        self.path = iterations if path is None else path

    @classmethod
    def from_mnist(cls, quick: bool) -> "Figure1":
        """Digits 0 and 1; the quick version has a quarter of the rows and fewer iterations."""
        if quick:
            return cls(mnist_pair(0, 1, rows=3000), iterations=1000, quick=True)
        return cls(mnist_pair(0, 1), iterations=3000, path=8000, quick=False)

    def about(self) -> str:
        return (
            f"{self.sample.title}, no intercept, {self.iterations:,} iterations of each method "
            "with the paper's parameters. Margins are in the units of X (pixels from 0 to 1). The "
            "batch perceptron's curve is that of its running average, which is what its authors "
            "return. The dotted line is what Theorem 3.1 guarantees momentum; the band is the "
            "interval of its second part, which is known while the method runs, without the best "
            "margin. The axis is linear up to the best margin on either side of 0, and "
            "logarithmic below. With θ_t = 1/√t the steps become so short that "
            f"{self.iterations:,} of them decide nothing against gradient descent; but both follow "
            "the path of θ = 1 at a pace of their own, and "
            f"{self.path:,} steps with θ = 1 tell when one overtakes the other. This is computed "
            "from the path: a run of θ_t = 1/√t of that length is not made."
        )

    def parts(self) -> list[Part]:
        best = Part(BEST, {"tol": TOL}, 20.0, self._measure_best)
        curves = [method_part(m, self.sample, self.iterations) for m in METHODS]
        return [best, *curves, path_part(self.sample, self.path)]

    def _measure_best(self, report: Report) -> Measured:
        sample = self.sample
        result = max_margin(sample.sparse, sample.y, fit_intercept=False, tol=TOL)
        require_end(result.status)
        columns = result.trace.to_dict()
        facts = {"lower": result.lower, "upper": result.upper, "status": str(result.status)}
        kept = {
            name: columns[name] for name in ("iteration", "seconds", "margin", "lower", "upper")
        }
        return Measured(kept, {**facts, "gap": result.gap, "seconds": result.seconds})

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        best = measured[BEST].facts
        margins = {m.name: measured[m.name].columns["margin"] for m in METHODS}
        return [
            self._separable(best),
            momentum_first(margins, measured[PERCEPTRON.name].columns["lower"]),
            perceptron_second(margins),
            normalizing_helps(margins, NORMALIZED.name, "θ_t = 1"),
            left_at_horizon(normalizing_helps(margins, NORMALIZED_ROOT.name, "θ_t = 1/√t")),
            overtakes(measured[PART].columns, margins, "θ_t = 1/√t"),
            self._bound_holds(margins[MOMENTUM.name], best),
            interval_holds(measured[MOMENTUM.name].columns, best),
            rates(margins, best["upper"]),
            auto_is_sooner(measured),
        ]

    def theorem_bound(self, iterations: np.ndarray, best: float) -> np.ndarray:
        """Theorem 3.1: γ̄ − 4(1 + ln n)(1 + 2 ln(t + 1)) / (γ̄ (t + 1)²), in the units of X."""
        t, gamma = iterations + 1.0, best / self.sample.radius
        slack = (
            4.0 * (1.0 + math.log(self.sample.y.size)) * (1.0 + 2.0 * np.log(t)) / (gamma * t**2)
        )
        return best - self.sample.radius * slack

    def _separable(self, best: Mapping[str, Any]) -> Claim:
        n, d = self.sample.X.shape
        return Claim(
            "The data here is linearly separable, specifically mnist digits 0 and 1.",
            "Figure 1, caption",
            {"rows": n, "features": d, "best margin at least": best["lower"]}
            | {"best margin at most": best["upper"], "certified gap": best["gap"]},
            best["lower"] > 0.0,
        )

    def _bound_holds(self, margins: np.ndarray, best: Mapping[str, Any]) -> Claim:
        t = np.arange(1, margins.size + 1)
        # the bound grows with γ̄, so that its upper end is the severest
        bound = self.theorem_bound(t, best["upper"])
        crossed = int((margins < bound).sum())
        return Claim(
            "For all t ≥ 1 the margin of momentum is at least "
            "γ̄ − 4(1 + ln n)(1 + 2 ln(t + 1)) / (γ̄ (t + 1)²).",
            "Theorem 3.1, first part",
            {"iterations": t.size, "crossed": crossed}
            | {"smallest distance": float((margins - bound).min())}
            | {"bound at the end": bound[-1], "margin at the end": margins[-1]},
            crossed == 0,
            any_size=True,
        )

    def draw(self, measured: Mapping[str, Measured]) -> Any:
        best = measured[BEST].facts
        figure, panels = style.two_panels(f"{self.title}: {self.sample.title}", sharey=True)
        for axes, x in zip(panels, ("iteration", "seconds"), strict=True):
            for method in METHODS:
                style.draw_curve(axes, measured[method.name].columns, x, "margin", method)
            label = f"best margin, certified: {best['lower']:.5g}"
            axes.axhline(best["lower"], color=style.INK, linewidth=1.0, label=label)
            axes.set(xscale="log", xlabel={"iteration": "iterations"}.get(x, x))
        self._draw_theorem(panels[0], measured[MOMENTUM.name].columns, best["upper"])
        auto, ink = measured[BEST].columns, style.INK
        panels[1].plot(
            auto["seconds"], auto["margin"], "o-", color=ink, markersize=4, zorder=5, label="auto"
        )
        panels[0].set(xlim=(1, self.iterations), ylabel="margin / best margin")
        panels[0].set_title("Margin against iterations")
        panels[1].set_title("Margin against seconds")
        scale_to_best(panels[0], best["lower"])
        style.shared_legend(figure, panels)
        return figure

    def _draw_theorem(self, axes: Any, columns: Mapping[str, np.ndarray], best: float) -> None:
        kept = style.thin(columns["iteration"])
        t, low, high = (columns[n][kept] for n in ("iteration", "theorem_lower", "theorem_upper"))
        colour = MOMENTUM.colour
        bound = self.theorem_bound(t, best)
        axes.plot(t, bound, color=colour, linestyle=":", label="Theorem 3.1: momentum is above")
        label = "Theorem 3.1: best margin is inside"
        axes.fill_between(t, low, high, color=colour, alpha=0.15, linewidth=0, label=label)


def momentum_first(margins: Mapping[str, np.ndarray], perceptron_best: np.ndarray) -> Claim:
    """Is momentum's margin the largest at the end, and since when."""
    ours = margins[MOMENTUM.name]
    # the batch perceptron may point at its best iterate so far instead of its average
    others = [margin for name, margin in margins.items() if name != MOMENTUM.name]
    behind = np.flatnonzero(ours <= np.max([*others, perceptron_best], axis=0))
    since = int(behind[-1]) + 2 if behind.size else 1
    return Claim(
        "The new momentum-based method has the largest margin of all the methods compared.",
        "Figure 1",
        {"iterations": ours.size}
        | {name: float(margin[-1]) for name, margin in margins.items()}
        | {"batch-perceptron, best iterate so far": perceptron_best[-1]}
        | {"first for good since iteration": since if since <= ours.size else None},
        since <= ours.size,
    )


def perceptron_second(margins: Mapping[str, np.ndarray]) -> Claim:
    """Does the batch perceptron lead the older methods at the end."""
    names = (PERCEPTRON.name, NORMALIZED.name, NORMALIZED_ROOT.name, DESCENT.name)
    last = {name: float(margins[name][-1]) for name in names}
    return Claim(
        "The batch perceptron is hard to beat, and surpasses prior implicit margin maximizers in "
        "experiments.",
        "Section 1.1, of Figure 1",
        last,
        last[PERCEPTRON.name] > max(last[name] for name in names[1:]),
    )


def normalizing_helps(margins: Mapping[str, np.ndarray], name: str, step: str) -> Claim:
    """Does the normalised gradient lead gradient descent at the end."""
    normalized, descent = margins[name], margins[DESCENT.name]
    return Claim(
        f"The margin can be maximized much faster by simply normalizing the gradient ({step}).",
        "Section 1",
        {"iterations": normalized.size, name: normalized[-1], DESCENT.name: descent[-1]},
        bool(normalized[-1] > descent[-1]),
    )


def left_at_horizon(claim: Claim) -> Claim:
    """A claim about the long run that has not come true yet is not decided."""
    return claim if claim.holds else replace(claim, holds=None, word=AT_THIS_HORIZON)


def interval_holds(columns: Mapping[str, np.ndarray], best: Mapping[str, Any]) -> Claim:
    """Does the interval of Theorem 3.1 contain the best margin at every iteration that has one."""
    low, high = columns["theorem_lower"], columns["theorem_upper"]
    there = ~np.isnan(low)
    missed = int(((low > best["upper"]) | (high < best["lower"]))[there].sum())
    return Claim(
        "For all t ≥ 1, 4‖g_t‖²/t² − 8 ln n/(t + 1)² ≤ γ̄² ≤ 4‖g_t‖²/t².",
        "Theorem 3.1, second part",
        {"iterations": int(there.sum()), "missed": missed}
        | {"at the end from": low[-1], "to": high[-1]},
        missed == 0,
        any_size=True,
    )


def rates(margins: Mapping[str, np.ndarray], best: float) -> Claim:
    """The exponents with which γ̄ − γ(w_t) falls over the last decade of iterations."""
    exponents = {name: decay_exponent(best - margin) for name, margin in margins.items()}
    older = [value for name, value in exponents.items() if name != MOMENTUM.name]
    ours = exponents[MOMENTUM.name]
    return Claim(
        "The iterates maximize the margin at a rate of Õ(1/t²), whereas prior work had a rate of "
        "O(1/t) at best: the exponent of momentum is below −1 and below those of the others.",
        "Section 1",
        {f"exponent of {name}": value for name, value in exponents.items()},
        ours < -1.0 and ours < min(older),
    )


def decay_exponent(distance: np.ndarray) -> float:
    """The slope of ln distance against ln t over the last decade of t = 1, 2, …"""
    t = np.unique(np.geomspace(max(1.0, distance.size / 10), distance.size, 200).astype(int))
    return float(np.polyfit(np.log(t), np.log(distance[t - 1]), 1)[0])


def auto_is_sooner(measured: Mapping[str, Measured]) -> Claim:
    """Beyond the paper: how long `auto` takes for a margin that no iteration here has reached."""
    auto, momentum = measured[BEST], measured[MOMENTUM.name].columns
    return Claim(
        "The default method, `auto`, certifies the best margin before momentum has finished.",
        "beyond the paper",
        {"auto, seconds": auto.facts["seconds"], "auto, certified gap": auto.facts["gap"]}
        | {"momentum, seconds": momentum["seconds"][-1]}
        | {"momentum, margin short by": 1.0 - momentum["margin"][-1] / auto.facts["upper"]},
        auto.facts["gap"] <= TOL and auto.facts["seconds"] < momentum["seconds"][-1],
    )
