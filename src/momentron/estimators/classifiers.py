"""MaxMarginClassifier, and KernelMaxMarginClassifier in the feature space of a kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.errors import InputError
from momentron.estimators.public import estimator
from momentron.estimators.shared import FittedClassifier, MarginClassifier
from momentron.fitting.fits import Fits
from momentron.fitting.options import FitOptions, KernelParameters
from momentron.result import MarginResult
from momentron.rows.kernels import Kernel
from momentron.rows.kernels.choice import KernelChoice
from momentron.rows.operator import row_blocks
from momentron.rows.validation import TrainingData


class LinearMargin(MarginClassifier):
    """What linear classifiers share: weights of the features, and their products with rows.

    Attributes
    ----------
    margin_ : float
        Proven lower bound on the margin of this classifier, the least y (x·coef_ + intercept_)/
        ‖coef_‖ over the training rows: negative if it misclassifies one of them.
    coef_ : ndarray of shape (1, d), or (k, d) for k ≥ 3 classes
        With a finite C in the scale of the problem above. Of unit length with C = inf:
        `decision_function` of two classes is then a signed distance in the units of X.
    dual_coef_ : ndarray of shape (1, n_support), or (k, n_support)
        coef_ = dual_coef_ @ X[support_], up to the certified gap.
        They are y_i q_i over the best margin, with q the certified weights. With many classes, each
        class has, for its own rows, the sum of the weights of all wrong labels, and for others the
        negative of its weight as a wrong label. With a finite C and penalty="hinge": y_i α_i,
        0 ≤ α_i ≤ C_i, as in SVC. If nothing separates the classes: y_i q_i, weights that prove it.
    """

    coef_: np.ndarray
    _explaining = ("result_", "support_", "dual_coef_")

    def _take(self, data: TrainingData | None, found: Fits) -> None:
        results = found.results
        self.coef_ = np.vstack([result.coef for result in results])
        self.support_ = np.unique(np.concatenate([result.support for result in results]))
        self.dual_coef_ = np.zeros((len(self.coef_), self.support_.size))
        for part, result in zip(np.split(self.dual_coef_, len(results)), results, strict=True):
            part[:, np.searchsorted(self.support_, result.support)] = dual_coefficients(result)
        labels = results[0].support_labels if data is None else data.y[self.support_]
        self._adopt(found, labels, (results[0].n_rows, self.coef_.shape[1]))

    def _products(self) -> Callable[[Any], np.ndarray]:
        return lambda rows: np.asarray(rows @ self.coef_.T)


@estimator
@dataclass(kw_only=True, eq=False, repr=False)
class MaxMarginClassifier(LinearMargin, FittedClassifier):
    r"""A linear classifier with the largest margin, soft or hard, and a proof of how large that is.

    For two classes, y_i = ±1,

    .. math:: \min_{w, b} \; \tfrac{1}{2} ‖w‖^2 + C \sum_i \max(0, 1 - y_i (⟨w, x_i⟩ + b))^2,

    without the square for penalty="hinge"; with C = inf, the hard margin

    .. math:: \max_{w ≠ 0, b} \min_i y_i (⟨w, x_i⟩ + b) / ‖w‖.

    For three classes or more, the joint margin: instead of y_i (⟨w, x_i⟩ + b), the differences
    F_ic − F_ij between the output for the class c of example i and for each wrong label j, with
    F = X Wᵀ + b and one unpenalised intercept per class.

    Examples
    --------
    >>> from momentron import MaxMarginClassifier
    >>> X = [[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]]
    >>> model = MaxMarginClassifier(tol=1e-3).fit(X, ["up", "up", "down", "down"])
    >>> model.predict([[5.0, 1.0]]).tolist()
    ['up']
    """


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMargin(KernelParameters, MarginClassifier):
    """What classifiers through a kernel share: rows that they are made of, and their outputs.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "precomputed"}, callable or Kernel
        A callable f(A, B) returns the matrix of values for the rows of A and B; with "precomputed",
        X itself is that matrix.

    Attributes
    ----------
    margin_ : float
        Proven lower bound on the margin of this classifier, a distance in feature space: negative
        if it misclassifies a training row.
    support_vectors_ : array or sparse matrix of shape (n_support, d)
        The rows `support_`; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_support), or (k, n_support)
        The classifier is w = Σ dual_coef_i φ(x_i): with a finite C in the scale of the problem
        above, with C = inf of unit length in feature space. With penalty="hinge": y_i α_i,
        0 ≤ α_i ≤ C_i, as in SVC.
    coef_ : ndarray of shape (1, d), or (k, d)
        The weights of the features, for kernel="linear" only.
    """

    kernel: str | Kernel | Callable[..., Any] = "rbf"
    _rescale = None  # kernel values are what they are

    def _take(self, data: TrainingData | None, found: Fits) -> None:
        assert data is not None, "a kernel is not for blocks"
        coef = np.vstack([result.coef for result in found.results])
        self.support_ = np.flatnonzero(coef.any(axis=0))
        self.dual_coef_ = coef[:, self.support_]
        is_precomputed = self._is_precomputed
        assert found.rows is not None
        self._kernel: Kernel | None = None if is_precomputed else found.rows.kernel
        self.support_vectors_: Any = np.empty((0, 0)) if is_precomputed else data.X[self.support_]
        self._adopt(found, data.y[self.support_], data.X.shape)

    def _options(self) -> FitOptions:
        if self.kernel is None:
            raise InputError("kernel=None; name a kernel, or use MaxMarginClassifier")
        return super()._options()

    @property
    def _is_precomputed(self) -> bool:
        return KernelChoice(self.kernel).is_precomputed

    @property
    def coef_(self) -> np.ndarray:
        """The weights of the features, shape (1, d) or (k, d); only for kernel="linear"."""
        kernel = getattr(self, "_kernel", None)
        if kernel is None or not kernel.is_linear:
            raise AttributeError('coef_ exists only for kernel="linear", after fit')
        return np.asarray(self.dual_coef_ @ self.support_vectors_)

    def _products(self) -> Callable[[Any], np.ndarray]:
        kernel = self._kernel if self.support_.size else None  # w = 0 needs no values
        bound = None if kernel is None else kernel.bind(self.support_vectors_)

        def products(X: Any) -> np.ndarray:
            outputs = np.empty((X.shape[0], self.dual_coef_.shape[0]))
            for part in row_blocks(X.shape[0], max(1, self.support_.size)):
                values = X[part][:, self.support_] if bound is None else bound.cross(X[part])
                outputs[part] = values @ self.dual_coef_.T
            return outputs

        return products

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        tags.input_tags.sparse = not self._is_precomputed
        return tags


@estimator
@dataclass(kw_only=True, eq=False, repr=False)
class KernelMaxMarginClassifier(KernelMargin, FittedClassifier):
    r"""`MaxMarginClassifier` in the feature space of a kernel: by default squared hinge and C = 1.

    For two classes, y_i = ±1, and features φ with ⟨φ(x), φ(x')⟩ = K(x, x'),

    .. math:: \min_{w, b} \; \tfrac{1}{2} ‖w‖^2 + C \sum_i \max(0, 1 - y_i (⟨w, φ(x_i)⟩ + b))^2.

    penalty="hinge" leaves the square out, as scikit-learn's SVC does; C = inf is the hard margin.
    Three classes or more have the joint margin of `MaxMarginClassifier`. Memory beyond the data is
    `cache_size` and a few arrays of n·k numbers.

    Examples
    --------
    >>> from momentron import KernelMaxMarginClassifier
    >>> X, y = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], ["even", "even", "odd", "odd"]
    >>> model = KernelMaxMarginClassifier(gamma=1.0).fit(X, y)
    >>> model.predict([[0.9, 0.1]]).tolist()
    ['odd']
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
