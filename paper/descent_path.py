"""The path that gradient methods on the exponential loss share, and who is where on it when.

With small steps, w moves along −∇R(w) whatever the step sizes: only the pace differs. Measured by
the length τ = Σ θ_t of normalised steps, normalised descent with θ = 1 is at τ = t, with θ_t = 1/√t
at about τ = 2√t, and gradient descent, whose step is R(w) times the normalised one, where
∫ dτ/R = t. So one run with θ = 1 tells when the slow ones are where, millions of iterations ahead.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from momentron.solvers.solver import Candidates
from paper.data import Sample
from paper.judge import Claim, since
from paper.method_curves import DESCENT, NORMALIZED, NORMALIZED_ROOT, method_part
from paper.runner import Part

PART = "path"
ZETA_HALF = -1.4603545088
AT_THIS_HORIZON = "not decided at this horizon"
BY_THE_PATH = "yes, by the path"


def path_part(sample: Sample, iterations: int) -> Part:
    """So many normalised steps with θ = 1, with the logarithm of the risk."""
    rows = sample.signed / sample.radius

    def log_risk(proposal: Candidates) -> dict[str, float]:
        scores = -(rows @ proposal.primals[0].w)
        return {"log_risk": float(logsumexp(scores)) - float(np.log(scores.size))}

    part = method_part(NORMALIZED, sample, iterations, extras=log_risk)
    return Part(PART, {**part.parameters, "what": PART}, 1.5 * part.weight, part.measure)


def root_iterations(length: np.ndarray) -> np.ndarray:
    """The t with Σ_{s ≤ t} 1/√s = τ, from the sum's expansion 2√t + ζ(½)."""
    return (length - ZETA_HALF) ** 2 / 4.0


def overtakes(
    columns: Mapping[str, np.ndarray], margins: Mapping[str, np.ndarray], name: str
) -> Claim:
    """Does θ_t = 1/√t come to lead gradient descent, where the path is long enough to tell."""
    length, margin = columns["iteration"].astype(float), columns["margin"]
    pace = np.exp(-np.concatenate([[0.0], columns["log_risk"]]))  # R = 1 at w = 0
    # iterations after which θ_t = 1/√t, and gradient descent, are at each place
    root, descent = root_iterations(length), np.cumsum((pace[1:] + pace[:-1]) / 2.0)
    place = since(root >= descent)  # from which θ_t = 1/√t is the earlier of the two
    measured: dict[str, Any] = {"length of the path": length[-1]}
    for method, iterations in ((NORMALIZED_ROOT, root), (DESCENT, descent)):
        run = margins[method.name]
        predicted = float(np.interp(run.size, iterations, margin))
        measured |= {
            f"{method.name}, margin after {run.size:,} iterations": float(run[-1]),
            f"{method.name}, predicted by the path": predicted,
        }
    measured |= {
        "ahead since iteration, about": None if place is None else float(root[place]),
        "margin there": None if place is None else float(margin[place]),
    }
    return Claim(
        f"The same in a longer run, which is predicted and not made ({name}): it overtakes "
        "gradient descent on the path that both follow.",
        "Section 1, from the path of θ = 1",
        measured,
        None if place is None else True,
        word=AT_THIS_HORIZON if place is None else BY_THE_PATH,
    )
