"""Margins through a kernel, end to end: equal to the linear ones, certified, within memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel

from momentron import (
    BudgetWarning,
    InputError,
    KernelMaxMarginClassifier,
    NotSeparableWarning,
    Status,
    max_margin,
)
from momentron.datasets import make_separable

GAMMA = 1e-3
CASES = pytest.mark.parametrize(
    ("n_classes", "fit_intercept"), [(2, False), (2, True), (3, False), (3, True)]
)


def digits(n_classes, n=300):
    X, y = load_digits(return_X_y=True)
    keep = np.flatnonzero(y < n_classes)[:n]
    return X[keep], y[keep]


def rbf(A, B):
    return rbf_kernel(A, B, gamma=GAMMA)


@CASES
@pytest.mark.parametrize("C", [np.inf, 1e-3])
def test_linear_kernel_equals_linear_data(n_classes, fit_intercept, C):
    X, y = digits(n_classes)
    options = {"fit_intercept": fit_intercept, "C": C, "tol": 1e-8}
    plain = max_margin(X, y, **options)
    kernel = max_margin(X, y, kernel="linear", **options)
    assert plain.status is Status.OPTIMAL
    assert kernel.status is Status.OPTIMAL
    assert kernel.lower <= plain.upper
    assert plain.lower <= kernel.upper
    assert kernel.lower == pytest.approx(plain.lower, rel=2e-8)
    assert np.allclose(kernel.coef @ X, plain.coef, atol=1e-4)
    assert np.allclose(kernel.intercept, plain.intercept, atol=1e-3)


@CASES
@pytest.mark.parametrize("method", ["momentum", "batch-perceptron", "normalized-gradient"])
def test_first_order_methods_run_the_same_way(n_classes, fit_intercept, method):
    X, y = digits(n_classes, n=60)
    X = X - X.mean(axis=0)  # a kernel's R is not centred: the steps are equal where the data are
    X[0] *= 2.0  # and where one row has the radius for both
    options = {"fit_intercept": False, "method": method, "max_iter": 60, "tol": 1e-9}
    plain = max_margin(X, y, **options)
    kernel = max_margin(X, y, kernel="linear", **options)
    assert kernel.upper == pytest.approx(plain.upper, rel=1e-9)
    assert np.allclose(kernel.trace["margin"], plain.trace["margin"], rtol=1e-7, atol=1e-7)


@CASES
def test_precomputed_equals_callable_equals_name(n_classes, fit_intercept):
    X, y = digits(n_classes)
    options = {"fit_intercept": fit_intercept, "tol": 1e-8}
    named = max_margin(X, y, kernel="rbf", gamma=GAMMA, **options)
    K = rbf(X, X)
    before = K.copy()
    for other in (
        max_margin(K, y, kernel="precomputed", **options),
        max_margin(X, y, kernel=rbf, **options),
        max_margin(sp.csr_array(X), y, kernel="rbf", gamma=GAMMA, **options),
    ):
        assert other.status is Status.OPTIMAL
        assert other.lower == pytest.approx(named.lower, rel=2e-8)
        assert np.allclose(other.coef, named.coef, atol=1e-4 * np.abs(named.coef).max())
    assert np.array_equal(K, before)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "linear"])
def test_decision_values_have_the_margin(n_classes, kernel):
    X, y = digits(n_classes)
    model = KernelMaxMarginClassifier(
        C=np.inf, kernel=kernel, gamma=GAMMA, coef0=1.0, degree=2
    ).fit(X, y)
    outputs = model.decision_function(X)
    if n_classes == 2:
        margins = np.where(y == model.classes_[1], 1.0, -1.0) * outputs
    else:
        place = np.arange(y.size)
        own = outputs[place, y].copy()
        outputs[place, y] = -np.inf
        margins = own - outputs.max(axis=1)
    assert margins.min() == pytest.approx(model.margin_, rel=1e-6)
    assert model.score(X, y) == 1.0
    assert model.support_vectors_.shape == (model.support_.size, X.shape[1])


def test_prediction_from_a_precomputed_kernel():
    X, y = digits(3)
    train, test = slice(0, 200), slice(200, 300)
    K = rbf(X, X)
    model = KernelMaxMarginClassifier(C=np.inf, kernel="precomputed").fit(K[train, train], y[train])
    other = KernelMaxMarginClassifier(C=np.inf, gamma=GAMMA).fit(X[train], y[train])
    one, two = model.decision_function(K[test, train]), other.decision_function(X[test])
    assert np.allclose(one, two, atol=1e-5)


def test_a_small_cache_ends_with_a_true_interval():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 5)), rng.integers(0, 2, 900)  # noise: nearly all rows support
    best = max_margin(X, y, kernel="rbf", gamma=2.0, tol=1e-6)
    assert best.status is Status.OPTIMAL
    with pytest.warns(BudgetWarning, match="raise cache_size"):
        short = max_margin(X, y, kernel="rbf", gamma=2.0, tol=1e-6, cache_size=0.5)
    assert short.lower <= best.upper
    assert short.upper >= best.lower
    assert short.status is not Status.OPTIMAL


def test_warm_starts():
    X, y = digits(3)
    for options in ({"C": 1e3}, {}):
        cold = max_margin(X, y, kernel="rbf", gamma=GAMMA, **options)
        start = max_margin(X[:200], y[:200], kernel="rbf", gamma=GAMMA, C=10.0)
        warm = max_margin(X, y, kernel="rbf", gamma=GAMMA, initial=start, **options)
        assert warm.status is Status.OPTIMAL
        assert warm.lower == pytest.approx(cold.lower, rel=2e-6)


def test_equal_rows_with_different_labels_are_not_separable():
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [3.0, 1.0]])
    result = max_margin(X, [0, 1, 0, 1], kernel="rbf", gamma=1.0)
    assert result.status is Status.NOT_SEPARABLE
    assert result.lower == 0.0
    with pytest.warns(NotSeparableWarning):
        model = KernelMaxMarginClassifier(C=np.inf, gamma=1.0).fit(X, [0, 1, 0, 1])
    assert model.predict(X[2:]).tolist() == [0, 1]
    assert model.margin_ <= 0.0


def test_bad_kernels():
    data = make_separable(20, 3, margin=0.5, random_state=0)
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 20))
    Q, _ = np.linalg.qr(A)
    indefinite = Q @ np.diag(np.r_[-0.05, np.linspace(0.5, 1.0, 19)]) @ Q.T
    for X, options, words in [
        (data.X, {"kernel": "precomputed"}, "shape"),
        (A, {"kernel": "precomputed"}, "diagonal|symmetric|negative"),
        (0.5 * (indefinite + indefinite.T), {"kernel": "precomputed"}, "eigenvalue -0.0"),
        (data.X, {"kernel": "sigmoid"}, "sigmoid"),
        (data.X, {"kernel": "rbf", "gamma": -1.0}, "gamma"),
        (data.X, {"kernel": "rbf", "cache_size": 0.0}, "cache_size"),
        (data.X, {"gamma": 1.0}, "without a kernel"),
        (data.X, {"kernel": lambda A, B: np.ones(3)}, "shape"),
    ]:
        with pytest.raises(InputError, match=words):
            max_margin(X, data.y, **options)


def test_an_interval_allows_for_the_eigenvalues_that_were_let_pass():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(60, 5))
    y = A[:, 0] > 0.0
    A[y, 0] += 1.0
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    K = A @ A.T
    values, vectors = np.linalg.eigh(K)
    v = vectors[:, 0]
    for indefinite in (K - 0.5e-8 * values[-1] * np.outer(v, v), K.astype(np.float32)):
        indefinite = (indefinite + indefinite.T) / 2
        result = max_margin(indefinite, y, kernel="precomputed", tol=1e-3)
        roots = np.sqrt(np.diagonal(indefinite).astype(float))
        negative = -np.linalg.eigvalsh(indefinite / np.outer(roots, roots))[0]
        assert negative > 1e-9
        nearest = indefinite + np.diag(1.01 * negative * np.diagonal(indefinite).astype(float))
        best = max_margin(nearest, y, kernel="precomputed", tol=1e-8)
        # the interval of the matrix as passed holds for one so near that is positive semidefinite
        assert result.lower <= best.lower
        assert best.upper <= result.upper
    indefinite = K - 2e-8 * values[-1] * np.outer(v, v)
    with pytest.raises(InputError, match=r"not positive semidefinite.*times its diagonal"):
        max_margin((indefinite + indefinite.T) / 2, y, kernel="precomputed")
