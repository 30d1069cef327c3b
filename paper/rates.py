"""How fast Algorithm 2 reaches the best margin, with momentum and without: the exponents of t."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from momentron.solvers import Adaptive, Momentum, Solver
from momentron.solvers.schedules import sampling_step, sampling_steps
from momentron.views.display.style import BLUE, GREEN, INK, VERMILLION, saved_figure
from momentron.views.progress import part_of
from paper.data import FEATURES, SUPPORT, Drawn, Placed, Rows, Source, mnist_pair
from paper.judge import (
    NEAR,
    Claim,
    Estimate,
    Table,
    all_below,
    all_within,
    below,
    decade_exponent,
    differences,
    estimate,
    finding,
    intervals,
    near,
    settled,
    words,
)
from paper.method_curves import Method, log_spaced, record, shared_legend
from paper.runner import Figure, Measured, Part, Report

PER_DECADE = 40
SCALED = "best margin over max‖x‖"

SAMPLED = Method("momentum", "Algorithm 2, β = t/(t + 1), θ = 1", 1, VERMILLION)
PLAIN = Method("no-momentum", "Algorithm 2, β = 0, θ = 1", 1, BLUE)
THEORY = Method("theory", "Algorithm 2, β = 0, θ = √(ln n/t), one run for each t", 1, GREEN)
BATCH = Method("batch", "Algorithm 1, for comparison", 2, INK, "--")
METHODS = (SAMPLED, PLAIN, THEORY, BATCH)


@dataclass(frozen=True)
class Scale:
    """How large a run is."""

    seeds: int  # problems drawn from each source, each with draws of its own
    iterations: int
    # the lengths of the runs with the theorem's step, which depends on the length
    horizons: tuple[int, ...] = ()


def part_name(source: Source, method: Method) -> str:
    """Of the part that measures a method on a source."""
    return f"{source.slug}-{method.name}"


def make_part(name: str, source: Source, method: Method, scale: Scale) -> Part:
    """All seeds of a method on a source."""
    lengths = scale.horizons if method is THEORY else (scale.iterations,)
    parameters = {
        "method": method.name,
        "source": source.parameters(),
        "seeds": scale.seeds,
        "lengths": lengths,
        "per_decade": PER_DECADE,
    }
    weight = float(sum(lengths) * scale.seeds * method.passes * source.weight)
    return Part(name, parameters, weight, partial(measure_distances, source, method, scale))


def seed_column(seed: int) -> str:
    """The column of a seed's distances."""
    return f"seed_{seed}"


def decade_exponents(columns: Mapping[str, np.ndarray], last: float) -> np.ndarray:
    """The exponent of each seed over the decade of t that ends at `last`."""
    t = columns["iteration"]
    curves = [column for name, column in columns.items() if name != "iteration"]
    return np.array([decade_exponent(t, curve, last) for curve in curves])


def measure_distances(source: Source, method: Method, scale: Scale, report: Report) -> Measured:
    """(γ̄ − γ(w_t))/γ̄ of every seed, a column each."""
    columns: dict[str, np.ndarray] = {}
    scaled, widths = [], []
    for seed in range(scale.seeds):
        drawn = source.draw(seed)
        tell = part_of(report, seed / scale.seeds, (seed + 1) / scale.seeds)
        t, margins = measure_margins(drawn, method, scale, seed, tell)
        columns["iteration"] = t
        columns[seed_column(seed)] = (drawn.best - margins) / drawn.best
        scaled.append(drawn.best / drawn.radius)
        widths.append(drawn.width / drawn.best)
    least = min(float(columns[seed_column(seed)].min()) for seed in range(scale.seeds))
    facts = {SCALED: float(np.mean(scaled)), "least distance": least}
    return Measured(columns, facts | {"best margin known to": max(widths)})


def measure_margins(
    drawn: Drawn, method: Method, scale: Scale, seed: int, report: Report
) -> tuple[np.ndarray, np.ndarray]:
    """(t, γ(w_t)): one run, or with the theorem's step one for each length."""
    if method is not THEORY:
        marks = log_spaced(scale.iterations, PER_DECADE)
        solver = make_solver(method)
        columns = record(
            drawn.problem, solver, scale.iterations, report, marks=marks, random_state=seed
        )
        return columns["iteration"], columns["margin"]
    ends, done, total = [], 0, sum(scale.horizons)
    for length in scale.horizons:
        tell = part_of(report, done / total, (done + length) / total)
        theta = sampling_step(math.log(drawn.y.size), length)
        solver = Adaptive(momentum=0.0, step=theta)
        columns = record(drawn.problem, solver, length, tell, marks=[length], random_state=seed)
        ends.append(columns["margin"][-1])
        done += length
    return np.array(scale.horizons), np.array(ends)


def make_solver(method: Method) -> Solver:
    """The method with its parameters."""
    if method is BATCH:
        return Momentum()
    return Adaptive() if method is SAMPLED else Adaptive(momentum=0.0)


def quartiles(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """The quartiles over the seeds at each t, a row each."""
    curves = [column for name, column in columns.items() if name != "iteration"]
    found: np.ndarray = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
    return found


PER_TENFOLD = 0.1
"""An exponent does not depend on n or γ̄ that changes by less when these grow tenfold."""
DELTA = 0.1
"""The probability with which the theorem may fail."""
PRICE = 10.0
"""Sampling costs little if the distance is at most this many times that of Algorithm 1."""

FURTHER = "further-momentum"
MARKERS = {SAMPLED.name: "o", PLAIN.name: "s", THEORY.name: "^", BATCH.name: "D"}


@dataclass(frozen=True)
class Guide:
    """A line of the slope that a rate has, this many times as high as a method's curve."""

    method: Method
    exponent: float
    text: str
    height: float


GUIDES = (
    Guide(SAMPLED, -2.0, "1/t²", 0.25),
    Guide(PLAIN, -1.0, "1/t", 2.2),
    Guide(THEORY, -0.5, "1/√t", 2.0),
)


PLACES = ((100, 0.05), (100, 0.15), (100, 0.5), (1000, 0.15), (5000, 0.15))
"""n and γ̄: one of them varies while the other stays."""
FEW_PLACES = ((100, 0.15), (100, 0.5), (1000, 0.15))
FULL, FAR = Scale(12, 10_000, (1000, 2150, 4640, 10_000)), Scale(5, 100_000)
QUICK, FAR_QUICK = Scale(3, 1000, (100, 316, 1000)), Scale(2, 5000)


@dataclass
class Rates(Figure):
    """γ̄ − γ(w_t) against t, its exponent over the last decade, and what that depends on.

    The sample has real rows, of which a seed draws some.
    """

    name = "rates"
    title = "Rates of Algorithm 2, with momentum and without"
    seed = 0

    sources: list[Source]  # where problems come from; the curves of the middle one are drawn
    scale: Scale
    far: Scale  # of longer runs with momentum, on the source that is drawn

    @classmethod
    def from_mnist(cls, quick: bool) -> "Rates":
        """Problems with a known margin, for several n and γ̄, and rows of MNIST 0/1."""
        sample = mnist_pair(0, 1)
        rows = Rows(sample, "MNIST 0/1", 300)
        placed = [Placed(n, margin) for n, margin in (FEW_PLACES if quick else PLACES)]
        scale, far = (QUICK, FAR_QUICK) if quick else (FULL, FAR)
        return cls(sample, [*placed, rows], scale, far, quick=quick)

    @property
    def shown(self) -> Source:
        """The source whose curves are drawn, and which is followed further."""
        return self.sources[len(self.sources) // 2]

    def numbers(self) -> dict[str, Any]:
        scale, placed = self.scale, self._placed
        sizes, margins = {s.n for s in placed}, {s.margin for s in placed}
        return {
            "first": scale.iterations // 10,
            "last": scale.iterations,
            "problems": scale.seeds,
            "sources": len(self.sources),
            "features": FEATURES,
            "support": SUPPORT,
            "rows": self.sample.title.split(",")[0],
            "placed": len(placed),
            "pairs": len(sizes) * len(margins),
            "sizes": len(sizes),
            "margins": len(margins),
            "far_seeds": self.far.seeds,
            "shown": self.shown.label,
            "far": self.far.iterations,
            "horizons": ", ".join(f"{t:,}" for t in scale.horizons),
            "near": NEAR,
            "per_tenfold": PER_TENFOLD,
            "price": PRICE,
        }

    @property
    def _placed(self) -> list[Source]:
        """The sources whose best margin is known beforehand."""
        return [source for source in self.sources if source.margin is not None]

    def parts(self) -> list[Part]:
        parts = [
            make_part(part_name(source, method), source, method, self.scale)
            for source in self.sources
            for method in METHODS
        ]
        return [*parts, make_part(FURTHER, self.shown, SAMPLED, self.far)]

    def exponents(self, measured: Mapping[str, Measured], method: Method) -> Table:
        """Source → the exponent of each seed over the last decade."""
        return {
            source.label: decade_exponents(
                measured[part_name(source, method)].columns, self.scale.iterations
            )
            for source in self.sources
        }

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        found = {method.name: self.exponents(measured, method) for method in METHODS}
        momentum, plain = found[SAMPLED.name], found[PLAIN.name]
        far, last = measured[FURTHER].columns, self.far.iterations
        return [
            below(
                "With momentum, the margin of Algorithm 2 approaches the best faster than 1/√t, "
                "which is all that is proved, and without momentum only: the exponent is below −½.",
                momentum,
                -0.5,
            ),
            below("With momentum it does so faster than 1/t.", momentum, -1.0),
            near("With momentum the rate is that of Algorithm 1, 1/t².", momentum, -2.0),
            near("Without momentum, with θ = 1, the rate is 1/t.", plain, -1.0),
            self._theory(measured, found[THEORY.name]),
            below(
                "Momentum lowers the exponent: that with momentum minus that without, θ = 1 for "
                "both, is below 0.",
                differences(momentum, plain),
                0.0,
            ),
            settled(decade_exponents(far, last), decade_exponents(far, last / 10), last),
            self._independent(measured, momentum),
            self._price(measured),
        ]

    def _theory(self, measured: Mapping[str, Measured], exponents: Table) -> Claim:
        """What the theorem's own parameters do, and when the theorem begins to speak."""
        scaled = [(s.n, measured[part_name(s, THEORY)].facts[SCALED]) for s in self.sources]
        begins = min(sampling_steps(math.log(n), best, DELTA, best) for n, best in scaled)
        claim = below(
            "With the theorem's own parameters the margin approaches the best faster than 1/√t, "
            "in this range of t.",
            exponents,
            -0.5,
        )
        least = {f"least t for which the theorem promises a margin, δ = {DELTA:g}:": int(begins)}
        return replace(claim, measured=claim.measured | least)

    def _independent(self, measured: Mapping[str, Measured], exponents: Table) -> Claim:
        """The change of the exponent when n or γ̄ grows tenfold: least squares, seed by seed."""
        placed = self._placed
        design = [[1.0, math.log10(s.n), math.log10(s.margin or 1.0)] for s in placed]
        values = [exponents[source.label] for source in placed]
        by_n, by_margin = np.linalg.lstsq(np.array(design), np.array(values))[0][1:]
        effects = {"n grows tenfold": by_n, "γ̄ grows tenfold": by_margin}
        estimates = {name: estimate(each, shared_by=2) for name, each in effects.items()}
        scaled = [measured[part_name(s, SAMPLED)].facts[SCALED] for s in placed]
        ranges = {"n from": min(s.n for s in placed), "n to": max(s.n for s in placed)}
        ranges |= {f"{SCALED} from": min(scaled), f"{SCALED} to": max(scaled)}
        return finding(
            "The exponent with momentum depends neither on n nor on γ̄: it changes by less than "
            f"{PER_TENFOLD:g} when one of them grows tenfold.",
            "beyond the paper",
            words({f"change when {name}": each for name, each in estimates.items()}) | ranges,
            all_within(estimates.values(), -PER_TENFOLD, PER_TENFOLD),
        )

    def _price(self, measured: Mapping[str, Measured]) -> Claim:
        """The last distance of Algorithm 2 over that of Algorithm 1, on a log scale."""
        ratios = differences(*(self._last_logs(measured, m) for m in (SAMPLED, BATCH)))
        estimates = intervals(ratios)
        factors = {label: each.mapped(math.exp) for label, each in estimates.items()}
        return finding(
            "One sampled row in the place of a pass over all of them costs little: with momentum, "
            f"γ̄ − γ(w_t) at the end is below {PRICE:g} times that of Algorithm 1.",
            "beyond the paper",
            words(factors),
            all_below(estimates.values(), math.log(PRICE)),
        )

    def _last_logs(self, measured: Mapping[str, Measured], method: Method) -> Table:
        columns = {s.label: measured[part_name(s, method)].columns for s in self.sources}
        seeds = range(self.scale.seeds)
        return {
            label: np.log([each[seed_column(seed)][-1] for seed in seeds])
            for label, each in columns.items()
        }

    def draw(self, measured: Mapping[str, Measured]) -> Any:
        figure, (left, right) = saved_figure(1, 2, size=(9.2, 6.0))
        figure.suptitle(self.title, x=0.01, ha="left", fontsize=11)
        curves = {m.name: measured[part_name(self.shown, m)].columns for m in METHODS}
        curves[SAMPLED.name] = measured[FURTHER].columns
        for method in METHODS:
            draw_distances(left, curves[method.name], method)
        for guide in GUIDES:
            draw_guide(left, curves[guide.method.name], guide)
        left.set(xscale="log", yscale="log", xlim=(10, self.far.iterations))
        left.set(xlabel="iterations t", ylabel="(γ̄ − γ(w_t)) / γ̄")
        left.set_title(f"Distance from the best margin, {self.shown.label}")
        for method in METHODS:
            draw_exponents(right, intervals(self.exponents(measured, method)), method)
        labels = [source.label for source in self.sources]
        right.set_yticks(range(len(labels)), labels)
        right.set(ylim=(len(labels) - 0.4, -0.6), xlabel="exponent of t over the last decade")
        least, largest = right.get_xlim()
        right.set_xticks(np.arange(math.ceil(2 * least), math.floor(2 * largest) + 1) / 2)
        right.set_title("Exponents, all seeds of each source")
        right.grid(visible=False, axis="y")
        for guide in GUIDES:
            right.axvline(guide.exponent, color=INK, linewidth=0.8, linestyle=":")
            right.annotate(
                guide.text,
                (guide.exponent, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, -2),
                textcoords="offset points",
                ha="center",
                va="top",
                backgroundcolor="white",
                fontsize=8,
            )
        shared_legend(figure, (left, right), columns=2)
        return figure


def draw_distances(axes: Any, columns: Mapping[str, np.ndarray], method: Method) -> None:
    """The median over the seeds with a band between the quartiles; separate runs as markers."""
    low, middle, high = quartiles(columns)
    t, colour = columns["iteration"], method.colour
    if method is THEORY:
        bars = [middle - low, high - middle]
        marker = MARKERS[method.name]
        axes.errorbar(t, middle, bars, fmt=marker, color=colour, markersize=4, linewidth=1.0)
        return
    axes.plot(t, middle, color=colour, linestyle=method.line, linewidth=1.6)
    axes.fill_between(t, low, high, color=colour, alpha=0.18, linewidth=0)


def draw_guide(axes: Any, columns: Mapping[str, np.ndarray], guide: Guide) -> None:
    """Beside the last decade of a curve, named where it begins."""
    t = columns["iteration"]
    start, end = t[-1] / 10.0, t[-1]
    height = guide.height * np.interp(start, t, quartiles(columns)[1])
    ends = [height, height * 10.0**guide.exponent]
    axes.plot([start, end], ends, color=INK, linewidth=0.8)
    above = guide.height > 1.0
    axes.annotate(
        guide.text,
        (start, height),
        xytext=(0, 2) if above else (-3, 0),
        textcoords="offset points",
        ha="center" if above else "right",
        va="bottom" if above else "center",
        fontsize=8,
        color=INK,
    )


def draw_exponents(axes: Any, estimates: Mapping[str, Estimate], method: Method) -> None:
    """A marker with its interval for each source, the methods one below the other."""
    place = np.arange(len(estimates)) + 0.18 * (METHODS.index(method) - 1.5)
    means = np.array([each.mean for each in estimates.values()])
    reach = np.array([each.high - each.mean for each in estimates.values()])
    axes.errorbar(
        means,
        place,
        xerr=reach,
        fmt=MARKERS[method.name],
        color=method.colour,
        markersize=4,
        linewidth=1.2,
        label=method.label,
    )
