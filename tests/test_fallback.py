"""The classifier for data that nothing separates, wherever it is asked for."""

import math
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from momentron import (
    BudgetWarning,
    KernelMaxMarginClassifier,
    MaxMarginClassifier,
    NotSeparableWarning,
    Status,
    max_margin,
)
from momentron.arithmetic.clock import until
from momentron.certificate import classifier_bounds
from momentron.fitting import fallback as sampling
from momentron.fitting.fallback import Classifier, SampleSize, fallback
from momentron.rows import ComputedRows
from momentron.solvers import SOLVERS
from momentron.solvers.problem import KernelChoice, Problem


def overlapping(n=600, d=5, k=2, seed=0):
    """Clouds that overlap, columns in very different units, and one row far away."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    X = rng.normal(size=(n, d)) + 0.8 * rng.normal(size=(k, d))[y]
    X[0] += 100.0
    return X * 10.0 ** rng.integers(-4, 5, d), y


def errors(X, y, w, b, _predictor=None):
    outputs = X @ w + b
    predicted = outputs > 0.0 if outputs.ndim == 1 else outputs.argmax(axis=1)
    return np.mean(predicted != y)


def peer_errors(X, y, **options):
    model = make_pipeline(StandardScaler(with_mean=options.get("fit_intercept", True)))
    model.steps.append(("regression", LogisticRegression(max_iter=1000, **options)))
    return 1.0 - model.fit(X, y).score(X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_array, np.float32])
def test_as_good_as_logistic_regression(k, fit_intercept, container):
    X, y = overlapping(k=k)
    if container is np.float32:
        X = X.astype(np.float32)
    given = X if container is np.float32 else container(X)
    found = fallback(Problem.from_data(given, y, fit_intercept=fit_intercept))
    assert errors(X, y, *found) <= peer_errors(X, y, fit_intercept=fit_intercept) + 0.02
    if not fit_intercept:
        assert not np.any(found.b)


@pytest.mark.parametrize("method", list(SOLVERS))
@pytest.mark.parametrize("k", [2, 3])
def test_every_method_ends_with_it(method, k):
    X, y = overlapping(200, k=k)
    result = max_margin(X, y, method=method, max_iter=30)
    assert result.lower == 0.0
    assert errors(X, y, result.coef.T, result.intercept) <= peer_errors(X, y) + 0.02
    assert np.linalg.norm(result.coef) == pytest.approx(1.0)


@pytest.mark.parametrize("k", [2, 4])
def test_the_margin_is_that_of_the_classifier(k):
    X, y = overlapping(300, k=k)
    result = max_margin(X, y)
    outputs = X @ result.coef.T + result.intercept
    if k == 2:
        least = float(np.min(np.where(y == 1, outputs, -outputs)))
    else:
        own = outputs[np.arange(y.size), y].copy()
        outputs[np.arange(y.size), y] = -np.inf
        least = float(np.min(own - outputs.max(axis=1)))
    assert result.is_fallback and result.margin < 0.0
    assert result.margin <= least
    assert result.margin == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("k", [2, 3])
def test_kernels(kernel, k):
    rng = np.random.default_rng(1)
    X, y = overlapping(300, k=k)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X, y = np.vstack([X, X[:50]]), np.append(y, rng.integers(0, k, 50))  # rows in conflict
    with pytest.warns(NotSeparableWarning):
        model = KernelMaxMarginClassifier(C=np.inf, kernel=kernel, degree=2, coef0=1.0).fit(X, y)
    assert model.status_ is Status.NOT_SEPARABLE
    assert model.score(X, y) >= 0.97 - peer_errors(X, y)
    assert math.isfinite(model.margin_) and model.margin_ < 0.0


def test_few_landmarks_and_few_rows_serve(monkeypatch):
    X, y = overlapping(3000, k=3)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    monkeypatch.setattr(sampling, "ROWS", 300)
    monkeypatch.setattr(sampling, "ROWS_PER_COLUMN", 1)
    monkeypatch.setattr(sampling, "FIRST", SampleSize(100, 10, 10**6))
    monkeypatch.setattr(sampling, "FULL", SampleSize(10**7, 60, 10**7))
    found = fallback(Problem.from_data(X, y))
    assert errors(X, y, *found) <= peer_errors(X, y) + 0.03
    problem = Problem.from_data(X, y, kernel=KernelChoice("rbf"))
    w, b, _ = fallback(problem)
    assert np.count_nonzero(w[0].any(axis=1)) <= 63
    assert np.mean((w[1] + b).argmax(axis=1) != y) <= peer_errors(X, y) + 0.03


@pytest.mark.parametrize(
    "spoil",
    [
        lambda X: np.hstack([X, np.zeros((len(X), 2)), np.full((len(X), 1), 7.0)]),
        lambda X: X * np.array([1e-140, 1.0, 1e140, 1e-20, 1e20]),
        lambda X: np.vstack([X[:1] * 1e250, X[1:]]),
        lambda X: X * 1e-300,
        lambda X: X * 1e290,
        lambda X: np.where(np.arange(len(X))[:, None] % 3 == 0, 0.0, X),
        lambda X: np.repeat(X[::2], 2, axis=0),
        lambda X: X + 1e6,
        lambda X: np.zeros_like(X),
    ],
    ids=["constant", "units", "outlier", "small", "large", "zero rows", "twins", "offset", "zero"],
)
@pytest.mark.parametrize("k", [2, 3])
def test_bad_data(spoil, k):
    X, y = overlapping(300, k=k)
    X = spoil((X - X.mean(axis=0)) / X.std(axis=0))
    for given in (X, sp.csr_array(X)):
        result = max_margin(given, y, max_iter=20)
        assert np.isfinite(result.coef).all() and np.all(np.isfinite(result.intercept))
        outputs = X @ result.coef.T + result.intercept
        predicted = outputs > 0.0 if k == 2 else outputs.argmax(axis=1)
        counts = np.bincount(y)
        assert np.mean(predicted == y) >= counts.max() / y.size - 0.01


@pytest.mark.clock
def test_time_is_kept_and_what_is_at_hand_is_used():
    X, y = overlapping(60_000, 40)
    problem = Problem.from_data(X, y)
    weak = Classifier(np.ones(40), 0.0)
    begin = time.perf_counter()
    with until(begin):
        found = fallback(problem, own=weak)
    assert time.perf_counter() - begin < 0.5
    assert errors(X, y, *found) <= errors(X, y, *weak)
    assert not np.any(fallback(problem, own=weak).w == 1.0)


def test_a_known_classifier_must_err_half_as_often():
    X, y = overlapping(300)
    X = np.c_[X, X[:, 0] + np.where(y == 1, 1e-6, -1e-6) * np.abs(X[:, 0]).max()]
    problem = Problem.from_data(X, y)
    found = fallback(problem)
    perfect = Classifier(np.array([-1.0, 0, 0, 0, 0, 1.0]), 0.0)
    assert errors(X, y, *found) > 0.0 == errors(X, y, *perfect)
    assert fallback(problem, own=perfect) is perfect
    same = Classifier(found.w.copy(), found.b)
    assert np.array_equal(fallback(problem, own=same).w, found.w)
    assert fallback(problem, own=same) is not same


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("C", [math.inf, 1.0])
def test_any_budget_gives_a_classifier(k, C):
    X, y = overlapping(20_000, 30, k)
    begin = time.perf_counter()
    result = max_margin(X, y, C=C, max_time=0.02)
    assert time.perf_counter() - begin < 1.5
    assert errors(X, y, result.coef.T, result.intercept) <= peer_errors(X, y) + 0.03


def test_ctrl_c_leaves_a_classifier():
    X, y = overlapping(500)

    def interrupt(row):
        raise KeyboardInterrupt

    result = max_margin(X, y, method="momentum", callback=interrupt)
    assert result.status is Status.INTERRUPTED
    assert errors(X, y, result.coef, result.intercept) <= peer_errors(X, y) + 0.02


def test_a_fallback_that_separates_proves_it():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 5)) * 10.0 ** np.arange(5)
    X[:, 0] += 10.0 * y
    result = max_margin(X, y, method="momentum", max_iter=3)
    assert result.is_fallback and 0.0 < result.margin == result.lower <= result.upper


def test_the_same_every_time():
    X, y = overlapping(2000, k=3)
    one, two = max_margin(X, y), max_margin(X, y)
    assert np.array_equal(one.coef, two.coef) and np.array_equal(one.intercept, two.intercept)


# --- what is certified and what is said ----------------------------------------------------------


def test_margins_of_classifiers_are_lower_bounds():
    rng = np.random.default_rng(0)
    for k in (2, 4):
        X, y = rng.normal(size=(40, 6)), np.arange(40) % k
        problem = Problem.from_data(X, y)
        for _ in range(20):
            w = rng.normal(size=(6,) if k == 2 else (6, k))
            b = rng.normal() if k == 2 else rng.normal(size=k)
            F = X.astype(np.longdouble) @ w + b
            own = np.where(y == 1, F, -F) if k == 2 else F[np.arange(40), y]
            if k > 2:
                F[np.arange(40), y] = -np.inf
                own = own - F.max(axis=1)
            least = float(own.min() / np.linalg.norm(w.astype(np.longdouble)))
            bound = classifier_bounds(problem, w, b)[0]
            assert least - 1e-12 <= bound <= least


def test_soft_margins_say_what_they_are():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = MaxMarginClassifier(C=1.0).fit(X, y)
    signs = np.where(y == 1, 1.0, -1.0)
    margins = signs * model.decision_function(X)
    length = np.linalg.norm(model.coef_)
    assert model.margin_ == pytest.approx(margins.min() / length, rel=1e-9)
    assert model.margin_ <= margins.min() / length
    value = 0.5 * length**2 + np.sum(np.maximum(0.0, 1.0 - margins) ** 2)
    assert value == pytest.approx(0.5 / model.certificate_.lower**2, rel=1e-6)


@pytest.mark.parametrize("method", ["auto", "momentum"])
def test_the_warning_has_one_text(method):
    texts = set()
    for seed in range(3):
        X, y = overlapping(200, seed=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            MaxMarginClassifier(C=np.inf, method=method, max_iter=20).fit(X, y)
        texts |= {str(warning.message) for warning in caught}
    (text,) = texts
    assert "C=" in text and "check_separability" in text and "logistic regression" in text
    assert ("max_iter" in text) == (method == "momentum")
    assert len(text) < 220


def test_a_soft_margin_is_not_said_to_be_inseparable():
    X, y = overlapping(400)
    with pytest.warns(BudgetWarning) as caught:
        MaxMarginClassifier(method="momentum", C=1.0, max_iter=3).fit(X, y)
    (warning,) = caught
    assert "separa" not in str(warning.message)
    assert "max_iter" in str(warning.message)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_where_time_is_over_at_once_the_nearest_mean_classifies(k, fit_intercept):
    rng = np.random.default_rng(4)
    y = np.r_[np.arange(k), rng.integers(0, k, 600)]
    X = (rng.normal(size=(y.size, 6)) + 2.5 * rng.normal(size=(k, 6))[y]) * [1, 1, 1e-3, 1, 1e3, 1]
    for rows in (X, sp.csr_array(X)):
        problem = Problem.from_data(rows, y, fit_intercept=fit_intercept)
        with until(time.perf_counter() - 1.0):
            w, b, _ = fallback(problem, seconds=0.0)
        outputs = X @ np.ldexp(w, -problem.exponent) + b
        predicted = (outputs > 0).astype(int) if k == 2 else outputs.argmax(axis=1)
        assert np.mean(predicted != y) < 0.25


def test_ours_is_not_compared_on_the_rows_it_was_fitted_to(monkeypatch):
    """Ten rows that a fit in thirty columns gets right say nothing against a better classifier."""
    rng = np.random.default_rng(5)
    w = rng.normal(size=30)
    X = rng.normal(size=(4000, 30))
    y = (X @ w + 2.0 * rng.normal(size=4000) > 0.0).astype(int)
    problem = Problem.from_data(X, y)
    known = Classifier(w, 0.0)
    monkeypatch.setattr(sampling, "ROWS", 10)
    monkeypatch.setattr(sampling, "ROWS_PER_COLUMN", 0)
    chosen = fallback(problem, own=known, handicap=1.0)
    assert chosen.w is w


def test_computed_rows_are_not_written_to():
    class Stored(ComputedRows):
        def __init__(self, A):
            self.A, self.shape, self.dtype = A, A.shape, A.dtype

        def rows(self, index):
            return self.A if len(index) == len(self.A) else self.A[index]

    X, y = overlapping(300)
    given = X.copy()
    found = fallback(Problem.from_data(Stored(given), y))
    assert np.array_equal(given, X)
    assert errors(X, y, *found) <= peer_errors(X, y) + 0.02
