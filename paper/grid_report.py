"""What is said about the networks of figure 4: the paper's claims, and every number per cell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from paper.grid import Grid
from paper.grid_statistics import (
    LAST,
    PAIRS,
    TRACED,
    Example,
    Outcome,
    Verdict,
    by_cell,
    facts_of,
    judge,
    summarise,
    upper_bound,
)
from paper.judge import UNDECIDED, Claim, all_below, estimate, finding, markdown_table
from paper.runner import Measured

Stages = Mapping[str, tuple[Sequence[Outcome], int]]
"""Title → the networks that ran, and how many are registered."""


def grid_details(grid: Grid, stages: Stages, verdict: Verdict) -> str:
    """Markdown: the verdict, a table per stage, the examples, and unfitted networks apart."""
    lines = ["## The grid", "", f"**Verdict: {verdict.words}.** {_meaning(verdict, grid)}", ""]
    lines += ["Differences are in percentage points of test error, last kernel minus first: above"]
    lines += [
        "0 the initial kernel is better. [The rules](fig4-grid.md) were fixed before the run."
    ]
    left = sum(registered - len(outcomes) for outcomes, registered in stages.values())
    if left:
        lines += [
            "",
            f"{left} registered networks have not run yet. `python -m paper fig4 --max-time "
            "3600` goes on from the networks that are in its folder, for an hour, and writes this "
            "page again.",
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
            lines += ["", "Unfitted, which the registered verdict leaves out:", ""]
            lines += _unfitted_table(unfitted)
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
    if not math.isnan(verdict.normal):
        meaning += (
            f" If the differences of the seeds are normally distributed, which is an assumption, "
            f"it is {verdict.normal:.2g} (noncentral t)."
        )
    return meaning


def _cell_table(outcomes: Sequence[Outcome], level: float, reading: str = TRACED) -> list[str]:
    rows = []
    for cell, group in by_cell(outcomes).items():
        s = summarise(group, level, reading)
        ends = [sum(o.answers[reading][i].mean() for o in group) / len(group) for i in (0, 1)]
        interval = "–" if math.isinf(s.low) else f"{_points(s.low)} to {_points(s.high)}"
        between = "–" if math.isnan(s.between) else f"{100.0 * s.between:.2f}"
        row = {
            "cell": cell.words,
            "fitted": str(s.seeds),
            "first kernel": f"{ends[0]:.1%}",
            "last kernel": f"{ends[1]:.1%}",
            "mean difference": _points(s.mean),
            "its interval": interval,
            "spread between seeds": between,
            "noise of one seed": f"{100.0 * s.noise:.2f}",
            "initial better": str(s.above),
            "probability below": f"{s.bound:.2f}",
            "if normal": "–" if math.isnan(s.normal) else f"{s.normal:.2g}",
        }
        rows.append(row)
    return markdown_table(rows)


def _unfitted_table(outcomes: Sequence[Outcome]) -> list[str]:
    rows = [
        {
            "cell": o.job.cell.words,
            "seed": str(o.job.seed),
            "epochs": str(o.epochs),
            "cross entropy": "not finite" if o.loss is None else f"{o.loss:.3g}",
            "difference": "no last kernel" if o.loss is None else _points(o.difference()),
        }
        for o in outcomes
    ]
    return markdown_table(rows)


def _example_table(examples: Sequence[Example]) -> list[str]:
    rows = [
        {
            "cell": e.outcome.job.cell.words,
            "seed": str(e.outcome.job.seed),
            "chosen to prefer": "initial" if e.initial else "final",
            "even images": _points(e.chosen),
            "odd images": _points(e.tested),
            "p": f"{e.p:.2g}",
            "confirmed (Holm)": "yes" if e.confirmed else "no",
        }
        for e in sorted(examples, key=lambda e: (not e.initial, e.p))
    ]
    return markdown_table(rows)


def _points(share: float) -> str:
    """A difference in percentage points, with its sign.

    >>> _points(-0.0123)
    '−1.23'
    """
    return f"{100.0 * share:+.2f}".replace("-", "−")


CLOSE = 0.01  # one percentage point
SETTLED = 0.999  # alignment of two kernels that count as one
SHORT = 0.01  # of the best margin, relative
FITTED = ("lower", "best_upper", "test_error", "best_error")
NOT_TESTABLE = "not testable"

Curves = Mapping[int, Mapping[str, np.ndarray]]
"""The columns of each seed."""


def comparison(first: np.ndarray, last: np.ndarray) -> dict[str, Any]:
    """Which kernel errs less, from where each is wrong, with the noise of the images."""
    only_first, only_last = int((first & ~last).sum()), int((last & ~first).sum())
    n = first.size
    return {
        "tests": n,
        "first": float(first.mean()),
        "last": float(last.mean()),
        "difference": (only_last - only_first) / n,
        # McNemar: only the images count on which they differ
        "standard error": math.sqrt(only_first + only_last) / n,
    }


def by_epochs(parts: Mapping[int, Measured]) -> dict[int, dict[str, np.ndarray]]:
    """The looks at each seed, one row per look."""
    return {seed: by_epoch(part.columns) for seed, part in parts.items()}


def by_epoch(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One row per look at a seed that is followed: the last of Algorithm 2's iterations there."""
    ends = np.flatnonzero(np.diff(columns["epoch"], append=-1) != 0)
    return {name: column[ends] for name, column in columns.items()}


def converged(followed: Mapping[int, Measured], every: Sequence[Outcome]) -> Claim:
    """Are networks fitted, and is the kernel the same after as many epochs again."""
    aligned = {
        seed: float(by_epoch(part.columns)["alignment_last"][-2])
        for seed, part in followed.items()
        if part.facts["fitted"]
    }
    return Claim(
        "AlexNet is trained until the features converge: the seeds that are followed are fitted, "
        "and twice the epochs leave the normalised kernel as it is.",
        "Section 6",
        {f"seed {seed}, epochs until fitted": p.facts["epochs"] for seed, p in followed.items()}
        | {f"seed {s}, alignment with twice the epochs": value for s, value in aligned.items()}
        | {"at least": SETTLED, "networks of the grid": len(every)}
        | {"of these fitted": sum(o.fitted for o in every)},
        len(aligned) == len(followed) and min(aligned.values(), default=0.0) >= SETTLED,
    )


def identical(looks: Curves, every: Sequence[Outcome]) -> Claim:
    """Are the last errors of kernel and network within a percentage point."""
    numbers: dict[str, Any] = {}
    apart = 0.0
    for seed, columns in looks.items():
        kernel, network = float(columns["test_error"][-1]), float(columns["network_error"][-1])
        numbers |= {f"seed {seed}, kernel": kernel, f"seed {seed}, network": network}
        apart = max(apart, abs(kernel - network))
    gaps = [o.answers[TRACED][LAST].mean() - o.network_error for o in every if o.fitted]
    return Claim(
        "The test error of the final maximum-margin kernel predictor is identical to that of the "
        "final network: within one percentage point, for the seeds that are followed.",
        "Section 6",
        numbers
        | {"largest difference": apart, "fitted networks of the grid": len(gaps)}
        | {"their mean, kernel minus network": float(np.mean(gaps)) if gaps else None}
        | {"within a point": sum(abs(gap) <= CLOSE for gap in gaps)},
        apart <= CLOSE,
    )


def margins_found(looks: Curves) -> Claim:
    """Does Algorithm 2 come near the best margin in every kernel."""
    columns = {name: np.concatenate([c[name] for c in looks.values()]) for name in FITTED}
    short = 1.0 - columns["lower"] / columns["best_upper"]
    errors = np.abs(columns["test_error"] - columns["best_error"])
    return Claim(
        "Algorithm 2 determines the maximum margin: at its end it falls short of the best, which "
        "`auto` certifies, by no more than 1%.",
        "Section 6",
        {"kernels": short.size, "largest shortfall, relative": float(short.max())}
        | {"largest difference of test errors from the best predictor's": float(errors.max())},
        float(short.max()) <= SHORT,
    )


def not_testable(claim: str, source: str, facts: Mapping[str, Any]) -> Claim:
    """What the paper says of one of its seeds, and what that number gives here."""
    return Claim(
        claim,
        source,
        {"here, initial kernel, test error": facts["first"], "final kernel": facts["last"]}
        | {"difference": facts["difference"], "standard error": facts["standard error"]},
        None,
        any_size=True,  # no size will do
        word=NOT_TESTABLE,
    )


SWITCHES = "Changing the random seed suffices to change whether kernel features improve or not"
CAPTION = "Figure 4, caption"


def switches(verdict: Verdict, every: Sequence[Outcome]) -> Claim:
    """Do some seeds prefer the first kernel and some the last, by the registered rules.

    A run can find such seeds; that it has not found them refutes nothing.
    """
    differences = [o.difference() for o in every if o.fitted]
    return Claim(
        f"{SWITCHES} (fitted networks, as registered).",
        CAPTION,
        facts_of(verdict)
        | {"fitted networks": len(differences)}
        | {"initial kernel better": sum(d > 0.0 for d in differences)}
        | {"least difference": min(differences, default=None)}
        | {"largest": max(differences, default=None)},
        verdict.found or None,
        word=verdict.words,
    )


def switches_unfitted(grid: Grid, screen: Sequence[Outcome], large: Sequence[Outcome]) -> Claim:
    """The same without the rule that a network must fit: those that went astray stay out."""
    kept = [
        [replace(o, fitted=True) for o in stage if o.loss is not None] for stage in (screen, large)
    ]
    verdict, every = judge(grid, *kept), [*kept[0], *kept[1]]
    initial = [e.outcome for e in verdict.confirmed(initial=True)]
    # "not found" would be said of cells that are judged by themselves, and deny these
    word = UNDECIDED if initial and not verdict.found else verdict.words
    return Claim(
        f"{SWITCHES} (without the rule that a network must fit).",
        CAPTION,
        {"networks": len(every)}
        | {"initial kernel better": sum(o.difference() > 0.0 for o in every)}
        | {"of these confirmed": len(initial)}
        | {
            f"{o.job.cell.words}, seed {o.job.seed}:": f"{_points(o.difference())} points, cross "
            f"entropy at the end {o.loss:.2f}"
            for o in initial
        },
        verdict.found or None,
        word=word,
    )


def switches_nearby(differences: Mapping[int, float], grid: Grid) -> Claim:
    """The same in the cell nearest to the paper, from its fitted networks by their seeds."""
    above = sum(difference > 0.0 for difference in differences.values())
    bound = upper_bound(above, len(differences), grid.level) if differences else 1.0
    is_small = above == 0 and bound <= grid.small
    return Claim(
        f"{SWITCHES} (the cell nearest to the paper's words: {grid.course.cell.words}).",
        CAPTION,
        {"fitted networks": len(differences), "initial kernel better": above}
        | {"bound on the probability that it is better": bound}
        | {"largest difference": max(differences.values(), default=None)},
        None,
        word=f"not found, probability below {bound:.2g}" if is_small else UNDECIDED,
    )


def intermediate_best(seen: Curves, checked: Curves, epoch: int) -> Claim:
    """Is an intermediate kernel better than the first and the last, in seeds that did not say so.

    Where it was first seen, in the seeds that the paper shows, it proves nothing: the epoch was
    chosen there.
    """
    leads = {}
    for seed, looks in {**seen, **checked}.items():
        place = np.flatnonzero(looks["epoch"][:-1] == epoch)
        if place.size:  # else training ended before
            errors = looks["best_error"]
            leads[seed] = 100.0 * float(errors[place[0]] - min(errors[0], errors[-1]))
    new = np.array([points for seed, points in leads.items() if seed in checked])
    found = estimate(new) if new.size else None
    return finding(
        f"Training overfits with so few images: the kernel of epoch {epoch}, an intermediate one, "
        "errs less than the first and than the last.",
        "Section 6; seen in the paper's two seeds, judged by the others",
        {f"seed {seed}:": f"{_points(points / 100.0)} points" for seed, points in leads.items()}
        | {"mean of the others:": "–" if found is None else str(found)},
        None if found is None else all_below([found], 0.0),
    )


def followed_details(looks: Curves) -> str:
    """Markdown: the errors of the best predictor and of the network, at each look."""
    most = max(columns["epoch"].size for columns in looks.values())
    rows = []
    for seed, columns in looks.items():
        table = zip(
            *(columns[name] for name in ("epoch", "best_error", "network_error")), strict=True
        )
        cells = [f"{epoch:,}: {kernel:.1%}, {network:.1%}" for epoch, kernel, network in table]
        cells += ["–"] * (most - len(cells))
        rows.append({"seed": str(seed)} | {f"look {i}": cell for i, cell in enumerate(cells, 1)})
    return "\n".join(
        [
            "## The seeds that are followed",
            "",
            "Epoch: test error of the maximum-margin predictor of that epoch's kernel, and of the "
            "network itself. A network that errs on 90% has not begun to learn.",
            "",
            *markdown_table(rows),
            "",
            "",
        ]
    )


def margins_improve(every: Sequence[Outcome]) -> Claim:
    """Do most margins grow from the first kernel to the last."""
    pairs = [(o.margins[0][1], o.margins[1][0]) for o in every if o.fitted]
    grown = sum(last > first for first, last in pairs)
    growth = [last / first for first, last in pairs]
    return Claim(
        "The kernels generally improve during training in terms of margins.",
        "Section 1",
        {"fitted networks": len(pairs), "margin grows": grown}
        | {"final over initial margin, median": float(np.median(growth)) if growth else None},
        grown > len(pairs) / 2 if pairs else None,
    )


def errors_improve(every: Sequence[Outcome]) -> Claim:
    """Do most test errors fall from the first kernel to the last."""
    differences = [o.difference() for o in every if o.fitted]
    fallen = sum(d < 0.0 for d in differences)
    return Claim(
        "The kernels generally improve during training in terms of test errors.",
        "Section 1",
        {"fitted networks": len(differences), "test error falls": fallen}
        | {"mean difference": float(np.mean(differences)) if differences else None},
        fallen > len(differences) / 2 if differences else None,
    )
