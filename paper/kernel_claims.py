"""The paper's claims about kernels in training, judged network by network."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paper.claims import Claim
from paper.figure import Measured
from paper.grid_statistics import LAST, TRACED, Outcome, Verdict, facts_of

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
        | {"their mean, kernel less network": float(np.mean(gaps)) if gaps else None}
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
    """What the paper says of one of its seeds, beside what that number gives here."""
    return Claim(
        claim,
        source,
        {"here, initial kernel, test error": facts["first"], "final kernel": facts["last"]}
        | {"difference": facts["difference"], "standard error": facts["standard error"]},
        None,
        any_size=True,  # no size will do
        word=NOT_TESTABLE,
    )


def switches(verdict: Verdict, every: Sequence[Outcome]) -> Claim:
    """Do some seeds prefer the first kernel and some the last, by the registered rules."""
    differences = [o.difference() for o in every if o.fitted]
    return Claim(
        "Changing the random seed suffices to change whether kernel features improve or not.",
        "Figure 4, caption",
        facts_of(verdict)
        | {"fitted networks": len(differences)}
        | {"initial kernel better": sum(d > 0.0 for d in differences)}
        | {"least difference": min(differences, default=None)}
        | {"largest": max(differences, default=None)},
        verdict.found,
        word=verdict.words,
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
