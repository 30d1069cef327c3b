"""Figure 3: margins and test errors through a tangent kernel, all ten digits of MNIST."""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from momentron.datasets import load
from momentron.views.display.style import INK, saved_figure
from paper.data import Sample
from paper.judge import Claim, since
from paper.method_curves import PERCEPTRON, draw_curve, shared_legend
from paper.runner import Figure, Measured, Part
from paper.two_layer import (
    AGGRESSIVE,
    CACHE_SIZE,
    ORDER,
    THEORY,
    Curves,
    Features,
    curve_part,
    in_order,
    last_of,
)

WIDTH = 128
SEED = 0
RAW = "raw-"


@dataclass
class Figure3(Figure):
    """Margin and test error against iterations and kernel values, one column per iteration."""

    name = "fig3"
    title = "Figure 3, margins through a tangent kernel"
    seed = SEED

    _: KW_ONLY
    iterations: int
    raw: Sample  # the rows for the same comparison without normalising the kernel
    raw_iterations: int

    @classmethod
    def from_mnist(cls, quick: bool) -> "Figure3":
        """All digits; the quick version has a fortieth of the rows and fewer iterations."""
        few = mnist_digits(1500, 1000) if quick else mnist_digits(6000, 2000)
        return cls(
            few if quick else mnist_digits(),
            iterations=1200 if quick else 20_000,
            raw=few,
            raw_iterations=1000 if quick else 4000,
            quick=quick,
        )

    def numbers(self) -> dict[str, Any]:
        return {
            "title": self.sample.title,
            "tests": self.sample.y_test.size,
            "width": WIDTH,
            "iterations": self.iterations,
            "cache": CACHE_SIZE / 1000,
        }

    def parts(self) -> list[Part]:
        runs = (
            ("", self.sample, self.iterations, Features(WIDTH, SEED, normalize=True)),
            (RAW, self.raw, self.raw_iterations, Features(WIDTH, SEED, normalize=False)),
        )
        return [
            curve_part(prefix + m.name, m, sample, iterations, features)
            for prefix, sample, iterations, features in runs
            for m in ORDER
        ]

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        curves = {m.name: measured[m.name].columns for m in ORDER}
        raw = {m.name: measured[RAW + m.name].columns for m in ORDER}
        return [
            separable(curves, len(self.sample.X)),
            columns_suffice(curves, len(self.sample.X)),
            aggressive_first(curves),
            theory_last(curves),
            order_at_equal_values(curves),
            works_well(curves, self.sample.y_test.size),
            order_without_normalizing(raw, len(self.raw.X)),
        ]

    def draw(self, measured: Mapping[str, Measured]) -> Any:
        curves = {m.name: measured[m.name].columns for m in ORDER}
        figure, panels = saved_figure(2, 2, size=(9.2, 7.4))
        figure.suptitle(f"{self.title}: {self.sample.title}", x=0.01, ha="left", fontsize=11)
        names = {"iteration": "iterations", "evaluations": "kernel values computed"}
        upper = min(last_of(curves, "upper").values())
        least = min(float(columns["test_error"].min()) for columns in curves.values())
        for row, x in zip(panels, names, strict=True):
            for axes, y in zip(row, ("margin", "test_error"), strict=True):
                for method in reversed(ORDER):
                    draw_curve(axes, curves[method.name], x, y, method)
                axes.set(xscale="log", xlabel=names[x])
            draw_last_iterate(row[1], curves[PERCEPTRON.name], x)
            scale_margins(row[0], upper, curves[THEORY.name]["margin"][-1])
            scale_errors(row[1], least)
        panels[0, 0].set_title("Margin")
        panels[0, 1].set_title("Test error")
        shared_legend(figure, panels.flat, columns=2)
        return figure


def mnist_digits(rows: int | None = None, test_rows: int | None = None) -> Sample:
    """All ten digits of MNIST; `rows` and `test_rows` of them, evenly spaced, if given."""
    mnist = load("mnist", subset=rows)
    (n, d), n_test = mnist.X.shape, len(mnist.y_test)
    kept = np.arange(n_test)
    if test_rows is not None:
        kept = np.arange(test_rows) * n_test // test_rows
    title = f"MNIST, ten digits, {n:,} × {d}"
    return Sample(mnist.X, mnist.y, mnist.X_test[kept], mnist.y_test[kept], title)


def draw_last_iterate(axes: Any, columns: Mapping[str, np.ndarray], x: str) -> None:
    """The test error of the batch perceptron's own iterates, faintly."""
    axes.plot(
        columns[x],
        columns["last_test_error"],
        color=PERCEPTRON.colour,
        alpha=0.4,
        linewidth=0.9,
        label="batch perceptron, last iterate",
    )


def scale_margins(axes: Any, upper: float, theory: float) -> None:
    """A linear axis around 0 up to the upper bound of the best margin."""
    label = f"certified: no margin is above {upper:.3g}"
    axes.axhline(upper, color=INK, linestyle=":", linewidth=1.0, label=label)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    bottom = -3.0 * upper
    axes.set(ylim=(bottom, 1.2 * upper), ylabel="margin")
    if theory < bottom:
        words = f"theorem's parameters: below,\n{theory:.2g} at the end".replace("-", "−")
        axes.text(0.02, 0.4, words, transform=axes.transAxes, color=THEORY.colour, fontsize=8)


def scale_errors(axes: Any, least: float) -> None:
    """A log axis in per cent, from below the least error on."""
    ticks = [tick for tick in (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0) if tick >= least]
    axes.set(yscale="log", ylabel="test error", ylim=(0.8 * max(least, 0.001), 1.0))
    axes.set_yticks(ticks, [f"{tick:.0%}" for tick in ticks])
    axes.minorticks_off()


def separable(curves: Curves, n: int) -> Claim:
    """Was a classifier found that gets every training row right."""
    best = last_of(curves, "lower")
    return Claim(
        "All ten classes are made into a linearly separable problem by the features of the "
        f"tangent kernel of a network with a single hidden layer of {WIDTH} ReLU nodes.",
        "Appendix F, of Figure 3",
        {"rows": n}
        | {f"{name}, best margin so far": margin for name, margin in best.items()}
        | {"best margin at most": min(last_of(curves, "upper").values())},
        max(best.values()) > 0.0,
    )


def columns_suffice(curves: Curves, n: int) -> Claim:
    """Kernel values per iteration, over n; those of the diagonal come once."""
    shares = {
        name: (columns["evaluations"] - n) / (n * columns["iteration"])
        for name, columns in curves.items()
    }
    return Claim(
        "These methods require O(n) kernel evaluations per iteration: at most n, besides the n of "
        "the diagonal at the start.",
        "Figure 3, caption",
        {f"{m.name}, values an iteration over n": float(shares[m.name][-1]) for m in ORDER},
        all(bool((share <= 1.0).all()) for share in shares.values()),
    )


def aggressive_first(curves: Curves) -> Claim:
    """Is the aggressive margin above the batch perceptron's at the end, and since when."""
    ours, theirs = curves[AGGRESSIVE.name], curves[PERCEPTRON.name]
    last, best = last_of(curves, "margin"), last_of(curves, "lower")
    since = ahead_since(ours["iteration"], ours["margin"], theirs["margin"])
    upper = min(last_of(curves, "upper").values())
    return Claim(
        "The batch perceptron is slightly beaten by Algorithm 2 using the momentum and step size "
        "parameters from Algorithm 1: its margin is larger at the end, and so is the best so far.",
        "Figure 3, caption",
        {"iterations": ours["iteration"][-1]}
        | {f"{m.name}, margin": last[m.name] for m in (AGGRESSIVE, PERCEPTRON)}
        | {"larger by": f"{last[AGGRESSIVE.name] / last[PERCEPTRON.name] - 1.0:+.0%}"}
        | {"no margin is above, certified": upper}
        | {f"{m.name}, share of that": last[m.name] / upper for m in (AGGRESSIVE, PERCEPTRON)}
        | {f"{m.name}, best so far": best[m.name] for m in (AGGRESSIVE, PERCEPTRON)}
        | {"ahead for good since iteration": since},
        last[AGGRESSIVE.name] > last[PERCEPTRON.name]
        and best[AGGRESSIVE.name] >= best[PERCEPTRON.name],
    )


def ahead_since(iterations: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> int | None:
    """The first of the iterations from which on ours is above theirs; None where there is none."""
    first = since(ours <= theirs)
    return None if first is None else int(iterations[first])


def theory_last(curves: Curves) -> Claim:
    """Is the margin with the theorem's parameters the smallest at the end."""
    last = last_of(curves, "margin")
    theory, perceptron = curves[THEORY.name], curves[PERCEPTRON.name]
    since = ahead_since(perceptron["iteration"], perceptron["margin"], theory["margin"])
    return Claim(
        "By contrast, the theoretically-justified parameters are slower than batch perceptron.",
        "Figure 3, caption",
        {f"{name}, margin": margin for name, margin in last.items()}
        | {"behind the batch perceptron for good since iteration": since},
        last[THEORY.name] < min(last[AGGRESSIVE.name], last[PERCEPTRON.name]),
    )


def order_at_equal_values(curves: Curves) -> Claim:
    """The order where each method has computed as many kernel values as the thriftiest at its end.

    Iterations whose column was in memory are free, so that methods differ in this.
    """
    budget = min(last_of(curves, "evaluations").values())
    margins = {}
    for method in ORDER:
        columns = curves[method.name]
        within = np.searchsorted(columns["evaluations"], budget, side="right") - 1
        margins[method.name] = float(columns["margin"][within])
    return Claim(
        "The order is the same at equal numbers of kernel values computed.",
        "beyond the paper",
        {"kernel values": budget} | {f"{name}, margin": m for name, m in margins.items()},
        in_order(margins),
    )


def works_well(curves: Curves, n_test: int) -> Claim:
    """Is the test error with momentum no higher than the others', within the noise of a count."""
    last = last_of(curves, "test_error")
    iterate = float(curves[PERCEPTRON.name]["last_test_error"][-1])
    ours = last[AGGRESSIVE.name]
    least = min(last[PERCEPTRON.name], last[THEORY.name], iterate)
    noise = 2.0 * math.sqrt(least * (1.0 - least) / n_test)
    return Claim(
        "Algorithm 2 with a nonzero momentum works well in practice: its test error is not above "
        "those of the other methods by more than two standard errors.",
        "Section 4, of Figure 3",
        {f"{name}, test error": error for name, error in last.items()}
        | {"batch-perceptron, last iterate, test error": iterate, "two standard errors": noise},
        ours <= least + noise,
    )


def order_without_normalizing(curves: Curves, n: int) -> Claim:
    """The order of the margins on fewer rows, through the kernel as it is."""
    last, best = last_of(curves, "margin"), last_of(curves, "lower")
    return Claim(
        "The order of the margins is the same if the kernel is not normalised (on fewer rows).",
        "Figure 3, with rows scaled by the longest alone",
        {"rows": n, "iterations": curves[AGGRESSIVE.name]["iteration"][-1]}
        | {f"{name}, margin": margin for name, margin in last.items()}
        | {f"{name}, best so far": margin for name, margin in best.items()},
        in_order(last) and best[AGGRESSIVE.name] >= best[PERCEPTRON.name],
    )
