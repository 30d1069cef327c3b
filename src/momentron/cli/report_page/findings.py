"""What a report says, as numbers: the verdict, the classifier, and what each feature does."""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from momentron.estimators import MaxMarginClassifier
from momentron.separability.check import check_separability
from momentron.separability.features import FeatureRole, feature_roles
from momentron.separability.verdict import Verdict
from momentron.views.display.distribution import MarginDistributionDisplay
from momentron.views.display.views import Fitted, View, view_of

ROLE_SECONDS = 10.0  # for all features together, where no other time is given


@dataclass(frozen=True)
class Findings:
    """Everything that a report shows.

    Attributes
    ----------
    title : str
        What to call the data.
    X, y : the data
    verdict : Verdict
    model : MaxMarginClassifier
        Fitted; where nothing separates, the classifier that is used instead.
    roles : list of FeatureRole
        Empty where the classes are not separable.
    feature_names : sequence of str, or None
    """

    title: str
    X: Any
    y: np.ndarray
    verdict: Verdict
    model: MaxMarginClassifier
    roles: list[FeatureRole]
    feature_names: Sequence[str] | None = None

    @cached_property
    def fitted(self) -> Fitted:
        """The classifier; where the classes overlap, the rows that show it."""
        if self.verdict.is_separable or not self.verdict.conflict:
            return Fitted.from_estimator(self.model)
        return Fitted.from_verdict(self.verdict)

    @cached_property
    def view(self) -> View:
        """The rows in two dimensions."""
        return view_of(self.fitted, self.X, names=self.feature_names)

    @cached_property
    def distances(self) -> MarginDistributionDisplay:
        """How far the classifier keeps the rows."""
        fitted = replace(
            Fitted.from_estimator(self.model), lower=self.verdict.lower, upper=self.verdict.upper
        )
        return MarginDistributionDisplay.measured(fitted, self.X, self.y)

    @property
    def proof_digest(self) -> str:
        """SHA-256 of the proof, as `--proof` writes it."""
        return hashlib.sha256(self.verdict.to_json().encode()).hexdigest()

    def name_of(self, feature: int) -> str:
        """What a feature is called."""
        names = self.feature_names
        return str(names[feature]) if names is not None else f"feature {feature}"


def examine(
    X: Any,
    y: Any,
    *,
    title: str = "data",
    feature_names: Sequence[str] | None = None,
    fit_intercept: bool = True,
    max_time: float | None = None,
    watch: Callable[[str, float], None] | None = None,
) -> Findings:
    """Decide, fit, and ask what each feature does.

    Parameters
    ----------
    X, y : the data
    title : str
    feature_names : sequence of str, optional
    fit_intercept : bool
    max_time : float, optional
        Seconds for each of the three steps.
    watch : callable, optional
        Told what is being done, and the share of the work that is done.

    Returns
    -------
    Findings
    """
    say = watch or (lambda words, share: None)
    say("deciding separability", 0.0)
    verdict = check_separability(
        X,
        y,
        fit_intercept=fit_intercept,
        decimals="binary",
        feature_names=feature_names,
        max_time=max_time,
    )
    say("fitting the classifier", 0.4)
    model = MaxMarginClassifier(fit_intercept=fit_intercept, max_time=max_time)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report says all that they would
        model.fit(X, y)
    roles: list[FeatureRole] = []
    if verdict.is_separable:
        say("asking what each feature does", 0.6)
        seconds = ROLE_SECONDS if max_time is None else max_time
        roles = feature_roles(verdict, X, y, max_time=seconds)
    say("writing the page", 0.95)
    return Findings(title, X, np.asarray(y), verdict, model, roles, feature_names)
