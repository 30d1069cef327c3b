"""The sublinear perceptron of Clarkson, Hazan and Woodruff, which the paper leaves out of Figure 1.

An iteration reads one row and one column: n + d entries of the matrix, where a pass reads n d.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from momentron.views.progress import part_of
from paper.data import Sample
from paper.judge import UNDECIDED, Claim
from paper.runner import Measured, Part, Report

NAME = "sublinear-perceptron"
SEEDS = 5


def sublinear_perceptron(rows: np.ndarray, steps: int, seed: int, report: Report) -> float:
    """The margin of their Algorithm 1 after a run planned for this many steps.

    The rows are y x, at most of length 1. The rate of the multiplicative update is √(ln n / T), a
    hundred times that of their analysis, with which the weights hardly move in so few steps.
    """
    rng, (n, d) = np.random.default_rng(seed), rows.shape
    columns = np.ascontiguousarray(rows.T)
    rate, pace = math.sqrt(math.log(n) / steps), 1.0 / math.sqrt(2.0 * steps)
    y, total, q = np.zeros(d), np.zeros(d), np.full(n, 1.0 / n)
    for t in range(steps):
        y += pace * rows[np.searchsorted(np.cumsum(q), rng.random() * q.sum()).clip(max=n - 1)]
        w = y / max(1.0, float(np.linalg.norm(y)))
        total += w
        share = np.cumsum(w * w)
        j = min(int(np.searchsorted(share, rng.random() * share[-1])), d - 1)
        # one coordinate, drawn by w_j², stands in for all n scores
        v = np.clip(columns[j] * (share[-1] / w[j]), -1.0 / rate, 1.0 / rate)
        q *= 1.0 - rate * v + (rate * v) ** 2
        q /= q.sum()
        if t % 100 == 0:
            report(t / steps)
    return float((rows @ total).min() / np.linalg.norm(total))


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
            margins = [sublinear_perceptron(rows, steps, seed, tell) for seed in range(SEEDS)]
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
