"""MaxMarginClassifierCV and KernelMaxMarginClassifierCV: C chosen by cross-validation."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted

from momentron.api import Plan, fit, fit_path, plan_fit
from momentron.arithmetic.clock import TimeLimit
from momentron.data.arguments import as_flag
from momentron.estimators.classifiers import KernelMargin, LinearMargin
from momentron.estimators.public import estimator
from momentron.estimators.shared import MarginClassifier, all_or_nothing, warn_of
from momentron.fitting.options import FitOptions, as_grid
from momentron.rows.validation import TrainingData
from momentron.solvers.solver import BudgetWarning
from momentron.status import Status


@dataclass(kw_only=True, eq=False, repr=False)
class CrossValidated(MarginClassifier):
    """Fits along a path of C in every fold, and the best C on all the rows.

    Parameters
    ----------
    Cs : int or sequence of float
        Values of C to choose from; an integer n means n values log-spaced from 1e-4 to 1e4.
        `inf` is the hard margin.
    cv : int, splitter or iterable
        As in scikit-learn; None: 5 stratified folds.
    scoring : str or callable
        As in scikit-learn; None: accuracy.
    refit : bool
        Fit to all the rows with the best C. If False, there are `C_` and `scores_`, but no
        classifier.
    n_jobs : int
        Number of folds to fit in parallel, each in its own process.
    max_time : float
        Wall-clock seconds in total: every fold gets an equal share, and the final fit what is left.
        None: no limit.

    Attributes
    ----------
    C_ : float
        The C with the best mean score; with ties, the smallest. The attributes below are those of
        the fit to all the rows with it.
    Cs_ : ndarray of shape (n_Cs,)
        In growing order.
    scores_ : ndarray of shape (n_folds, n_Cs)
    best_score_ : float
        The mean score of `C_` over the folds.
    """

    Cs: Any = 10
    cv: Any = None
    scoring: Any = None
    refit: bool = True
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Any:
        """Choose C by cross-validation, and fit to all the rows with it.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), in memory
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Used in the fits, and in the scores: with metadata routing, only if the scorer asks for
            it.
        **params
            For the splitter and the scorer, such as `groups`, with metadata routing enabled.
        """
        _raise_for_params(params, self, "fit")
        with all_or_nothing(self):
            plan = self._choose(X, y, sample_weight, params)
            if not self.refit:
                return self
            rest = replace(self._options(), C=self.C_)
            found = fit(plan, rest, is_split=self._is_split)
            self._take(plan.data, found)
        warn_of(found, rescale=self._rescale)
        return self

    def _choose(self, X: Any, y: Any, sample_weight: Any, params: Mapping[str, Any]) -> Plan:
        """Choose C; returns the rows, with what is left of the time for a fit to all of them."""
        options, is_refitted = self._options(), as_flag("refit", self.refit)
        name = type(self).__name__
        plan = plan_fit(X, y, options, sample_weight=sample_weight, needs_rows=name)
        data = plan.data
        assert data is not None, "blocks are refused"
        check_classification_targets(data.y)  # as the scorers ask
        self._keep_features(X, y, data.X.shape)
        self.Cs_ = np.array(as_grid(self.Cs))
        given = {} if data.sample_weight is None else {"sample_weight": data.sample_weight}
        routed = Bunch(splitter=Bunch(split={}), scorer=Bunch(score=given))
        if _routing_enabled():
            routed = process_routing(self, "fit", **given, **params)
        splitter = check_cv(self.cv, data.y, classifier=True)
        folds = list(splitter.split(data.X, data.y, **routed.splitter.split))
        parts = len(folds) + is_refitted
        share = plan.limit.share(parts, parts)
        own = share.max_time, share.patience
        scored = Parallel(n_jobs=self.n_jobs, prefer="processes")(
            delayed(clone(self)._scores)(data, *fold, own, options, routed.scorer.score)
            for fold in folds
        )
        self.scores_ = np.array([scores for scores, _ in scored])
        n_short = sum(n_short for _, n_short in scored)
        if n_short:
            warnings.warn(
                f"{n_short} of {self.scores_.size} fits to folds ended above tol, so their scores "
                "are for suboptimal classifiers: raise max_time, max_iter or tol",
                BudgetWarning,
                stacklevel=3,
            )
        means = self.scores_.mean(axis=0)
        if np.isnan(means).all():
            raise ValueError("every C has a score of NaN; choose another scoring or other folds")
        best = int(np.nanargmax(means))
        self.C_, self.best_score_ = float(self.Cs_[best]), float(means[best])
        return replace(plan, limit=plan.limit.share(1, parts))

    def _scores(
        self,
        data: TrainingData,
        train: np.ndarray,
        test: np.ndarray,
        seconds: tuple[float, float],
        options: FitOptions,
        params: Mapping[str, Any],
    ) -> tuple[list[float], int]:
        """(the score of every C in one fold, how many of its fits ended short of an answer)."""
        X = data.X.tocsr() if sp.issparse(data.X) else data.X
        weights = None if data.sample_weight is None else data.sample_weight[train]
        rows, labels = _safe_split(self, X, data.y, train)
        plan = plan_fit(rows, labels, options, sample_weight=weights)
        plan = replace(plan, limit=TimeLimit(*seconds))
        held_out = _safe_split(self, X, data.y, test, train)
        params = _check_method_params(X, params, indices=test)
        scores, n_short = [], 0
        for found in fit_path(plan, options, as_grid(self.Cs), is_split=self._is_split):
            if any(result.status is Status.INTERRUPTED for result in found.results):
                raise KeyboardInterrupt  # what it has by then are scores of some folds
            self._take(plan.data, found)
            scores.append(float(self._scorer()(self, *held_out, **params)))
            n_short += not all(result.status.is_final for result in found.results)
        return scores, n_short

    def get_metadata_routing(self) -> MetadataRouter:
        """How metadata reach the fits, the splitter and the scorer."""
        mapping = MethodMapping().add(caller="fit", callee="split")
        scoring = MethodMapping().add(caller="fit", callee="score")
        scoring.add(caller="score", callee="score")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(splitter=check_cv(self.cv, classifier=True), method_mapping=mapping)
        return router.add(scorer=self._scorer(), method_mapping=scoring)

    def _scorer(self) -> Any:
        return get_scorer("accuracy" if self.scoring is None else self.scoring)

    def score(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> float:
        """The score of the rows, as `scoring` says; accuracy by default."""
        _raise_for_params(params, self, "score")
        check_is_fitted(self)
        given = params if sample_weight is None else params | {"sample_weight": sample_weight}
        if _routing_enabled():
            given = process_routing(self, "score", **given).scorer.score
        return float(self._scorer()(self, X, y, **given))

    def __sklearn_is_fitted__(self) -> bool:
        if hasattr(self, "C_") and not hasattr(self, "intercept_"):
            raise NotFittedError(
                f"this {type(self).__name__} was fitted with refit=False: it has C_ and scores_, "
                "but no classifier; pass refit=True"
            )
        return hasattr(self, "intercept_")


@estimator
@dataclass(kw_only=True, eq=False, repr=False)
class MaxMarginClassifierCV(CrossValidated, LinearMargin):
    r"""`MaxMarginClassifier` with C chosen by cross-validation along a path of warm starts.

    For each C of Cs, with two classes, y_i = ±1, and in every fold,

    .. math:: \min_{w, b} \; \tfrac{1}{2} ‖w‖^2 + C \sum_i \max(0, 1 - y_i (⟨w, x_i⟩ + b))^2,

    without the square for penalty="hinge". Each fit starts from the last and is certified on its
    own; the rows are read once.

    Examples
    --------
    >>> from momentron import MaxMarginClassifierCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MaxMarginClassifierCV(Cs=[0.01, 0.1, 1.0]).fit(X, y)
    >>> model.scores_.shape
    (5, 3)
    """


@estimator
@dataclass(kw_only=True, eq=False, repr=False)
class KernelMaxMarginClassifierCV(CrossValidated, KernelMargin):
    r"""`KernelMaxMarginClassifier` with C chosen by cross-validation along a path of warm starts.

    For each C of Cs, with two classes, y_i = ±1, and in every fold,

    .. math:: \min_{w, b} \; \tfrac{1}{2} ‖w‖^2 + C \sum_i \max(0, 1 - y_i (⟨w, φ(x_i)⟩ + b))^2,

    without the square for penalty="hinge". Each fit starts from the last and is certified on its
    own; all of them share the kernel values. Other kernels are compared by `GridSearchCV`.

    Examples
    --------
    >>> from momentron import KernelMaxMarginClassifierCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelMaxMarginClassifierCV(Cs=[0.01, 0.1, 1.0]).fit(X, y)
    >>> model.scores_.shape
    (5, 3)
    """
