"""MaxMarginClassifier: linear, of two classes or more."""

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from momentron.api import fit_in_blocks, read_small_file
from momentron.arguments import as_flag
from momentron.errors import InputError
from momentron.estimators.shared import MarginClassifier, dual_coefficients, warn_of
from momentron.losses import Loss
from momentron.options import FitOptions
from momentron.solve import Callback
from momentron.solvers import Solver
from momentron.streams import is_dask, is_streamed
from momentron.streams.lazy import lazily


class MaxMarginClassifier(MarginClassifier):
    """A linear classifier with the largest margin, and a proof of how large that is.

    Two classes or more, of any labels; with three or more the margin is the joint one over all
    examples and wrong labels, with one unpenalised intercept per class.

    Parameters
    ----------
    method, fit_intercept, C, loss, tol, max_iter, max_time, max_memory, verbose, random_state
        As in `max_margin`.
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
        units of X. With a finite C in the scale of ½‖w‖² + (C/2) Σ max(0, 1 − y f)².
    intercept_ : ndarray of shape (1,), or (k,)
    dual_coef_ : ndarray of shape (1, n_support), or (k, n_support)
        What the classifier is made of: coef_ = dual_coef_ @ X[support_], up to the certified gap.
        They are y_i q_i over the best margin, q the certified weights; with many classes, of each
        class: the weights of all wrong labels where it is the true one, less the weight of that
        label where it is wrong. Where nothing separates, y_i q_i: weights that prove it.
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
        max_memory: int | str | None = None,
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
        self.max_memory = max_memory
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, callback: Callback | None = None) -> "MaxMarginClassifier":
        """Fit to the rows of X, shape (n, d), with labels y, shape (n,).

        Warns with `NotSeparableWarning` or `BudgetWarning` where the answer is short of optimal;
        the fitted classifier works in either case. X and y may be Dask collections, or X a path or
        a source of blocks, as for `max_margin`.
        """
        options = self._options()
        X, y = read_small_file(X, y, options)
        if is_streamed(X):
            return self._fit_blocks(X, y, options, callback)
        result = self._fit(X, y, options, callback)[1].result
        self.coef_ = np.atleast_2d(result.coef)
        self.support_ = result.support
        self.dual_coef_ = dual_coefficients(result)
        warn_of(result)
        return self

    def _fit_blocks(
        self, X: Any, y: Any, options: FitOptions, callback: Callback | None
    ) -> "MaxMarginClassifier":
        """Data in blocks, which are read where they are."""
        if as_flag("warm_start", self.warm_start):
            raise InputError("warm_start=True is for data in memory; leave it out for blocks")
        result = fit_in_blocks(X, y, options, callback=callback)
        self._adopt(result)
        self.coef_ = np.atleast_2d(result.coef)
        self.support_ = result.support
        self.dual_coef_ = dual_coefficients(result)
        self.n_features_in_ = self.coef_.shape[1]
        warn_of(result)
        return self

    def _can_start(self, n_weights: int, X: Any) -> bool:
        return bool(n_weights == X.shape[1])

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of shape (n,): positive means classes_[1]. Signed distances with C = inf.

        With three classes or more, the outputs F of shape (n, k): the largest names the class.
        Those of a Dask collection are a Dask array, not computed yet.
        """
        check_is_fitted(self)
        if is_dask(X):
            n_outputs = self.classes_.size if self.classes_.size > 2 else None
            return lazily(self.decision_function, X, n_outputs, np.float64)
        outputs = np.asarray(self._check_rows(X) @ self.coef_.T) + self.intercept_
        return outputs if self.classes_.size > 2 else outputs[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """Labels, shape (n,); of a Dask collection a Dask array, not computed yet."""
        if is_dask(X):
            check_is_fitted(self)
            return lazily(self.predict, X, None, self.classes_.dtype)
        return super().predict(X)
