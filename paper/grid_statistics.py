"""How the networks of figure 4's grid are judged: the seed is the unit, test noise is taken out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import nctdtrinc, ndtr
from scipy.stats import binom, binomtest

from paper.grid import PAPER_CELL, Cell, Grid, Job
from paper.judge import Estimate, estimate

FIRST, LAST = 0, -1
TRACED, PAIRS = "wrong", "pair_wrong"
"""The two readings, by the name of their answers."""


@dataclass(frozen=True)
class Outcome:
    """What became of one network."""

    job: Job
    fitted: bool
    epochs: int
    loss: float | None  # None where training went astray
    # reading → whether each test image was wrong, of the first and of the last kernel
    answers: Mapping[str, tuple[np.ndarray, np.ndarray]]
    # certified bounds of the best margin, of the first and of the last kernel
    margins: tuple[tuple[float, float], tuple[float, float]]
    network_error: float  # of the network itself, at the end

    def changes(self, reading: str = TRACED) -> np.ndarray:
        """Image by image: 1 where only the last kernel errs, −1 where only the first, else 0."""
        first, last = self.answers[reading]
        return last.astype(np.int8) - first.astype(np.int8)

    def difference(self, reading: str = TRACED) -> float:
        """Test error of the last kernel less that of the first: above 0 the initial is better."""
        return float(self.changes(reading).mean())


@dataclass(frozen=True)
class Summary(Estimate):
    """Mean and spread of the differences of some networks, with Student's interval of the mean."""

    seeds: int
    # standard deviation between seeds, the noise of the test images taken out; NaN for one seed
    between: float
    noise: float  # standard deviation that this noise gives to one seed's difference
    above: int  # seeds with a difference above 0
    bound: float  # upper bound for the probability of that
    normal: float  # the same, were the differences of the seeds normally distributed


def summarise(outcomes: Sequence[Outcome], level: float, reading: str = TRACED) -> Summary:
    """Of networks on the same test images.

    The two-way table of seeds and images: the variance of the seeds' means is that between seeds
    plus the mean square of the interaction over the number of images. What all seeds share on an
    image moves all of them alike, and is no noise here.
    """
    table = np.array([outcome.changes(reading) for outcome in outcomes], dtype=float)
    seeds, images = table.shape
    means = table.mean(axis=1)
    if seeds == 1:
        noise, between = table.var() / images, math.nan
    else:
        rest = table - means[:, None] - table.mean(axis=0) + table.mean()
        noise = float((rest**2).sum()) / ((seeds - 1) * (images - 1)) / images
        between = math.sqrt(max(0.0, float(means.var(ddof=1)) - noise))
    above = int((means > 0.0).sum())
    mean = estimate(means, confidence=1.0 - level)
    bound = upper_bound(above, seeds, level)
    noise = math.sqrt(noise)
    normal = normal_bound(means, level)
    return Summary(mean.mean, mean.low, mean.high, seeds, between, noise, above, bound, normal)


def upper_bound(count: int, trials: int, level: float) -> float:
    """Clopper and Pearson's one-sided bound for a probability, from a count.

    >>> round(upper_bound(0, 60, 0.05), 4)
    0.0487
    """
    test = binomtest(count, trials, alternative="less")
    return float(test.proportion_ci(1.0 - level, method="exact").high)


def normal_bound(values: np.ndarray, level: float) -> float:
    """The one-sided bound for the probability of a value above 0, if the values are normal.

    From Student's noncentral distribution; NaN for values without spread.

    >>> round(normal_bound(np.array([-3.0, -2.0, -1.0]), 0.05), 3)
    0.454
    """
    n, spread = values.size, float(values.std(ddof=1)) if values.size > 1 else 0.0
    if spread == 0.0:
        return math.nan
    reached = math.sqrt(n) * float(values.mean()) / spread
    return float(ndtr(nctdtrinc(n - 1, level, reached) / math.sqrt(n)))


@dataclass(frozen=True)
class Example:
    """A seed chosen on one half of the test images, and what the other half says."""

    outcome: Outcome
    initial: bool  # whether it was chosen to prefer the initial kernel, else the final one
    # chosen, tested: the differences on the halves
    chosen: float
    tested: float
    p: float  # exact one-sided McNemar test on the second half
    confirmed: bool  # by Holm's rule over the whole family


def examples(groups: Sequence[Sequence[Outcome]], count: int, level: float) -> list[Example]:
    """So many seeds per group and direction, chosen on even images, confirmed on odd ones."""
    found: list[tuple[Outcome, bool, float, float, float]] = []
    for group in groups:
        halves = [(o, float(o.changes()[::2].mean())) for o in group if o.fitted]
        halves.sort(key=lambda pair: pair[1])
        final = [pair for pair in halves[:count] if pair[1] < 0.0]
        initial = [pair for pair in halves[::-1][:count] if pair[1] > 0.0]
        for pairs, is_initial in ((initial, True), (final, False)):
            for outcome, chosen in pairs:
                tested = outcome.changes()[1::2]
                p = mcnemar(tested if is_initial else -tested)
                found.append((outcome, is_initial, chosen, float(tested.mean()), p))
    is_confirmed = holm([p for *_, p in found], level)
    return [Example(*each, confirmed) for each, confirmed in zip(found, is_confirmed, strict=True)]


def mcnemar(changes: np.ndarray) -> float:
    """The exact one-sided p-value of as many 1s among the 1s and −1s, were both as likely."""
    ups, downs = int((changes > 0).sum()), int((changes < 0).sum())
    return float(binom.sf(ups - 1, ups + downs, 0.5))


def holm(p: Sequence[float], level: float) -> list[bool]:
    """Which of a family of tests reject, so that a false one is at most as likely as the level.

    >>> holm([0.01, 0.04, 0.02], 0.05), holm([0.01, 0.04, 0.03], 0.05)
    ([True, True, True], [True, False, False])
    """
    rejected = [False] * len(p)
    for rank, place in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[place] > level / (len(p) - rank):
            break
        rejected[place] = True
    return rejected


@dataclass(frozen=True)
class Verdict:
    """Whether the seed decides which kernel is better."""

    found: bool | None  # None where it is undecided
    words: str
    # on the probability that the initial kernel is better; of the cell where it is largest
    bound: float
    counted: str  # the networks that it is about
    examples: list[Example]
    normal: float = math.nan  # the bound if differences are normal; of the cell where it is largest

    def confirmed(self, *, initial: bool) -> list[Example]:
        """The confirmed seeds that prefer the initial kernel, or the final one."""
        return [e for e in self.examples if e.confirmed and e.initial is initial]


def judge(grid: Grid, screen: Sequence[Outcome], large: Sequence[Outcome]) -> Verdict:
    """The verdict by the rules that were registered, from the networks that ran so far."""
    fitted = [o for o in (*screen, *large) if o.fitted]
    family = examples(list(by_cell(fitted).values()), grid.examples, grid.level)
    initial, final = (
        {e.outcome.job.cell for e in family if e.confirmed and e.initial is is_initial}
        for is_initial in (True, False)
    )
    large_cells = by_cell([o for o in large if o.fitted])
    normal = math.nan
    if len(large_cells) >= grid.mixed and all(
        len(group) >= grid.enough for group in large_cells.values()
    ):  # the large stage is judged by itself, cell by cell
        bounds = {cell: probability(group, grid.level) for cell, group in large_cells.items()}
        worst = max(bounds, key=lambda cell: bounds[cell])
        bound, counted = bounds[worst], f"{len(large_cells[worst])} fitted networks, {worst.words}"
        normal = max(summarise(group, grid.level).normal for group in large_cells.values())
    else:
        bound = probability(fitted, grid.level) if fitted else 1.0
        counted = f"{len(fitted)} fitted networks of all cells that ran"
        seeds = len({o.job.seed for o in fitted})
        if seeds < len(fitted):
            counted += f", not independent: they have {seeds} seeds"
    rest = (bound, counted, family, normal)
    if initial & final:
        where = "; ".join(sorted(cell.words for cell in initial & final))
        return Verdict(True, f"found ({where})", *rest)
    if bound <= grid.small:
        return Verdict(False, f"not found, probability below {bound:.2g}", *rest)
    return Verdict(None, "undecided", *rest)


def probability(outcomes: Sequence[Outcome], level: float) -> float:
    """The bound on the probability that the initial kernel is better on the test images."""
    above = sum(outcome.difference() > 0.0 for outcome in outcomes)
    return upper_bound(above, len(outcomes), level)


def by_cell(outcomes: Sequence[Outcome]) -> dict[Cell, list[Outcome]]:
    """The networks of each cell, the one nearest to the paper first, then in their order."""
    near = [outcome.job.cell for outcome in outcomes if outcome.job.cell == PAPER_CELL]
    cells: dict[Cell, list[Outcome]] = {cell: [] for cell in near[:1]}
    for outcome in outcomes:
        cells.setdefault(outcome.job.cell, []).append(outcome)
    return cells


def most_mixed(grid: Grid, screen: Sequence[Outcome]) -> tuple[Cell, ...]:
    """The cells of the large stage, nearest to 0 first."""
    groups = by_cell([o for o in screen if o.fitted])
    distance = {
        cell: abs(float(np.mean([o.difference() for o in group])))
        for cell, group in groups.items()
        if len(group) >= grid.least_fitted
    }
    order = sorted(distance, key=lambda cell: (distance[cell], grid.cells.index(cell)))
    return tuple(order[: grid.mixed])


def facts_of(verdict: Verdict) -> dict[str, Any]:
    """The numbers of a verdict, for a claim."""
    normal = {}
    if not math.isnan(verdict.normal):
        normal = {"the same if the differences are normal, an assumption": verdict.normal}
    return {
        "verdict": verdict.words,
        "about": verdict.counted,
        "bound on the probability that the initial kernel is better": verdict.bound,
        **normal,
        "seeds tested for the initial kernel": sum(e.initial for e in verdict.examples),
        "of these confirmed": len(verdict.confirmed(initial=True)),
        "seeds tested for the final kernel": sum(not e.initial for e in verdict.examples),
        "confirmed": len(verdict.confirmed(initial=False)),
    }


def outcome_of(job: Job, columns: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> Outcome:
    """A network from what was saved of it; one that went astray has its first kernel twice."""
    count = facts["tests"]

    def both(name: str) -> tuple[np.ndarray, np.ndarray]:
        texts = facts[name]
        return unpacked(texts[FIRST], count), unpacked(texts[LAST], count)

    bounds = [(float(columns["lower"][i]), float(columns["upper"][i])) for i in (FIRST, LAST)]
    return Outcome(
        job,
        facts["fitted"],
        facts["epochs"],
        facts["loss"],
        {reading: both(reading) for reading in (TRACED, PAIRS)},
        (bounds[0], bounds[1]),
        float(columns["network_error"][LAST]),
    )


def packed(wrong: np.ndarray) -> str:
    """Yes and no for each test image, as hexadecimal digits, four images to a digit.

    >>> packed(np.array([True, False, False, True, True]))
    '98'
    """
    return np.packbits(wrong).tobytes().hex()


def unpacked(text: str, count: int) -> np.ndarray:
    """What `packed` wrote, for this many images.

    >>> unpacked("98", 5)
    array([ True, False, False,  True,  True])
    """
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=count).astype(bool)
