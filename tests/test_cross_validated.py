"""MaxMarginClassifierCV: scikit-learn's conventions, and the scores of single fits."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_score

from momentron import (
    BudgetWarning,
    InputError,
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    MaxMarginClassifierCV,
)

Cs = [0.01, 1.0, 10.0]
PAIRS = [
    (MaxMarginClassifierCV, MaxMarginClassifier),
    (KernelMaxMarginClassifierCV, KernelMaxMarginClassifier),
]


@pytest.fixture(scope="module")
def data():
    return make_classification(160, 6, flip_y=0.1, class_sep=0.7, random_state=0)


@pytest.mark.parametrize(("CV", "single"), PAIRS)
@pytest.mark.parametrize("options", [{}, {"penalty": "hinge"}], ids=str)
def test_scores_are_those_of_single_fits(data, CV, single, options):
    X, y = data
    model = CV(Cs=Cs, cv=3, scoring="roc_auc", **options).fit(X, y)
    assert model.scores_.shape == (3, 3) and model.Cs_.tolist() == Cs
    for j, C in enumerate(Cs):
        alone = cross_val_score(single(C=C, **options), X, y, cv=3, scoring="roc_auc")
        np.testing.assert_allclose(model.scores_[:, j], alone, atol=1e-3)
    means = model.scores_.mean(axis=0)
    assert model.Cs_[means.argmax()] == model.C_
    assert model.best_score_ == means.max()
    last = single(C=model.C_, **options).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), last.decision_function(X), atol=1e-4)
    assert model.certificate_.gap <= 1e-6
    assert model.score(X, y) == pytest.approx(
        cross_val_score(last, X, y, cv=[(np.arange(160),) * 2], scoring="roc_auc")[0], abs=1e-3
    )


@pytest.mark.parametrize("multi_class", ["joint", "ovr"])
@pytest.mark.parametrize("CV", [CV for CV, _ in PAIRS])
def test_many_classes_sparse_rows_and_frames(CV, multi_class):
    X, y = load_iris(return_X_y=True)
    model = CV(Cs=[0.1, 1.0], cv=3, multi_class=multi_class).fit(X, y)
    assert model.score(X, y) > 0.9 and model.n_support_.sum() == model.support_.size
    frame = CV(Cs=[0.1, 1.0], cv=3, multi_class=multi_class)
    frame.fit(pd.DataFrame(X, columns=list("abcd")), pd.Series(y))
    assert frame.feature_names_in_.tolist() == list("abcd")
    sparse = CV(Cs=[0.1, 1.0], cv=3, multi_class=multi_class).fit(sp.csr_array(X), y)
    assert frame.C_ == sparse.C_ == model.C_
    np.testing.assert_allclose(sparse.scores_, model.scores_, atol=0.02)


def test_a_precomputed_kernel_is_cut_on_both_sides(data):
    X, y = data
    K = X @ X.T
    matrix = KernelMaxMarginClassifierCV(kernel="precomputed", Cs=Cs, cv=3).fit(K, y)
    rows = KernelMaxMarginClassifierCV(kernel="linear", Cs=Cs, cv=3).fit(X, y)
    np.testing.assert_allclose(matrix.scores_, rows.scores_, atol=0.02)
    np.testing.assert_array_equal(matrix.predict(K), rows.predict(X))


def test_folds_may_be_fitted_at_once(data):
    X, y = data
    alone = MaxMarginClassifierCV(Cs=Cs, cv=2).fit(X, y)
    with joblib.parallel_config(backend="threading"):  # processes would take seconds to start
        beside = MaxMarginClassifierCV(Cs=Cs, cv=2, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(alone.scores_, beside.scores_)


def test_without_refit_there_is_a_C_and_no_classifier(data):
    X, y = data
    model = MaxMarginClassifierCV(Cs=Cs, cv=2, refit=False).fit(X, y)
    assert model.C_ in Cs and not hasattr(model, "coef_")
    with pytest.raises(NotFittedError, match="refit=False"):
        model.predict(X)


def test_weights_reach_the_fits_and_the_scores(data):
    X, y = data
    weights = np.random.default_rng(0).integers(1, 4, y.size)
    folds = list(StratifiedKFold(2).split(X, y))
    model = MaxMarginClassifierCV(Cs=Cs, cv=folds).fit(X, y, weights)
    for i, (train, test) in enumerate(folds):
        for j, C in enumerate(Cs):
            one = MaxMarginClassifier(C=C).fit(X[train], y[train], weights[train])
            score = one.score(X[test], y[test], weights[test])
            assert model.scores_[i, j] == pytest.approx(score, abs=0.02)


def test_metadata_are_routed_to_splitter_and_scorer(data):
    X, y = data
    groups, seen = np.arange(y.size) % 5, []

    def watched(truth, said, sample_weight=None):
        seen.append(sample_weight)
        return accuracy_score(truth, said, sample_weight=sample_weight)

    weights = np.linspace(1.0, 2.0, y.size)
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(watched).set_score_request(sample_weight=True)
        model = MaxMarginClassifierCV(Cs=[0.1, 1.0], cv=GroupKFold(5), scoring=scorer)
        model.set_fit_request(sample_weight=True)
        model.fit(X, y, sample_weight=weights, groups=groups)
        assert model.scores_.shape == (5, 2)
        np.testing.assert_array_equal(seen[0], weights[groups == _first_group(X, y, groups)])
        request = model.get_metadata_routing()
        assert request.consumes("fit", ["groups", "sample_weight"]) == {"groups", "sample_weight"}
        blind = make_scorer(watched).set_score_request(sample_weight=False)
        seen.clear()
        model.set_params(scoring=blind).fit(X, y, sample_weight=weights, groups=groups)
        assert all(given is None for given in seen)
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        MaxMarginClassifierCV(cv=GroupKFold(5)).fit(X, y, groups=groups)


def _first_group(X, y, groups):
    return groups[next(GroupKFold(5).split(X, y, groups))[1][0]]


def test_bad_parameters_and_short_fits_are_told(data):
    X, y = data
    for wrong in ({"Cs": []}, {"Cs": [0.0]}, {"refit": "yes"}, {"penalty": "l1"}):
        with pytest.raises(InputError):
            MaxMarginClassifierCV(**wrong).fit(X, y)
    with pytest.raises(InputError, match="kernel=None"):
        KernelMaxMarginClassifierCV(kernel=None).fit(X, y)
    with pytest.raises(ValueError, match="scoring"):
        MaxMarginClassifierCV(scoring="nothing").fit(X, y)
    with pytest.raises(InputError, match="1 class"):
        MaxMarginClassifierCV(Cs=Cs, cv=KFold(2)).fit(np.sort(X, axis=0), np.sort(y))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        MaxMarginClassifierCV(Cs=Cs, cv=2, method="momentum", max_iter=3).fit(X, y)
    texts = [str(one.message) for one in told if one.category is BudgetWarning]
    assert any("6 of 6 fits to folds" in text for text in texts)
    assert all(one.filename == __file__ for one in told)
