"""Fitted means able to predict: classifiers that ended on time, with w = 0, or with nothing found.

What predicts is named by `result_.predictor` and by the warning; `python -m benchmarks.hostile
--cuts N` cuts estimators at random times.
"""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from momentron import (
    BudgetWarning,
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    NotSeparableWarning,
    Predictor,
    Status,
    max_margin,
)
from momentron.onnx import to_onnx

NO_TIME = 1e-9
LINEAR = "linear", "poly", "precomputed", lambda A, B: np.asarray(A @ B.T)  # of zeros: zero
MAJORITY = [0, 1, 0, 1, 1, 1], [0, 1, 2, 1, 1, 1]


def overlapping(n=400, k=2, d=6):
    X, y = make_classification(n, d, n_informative=4, n_classes=k, flip_y=0.2, random_state=0)
    return X, np.array(["a", "b", "c", "d"])[y]


def silently(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def results_of(model):
    return model.result_ if isinstance(model.result_, list) else [model.result_]


# --- w = 0 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("multi_class", ["joint", "ovr"])
@pytest.mark.parametrize("y", MAJORITY, ids=["two", "three"])
@pytest.mark.parametrize("kernel", [*LINEAR, "rbf"], ids=["linear", "poly", "pre", "call", "rbf"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_that_are_all_alike_are_of_the_larger_class(kernel, y, multi_class, form):
    if form is sp.csr_array and (kernel == "precomputed" or callable(kernel)):
        pytest.skip("no sparse rows there")
    Z = form(np.zeros((6, 6)))
    with pytest.warns(NotSeparableWarning, match="predict uses.* constant, the same class"):
        model = KernelMaxMarginClassifier(C=np.inf, kernel=kernel, multi_class=multi_class).fit(
            Z, y
        )
    n_outputs = 1 if max(y) == 1 else 3
    assert all(result.predictor is Predictor.CONSTANT for result in results_of(model))
    assert model.predict(Z).tolist() == [1] * 6 and model.predict(Z[:1]).tolist() == [1]
    assert model.score(Z, y) == 4 / 6
    # as SVC has them, for no support vectors
    assert model.support_.shape == (0,) and model.dual_coef_.shape == (n_outputs, 0)
    assert model.support_vectors_.shape == ((0, 0) if kernel == "precomputed" else (0, 6))
    assert model.n_support_.tolist() == [0] * (max(y) + 1)
    if kernel == "linear":
        assert np.asarray(model.coef_).shape == (n_outputs, 6)


@pytest.mark.parametrize("y", MAJORITY, ids=["two", "three"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "precomputed"])
def test_a_constant_is_exported_as_one(kernel, y):
    runtime = pytest.importorskip("onnxruntime")
    Z = np.zeros((6, 6))
    model = silently(KernelMaxMarginClassifier(C=np.inf, kernel=kernel), Z, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(Z), model.decision_function(Z))
    session = runtime.InferenceSession(to_onnx(model, Z[:1]).SerializeToString())
    labels, decision = session.run(None, {session.get_inputs()[0].name: Z})
    assert labels.tolist() == [1] * 6
    np.testing.assert_allclose(decision, model.decision_function(Z))


def test_a_constant_is_read_by_skops():
    skops = pytest.importorskip("skops.io")
    model = silently(
        KernelMaxMarginClassifier(C=np.inf, kernel="linear"), np.zeros((6, 2)), MAJORITY[0]
    )
    content = skops.dumps(model)
    again = skops.loads(content, trusted=skops.get_untrusted_types(data=content))
    assert again.predict(np.ones((2, 2))).tolist() == [1, 1]
    assert again.result_.predictor == Predictor.CONSTANT


def test_without_an_intercept_nothing_tells_the_classes_apart():
    model = KernelMaxMarginClassifier(C=np.inf, kernel="linear", fit_intercept=False)
    model = silently(model, np.zeros((6, 2)), MAJORITY[0])
    assert model.decision_function(np.ones((3, 2))).tolist() == [0.0, 0.0, 0.0]
    assert model.intercept_.tolist() == [0.0]


def test_an_optimal_zero_predicts_the_sign_of_its_intercept():
    for penalty in ("hinge", "squared_hinge"):
        model = KernelMaxMarginClassifier(kernel="linear", C=1.0, penalty=penalty)
        model.fit(np.zeros((6, 2)), MAJORITY[0])
        assert model.status_ is Status.OPTIMAL
        assert model.predict([[3.0, 4.0]]).tolist() == [1] and model.intercept_[0] > 0.0


# --- no time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("C", [np.inf, 0.1])
@pytest.mark.parametrize("penalty", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("multi_class", ["joint", "ovr"])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed", lambda A, B: np.exp(-_squares(A, B))])
def test_where_there_is_no_time_a_classifier_is_still_fitted(k, C, penalty, multi_class, kernel):
    X, y = overlapping(k=k)
    rows = np.exp(-_squares(X, X)) if kernel == "precomputed" else X
    model = KernelMaxMarginClassifier(
        kernel=kernel, C=C, penalty=penalty, multi_class=multi_class, max_time=NO_TIME
    )
    with pytest.warns((BudgetWarning, NotSeparableWarning), match="predict uses") as told:
        model.fit(rows, y)
    (warning,) = told
    for result in results_of(model):
        assert result.lower <= result.upper and str(result.predictor) in str(warning.message)
    assert np.isfinite(model.decision_function(rows)).all()
    # better than the larger class: something was learnt
    assert model.score(rows, y) > 1.3 / k
    assert model.predict(rows[:1])[0] in model.classes_


def _squares(A, B):
    return ((A[:, None] - B[None]) ** 2).sum(axis=2) / 5.0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("penalty", ["hinge", "squared_hinge"])
def test_pipelines_and_sparse_rows(form, penalty):
    X, y = overlapping()
    model = KernelMaxMarginClassifier(C=1.0, penalty=penalty, max_time=NO_TIME)
    scaler = StandardScaler(with_mean=False)
    with pytest.warns(BudgetWarning, match="predict uses"):
        pipeline = make_pipeline(scaler, model).fit(form(X), y)
    assert pipeline.score(form(X), y) > 0.65


def test_cross_validation_scores_what_it_found():
    X, y = overlapping(300)
    model = KernelMaxMarginClassifierCV(kernel="poly", penalty="hinge", cv=3, max_time=0.1)
    with pytest.warns(BudgetWarning) as told:
        model.fit(X, y)
    assert np.isfinite(model.scores_).all()
    assert model.score(X, y) >= np.mean(y == "a") - 0.1
    assert "fits to folds ended above tol" in str(told[0].message)


def test_the_sort_of_classifier_is_named():
    X, y = overlapping()
    certified = KernelMaxMarginClassifier(C=1.0).fit(X, y)
    assert certified.result_.predictor is Predictor.MARGIN
    with pytest.warns(NotSeparableWarning, match="predict uses a logistic regression instead"):
        model = MaxMarginClassifier(C=np.inf).fit(X, y)
    assert model.result_.predictor is Predictor.LOGISTIC and model.result_.is_fallback
    X[y == "a"] += 100.0
    cut = MaxMarginClassifier(C=np.inf, method="momentum", max_iter=20)
    with pytest.warns(BudgetWarning, match="predict uses the best classifier found so far"):
        cut.fit(X, y)
    assert cut.result_.predictor is Predictor.BEST_SO_FAR and not cut.result_.is_fallback


@pytest.mark.clock
def test_the_cache_is_named_where_it_is_the_cause():
    X, y = overlapping(1200, d=12)
    small = KernelMaxMarginClassifier(gamma=20.0, C=1.0, cache_size=3.0, max_time=0.8)
    with pytest.warns(BudgetWarning) as told:
        small.fit(X, y)
    assert "raise cache_size" in str(told[-1].message)
    large = KernelMaxMarginClassifier(gamma=20.0, C=1.0, max_time=NO_TIME)
    with pytest.warns(BudgetWarning, match="raise max_time") as told:
        large.fit(X, y)
    assert not any("cache_size" in str(one.message) for one in told)


# --- fits that do not return ---------------------------------------------------------------------


class Interrupting:
    """A kernel that Ctrl-C strikes after so many calls."""

    def __init__(self, calls):
        self.calls = calls

    def __call__(self, A, B):
        self.calls -= 1
        if self.calls == 0:
            raise KeyboardInterrupt
        return np.exp(-_squares(A, B))


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_fit_that_does_not_return_leaves_the_model_as_it_was(error):
    X, y = overlapping(60)

    def broken(A, B):
        raise error

    model = KernelMaxMarginClassifier(kernel=broken, C=1.0)
    with pytest.raises(error):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.set_params(kernel="rbf").fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(error):
        model.set_params(kernel=broken).fit(X[:, :2], y)
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert model.n_features_in_ == X.shape[1]


def test_ctrl_c_at_any_call_of_a_kernel():
    X, y = overlapping(60, k=4)
    for calls in range(1, 12):
        model = KernelMaxMarginClassifier(
            kernel=Interrupting(calls), C=1.0, multi_class="ovr", cache_size=0.01
        )
        try:
            silently(model, X, y)
        except KeyboardInterrupt:
            with pytest.raises(NotFittedError):
                model.predict(X)
        else:
            model.kernel.calls = 0
            assert np.isfinite(model.decision_function(X)).all()
            assert {r.status for r in model.result_} <= {Status.OPTIMAL, Status.INTERRUPTED}


def test_ctrl_c_in_a_fold_ends_the_cross_validation():
    X, y = overlapping(60)
    model = KernelMaxMarginClassifierCV(
        kernel=Interrupting(3), Cs=[0.1, 1.0], cv=2, cache_size=0.01
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not any(name.endswith("_") and not name.startswith("_") for name in vars(model))


@pytest.mark.parametrize("options", [{}, {"C": 1.0}, {"C": 1.0, "penalty": "hinge"}])
@pytest.mark.parametrize("k", [2, 3])
def test_without_time_there_is_an_interval(options, k):
    X, y = overlapping(k=k)
    result = max_margin(X, y, max_time=NO_TIME, **options)
    assert result.status is Status.TIME_BUDGET
    assert 0.0 <= result.lower <= result.upper < np.inf
    assert result.support.size == y.size
