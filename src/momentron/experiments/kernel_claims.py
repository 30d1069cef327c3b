"""The paper's claims about kernels in training, judged seed by seed."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from momentron.experiments.claims import Claim
from momentron.experiments.figure import Measured

CLOSE = 0.01  # one percentage point
SETTLED = 0.999  # alignment of two kernels that count as one
DOUBT = 1.96  # standard errors
FITTED = ("lower", "best_upper", "kernel_error", "best_error")

Curves = Mapping[int, Mapping[str, np.ndarray]]
"""The columns of each seed."""


def comparison(first: np.ndarray, last: np.ndarray) -> dict[str, Any]:
    """Which kernel errs less, from where each is wrong; beyond doubt or not."""
    only_first, only_last = int((first & ~last).sum()), int((last & ~first).sum())
    n = first.size
    # McNemar: only the images count on which they differ
    noise = math.sqrt(only_first + only_last) / n
    difference = (only_last - only_first) / n
    return {
        "tests": n,
        "first": float(first.mean()),
        "last": float(last.mean()),
        "difference": difference,
        "standard error": noise,
        "beyond doubt": abs(difference) > DOUBT * noise,
    }


def converged(every: Mapping[int, Measured]) -> Claim:
    """Is the training error zero, and the kernel the same at the last two of many looks."""
    ends = {seed: measured.columns for seed, measured in every.items()}
    followed = {seed: c for seed, c in ends.items() if c["iteration"].size > 2}
    aligned = {seed: float(c["alignment_last"][-2]) for seed, c in followed.items()}
    errors = [float(columns["train_error"][-1]) for columns in ends.values()]
    last = next(iter(followed.values()))["iteration"]
    return Claim(
        "AlexNet is trained until the features converge: no training error (all seeds), and the "
        "normalised kernel no longer changes (those followed).",
        "Section 6",
        {"seeds": len(errors), "largest training error": max(errors)}
        | {f"seed {s}, alignment of the last two looks": value for s, value in aligned.items()}
        | {"these after epochs": f"{last[-2]} and {last[-1]}", "at least": SETTLED},
        max(errors) == 0.0 and min(aligned.values()) >= SETTLED,
    )


def identical(followed: Curves) -> Claim:
    """Are the last errors of kernel and network within a percentage point."""
    numbers: dict[str, Any] = {}
    apart = 0.0
    for seed, columns in followed.items():
        kernel, network = float(columns["kernel_error"][-1]), float(columns["network_error"][-1])
        numbers |= {f"seed {seed}, kernel": kernel, f"seed {seed}, network": network}
        apart = max(apart, abs(kernel - network))
    return Claim(
        "The test error of the final maximum-margin kernel predictor is identical to that of the "
        "final network: within one percentage point.",
        "Section 6",
        numbers | {"largest difference": apart},
        apart <= CLOSE,
    )


def margins_found(followed: Curves, tol: float) -> Claim:
    """Does Algorithm 2 come as near the best margin as it was asked to."""
    columns = {name: np.concatenate([c[name] for c in followed.values()]) for name in FITTED}
    short = 1.0 - columns["lower"] / columns["best_upper"]
    errors = np.abs(columns["kernel_error"] - columns["best_error"])
    return Claim(
        "Algorithm 2 determines the maximum margin: its margin falls short of the best, which "
        "`auto` certifies, by no more than was asked for.",
        "Section 6",
        {"kernels": short.size, "largest shortfall, relative": float(short.max()), "asked for": tol}
        | {"largest difference of test errors from the best predictor's": float(errors.max())},
        float(short.max()) <= tol,
    )


def preference(claim: str, source: str, facts: Mapping[str, Any], *, final: bool) -> Claim:
    """Does this seed prefer that kernel."""
    difference = facts["difference"]
    return Claim(
        claim,
        source,
        {"initial kernel, test error": facts["first"], "final kernel": facts["last"]}
        | {"difference": difference, "standard error": facts["standard error"]},
        difference < 0.0 if final else difference > 0.0,
    )


def switches(every: Mapping[int, Measured]) -> Claim:
    """Do some seeds prefer the first kernel and some the last, beyond doubt."""
    facts = [measured.facts for measured in every.values()]
    sure = [f["difference"] for f in facts if f["beyond doubt"]]
    counts = {
        "seeds": len(facts),
        "final kernel better": sum(f["difference"] < 0.0 for f in facts),
        "of these beyond doubt": sum(d < 0.0 for d in sure),
        "initial kernel better": sum(f["difference"] > 0.0 for f in facts),
        "of these beyond doubt too": sum(d > 0.0 for d in sure),
        "undecided": len(facts) - len(sure),
        "least difference": min(f["difference"] for f in facts),
        "largest": max(f["difference"] for f in facts),
    }
    return Claim(
        "Changing the random seed suffices to change whether kernel features improve or not.",
        "Figure 4, caption",
        counts,
        min(sure, default=0.0) < 0.0 < max(sure, default=0.0),
    )


def margins_improve(every: Mapping[int, Measured]) -> Claim:
    """Do most margins grow from the first kernel to the last."""
    pairs = [(m.columns["best_upper"][0], m.columns["best_lower"][-1]) for m in every.values()]
    grown = sum(last > first for first, last in pairs)
    growth = [last / first for first, last in pairs]
    return Claim(
        "The kernels generally improve during training in terms of margins.",
        "Section 1",
        {"seeds": len(pairs), "margin grows": grown}
        | {"final over initial margin, median": float(np.median(growth))},
        grown > len(pairs) / 2,
    )


def errors_improve(every: Mapping[int, Measured]) -> Claim:
    """Do most test errors fall from the first kernel to the last."""
    differences = [measured.facts["difference"] for measured in every.values()]
    fallen = sum(d < 0.0 for d in differences)
    return Claim(
        "The kernels generally improve during training in terms of test errors.",
        "Section 1",
        {"seeds": len(differences), "test error falls": fallen}
        | {"mean difference": float(np.mean(differences))},
        fallen > len(differences) / 2,
    )
