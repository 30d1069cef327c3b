"""The classifier for data that nothing separates: logistic regression on standardised columns.

A margin says nothing about such data: the classifier with the least negative margin follows a few
outliers. What is wanted instead is a classifier that errs rarely, on rows not seen yet as well. One
is fitted here by scikit-learn, for two classes or many, with or without intercepts, dense, sparse
or through a kernel, from a sample where rows are many:

    min  C Σ_i ln(1 + exp(−y_i f(x_i))) + ½‖v‖²,   f(x) = v·(x − c)/s + b,

with c the columns' means and s their deviations, so that no column counts more for being written in
smaller units; sparse columns are not centred. With many classes the loss is that of the softmax. C
is in proportion to 1/median‖(x − c)/s‖². The columns of a kernel are coordinates in the span of
some of the rows, the landmarks (Nyström), and are not rescaled.
"""

import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import row_norms

from momentron.arithmetic.clock import OutOfTime, require_time, until
from momentron.certificate import classifier_bounds
from momentron.solvers.loop import Run
from momentron.solvers.problem import Problem
from momentron.status import Predictor

ROWS, ROWS_PER_COLUMN = 4000, 40  # of a sample, per two classes: more would hardly change anything
SECONDS = 0.25  # what the fallback may always take, however short the proof was
C = 10.0  # the weight of the losses, in units of 1/median‖x‖²: one row may be far away
RIDGE = 1e-6  # of the largest eigenvalue, below which directions among the landmarks are damped
TINY = 1e-200  # in the place of a length of 0
FEW_UNKNOWNS = 100  # up to which Newton's method is faster than L-BFGS
STEPS, ROUNDS = 34, 3  # iterations between two looks at the clock, and how often
OPEN = 0.1  # the gap of a soft margin above which its classifier may be worse than the fallback
COMPARED = 2000  # rows that were not in the sample on which it is compared with another


class SampleSize(NamedTuple):
    """At most this many numbers, landmarks of a kernel, and values of the kernel for these."""

    entries: int
    landmarks: int
    kernel_values: int


FIRST = SampleSize(500_000, 150, 2_000_000)  # fitted in any case: there always is a classifier
FULL = SampleSize(30_000_000, 1000, 20_000_000)


class Classifier(NamedTuple):
    """w as the problem has it, without slack, and b: a number, or one per class."""

    w: np.ndarray
    b: Any
    predictor: Predictor = Predictor.BEST_SO_FAR


class Choice(NamedTuple):
    """A classifier in the user's units, with a proven lower bound on its own margin."""

    coef: np.ndarray
    intercept: Any
    margin: float
    predictor: Predictor = Predictor.BEST_SO_FAR


def fallback(
    problem: Problem,
    *,
    seconds: float = math.inf,
    own: Classifier | None = None,
    handicap: float = 0.5,
    codes: np.ndarray | None = None,
) -> Classifier:
    """The classifier to use where no positive margin is known.

    Parameters
    ----------
    problem : Problem
        In memory; a slack, if there is one, is left aside.
    seconds : float
        What it may take. A deadline in force is kept too, and Ctrl-C obeyed: what is found by then
        is compared.
    own : Classifier, optional
        One that is already known: compared by its errors on rows to which ours was not fitted, if
        there are any.
    handicap : float
        It is returned if its errors are fewer than this share of ours: smaller differences say
        little about new rows. Where ours was cut short, it is returned if it errs less at all.
    codes : ndarray of shape (n,), optional
        Three or more classes of the rows, each to be told from the rest: w[..., c] and b[c], from
        one sample. `problem` is that of any class, since rows and weights are the same for all.
    """
    fitting = _Fitting(problem, codes)
    first, enough = fitting.sizes(FIRST), fitting.sizes(FULL)
    try:
        with until(math.inf, is_later=True):
            fitting.fit(*first)
        with until(time.perf_counter() + seconds):
            if enough != first:
                fitting.fit(*enough)
            require_time()
    except (OutOfTime, KeyboardInterrupt, np.linalg.LinAlgError):
        handicap = 1.0  # what there is by then
    if own is None:
        return fitting.found
    index = np.arange(problem.n_rows)
    others = np.setdiff1d(index, fitting.index, assume_unique=True)
    if others.size:
        index = others[:: -(-others.size // COMPARED)]
    least = handicap * fitting.errors(index, fitting.found)
    return own if fitting.errors(index, own) < least else fitting.found


def sample(codes: np.ndarray, size: int) -> np.ndarray:
    """Random rows in the order of the data, at least one of each class."""
    n = codes.size
    if size >= n:
        return np.arange(n)
    chosen = np.random.default_rng(0).choice(n, size, replace=False, shuffle=False)
    is_there = np.bincount(codes[chosen], minlength=codes.max() + 1) > 0
    missing = [int(np.argmax(codes == c)) for c in np.flatnonzero(~is_there)]
    return np.sort(np.append(chosen, np.array(missing, np.intp)))


def _regression(
    X: Any, codes: np.ndarray, weights: np.ndarray, C: float, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(W of shape (d, outputs), b) of a logistic regression; it ends where time does."""
    unknowns = X.shape[1] * (codes.max() + 1)
    model = LogisticRegression(
        C=C,
        fit_intercept=fit_intercept,
        tol=1e-3,
        solver="newton-cholesky" if unknowns <= FEW_UNKNOWNS else "lbfgs",
        max_iter=STEPS,
        warm_start=True,
    )
    for _ in range(ROUNDS):
        require_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what has not converged yet
            model.fit(X, codes, np.minimum(weights, np.finfo(X.dtype).max))
        if model.n_iter_.max() < STEPS:
            break
    return model.coef_.T, model.intercept_


class _Fitting:
    """Our classifier, fitted to a small sample first, and to a larger one then if time allows."""

    def __init__(self, problem: Problem, codes: np.ndarray | None) -> None:
        self.operator, self.is_split = problem.operator, codes is not None
        self.codes = codes = problem.labels.codes if codes is None else codes
        self.n_classes = n_classes = int(codes.max()) + 1
        self.weights = np.ones(codes.size) if problem.weights is None else problem.weights
        self.fit_intercept, self.is_single = problem.dual_set.fits_intercept, n_classes == 2
        shares = np.bincount(codes, self.weights, minlength=n_classes)
        b = np.log(np.maximum(shares / shares.max(), 1e-300)) * float(self.fit_intercept)
        w = self.operator.zeros(*(() if self.is_single else (n_classes,)))
        self.found = Classifier(w, float(b[1] - b[0]) if self.is_single else b, Predictor.CONSTANT)
        self.index = np.arange(0)  # the rows to which it was fitted

    def sizes(self, most: SampleSize) -> tuple[int, int]:
        """(rows of a sample, landmarks of a kernel in it)."""
        n, d = self.operator.shape
        matrix, n_landmarks, width = self.operator.as_matrix(), 0, float(d)
        if matrix is None:
            n_landmarks = d = min(n, most.landmarks, max(most.kernel_values // n, 10))
            width = float(d)
        elif matrix.is_sparse:
            width = max(1.0, matrix.X.nnz / n)
        enough = (ROWS + ROWS_PER_COLUMN * d) * (1 + self.n_classes) // 3
        return min(n, enough, max(int(most.entries / width), 10)), n_landmarks

    def fit(self, size: int, n_landmarks: int) -> None:
        """Keep the classifier that is fitted to a sample."""
        kernel, has_intercept = self.operator.as_kernel(), self.fit_intercept
        index, landmarks = sample(self.codes, size), sample(self.codes, n_landmarks)
        X, basis = self._columns(index, landmarks)
        has_mean = has_intercept and not sp.issparse(X)
        scaler = StandardScaler(with_mean=has_mean, with_std=kernel is None, copy=False)
        X = scaler.fit_transform(X)
        strength = C / max(float(np.median(row_norms(X, squared=True))), TINY)
        codes, weights = self.codes[index], self.weights[index]
        questions = [codes == c for c in range(self.n_classes)] if self.is_split else [codes]
        fits = [_regression(X, one, weights, strength, has_intercept) for one in questions]
        W = np.hstack([coef for coef, _ in fits]).astype(float)
        b = np.hstack([intercept for _, intercept in fits])
        if kernel is None:
            W /= scaler.scale_[:, None]
        if has_mean:
            b = b - scaler.mean_ @ W
        w = W if kernel is None else kernel.combine(landmarks, basis @ W)
        if not (np.isfinite(w).all() and np.isfinite(b).all()):
            raise np.linalg.LinAlgError("the fit overflowed")
        if self.is_single:
            w, b = w[..., 0], b[0]
        kind = Predictor.LOGISTIC if W.any() else Predictor.CONSTANT
        self.found, self.index = Classifier(w, b, kind), index

    def _columns(self, index: np.ndarray, landmarks: np.ndarray) -> tuple[Any, np.ndarray]:
        """(the named rows, which may be written to, the coefficients of the landmarks in each)."""
        kernel, matrix = self.operator.as_kernel(), self.operator.as_matrix()
        if kernel is not None:
            gram = np.array(kernel.block(landmarks, landmarks), np.float64)
            lengths = np.sqrt(np.maximum(gram.diagonal(), TINY))
            values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
            damped = np.sqrt(np.maximum(values, RIDGE * values[-1] + TINY))
            basis = vectors / np.outer(lengths, damped)
            return kernel.block(index, landmarks) @ basis, basis
        assert matrix is not None, "rows are those of a matrix or of a kernel"
        X = matrix.X[index]
        if sp.issparse(X) and X.shape[0] * X.shape[1] <= FIRST.entries:
            X = X.toarray()  # few enough to be centred as dense ones are
        if not (sp.issparse(X) or isinstance(matrix.X, np.ndarray)):
            X = np.array(X)  # computed rows may be a view of the user's own
        return X, np.empty(0)

    def errors(self, index: np.ndarray, of: Classifier) -> float:
        """The weight of the named rows that a classifier puts into a wrong class."""
        outputs = self.operator.products_at(index, of.w) + of.b
        predicted = outputs > 0.0 if self.is_single else outputs.argmax(axis=1)
        return float(self.weights[index] @ (predicted != self.codes[index]))


# --- as users see it -----------------------------------------------------------------------------


def fallback_choice(
    problem: Problem, outcome: Run, own: Classifier | None = None, *, handicap: float = 0.5
) -> Choice:
    """The fallback at unit length, or the method's own classifier if that errs much less.

    The problem may be that of some of the rows; nothing is known of the margin then. It takes no
    longer than the proof took, or `SECONDS` if that is more.
    """
    usable = in_time(outcome, lambda: _usable(problem, own), None)
    with until(outcome.closing):
        seconds = max(outcome.seconds, SECONDS)
        found = fallback(problem, seconds=seconds, own=usable, handicap=handicap)
    w, b = problem.to_unit_length(found.w, found.b)
    has_all = problem.n_rows == outcome.problem.n_rows
    margin = 0.0 if has_all else -math.inf
    if w.any() and has_all:
        margin = in_time(outcome, lambda: classifier_bounds(problem, w, b)[0], -math.inf)
    return Choice(*problem.in_units_of_x(w, b), margin, found.predictor)


def _usable(problem: Problem, own: Classifier | None) -> Classifier | None:
    """The method's own classifier, if it is any, with the best intercepts where it names none."""
    w = np.zeros(0) if own is None else np.asarray(own.w, np.float64)
    if own is None or not (np.isfinite(w).all() and w.any()):
        return None
    w, b = problem.to_unit_length(w, 0.0 if own.b is None else own.b)
    w = problem.operator.recomputed(w)
    if own.b is None:
        b = problem.best_intercept(problem.labels.scores(problem.operator.scores_in_double(w)))
    return Classifier(w, b)


def in_time(outcome: Run, compute: Callable[[], Any], default: Any) -> Any:
    """What is computed before the result must be there; the default if time or Ctrl-C ends it."""
    try:
        with until(outcome.closing):
            return compute()
    except (OutOfTime, KeyboardInterrupt):
        return default
