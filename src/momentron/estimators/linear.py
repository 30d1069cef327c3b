"""MaxMarginClassifier: linear, of two classes or more."""

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from momentron.api import max_margin
from momentron.arguments import as_flag
from momentron.errors import InputError
from momentron.estimators.shared import MarginClassifier, signed_weights, warn_of
from momentron.losses import Loss
from momentron.result import MarginResult
from momentron.solve import Callback
from momentron.solvers import Solver
from momentron.streams import is_dask, is_streamed
from momentron.streams.lazy import lazily

FOLLOW_ITERATIONS = 500  # steps of Algorithm 1 where no margin exists


class MaxMarginClassifier(MarginClassifier):
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
        the fitted classifier works in either case. X and y may be Dask collections, or X a path or
        a source of blocks with its own labels and y None, as for `max_margin`.
        """
        if is_streamed(X):
            return self._fit_stream(X, y, callback)
        result = self._fit(X, y, callback)[2]
        self.coef_ = np.atleast_2d(result.coef)
        self.support_ = result.support
        self.dual_coef_ = signed_weights(result)
        warn_of(result)
        return self

    def _fit_stream(self, X: Any, y: Any, callback: Callback | None) -> "MaxMarginClassifier":
        """Data in blocks, which are read where they are."""
        if as_flag("warm_start", self.warm_start):
            raise InputError("warm_start=True is for data in memory; leave it out for blocks")
        result = max_margin(X, y, **self._options(), callback=callback)
        self._adopt(result)
        self.coef_ = np.atleast_2d(result.coef)
        self.support_ = result.support
        self.dual_coef_ = signed_weights(result)
        self.n_features_in_ = self.coef_.shape[1]
        warn_of(result)
        return self

    def _last_result(self, X: Any, y: np.ndarray) -> MarginResult | None:
        last = getattr(self, "result_", None)
        if last is None or last.coef.shape[-1] != X.shape[1]:
            return None
        return last if np.array_equal(last.classes, np.unique(y)) else None

    def _following(self, X: Any) -> dict[str, Any]:
        """`auto` stops at its proof; Algorithm 1 still classifies well (the paper's Figure 2)."""
        return {"method": "momentum", "tol": 0.0, "max_iter": FOLLOW_ITERATIONS, "verbose": 0}

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed distances to the plane, shape (n,): positive means classes_[1].

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
