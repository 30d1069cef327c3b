"""What the page of figure 4 says about its grid: what ran, and every number per cell."""

import math
from collections.abc import Mapping, Sequence

from paper.grid import Grid
from paper.grid_statistics import (
    PAIRS,
    TRACED,
    Example,
    Outcome,
    Verdict,
    by_cell,
    summarise,
)

Stages = Mapping[str, tuple[Sequence[Outcome], int]]
"""Title → the networks that ran, and how many are registered."""


def grid_details(grid: Grid, stages: Stages, verdict: Verdict) -> str:
    """Markdown: the verdict, a table per stage, the examples, and unfitted networks apart."""
    lines = ["## The grid", "", f"**Verdict: {verdict.words}.** {_meaning(verdict, grid)}", ""]
    lines += ["Differences are in percentage points of test error, last kernel less first: above 0"]
    lines += ["the initial kernel is better. [The rules](fig4-grid.md) were fixed before the run."]
    left = sum(registered - len(outcomes) for outcomes, registered in stages.values())
    if left:
        lines += [
            "",
            f"{left} registered networks have not run yet. `python -m paper fig4 --max-time "
            "3600` goes on from the networks that are in its folder, for an hour, and writes this "
            "page anew.",
        ]
    for title, (outcomes, registered) in stages.items():
        fitted = [o for o in outcomes if o.fitted]
        lines += ["", f"### {title}: {len(outcomes)} of {registered} networks ran", ""]
        if fitted:
            lines += _cell_table(fitted, grid.level)
            lines += ["", "The other reading, features ∇(A_c − A_j)(x) of the pair itself:", ""]
            lines += _cell_table(fitted, grid.level, PAIRS)
        unfitted = [o for o in outcomes if not o.fitted]
        if unfitted:
            lines += ["", "Unfitted, which count nowhere:", "", *_unfitted_table(unfitted)]
    if verdict.examples:
        lines += ["", "### Seeds chosen on even test images, tested on odd ones", ""]
        lines += _example_table(verdict.examples)
    return "\n".join(lines)


def _meaning(verdict: Verdict, grid: Grid) -> str:
    confirmed = sum(e.initial and e.confirmed for e in verdict.examples)
    meaning = (
        f"{confirmed} seeds that prefer the initial kernel were confirmed; the bound of "
        f"{verdict.bound:.3g} on the probability of one (Clopper and Pearson, one-sided, "
        f"{1.0 - grid.level:.0%}) is that of {verdict.counted}."
    )
    if verdict.by_seed is None:
        return meaning
    seeds, above, bound = verdict.by_seed
    return (
        f"{meaning} They have {seeds} seeds, and networks of one seed in several cells share their "
        "images and the numbers behind their weights: they are not independent, as the bound has "
        f"them. With the seed as the unit, {above} of {seeds} prefer the initial kernel in some "
        f"cell, and the bound is {bound:.2g}."
    )


def _cell_table(outcomes: Sequence[Outcome], level: float, reading: str = TRACED) -> list[str]:
    rows = [
        "| cell | fitted | first kernel | last kernel | mean difference | its interval "
        "| spread between seeds | noise of one seed | initial better | probability below |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell, group in by_cell(outcomes).items():
        s = summarise(group, level, reading)
        ends = [sum(o.answers[reading][i].mean() for o in group) / len(group) for i in (0, 1)]
        interval = "none" if math.isinf(s.low) else f"{_points(s.low)} to {_points(s.high)}"
        between = "none" if math.isnan(s.between) else f"{100.0 * s.between:.2f}"
        cells = (
            cell.words,
            str(s.seeds),
            *(f"{end:.1%}" for end in ends),
            _points(s.mean),
            interval,
            between,
            f"{100.0 * s.noise:.2f}",
            str(s.above),
            f"{s.bound:.2f}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _unfitted_table(outcomes: Sequence[Outcome]) -> list[str]:
    rows = ["| cell | seed | epochs | cross entropy | difference |", "|---|---|---|---|---|"]
    for o in outcomes:
        loss = "not finite" if o.loss is None else f"{o.loss:.3g}"
        difference = "no last kernel" if o.loss is None else _points(o.difference())
        rows.append(f"| {o.job.cell.words} | {o.job.seed} | {o.epochs} | {loss} | {difference} |")
    return rows


def _example_table(examples: Sequence[Example]) -> list[str]:
    rows = [
        "| cell | seed | chosen to prefer | even images | odd images | p | confirmed (Holm) |",
        "|---|---|---|---|---|---|---|",
    ]
    for e in sorted(examples, key=lambda e: (not e.initial, e.p)):
        cells = (
            e.outcome.job.cell.words,
            str(e.outcome.job.seed),
            "initial" if e.initial else "final",
            _points(e.chosen),
            _points(e.tested),
            f"{e.p:.2g}",
            "yes" if e.confirmed else "no",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _points(share: float) -> str:
    """A difference in percentage points, with its sign.

    >>> _points(-0.0123)
    '−1.23'
    """
    return f"{100.0 * share:+.2f}".replace("-", "−")
