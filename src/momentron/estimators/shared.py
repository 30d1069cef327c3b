"""What the estimators share: fitting, labels, and the warnings that a short answer deserves."""

import math
import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from momentron.api import max_margin
from momentron.arguments import as_flag
from momentron.errors import BudgetWarning, NotSeparableWarning
from momentron.result import MarginResult
from momentron.solve import Callback
from momentron.status import Status
from momentron.validation import as_matrix, clean_matrix, clean_targets


class MarginClassifier(ClassifierMixin, BaseEstimator):
    """A classifier fitted by `max_margin`; its parameters are those of that function."""

    warm_start: bool

    def _fit(
        self, X: Any, y: Any, callback: Callback | None
    ) -> tuple[Any, np.ndarray, MarginResult]:
        """(X and y as they were read, the result), with the common attributes set."""
        clean_X, y = self._check_training_data(X, y)
        options = self._options()
        is_warm = as_flag("warm_start", self.warm_start)
        initial = self._last_result(clean_X, y) if is_warm else None
        result = max_margin(clean_X, y, **options, initial=initial, callback=callback)
        is_open = result.status is Status.NOT_SEPARABLE and not result.is_fallback
        if is_open and options["method"] == "auto":
            result = self._work_without_margin(clean_X, y, result)
        self._adopt(result)
        return clean_X, y, result

    def _adopt(self, result: MarginResult) -> None:
        """The attributes that all classifiers have."""
        self.result_ = result
        self.classes_ = result.classes
        self.intercept_ = np.atleast_1d(result.intercept)
        self.margin_ = result.margin
        self.certificate_ = result.certificate
        self.n_iter_ = result.n_iter
        self.status_ = result.status

    def _options(self) -> dict[str, Any]:
        """The parameters as arguments of `max_margin`."""
        options = self.get_params(deep=False)
        del options["warm_start"]
        return options

    def _check_training_data(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        clean_X = as_matrix(X)
        self._check_features(X, clean_X, reset=True)
        return clean_X, clean_targets(y, clean_X.shape[0])

    def _check_rows(self, X: Any) -> Any:
        """Rows to be classified, checked against those of the fit."""
        clean_X = clean_matrix(X)
        self._check_features(X, clean_X, reset=False)
        return clean_X

    def _check_features(self, given: Any, clean_X: Any, *, reset: bool) -> None:
        """Keep the names and the number of features, or compare them with those of the fit."""
        named = given if hasattr(given, "columns") else clean_X
        validate_data(self, named, reset=reset, skip_check_array=True)

    @abstractmethod
    def _last_result(self, X: Any, y: np.ndarray) -> MarginResult | None:
        """The last fit, where it can start this one."""

    @abstractmethod
    def _following(self, X: Any) -> dict[str, Any]:
        """Options for a classifier of data that nothing separates."""

    def _work_without_margin(self, X: Any, y: np.ndarray, verdict: MarginResult) -> MarginResult:
        """The verdict, with a classifier that works where nothing separates."""
        options = self._options() | self._following(X)
        followed = max_margin(X, y, **options)
        # that of a soft margin is for (coef, slack), and says nothing of coef alone
        margin = -math.inf if math.isfinite(options["C"]) else min(0.0, followed.margin)
        certificate = replace(verdict.certificate, margin=margin)
        return replace(
            verdict,
            certificate=certificate,
            coef=followed.coef,
            intercept=followed.intercept,
            n_iter=verdict.n_iter + followed.n_iter,
            seconds=verdict.seconds + followed.seconds,
        )

    @abstractmethod
    def decision_function(self, X: Any) -> np.ndarray:
        """Signed distances of shape (n,), or outputs of shape (n, k)."""

    def predict(self, X: Any) -> np.ndarray:
        """Labels, shape (n,)."""
        return labels_of(self.decision_function(X), self.classes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def labels_of(decision: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The classes that decision values name."""
    if decision.ndim == 1:
        return classes[(decision > 0.0).astype(int)]
    return classes[decision.argmax(axis=1)]


def signed_weights(result: MarginResult) -> np.ndarray:
    """Dual weights of the support with the signs of their constraints: (1, s) or (k, s)."""
    codes = np.searchsorted(result.classes, result.support_labels)
    if result.dual.ndim == 1:
        return (np.where(codes == 1, 1.0, -1.0) * result.dual)[None, :]
    weights = -result.dual
    weights[np.arange(codes.size), codes] = result.dual.sum(axis=1)
    return weights.T


def warn_of(result: MarginResult) -> None:
    """A warning where the answer is short of optimal, with what to change."""
    interval = f"the best margin lies in [{result.lower:.6g}, {result.upper:.6g}]"
    if result.status is Status.NOT_SEPARABLE or result.margin <= 0.0:
        warnings.warn(
            f"no positive margin was found: {interval} ({result.status}). The classifier is "
            "the last iterate; if the data are separable, raise max_iter or lower tol",
            NotSeparableWarning,
            stacklevel=3,
        )
    elif not result.status.is_final:
        warnings.warn(
            f"{result.status}: {interval}, gap {result.gap:.2e}. Raise max_iter or max_time, "
            f"or accept it with tol={result.gap:.1e}",
            BudgetWarning,
            stacklevel=3,
        )
