"""MaxMarginClassifier: linear, of two classes or more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.estimators.shared import FittedClassifier, MarginClassifier
from momentron.fitting.fits import Fits
from momentron.result import MarginResult
from momentron.rows.validation import TrainingData


class LinearMargin(MarginClassifier):
    """What linear classifiers share: weights of the features, and their products with rows."""

    coef_: np.ndarray

    def _take(self, data: TrainingData | None, found: Fits) -> None:
        results = found.results
        self.coef_ = np.vstack([result.coef for result in results])
        self.support_ = np.unique(np.concatenate([result.support for result in results]))
        self.dual_coef_ = np.zeros((len(self.coef_), self.support_.size))
        for part, result in zip(np.split(self.dual_coef_, len(results)), results, strict=True):
            part[:, np.searchsorted(self.support_, result.support)] = dual_coefficients(result)
        labels = results[0].support_labels
        if len(results) > 1:
            assert data is not None, "blocks are for all classes together"
            labels = data.y[self.support_]
        self._adopt(found, labels, (results[0].n_rows, self.coef_.shape[1]))

    def _products(self) -> Callable[[Any], np.ndarray]:
        return lambda rows: np.asarray(rows @ self.coef_.T)


@dataclass(kw_only=True, eq=False, repr=False)
class MaxMarginClassifier(LinearMargin, FittedClassifier):
    """A linear classifier with the largest margin, and a proof of how large that is.

    Two or more classes, with any labels; with three or more the margin is the joint one over all
    examples and wrong labels, with one unpenalised intercept per class.

    Parameters
    ----------
    method, fit_intercept, C, penalty, class_weight, loss, tol, max_iter, max_memory
        As in `max_margin`.
    max_time : float, optional
        Wall-clock seconds for the whole fit. With multi_class="ovr" they are for all the classes
        together; classes for which the time is too short get the classifiers of one logistic
        regression.
    verbose, random_state
        As in `max_margin`.
    multi_class : {"joint", "ovr"}
        With three classes or more: one margin over all pairs of an example and a wrong label, or
        one classifier per class against the rest. Then `result_`, `certificate_` and `status_` are
        lists with one entry per class, and `margin_` is an array.
    warm_start : bool
        Start from the last fit: for another C, or for more rows below the old ones. All built-in
        methods support it, and others whose `warm_starts` is True.

    Attributes
    ----------
    margin_ : float
        Proven lower bound on the margin of this classifier, the least y (x·coef_ + intercept_)/
        ‖coef_‖ over the training rows: negative if it misclassifies one of them.
    certificate_ : Certificate
        Proven interval on the best margin of any classifier; with a finite C, on
        1/√(2·least objective).
    coef_ : ndarray of shape (1, d), or (k, d) for k ≥ 3 classes
        Of unit length with C = inf: `decision_function` of two classes is a signed distance in the
        units of X. With a finite C in the scale of ½‖w‖² + C Σ max(0, 1 − y f)², without the
        square for penalty="hinge".
    intercept_ : ndarray of shape (1,), or (k,)
    dual_coef_ : ndarray of shape (1, n_support), or (k, n_support)
        coef_ = dual_coef_ @ X[support_], up to the certified gap.
        They are y_i q_i over the best margin, with q the certified weights. With many classes, each
        class has, for its own rows, the sum of the weights of all wrong labels, and for others the
        negative of its weight as a wrong label. With a finite C and penalty="hinge": y_i α_i,
        0 ≤ α_i ≤ C_i, as in SVC. If nothing separates the classes: y_i q_i, weights that prove it.
    support_ : ndarray of shape (n_support,)
        Rows of X with a dual weight.
    n_support_ : ndarray of shape (k,)
        The number of these rows in each class.
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


def dual_coefficients(result: MarginResult) -> np.ndarray:
    """What combines the rows of the support to the classifier, shape (1, s) or (k, s).

    Σ y_i q_i x_i has the length of the upper bound, and at the optimum the classifier's direction.
    """
    length = result.upper if result.lower > 0.0 else 1.0
    if result.is_soft and result.penalty == "hinge":
        length = 1.0  # α, in the scale of the problem
    elif result.is_soft:
        length *= result.lower or 1.0
    codes = np.searchsorted(result.classes, result.support_labels)
    weights = result.dual / length
    if weights.ndim == 1:
        return (np.where(codes == 1, 1.0, -1.0) * weights)[None, :]
    own = weights.sum(axis=1)
    weights *= -1.0
    weights[np.arange(codes.size), codes] = own
    return weights.T
