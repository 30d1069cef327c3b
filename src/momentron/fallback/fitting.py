"""From a problem to its fallback classifier, within the time there is."""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from momentron.clock import OutOfTime, require_time, until
from momentron.environment import standard_arithmetic
from momentron.fallback.columns import Columns, sample
from momentron.fallback.logistic import LogisticLoss, Objective, Point, minimised
from momentron.fallback.means import nearest_means
from momentron.fallback.rows import Landmarks, PlainRows
from momentron.fallback.settings import SETTINGS, FallbackSettings
from momentron.operators import MatrixOperator
from momentron.problem import Problem
from momentron.threads import one_thread


class Classifier(NamedTuple):
    """w as the problem's constraints have it, without slack, and b: a number, or one per class."""

    w: np.ndarray
    b: Any


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
    fitting = _Fitting(problem, settings)
    try:
        with until(time.perf_counter() + max(seconds, settings.seconds)), one_thread():
            fitting.run()
    except (OutOfTime, KeyboardInterrupt, np.linalg.LinAlgError):
        pass  # what there is by then
    return fitting.best_of(candidates, handicap)


class _Fitting:
    """Our classifier, fitted to a small sample first and to a larger one then, as time allows."""

    def __init__(self, problem: Problem, settings: FallbackSettings) -> None:
        classes = problem.constraints.labels
        self.loss = loss = LogisticLoss(classes.codes, classes.n_classes, problem.weights)
        self.settings = settings
        self.operator = problem.operator
        self.fit_intercept = problem.dual_set.fits_intercept
        b = 0.0 if loss.n_outputs == 1 else np.zeros(loss.n_classes)
        self.found = Classifier(problem.constraints.base.zeros(), b)
        self.index = np.arange(loss.codes.size)
        self.outputs: np.ndarray | None = None
        self.is_complete = False

    def run(self) -> None:
        """Fit, and keep what is found on the way; nothing where rows can only be multiplied."""
        codes, settings = self.loss.codes, self.settings
        n = codes.size
        rows: Landmarks | PlainRows
        kernel, matrix = self.operator.as_kernel(), self.operator.as_matrix()
        if kernel is not None:
            size = min(n, settings.landmarks, max(settings.kernel_values // n, 50))
            rows = Landmarks(kernel, sample(codes, size))
        elif matrix is not None:
            rows = PlainRows(matrix)
        else:
            return
        enough = settings.rows + settings.rows_per_column * rows.n_columns
        size = min(n, enough * (1 + self.loss.n_classes) // 3)
        size = min(size, max(int(settings.entries / max(rows.width, 1.0)), 1000))
        start = None
        for share in (1,) if size * rows.width <= settings.at_once else (5, 1):
            index = np.arange(n) if size == n * share else sample(codes, -(-size // share))
            W, b, outputs = self._fit(rows.some(index), index, start, alike=rows.are_alike)
            start = W, b
            self._keep(rows.combine(W), b, index, outputs)
        require_time()
        self.is_complete = True

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
        is_single = self.loss.n_outputs == 1
        self.found = Classifier(w[..., 0], float(b[0])) if is_single else Classifier(w, b)
        self.index, self.outputs = index, outputs

    def best_of(self, candidates: Sequence[Candidate], handicap: float) -> Classifier:
        """Ours, or the candidate that errs less on rows to which ours was not fitted, if any."""
        if not candidates:
            if self.outputs is None:
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
        """Some classifier, where time was over before there was any, and there is a matrix."""
        loss, matrix = self.loss, self.operator.as_matrix()
        if matrix is None:
            return
        entries, k = self.settings.at_hand, loss.n_classes
        W, b = nearest_means(matrix, loss.codes, k, entries, self.fit_intercept)
        is_single = loss.n_outputs == 1
        W, b = (W[:, 1:] - W[:, :1], b[1:] - b[:1]) if is_single else (W, b)
        if np.isfinite(W).all() and np.isfinite(b).all():
            self.found = Classifier(W[:, 0], float(b[0])) if is_single else Classifier(W, b)
