"""MaxMarginClassifier as scikit-learn users expect it."""

import inspect
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from makers import make_nonseparable
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import estimator_checks_generator

from momentron import (
    BudgetWarning,
    InputError,
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    MaxMarginClassifierCV,
    NotSeparableWarning,
    Status,
    max_margin,
)
from momentron.datasets import make_separable
from momentron.estimators.shared import warn_of
from momentron.fitting.fits import Fits
from momentron.rows.kernels import PrecomputedKernel

ESTIMATORS = (
    MaxMarginClassifier(C=np.inf, max_iter=1000),
    KernelMaxMarginClassifier(C=np.inf, max_iter=1000),
    MaxMarginClassifier(),
    KernelMaxMarginClassifier(),
    MaxMarginClassifier(C=1.0, penalty="hinge", multi_class="ovr"),
    KernelMaxMarginClassifier(C=1.0, penalty="hinge"),
    MaxMarginClassifierCV(Cs=[0.1, 1.0], cv=3),
    KernelMaxMarginClassifierCV(Cs=[0.1, 1.0], cv=3),
)


def _checks():
    return [pair for model in ESTIMATORS for pair in estimator_checks_generator(model)]


@pytest.mark.parametrize(
    ("estimator", "check"), _checks(), ids=[getattr(c, "func", c).__name__ for _, c in _checks()]
)
def test_scikit_learn_contract(estimator, check):
    is_hard_kernel = hasattr(estimator, "kernel") and np.isinf(getattr(estimator, "C", 1.0))
    if is_hard_kernel and check.func.__name__ == "check_class_weight_classifiers":
        pytest.skip("class weights change nothing of a hard margin, and a kernel finds one here")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(estimator)
        except Exception as error:
            if type(error).__name__ == "SkipTest":
                pytest.skip(str(error))
            raise


@pytest.fixture(scope="module")
def data():
    return make_separable(80, 5, margin=0.5, n_support=4, fit_intercept=True, random_state=0)


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [3, 7], [False, True], [-1, 1], [0.0, 1.0]], ids=str
)
def test_labels_of_any_kind(data, labels):
    y = np.array(labels)[(data.y > 0).astype(int)]
    model = MaxMarginClassifier(C=np.inf, tol=1e-3).fit(data.X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert np.array_equal(model.predict(data.X), y)
    assert model.score(data.X, y) == 1.0


def test_attributes(data):
    model = MaxMarginClassifier(C=np.inf, tol=1e-3).fit(data.X, data.y)
    decision = model.decision_function(data.X)
    assert model.coef_.shape == (1, 5)
    assert model.intercept_.shape == (1,)
    assert np.linalg.norm(model.coef_) == pytest.approx(1.0)
    assert (decision * data.y).min() == pytest.approx(model.margin_, rel=1e-9)
    assert model.certificate_.lower <= data.margin <= model.certificate_.upper
    assert model.margin_ <= model.certificate_.lower  # coef is rounded to unit length
    assert model.margin_ == pytest.approx(model.certificate_.lower, rel=1e-12)
    assert model.status_ is Status.OPTIMAL
    assert model.n_iter_ >= 1
    assert model.dual_coef_.shape == (1, model.support_.size)
    assert model.dual_coef_.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("C", [np.inf, 1.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_dual_coefficients_combine_the_rows_to_the_classifier(C, n_classes):
    rng = np.random.default_rng(3)
    y = np.arange(60) % n_classes
    X = rng.normal(size=(60, 4)) + 8.0 * np.eye(4)[y]
    linear = MaxMarginClassifier(C=C, tol=1e-10).fit(X, y)
    kernel = KernelMaxMarginClassifier(kernel="linear", C=C, tol=1e-10).fit(X, y)
    assert np.allclose(linear.dual_coef_ @ X[linear.support_], linear.coef_, atol=1e-5)
    assert np.allclose(kernel.dual_coef_ @ X[kernel.support_], linear.coef_, atol=1e-5)
    if n_classes == 2:  # with more, different weights may give the same classifier
        assert np.array_equal(linear.support_, kernel.support_)
        assert np.allclose(linear.dual_coef_, kernel.dual_coef_, atol=1e-5)


def test_callback_is_not_routed_metadata():
    for model in (MaxMarginClassifier(), KernelMaxMarginClassifier()):
        assert model.get_metadata_routing().fit.requests == {"sample_weight": None}


def test_feature_names_are_kept_and_checked(data):
    frame = pd.DataFrame(data.X, columns=list("abcde"))
    model = MaxMarginClassifier(C=np.inf, tol=1e-3).fit(frame, data.y)
    assert model.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("edcba")])


def test_sparse_equals_dense(data):
    dense = MaxMarginClassifier(C=np.inf, tol=1e-3).fit(data.X, data.y)
    sparse = MaxMarginClassifier(C=np.inf, tol=1e-3).fit(sp.csr_array(data.X), data.y)
    assert np.allclose(
        dense.decision_function(data.X), sparse.decision_function(sp.csr_array(data.X)), atol=1e-8
    )


def test_not_separable_warns_and_works():
    data = make_nonseparable(60, 4, fit_intercept=True, random_state=0)
    model = MaxMarginClassifier(C=np.inf, max_iter=500)
    with pytest.warns(NotSeparableWarning, match=r"C= .* check_separability"):
        model.fit(data.X, data.y)
    assert model.score(data.X, data.y) > 0.5
    assert model.margin_ < 0.0
    assert model.certificate_.lower == 0.0


def test_classes_that_no_hyperplane_parts_from_the_rest_are_named():
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    words = "no classifier separates the classes versicolor, virginica from the rest"
    with pytest.warns(NotSeparableWarning, match=words):
        MaxMarginClassifier(C=np.inf, multi_class="ovr").fit(X, y)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (MaxMarginClassifier, "no smaller gap here; centre and rescale the features, or raise tol"),
        (KernelMaxMarginClassifier, "no smaller gap here; raise tol$"),
    ],
)
def test_what_helps_against_roundings(kind, words):
    stalled = replace(max_margin([[0.0], [1.0]], [0, 1]), status=Status.STALLED)
    with pytest.warns(BudgetWarning, match=words):
        warn_of(Fits([stalled], np.array([0, 1])), rescale=kind._rescale)


def test_budget_warns(data):
    model = MaxMarginClassifier(C=np.inf, method="momentum", max_iter=300, tol=1e-9)
    with pytest.warns(BudgetWarning, match="raise max_iter"):
        model.fit(data.X, data.y)
    assert model.status_ is Status.ITERATION_BUDGET
    assert issubclass(BudgetWarning, ConvergenceWarning)


def test_lives_in_pipelines_and_pickles(data):
    pipeline = make_pipeline(StandardScaler(), MaxMarginClassifier(C=np.inf, tol=1e-2))
    assert cross_val_score(pipeline, data.X, data.y, cv=3).mean() > 0.8
    model = clone(pipeline[-1]).fit(data.X, data.y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(data.X), model.predict(data.X))


@pytest.mark.parametrize("C", [np.inf, 1.0])
def test_warm_start_gives_the_same_answer(data, C):
    cold = MaxMarginClassifier(C=C, tol=1e-9).fit(data.X, data.y)
    warm = MaxMarginClassifier(C=C, tol=1e-9, warm_start=True).fit(data.X[:60], data.y[:60])
    warm.fit(data.X, data.y)
    assert warm.certificate_.lower == pytest.approx(cold.certificate_.lower, rel=1e-8)
    assert np.allclose(warm.coef_, cold.coef_, atol=1e-6)


def test_callback_reaches_the_loop(data):
    rows = []
    with pytest.warns(BudgetWarning):
        MaxMarginClassifier(C=np.inf, method="momentum", tol=1e-9, max_iter=250).fit(
            data.X, data.y, callback=rows.append
        )
    assert len(rows) == 250


def test_a_precomputed_kernel_by_its_class_predicts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] > 0.0, 1, 0)
    named = KernelMaxMarginClassifier(kernel="precomputed", C=1.0).fit(X @ X.T, y)
    by_class = KernelMaxMarginClassifier(kernel=PrecomputedKernel(), C=1.0).fit(X @ X.T, y)
    assert np.array_equal(named.predict(X @ X.T), by_class.predict(X @ X.T))


# --- parameters ----------------------------------------------------------------------------------

KINDS = sorted({type(model) for model in ESTIMATORS}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("door", [max_margin, *KINDS], ids=lambda door: door.__name__)
def test_every_parameter_is_documented_with_its_type_and_its_default(door):
    told = inspect.getdoc(door).split("Parameters\n----------\n")[1].split("\n\n")[0]
    lines = [line for line in told.splitlines() if not line.startswith(" ")]
    entries = dict(line.split(" : ") for line in lines)
    parameters = inspect.signature(door).parameters
    assert entries.keys() == parameters.keys()
    for name, parameter in parameters.items():
        default = parameter.default
        if name not in ("X", "y"):
            shown = f'"{default}"' if isinstance(default, str) else repr(default)
            assert entries[name].endswith(f", default={shown}"), entries[name]
    assert told.count("\n    ") >= len(entries) and "As in `" not in told


@pytest.mark.parametrize("kind", KINDS)
def test_every_attribute_is_documented(kind, data):
    told = inspect.getdoc(kind).split("Attributes\n----------\n")[1].split("\n\n")[0]
    names = {line.split(" : ")[0] for line in told.splitlines() if not line.startswith(" ")}
    found = {name for name in vars(kind().fit(data.X, data.y)) if name.endswith("_")}
    assert found - names == {"n_features_in_"}  # scikit-learn's own


@pytest.mark.parametrize("kind", KINDS)
def test_pages_of_estimators_open_with_the_formula(kind):
    first, second, third, *_ = inspect.getdoc(kind).split("\n\n")
    assert third.startswith(".. math:: ") and "For" in second and "\n" not in first


def test_the_default_is_the_soft_margin_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    for ours, theirs in ((MaxMarginClassifier, LinearSVC), (KernelMaxMarginClassifier, SVC)):
        assert ours().C == theirs().C == 1.0
        model = ours().fit(X, y)  # the hard margin ends in a warning here, which is an error
        assert model.result_.is_soft and model.certificate_.gap <= 1e-6


@pytest.mark.parametrize(
    ("kind", "habit", "words"),
    [
        (MaxMarginClassifier, {"probability": True}, "'probability': .*CalibratedClassifierCV"),
        (KernelMaxMarginClassifier, {"shrinking": False}, "'shrinking': leave it out"),
        (KernelMaxMarginClassifier, {"decision_function_shape": "ovo"}, 'multi_class="ovr"'),
        (KernelMaxMarginClassifier, {"break_ties": True}, "largest decision value"),
        (MaxMarginClassifier, {"dual": "auto"}, "'dual': leave it out"),
        (MaxMarginClassifier, {"intercept_scaling": 1.0}, "intercepts are not penalised"),
        (MaxMarginClassifier, {"n_jobs": 2}, "MaxMarginClassifierCV"),
        (MaxMarginClassifier, {"kernel": "rbf"}, "KernelMaxMarginClassifier"),
        (MaxMarginClassifierCV, {"C": 1.0}, "'C': pass Cs"),
        (MaxMarginClassifier, {"pennalty": "hinge"}, "did you mean 'penalty'"),
        (MaxMarginClassifier, {"qqq": 1}, "has no parameter 'qqq'$"),
    ],
)
def test_habits_from_other_classifiers_are_told_the_remedy(kind, habit, words):
    with pytest.raises(TypeError, match=words) as caught:
        kind(**habit)
    assert isinstance(caught.value, InputError) and kind.__name__ in str(caught.value)


@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ({"loss": "hinge"}, "penalty='hinge'"),
        ({"loss": "squared_hinge"}, "penalty='squared_hinge'"),
        ({"max_iter": -1}, "max_iter=-1 must be at least 1; None is the default of the method"),
    ],
)
def test_values_from_other_classifiers_are_told_the_remedy(data, habit, words):
    with pytest.raises(InputError, match=words):
        MaxMarginClassifier(**habit).fit(data.X, data.y)


def test_a_lazy_frame_is_to_be_collected_first(data):
    class LazyFrame:  # as polars has it, which the tests do not need
        def collect_schema(self): ...

    model = MaxMarginClassifier().fit(data.X, data.y)
    for door in (lambda X: MaxMarginClassifier().fit(X, data.y), model.predict):
        with pytest.raises(InputError, match=r"X is a LazyFrame.*call \.collect\(\) first"):
            door(LazyFrame())


# --- slim ----------------------------------------------------------------------------------------


def size(model):
    return len(pickle.dumps(model))


@pytest.mark.parametrize("n_class", [2, 10])
def test_slim_linear_classifiers_are_as_small_as_those_of_linear_svc(n_class):
    X, y = load_digits(n_class=n_class, return_X_y=True)
    theirs = size(LinearSVC(max_iter=100).fit(X[:200] / 16.0, y[:200]))
    for model in (MaxMarginClassifier(), MaxMarginClassifier(multi_class="ovr")):
        model.fit(X, y)
        before, output = size(model), model.decision_function(X)
        lower, margin, status = np.ravel(model.certificate_)[0].lower, model.margin_, model.status_
        assert model.slim() is model and size(model) < theirs + 2000 < before
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.decision_function(X), output)
        assert np.array_equal(again.margin_, margin) and again.status_ == status
        assert np.ravel(again.certificate_)[0].lower == lower
        assert not hasattr(again, "result_") and not hasattr(again, "dual_coef_")


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_slim_classifiers_predict_and_can_be_fitted_again(model, data):
    with pytest.raises(NotFittedError):
        clone(model).slim()
    full = clone(model).fit(data.X, data.y)
    output = full.decision_function(data.X)
    slim = pickle.loads(pickle.dumps(full)).slim()
    assert size(slim) < size(full)
    assert np.array_equal(slim.decision_function(data.X), output)
    slim.slim()  # once more changes nothing
    assert slim.score(data.X, data.y) == full.score(data.X, data.y)
    if "warm_start" in slim.get_params():
        slim.set_params(warm_start=True)
    assert slim.fit(data.X, data.y).certificate_ == full.certificate_
