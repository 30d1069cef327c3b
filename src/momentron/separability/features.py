"""Which features carry the separation: does it survive without each of them?"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.clock import time_left, until
from momentron.errors import InputError
from momentron.exactness import require_exact
from momentron.separability.verdict import Verdict


@dataclass(frozen=True)
class FeatureRole:
    """What becomes of separable data without one feature.

    Attributes
    ----------
    feature : int
        Its column in X.
    kind : str
        The kind of the data without it; "undecided" where the budget ended first.
    """

    feature: int
    kind: str

    @property
    def is_needed(self) -> bool | None:
        """Whether the classes cease to be separable without it; None where undecided."""
        return None if self.kind == "undecided" else self.kind != "separable"


def feature_report(
    verdict: Verdict, X: Any, y: Any, *, max_time: float | None = None
) -> list[FeatureRole]:
    """For each feature, whether the data stay separable without it; each answer is proven.

    Parameters
    ----------
    verdict : Verdict
        Of the same data; must be "separable".
    X, y : the data
    max_time : float, optional
        Seconds for all features together; those of the largest weights are tried first.

    Returns
    -------
    list of FeatureRole
        One for each column of X, in order. Costs a verdict each.

    Examples
    --------
    >>> from momentron.separability.check import check_separability
    >>> X, y = [[0.0, 1.0], [1.0, 3.0], [0.5, 2.0], [2.0, 5.0]], [0, 1, 0, 1]
    >>> [role.is_needed for role in check_separability(X, y).features(X, y)]
    [False, False]
    """
    from momentron.separability.check import check_separability, seconds_of

    if not verdict.is_separable:
        raise InputError(
            f"the verdict is {verdict.kind!r}; only separable data have features that carry it"
        )
    require_exact(X)
    columns = X.tocsc() if hasattr(X, "tocsc") else np.asarray(X)
    d = columns.shape[1]
    width = d + bool(verdict.proof["fit_intercept"])
    weighted = {place % width for place in verdict.whole_weights()}
    strength = np.abs(verdict.coef).max(axis=0)
    kinds = {0: "overlapping"} if d == 1 else {}  # nothing is left to tell the classes apart
    with until(time.perf_counter() + seconds_of(max_time)):
        for j in np.argsort(-strength, kind="stable").tolist():
            if j in kinds or time_left() <= 0.0:
                continue
            if j not in weighted:  # the plane does not look at it; floats may underflow
                kinds[j] = "separable"
                continue
            rest = columns[:, np.delete(np.arange(d), j)]
            intercept = bool(verdict.proof["fit_intercept"])
            kinds[j] = check_separability(rest, y, fit_intercept=intercept).kind
    return [FeatureRole(j, kinds.get(j, "undecided")) for j in range(d)]
