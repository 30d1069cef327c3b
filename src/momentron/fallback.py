"""The classifier for data that nothing separates: logistic regression on standardised columns.

A margin says nothing about such data: the classifier with the least negative margin follows a few
outliers. What is wanted instead is a classifier that errs rarely, on new rows as well. It is
computed here, for two classes or many, with or without intercepts, dense, sparse or through a
kernel, from a sample where rows are many:

    min  C Σ_i ln(1 + exp(−y_i f(x_i))) + ½‖v‖²,   f(x) = v·(x − c)/s + b,

with c the columns' means and s their deviations, so that no column counts more for being written in
smaller units. With many classes the loss is that of the softmax. C is in proportion to
1/mean‖(x − c)/s‖². The minimiser is found by scipy's L-BFGS in variables in which the sample is
white: a fifth of the iterations that scikit-learn's LogisticRegression needs for the same errors.
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.utils.sparsefuncs import mean_variance_axis

from momentron.clock import OutOfTime, require_time, until
from momentron.environment import standard_arithmetic
from momentron.operators import DenseOperator, KernelOperator, MatrixOperator, SparseOperator
from momentron.problem import Problem
from momentron.threads import one_thread

C = 10.0  # the weight of the losses, in units of 1/mean‖x‖² of the standardised rows
ACCURACY = 3e-4  # L-BFGS ends where a step lowers the mean loss by no more than this share of ln k
STEPS = 100  # of L-BFGS, at most
WHITENED = 1500  # columns up to which a sample is whitened; above, standardised columns have to do
MEMORY = 20_000_000  # numbers in each of the two lists that L-BFGS keeps, at most
AT_HAND = 1_000_000  # numbers in the sample whose means classify where time was over at once
COMPARED = 2000  # rows outside the sample on which it is compared with candidates
KERNEL_VALUES = 20_000_000  # at most, for the landmarks of a kernel
SECONDS = 0.25  # what a fit may always take, however short the proof was
LEAST = 1e-30  # columns that deviate less, relative to the most or at all, are constant
RIDGE = 1e-10  # added to the diagonal of a kernel's matrix, in units of its mean


@dataclass(frozen=True)
class FallbackSettings:
    """What the fallback may spend.

    Attributes
    ----------
    rows, rows_per_column : int
        A sample has at most rows + rows_per_column · d of them per two classes: more would hardly
        change the classifier.
    entries : int
        The largest number of entries in the sample, which bounds its memory.
    at_once : int
        Entries from which a fifth of the sample is fitted first, so that time cannot run out before
        there is a classifier.
    landmarks : int
        A kernel's classifier is made of the images of this number of rows, or of fewer.
    """

    rows: int = 4000
    rows_per_column: int = 40
    entries: int = 50_000_000
    at_once: int = 3_000_000
    landmarks: int = 1000


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
    settings: FallbackSettings = FallbackSettings(),
) -> Classifier:
    """The classifier to use where no positive margin is known.

    Parameters
    ----------
    problem : Problem
        In memory; a slack, if there is one, is left aside.
    seconds : float
        What the proof took; the fallback takes no longer, or 0.25 s if that is more. A deadline in
        force is kept too, and Ctrl-C obeyed: what is found by then is compared.
    candidates : sequence of Candidate
        Classifiers at hand, compared by their errors on the training rows.
    handicap : float
        A candidate is returned if its errors are below this share of ours: smaller differences say
        little about new rows. Where our fit was cut short, it is returned if it errs less at all.
    """
    fitting = _Fitting(problem, settings)
    try:
        with until(time.perf_counter() + max(seconds, SECONDS)), one_thread():
            fitting.run()
    except (OutOfTime, KeyboardInterrupt, LinAlgError):
        pass  # what there is by then
    return fitting.best_of(candidates, handicap)


class _Fitting:
    """Our classifier, fitted to a small sample first and then to a larger one, as time allows."""

    def __init__(self, problem: Problem, settings: FallbackSettings) -> None:
        labels = problem.constraints.labels
        self.codes, self.n_classes = labels.codes, labels.n_classes
        self.weights = problem.weights
        self.settings = settings
        self.operator = problem.operator
        self.fit_intercept = problem.dual_set.fits_intercept
        b = 0.0 if self.n_classes == 2 else np.zeros(self.n_classes)
        self.found = Classifier(problem.constraints.base.zeros(), b)
        self.index = np.arange(self.codes.size)  # the rows to which it was fitted
        self.is_fitted = self.is_complete = False

    def run(self) -> None:
        """Fit, and keep what is found on the way; nothing where rows can only be multiplied."""
        n, settings = self.codes.size, self.settings
        kernel, matrix = self.operator.as_kernel(), self.operator.as_matrix()
        rows: _Landmarks | _PlainRows
        if kernel is not None:
            size = min(n, settings.landmarks, max(KERNEL_VALUES // n, 50))
            rows = _Landmarks(kernel, sample(self.codes, size))
        elif matrix is not None:
            rows = _PlainRows(matrix)
        else:
            return
        enough = settings.rows + settings.rows_per_column * rows.n_columns
        size = min(n, enough * (1 + self.n_classes) // 3)
        size = min(size, max(int(settings.entries / max(rows.width, 1.0)), 1000))
        start = None
        for share in (1,) if size * rows.width <= settings.at_once else (5, 1):
            index = np.arange(n) if size == n * share else sample(self.codes, -(-size // share))
            require_time()
            columns = _Columns(rows.some(index), self.fit_intercept, rows.are_alike)
            weights = None if self.weights is None else self.weights[index]
            loss = _Loss(self.codes[index], self.n_classes, weights)
            start = W, b = _minimised(columns, loss, start)
            self._keep(rows.combine(W), b)
            self.index, self.is_fitted = index, True
        require_time()
        self.is_complete = True

    def _keep(self, w: np.ndarray, b: np.ndarray) -> None:
        if not (np.isfinite(w).all() and np.isfinite(b).all()):
            raise LinAlgError("the fit overflowed")
        is_single = self.n_classes == 2
        self.found = Classifier(w[..., 0], float(b[0])) if is_single else Classifier(w, b)

    def best_of(self, candidates: Sequence[Candidate], handicap: float) -> Classifier:
        """Ours, or the candidate that errs less on rows to which ours was not fitted, if any."""
        if not candidates:
            if not self.is_fitted:
                self._take_means()
            return self.found
        index, best, least = self.index, self.found, math.inf
        if self.is_fitted:
            if index.size < self.codes.size:
                others = np.setdiff1d(np.arange(self.codes.size), index, assume_unique=True)
                index = others[:: -(-others.size // COMPARED)]
            least = self._errors(index, self.operator.products_at(index, best.w) + best.b)
            least *= handicap if self.is_complete else 1.0
        for candidate in candidates:
            errors = self._errors(index, candidate.products[index] + candidate.classifier.b)
            if errors < least:
                best, least = candidate.classifier, errors
        return best

    def _errors(self, index: np.ndarray, outputs: np.ndarray) -> float:
        """The share of rows that the outputs put into a wrong class."""
        found = outputs > 0.0 if self.n_classes == 2 else outputs.argmax(axis=1)
        weights = None if self.weights is None else self.weights[index]
        return float(np.average(found != self.codes[index], weights=weights))

    def _take_means(self) -> None:
        """The nearest mean of a class, where time was over before the first fit; asks no clock."""
        matrix, k = self.operator.as_matrix(), self.n_classes
        if matrix is None:
            return
        index = sample(self.codes, max(AT_HAND // max(matrix.shape[1], 1), k))
        rows, codes = matrix.rows(index), self.codes[index]
        squares = np.var(rows, axis=0) if self.fit_intercept else np.mean(rows**2, axis=0)
        inverse = np.divide(1.0, squares, out=np.zeros_like(squares), where=squares > 0.0)
        means = np.stack([rows[codes == c].mean(axis=0) for c in range(k)], axis=1)
        W = inverse[:, None] * means
        b = -0.5 * np.einsum("ij,ij->j", W, means) if self.fit_intercept else np.zeros(k)
        if np.isfinite(W).all() and np.isfinite(b).all():
            self._keep(*((W[:, 1:] - W[:, :1], b[1:] - b[:1]) if k == 2 else (W, b)))


def sample(codes: np.ndarray, size: int) -> np.ndarray:
    """Rows of all classes in their proportions, at least one of each, in the order of the data."""
    rng, n = np.random.default_rng(0), codes.size
    short = codes.astype(np.uint16) if codes.max() < 2**16 else codes  # which sort faster
    by_class = np.split(np.argsort(short, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    parts = []
    for rows in by_class:
        share = min(rows.size, max(1, round(size * rows.size / n)))
        parts.append(rng.choice(rows, share, replace=False))
    return np.sort(np.concatenate(parts))


# --- rows ----------------------------------------------------------------------------------------


class _PlainRows:
    """The rows of a matrix; `width` is the mean number of entries that are stored for a row."""

    are_alike = False

    def __init__(self, operator: MatrixOperator) -> None:
        self.operator = operator
        n, self.n_columns = operator.shape
        self.width = operator.X.nnz / n if operator.is_sparse else float(self.n_columns)

    def some(self, index: np.ndarray) -> Any:
        """A copy of the rows in float64, sparse where the matrix is."""
        if self.operator.is_sparse:
            return self.operator.some(index).X.tocsr().astype(np.float64)
        return np.require(self.operator.rows(index), requirements=["C", "W"])

    def combine(self, W: np.ndarray) -> np.ndarray:
        """The classifier of these coefficients, as the problem's operator has it."""
        return W


class _Landmarks:
    """Nyström's features: the rows' images as far as those of some rows span them."""

    are_alike = True  # columns have no meaning one by one

    def __init__(self, operator: KernelOperator, index: np.ndarray) -> None:
        self.operator, self.index = operator, index
        self.n_columns, self.width = index.size, float(index.size)
        require_time(float(index.size) ** 3 / 3e10)
        K = operator.block(index, index)
        ridge = RIDGE * float(np.trace(K)) / index.size
        for power in range(5):
            try:
                self._factor = cholesky(K + 100.0**power * ridge * np.eye(index.size), lower=True)
                return
            except LinAlgError:
                continue  # a larger ridge
        raise LinAlgError("the kernel's matrix is not positive definite")

    def some(self, index: np.ndarray) -> np.ndarray:
        """The features of the rows."""
        values = self.operator.block(index, self.index)
        return np.ascontiguousarray(solve_triangular(self._factor, values.T, lower=True).T)

    def combine(self, W: np.ndarray) -> np.ndarray:
        """The classifier of these coefficients, as the problem's operator has it."""
        return self.operator.combine(
            self.index, solve_triangular(self._factor, W, lower=True, trans=1)
        )


class _Columns:
    """Standardised rows with a column of ones for the intercepts, if any.

    Dense rows are centred; sparse ones stay as sparse as they are, since intercepts do the same.
    """

    def __init__(self, rows: Any, fit_intercept: bool, are_alike: bool) -> None:
        """`rows` are overwritten. `are_alike` gives all columns one scale.

        It is that of the median row, since images of outliers may be very long.
        """
        self.fit_intercept = fit_intercept
        is_dense = isinstance(rows, np.ndarray)
        self.centre = np.zeros(rows.shape[1])
        with np.errstate(under="ignore"):
            if is_dense:
                if fit_intercept:
                    self.centre = rows.mean(axis=0)
                    rows -= self.centre
                scale = np.sqrt(np.einsum("ij,ij->j", rows, rows) / rows.shape[0])
            else:
                mean, variance = mean_variance_axis(rows, axis=0)
                scale = np.sqrt(variance if fit_intercept else variance + mean * mean)
            if are_alike:
                scale = np.full(scale.size, np.median(np.linalg.norm(rows, axis=1)))
        varies = scale > LEAST * max(1.0, float(scale.max(initial=0.0)))
        self.inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=varies)
        self.square = 1.0 if are_alike else max(1.0, float(varies.sum()))  # mean‖x‖²
        if is_dense:
            rows *= self.inverse
            self.operator: MatrixOperator = DenseOperator(rows)
        else:
            rows.data *= self.inverse[rows.indices]
            self.operator = SparseOperator(rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Those of the rows with the column of ones."""
        n, d = self.operator.shape
        return n, d + self.fit_intercept

    def times(self, V: np.ndarray) -> np.ndarray:
        """The outputs of all rows."""
        d = self.operator.shape[1]
        outputs = self.operator.apply(np.ascontiguousarray(V[:d]))
        return outputs + V[d] if self.fit_intercept else outputs

    def adjoint(self, G: np.ndarray) -> np.ndarray:
        """The gradient by V, given that by the outputs."""
        gradient = self.operator.adjoint(G)
        return np.vstack([gradient, G.sum(axis=0)]) if self.fit_intercept else gradient

    def gram(self, index: np.ndarray) -> np.ndarray:
        """The mean of x xᵀ over some rows, intercepts included."""
        rows = self.operator.rows(index)
        if self.fit_intercept:
            rows = np.hstack([rows, np.ones((index.size, 1))])
        return rows.T @ rows / index.size

    def unscaled(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) for the rows as they were."""
        W = self.inverse[:, None] * V[: self.inverse.size]
        b = V[-1] if self.fit_intercept else np.zeros(V.shape[1])
        return W, b - self.centre @ W

    def scaled(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """V, for columns that vary."""
        inverse = self.inverse[:, None]
        V = np.divide(W, inverse, out=np.zeros_like(W), where=inverse > 0.0)
        return np.vstack([V, b + self.centre @ W]) if self.fit_intercept else V


# --- logistic regression -------------------------------------------------------------------------


class _Loss:
    """The mean logistic loss of outputs of shape (n, 1) or (n, k), by the weights of the rows."""

    def __init__(self, codes: np.ndarray, n_classes: int, weights: np.ndarray | None) -> None:
        self.codes, self.n_classes = codes, n_classes
        weights = np.ones(codes.size) if weights is None else weights
        self.mass = float(weights.sum())
        self.n_outputs = 1 if n_classes == 2 else n_classes
        # of a loss at outputs zero: p(1 − p) at p = 1/k
        self.curvature = (n_classes - 1) / n_classes**2
        self._shares = (weights / self.mass)[:, None]
        self._signs = np.where(codes == 1, 1.0, -1.0)[:, None]
        self._rows = np.arange(codes.size)

    def at(self, F: np.ndarray) -> tuple[float, np.ndarray]:
        """(the mean loss, its derivative by each output)."""
        if self.n_outputs == 1:
            margins = self._signs * F
            loss = float(np.vdot(self._shares, np.logaddexp(0.0, -margins)))
            return loss, -self._signs * self._shares * expit(-margins)
        logs = log_softmax(F, axis=1)
        loss = -float(self._shares[:, 0] @ logs[self._rows, self.codes])
        G = np.exp(logs)
        G[self._rows, self.codes] -= 1.0
        return loss, G * self._shares


def _minimised(
    columns: _Columns, loss: _Loss, start: tuple[np.ndarray, np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray]:
    """(W, b) by L-BFGS from the W and b of fewer rows; where time ends, what there is."""
    penalty = columns.square / (C * loss.mass)
    d, shape = columns.inverse.size, (columns.shape[1], loss.n_outputs)
    factor = _whitening(columns, loss, penalty)

    def unwhitened(u: np.ndarray) -> np.ndarray:
        U = u.reshape(shape)
        return U if factor is None else solve_triangular(factor, U, lower=True, trans=1)

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        require_time()
        V = unwhitened(u)
        value, G = loss.at(columns.times(V))
        gradient = columns.adjoint(G)
        gradient[:d] += penalty * V[:d]
        if factor is not None:
            gradient = solve_triangular(factor, gradient, lower=True)
        return value + 0.5 * penalty * float(np.vdot(V[:d], V[:d])), gradient.ravel()

    V = np.zeros(shape) if start is None else columns.scaled(*start)
    best = (V if factor is None else factor.T @ V).ravel()

    def keep(u: np.ndarray) -> None:
        nonlocal best
        best = u.copy()

    options = {
        "maxiter": STEPS,
        "ftol": ACCURACY * math.log(loss.n_classes),
        "maxcor": int(np.clip(MEMORY // max(best.size, 1), 2, 10)),
    }
    with suppress(OutOfTime):
        minimize(objective, best, method="L-BFGS-B", jac=True, callback=keep, options=options)
    return columns.unscaled(unwhitened(best))


def _whitening(columns: _Columns, loss: _Loss, penalty: float) -> np.ndarray | None:
    """The Cholesky factor of the Hessian at zero, as a sample of the rows has it."""
    n, width = columns.shape
    if width > WHITENED:
        return None
    size = min(n, 1000 + 3 * width)
    require_time(float(size) * width**2 / 1e10)
    H = columns.gram(sample(loss.codes, size))
    diagonal = H.ravel()[:: width + 1]  # a view
    diagonal += np.maximum(1.0 - diagonal, 1e-6)  # columns that hardly vary in the sample
    H *= loss.curvature
    diagonal += penalty
    try:
        return cholesky(H, lower=True)
    except LinAlgError:
        return None
