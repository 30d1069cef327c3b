"""KernelMaxMarginClassifier: the largest margin in the feature space of a kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.errors import InputError
from momentron.estimators.shared import FittedClassifier, MarginClassifier
from momentron.fitting.fits import Fits
from momentron.fitting.options import FitOptions, KernelParameters
from momentron.rows.kernels import Kernel, PrecomputedKernel
from momentron.rows.operator import row_blocks
from momentron.rows.validation import TrainingData


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMargin(KernelParameters, MarginClassifier):
    """What classifiers through a kernel share: rows that they are made of, and their outputs."""

    kernel: str | Kernel | Callable[..., Any] = "rbf"
    _rescale = None  # kernel values are what they are
    _has_kernel = True

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
        is_named = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return is_named or isinstance(self.kernel, PrecomputedKernel)

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
            outputs = np.zeros((X.shape[0], self.dual_coef_.shape[0]))
            for part in row_blocks(X.shape[0], max(1, self.support_.size)):
                if bound is not None:
                    outputs[part] = bound.cross(X[part]) @ self.dual_coef_.T
                elif self.support_.size:
                    values = np.asarray(X[part][:, self.support_], np.float64)
                    outputs[part] = values @ self.dual_coef_.T
            return outputs

        return products

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        tags.input_tags.sparse = not self._is_precomputed
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMaxMarginClassifier(KernelMargin, FittedClassifier):
    """The classifier with the largest margin in a kernel's feature space, and a proof of it.

    Two or more classes. Memory beyond the data is `cache_size` and a few arrays of n·k numbers.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "precomputed"}, callable or Kernel
        A callable f(A, B) returns the values for the rows of A and B.
    gamma, degree, coef0
        Parameters of kernels given by name, as in scikit-learn's SVC.
    cache_size : float
        Memory in MB for kernel values.
    method, fit_intercept, C, penalty, class_weight, loss, tol, max_iter, max_memory
        As in `max_margin`.
    max_time, verbose, random_state, multi_class, warm_start
        As in `MaxMarginClassifier`.

    Attributes
    ----------
    margin_ : float
        Proven lower bound on the margin of this classifier, a distance in feature space: negative
        if it misclassifies a training row.
    support_ : ndarray of shape (n_support,)
        Rows of X with a dual weight.
    support_vectors_ : array or sparse matrix of shape (n_support, d)
        These rows; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_support), or (k, n_support)
        The classifier is w = Σ dual_coef_i φ(x_i): of unit length in feature space
        with C = inf, in the scale of ½‖w‖² + C Σ max(0, 1 − y f)² with a finite C. With
        penalty="hinge": y_i α_i, 0 ≤ α_i ≤ C_i, as in SVC.
    coef_ : ndarray of shape (1, d), or (k, d)
        The weights of the features, for kernel="linear" only.
    certificate_, intercept_, n_support_, shape_fit_, classes_, n_iter_, status_, result_
        As in `MaxMarginClassifier`.

    Examples
    --------
    >>> from momentron import KernelMaxMarginClassifier
    >>> X, y = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], ["even", "even", "odd", "odd"]
    >>> model = KernelMaxMarginClassifier(gamma=1.0).fit(X, y)
    >>> model.predict([[0.9, 0.1]]).tolist()
    ['odd']
    """
