"""The sublinear perceptron of Clarkson, Hazan and Woodruff, which the paper leaves out of Figure 1.

An iteration reads one row and one column: n + d entries of the matrix, where a pass reads n d.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from momentron.views.progress import part_of
from paper.data import Sample
from paper.judge import UNDECIDED, Claim
from paper.named_methods import sublinear_perceptron
from paper.runner import Measured, Part, Report

NAME = "sublinear-perceptron"
SEEDS = 5


def margin_of_run(rows: np.ndarray, steps: int, seed: int, report: Report) -> float:
    """The margin of the rows y x, at most of length 1, after a run planned for this many steps."""
    found = 0.0
    for look in sublinear_perceptron(-rows, steps, every=-(-steps // 50), random_state=seed):
        report(look.iteration / steps)
        if look.iteration == steps:
            found = float((rows @ look.w).min() / np.linalg.norm(look.w))
    return found


def sublinear_part(sample: Sample, iterations: int) -> Part:
    """Its margins after this many iterations, and after reading the entries of a few passes."""
    n, d = sample.X.shape
    passes = max(1, iterations // 30)
    runs = {
        "per iteration": (iterations, iterations),
        "per matrix entry read": (passes, round(passes * n * d / (n + d))),
    }

    def measure(report: Report) -> Measured:
        rows = sample.signed.toarray() / sample.radius
        facts = {}
        for done, (words, (passes, steps)) in enumerate(runs.items()):
            tell = part_of(report, done / len(runs), (done + 1) / len(runs))
            margins = [margin_of_run(rows, steps, seed, tell) for seed in range(SEEDS)]
            margins = [sample.radius * margin for margin in margins]
            facts[words] = {"passes": passes, "steps": steps, "margins": margins}
        return Measured(facts=facts)

    parameters = {"iterations": iterations, "passes": passes, "seeds": SEEDS}
    return Part(NAME, parameters, 0.2 * iterations, measure)


def fares_less_well(facts: Mapping[str, Any], perceptron: np.ndarray) -> list[Claim]:
    """Is it behind the batch perceptron, per iteration and per entry read, with every seed."""
    claims = []
    for words, run in facts.items():
        margins, theirs = run["margins"], float(perceptron[run["passes"] - 1])
        behind = {margin < theirs for margin in margins}
        holds = behind.pop() if len(behind) == 1 else None
        claim = Claim(
            "Another standard method with strong guarantees (the sublinear perceptron of Clarkson, "
            f"Hazan and Woodruff) fared less well in experiments: {words}, its margin is below "
            "that of the batch perceptron.",
            "Section 1.1, of Figure 1",
            {"its iterations": run["steps"], "margin, median": float(np.median(margins))}
            | {"least": min(margins), "largest": max(margins), "seeds": len(margins)}
            | {"iterations of the batch perceptron": run["passes"], "margin": theirs},
            holds,
            word=UNDECIDED if holds is None else None,
        )
        claims.append(claim)
    return claims
