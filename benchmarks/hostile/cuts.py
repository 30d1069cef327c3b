"""Estimators cut at a random moment: by `max_time`, `max_iter`, a callback or Ctrl-C.

Whatever the moment, a fit returns in time, predicts finite decisions and known classes for new
rows, has intervals that contain the truth, and says what predicts. The truth is constructed, or
bounded by weak duality: any classifier and any dual weights, valued here in plain numpy, are
bounds on it, and those of the same fit without a cut are close ones.
"""

import math
import pickle
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from momentron import (
    BudgetWarning,
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    MaxMarginClassifierCV,
    NotSeparableWarning,
    Predictor,
    Status,
)
from momentron.datasets import make_separable

CLOSE = 1e-6  # relative: what the plain arithmetic here may be wrong by
GRACE = 1.0  # seconds beyond max_time that a fit may take, or a tenth of it
NEW = 7  # rows to predict
FEW = 300  # rows up to which the fit without a cut is made, too


def gaussian(A: Any, B: Any) -> np.ndarray:
    """A kernel of the user's own."""
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


KERNELS: dict[Any, Callable[[Any, Any], np.ndarray]] = {
    "linear": linear_kernel,
    "rbf": lambda A, B: rbf_kernel(A, B, gamma=0.5),
    "poly": lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.5, coef0=1.0),
    gaussian: gaussian,
}
PARAMETERS = {"rbf": {"gamma": 0.5}, "poly": {"gamma": 0.5, "degree": 2, "coef0": 1.0}}


@dataclass
class Case:
    """A model with the data it is fitted to, and how it is cut.

    Attributes
    ----------
    model : estimator
        Without a cut.
    X, y, new : array or sparse matrix, array, rows to predict
    K : ndarray of shape (n, n) or None
        Inner products, where intervals are compared with bounds on the truth.
    fit : dict
        More arguments of `fit`.
    cut : dict
        Parameters that cut it.
    truth : float or None
        The best margin, where the problem was constructed to have it.
    strike : float
        Seconds after which Ctrl-C comes; infinite for none.
    """

    model: Any
    X: Any
    y: np.ndarray
    new: Any
    K: np.ndarray | None
    fit: dict[str, Any] = field(default_factory=dict)
    cut: dict[str, Any] = field(default_factory=dict)
    truth: float | None = None
    strike: float = math.inf

    @property
    def limit(self) -> float:
        """Seconds that a fit may take."""
        asked = self.cut.get("max_time", math.inf)
        return asked + max(GRACE, 0.1 * asked)


# --- drawing -------------------------------------------------------------------------------------


def draw(rng: np.random.Generator) -> Case:
    """A case of any sort."""
    is_large = rng.random() < 0.06
    n = int(rng.integers(1000, 2500)) if is_large else int(rng.integers(12, FEW))
    k = int(rng.choice([2, 2, 2, 3, 5, 30 if is_large else 4]))
    is_kernel, is_cv = rng.random() < 0.6, rng.random() < 0.15
    truth = None
    if k == 2 and not (is_kernel or is_cv) and rng.random() < 0.3:
        truth = float(10.0 ** rng.uniform(-3.0, 1.0))
        made = make_separable(
            n, 8, n_support=4, margin=truth, fit_intercept=True, random_state=int(rng.integers(99))
        )
        X, y, C = made.X, (made.y > 0).astype(int), math.inf
    else:
        X, y = _rows(rng, n, k)
        C = math.inf if rng.random() < 0.3 else float(10.0 ** rng.uniform(-4.0, 3.0))
    options: dict[str, Any] = {
        "penalty": str(rng.choice(["hinge", "squared_hinge"])),
        "multi_class": str(rng.choice(["joint", "ovr"])),
        "tol": float(rng.choice([1e-3, 1e-6])),
    }
    if truth is None:
        options["fit_intercept"] = bool(rng.random() < 0.8)
        options["class_weight"] = None if rng.random() < 0.8 else "balanced"
    if is_cv:
        options |= {"Cs": [0.01, 1.0], "cv": 2}
    else:
        options["C"] = C
        if options["penalty"] == "squared_hinge" and rng.random() < 0.15:
            options["method"] = str(rng.choice(["momentum", "batch-perceptron"]))
            options["max_iter"] = 300
    new = X[rng.integers(n, size=NEW)] + rng.normal(size=(NEW, X.shape[1]))
    case = _modelled(rng, X, y, new, is_kernel, is_cv, options)
    case.truth = truth
    _weigh(rng, case)
    _cut(rng, case, is_cv)
    return case


def _rows(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Clouds apart or not; rows that are alike, equal or zero; a large or a small unit."""
    y = rng.permutation(np.r_[np.repeat(np.arange(k), 2), rng.integers(0, k, n)][:n])
    for c in range(k):
        y[2 * c : 2 * c + 2] = c
    d = int(rng.integers(2, 12))
    X = rng.normal(size=(n, d)) + float(rng.choice([0.0, 1.0, 6.0])) * rng.normal(size=(k, d))[y]
    kind = rng.random()
    if kind < 0.05:
        X[:] = X[0]
    elif kind < 0.1:
        X[:] = 0.0
    elif kind < 0.2:
        X[n // 2 :] = X[: n - n // 2]
    return X * float(rng.choice([1.0, 1.0, 1e-3, 30.0])), y


def _modelled(
    rng: np.random.Generator,
    X: np.ndarray,
    y: np.ndarray,
    new: np.ndarray,
    is_kernel: bool,
    is_cv: bool,
    options: dict[str, Any],
) -> Case:
    """The model, with rows in the form that it is given."""
    labels = np.array([f"class {c}" for c in range(int(y.max()) + 1)])[y]
    is_sparse = rng.random() < 0.25
    form = sp.csr_array if is_sparse else np.asarray
    if not is_kernel:
        kind: Any = MaxMarginClassifierCV if is_cv else MaxMarginClassifier
        K = X @ X.T
        return Case(kind(**options), form(X), labels, form(new), K)
    kind = KernelMaxMarginClassifierCV if is_cv else KernelMaxMarginClassifier
    kernel = list(KERNELS)[int(rng.integers(3 if is_sparse else 4))]
    function = KERNELS[kernel]
    K = function(X, X)
    if not is_sparse and rng.random() < 0.2:
        return Case(kind(kernel="precomputed", **options), K, labels, function(new, X), K)
    options = options | PARAMETERS.get(kernel, {})
    if rng.random() < 0.1:
        options["cache_size"] = 8e-6 * len(y) * int(rng.integers(1, len(y)))
    return Case(kind(kernel=kernel, **options), form(X), labels, form(new), K)


def _weigh(rng: np.random.Generator, case: Case) -> None:
    """Weights of the rows, or a scaler before the model, some of the time."""
    n = len(case.y)
    if rng.random() < 0.2:
        weights = rng.uniform(0.1, 3.0, n)
        if case.truth is None and not hasattr(case.model, "Cs"):  # folds need each class
            weights[rng.random(n) < 0.2] = 0.0
        for label in set(case.y.tolist()):
            weights[np.flatnonzero(case.y == label)[:2]] = 1.0
        case.fit["sample_weight"] = weights
    elif case.truth is None and not _is_precomputed(case.model) and rng.random() < 0.15:
        case.model = make_pipeline(StandardScaler(with_mean=False), case.model)
        case.K = None


def _cut(rng: np.random.Generator, case: Case, is_cv: bool) -> None:
    """How the fit is to end."""
    kind = rng.random()
    if kind < 0.6:
        case.cut["max_time"] = float(10.0 ** rng.uniform(-4.0, 0.0))
    elif kind < 0.75:
        case.cut["max_iter"] = int(rng.integers(1, 6))
    elif kind < 0.9:
        case.strike = float(10.0 ** rng.uniform(-4.0, -0.5))
    elif not is_cv and case.K is not None:
        case.fit["callback"] = _Striking(int(rng.integers(1, 5)), is_rude=bool(rng.integers(2)))
    else:
        case.cut["max_time"] = 1e-6
    if len(case.y) > FEW:  # nothing large runs for long
        case.cut.setdefault("max_time", 1.0)


class _Striking:
    """A callback that ends the fit at some iteration: politely, or as Ctrl-C does."""

    def __init__(self, last: int, *, is_rude: bool) -> None:
        self.left, self.is_rude = last, is_rude

    def __call__(self, iterate: Any) -> bool:
        self.left -= 1
        if self.left <= 0 and self.is_rude:
            raise KeyboardInterrupt
        return self.left <= 0


def _is_precomputed(model: Any) -> bool:
    return getattr(model, "kernel", None) == "precomputed"


# --- trials --------------------------------------------------------------------------------------


def trial(seed: int, number: int) -> str | None:
    """One fit that is cut: why it, or what it left, is false; or None."""
    case = draw(np.random.default_rng([seed, number, 7]))
    model = clone(case.model)
    last = model[-1] if hasattr(model, "steps") else model
    last.set_params(**case.cut)
    fit = dict(case.fit)
    if hasattr(model, "steps"):
        fit = {f"{model.steps[-1][0]}__{name}": value for name, value in fit.items()}
    wall, processor = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings(record=True) as told, _struck(case.strike):
            warnings.simplefilter("always")
            model.fit(case.X, case.y, **fit)
    except KeyboardInterrupt:
        return _unfitted(case, last)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    if min(wall, processor) > case.limit:
        asked = case.cut["max_time"]
        return f"FALSE: {asked:.2g} s asked, {wall:.2f} taken, {processor:.2f} of the processor"
    results = last.result_ if isinstance(last.result_, list) else [last.result_]
    reason = _prediction(case, model) or _sentences(results, told) or _intervals(case, results)
    return reason and f"FALSE: {reason}"


class _struck:
    """Ctrl-C after this many seconds, unless the fit has ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        if self.seconds < math.inf:
            self.before = signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *error: object) -> None:
        if self.seconds < math.inf:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self.before)


def _unfitted(case: Case, model: Any) -> str | None:
    """A fit that Ctrl-C left: the model is as good as new, and the next fit works.

    Ctrl-C between the end of a fit and its return leaves one that is complete, and is judged so.
    """
    try:
        model.predict(case.new)
    except NotFittedError:
        model.set_params(max_time=0.05)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(case.X, case.y)
    reason = _prediction(case, model)
    return reason and f"FALSE: {reason}"


def _prediction(case: Case, model: Any) -> str | None:
    """Why it does not predict, or None."""
    decision = model.decision_function(case.new)
    k = np.unique(case.y).size
    if decision.shape != ((NEW,) if k == 2 else (NEW, k)) or not np.isfinite(decision).all():
        return f"decisions {decision!r}"
    labels = model.predict(case.new)
    if not np.isin(labels, case.y).all():
        return f"labels {labels!r}"
    if model.predict(case.new[:1])[0] not in case.y:
        return "one row"
    again = pickle.loads(pickle.dumps(model)).decision_function(case.new)
    if not np.array_equal(again, decision):
        return "another decision after a pickle"
    return None if 0.0 <= model.score(case.new, labels) <= 1.0 else "score"


def _sentences(results: list[Any], told: list[warnings.WarningMessage]) -> str | None:
    """Why status, predictor and warning do not agree, or None."""
    text = " | ".join(
        str(one.message)
        for one in told
        if issubclass(one.category, BudgetWarning | NotSeparableWarning)
    )
    for result in results:
        is_zero = not np.any(result.coef)
        if is_zero != (result.predictor is Predictor.CONSTANT):
            return f"{result.predictor!r} with w {'= 0' if is_zero else '≠ 0'}"
        is_certified = result.status is Status.OPTIMAL
        if (result.predictor is Predictor.MARGIN) != (is_certified and not is_zero):
            return f"{result.predictor!r} with {result.status!r}"
        if is_certified:
            continue
        if "predict uses" not in text or str(result.predictor) not in text:
            return f"{result.status!r}, {result.predictor!r}, told {text!r}"
    return None


# --- the truth -----------------------------------------------------------------------------------


def _intervals(case: Case, results: list[Any]) -> str | None:
    """Why an interval does not contain the truth, or None."""
    for result in results:
        if not 0.0 <= result.lower <= result.upper * (1.0 + 1e-12):
            return f"interval [{result.lower!r}, {result.upper!r}]"
    if case.truth is not None:
        return _outside(results[0], case.truth, case.truth)
    if case.K is None or len(case.y) > FEW or hasattr(case.model, "Cs"):
        return None
    whole = clone(case.model).set_params(max_time=5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole.fit(case.X, case.y, case.fit.get("sample_weight"))
    references = whole.result_ if isinstance(whole.result_, list) else [whole.result_]
    classes = np.unique(case.y)
    for c, (result, reference) in enumerate(zip(results, references, strict=True)):
        low, high = reference.lower, reference.upper
        if classes.size == 2 or len(results) > 1:
            positive = classes[1] if classes.size == 2 else classes[c]
            low, high = _bounds(case, reference, np.where(case.y == positive, 1.0, -1.0))
        reason = _outside(result, low, high)
        if reason is not None:
            return reason
    return None


def _outside(result: Any, low: float, high: float) -> str | None:
    """Why the interval contradicts a truth between two bounds, or None."""
    if result.lower > high * (1.0 + CLOSE) + 1e-9 or result.upper < low * (1.0 - CLOSE) - 1e-9:
        return f"[{result.lower!r}, {result.upper!r}], and the truth in [{low!r}, {high!r}]"
    return None


def _bounds(case: Case, reference: Any, y: np.ndarray) -> tuple[float, float]:
    """Bounds on the margin, or on 1/√(2 · least objective), by weak duality in plain numpy."""
    K, n, C = np.asarray(case.K), len(y), float(case.model.C)
    weights = np.asarray(case.fit.get("sample_weight", np.ones(n)), np.float64).copy()
    if case.model.class_weight == "balanced":
        _, codes = np.unique(case.y, return_inverse=True)
        sums = np.bincount(codes, weights)
        weights *= (sums.sum() / (sums.size * sums))[codes]
    used = weights > 0.0
    is_hinge = case.model.penalty == "hinge"
    # w = Σ a_i φ(x_i), or X a
    if isinstance(case.model, KernelMaxMarginClassifier):
        products = K @ reference.coef
        square = float(reference.coef @ products)
    else:
        products = np.asarray(case.X @ reference.coef)
        square = float(reference.coef @ reference.coef)
    margins = (y * (products + reference.intercept))[used]
    if not math.isfinite(C):
        low = max(0.0, float(margins.min())) / math.sqrt(square) if square > 0.0 else 0.0
    else:
        slack = np.maximum(0.0, 1.0 - margins)
        cost = C * weights[used] @ (slack if is_hinge else slack**2)
        low = 1.0 / math.sqrt(2.0 * (0.5 * square + cost))
    return low, _dual_bound(case, reference.full_dual(), y, K, C * weights, is_hinge)


def _dual_bound(
    case: Case, q: np.ndarray, y: np.ndarray, K: np.ndarray, prices: np.ndarray, is_hinge: bool
) -> float:
    """What dual weights prove: 1/√(2D), or the length of Σ q_i y_i φ(x_i)."""
    q = np.where(prices > 0.0, np.maximum(q, 0.0), 0.0)
    if case.model.fit_intercept:  # Σ y_i q_i = 0
        for sign in (1.0, -1.0):
            mass = q[y == sign].sum()
            if not mass > 0.0:
                return math.inf
            q[y == sign] *= min(q[y == 1.0].sum(), q[y == -1.0].sum()) / mass
    mass = float(q.sum())
    if not mass > 0.0:
        return math.inf
    square = float((q * y) @ K @ (q * y))
    finite = np.isfinite(prices) & (prices > 0.0)
    if not is_hinge and finite.any():
        square += float((q[finite] ** 2 / (2.0 * prices[finite])).sum())
    square = max(square, 0.0)
    if not is_hinge or not finite.any():
        return math.sqrt(square) / mass
    inside = q[q > 0.0]
    most = float((prices[q > 0.0] / inside).min())
    scale = min(most, mass / square) if square > 0.0 else most
    value = scale * mass - 0.5 * scale**2 * square
    return 1.0 / math.sqrt(2.0 * value) if value > 0.0 else math.inf
