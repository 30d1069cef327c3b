"""Every class against the rest: as many certified fits as classes, on the same rows."""

import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC

from momentron import (
    BudgetWarning,
    InputError,
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    NotSeparableWarning,
    Predictor,
    Status,
    margin_path,
    max_margin,
)
from momentron.api import fit, fit_path, plan_fit
from momentron.fitting.options import FitOptions
from momentron.rows import DenseOperator, KernelOperator, sparse


def clouds(k=4, n=120, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    return rng.normal(size=(n, d)) + 5.0 * rng.normal(size=(k, d))[y], np.array(list("abcdefgh"))[y]


@pytest.mark.parametrize("C", [np.inf, 0.3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_every_class_has_the_classifier_and_the_interval_of_its_own_problem(C, fit_intercept, form):
    X, y = clouds()
    options = {"C": C, "fit_intercept": fit_intercept}
    model = MaxMarginClassifier(multi_class="ovr", **options).fit(form(X), y)
    assert model.classes_.tolist() == sorted(set(y))
    for c, label in enumerate(model.classes_):
        alone = max_margin(X, y == label, **options)
        assert model.status_[c] is Status.OPTIMAL
        assert model.certificate_[c].lower <= alone.upper
        assert alone.lower <= model.certificate_[c].upper
        assert model.margin_[c] == pytest.approx(alone.margin, rel=1e-5, abs=1e-9)
        np.testing.assert_allclose(model.coef_[c], alone.coef, atol=1e-4)
    outputs = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), outputs)
    np.testing.assert_allclose(model.dual_coef_ @ X[model.support_], model.coef_, atol=1e-4)
    assert model.score(X, y) == 1.0


def test_decision_values_are_those_of_linear_svc():
    X, y = load_iris(return_X_y=True)
    ours = MaxMarginClassifier(multi_class="ovr", C=0.5, fit_intercept=False, tol=1e-9).fit(X, y)
    theirs = LinearSVC(C=0.5, fit_intercept=False, tol=1e-10, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_kernels_have_the_intervals_of_each_class_too(kernel):
    X, y = clouds(k=5, n=200)
    rows = X @ X.T if kernel == "precomputed" else X
    model = KernelMaxMarginClassifier(C=np.inf, kernel=kernel, multi_class="ovr").fit(rows, y)
    assert model.score(rows, y) == 1.0
    for c, label in enumerate(model.classes_):
        alone = max_margin(rows, y == label, kernel=kernel)
        assert model.certificate_[c].lower <= alone.upper
        assert alone.lower <= model.certificate_[c].upper


def test_rows_and_their_kernel_values_serve_all_classes(monkeypatch):
    made = []

    def count(kind, init):
        def counted(operator, *how, **more):
            init(operator, *how, **more)
            made.append(operator)

        monkeypatch.setattr(kind, "__init__", counted)

    for kind in (DenseOperator, KernelOperator):
        count(kind, kind.__init__)
    X, y = clouds(k=5, n=200)
    # through a kernel there is a second one, of the values that all classes share
    for options, most in (({}, 1), ({"kernel": "rbf"}, 2)):
        made.clear()
        asked = FitOptions.from_arguments(**options)
        found = fit(plan_fit(X, y, asked), asked, is_split=True)
        assert len(found.results) == 5 and len(made) <= most
    counts = [found.rows.operator.evaluations]
    counts += [result.trace[-1].evaluations for result in found.results]
    assert sum(counts) <= 1.1 * 200**2


def test_rows_without_weight_are_left_out():
    X, y = clouds()
    X[:3], weights = 100.0, np.r_[np.zeros(3), np.ones(y.size - 3)]
    model = MaxMarginClassifier(multi_class="ovr", C=2.0).fit(X, y, weights)
    other = MaxMarginClassifier(multi_class="ovr", C=2.0).fit(X[3:], y[3:])
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-6)
    assert model.support_.min() >= 3
    heavy = MaxMarginClassifier(multi_class="ovr", C=1.0, class_weight=dict.fromkeys("abcd", 2.0))
    np.testing.assert_allclose(heavy.fit(X[3:], y[3:]).coef_, other.coef_, atol=1e-4)


def test_what_does_not_separate_is_told_and_classified():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(NotSeparableWarning):
        model = MaxMarginClassifier(C=np.inf, multi_class="ovr").fit(X, y)
    assert [status is Status.OPTIMAL for status in model.status_] == [True, False, False]
    assert model.score(X, y) > 0.9


@pytest.mark.clock
def test_time_is_shared():
    X, y = clouds(k=8, n=3000, d=40, seed=1)
    X += 4.0 * np.random.default_rng(2).normal(size=X.shape)
    with pytest.warns((BudgetWarning, NotSeparableWarning)):
        model = MaxMarginClassifier(
            C=np.inf, multi_class="ovr", method="momentum", max_time=0.4
        ).fit(X, y)
    assert len(model.result_) == 8 and all(result.n_iter > 0 for result in model.result_)


def test_two_classes_are_as_ever_and_other_words_are_refused():
    X, y = clouds(k=2)
    model = MaxMarginClassifier(C=np.inf, multi_class="ovr").fit(X, y)
    assert model.status_ is Status.OPTIMAL and model.coef_.shape == (1, 6)
    X, y = clouds()
    with pytest.raises(InputError, match="joint"):
        MaxMarginClassifier(C=np.inf, multi_class="ovo").fit(X, y)


def test_every_class_starts_from_its_own_last_fit():
    X, y = clouds()
    X += 3.0 * np.random.default_rng(1).normal(size=X.shape)
    for kind in (MaxMarginClassifier, KernelMaxMarginClassifier):
        warm = kind(multi_class="ovr", C=0.1, warm_start=True).fit(X, y)
        warm.set_params(C=1.0).fit(X, y)
        cold = kind(multi_class="ovr", C=1.0).fit(X, y)
        for one, other in zip(warm.certificate_, cold.certificate_, strict=True):
            assert max(one.lower, other.lower) <= min(one.upper, other.upper)
            assert one.gap <= 1e-6
        warm.fit(X, y == "a")  # two classes are another problem, which starts anew
        assert warm.status_ is Status.OPTIMAL


def test_two_classes_that_are_left_by_their_weights_are_fitted_together():
    X, y = clouds(k=3)
    weights = {"a": 1.0, "b": 1.0, "c": 0.0}
    model = MaxMarginClassifier(multi_class="ovr", C=1.0, class_weight=weights).fit(X, y)
    assert model.classes_.tolist() == ["a", "b"] and model.coef_.shape == (1, 6)
    kept = y != "c"
    assert model.score(X[kept], y[kept]) == 1.0


# --- one budget, one set of kernel values --------------------------------------------------------


def seconds_of(fit):
    """Processor seconds, so that a busy machine does not count, and what was fitted."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit()
    return time.process_time() - begin, found


@pytest.mark.parametrize("penalty", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_max_time_is_for_all_classes_together(C, penalty):
    rng = np.random.default_rng(0)
    y = np.r_[np.arange(60), rng.integers(0, 60, 940)]
    X = rng.normal(size=(1000, 2)) + 3.0 * rng.normal(size=(60, 2))[y]
    model = KernelMaxMarginClassifier(multi_class="ovr", C=C, penalty=penalty, max_time=0.1)
    seconds, _ = seconds_of(lambda: model.fit(X, y))
    assert seconds < 1.1
    assert len(model.result_) == 60 and np.isfinite(model.decision_function(X)).all()
    for result in model.result_:
        assert result.lower <= result.upper
        assert result.status in (Status.TIME_BUDGET, Status.OPTIMAL, Status.NOT_SEPARABLE)
    assert model.score(X, y) > 0.15  # of sixty classes that overlap


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_classes_without_time_have_one_classifier_for_all(form):
    X, y = clouds(k=8, n=2000, d=30)
    X += 3.0 * np.random.default_rng(1).normal(size=X.shape)
    for C in (np.inf, 1.0):
        model = MaxMarginClassifier(multi_class="ovr", C=C, max_time=1e-9)
        with pytest.warns((BudgetWarning, NotSeparableWarning), match="predict uses a logistic"):
            model.fit(form(X), y)
        assert {result.predictor for result in model.result_} == {Predictor.LOGISTIC}
        np.testing.assert_allclose(np.linalg.norm(model.coef_, axis=1), 1.0)
        alone = max_margin(form(X), y == "a", C=C)
        assert model.result_[0].lower <= alone.upper and alone.lower <= model.result_[0].upper
        reference = LinearSVC(random_state=0).fit(X, y).score(X, y)
        assert model.score(form(X), y) > reference - 0.1


def test_weights_reach_the_classifier_for_all():
    X, y = clouds(k=4, n=400)
    weights = np.r_[np.zeros(100), np.ones(300)]
    X[:100] *= -1.0
    model = KernelMaxMarginClassifier(multi_class="ovr", C=1.0, max_time=1e-9)
    with pytest.warns(BudgetWarning):
        model.fit(X, y, weights)
    assert model.support_.min() >= 100 and model.score(X[100:], y[100:]) > 0.9
    assert all(result.coef.shape == (400,) for result in model.result_)


def gaussian(counted):
    def kernel(A, B):
        counted.append(len(A) * len(B))
        squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2.0 * A @ B.T
        return np.exp(-0.5 * np.maximum(squares, 0.0))

    return kernel


@pytest.mark.parametrize(
    ("C", "penalty"), [(1.0, "hinge"), (1.0, "squared_hinge"), (np.inf, "squared_hinge")]
)
def test_kernel_values_of_all_classes_cost_no_more_than_twice_those_of_one(C, penalty):
    X, y = clouds(k=8, n=400, d=4)
    counted = []
    options = {"C": C, "penalty": penalty, "kernel": gaussian(counted)}
    model = KernelMaxMarginClassifier(multi_class="ovr", **options).fit(X, y)
    together = sum(counted)
    for c, label in enumerate(model.classes_):
        counted.clear()
        alone = max_margin(X, y == label, **options)
        assert together < 2 * sum(counted)
        assert model.certificate_[c].lower == pytest.approx(alone.lower, rel=1e-5)
        np.testing.assert_allclose(model.result_[c].coef, alone.coef, atol=1e-3)


def test_sparse_rows_have_one_gram_matrix(monkeypatch):
    made = []
    compute = sparse.sparse_gram
    monkeypatch.setattr(sparse, "sparse_gram", lambda X: made.append(X.shape[0]) or compute(X))
    rng = np.random.default_rng(0)
    X, y = (
        sp.random_array((300, 20_000), density=0.01, rng=rng, format="csr"),
        rng.integers(0, 5, 300),
    )
    model = MaxMarginClassifier(multi_class="ovr", C=1.0).fit(X, y)
    assert made.count(300) == 1
    for c in range(5):
        alone = max_margin(X, y == c, C=1.0)
        np.testing.assert_array_equal(model.coef_[c], alone.coef)
    assert made.count(300) == 6


def test_ctrl_c_ends_all_classes():
    X, y = clouds(k=8, n=800, d=10)
    seen = []

    def strike(iterate):
        seen.append(iterate)
        raise KeyboardInterrupt

    model = MaxMarginClassifier(C=np.inf, multi_class="ovr", method="momentum")
    with pytest.warns((BudgetWarning, NotSeparableWarning)):
        model.fit(X, y, callback=strike)
    assert len(seen) == 1
    assert all(result.status is Status.INTERRUPTED for result in model.result_)
    assert model.score(X, y) > 0.9


def test_the_time_of_callbacks_is_the_users_own():
    X, y = clouds(k=4, n=100)

    def slow(iterate):
        time.sleep(0.15)

    model = MaxMarginClassifier(C=np.inf, multi_class="ovr", max_time=0.5).fit(X, y, callback=slow)
    assert all(status is Status.OPTIMAL for status in model.status_)


def test_paths_and_folds_share_their_time_too():
    X, y = clouds(k=8, n=600, d=4)
    X += 4.0 * np.random.default_rng(1).normal(size=X.shape)
    options = {"multi_class": "ovr", "max_time": 0.1, "Cs": 10}
    seconds, path = seconds_of(lambda: margin_path(X, y, kernel="rbf", **options))
    assert seconds < 1.1 and len(path.results) == 10
    model = KernelMaxMarginClassifierCV(**options)
    seconds, _ = seconds_of(lambda: model.fit(X, y))
    assert seconds < 1.1 + 5 * 10 * 0.02  # and a score for each fit
    assert np.isfinite(model.scores_).all() and np.isfinite(model.decision_function(X)).all()


def test_blocks_refuse_what_they_cannot_do():
    X, y = load_iris(return_X_y=True)
    asked = FitOptions.from_arguments(block_size=2000)
    plan = plan_fit(X, y, asked)
    for more in ({"is_split": True}, {"initial": [None]}):
        with pytest.raises(InputError, match="need the data in memory"):
            fit(plan, asked, **more)
    with pytest.raises(InputError, match="need the data in memory"):
        fit_path(plan, asked, [1.0, 10.0])
