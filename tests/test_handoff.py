"""Models in other hands: pickles, skops, ONNX, calibration, pipelines, large input."""

import copy
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from momentron import (
    InputError,
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    MaxMarginClassifierCV,
    Status,
    max_margin,
)
from momentron.data.saved_state import FORMAT, MARK
from momentron.estimators import shared
from momentron.onnx import to_onnx

MODELS = [
    MaxMarginClassifier(C=1.0),
    MaxMarginClassifier(C=1.0, penalty="hinge", multi_class="ovr"),
    MaxMarginClassifierCV(Cs=[0.1, 1.0], cv=3),
    KernelMaxMarginClassifier(C=1.0),
    KernelMaxMarginClassifier(C=1.0, kernel="poly", coef0=1.0, penalty="hinge"),
    KernelMaxMarginClassifier(C=1.0, kernel="linear", multi_class="ovr"),
    KernelMaxMarginClassifierCV(Cs=[0.1, 1.0], cv=3),
]
NAMES = [f"{type(model).__name__}-{k}" for k, model in enumerate(MODELS)]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def fitted(model, iris, n_classes):
    X, y = iris
    kept = y >= 3 - n_classes
    return copy.deepcopy(model).fit(X[kept], np.array(["a", "b", "c"])[y[kept]]), X


# --- pickles and skops ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_pickles_are_read_as_they_were_written(model, iris):
    model, X = fitted(model, iris, 3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.status_ == model.status_
    assert MARK not in vars(again)


def test_pickles_of_another_format_are_refused(iris):
    model, _ = fitted(MODELS[0], iris, 2)
    for thing in (model, model.result_):
        for found in (FORMAT + 1, None):
            state = {**thing.__getstate__(), MARK: found, "_momentron_version": "9.9"}
            blank = type(thing).__new__(type(thing))
            with pytest.raises(InputError, match=f"in format {found} by momentron 9.9"):
                blank.__setstate__(state)
    state = model.__getstate__()
    del state[MARK]
    with pytest.raises(InputError, match="fit it again"):
        type(model)().__setstate__(state)


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_skops_knows_all_types_but_ours(model, iris):
    skops = pytest.importorskip("skops.io")
    model, X = fitted(model, iris, 3)
    data = skops.dumps(model)
    unknown = skops.get_untrusted_types(data=data)
    assert unknown and all(name.startswith("momentron.") for name in unknown)
    again = skops.loads(data, trusted=unknown)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    statuses = again.status_ if isinstance(again.status_, list) else [again.status_]
    assert all(status is Status.OPTIMAL for status in statuses)


# --- ONNX ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_onnx_graphs_say_what_the_models_say(model, iris, n_classes, dtype):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    model, X = fitted(model, iris, n_classes)
    X = X.astype(dtype)
    graph = to_onnx(model, X[:1]).SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    label, decision = session.run(None, {session.get_inputs()[0].name: X})
    ours = model.decision_function(X)
    assert decision.shape == ours.shape and decision.dtype == dtype
    top = np.abs(ours).max()
    unit = np.finfo(dtype).eps if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(decision, ours, rtol=unit, atol=4.0 * unit * top)
    assert label.tolist() == model.predict(X).tolist()


def test_onnx_of_pipelines_numbers_matrices_and_refusals(iris):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    X, y = iris
    X = X.astype(np.float32)

    def run(model, rows):
        graph = to_onnx(model, rows[:1]).SerializeToString()
        session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        return session.run(None, {session.get_inputs()[0].name: rows})

    scaled = make_pipeline(StandardScaler(), MaxMarginClassifier(C=1.0)).fit(X, y)
    label, decision = run(scaled, X)
    assert label.tolist() == scaled.predict(X).tolist()
    np.testing.assert_allclose(decision, scaled.decision_function(X), atol=1e-4)
    K = X.astype(np.float64) @ X.T.astype(np.float64)
    matrix = KernelMaxMarginClassifier(kernel="precomputed", C=1.0).fit(K, y)
    np.testing.assert_allclose(run(matrix, K)[1], matrix.decision_function(K), atol=1e-9)
    with pytest.raises(InputError, match="no ONNX graph"):
        to_onnx(KernelMaxMarginClassifier(kernel="laplacian", C=1.0).fit(X, y), X[:1])


# --- scikit-learn's own tools --------------------------------------------------------------------


def test_calibration_and_pipelines_of_columns(iris):
    X, y = iris
    calibrated = CalibratedClassifierCV(MaxMarginClassifier(C=1.0), cv=3).fit(X, y)
    probabilities = calibrated.predict_proba(X)
    assert np.allclose(probabilities.sum(axis=1), 1.0) and calibrated.score(X, y) > 0.9
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(kind=np.where(X[:, 2] > 3, "x", "z"))
    columns = ColumnTransformer(
        [("n", StandardScaler(), ["a", "b"]), ("k", OneHotEncoder(), ["kind"])]
    )
    for model in (MaxMarginClassifier(C=1.0), KernelMaxMarginClassifier(C=1.0)):
        whole = make_pipeline(columns, model).fit(frame, y)
        assert whole.score(frame, y) > 0.7


# --- attributes ----------------------------------------------------------------------------------


def test_attributes_are_those_of_svc(iris):
    X, y = iris
    ours = KernelMaxMarginClassifier(kernel="linear", C=1.0, penalty="hinge", tol=1e-10)
    ours.fit(X[50:], y[50:])
    theirs = SVC(kernel="linear", C=1.0, tol=1e-10).fit(X[50:], y[50:])
    assert ours.n_support_.tolist() == theirs.n_support_.tolist()
    assert ours.n_support_.dtype == theirs.n_support_.dtype
    assert ours.shape_fit_ == theirs.shape_fit_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    with pytest.raises(AttributeError, match="linear"):
        _ = KernelMaxMarginClassifier(C=1.0).fit(X, y).coef_
    for model in MODELS:
        whole = fitted(model, iris, 3)[0]
        assert whole.n_support_.sum() == whole.support_.size and whole.shape_fit_ == X.shape


def test_dask_frames_keep_their_names(iris):
    dd = pytest.importorskip("dask.dataframe")
    X, y = iris
    frame = pd.DataFrame(X[:100], columns=list("abcd"))
    lazy = dd.from_pandas(frame, npartitions=3)
    labels = dd.from_pandas(pd.Series(y[:100]), npartitions=3)
    model = MaxMarginClassifier(C=np.inf).fit(lazy, labels)
    assert model.feature_names_in_.tolist() == list("abcd") and model.n_features_in_ == 4
    assert model.n_support_.sum() == model.support_.size and model.shape_fit_ == (100, 4)
    said = model.decision_function(lazy).compute()
    np.testing.assert_allclose(said, model.decision_function(frame))
    assert model.predict(lazy).compute().tolist() == y[:100].tolist()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(lazy[list("dcba")])
    whole = dd.from_pandas(frame.assign(kind=y[:100]), npartitions=3)
    named = MaxMarginClassifier(C=np.inf).fit(whole, "kind")
    assert named.feature_names_in_.tolist() == list("abcd") and named.n_features_in_ == 4


@pytest.mark.parametrize("is_frame", [False, True])
def test_large_input_is_classified_in_blocks(is_frame, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 50)).astype(np.float32)
    model = MaxMarginClassifier(C=1.0).fit(rows, rows[:, 0] > 0.0)
    X = rng.normal(size=(20_000, 50)).astype(np.float32)
    given = pd.DataFrame(X) if is_frame else X
    expected = model.decision_function(given)
    monkeypatch.setattr(shared, "BLOCK_ENTRIES", 50 * 1000)
    model.decision_function(given[:2000])
    tracemalloc.start()
    found = model.decision_function(given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert peak < 0.5 * 8 * X.size  # in one piece it takes a copy in float64


def test_errors_in_large_input_name_the_row(monkeypatch):
    model = MaxMarginClassifier(C=np.inf).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    monkeypatch.setattr(shared, "BLOCK_ENTRIES", 20)
    X = np.ones((50, 2))
    X[37, 1] = np.nan
    with pytest.raises(InputError, match=r"X\[37, 1\]"):
        model.predict(X)
    assert max_margin([[0.0], [1.0]], [0, 1]).status is Status.OPTIMAL
