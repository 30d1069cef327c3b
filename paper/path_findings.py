"""What the angles and errors along Algorithm 1's path and the soft margin's decide."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from paper.data import TRAIN, VALIDATION
from paper.judge import Claim, Estimate, all_below, all_within, estimate, finding, words
from paper.runner import Measured

Splits = Mapping[str, Sequence[Measured]]
"""Set → what its splits measured."""

CLOSE = 10.0
"""Degrees within which a path is followed closely."""
SAME = 0.005
"""Errors that differ by less are the same."""
ORDER = 0.9
"""The rank correlation of t and the nearest C from which on the order is the same."""
OVERLAP = (1.0 - TRAIN - VALIDATION) / TRAIN
"""Rows tested over rows trained on."""
NOT_SEPARABLE = ("quasi-separable", "overlapping")
OPEN_PROBLEM = "Section 3, open problem"


def not_separable(splits: Splits) -> Claim:
    """Was it proved of the training rows of every split, and each proof checked."""
    facts = {name: [split.facts for split in each] for name, each in splits.items()}
    proved = {
        name: sum(f["kind"] in NOT_SEPARABLE and f["verified"] for f in each)
        for name, each in facts.items()
    }
    return finding(
        "The training rows of every split are not separable; each proof was verified.",
        OPEN_PROBLEM,
        {f"{name}:": f"{proved[name]} of {len(each)} splits" for name, each in facts.items()},
        all(proved[name] == len(each) for name, each in facts.items()),
        any_size=True,
    )


def stays_close(splits: Splits, column: str, *, until_chosen: bool) -> Claim:
    """Is the largest angle to the nearest point of a path small."""

    def largest(split: Measured) -> float:
        t, found = on_path(split, "iteration"), on_path(split, column)
        return float(found[t <= split.facts["chosen t"]].max() if until_chosen else found.max())

    estimates = by_set(splits, largest)
    path = (
        "soft-margin path" if column == "nearest_angle" else "regularisation path of its own loss"
    )
    when = "until the iteration that validation chooses" if until_chosen else "at every iteration"
    further = {} if until_chosen else leaving(splits, column)
    return finding(
        f"Algorithm 1 follows the {path}: {when}, the angle to its nearest point is below "
        f"{CLOSE:g}°.",
        OPEN_PROBLEM,
        words({f"{name}, largest angle": each for name, each in estimates.items()}) | further,
        all_below(estimates.values(), CLOSE),
    )


def leaving(splits: Splits, column: str) -> dict[str, str]:
    """When the path is first left, and how far from its beginning: medians over the splits."""
    found = {}
    for name, each in splits.items():
        beyond = [np.append(np.flatnonzero(on_path(s, column) >= CLOSE), -1)[0] for s in each]
        if all(place >= 0 for place in beyond):
            pairs = list(zip(each, beyond, strict=True))
            t, angle = (
                np.median([on_path(split, what)[place] for split, place in pairs])
                for what in ("iteration", "travelled")
            )
            found[f"{name}, left at t ="] = f"{t:.0f}, {angle:.0f}° from the first direction"
        else:
            found[f"{name}, left in"] = f"{sum(p >= 0 for p in beyond)} of {len(each)} splits"
    return found


def in_order(splits: Splits) -> Claim:
    """Does the nearest C grow with t."""

    def minus_correlation(split: Measured) -> float:
        t, C = on_path(split, "iteration"), on_path(split, "nearest_C")
        return -float(spearmanr(t, C).statistic)

    estimates = by_set(splits, minus_correlation)
    shown = {name: Estimate(-e.mean, -e.high, -e.low) for name, e in estimates.items()}
    return finding(
        "Algorithm 1 passes the soft margins in order: the C of the nearest one grows with t, with "
        f"a rank correlation above {ORDER:g}.",
        OPEN_PROBLEM,
        words(shown),
        all_below(estimates.values(), -ORDER),
    )


def nearer_to_its_own(splits: Splits) -> Claim:
    """Is the mean angle to the path of its own loss below that to the soft margin's."""

    def difference(split: Measured) -> float:
        return float((on_path(split, "own_angle") - on_path(split, "nearest_angle")).mean())

    estimates = by_set(splits, difference)
    return finding(
        "Algorithm 1 is nearer to the regularisation path of its own loss than to the soft-margin "
        "path: the angle to the first minus that to the second, in degrees, mean over ln t, is "
        "below 0.",
        "beyond the paper",
        words(estimates),
        all_below(estimates.values(), 0.0),
    )


def as_good(splits: Splits) -> Claim:
    """Are the test errors of the chosen t and of the chosen C the same."""
    estimates = by_set(splits, excess)
    shown: dict[str, Any] = {}
    for name, each in splits.items():
        for what in ("t", "C"):
            errors = [split.facts[f"test error at chosen {what}"] for split in each]
            shown[f"{name}, {what} chosen:"] = f"{np.mean(errors):.2%}"
        shown[f"{name}, difference in points:"] = str(points(estimates[name]))
    return finding(
        "t chosen by validation is as good as C chosen by validation: the test errors differ by "
        f"less than {100 * SAME:g} points.",
        OPEN_PROBLEM,
        shown,
        all_within(estimates.values(), -SAME, SAME),
    )


def over_all_sets(splits: Splits) -> Claim:
    """The same with the set as the unit."""
    means = np.array([np.mean([excess(split) for split in each]) for each in splits.values()])
    found = estimate(means)
    return finding(
        "The same on the average over sets, the set as the unit.",
        OPEN_PROBLEM,
        {"sets": means.size, "t worse than C on": int((means > 0.0).sum())}
        | {"difference in points": str(points(found))},
        all_within([found], -SAME, SAME),
    )


def stopping_matters(splits: Splits) -> Claim:
    """Is the last iterate as good as the one that validation chooses."""

    def cost(split: Measured) -> float:
        last = float(on_path(split, "test_error")[-1])
        return last - float(split.facts["test error at chosen t"])

    estimates = by_set(splits, cost)
    return finding(
        "Algorithm 1 need not be stopped: its last test error is less than "
        f"{100 * SAME:g} points above that at the t that validation chooses.",
        "beyond the paper",
        words({name: points(each) for name, each in estimates.items()}),
        all_below(estimates.values(), SAME),
    )


def excess(split: Measured) -> float:
    """The test error of the chosen t minus that of the chosen C."""
    facts = split.facts
    return float(facts["test error at chosen t"] - facts["test error at chosen C"])


def by_set(splits: Splits, number: Callable[[Measured], float]) -> dict[str, Estimate]:
    """The mean over the splits of each set, with intervals that hold together."""
    return {
        name: estimate(
            np.array([number(split) for split in each]), shared_by=len(splits), overlap=OVERLAP
        )
        for name, each in splits.items()
    }


def on_path(split: Measured, column: str) -> np.ndarray:
    """A column where it speaks of Algorithm 1; the rows of the soft margin have t = 0."""
    return split.columns[column][split.columns["iteration"] > 0]


def on_soft_path(split: Measured, column: str) -> np.ndarray:
    """A column where it speaks of the soft margin."""
    return split.columns[column][split.columns["iteration"] == 0]


def points(share: Estimate) -> Estimate:
    """In percentage points."""
    return share.mapped(lambda value: 100.0 * value)
