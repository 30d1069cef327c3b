"""From a problem to its fallback classifier, within the time there is."""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from momentron.clock import OutOfTime, require_time, until
from momentron.environment import standard_arithmetic
from momentron.fallback.columns import Columns, sample, some_rows
from momentron.fallback.landmarks import Landmarks
from momentron.fallback.logistic import LogisticLoss, Objective, Point, minimised
from momentron.fallback.settings import SETTINGS, FallbackSettings
from momentron.operators import KernelOperator, Operator, SparseOperator
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
        Classifiers at hand, compared by their errors on the training rows. One of them is returned
        if it errs less than half as often as ours: smaller differences say little about new rows.
        Where ours was cut short, it is returned if it errs less at all.
    """
    fitting = _Fitting(problem, settings)
    try:
        with until(time.perf_counter() + max(seconds, settings.seconds)), one_thread():
            fitting.run()
    except (OutOfTime, KeyboardInterrupt, np.linalg.LinAlgError):
        pass  # what there is by then
    return fitting.best_of(candidates)


class _Fitting:
    """Our classifier, fitted to a small sample first and to a larger one then, as time allows."""

    def __init__(self, problem: Problem, settings: FallbackSettings) -> None:
        classes = problem.constraints.labels
        self.loss = loss = LogisticLoss(classes.codes, classes.n_classes)
        self.settings = settings
        self.operator = problem.operator
        self.fit_intercept = problem.dual_set.fits_intercept
        b = 0.0 if loss.n_outputs == 1 else np.zeros(loss.n_classes)
        self.found = Classifier(problem.constraints.base.zeros(), b)
        self.index = np.arange(loss.codes.size)
        self.outputs: np.ndarray | None = None
        self.is_complete = False

    def run(self) -> None:
        operator, settings = self.operator, self.settings
        n, d = operator.shape
        landmarks = None
        if isinstance(operator, KernelOperator):
            d = min(n, settings.landmarks, max(settings.kernel_values // n, 50))
            landmarks = Landmarks(operator, sample(self.loss.codes, d))
        enough = (settings.rows + settings.rows_per_column * d) * (1 + self.loss.n_classes) // 3
        width = operator.X.nnz / n if isinstance(operator, SparseOperator) else d
        size = min(n, enough, max(int(settings.entries / max(width, 1.0)), 1000))
        sizes = [size] if size * width <= settings.at_once else [-(-size // 5), size]
        start = None
        for size in sizes:
            index = np.arange(n) if size == n else sample(self.loss.codes, size)
            rows = some_rows(operator, index) if landmarks is None else landmarks.features(index)
            W, b, outputs = self._fit(rows, index, start, alike=landmarks is not None)
            start = W, b
            w = W if landmarks is None else landmarks.combine(W)
            self._keep(w, b, index, outputs)
        require_time()
        self.is_complete = True

    def _fit(
        self,
        rows: Operator,
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

    def best_of(self, candidates: Sequence[Candidate]) -> Classifier:
        """Ours, or the candidate that errs less on the rows to which ours was fitted."""
        loss, best = self.loss.some(self.index), self.found
        least = math.inf if self.outputs is None else loss.errors(self.outputs)
        least *= 0.5 if self.is_complete else 1.0
        for candidate in candidates:
            errors = loss.errors(candidate.products[self.index] + candidate.classifier.b)
            if errors < least:
                best, least = candidate.classifier, errors
        return best
