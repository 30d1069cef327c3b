"""The classifier for data that nothing separates: logistic regression on standardised columns.

A margin says nothing about such data: the classifier with the least negative margin follows a few
outliers. What is wanted instead is a classifier that errs rarely, on rows not seen yet as well. One
is computed here, for two classes or many, with or without intercepts, dense, sparse or through a
kernel, from a sample where rows are many:

    min  C Σ_i ln(1 + exp(−y_i f(x_i))) + ½‖v‖²,   f(x) = v·(x − c)/s + b,

with c the columns' means and s their deviations, so that no column counts more for being written in
smaller units; sparse columns are not centred. With many classes the loss is that of the softmax. C
is in proportion to 1/mean‖(x − c)/s‖². The minimiser is found by L-BFGS in variables in which the
sample is white. The columns of a kernel are its values for some of the rows, the landmarks.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.utils.sparsefuncs import inplace_column_scale, mean_variance_axis

from momentron.arithmetic.clock import OutOfTime, regardless, require_time, until
from momentron.solvers.problem import Problem
from momentron.status import Predictor

ROWS, ROWS_PER_COLUMN = 4000, 40  # of a sample, per two classes: more would hardly change anything
SECONDS = 0.25  # what the fallback may always take, however short the proof was
C = 10.0  # the weight of the losses, in units of 1/mean‖x‖² of the standardised rows
ACCURACY = 1e-4  # L-BFGS ends where a step lowers the mean loss by no more than this
MEMORY, MEMORY_ENTRIES = 10, 20_000_000  # steps that L-BFGS remembers, and numbers in their list
WHITENED = 1500  # columns up to which a sample is whitened; above, standardised columns have to do
CONSTANT, TINY = 1e-12, 1e-30  # relative to their mean, or to the most, that columns must vary
DIFFERENT = 10  # columns of a kernel, which are nearly collinear, count as at most this many
COMPARED = 2000  # rows that were not in the sample on which it is compared with candidates


class SampleSize(NamedTuple):
    """At most this many numbers, landmarks of a kernel, and values of the kernel for these."""

    entries: int
    landmarks: int
    kernel_values: int


FIRST = SampleSize(500_000, 150, 2_000_000)  # fitted in any case: there always is a classifier
FULL = SampleSize(30_000_000, 1000, 20_000_000)


@dataclass(frozen=True, eq=False)
class Classifier:
    """w as the problem has it, without slack, and b: a number, or one per class."""

    w: np.ndarray
    b: Any
    predictor: Predictor = Predictor.BEST_SO_FAR

    def __iter__(self) -> Iterator[Any]:
        return iter((self.w, self.b))


class Candidate(NamedTuple):
    """A classifier that is already known, with the products Xw of all rows."""

    classifier: Classifier
    products: np.ndarray


def fallback(
    problem: Problem,
    *,
    seconds: float = math.inf,
    candidates: Sequence[Candidate] = (),
    handicap: float = 0.5,
) -> Classifier:
    """The classifier to use where no positive margin is known.

    Parameters
    ----------
    problem : Problem
        In memory; a slack, if there is one, is left aside.
    seconds : float
        What the proof took; the fallback takes no longer, or `SECONDS` if that is more. A deadline
        in force is kept too, and Ctrl-C obeyed: what is found by then is compared.
    candidates : sequence of Candidate
        Known classifiers, compared by their errors on rows to which ours was not fitted, if any.
    handicap : float
        A candidate is returned if its errors are fewer than this share of ours: smaller differences
        say little about new rows. Where ours was cut short, it is returned if it errs less at all.
    """
    labels = problem.labels
    fitting = _Fitting(problem, Loss(labels.codes, labels.n_classes, problem.weights))
    fitting.run_for(max(seconds, SECONDS))
    return fitting.best_of(candidates, handicap) if candidates else fitting.found


def fallback_against_rest(
    problem: Problem, codes: np.ndarray, n_classes: int, *, seconds: float
) -> Classifier:
    """Classifiers of every class against the rest, w[..., c] and b[c], for the cost of one.

    `problem` is the problem of any class: rows and weights are the same for all. `codes`
    are the classes of the rows, three or more, and `seconds` what it may take at most.
    """
    fitting = _Fitting(problem, Loss(codes, n_classes, problem.weights, is_split=True))
    fitting.run_for(seconds)
    return fitting.found


class Loss:
    """The loss of outputs of shape (n, 1) or (n, k), given the classes of the rows.

    For two classes it is logistic, for many the softmax loss; `is_split` asks for the sum of the
    logistic losses of every class against the rest. Rows count by their weights.
    """

    def __init__(
        self,
        codes: np.ndarray,
        n_classes: int,
        weights: np.ndarray | None = None,
        *,
        is_split: bool = False,
    ) -> None:
        self.codes, self.n_classes, self.is_split = codes, n_classes, is_split
        self.weights = np.ones(codes.size) if weights is None else weights
        self.mass = float(self.weights.sum())
        self.n_outputs = 1 if n_classes == 2 else n_classes
        positive = np.arange(n_classes) if is_split else np.ones(1)
        self._signs = np.where(codes[:, None] == positive, 1.0, -1.0)
        self._is_softmax = self.n_outputs > 1 and not is_split
        # of a loss at outputs zero: p(1 − p) at p = 1/2 or 1/k
        self.curvature = (n_classes - 1) / n_classes**2 if self._is_softmax else 0.25

    def some(self, index: np.ndarray) -> "Loss":
        """For some of the rows."""
        codes, weights = self.codes[index], self.weights[index]
        return Loss(codes, self.n_classes, weights, is_split=self.is_split)

    def at(self, F: np.ndarray) -> tuple[float, np.ndarray]:
        """(the mean loss, its derivative by each output)."""
        shares = self.weights / self.mass
        if self._is_softmax:
            own = np.arange(self.codes.size), self.codes
            logs = log_softmax(F, axis=1)
            losses, slopes = -logs[own], np.exp(logs)
            slopes[own] -= 1.0
        else:
            margins = self._signs * F
            losses = np.logaddexp(0.0, -margins).sum(axis=1)
            slopes = -self._signs * expit(-margins)
        return float(shares @ losses), slopes * shares[:, None]

    def errors(self, F: np.ndarray) -> float:
        """The share of rows that the outputs put into a wrong class."""
        predicted = F.ravel() > 0.0 if self.n_outputs == 1 else F.argmax(axis=1)
        return float(self.weights @ (predicted != self.codes)) / self.mass


def sample(codes: np.ndarray, size: int) -> np.ndarray:
    """Random rows in the order of the data, at least one of each class."""
    n = codes.size
    if size >= n:
        return np.arange(n)
    chosen = np.random.default_rng(0).choice(n, size, replace=False, shuffle=False)
    is_there = np.bincount(codes[chosen], minlength=codes.max() + 1) > 0
    missing = [int(np.argmax(codes == c)) for c in np.flatnonzero(~is_there)]
    return np.sort(np.append(chosen, np.array(missing, np.intp)))


def _standardised(rows: Any, fit_intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """(centre, scale) of the columns; the rows become (rows − centre)/scale, 0 where constant."""
    if sp.issparse(rows):
        mean, variance = mean_variance_axis(rows, axis=0)
        scale = np.sqrt(variance if fit_intercept else variance + mean * mean)
        centre = np.zeros(scale.size)
    else:
        centre = rows.mean(axis=0, dtype=np.float64) * float(fit_intercept)
        rows -= centre.astype(rows.dtype)
        scale = np.sqrt(np.einsum("ij,ij->j", rows, rows, dtype=np.float64) / rows.shape[0])
    varies = scale > np.maximum(CONSTANT * np.abs(centre), TINY * scale.max(initial=0.0))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=varies).astype(rows.dtype)
    if sp.issparse(rows):
        inplace_column_scale(rows, inverse)
    else:
        rows *= inverse
    return centre, np.where(varies, scale, np.inf)


def _minimised(X: Any, loss: Loss, penalty: float, fit_intercept: bool) -> np.ndarray:
    """V of shape (d + 1, outputs) with the least penalised mean loss, intercepts in the last row.

    The variables are L^T V, where L L^T is the Hessian at V = 0, as some of the rows have it.
    """
    d = X.shape[1]
    shape = (d + 1, loss.n_outputs)
    ridge = np.full((d + 1, 1), penalty)
    ridge[d] = 0.0 if fit_intercept else 1.0
    factor = np.eye(0)
    if d <= WHITENED:
        rows = X[sample(loss.codes, 1000 + 3 * d)]
        rows = rows.toarray() if sp.issparse(rows) else rows
        rows = np.hstack([rows, np.full((rows.shape[0], 1), float(fit_intercept))], dtype=float)
        require_time(float(rows.shape[0]) * d**2 / 1e10)
        H = rows.T @ rows / rows.shape[0]
        diagonal = H.ravel()[:: d + 2]  # a view
        diagonal += np.maximum(1.0 - diagonal, 1e-6)  # columns that hardly vary in the sample
        H *= loss.curvature
        diagonal += ridge[:, 0]
        factor = cholesky(H, lower=True, check_finite=False)

    def solved(A: np.ndarray, trans: int) -> np.ndarray:
        if not factor.size:
            return A
        return np.asarray(solve_triangular(factor, A, lower=True, trans=trans, check_finite=False))

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        require_time()
        V = solved(u.reshape(shape), 1)
        mean_loss, G = loss.at(X @ V[:d].astype(X.dtype) + V[d] * float(fit_intercept))
        sums = G.sum(axis=0) * float(fit_intercept)
        gradient = np.vstack([X.T @ G.astype(X.dtype), sums]) + ridge * V
        return mean_loss + 0.5 * float(np.sum(ridge * V * V)), solved(gradient, 0).ravel()

    memory = int(np.clip(MEMORY_ENTRIES // math.prod(shape), 2, MEMORY))
    options = {"maxiter": 100, "ftol": ACCURACY, "gtol": 0.0, "maxcor": memory}
    start = np.zeros(math.prod(shape))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return solved(found.x.reshape(shape), 1)


class _Fitting:
    """Our classifier, fitted to a small sample first, and to a larger one then if time allows."""

    def __init__(self, problem: Problem, loss: Loss) -> None:
        self.loss, self.operator = loss, problem.operator
        self.fit_intercept = problem.dual_set.fits_intercept
        shares = np.bincount(loss.codes, loss.weights, minlength=loss.n_classes)
        b = np.log(np.maximum(shares / shares.max(), 1e-300)) * float(self.fit_intercept)
        is_single = loss.n_outputs == 1
        w = self.operator.zeros() if is_single else self.operator.zeros(loss.n_outputs)
        self.found = Classifier(w, float(b[1] - b[0]) if is_single else b, Predictor.CONSTANT)
        self.index = np.arange(0)  # the rows to which it was fitted
        self.is_complete = False

    def run_for(self, seconds: float) -> None:
        """Fit for at most this long, or until the deadline in force, or Ctrl-C."""
        first, enough = self._sizes(FIRST), self._sizes(FULL)
        try:
            with regardless():
                self._fit(*first)
            with until(time.perf_counter() + seconds):
                if enough != first:
                    self._fit(*enough)
                require_time()
            self.is_complete = True
        except (OutOfTime, KeyboardInterrupt, np.linalg.LinAlgError):
            pass  # what there is by then

    def _sizes(self, most: SampleSize) -> tuple[int, int]:
        """(rows of a sample, landmarks of a kernel in it)."""
        n, d = self.operator.shape
        matrix, n_landmarks, width = self.operator.as_matrix(), 0, float(d)
        if matrix is None:
            n_landmarks = d = min(n, most.landmarks, max(most.kernel_values // n, 10))
            width = float(d)
        elif matrix.is_sparse:
            width = max(1.0, matrix.X.nnz / n)
        enough = (ROWS + ROWS_PER_COLUMN * d) * (1 + self.loss.n_classes) // 3
        return min(n, enough, max(int(most.entries / width), 10)), n_landmarks

    def _fit(self, size: int, n_landmarks: int) -> None:
        """Keep the classifier that is fitted to a sample."""
        kernel, matrix = self.operator.as_kernel(), self.operator.as_matrix()
        index = sample(self.loss.codes, size)
        landmarks = sample(self.loss.codes, n_landmarks)
        if kernel is not None:
            X: Any = np.array(kernel.block(index, landmarks))
        else:
            assert matrix is not None, "rows are those of a matrix or of a kernel"
            X = matrix.X[index]
            if not (sp.issparse(X) or isinstance(matrix.X, np.ndarray)):
                X = np.array(X)  # computed rows may be a view of the user's own
        centre, scale = _standardised(X, self.fit_intercept)
        loss, most = self.loss.some(index), X.shape[1] if kernel is None else DIFFERENT
        square = max(1.0, min(most, float(np.isfinite(scale).sum())))  # mean‖x‖²
        V = _minimised(X, loss, square / (C * loss.mass), self.fit_intercept)
        W = V[:-1] / scale[:, None]
        b = (V[-1] - centre @ W) * float(self.fit_intercept)
        w = W if kernel is None else kernel.combine(landmarks, W)
        if not (np.isfinite(w).all() and np.isfinite(b).all()):
            raise np.linalg.LinAlgError("the fit overflowed")
        if self.loss.n_outputs == 1:
            w, b = w[..., 0], float(b[0])
        kind = Predictor.LOGISTIC if W.any() else Predictor.CONSTANT
        self.found, self.index = Classifier(w, b, kind), index

    def best_of(self, candidates: Sequence[Candidate], handicap: float) -> Classifier:
        """Ours, or the candidate that errs less on rows to which ours was not fitted, if any."""
        best, index = self.found, np.arange(self.loss.codes.size)
        others = np.setdiff1d(index, self.index, assume_unique=True)
        if others.size:
            index = others[:: -(-others.size // COMPARED)]
        loss = self.loss.some(index)
        outputs = self.operator.products_at(index, best.w).reshape(index.size, -1) + best.b
        least = loss.errors(outputs) * (handicap if self.is_complete else 1.0)
        for candidate in candidates:
            errors = loss.errors(candidate.products[index] + candidate.classifier.b)
            if errors < least:
                best, least = candidate.classifier, errors
        return best
