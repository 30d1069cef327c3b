"""The classifier for data that nothing separates: logistic regression on standardised columns.

A margin says nothing about such data: the classifier with the least negative margin follows a few
outliers. What is wanted instead is a classifier that errs rarely, on rows not seen yet as well. One
is computed here, for two classes or many, with or without intercepts, dense, sparse or through a
kernel, from a sample where rows are many:

    min  C Σ_i ln(1 + exp(−y_i f(x_i))) + ½‖v‖²,   f(x) = v·(x − c)/s + b,

with c the columns' means and s their deviations, so that no column counts more for being written in
smaller units. With many classes the loss is that of the softmax. C is in proportion to
1/mean‖(x − c)/s‖². The minimiser is found by L-BFGS in variables in which the sample is white.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from momentron.clock import OutOfTime, require_time, until
from momentron.environment import standard_arithmetic
from momentron.operators import DenseOperator, KernelOperator, Operator, SparseOperator
from momentron.operators.base import row_blocks
from momentron.problem import Problem
from momentron.threads import one_thread


@dataclass(frozen=True)
class FallbackSettings:
    """What the fallback may spend, and how regular it is.

    Attributes
    ----------
    C : float
        The weight of the losses, in units of 1/mean‖x‖² of the standardised rows.
    rows, rows_per_column : int
        A sample has at most rows + rows_per_column · d of them per two classes: more would hardly
        change the classifier.
    entries : int
        And at most so many numbers, which bounds its memory.
    at_once : int
        Numbers from which a fifth of the sample is fitted first, so that time cannot run out before
        there is a classifier.
    landmarks, kernel_values : int
        A kernel's classifier is made of the images of so many rows, or of fewer if that takes more
        values of the kernel than these.
    steps : int
        Of L-BFGS, at most.
    accuracy : float
        It ends where a step promises to lower the mean loss by no more than this share of ln k.
    whitened : int
        Columns up to which a sample is whitened; above, standardised columns have to do.
    seconds : float
        What it may always take, however short the proof was.
    """

    C: float = 10.0
    rows: int = 4000
    rows_per_column: int = 40
    entries: int = 50_000_000
    at_once: int = 3_000_000
    landmarks: int = 1000
    kernel_values: int = 20_000_000
    steps: int = 100
    accuracy: float = 3e-4
    whitened: int = 1500
    seconds: float = 0.25


SETTINGS = FallbackSettings()
TINY, LEAST = 1e-30, 1e-30  # columns that vary less, relative to the most or at all, are constant
RIDGE = 1e-10  # added to the diagonal of a kernel's matrix, in units of its mean
ENOUGH = 3  # steps after which L-BFGS knows how far the next one leads
MEMORY = 10  # steps that L-BFGS remembers
MEMORY_ENTRIES = 20_000_000  # and numbers, each of its two lists


class Classifier(NamedTuple):
    """w as the problem's constraints have it, without slack, and b: a number, or one per class."""

    w: np.ndarray
    b: Any


class Candidate(NamedTuple):
    """A classifier that is at hand, with the products Xw of all rows."""

    classifier: Classifier
    products: np.ndarray


class Labels:
    """The labels of some rows, and the loss of outputs of shape (n, 1) or (n, k)."""

    def __init__(self, codes: np.ndarray, n_classes: int) -> None:
        self.codes, self.n_classes = codes, n_classes
        self.n_outputs = 1 if n_classes == 2 else n_classes
        self._signs = np.where(codes == 1, 1.0, -1.0)[:, None]
        self._rows = np.arange(codes.size)
        # of a loss at outputs zero: p(1 − p) at p = 1/k
        self.curvature = (n_classes - 1) / n_classes**2

    @classmethod
    def of(cls, problem: Problem) -> "Labels":
        """The problem's labels as codes 0..k−1: what pulls an example towards its own class."""
        pulls = problem.constraints.mix(problem.even_weights())
        codes = (pulls < 0.0).astype(int) if pulls.ndim == 1 else pulls.argmin(axis=1)
        return cls(codes, problem.classes.size)

    def some(self, index: np.ndarray) -> "Labels":
        return Labels(self.codes[index], self.n_classes)

    def loss(self, F: np.ndarray) -> tuple[float, np.ndarray]:
        """(the mean loss, its derivative by each output)."""
        n = self.codes.size
        if self.n_outputs == 1:
            margins = self._signs * F
            decay = np.exp(-np.abs(margins))
            losses = np.log1p(decay) - np.minimum(margins, 0.0)
            share = np.where(margins > 0.0, decay, 1.0) / (1.0 + decay)
            return float(losses.mean()), -self._signs * share / n
        P = F - F.max(axis=1, keepdims=True)
        own = P[self._rows, self.codes]
        np.exp(P, out=P)
        sums = P.sum(axis=1)
        P /= sums[:, None]
        P[self._rows, self.codes] -= 1.0
        P /= n
        return float((np.log(sums) - own).mean()), P

    def errors(self, F: np.ndarray) -> float:
        """The share of rows that the outputs put into a wrong class."""
        if self.n_outputs == 1:
            return float(np.mean((F.ravel() > 0.0) != (self.codes == 1)))
        return float(np.mean(F.argmax(axis=1) != self.codes))


class Columns:
    """Rows as seen through standardised columns, which are never formed.

    An array V has the coefficients of the columns, and below them the intercepts, if any.
    """

    def __init__(self, operator: Operator, *, fit_intercept: bool, alike: bool) -> None:
        """`alike` gives all columns one scale: those of a kernel have no meaning one by one.

        It is that of the median row, since images of outliers may be very long.
        """
        self.operator, self.fit_intercept = operator, fit_intercept
        self.d = operator.shape[1]
        mean, scale = _moments(operator)
        self.centre = mean if fit_intercept else np.zeros(self.d)
        if not fit_intercept:
            scale = np.hypot(scale, mean)
        if alike:
            rows = operator.rows(np.arange(operator.shape[0])) - self.centre
            scale = np.full(self.d, np.median(np.linalg.norm(rows, axis=1)))
        largest = float(np.linalg.norm(scale, np.inf))
        varies = scale > max(TINY * largest, LEAST)
        self.inverse = np.divide(1.0, scale, out=np.zeros(self.d), where=varies)
        self.square = 1.0 if alike else max(1.0, float(varies.sum()))  # mean‖x‖²

    def unscaled(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) for the rows as they are."""
        W = self.inverse[:, None] * V[: self.d]
        b = V[self.d] if self.fit_intercept else np.zeros(V.shape[1])
        return W, b - self.centre @ W

    def scaled(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """V, for columns that vary."""
        V = np.divide(
            W, self.inverse[:, None], out=np.zeros_like(W), where=self.inverse[:, None] > 0
        )
        return np.vstack([V, b + self.centre @ W]) if self.fit_intercept else V

    def times(self, V: np.ndarray) -> np.ndarray:
        """The outputs of all rows."""
        W, b = self.unscaled(V)
        return self.operator.apply(W) + b

    def adjoint(self, G: np.ndarray) -> np.ndarray:
        """The gradient by V, given that by the outputs."""
        sums = G.sum(axis=0)
        gradient = self.operator.adjoint(G) - np.outer(self.centre, sums)
        gradient *= self.inverse[:, None]
        return np.vstack([gradient, sums]) if self.fit_intercept else gradient

    def gram(self, index: np.ndarray) -> np.ndarray:
        """The mean of x xᵀ over the named rows, intercepts included."""
        rows = (self.operator.rows(index) - self.centre) * self.inverse
        if self.fit_intercept:
            rows = np.hstack([rows, np.ones((index.size, 1))])
        return rows.T @ rows / index.size


class Objective:
    """The penalised loss in variables U in which a sample of the rows is white."""

    def __init__(self, columns: Columns, labels: Labels, settings: FallbackSettings) -> None:
        self.columns, self.labels = columns, labels
        n = columns.operator.shape[0]
        self.penalty = columns.square / (settings.C * n)
        self.shape = (columns.d + columns.fit_intercept, labels.n_outputs)
        self._factor: np.ndarray | None = None
        if self.shape[0] <= settings.whitened:
            self._factor = self._whitening(n)

    def _whitening(self, n: int) -> np.ndarray | None:
        """The Cholesky factor of the Hessian at zero, as a sample of the rows has it."""
        size = min(n, 1000 + 3 * self.shape[0])
        require_time(float(size) * self.shape[0] ** 2 / 1e10)
        H = self.columns.gram(_sample(self.labels.codes, size))
        diagonal = H.ravel()[:: self.shape[0] + 1]  # a view
        diagonal += np.maximum(1.0 - diagonal, 1e-6)  # columns that hardly vary in the sample
        H *= self.labels.curvature
        diagonal += self.penalty
        factor, info = lapack.dpotrf(H, lower=1, clean=1, overwrite_a=1)
        return factor if info == 0 else None

    def unwhitened(self, U: np.ndarray) -> np.ndarray:
        """V."""
        return U if self._factor is None else lapack.dtrtrs(self._factor, U, lower=1, trans=1)[0]

    def gradient(self, V: np.ndarray, G: np.ndarray) -> np.ndarray:
        """By U, given the derivatives by the outputs."""
        gradient = self.columns.adjoint(G)
        gradient[: self.columns.d] += self.penalty * V[: self.columns.d]
        if self._factor is None:
            return gradient
        return lapack.dtrtrs(self._factor, gradient, lower=1)[0]

    def penalties(self, V: np.ndarray, dV: np.ndarray) -> tuple[float, float]:
        """Slope and curvature of the penalty along a direction."""
        d = self.columns.d
        slope = self.penalty * float(np.vdot(V[:d], dV[:d]))
        return slope, self.penalty * float(np.vdot(dV[:d], dV[:d]))


class Point:
    """Where L-BFGS stands: V with its outputs, its mean loss and its gradient by U."""

    def __init__(self, objective: Objective, V: np.ndarray, outputs: np.ndarray) -> None:
        self.objective, self.V, self.outputs = objective, V, outputs
        self.loss, G = objective.labels.loss(outputs)
        self.gradient = objective.gradient(V, G)

    def moved(self, direction: np.ndarray) -> tuple["Point", float]:
        """(the lowest point along a direction, the step's length): two passes, however long."""
        dV = self.objective.unwhitened(direction)
        change = self.objective.columns.times(dV)
        slope = float(np.vdot(self.gradient, direction))
        length = self._length(change, slope, self.objective.penalties(self.V, dV))
        return Point(self.objective, self.V + length * dV, self.outputs + length * change), length

    def _length(self, change: np.ndarray, slope: float, penalties: tuple[float, float]) -> float:
        """Where the slope along the direction has fallen to a tenth, by regula falsi."""
        first, curvature = penalties
        low, high, t = (0.0, slope), (math.inf, 0.0), 1.0
        for _ in range(12):
            _, G = self.objective.labels.loss(self.outputs + t * change)
            here = float(np.vdot(G, change)) + first + t * curvature
            if abs(here) <= 0.1 * abs(slope):
                break
            low, high = ((t, here), high) if here < 0.0 else (low, (t, here))
            if high[0] == math.inf:
                t = min(4.0 * t, t + max(0.1 * t, -here * t / max(here - slope, 1e-300)))
                continue
            share = low[1] / (low[1] - high[1])
            t = low[0] + float(np.clip(share, 0.1, 0.9)) * (high[0] - low[0])
        return t


def minimised(point: Point, settings: FallbackSettings) -> Point:
    """L-BFGS from a point; where time ends, what there is."""
    memory = int(np.clip(MEMORY_ENTRIES // max(point.V.size, 1), 2, MEMORY))
    least = settings.accuracy * math.log(point.objective.labels.n_classes)
    history: list[tuple[np.ndarray, np.ndarray, float]] = []
    try:
        for _ in range(settings.steps):
            require_time()
            direction = -_inverse_hessian_times(point.gradient, history)
            slope = float(np.vdot(point.gradient, direction))
            if not -slope > (least if len(history) >= ENOUGH else 0.0):
                break
            new, length = point.moved(direction)
            if not math.isfinite(new.loss):
                break
            step, change = length * direction, new.gradient - point.gradient
            point, product = new, float(np.vdot(step, change))
            if product > 0.0:  # as it is for convex functions, but for rounding
                history = [*history[-memory + 1 :], (step, change, product)]
    except OutOfTime:
        pass
    return point


def _inverse_hessian_times(
    gradient: np.ndarray, history: Sequence[tuple[np.ndarray, np.ndarray, float]]
) -> np.ndarray:
    """The two loops of L-BFGS, which begin from the identity: the variables are white."""
    r, factors = gradient.copy(), []
    for step, change, product in reversed(history):
        factor = float(np.vdot(step, r)) / product
        factors.append(factor)
        r -= factor * change
    if history:
        step, change, product = history[-1]
        r *= product / float(np.vdot(change, change))
    for (step, change, product), factor in zip(history, reversed(factors), strict=True):
        r += (factor - float(np.vdot(change, r)) / product) * step
    return r


def _moments(operator: Operator) -> tuple[np.ndarray, np.ndarray]:
    """(mean, standard deviation) of every column, in float64 and without a dense copy."""
    n = operator.shape[0]
    mean = operator.exact_adjoint(np.full(n, 1.0 / n))
    with np.errstate(under="ignore"):
        if isinstance(operator, SparseOperator):
            X = operator.X.tocsc()
            stored = np.diff(X.indptr)
            entries = X.data.astype(np.float64) - np.repeat(mean, stored)
            column = np.repeat(np.arange(mean.size), stored)
            sums = np.bincount(column, weights=entries * entries, minlength=mean.size)
            return mean, np.sqrt((sums + (n - stored) * mean * mean) / n)
        squares = np.zeros(mean.size)
        for part in row_blocks(*operator.shape):
            require_time()
            block = operator.rows(np.arange(part.start, part.stop)) - mean
            squares += np.einsum("ij,ij->j", block, block)
    return mean, np.sqrt(squares / n)


def _sample(codes: np.ndarray, size: int) -> np.ndarray:
    """Rows of all classes in their proportions, at least one of each, in the order of the data."""
    order = np.random.default_rng(0).permutation(codes.size)
    order = order[np.argsort(codes[order], kind="stable")]
    chosen = order[np.linspace(0, codes.size - 1, size).astype(int)]
    return np.union1d(chosen, np.unique(codes, return_index=True)[1])


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
    labels = Labels.of(problem)
    fitting = _Fitting(problem, labels, settings)
    try:
        with until(time.perf_counter() + max(seconds, settings.seconds)), one_thread():
            fitting.run()
    except (OutOfTime, KeyboardInterrupt, np.linalg.LinAlgError):
        pass  # what there is by then
    return fitting.best_of(candidates)


class _Fitting:
    """Our classifier, fitted to a small sample first and to a larger one then, as time allows."""

    def __init__(self, problem: Problem, labels: Labels, settings: FallbackSettings) -> None:
        self.labels, self.settings = labels, settings
        self.operator = problem.operator
        self.fit_intercept = problem.dual_set.fits_intercept
        b = 0.0 if labels.n_outputs == 1 else np.zeros(labels.n_classes)
        self.found = Classifier(problem.constraints.without_slack.zeros(), b)
        self.index = np.arange(labels.codes.size)
        self.outputs: np.ndarray | None = None
        self.is_complete = False

    def run(self) -> None:
        operator, settings = self.operator, self.settings
        n, d = operator.shape
        landmarks = None
        if isinstance(operator, KernelOperator):
            d = min(n, settings.landmarks, max(settings.kernel_values // n, 50))
            landmarks = Landmarks(operator, _sample(self.labels.codes, d))
        enough = (settings.rows + settings.rows_per_column * d) * (1 + self.labels.n_classes) // 3
        width = operator.X.nnz / n if isinstance(operator, SparseOperator) else d
        size = min(n, enough, max(int(settings.entries / max(width, 1.0)), 1000))
        sizes = [size] if size * width <= settings.at_once else [-(-size // 5), size]
        start = None
        for size in sizes:
            index = np.arange(n) if size == n else _sample(self.labels.codes, size)
            rows = _some_rows(operator, index) if landmarks is None else landmarks.features(index)
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
        objective = Objective(columns, self.labels.some(index), self.settings)
        V = np.zeros(objective.shape) if start is None else columns.scaled(*start)
        point = minimised(Point(objective, V, columns.times(V)), self.settings)
        return *columns.unscaled(point.V), point.outputs

    def _keep(self, w: np.ndarray, b: np.ndarray, index: np.ndarray, outputs: np.ndarray) -> None:
        if not (np.isfinite(w).all() and np.isfinite(b).all()):
            raise np.linalg.LinAlgError("the fit overflowed")
        is_single = self.labels.n_outputs == 1
        self.found = Classifier(w[..., 0], float(b[0])) if is_single else Classifier(w, b)
        self.index, self.outputs = index, outputs

    def best_of(self, candidates: Sequence[Candidate]) -> Classifier:
        """Ours, or the candidate that errs less on the rows to which ours was fitted."""
        labels, best = self.labels.some(self.index), self.found
        least = math.inf if self.outputs is None else labels.errors(self.outputs)
        least *= 0.5 if self.is_complete else 1.0
        for candidate in candidates:
            errors = labels.errors(candidate.products[self.index] + candidate.classifier.b)
            if errors < least:
                best, least = candidate.classifier, errors
        return best


class Landmarks:
    """Nyström's features: the rows' images as far as those of some rows span them."""

    def __init__(self, operator: KernelOperator, index: np.ndarray) -> None:
        self.operator, self.index = operator, index
        require_time(float(index.size) ** 3 / 3e10)
        K = operator.block(index, index)
        ridge = RIDGE * float(np.trace(K)) / index.size
        for _ in range(5):
            A = K.copy()
            A.flat[:: index.size + 1] += ridge
            self._factor, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
            if info == 0:
                return
            ridge *= 100.0
        raise np.linalg.LinAlgError("the kernel's matrix is not positive definite")

    def features(self, index: np.ndarray) -> Operator:
        """Those of the named rows."""
        values = self.operator.block(index, self.index)
        return DenseOperator(
            np.ascontiguousarray(lapack.dtrtrs(self._factor, values.T, lower=1)[0].T)
        )

    def combine(self, W: np.ndarray) -> np.ndarray:
        """The classifier of these coefficients, as the operator has it."""
        return self.operator.combine(
            self.index, lapack.dtrtrs(self._factor, W, lower=1, trans=1)[0]
        )


def _some_rows(operator: Operator, index: np.ndarray) -> Operator:
    """An operator of some rows."""
    if index.size == operator.shape[0]:
        return operator
    if isinstance(operator, SparseOperator):
        return SparseOperator(operator.sparse_rows(index))
    return DenseOperator(operator.rows(index))
