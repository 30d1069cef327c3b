"""From a problem to its fallback classifier, within the time there is."""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from momentron.arithmetic.clock import OutOfTime, regardless, require_time, until
from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.threads import one_thread
from momentron.fitting.fallback.columns import Columns, sample
from momentron.fitting.fallback.logistic import LogisticLoss, Objective, Point, RestLoss, minimised
from momentron.fitting.fallback.means import nearest_images, nearest_means
from momentron.fitting.fallback.rows import Landmarks, PlainRows
from momentron.fitting.fallback.settings import SETTINGS, FallbackSettings
from momentron.rows import MatrixOperator
from momentron.solvers.problem import Problem
from momentron.status import Predictor

SAME = 1e-7  # of the images' length: differences up to which they are equal
RAREST = 1e-300  # share of a class, whose logarithm is an intercept


class Classifier(NamedTuple):
    """w as the problem has it, without slack, and b: a number, or one per class."""

    w: np.ndarray
    b: Any

    @property
    def predictor(self) -> Predictor:
        """What it is: of a method, unless it is one of ours below."""
        return Predictor.BEST_SO_FAR


class LogisticRegression(Classifier):
    """Fitted to a sample."""

    @property
    def predictor(self) -> Predictor:
        return Predictor.LOGISTIC


class NearestMeans(Classifier):
    """Of a sample, where there was no time for a fit."""

    @property
    def predictor(self) -> Predictor:
        return Predictor.MEANS


class Constant(Classifier):
    """w = 0: the intercepts alone, where nothing else was found."""

    @property
    def predictor(self) -> Predictor:
        return Predictor.CONSTANT


class Candidate(NamedTuple):
    """A classifier that is at hand, with the products Xw of all rows."""

    classifier: Classifier
    products: np.ndarray


@standard_arithmetic()
def fallback(
    problem: Problem,
    *,
    seconds: float = math.inf,
    candidates: Sequence[Candidate] = (),
    handicap: float = 0.5,
    settings: FallbackSettings = SETTINGS,
) -> Classifier:
    """The classifier to use where no positive margin is known.

    Parameters
    ----------
    problem : Problem
        In memory; a slack, if there is one, is left aside.
    seconds : float
        What the proof took; the fallback takes no longer, or `settings.seconds` if that is more.
        A deadline in force is kept too, and Ctrl-C obeyed: what is found by then is compared.
    candidates : sequence of Candidate
        Classifiers at hand, compared by their errors on the training rows.
    handicap : float
        One of them is returned if it errs less than so often as ours: smaller differences say
        little about new rows. Where ours was cut short, it is returned if it errs less at all.
    """
    classes = problem.labels
    loss = LogisticLoss(classes.codes, classes.n_classes, problem.weights)
    fitting = _Fitting(problem, loss, settings)
    fitting.run_for(max(seconds, settings.seconds))
    return fitting.best_of(candidates, handicap)


@standard_arithmetic()
def fallback_against_rest(
    problem: Problem,
    codes: np.ndarray,
    n_classes: int,
    *,
    seconds: float,
    settings: FallbackSettings = SETTINGS,
) -> Classifier:
    """Classifiers of every class against the rest, w[..., c] and b[c], for the price of one.

    Parameters
    ----------
    problem : Problem
        That of any of the classes: its rows and weights are those of all of them.
    codes : ndarray of shape (n,)
        The classes of the rows, three or more.
    seconds : float
        What it may take at most.
    """
    fitting = _Fitting(problem, RestLoss(codes, n_classes, problem.weights), settings)
    fitting.run_for(seconds)
    return fitting.best_of((), 1.0)


class _Fitting:
    """Our classifier, fitted to a small sample first and to a larger one then, as time allows."""

    def __init__(
        self, problem: Problem, loss: "LogisticLoss | RestLoss", settings: FallbackSettings
    ) -> None:
        self.loss, self.settings = loss, settings
        self.operator = problem.operator
        self.fit_intercept = problem.dual_set.fits_intercept
        trailing = () if loss.n_outputs == 1 else (loss.n_outputs,)
        self.found: Classifier = Constant(self.operator.zeros(*trailing), self._log_frequencies())
        self.index = np.arange(loss.codes.size)
        self.outputs: np.ndarray | None = None
        self.is_complete = False

    def run_for(self, seconds: float) -> None:
        """Fit for so long at most, or until the deadline in force, or Ctrl-C."""
        try:
            with until(time.perf_counter() + seconds), one_thread():
                self.run()
        except (OutOfTime, KeyboardInterrupt, np.linalg.LinAlgError):
            pass  # what there is by then

    def run(self) -> None:
        """Fit, and keep what is found on the way; nothing where rows can only be multiplied."""
        codes, settings = self.loss.codes, self.settings
        kernel, matrix = self.operator.as_kernel(), self.operator.as_matrix()
        if kernel is not None:
            n = codes.size
            size = min(n, settings.landmarks, max(settings.kernel_values // n, 50))
            is_long = n * size**2 > settings.landmark_flops
            for share in (settings.few_landmarks, 1) if is_long else (1,):
                self._fit_samples(Landmarks(kernel, sample(codes, -(-size // share))))
        elif matrix is not None:
            self._fit_samples(PlainRows(matrix))
        else:
            return
        require_time()
        self.is_complete = True

    def _fit_samples(self, rows: "Landmarks | PlainRows") -> None:
        """Fit to some of the rows, and to more of them then."""
        codes, settings = self.loss.codes, self.settings
        n = codes.size
        enough = settings.rows + settings.rows_per_column * rows.n_columns
        size = min(n, enough * (1 + self.loss.n_classes) // 3)
        size = min(size, max(int(settings.entries / max(rows.width, 1.0)), 1000))
        start = None
        for share in (1,) if size * rows.width <= settings.at_once else (5, 1):
            require_time()
            index = np.arange(n) if size == n * share else sample(codes, -(-size // share))
            W, b, outputs = self._fit(rows.some(index), index, start, alike=rows.are_alike)
            start = W, b
            self._keep(rows.combine(W), b, index, outputs)

    def _fit(
        self,
        rows: MatrixOperator,
        index: np.ndarray,
        start: tuple[np.ndarray, np.ndarray] | None,
        *,
        alike: bool,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(W, b, outputs) for some rows, from the W and b of fewer."""
        columns = Columns(rows, fit_intercept=self.fit_intercept, alike=alike)
        objective = Objective(columns, self.loss.some(index), self.settings)
        V = np.zeros(objective.shape) if start is None else columns.scaled(*start)
        point = minimised(Point(objective, V, columns.times(V)), self.settings)
        return *columns.unscaled(point.V), point.outputs

    def _keep(self, w: np.ndarray, b: np.ndarray, index: np.ndarray, outputs: np.ndarray) -> None:
        if not (np.isfinite(w).all() and np.isfinite(b).all()):
            raise np.linalg.LinAlgError("the fit overflowed")
        kind = LogisticRegression if w.any() else Constant
        is_single = self.loss.n_outputs == 1
        self.found = kind(w[..., 0], float(b[0])) if is_single else kind(w, b)
        self.index, self.outputs = index, outputs

    def best_of(self, candidates: Sequence[Candidate], handicap: float) -> Classifier:
        """Ours, or the candidate that errs less on rows to which ours was not fitted, if any."""
        if not candidates:
            if not self.is_complete and not self.found.w.any():
                self._take_means()
            return self.found
        index, outputs, best = self.index, self.outputs, self.found
        if outputs is not None and index.size < self.loss.codes.size:
            index = self._other_rows()
            outputs = self.operator.products_at(index, best.w).reshape(index.size, -1) + best.b
        loss = self.loss.some(index)
        least = math.inf if outputs is None else loss.errors(outputs)
        least *= handicap if self.is_complete else 1.0
        for candidate in candidates:
            errors = loss.errors(candidate.products[index] + candidate.classifier.b)
            if errors < least:
                best, least = candidate.classifier, errors
        return best

    def _other_rows(self) -> np.ndarray:
        """Rows to which ours was not fitted, evenly spread."""
        others = np.setdiff1d(np.arange(self.loss.codes.size), self.index, assume_unique=True)
        return others[:: -(-others.size // self.settings.compared)]

    def _take_means(self) -> None:
        """Some classifier, where time was over before there was any: nearest class means."""
        loss, kernel, matrix = self.loss, self.operator.as_kernel(), self.operator.as_matrix()
        codes, k = loss.codes, loss.n_classes
        least = 0.0
        with regardless():
            if kernel is not None:
                w, b = nearest_images(kernel, codes, k, self.settings.images, self.fit_intercept)
                least = SAME * kernel.norm(w)  # a difference of images that is rounding alone
            elif matrix is not None:
                w, b = nearest_means(matrix, codes, k, self.settings.at_hand, self.fit_intercept)
            else:
                return
        if loss.is_split:  # so that most rows are on the side of the rest
            w, b = w - w.mean(axis=-1, keepdims=True), b - b.mean()
        found = NearestMeans(w, b)
        if loss.n_outputs == 1:
            found = NearestMeans(w[..., 1] - w[..., 0], float(b[1] - b[0]))
        is_finite = bool(np.isfinite(found.w).all() and np.isfinite(found.b).all())
        if is_finite and found.w.any() and (kernel is None or kernel.norm(found.w) > least):
            self.found = found

    def _log_frequencies(self) -> Any:
        """The intercepts of w = 0: logarithms of the classes' shares, so that the largest wins."""
        loss = self.loss
        shares = np.bincount(loss.codes, loss.weights, minlength=loss.n_classes)
        shares = np.maximum(shares / shares.max(), RAREST)
        b = np.log(shares) if self.fit_intercept else np.zeros(loss.n_classes)
        return float(b[1] - b[0]) if loss.n_outputs == 1 else b
