"""The soft margin with the plain hinge: ½‖w‖² + Σ C_i max(0, 1 − y f), certified by its own gap."""

import json
import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import estimator_checks_generator

from momentron import (
    BudgetWarning,
    InputError,
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    Status,
    max_margin,
)
from momentron.certificate.hinge import certify_hinge
from momentron.solvers import SOLVERS
from momentron.solvers.auto import Auto, AutoSettings, proposals
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Bounds, Direction, margin_of
from momentron.solvers.auto.primal_form import PrimalForm, SpannedForm
from momentron.solvers.auto.working_rows import SignedRows
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.problem import Problem
from tests.command_line import run
from tests.many_classes import blobs, leads
from tests.oracles.objectives import least_objective, rows_of

INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True])


def overlapping(seed, n=60, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + 0.7 * rng.normal(size=n) > 0).astype(int), rng.uniform(0.1, 4.0, n)


@pytest.mark.slow
@INTERCEPT
@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("penalty", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_agrees_with_clarabel(kernel, penalty, is_weighted, fit_intercept):
    pytest.importorskip("clarabel")
    solved = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y, s = overlapping(seed, int(rng.integers(10, 60)), int(rng.integers(1, 8)))
        C = 10.0 ** rng.uniform(-6.0, 10.0)
        options = {"kernel": kernel, "gamma": 0.4} if kernel else {}
        weights = s if is_weighted else None
        result = max_margin(
            X,
            y,
            C=C,
            penalty=penalty,
            sample_weight=weights,
            fit_intercept=fit_intercept,
            **options,
        )
        assert result.gap <= 1e-6, (seed, C)
        rows = rows_of(rbf_kernel(X, gamma=0.4)) if kernel else X
        prices = C * (s if is_weighted else np.ones(y.size))
        value = least_objective(rows, y, prices, penalty, fit_intercept)
        if value is None:
            continue
        best = 1.0 / math.sqrt(2.0 * value)
        assert result.lower <= best * (1.0 + 1e-7), (seed, C)
        assert result.upper >= best * (1.0 - 1e-7), (seed, C)
        solved += 1
    assert solved >= 4


@INTERCEPT
@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
def test_many_classes_have_a_slack_for_each_wrong_label(C, fit_intercept):
    """Weston and Watkins: ½‖W‖² + Σ_i C_i Σ_{j≠c} max(0, 1 − (F_ic − F_ij))."""
    for seed in range(3):
        X, y = blobs(seed, n=40, d=4, k=4, spread=2.0)
        s = np.random.default_rng(seed).uniform(0.2, 3.0, 40)
        for kernel in (None, "linear"):
            result = max_margin(
                X, y, C=C, penalty="hinge", kernel=kernel, sample_weight=s,
                fit_intercept=fit_intercept,
            )  # fmt: skip
            assert result.status is Status.OPTIMAL
        W = result.coef @ X
        slack = np.maximum(0.0, 1.0 - leads(X @ W.T + result.intercept, y))
        value = 0.5 * np.sum(W**2) + C * s @ slack.sum(axis=1)
        assert value == pytest.approx(0.5 / result.lower**2, rel=1e-6)
        dual = result.full_dual()
        assert (dual <= C * s[:, None] * (1.0 + 1e-12)).all()
        if fit_intercept:
            out = np.bincount(y, dual.sum(axis=1), 4)
            assert np.allclose(out, dual.sum(axis=0), atol=1e-4 * dual.sum())


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("gamma", [None, 0.3])
def test_the_conditions_of_optimality_hold(gamma, C):
    for seed in range(3):
        X, y, s = overlapping(seed, n=80)
        options = {} if gamma is None else {"kernel": "rbf", "gamma": gamma}
        result = max_margin(X, y, C=C, penalty="hinge", sample_weight=s, tol=1e-9, **options)
        signs = np.where(y == 1, 1.0, -1.0)
        K = X @ X.T if gamma is None else rbf_kernel(X, gamma=gamma)
        alpha = result.full_dual()
        f = X @ result.coef if gamma is None else K @ result.coef
        p = signs * (f + result.intercept)
        assert np.allclose(K @ (signs * alpha), f, atol=1e-7)
        assert abs(signs @ alpha) <= 1e-9 * alpha.sum()
        assert (p[alpha == 0.0] >= 1.0 - 1e-8).all()
        assert (p[alpha > 1e-6 * alpha.max()] <= 1.0 + 1e-8).all()
        is_free = (alpha > 1e-6 * alpha.max()) & (alpha < C * s * (1.0 - 1e-12))
        assert np.abs(p[is_free] - 1.0).max(initial=0.0) < 1e-8


@pytest.mark.parametrize("C", [0.01, 0.1])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_decision_values_are_those_of_SVC(kernel, C):
    """Where it converges: LIBSVM has the kernel's values in single precision, times C."""
    for seed in range(3):
        X, y, s = overlapping(seed, n=80)
        options = {"C": C, "kernel": kernel, "gamma": 0.3}
        ours = KernelMaxMarginClassifier(penalty="hinge", tol=1e-9, **options).fit(X, y, s)
        theirs = SVC(tol=1e-12, **options).fit(X, y, s)
        assert np.abs(ours.decision_function(X) - theirs.decision_function(X)).max() < 1e-6
        if kernel == "linear":
            plain = MaxMarginClassifier(C=C, penalty="hinge", tol=1e-9).fit(X, y, s)
            assert np.abs(plain.decision_function(X) - theirs.decision_function(X)).max() < 1e-6


def test_without_an_intercept_it_is_LinearSVC_with_hinge():
    X, y, _ = overlapping(5)
    ours = MaxMarginClassifier(C=0.5, penalty="hinge", fit_intercept=False, tol=1e-10).fit(X, y)
    theirs = LinearSVC(C=0.5, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=1_000_000)
    theirs.fit(X, y)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-5


def test_weights_of_the_dual_lie_in_the_box_and_make_the_classifier():
    X, y, s = overlapping(6)
    model = MaxMarginClassifier(C=0.3, penalty="hinge", tol=1e-11).fit(X, y, s)
    alpha = model.result_.full_dual()
    assert (alpha >= 0.0).all() and (alpha <= 0.3 * s * (1.0 + 1e-12)).all()
    assert np.allclose(model.dual_coef_ @ X[model.support_], model.coef_, atol=1e-4)
    assert abs(model.dual_coef_.sum()) < 1e-4


@pytest.mark.parametrize("form", [np.float32, np.asfortranarray, sp.csr_array, sp.csc_array])
def test_forms_of_data_agree(form):
    X, y, _ = overlapping(7, n=500, d=6)
    whole = max_margin(X, y, C=1.0, penalty="hinge")
    result = max_margin(form(X), y, C=1.0, penalty="hinge")
    assert result.gap <= 1e-6
    assert result.lower == pytest.approx(whole.lower, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-120, 1e-30, 1e30, 1e120])
def test_C_keeps_its_meaning_at_any_scale(scale):
    X, y, _ = overlapping(8)
    near = max_margin(X, y, C=0.7, penalty="hinge")
    far = (
        max_margin(X * scale, y, C=0.7 / scale**2, penalty="hinge")
        if scale < 1e40 and (scale > 1e-40)
        else None
    )
    if far is not None:  # f is the same, and w is divided by the scale
        assert far.lower == pytest.approx(scale * near.lower, rel=1e-6)
        assert np.allclose(far.coef * scale, near.coef, atol=1e-4)
    else:
        result = max_margin(X * scale, y, C=0.7, penalty="hinge")
        assert result.lower <= result.upper


def test_a_large_C_is_the_hard_margin():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 60))
    y = (X[:, 0] > 0).astype(int)
    hard = max_margin(X, y)
    soft = max_margin(X, y, C=1e8, penalty="hinge")
    assert soft.lower == pytest.approx(hard.lower, rel=1e-6)
    same = max_margin(X, y, penalty="hinge")
    assert (same.lower, same.upper) == (hard.lower, hard.upper)


@INTERCEPT
@pytest.mark.parametrize("k", [2, 3])
def test_any_pair_brackets_the_optimum(k, fit_intercept):
    """Whatever is proposed, bad weights and classifiers too, the interval holds the optimum."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = blobs(seed, n=20, d=3, k=k, spread=2.0) if k > 2 else overlapping(seed, 20, 3)[:2]
        C = 10.0 ** rng.uniform(-3.0, 3.0)
        best = max_margin(X, y, C=C, penalty="hinge", fit_intercept=fit_intercept, tol=1e-10)
        problem = Problem.from_data(X, y, fit_intercept=fit_intercept, C=C, penalty="hinge")
        for _ in range(20):
            v = rng.normal(size=problem.zeros().size) * 10.0 ** rng.uniform(-8.0, 8.0)
            alpha = rng.normal(size=problem.size) * C * 10.0 ** rng.uniform(-8.0, 8.0)
            for sharp in (False, True):
                found = certify_hinge(problem, v, alpha, sharp=sharp)
                assert found.lower <= best.upper and best.lower <= found.upper
        for bad in (np.nan, np.inf, -np.inf):
            v, alpha = np.full(problem.zeros().size, bad), np.full(problem.size, bad)
            found = certify_hinge(problem, v, alpha)
            assert found.lower <= best.upper and best.lower <= found.upper


def test_budgets_end_with_a_classifier():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 300))
    y = rng.integers(0, 2, 3000)
    result = max_margin(X, y, C=1.0, penalty="hinge", max_time=0.05)
    assert result.lower <= result.upper and result.coef.shape == (300,)


@pytest.mark.parametrize("method", [name for name in SOLVERS if name != "auto"])
def test_first_order_methods_are_refused(method):
    with pytest.raises(InputError, match="does not support penalty='hinge'"):
        max_margin([[0.0], [1.0]], [0, 1], C=1.0, penalty="hinge", method=method)


def test_refusals(tmp_path, capsys):
    X, y, _ = overlapping(0)
    with pytest.raises(InputError, match="penalty='l2' must be 'squared_hinge' or 'hinge'"):
        max_margin(X, y, C=1.0, penalty="l2")
    with pytest.raises(InputError, match="max_memory=1000 is for data in memory"):
        max_margin(X, y, C=1.0, penalty="hinge", block_size=400, max_memory=1000)
    np.savez(tmp_path / "a.npz", X=X, y=y)
    words = ("fit", tmp_path / "a.npz", "-C", "1", "--penalty", "hinge", "--json")
    found = json.loads(run(capsys, *words).out)
    assert found["lower"] == pytest.approx(max_margin(X, y, C=1.0, penalty="hinge").lower)


def crowded(n=2500, d=12, seed=0):
    """Many rows of two classes that overlap, some of them twice."""
    rng = np.random.default_rng(seed)
    X = np.round(2.0 * rng.normal(size=(n, d)))
    X[: n // 10] = X[n // 10 : 2 * (n // 10)]
    return X, X @ rng.normal(size=d) + 3.0 * rng.normal(size=n) > 0.0


@pytest.mark.parametrize("C", [1e-6, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_newton_on_many_rows_agrees_with_the_interior_point(C, fit_intercept, form):
    X, y = crowded()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    options = {"C": C, "penalty": "hinge", "fit_intercept": fit_intercept}
    found = max_margin(form(X), y, sample_weight=weights, **options)
    inside = Auto(AutoSettings(box_few=10**9, box_few_values=10**9, box_sample=10**9))
    other = max_margin(form(X), y, sample_weight=weights, method=inside, **options)
    assert found.status is Status.OPTIMAL and other.status is Status.OPTIMAL
    assert max(found.lower, other.lower) <= min(found.upper, other.upper)
    alpha, prices = found.full_dual(), C * weights
    assert (alpha >= 0.0).all() and (alpha <= prices * (1.0 + 1e-12)).all()
    outputs = X @ found.coef + found.intercept
    is_above = np.where(y, outputs, -outputs) > 1.0 + 1e-3
    assert not alpha[is_above].any()  # no dust on rows that have no weight


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("n", [300, 900])
def test_starts_change_nothing_but_the_time(kernel, n):
    X, y = crowded(n)
    options = {"penalty": "hinge", "kernel": kernel}
    for initial in (
        max_margin(X, y, C=0.3, **options),
        max_margin(X[:-5], y[:-5], C=1.0, **options),
        max_margin(X, y, C=0.5, kernel=kernel),
    ):
        warm = max_margin(X, y, C=1.0, initial=initial, **options)
        cold = max_margin(X, y, C=1.0, **options)
        assert warm.status is Status.OPTIMAL
        assert max(warm.lower, cold.lower) <= min(warm.upper, cold.upper)


def test_a_start_keeps_its_meaning_in_other_units():
    X, y = crowded(300)
    for scale in (2.0**-80, 2.0**80):
        initial = max_margin(scale * X, y, C=0.3 / scale**2, penalty="hinge")
        warm = max_margin(scale * X, y, C=1.0 / scale**2, penalty="hinge", initial=initial)
        one = max_margin(X, y, C=1.0, penalty="hinge")
        assert warm.status is Status.OPTIMAL
        assert max(warm.lower / scale, one.lower) <= min(warm.upper / scale, one.upper)


def many_through_a_kernel(seed=0, n=1000, repeated=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X = np.round(X) if repeated else X
    return X, (X[:, 0] + rng.normal(size=n) > 0.3).astype(int), rng.uniform(0.2, 3.0, n)


@INTERCEPT
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_all_rows_of_a_kernel_agree_with_working_sets(C, repeated, fit_intercept):
    X, y, s = many_through_a_kernel(repeated=repeated)
    options = {"C": C, "penalty": "hinge", "kernel": "rbf", "gamma": 0.5, "sample_weight": s}
    options["fit_intercept"] = fit_intercept
    every = max_margin(X, y, **options)
    sets = max_margin(X, y, method=Auto(AutoSettings(box_few_values=10_000)), **options)
    assert every.gap <= 1e-6
    assert every.lower <= sets.upper and sets.lower <= every.upper


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_all_rows_of_a_kernel_have_the_decision_values_of_SVC(C):
    X, y, s = many_through_a_kernel(1)
    model = KernelMaxMarginClassifier(C=C, penalty="hinge", kernel="rbf", gamma=0.5, tol=1e-9)
    ours = model.fit(X, y, sample_weight=s).decision_function(X)
    theirs = SVC(C=C, gamma=0.5, tol=1e-8).fit(X, y, sample_weight=s).decision_function(X)
    # LIBSVM has the kernel's values in single precision, times C
    np.testing.assert_allclose(ours, theirs, atol=1e-5 * max(1.0, C))


def test_they_count_repeated_rows_as_their_weights():
    X, y, _ = many_through_a_kernel(2)
    times = np.random.default_rng(2).integers(1, 4, y.size)
    options = {"C": 0.7, "penalty": "hinge", "kernel": "rbf", "gamma": 0.5, "tol": 1e-9}
    weighted = max_margin(X, y, sample_weight=times.astype(float), **options)
    repeated = max_margin(np.repeat(X, times, axis=0), np.repeat(y, times), **options)
    assert weighted.gap <= 1e-9 and repeated.gap <= 1e-9
    assert math.isclose(weighted.lower, repeated.lower, rel_tol=2e-9)


def test_what_proposals_leave_open_is_for_working_sets(monkeypatch):
    X, y, _ = many_through_a_kernel(3)
    options = {"C": 1.0, "penalty": "hinge", "kernel": "rbf", "gamma": 0.5}
    monkeypatch.setattr(proposals, "STEPS_PER_ROW", 0)
    result = max_margin(X, y, **options)
    assert result.gap <= 1e-6


def test_kernels_beyond_the_cache_have_working_sets():
    rng = np.random.default_rng(0)
    y = np.arange(1500) % 2
    X = rng.normal(size=(1500, 5)) + 2.5 * y[:, None]
    options = {"C": 1.0, "penalty": "hinge", "kernel": "rbf", "gamma": 0.2}
    whole = max_margin(X, y, **options)
    some = max_margin(X, y, cache_size=10.0, **options)  # 790 rows at a time
    assert some.status is Status.OPTIMAL
    assert max(some.lower, whole.lower) <= min(some.upper, whole.upper)
    with pytest.warns(BudgetWarning, match="raise cache_size"):
        tiny = max_margin(X, y, cache_size=0.01, **options)
    assert tiny.lower <= whole.upper and whole.lower <= tiny.upper
    assert tiny.status is not Status.OPTIMAL


def test_a_hinge_through_a_kernel_computes_columns_again_that_have_no_room():
    """Some 1,000 columns of 1,500 values have weight, and half of 4 MB is for columns."""
    X, y, _ = many_through_a_kernel(4, n=1500)
    options = {"C": 1.0, "penalty": "hinge", "kernel": "rbf", "gamma": 0.5}
    whole = max_margin(X, y, **options)
    some = max_margin(X, y, cache_size=4.0, **options)
    assert some.status is Status.OPTIMAL
    assert max(some.lower, whole.lower) <= min(some.upper, whole.upper)


ESTIMATORS = (
    MaxMarginClassifier(C=1.0, penalty="hinge"),
    KernelMaxMarginClassifier(C=1.0, penalty="hinge"),
)


def _checks():
    return [pair for model in ESTIMATORS for pair in estimator_checks_generator(model)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "check"), _checks(), ids=[getattr(c, "func", c).__name__ for _, c in _checks()]
)
def test_scikit_learn_contract(estimator, check):
    try:
        check(estimator)
    except Exception as error:
        if type(error).__name__ == "SkipTest":
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("share", [0.5, 0.999, 1.001, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_C_so_small_that_all_rows_are_at_it(share, weighted):
    """α = C is the optimum as long as the largest margin of C Σ y x is at most 1."""
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(300, 6)) + 0.5, rng.choice([-1.0, 1.0], 300)
    weight = rng.uniform(0.5, 2.0, 300) if weighted else np.ones(300)
    margins = y * (X @ (X.T @ (weight * y)))
    C = share / margins.max()
    options = {"penalty": "hinge", "fit_intercept": False, "tol": 1e-8}
    result = max_margin(X, y, C=C, sample_weight=weight if weighted else None, **options)
    assert result.gap <= 1e-8
    alpha = result.full_dual() / result.full_dual().sum() * weight.sum()
    assert np.allclose(alpha, weight, rtol=1e-6) == (share < 1.0)


# --- what is non-negative in exact arithmetic only ------------------------------------------------


def test_a_warm_start_through_a_kernel_whose_directions_have_no_curvature():
    """One feature: five rows of a linear kernel leave four directions in which w does not move."""
    X = np.array([[-1.18359375], [-1.890625], [1.5947265625], [-0.459228515625], [-0.76953125]])
    y = [1, 0, 1, 0, 1]
    options = {"kernel": "linear", "penalty": "hinge"}
    first = max_margin(X, y, C=1e9, **options)
    again = max_margin(X, y, C=1e10, initial=first, **options)
    direct = max_margin(X, y, C=1e10, **options)
    assert again.lower <= direct.upper
    assert direct.lower <= again.upper


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_starts_through_kernels_of_few_features_agree_with_the_rows_themselves(n_classes):
    for seed in range(20 if n_classes == 2 else 8):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(6, 40)), int(rng.integers(1, 3))
        X = rng.normal(size=(n, d))
        y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]
        last = None
        for C in (1e-3, 1e-2, 0.1, 10.0, 1e3, 1e4):
            last = max_margin(X, y, C=C, penalty="hinge", kernel="linear", initial=last)
        rows = max_margin(X, y, C=C, penalty="hinge")
        assert last.lower <= rows.upper, seed
        assert rows.lower <= last.upper, seed


def test_cross_validation_through_a_linear_kernel_ends():
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 1 + seed))
        y = np.r_[0, 1, rng.integers(0, 2, 28)]
        Cs = np.logspace(-3, 5, 5)
        model = KernelMaxMarginClassifierCV(kernel="linear", penalty="hinge", Cs=Cs, cv=2)
        assert model.fit(X, y).C_ in Cs


def test_a_direction_of_no_curvature_has_no_slope():
    """Where a Gram matrix is singular, rounding gives ‖dw‖² a sign, and ⟨w, dw⟩ a value."""
    step = np.ones(2)
    for curvature in (0.0, -1e-17, math.nan):
        direction = Direction.of(step, step[:0], step, -1e-9, curvature)
        assert (direction.slope, direction.curvature) == (0.0, 0.0)
    assert Direction.of(step, step[:0], step, -1e-9, 1e-30).slope == -1e-9


@INTERCEPT
def test_many_classes_with_a_column_of_zeros(fit_intercept):
    """The column changes nothing, wherever it is: each answer lies in the other's interval."""
    for seed in range(18):
        place, rng = seed % 3, np.random.default_rng(seed)
        n, k = int(rng.integers(5, 12)), int(rng.integers(3, 5))
        X = rng.integers(0, 2, (n, 2)).astype(float)
        y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
        C = 10.0 ** rng.integers(-3, 6)
        options = {"C": C, "penalty": "hinge", "fit_intercept": fit_intercept}
        wide = max_margin(np.insert(X, place, 0.0, axis=1), y, **options)
        narrow = max_margin(X, y, **options)
        assert wide.lower <= narrow.upper, seed
        assert narrow.lower <= wide.upper, seed
        assert wide.status == narrow.status, seed
        assert not wide.coef[:, place].any()


def test_a_form_without_its_unused_columns_goes_where_the_whole_one_goes():
    rng = np.random.default_rng(0)
    dual_set = Problem.from_data(rng.normal(size=(6, 2)), [0, 1, 0, 1, 0, 1]).dual_set
    for used in ([1, 3], [0, 2], [0, 1], [2, 3]):
        X = np.zeros((6, 4))
        X[:, used] = rng.normal(size=(6, 2))
        rows = SignedRows(X, np.array([1.0, -1.0] * 3), dual_set, 1.0)
        narrow = SpannedForm(rows, X[:, used], np.eye(4)[:, used], Deadline())
        whole = PrimalForm(rows, Deadline())
        u, b = rng.normal(size=6), rng.normal(size=1)
        for form in (narrow, whole):
            form.point = form.at_weights(u, b)
        for found, expected in zip(narrow.answer(), whole.answer(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-13)
        np.testing.assert_allclose(narrow.p, whole.p, rtol=1e-12)
        w, shift = narrow.answer()
        narrow.reset()
        narrow.warm(w, shift, u)
        np.testing.assert_allclose(narrow.p, whole.p, rtol=1e-12)


def test_a_working_set_of_one_class_has_nothing_left_to_gain():
    """P = 0, the least there is: a small cache and rows of zeros lead there."""
    rng = np.random.default_rng(470)
    n, d = int(rng.choice([20, 60, 150, 400])), int(rng.choice([2, 10, 50, 300]))
    y = np.r_[0, 1, rng.integers(0, 2, n - 2)]
    means = rng.normal(size=(2, d)) * float(rng.choice([0.0, 0.5, 2.0, 10.0]))
    X = means[y] + rng.normal(size=(n, d))
    X[:, rng.random(d) < 0.6] = 0.0
    X[rng.random(n) < 0.1] = 0.0
    C = 0.0031308350939748555
    options = {"kernel": "linear", "penalty": "hinge", "C": C, "max_memory": 10**7}
    with pytest.warns(BudgetWarning, match="cache_size"):
        small = max_margin(X, y, cache_size=0.005, tol=1e-9, **options)
    large = max_margin(X, y, **options)
    assert small.lower <= large.upper
    assert large.lower <= small.upper
    assert all(Bounds(margin_of(0.0), margin_of(dual)).gap == 0.0 for dual in (0.0, 1.0))
    assert Bounds(margin_of(1.0), margin_of(0.0)).gap == math.inf


# --- weights on their way, which intercepts do not balance yet ------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_interior_point_is_not_done_before_its_weights_are_balanced(n_classes):
    """D of weights that are not may be above P: that was taken for a gap of zero."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(5, 9))
        X = rng.integers(-3, 4, (n, 3)).astype(float)
        y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]
        weights = dict(enumerate(4.0 ** rng.integers(-5, 6, n_classes)))
        C = 10.0 ** rng.uniform(-11.0, 2.0)
        found = max_margin(X, y, C=C, penalty="hinge", class_weight=weights)
        assert found.status is Status.OPTIMAL, (seed, found.gap)


@pytest.mark.parametrize("C", [1e-10, 1.0, 1e9])
def test_rows_of_zeros_leave_the_intercepts_alone(C):
    """Two rows against one: b gives the two what they ask for, and the third pays twice."""
    found = max_margin(np.zeros((3, 1)), [0, 0, 1], C=C, penalty="hinge")
    assert found.status is Status.OPTIMAL
    least = 2.0 * C
    assert 0.5 / found.upper**2 <= least * (1.0 + 1e-9)
    assert 0.5 / found.lower**2 >= least * (1.0 - 1e-9)
    many = max_margin(np.zeros((5, 2)), [2, 0, 1, 1, 0], C=C, penalty="hinge")
    assert many.status is Status.OPTIMAL


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-20, 1e20])
def test_kernels_beyond_single_precision_are_solved_without_landmarks(scale):
    """A cache for two rows of four leads to blocks, whose first weights are in single precision."""
    X = scale * np.array([[1.0], [-1.0], [2.0], [-2.0]])
    C = 1.0 / scale**2 if scale else 1.0
    options = {"C": C, "penalty": "hinge", "kernel": "linear"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        found = max_margin(X, [0, 1, 1, 1], cache_size=1e-4, **options)
    whole = max_margin(X, [0, 1, 1, 1], **options)
    assert found.lower <= whole.upper and whole.lower <= found.upper


@pytest.mark.parametrize("kernel", [None, "linear"])
@pytest.mark.parametrize("penalty", ["hinge", "squared_hinge"])
def test_prices_beyond_the_squares_of_floats_give_an_interval_and_no_warning(penalty, kernel):
    """C‖x‖² of 1e180 and more: products of weights overflow, and what does proves nothing."""
    X = 1e100 * np.array([[2.6, 2.6], [-1.3, 2.6], [0.0, -1.3]])
    options = {"penalty": penalty, "fit_intercept": False}
    if kernel:
        X, options["kernel"] = X * 1e-10, kernel
    first = None
    for C in (1e-20, 1.0, 1e6):
        found = max_margin(X, [0, 1, 0], C=C, initial=first, **options)
        assert 0.0 <= found.lower <= found.upper
        first = found


@pytest.mark.parametrize("seed", range(40))
def test_few_rows_of_unequal_weights_are_solved(seed):
    """All rows at their bounds: only the intercept moves, along which curvature is a rounding."""
    rng = np.random.default_rng(seed)
    X, y, weight = rng.normal(size=(2, 2)).round(1), np.array([0, 1]), rng.choice([0.5, 1, 2], 2)
    result = max_margin(X, y, penalty="hinge", C=0.003, sample_weight=weight)
    assert result.status is Status.OPTIMAL
    given = max_margin(
        [[-1.3, 0.6], [-1.2, -0.3]], y, penalty="hinge", C=0.003, sample_weight=[2, 1]
    )
    assert given.lower == pytest.approx(9.13151766529, rel=1e-6)


@pytest.mark.slow
def test_many_pairs_of_few_features_are_not_seen_through_their_gram_matrix(monkeypatch):
    """20,900 pairs: their Gram matrix has 3.5 GB, twice with its factor; their features 170 MB."""
    open_gram = WorkingSets._gram_form

    def within_memory(sets, W, rows):
        assert sets.settings.form_bytes * W.size**2 <= sets.settings.memory
        return open_gram(sets, W, rows)

    monkeypatch.setattr(WorkingSets, "_gram_form", within_memory)
    n, k = 1100, 20
    X = np.random.default_rng(0).normal(size=(n, 50))
    result = max_margin(X, np.arange(n) % k, C=1e-6, penalty="hinge")
    assert result.status is Status.OPTIMAL
