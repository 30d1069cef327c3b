"""Weights of rows and of classes: C becomes C·s_i, and zero leaves a row out."""

import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from makers import make_nonseparable
from margins_known import vertex_gradient
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, LinearSVC

from momentron import (
    InputError,
    KernelMaxMarginClassifier,
    MaxMarginClassifier,
    Status,
    max_margin,
)
from momentron.certificate import certify
from momentron.certificate.bounds import length_bound, scores_in_double, sharp_scores
from momentron.datasets import make_separable
from momentron.dual.dualsets import Vertex
from momentron.dual.labels import as_labels
from momentron.dual.losses import Exponential
from momentron.dual.penalty import Penalty
from momentron.rows import DenseOperator
from momentron.rows.validation import TrainingData, weighed
from momentron.solvers import SOLVERS
from momentron.solvers.problem import Problem
from tests.command_line import run
from tests.many_classes import blobs, leads, quadratic_program

INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True])


def overlapping(seed, n=60, d=4, k=2):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = rng.normal(size=(n, d)) + np.eye(max(d, k))[y][:, :d]
    return X, y, rng.integers(0, 4, n).astype(float)


# --- weights against rows themselves -------------------------------------------------------------


@INTERCEPT
@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3, math.inf])
def test_integer_weights_are_rows_repeated(C, k, kernel, fit_intercept):
    for seed in range(3):
        X, y, s = overlapping(seed, k=k, d=30 if math.isinf(C) and kernel is None else 4)
        options = {"C": C, "kernel": kernel, "fit_intercept": fit_intercept, "tol": 1e-11}
        times = s.astype(int)
        one = max_margin(X, y, sample_weight=s, **options)
        two = max_margin(X.repeat(times, axis=0), y.repeat(times), **options)
        assert one.lower == pytest.approx(two.lower, rel=1e-9)
        assert one.upper == pytest.approx(two.upper, rel=1e-9)
        if kernel is None and math.inf > C:
            assert np.allclose(one.coef, two.coef, atol=1e-7)
        assert not np.isin(np.flatnonzero(s == 0.0), one.support).any()


@pytest.mark.parametrize("estimator", [MaxMarginClassifier, KernelMaxMarginClassifier])
@pytest.mark.parametrize("C", [1.0, math.inf])
def test_rows_without_weight_are_left_out(estimator, C):
    X, y, s = overlapping(3, n=50, d=40, k=3)
    kept = np.flatnonzero(s)
    one = estimator(C=C, tol=1e-10).fit(X, y, sample_weight=s)
    two = estimator(C=C, tol=1e-10).fit(X[kept], y[kept], sample_weight=s[kept])
    assert np.allclose(one.decision_function(X), two.decision_function(X), atol=1e-7)
    assert np.isin(one.support_, kept).all()
    assert one.result_.n_rows == 50
    assert one.result_.full_dual().shape == (50, 3)
    assert one.result_.support_labels.tolist() == y[one.result_.support].tolist()


def test_a_precomputed_kernel_loses_columns_with_its_rows():
    X, y, s = overlapping(4)
    K = X @ X.T
    one = KernelMaxMarginClassifier(kernel="precomputed", C=0.5, tol=1e-10).fit(K, y, s)
    two = KernelMaxMarginClassifier(kernel="linear", C=0.5, tol=1e-10).fit(X, y, s)
    assert np.allclose(one.decision_function(K), two.decision_function(X), atol=1e-7)


def test_a_class_without_weight_is_no_class():
    X, y, _ = overlapping(5, k=3)
    model = MaxMarginClassifier(C=1.0, class_weight={1: 0.0}).fit(X, y)
    assert model.classes_.tolist() == [0, 2]
    with pytest.raises(InputError, match="only 1 class has rows with a positive weight"):
        max_margin(X, y, C=1.0, class_weight={0: 0.0, 1: 0.0})


def test_other_weights_change_nothing_of_a_hard_margin():
    data = make_separable(80, 6, fit_intercept=True, random_state=0)
    s = np.random.default_rng(0).uniform(0.1, 10.0, 80)
    one, two = max_margin(data.X, data.y), max_margin(data.X, data.y, sample_weight=s)
    assert (one.lower, one.upper) == (two.lower, two.upper)
    assert np.array_equal(one.coef, two.coef)


def test_the_fallback_counts_rows_by_their_weights():
    X, y, _ = overlapping(6, n=400)
    with pytest.warns(UserWarning):
        model = MaxMarginClassifier(C=np.inf, class_weight={0: 1.0, 1: 1000.0}).fit(X, y)
    assert model.predict(X).mean() > 0.95


def test_starts_know_which_rows_they_were_for():
    X, y, s = overlapping(7)
    for kernel in (None, "rbf"):
        first = max_margin(X, y, kernel=kernel, C=1.0, sample_weight=s)
        cold = max_margin(X, y, kernel=kernel, C=2.0, sample_weight=s, tol=1e-9)
        warm = max_margin(X, y, kernel=kernel, C=2.0, sample_weight=s, tol=1e-9, initial=first)
        assert warm.status is Status.OPTIMAL
        assert warm.lower == pytest.approx(cold.lower, rel=1e-8)
        more = max_margin(X, y, kernel=kernel, C=2.0, initial=first)
        assert more.status is Status.OPTIMAL


# --- against other solvers -----------------------------------------------------------------------


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 0.3, 1: 7.0}])
def test_decision_values_are_those_of_LinearSVC(class_weight):
    for seed in range(3):
        X, y, s = overlapping(seed)
        s += 0.5  # its "balanced" counts rows, not weights, where ours counts these
        s = np.ones(y.size) if class_weight == "balanced" else s
        options = {"C": 0.7, "fit_intercept": False, "class_weight": class_weight}
        ours = MaxMarginClassifier(tol=1e-10, **options).fit(X, y, s)
        theirs = LinearSVC(tol=1e-12, max_iter=1_000_000, **options).fit(X, y, s)
        found = ours.decision_function(X)
        assert np.abs(found - theirs.decision_function(X)).max() < 1e-6


@INTERCEPT
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e6])
def test_many_classes_agree_with_clarabel(C, fit_intercept):
    solved = 0
    for seed in range(6):
        X, y = blobs(seed, n=30, d=4, k=4, spread=2.0)
        s = np.random.default_rng(seed).uniform(0.1, 5.0, 30)
        status, objective = quadratic_program(X, y, fit_intercept, C, weights=s)
        result = max_margin(X, y, C=C, fit_intercept=fit_intercept, sample_weight=s, tol=1e-9)
        assert result.status is Status.OPTIMAL
        W, b = result.coef, result.intercept
        slack = np.maximum(0.0, 1.0 - leads(X @ W.T + b, y))
        own = 0.5 * np.sum(W**2) + C * s @ (slack**2).sum(axis=1)
        assert own == pytest.approx(0.5 / result.lower**2, rel=1e-7)
        if status == "Solved":
            assert own == pytest.approx(objective, rel=1e-6)
            solved += 1
    assert solved >= 4


@INTERCEPT
def test_the_joint_engines_take_weights(fit_intercept):
    from dataclasses import replace

    from momentron.solvers.auto import Auto
    from momentron.solvers.auto.settings import SETTINGS

    joint = Auto(replace(SETTINGS, many_pairs=0, many_soft_pairs=0))
    for seed in range(4):
        X, y = blobs(seed, n=120, d=5, k=4, spread=2.0)
        s = np.random.default_rng(seed).uniform(0.1, 5.0, 120)
        for options in ({"C": 0.3}, {"C": 0.3, "kernel": "rbf"}, {"C": 1e5}):
            options = options | {"fit_intercept": fit_intercept, "sample_weight": s}
            exact, found = max_margin(X, y, **options), max_margin(X, y, method=joint, **options)
            assert found.gap <= 1e-6, (seed, options)
            assert found.lower <= exact.upper and exact.lower <= found.upper


@pytest.mark.parametrize("method", list(SOLVERS))
def test_every_method_takes_weights(method):
    data = make_nonseparable(30, 4, random_state=1)
    s = np.random.default_rng(1).uniform(0.2, 3.0, 30)
    best = max_margin(data.X, data.y, C=1.0, fit_intercept=False, sample_weight=s, tol=1e-9)
    options = {"C": 1.0, "fit_intercept": False, "sample_weight": s, "max_iter": 500}
    result = max_margin(data.X, data.y, method=method, **options)
    assert result.lower <= best.upper and best.lower <= result.upper


@pytest.mark.parametrize("form", [np.asarray, np.float32, np.asfortranarray, sp.csr_array])
def test_forms_of_data_agree(form):
    X, y, s = overlapping(8, n=3000, d=5)
    whole = max_margin(X, y, C=0.1, sample_weight=s)
    result = max_margin(form(X), y, C=0.1, sample_weight=s)
    assert result.gap <= 1e-6
    assert result.lower == pytest.approx(whole.lower, rel=1e-5)


# --- certificates --------------------------------------------------------------------------------


def test_slack_of_its_own_equals_the_wide_matrix():
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(20, 4)), np.where(rng.random(20) < 0.5, 1.0, -1.0)
    roots = 10.0 ** rng.uniform(-2.0, 2.0, 20)
    labels = as_labels(2, False, (signs > 0).astype(int))
    dual_set = labels.dual_set(Exponential())
    soft = Problem(DenseOperator(X), labels, dual_set, penalty=Penalty(roots))
    wide = Problem(DenseOperator(np.hstack([X, np.diag(signs * roots)])), labels, dual_set)
    w, q, rows = rng.normal(size=24), rng.random(20), np.array([3, 17])
    few = Vertex(rows, q[rows])
    for one, two in [
        (soft.scores(w), wide.scores(w)),
        (soft.gradient(q), wide.gradient(q)),
        (vertex_gradient(soft, few), vertex_gradient(wide, few)),
        (scores_in_double(soft, w), scores_in_double(wide, w)),
        (sharp_scores(soft, rows, w), sharp_scores(wide, rows, w)),
        (soft.dual_norm(q), wide.dual_norm(q)),
        (length_bound(soft, q), length_bound(wide, q)),
        (soft.row_norms, wide.row_norms),
        (soft.penalty.stiffness * soft.penalty.shares, roots**-2.0),
    ]:
        assert np.allclose(np.asarray(one, float), np.asarray(two, float), rtol=1e-12)


def test_bounds_hold_for_the_true_prices():
    """Exact rational arithmetic, with C·s_i itself and not the float of its root."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        n, d = 6, 3
        X = rng.integers(-9, 10, (n, d)).astype(float) * 2.0 ** int(rng.integers(-40, 40))
        y, s = np.array([0, 1, 0, 1, 0, 1]), rng.uniform(0.01, 9.0, n)
        C = 10.0 ** rng.uniform(-6.0, 6.0)
        data = weighed(TrainingData.from_arrays(X, y, s), None)
        problem = Problem.of(
            data, fit_intercept=False, loss=Problem.from_data(X, y).dual_set.loss, C=C, kernel=None
        )
        result = max_margin(X, y, C=C, sample_weight=s, fit_intercept=False)
        q = result.full_dual() * (1.0 + 1e-3 * rng.normal(size=n))
        certificate = certify(problem, problem.zeros(), q, sharp=False)
        weights = [Fraction(v) for v in problem.dual_set.normalize(q)]
        signs = np.where(y == 1, 1, -1)
        sums = [
            sum(v * int(t) * Fraction(x) for v, t, x in zip(weights, signs, column, strict=True))
            for column in X.T
        ]
        square = sum(v * v for v in sums)
        for v, own in zip(weights, s, strict=True):
            square += v * v / (2 * Fraction(C) * Fraction(own))
        square /= sum(weights) ** 2
        assert Fraction(certificate.upper) ** 2 >= square
        # and the lower bound is at most the optimum, which is at most ‖Zᵀq‖ for any q
        assert Fraction(result.lower) ** 2 <= square


# --- scikit-learn's doors ------------------------------------------------------------------------


def test_weights_are_routed():
    X, y, s = overlapping(9)
    with sklearn.config_context(enable_metadata_routing=True):
        model = MaxMarginClassifier(C=1.0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=2).fit(X, y, sample_weight=s + 1.0)
    assert search.best_estimator_.coef_.shape == (1, 4)


def test_balanced_recall_is_that_of_LinearSVC():
    X, y = make_classification(
        2000, 10, n_informative=4, weights=[0.97], class_sep=0.8, flip_y=0.02, random_state=0
    )
    ours = MaxMarginClassifier(C=1.0, class_weight="balanced").fit(X, y)
    theirs = LinearSVC(C=1.0, class_weight="balanced", intercept_scaling=100.0, max_iter=100_000)
    theirs.fit(X, y)
    plain = MaxMarginClassifier(C=1.0).fit(X, y)
    recall = [model.predict(X)[y == 1].mean() for model in (ours, theirs, plain)]
    assert recall[0] == pytest.approx(recall[1], abs=0.02)
    assert recall[0] > recall[2] + 0.2


def test_gamma_scale_counts_weights():
    X, y, s = overlapping(10)
    times = s.astype(int)
    repeated = SVC().fit(X.repeat(times, axis=0), y.repeat(times))
    for rows in (X, sp.csr_array(X)):
        model = KernelMaxMarginClassifier(C=1.0).fit(rows, y, s)
        assert model._kernel.gamma == pytest.approx(repeated._gamma, rel=1e-12)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-1.0, r"sample_weight\[2\]=-1.0 must be 0, or a number"),
        (math.nan, r"sample_weight\[2\]=nan must be"),
        (math.inf, r"sample_weight\[2\]=inf must be"),
        (1e-200, r"sample_weight\[2\]=1e-200 must be"),
    ],
)
def test_bad_weights(weights, message):
    X, y, _ = overlapping(0)
    s = np.ones(60)
    s[2] = weights
    for C in (1.0, math.inf):
        with pytest.raises(InputError, match=message):
            max_margin(X, y, C=C, sample_weight=s)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(59), "X has 60 rows but sample_weight has shape"),
        (np.ones((60, 1)), "has shape"),
        (2.0, "has shape"),
        (["a"] * 60, "some entries are not numbers"),
        (np.zeros(60), "zero for every row"),
    ],
)
def test_weights_of_another_kind(weights, message):
    X, y, _ = overlapping(0)
    with pytest.raises(InputError, match=message):
        max_margin(X, y, sample_weight=weights)


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", "must be None, 'balanced' or a dict"),
        ([1.0, 2.0], "must be None, 'balanced' or a dict"),
        ({0: -1.0}, r"class_weight\[0\]=-1.0"),
        ({0: "a"}, r"class_weight\[0\]='a'"),
        ({0: math.nan}, r"class_weight\[0\]=nan"),
        ({"x": 2.0}, "class_weight has the key 'x', but the labels of y are"),
    ],
)
def test_bad_class_weights(class_weight, message):
    X, y, _ = overlapping(0)
    with pytest.raises(InputError, match=message):
        max_margin(X, y, C=1.0, class_weight=class_weight)


def test_weights_that_multiply_to_nothing_are_refused():
    X, y, s = overlapping(0)
    with pytest.raises(InputError, match="the product of its sample and class weights"):
        max_margin(X, y, C=1.0, sample_weight=1e-90 * (s + 1), class_weight={0: 1e-90})


# --- blocks and the command line -----------------------------------------------------------------


class InBlocks:
    """Rows in blocks of seven."""

    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return -(-self.y.size // 7)

    def block(self, i):
        return self.X[7 * i : 7 * i + 7], self.y[7 * i : 7 * i + 7]


def separable_with_noise():
    data = make_separable(90, 5, fit_intercept=True, random_state=2)
    y, s = data.y.copy(), np.ones(90)
    wrong = np.r_[np.arange(14, 28), 40, 81]  # two whole blocks of seven among them
    y[wrong] *= -1
    s[wrong] = 0.0
    return data.X, y, s, np.flatnonzero(s)


@pytest.mark.parametrize("door", ["source", "array", "npy"])
def test_blocks_leave_out_rows_without_weight(door, tmp_path):
    X, y, s, kept = separable_with_noise()
    whole = max_margin(X[kept], y[kept])
    if door == "source":
        result = max_margin(InBlocks(X, y), sample_weight=s)
    elif door == "array":
        result = max_margin(X, y, sample_weight=s, block_size=280)
    else:
        np.save(tmp_path / "X.npy", X)
        result = max_margin(tmp_path / "X.npy", y, sample_weight=s, block_size=280)
    assert result.lower == pytest.approx(whole.lower, rel=1e-6)
    assert result.n_rows == 90
    assert np.isin(result.support, kept).all()
    assert result.support_labels.tolist() == y[result.support].tolist()
    with pytest.raises(InputError, match="sample_weight has shape"):
        max_margin(InBlocks(X, y), sample_weight=s[:-1])
    with pytest.raises(InputError, match="leaves a class out"):
        max_margin(InBlocks(X, y), class_weight={1: 0.0})
    assert max_margin(InBlocks(X[kept], y[kept]), class_weight="balanced").lower > 0.0


def test_a_checkpoint_on_blocks_is_for_the_same_rows(tmp_path):
    X, y, s, kept = separable_with_noise()
    options = {"checkpoint": tmp_path / "state", "block_size": 280}
    first = max_margin(X, y, sample_weight=s, **options)
    again = max_margin(X, y, sample_weight=2.0 * s, **options)  # the same rows count
    assert again.certificate == first.certificate
    s[kept[0]] = 0.0
    with pytest.raises(InputError, match="it belongs to a different data set"):
        max_margin(X, y, sample_weight=s, **options)


def test_dask_collections_leave_out_rows_without_weight():
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    X, y, s, kept = separable_with_noise()
    whole = max_margin(X[kept], y[kept])
    rows, labels = da.from_array(X, chunks=(14, 5)), da.from_array(y, chunks=14)
    for weights in (s, da.from_array(s, chunks=30)):
        result = max_margin(rows, labels, sample_weight=weights)
        assert result.lower == pytest.approx(whole.lower, rel=1e-6)
        assert np.isin(result.support, kept).all() and result.n_rows == 90
    frame = dd.from_pandas(pd.DataFrame(X).assign(y=y, s=s), npartitions=4)
    model = MaxMarginClassifier(C=np.inf)
    model.fit(frame.drop(columns=["y", "s"]), frame["y"], sample_weight=frame["s"])
    assert model.certificate_.lower == pytest.approx(whole.lower, rel=1e-6)


def test_the_command_line_takes_a_column_of_weights(capsys, tmp_path):
    def fit(*words):
        return json.loads(run(capsys, "fit", *words, "--json").out)

    X, y, s = overlapping(11)
    table = pd.DataFrame(X, columns=list("abcd")).assign(s=s, label=y)
    table.to_csv(tmp_path / "a.csv", index=False)
    expected = max_margin(X, y, C=0.5, sample_weight=s)
    for column in ("s", "4"):
        found = fit(tmp_path / "a.csv", "--weight", column, "-C", "0.5")
        assert found["lower"] == pytest.approx(expected.lower, rel=1e-6)
        assert found["features"] == 4 and found["rows"] == 60
    file = max_margin(tmp_path / "a.csv", "label", C=0.5, sample_weight="s")
    assert file.lower == pytest.approx(expected.lower, rel=1e-6)
    balanced = max_margin(X, y, C=0.5, class_weight={0: 1.0, 1: 5.0})
    table.drop(columns="s").to_csv(tmp_path / "b.csv", index=False)
    found = fit(tmp_path / "b.csv", "--class-weight", "0=1,1=5", "-C", "0.5")
    assert found["lower"] == pytest.approx(balanced.lower, rel=1e-6)
    assert fit(tmp_path / "b.csv", "--class-weight", "balanced", "-C", "0.5")["gap"] <= 1e-6
    for words, message in [
        (("--weight", "nothing"), "has no column 'nothing'"),
        (("--weight", "label"), "weights need another column"),
        (("--class-weight", "2"), "must be 'balanced', or label=weight pairs"),
        (("--class-weight", "7=1"), "names '7'"),
        (("--weight", "a", "--out-of-core"), "need the data in memory"),
    ]:
        ended = run(capsys, "fit", tmp_path / "b.csv", *words)
        assert ended.code == 2 and message in ended.err


def test_a_nearly_hard_margin_does_not_depend_on_the_last_digit():
    X, y = blobs(0, n=30, d=4, k=4, spread=2.0)
    s = np.random.default_rng(0).uniform(0.1, 5.0, 30)
    for seed in (2, 25, 32):  # where five Newton steps after the interior point were too few
        digits = np.random.default_rng(seed).integers(-2, 3, X.shape)
        options = {"C": 1e6, "fit_intercept": False, "sample_weight": s, "tol": 1e-9}
        assert max_margin(X * (1.0 + 1e-15 * digits), y, **options).status is Status.OPTIMAL
