"""MaxMarginClassifier: the scikit-learn estimator."""

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from momentron.api import max_margin
from momentron.errors import BudgetWarning, NotSeparableWarning
from momentron.exactness import require_exact
from momentron.losses import Loss
from momentron.result import MarginResult
from momentron.solve import Callback
from momentron.solvers import Solver
from momentron.status import Status
from momentron.validation import clean_targets

FOLLOW_ITERATIONS = 500  # steps of Algorithm 1 where no margin exists


class MaxMarginClassifier(ClassifierMixin, BaseEstimator):
    """A linear classifier with the largest margin, and a proof of how large that is.

    Two classes or more, of any labels; with three or more the margin is the joint one over all
    examples and wrong labels, with one unpenalised intercept a class.

    Parameters
    ----------
    method, fit_intercept, C, loss, tol, max_iter, max_time, verbose, random_state
        As in `max_margin`.
    warm_start : bool
        Start from the last fit: for another C, or for more rows below the old ones. Only
        method="auto" can.

    Attributes
    ----------
    margin_ : float
        Proven lower bound on the margin of this classifier, in the units of X.
    certificate_ : Certificate
        Proven interval on the best margin that any classifier has.
    coef_ : ndarray of shape (1, d), or (k, d) for k ≥ 3 classes
        Of unit length: `decision_function` of two classes is a signed distance in the units of X.
    intercept_ : ndarray of shape (1,), or (k,)
    dual_coef_ : ndarray of shape (1, n_support), or (k, n_support)
        y_i q_i of the support vectors; with many classes, of each class: the weight of all wrong
        labels where it is the true one, less the weight of that label where it is wrong. The
        classes' weights cancel where there is an intercept.
    support_ : ndarray of shape (n_support,)
        Rows of X with a dual weight.
    classes_ : ndarray of shape (k,)
    n_iter_ : int
    status_ : Status
    result_ : MarginResult

    Examples
    --------
    >>> from momentron import MaxMarginClassifier
    >>> X = [[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]]
    >>> model = MaxMarginClassifier(tol=1e-3).fit(X, ["up", "up", "down", "down"])
    >>> model.predict([[5.0, 1.0]]).tolist()
    ['up']
    """

    def __init__(
        self,
        *,
        method: str | Solver = "auto",
        fit_intercept: bool = True,
        C: float = math.inf,
        loss: str | Loss = "exponential",
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.C = C
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, callback: Callback | None = None) -> "MaxMarginClassifier":
        """Fit to the rows of X, shape (n, d), with labels y, shape (n,).

        Warns with `NotSeparableWarning` or `BudgetWarning` where the answer is short of optimal;
        the fitted classifier works in either case.
        """
        clean_X, y = self._check_training_data(X, y)
        result = max_margin(
            clean_X,
            y,
            method=self.method,
            fit_intercept=self.fit_intercept,
            C=self.C,
            loss=self.loss,
            tol=self.tol,
            max_iter=self.max_iter,
            max_time=self.max_time,
            initial=self._last_result(clean_X.shape[1], y) if self.warm_start else None,
            callback=callback,
            verbose=self.verbose,
            random_state=self.random_state,
        )
        if result.status is Status.NOT_SEPARABLE and self.method == "auto":
            result = self._work_without_margin(clean_X, y, result)
        self._adopt(result, y)
        warn_of(result)
        return self

    def _last_result(self, n_features: int, y: np.ndarray) -> MarginResult | None:
        """The last fit, where it was for these features and classes."""
        last = getattr(self, "result_", None)
        if last is None or last.coef.shape[-1] != n_features:
            return None
        return last if np.array_equal(last.classes, np.unique(y)) else None

    def _work_without_margin(self, X: Any, y: np.ndarray, verdict: MarginResult) -> MarginResult:
        """The verdict, with a classifier that follows the loss where nothing separates.

        `auto` stops at its proof; Algorithm 1 still finds a good classifier (the paper's Figure 2).
        """
        followed = max_margin(
            X,
            y,
            method="momentum",
            fit_intercept=self.fit_intercept,
            tol=0.0,
            max_iter=FOLLOW_ITERATIONS,
            max_time=self.max_time,
        )
        certificate = replace(verdict.certificate, margin=followed.margin)
        return replace(
            verdict,
            certificate=certificate,
            coef=followed.coef,
            intercept=followed.intercept,
            n_iter=verdict.n_iter + followed.n_iter,
            seconds=verdict.seconds + followed.seconds,
        )

    def _check_training_data(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        require_exact(X)
        X = validate_data(
            self,
            X,
            accept_sparse=("csr", "csc"),
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
        )
        return X, clean_targets(y, X.shape[0])

    def _adopt(self, result: MarginResult, y: np.ndarray) -> None:
        self.result_ = result
        self.classes_ = result.classes
        self.coef_ = np.atleast_2d(result.coef)
        self.intercept_ = np.atleast_1d(result.intercept)
        self.margin_ = result.margin
        self.certificate_ = result.certificate
        self.support_ = result.support
        self.dual_coef_ = signed_weights(result, y)[:, self.support_]
        self.n_iter_ = result.n_iter
        self.status_ = result.status

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed distances to the plane, shape (n,): positive means classes_[1].

        With three classes or more, the outputs F of shape (n, k): the largest names the class.
        """
        check_is_fitted(self)
        X = validate_data(
            self, X, accept_sparse=("csr", "csc"), dtype=(np.float64, np.float32), reset=False
        )
        outputs = np.asarray(X @ self.coef_.T) + self.intercept_
        return outputs if self.classes_.size > 2 else outputs[:, 0]

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


def signed_weights(result: MarginResult, y: np.ndarray) -> np.ndarray:
    """Dual weights with the signs of their constraints, shape (1, n) or (k, n)."""
    codes = np.searchsorted(result.classes, y)
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
