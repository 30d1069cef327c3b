"""MaxMarginClassifier: linear, of two classes or more."""

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from momentron.dual.losses import Loss
from momentron.estimators.shared import (
    FittedClassifier,
    MarginClassifier,
    dual_coefficients,
    joined_support,
)
from momentron.fitting.fits import Fits
from momentron.rows.validation import TrainingData
from momentron.solvers import Solver
from momentron.streams import is_dask
from momentron.streams.partitions import lazily


class LinearMargin(MarginClassifier):
    """What linear classifiers share: weights of the features, and their products with rows."""

    coef_: np.ndarray

    def _take(self, data: TrainingData | None, found: Fits) -> None:
        results = found.results
        self._adopt(results, found.classes)
        self.coef_ = np.vstack([result.coef for result in results])
        if len(results) == 1:
            self.support_, self.dual_coef_ = results[0].support, dual_coefficients(results[0])
            labels = results[0].support_labels
        else:
            assert data is not None, "blocks are for all classes together"
            self.support_, self.dual_coef_ = joined_support(results)
            labels = data.y[self.support_]
        self._count_support(labels, (results[0].n_rows, self.coef_.shape[1]))

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of shape (n,): positive means classes_[1]. Signed distances with C = inf.

        With three classes or more, the outputs F of shape (n, k): the largest names the class.
        Those of a Dask collection are a Dask array, not computed yet.
        """
        check_is_fitted(self)
        if is_dask(X):
            n_outputs = self.classes_.size if self.classes_.size > 2 else None
            return lazily(self._nameless(X).decision_function, X, n_outputs, np.float64)
        parts = [np.asarray(rows @ self.coef_.T) for rows in self._check_parts(X)]
        outputs = (parts[0] if len(parts) == 1 else np.concatenate(parts)) + self.intercept_
        return outputs if self.classes_.size > 2 else outputs[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """Labels, shape (n,); of a Dask collection a Dask array, not computed yet."""
        if is_dask(X):
            check_is_fitted(self)
            return lazily(self._nameless(X).predict, X, None, self.classes_.dtype)
        return super().predict(X)

    def _nameless(self, X: Any) -> "LinearMargin":
        """A copy for the partitions of a Dask collection, arrays whose names are checked here."""
        if hasattr(X, "_meta") and hasattr(X, "columns"):
            validate_data(self, X._meta, reset=False, skip_check_array=True)
        plain = copy.copy(self)
        if hasattr(plain, "feature_names_in_"):
            del plain.feature_names_in_
        return plain


class MaxMarginClassifier(LinearMargin, FittedClassifier):
    """A linear classifier with the largest margin, and a proof of how large that is.

    Two classes or more, of any labels; with three or more the margin is the joint one over all
    examples and wrong labels, with one unpenalised intercept per class.

    Parameters
    ----------
    method, fit_intercept, C, penalty, class_weight, loss, tol, max_iter, max_memory
        As in `max_margin`.
    max_time : float, optional
        Wall-clock seconds for the whole fit. With multi_class="ovr" they are for all the classes
        together; those for which the time is too short have the classifiers of one logistic
        regression for all of them.
    verbose, random_state
        As in `max_margin`.
    multi_class : {"joint", "ovr"}
        With three classes or more: one margin over all pairs of an example and a wrong label, or
        one classifier per class against the rest. Then `result_`, `certificate_` and `status_` are
        lists with one entry per class, and `margin_` is an array.
    warm_start : bool
        Start from the last fit: for another C, or for more rows below the old ones. Only
        method="auto" can.

    Attributes
    ----------
    margin_ : float
        Proven lower bound on the margin of this classifier, the least y (x·coef_ + intercept_)/
        ‖coef_‖ over the training rows: negative where it errs on one of them.
    certificate_ : Certificate
        Proven interval on the best margin that any classifier has; with a finite C, on 1/√(2·value)
        of the soft margin's problem.
    coef_ : ndarray of shape (1, d), or (k, d) for k ≥ 3 classes
        Of unit length with C = inf: `decision_function` of two classes is a signed distance in the
        units of X. With a finite C in the scale of ½‖w‖² + C Σ max(0, 1 − y f)², without the
        square for penalty="hinge".
    intercept_ : ndarray of shape (1,), or (k,)
    dual_coef_ : ndarray of shape (1, n_support), or (k, n_support)
        What the classifier is made of: coef_ = dual_coef_ @ X[support_], up to the certified gap.
        They are y_i q_i over the best margin, q the certified weights; with many classes, of each
        class: the weights of all wrong labels where it is the true one, less the weight of that
        label where it is wrong. With a finite C and penalty="hinge": y_i α_i, 0 ≤ α_i ≤ C_i, as in
        SVC. Where nothing separates, y_i q_i: weights that prove it.
    support_ : ndarray of shape (n_support,)
        Rows of X with a dual weight.
    n_support_ : ndarray of shape (k,)
        How many of them each class has.
    shape_fit_ : tuple of int
        The shape of X.
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
        penalty: str = "squared_hinge",
        class_weight: Mapping[Any, float] | str | None = None,
        multi_class: str = "joint",
        loss: str | Loss = "exponential",
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        max_memory: int | str | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.C = C
        self.penalty = penalty
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.max_memory = max_memory
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _can_start(self, n_weights: int, X: Any) -> bool:
        return bool(n_weights == X.shape[1])
