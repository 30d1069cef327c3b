"""What the estimators share: fitting, labels, and the warnings that a short answer deserves."""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import gen_batches
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from momentron.api import fit, plan_fit
from momentron.data.arguments import as_flag
from momentron.data.exactness.tensors import row_parts
from momentron.data.saved_state import Marked
from momentron.errors import InputError, NotSeparableWarning, short
from momentron.fitting.fits import Fits
from momentron.fitting.options import FitOptions, FitParameters
from momentron.result import MarginResult, labels_of
from momentron.rows.validation import TrainingData, clean_matrix
from momentron.solvers.loop import Callback
from momentron.solvers.solver import BudgetWarning
from momentron.status import Predictor, Status
from momentron.streams.block_fits import is_dask, lazily

BLOCK_ENTRIES = 1 << 22  # numbers of rows that are classified at a time: 32 MB in float64
RESCALE = "centre and rescale the features"


@dataclass(kw_only=True, eq=False, repr=False)
class MarginClassifier(FitParameters, Marked, ClassifierMixin, BaseEstimator):
    """What all classifiers share that are fitted by `max_margin`, however C was chosen.

    Fields are parameters, to which each family of classifiers adds its own: a constructor with all
    of them, as scikit-learn asks for, is made of the fields.

    Parameters
    ----------
    max_time : float
        Wall-clock seconds for the whole fit, with multi_class="ovr" for all classes together:
        classes for which the time is too short share one logistic regression. None: no limit.
    multi_class : {"joint", "ovr"}
        With three classes or more: one joint margin over all pairs of an example and a wrong label,
        or one classifier per class against the rest, as in LinearSVC. With the best C of each they
        err about equally often; take "joint" for one certificate, "ovr" for one per class. With
        "ovr", `result_`, `certificate_` and `status_` are lists with one entry per class, and
        `margin_` is an array.

    Attributes
    ----------
    intercept_ : ndarray of shape (1,), or (k,) for k ≥ 3 classes
    certificate_ : Certificate
        Proven interval: with a finite C on 1/√(2 · least objective), with C = inf on the best
        margin of any classifier.
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
    """

    multi_class: str = "joint"
    _rescale: ClassVar[str | None] = RESCALE  # what helps against rounding errors, if any
    _explaining: ClassVar[tuple[str, ...]] = ("result_",)  # attributes that predict does not need

    @abstractmethod
    def _take(self, data: TrainingData | None, found: Fits) -> None:
        """Become the classifier that was found for these rows; there are none of rows in blocks."""

    @property
    def _is_split(self) -> bool:
        """Whether every class is to be fitted against the rest, where there are three or more."""
        if not isinstance(self.multi_class, str) or self.multi_class not in ("joint", "ovr"):
            raise InputError(f'multi_class={short(self.multi_class)} must be "joint" or "ovr"')
        return self.multi_class == "ovr"

    def _adopt(self, found: Fits, support_labels: np.ndarray, shape: tuple[int, ...]) -> None:
        """The attributes that all classifiers have: values, or one per class."""
        results = found.results
        self.classes_ = found.classes
        self.n_iter_ = max(result.n_iter for result in results)
        self.intercept_ = np.hstack([result.intercept for result in results])
        self.result_: Any = results
        self.margin_: Any = np.array([result.margin for result in results])
        self.certificate_: Any = [result.certificate for result in results]
        self.status_: Any = [result.status for result in results]
        if len(results) == 1:
            (self.result_,), (self.certificate_,) = results, self.certificate_
            (self.status_,), self.margin_ = self.status_, results[0].margin
        codes = np.searchsorted(self.classes_, support_labels)
        self.n_support_ = np.bincount(codes, minlength=self.classes_.size).astype(np.int32)
        self.shape_fit_ = shape

    def _options(self) -> FitOptions:
        """The parameters, checked."""
        return FitOptions.among(vars(self))

    def _keep_features(self, X: Any, y: Any, shape: tuple[int, ...]) -> None:
        """Keep the names and the number of the features."""
        named = getattr(X, "_meta", X)  # the empty frame of a Dask frame
        if not hasattr(named, "columns"):
            named = np.broadcast_to(0.0, shape)
        elif isinstance(y, str):
            named = named.drop(columns=[y])  # the labels
        validate_data(self, named, skip_check_array=True)

    def _check_parts(self, X: Any) -> Iterator[Any]:
        """Rows to be classified, checked against those of the fit: all, or a block at a time."""
        rows, parts = getattr(X, "iloc", X), row_parts(X)
        is_sliced = isinstance(X, np.ndarray) or rows is not X
        if is_sliced and X.ndim == 2 and X.size > BLOCK_ENTRIES:
            blocks = gen_batches(X.shape[0], max(1, BLOCK_ENTRIES // X.shape[1]))
            parts = ((block.start, rows[block]) for block in blocks)
        for first, block in parts:
            clean_X = clean_matrix(block, first)
            named = block if hasattr(block, "columns") else clean_X
            validate_data(self, named, reset=False, skip_check_array=True)
            yield clean_X

    @abstractmethod
    def _products(self) -> Callable[[Any], np.ndarray]:
        """What gives the outputs of rows without intercepts, shape (n, 1) or (n, k)."""

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of shape (n,): positive means classes_[1]. Signed distances with C = inf.

        With three or more classes, outputs of shape (n, k); the largest decides the class. For
        a precomputed kernel, X has the values for the rows of the fit, shape (n, n_fit). For a Dask
        collection, the outputs are a Dask array that is not computed yet.
        """
        check_is_fitted(self)
        if is_dask(X):
            n_outputs = self.classes_.size if self.classes_.size > 2 else None
            return lazily(self._nameless(X).decision_function, X, n_outputs, np.float64)
        products = self._products()
        parts = [products(rows) for rows in self._check_parts(X)]
        outputs = (parts[0] if len(parts) == 1 else np.concatenate(parts)) + self.intercept_
        return outputs if self.classes_.size > 2 else outputs[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """Labels, shape (n,); for a Dask collection, a Dask array that is not computed yet."""
        if is_dask(X):
            check_is_fitted(self)
            return lazily(self._nameless(X).predict, X, None, self.classes_.dtype)
        return labels_of(self.decision_function(X), self.classes_)

    def slim(self) -> Self:
        """Drop what only explains the fit: saved, a linear classifier is as small as LinearSVC.

        `result_` goes, with the dual weights and the trace, and of a linear classifier `support_`
        and `dual_coef_`. `margin_`, `certificate_` (the interval as numbers), `status_` and all
        others stay. Another `fit` brings everything back; with `warm_start` it starts afresh.

        Returns
        -------
        The classifier itself.
        """
        check_is_fitted(self)
        for name in self._explaining:
            if hasattr(self, name):
                delattr(self, name)
        return self

    def _nameless(self, X: Any) -> "MarginClassifier":
        """A copy for the partitions of a Dask collection, arrays whose names are checked here."""
        if hasattr(X, "_meta") and hasattr(X, "columns"):
            validate_data(self, X._meta, reset=False, skip_check_array=True)
        plain = copy.copy(self)
        if hasattr(plain, "feature_names_in_"):
            del plain.feature_names_in_
        return plain

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@contextmanager
def all_or_nothing(model: MarginClassifier) -> Iterator[None]:
    """A fit that an error or Ctrl-C ends leaves the model as it was, fitted before or not."""
    before = dict(model.__dict__)
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


@dataclass(kw_only=True, eq=False, repr=False)
class FittedClassifier(MarginClassifier):
    """A classifier fitted once, with the parameters of `max_margin`.

    Parameters
    ----------
    C : float
        The weight of the slack: the smaller, the wider the margin and the more rows may be inside
        it. 1 by default, as in scikit-learn's SVC and LinearSVC; it depends on the units of X.
        inf is the hard margin, which exists only if a hyperplane separates the classes: a
        warning says so if none does, and `predict` uses a logistic regression.
    warm_start : bool
        Start from the last fit: for another C, or for more rows below the old ones. All built-in
        methods support it, and others whose `warm_starts` is True.
    """

    C: float = 1.0
    warm_start: bool = False

    # what stops a fit is for the caller, not for meta-estimators to hand on
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"callback": UNUSED}

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, callback: Callback | None = None
    ) -> Self:
        """Fit to the rows of X, shape (n, d), with labels y and weights, shape (n,).

        Warns with `NotSeparableWarning` or `BudgetWarning` if the answer is not optimal; the fitted
        classifier works in either case. X may be a path, as for `max_margin`; with
        kernel="precomputed", it is the matrix of kernel values, of shape (n, n). Without a
        kernel, X and y may be Dask collections, or X a source of blocks.
        """
        options, is_warm = self._options(), as_flag("warm_start", self.warm_start)
        is_split = self._is_split
        needs_rows = "warm_start=True" if is_warm else 'multi_class="ovr"' if is_split else None
        with all_or_nothing(self):
            plan = plan_fit(X, y, options, sample_weight=sample_weight, needs_rows=needs_rows)
            initial = self._last_results(plan.data, is_split) if is_warm else None
            found = fit(plan, options, is_split=is_split, initial=initial, callback=callback)
            self._take(plan.data, found)
            self._keep_features(X, y, self.shape_fit_)
        warn_of(found, rescale=self._rescale)
        return self

    def _last_results(self, data: TrainingData | None, is_split: bool) -> list[MarginResult] | None:
        """The last fit, where it can start this one."""
        assert data is not None, "blocks are refused"
        last: Any = getattr(self, "result_", None)
        results: list[MarginResult] = last if isinstance(last, list) else [last]
        n_fits = data.classes.size if is_split and data.classes.size > 2 else 1
        if last is None or len(results) != n_fits:
            return None
        n_weights, (n, d) = results[0].coef.shape[-1], data.X.shape
        if n_weights > n if hasattr(self, "kernel") else n_weights != d:
            return None
        return results if np.array_equal(self.classes_, data.classes) else None


# --- warnings ------------------------------------------------------------------------------------

REMEDY = "pass C= for a soft margin, or ask check_separability(X, y) for a proof"
NAMED = 12  # classes that a warning lists
RAISE = {
    Status.TIME_BUDGET: "raise max_time",
    Status.ITERATION_BUDGET: "raise max_iter",
    Status.NO_ROOM: "raise max_time or the memory allowed",
}
RAISE_CACHE = "raise cache_size, which holds too few kernel values for the rows that have weight"


def warn_of(found: Fits, *, rescale: str | None) -> None:
    """A warning for the first answer that is short of optimal, if any.

    It says what predicts and what to change; `rescale` is what helps against rounding errors, None
    where nothing does but another tolerance. Its text has no numbers, so that Python shows it once;
    they are in `result_`.
    """
    short = [result for result in found.results if result.status is not Status.OPTIMAL]
    if not short:
        return
    is_split = len(found.results) > 1
    result = next((r for r in short if r.status is Status.NOT_SEPARABLE), short[0])
    kinds = [kind for kind in Predictor if any(r.predictor is kind for r in short)]
    predicts = "for each of these classes predict uses " + " or ".join(kinds)
    if len(kinds) == 1 and not is_split:
        predicts = f"predict uses {kinds[0]}{' instead' * (kinds[0] is Predictor.LOGISTIC)}"
    more, status = RAISE.get(result.status), result.status
    is_crowded = found.are_crowded
    if is_crowded:
        more = RAISE_CACHE if more is None else f"{RAISE_CACHE}, or {more.removeprefix('raise ')}"
    category: type[Warning] = BudgetWarning
    if status is Status.NOT_SEPARABLE or (not result.is_soft and result.margin <= 0.0):
        category = NotSeparableWarning
        problem, remedy = "no separating classifier was found", REMEDY
        if status is Status.NOT_SEPARABLE:
            what = "these data"
            if is_split:
                pairs = zip(found.classes.tolist(), found.results, strict=True)
                names = [str(label) for label, r in pairs if r.status is Status.NOT_SEPARABLE]
                listed = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
                what = f"{'class' if len(names) == 1 else 'the classes'} {listed} from the rest"
            problem = f"no classifier separates {what}"
        elif more is not None:
            remedy = f"{more}; if the classes overlap, {REMEDY}"
    elif result.is_soft and result.is_fallback:
        problem, remedy = "the soft margin is far from certified", more or "raise tol"
    else:
        problem = "the certified gap, result_.gap, is above tol"
        remedy = "raise tol" if more is None else f"{more}, or tol"
        if status is Status.STALLED and not is_crowded:
            more = "raise tol" if rescale is None else f"{rescale}, or raise tol"
            remedy = f"rounding errors allow no smaller gap here; {more}"
    warnings.warn(f"{problem}; {predicts}: {remedy}", category, stacklevel=3)
