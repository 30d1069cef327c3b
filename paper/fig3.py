"""Figure 3: margins and test errors through a tangent kernel, all ten digits of MNIST."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from momentron.datasets import load
from momentron.views.display.style import INK, saved_figure
from paper.data import Sample
from paper.judge import Claim, markdown_table, since
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

WIDTHS = (32, 64, 128)
PAPER_WIDTH = 128
ROWS_PER_ITERATION = 3
"""The horizon, fixed before any of these ran: as in the run of 60,000 rows, 20,000 iterations."""
NOT_ALL_RAN = "not decided: some networks have not run"


@dataclass(frozen=True)
class Widths:
    """Networks of several widths and seeds."""

    sample: Sample
    seeds: tuple[int, ...]
    widths: tuple[int, ...] = WIDTHS

    @property
    def iterations(self) -> int:
        """Of each method."""
        return len(self.sample.X) // ROWS_PER_ITERATION

    @property
    def features(self) -> list[Features]:
        """In the order of the run: seed by seed, normalised before raw."""
        every = product(self.seeds, (True, False), self.widths)
        return [Features(width, seed, normalize) for seed, normalize, width in every]

    def parts(self) -> list[Part]:
        """A curve for each network and method."""
        return [
            curve_part(curve_name(f, m.name), m, self.sample, self.iterations, f)
            for f in self.features
            for m in ORDER
        ]

    def finished(self, measured: Mapping[str, Measured]) -> dict[Features, Curves]:
        """The curves of the networks for which all methods ran."""
        return {
            f: {m.name: measured[curve_name(f, m.name)].columns for m in ORDER}
            for f in self.features
            if all(curve_name(f, m.name) in measured for m in ORDER)
        }

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        """That narrower networks are similar; none where none ran."""
        finished = self.finished(measured)
        claims = []
        for normalize, scaling in ((True, "normalised"), (False, "not normalised")):
            runs = {f: curves for f, curves in finished.items() if f.normalize is normalize}
            if runs:
                claim = similar(runs, len(self.sample.X), self.iterations, scaling)
                if len(runs) < len(self.seeds) * len(self.widths):
                    claim = replace(claim, holds=None, word=NOT_ALL_RAN)
                claims.append(claim)
        return claims

    def details(self, measured: Mapping[str, Measured]) -> str:
        """A table with a row per network."""
        finished = self.finished(measured)
        total = len(self.features)
        heading = [
            f"## Widths and seeds: {len(finished)} of {total} networks ran",
            "",
            f"{self.sample.title}, {self.sample.y_test.size:,} rows to test on, "
            f"{self.iterations:,} iterations of each method: one per {ROWS_PER_ITERATION} rows, "
            "the horizon of the run above, fixed before these ran. The seed draws the network's "
            "weights, and the rows that Algorithm 2 samples.",
            "",
        ]
        left = [f for f in self.features if f not in finished]
        if left:
            heading += [f"Not run, or not with every method: {unfinished_words(left)}.", ""]
        return "\n".join([*heading, *table(finished)])


def curve_name(features: Features, method: str) -> str:
    """As in file names."""
    scaling = "" if features.normalize else "raw-"
    return f"width-{features.width}-seed-{features.seed}-{scaling}{method}"


def similar(runs: Mapping[Features, Curves], rows: int, iterations: int, scaling: str) -> Claim:
    """Are the margins in the paper's order, at each narrower width for more than half the seeds."""
    is_ordered = {f: has_order(curves) for f, curves in runs.items()}
    counts = {
        width: [ordered for f, ordered in is_ordered.items() if f.width == width]
        for width in dict.fromkeys(f.width for f in runs)
    }
    narrower = [orders for width, orders in counts.items() if width < PAPER_WIDTH]
    return Claim(
        f"Experiments with narrower widths were similar (features {scaling}; the order of the "
        "margins, in more than half of the seeds at each narrower width).",
        "Appendix F, of Figure 3",
        {"rows": rows, "iterations": iterations}
        | {f"width {w}, seeds with this order": f"{sum(o)} of {len(o)}" for w, o in counts.items()},
        all(sum(orders) > len(orders) / 2 for orders in narrower) if narrower else None,
    )


def unfinished_words(left: Sequence[Features]) -> str:
    """The networks, by width and scaling, with the seeds of each.

    >>> unfinished_words([Features(32, 1, True), Features(32, 2, True), Features(64, 1, False)])
    'width 32 normalised, seeds 1, 2; width 64 as they are, seeds 1'
    """
    seeds: dict[str, list[str]] = {}
    for f in left:
        seeds.setdefault(f"width {f.width} {scaling_words(f)}", []).append(str(f.seed))
    return "; ".join(f"{kind}, seeds {', '.join(each)}" for kind, each in seeds.items())


def scaling_words(features: Features) -> str:
    return "normalised" if features.normalize else "as they are"


def has_order(curves: Curves) -> bool:
    """Is Algorithm 2 first, also by the best so far, and are the theorem's parameters last."""
    best = last_of(curves, "lower")
    return in_order(last_of(curves, "margin")) and best[AGGRESSIVE.name] >= best[PERCEPTRON.name]


def table(finished: Mapping[Features, Curves]) -> Sequence[str]:
    """Markdown: margins and test errors at the end."""
    rows = []
    for f, curves in finished.items():
        row = {"width": str(f.width), "seed": str(f.seed), "features": scaling_words(f)}
        for method in ORDER:
            last = {name: column[-1] for name, column in curves[method.name].items()}
            row |= {
                f"{method.label}: margin": f"{last['margin']:.4g}".replace("-", "−"),
                f"{method.label}: best so far": f"{last['lower']:.4g}".replace("-", "−"),
                f"{method.label}: error": f"{last['test_error']:.2%}",
            }
        rows.append(row | {"the paper's order": "yes" if has_order(curves) else "**no**"})
    return markdown_table(rows) if rows else []


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
    widths: Widths | None = None  # further networks, on rows of their own

    @classmethod
    def from_mnist(cls, quick: bool, seeds: Sequence[int] = ()) -> "Figure3":
        """All digits; the quick version has a fortieth of the rows and fewer iterations.

        The seeds are those of further networks, of three widths each, on a third of the rows.
        """
        widths = None
        if seeds:
            rows = mnist_digits(600, 500) if quick else mnist_digits(20_000, 2000)
            widths = Widths(rows, tuple(dict.fromkeys(seeds)))
        few = mnist_digits(1500, 1000) if quick else mnist_digits(6000, 2000)
        return cls(
            few if quick else mnist_digits(),
            iterations=1200 if quick else 20_000,
            raw=few,
            raw_iterations=1000 if quick else 4000,
            widths=widths,
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

    def parts_after(self, measured: Mapping[str, Measured]) -> list[Part]:
        return [] if self.widths is None else self.widths.parts()

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
            *([] if self.widths is None else self.widths.claims(measured)),
        ]

    def details(self, measured: Mapping[str, Measured]) -> str:
        return "" if self.widths is None else self.widths.details(measured)

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
                draw_iterates(axes, curves[PERCEPTRON.name], x, y)
                axes.set(xscale="log", xlabel=names[x])
            scale_margins(row[0], upper)
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


def draw_iterates(axes: Any, columns: Mapping[str, np.ndarray], x: str, y: str) -> None:
    """The batch perceptron's own iterates, faintly: the best margin so far, the last test error."""
    shown = columns["lower" if y == "margin" else "last_test_error"]
    is_there = shown > 0.0  # until an iterate separates, the best margin is that of w = 0
    axes.plot(
        columns[x][is_there],
        shown[is_there],
        color=PERCEPTRON.colour,
        alpha=0.4,
        linewidth=0.9,
        label="batch perceptron: best margin so far, error of the last iterate",
    )


def scale_margins(axes: Any, upper: float) -> None:
    """Linear up to the upper bound of the best margin either side of 0, logarithmic below."""
    label = f"no margin is above {upper:.3g}"
    axes.axhline(upper, color=INK, linestyle=":", linewidth=1.0, label=label)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    axes.set_yscale("symlog", linthresh=upper, linscale=1.6)
    axes.set(ylim=(-1.5, 1.3 * upper), ylabel="margin")
    half = float(f"{upper / 2:.0e}")
    below = [tick for tick in (-1.0, -0.3, -0.1, -0.03, -0.01) if tick < -1.5 * upper]
    ticks = [*below, -half, 0.0, half]
    axes.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    axes.minorticks_off()


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
    return Claim(
        "The batch perceptron is slightly beaten by Algorithm 2 using the momentum and step size "
        "parameters from Algorithm 1: its margin is larger at the end, and so is the best so far.",
        "Figure 3, caption",
        {"iterations": ours["iteration"][-1]}
        | {f"{m.name}, margin": last[m.name] for m in (AGGRESSIVE, PERCEPTRON)}
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
