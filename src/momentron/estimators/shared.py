"""What the estimators share: fitting, labels, and the warnings that a short answer deserves."""

import warnings
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import validate_data

from momentron.arguments import as_flag
from momentron.clock import Stopwatch
from momentron.convergence import BudgetWarning
from momentron.errors import NotSeparableWarning
from momentron.in_memory import Fit, fit_in_memory
from momentron.options import FitOptions
from momentron.result import MarginResult
from momentron.solve import Callback
from momentron.status import Status
from momentron.validation import TrainingData, clean_matrix


class MarginClassifier(ClassifierMixin, BaseEstimator):
    """A classifier fitted by `max_margin`; its parameters are those of that function."""

    warm_start: bool

    # what stops a fit is for the caller, not for meta-estimators to hand on
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"callback": UNUSED}

    def _fit(
        self, X: Any, y: Any, options: FitOptions, callback: Callback | None
    ) -> tuple[TrainingData, Fit]:
        """(the data as they were read, the fit), with the common attributes set."""
        stopwatch = Stopwatch()
        data = self._read(X, y, options)
        is_warm = as_flag("warm_start", self.warm_start)
        initial = self._last_result(data) if is_warm else None
        fit = fit_in_memory(data, options, initial=initial, callback=callback, stopwatch=stopwatch)
        self._adopt(fit.result)
        return data, fit

    def _adopt(self, result: MarginResult) -> None:
        """The attributes that all classifiers have."""
        self.result_ = result
        self.classes_ = result.classes
        self.intercept_ = np.atleast_1d(result.intercept)
        self.margin_ = result.margin
        self.certificate_ = result.certificate
        self.n_iter_ = result.n_iter
        self.status_ = result.status

    def _options(self) -> FitOptions:
        """The parameters, checked."""
        parameters = self.get_params(deep=False)
        del parameters["warm_start"]
        return FitOptions.from_arguments(**parameters)

    def _read(self, X: Any, y: Any, options: FitOptions) -> TrainingData:
        """Rows and labels, with the names and the number of the features kept."""
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        data = TrainingData.from_arrays(X, y, is_finite=options.kernel is not None)
        self._check_features(X, data.X, reset=True)
        return data

    def _check_rows(self, X: Any) -> Any:
        """Rows to be classified, checked against those of the fit."""
        clean_X = clean_matrix(X)
        self._check_features(X, clean_X, reset=False)
        return clean_X

    def _check_features(self, given: Any, clean_X: Any, *, reset: bool) -> None:
        """Keep the names and the number of features, or compare them with those of the fit."""
        named = given if hasattr(given, "columns") else clean_X
        validate_data(self, named, reset=reset, skip_check_array=True)

    def _last_result(self, data: TrainingData) -> MarginResult | None:
        """The last fit, where it can start this one."""
        last: MarginResult | None = getattr(self, "result_", None)
        if last is None or not self._can_start(last.coef.shape[-1], data.X):
            return None
        return last if np.array_equal(last.classes, data.classes) else None

    @abstractmethod
    def _can_start(self, n_weights: int, X: Any) -> bool:
        """Whether a classifier of so many weights can start a fit to X."""

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


def dual_coefficients(result: MarginResult) -> np.ndarray:
    """What combines the rows of the support to the classifier, shape (1, s) or (k, s).

    Σ y_i q_i x_i has the length of the upper bound, and at the optimum the classifier's direction.
    """
    length = result.upper if result.lower > 0.0 else 1.0
    if result.is_soft:
        length *= result.lower or 1.0
    codes = np.searchsorted(result.classes, result.support_labels)
    weights = result.dual / length
    if weights.ndim == 1:
        return (np.where(codes == 1, 1.0, -1.0) * weights)[None, :]
    own = weights.sum(axis=1)
    weights *= -1.0
    weights[np.arange(codes.size), codes] = own
    return weights.T


INSTEAD = {
    True: "predict uses a logistic regression instead",
    False: "predict uses the last iterate",
}
REMEDY = "pass C= for a soft margin, or ask check_separability(X, y) for a proof"
RAISE = {Status.TIME_BUDGET: "raise max_time", Status.ITERATION_BUDGET: "raise max_iter"}


def warn_of(result: MarginResult) -> None:
    """A warning where the answer is short of optimal, with what to change.

    Its text is the same for all data, so that Python shows it once; the numbers are in `result_`.
    """
    if result.status is Status.OPTIMAL:
        return
    category: type[Warning] = BudgetWarning
    more = RAISE.get(result.status)
    if result.status is Status.NOT_SEPARABLE:
        category = NotSeparableWarning
        text = f"no classifier separates these data; {INSTEAD[result.is_fallback]}: {REMEDY}"
    elif not result.is_soft and result.margin <= 0.0:
        category = NotSeparableWarning
        remedies = REMEDY if more is None else f"{more}; if the classes overlap, {REMEDY}"
        text = f"no separating classifier was found; {INSTEAD[result.is_fallback]}: {remedies}"
    elif result.is_soft and result.is_fallback:
        text = f"the soft margin is far from certified; {INSTEAD[True]}: {more or 'raise tol'}"
    else:
        remedies = "raise tol" if more is None else f"{more}, or tol"
        text = f"the certified gap, result_.gap, is above tol: {remedies}"
    warnings.warn(text, category, stacklevel=3)
