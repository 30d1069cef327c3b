"""Which features the separation needs: does it survive without each of them?"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import time_left, until
from momentron.data.arguments import seconds_of
from momentron.data.exactness.conversion import as_exact
from momentron.errors import InputError
from momentron.rows.validation import clean_matrix
from momentron.separability.check import check_separability
from momentron.separability.designs import read_design
from momentron.separability.verdict import Verdict


@dataclass(frozen=True)
class FeatureRole:
    """What becomes of separation, complete or quasi-complete, without one feature.

    Attributes
    ----------
    feature : int
        Its column in X.
    kind : str
        The kind of the data without it; "undecided" where the budget ended first.
    name : str
    whole : str
        The kind of the data with it.
    """

    feature: int
    kind: str
    name: str = ""
    whole: str = "separable"

    @property
    def is_needed(self) -> bool | None:
        """Whether the classes are less separated without it; None where undecided."""
        return None if self.kind == "undecided" else self.kind != self.whole


def feature_roles(
    verdict: Verdict, X: Any, y: Any, *, max_time: float | None = None
) -> list[FeatureRole]:
    """For each feature, whether the data stay separated without it; each answer is proven.

    Parameters
    ----------
    verdict : Verdict
        Of the same data; must be "separable" or "quasi-separable".
    X, y : the data
    max_time : float, optional
        Seconds for all features together; features with the largest weights are tried first.

    Returns
    -------
    list of FeatureRole
        One per column of X, in order; each costs a verdict.

    Examples
    --------
    >>> from momentron.separability import check_separability, feature_roles
    >>> X, y = [[0.0, 1.0], [1.0, 3.0], [0.5, 2.0], [2.0, 5.0]], [0, 1, 0, 1]
    >>> [role.is_needed for role in feature_roles(check_separability(X, y), X, y)]
    [False, False]
    """
    if verdict.kind not in ("separable", "quasi-separable"):
        raise InputError(
            f"the verdict is {verdict.kind!r}; feature_roles needs a separable or quasi-separable "
            "one"
        )
    design = read_design(X, y)  # with the rows of the proof
    X = clean_matrix(as_exact(design.X, verdict.decimals))
    (n, d), fit_intercept = X.shape, bool(verdict.proof["fit_intercept"])
    counts = np.ones(n)
    counts[verdict.proof["data"]["left_out"]] = 0.0
    width = d + verdict.intercept.size // len(verdict.coef) * fit_intercept
    strength = dict.fromkeys(range(width), 0)  # exactly: as a float it may be 0
    for place, v in verdict.whole_weights().items():
        strength[place % width] = max(strength[place % width], abs(v))
    kinds = {j: verdict.kind for j in range(d) if not strength[j]}
    with until(time.perf_counter() + seconds_of(max_time)):
        for j in sorted({*range(d)} - {*kinds}, key=strength.__getitem__, reverse=True):
            if time_left() <= 0.0:
                break
            kinds[j] = check_separability(
                X @ sp.diags_array((np.arange(d) != j).astype(X.dtype)),
                design.y,
                fit_intercept=fit_intercept,
                family=verdict.family,
                link=verdict.link,
                reference=verdict.classes[0] if verdict.event else None,
                order=verdict.classes if verdict.family == "ordinal" else None,
                decimals=verdict.decimals,
                sample_weight=counts,
                estimates=False,
            ).kind
    names = verdict.feature_labels
    return [FeatureRole(j, kinds.get(j, "undecided"), names[j], verdict.kind) for j in range(d)]
