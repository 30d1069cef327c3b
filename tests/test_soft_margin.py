"""The soft margin: a hard margin of the kernel K + I/(2C), for every method and every dual set."""

import numpy as np
import pytest
import scipy.sparse as sp
from makers import make_nonseparable
from margins_known import vertex_gradient
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from momentron import MaxMarginClassifier, max_margin
from momentron.certificate import certify
from momentron.certificate.bounds import (
    length_bound,
    norm_bounds,
    scores_in_double,
    sharp_scores,
)
from momentron.datasets import make_separable
from momentron.dual.dualsets import Vertex
from momentron.dual.labels import as_labels
from momentron.dual.losses import Exponential
from momentron.dual.penalty import Penalty
from momentron.errors import InputError
from momentron.rows import DenseOperator
from momentron.solvers import SOLVERS
from momentron.solvers.problem import Problem


def least_objective(X, y, C, fit_intercept):
    """min ½‖w‖² + C Σ max(0, 1 − y f)², to rounding, by BFGS and Newton-like restarts."""
    d = X.shape[1]

    def value(v):
        slack = np.maximum(0.0, 1.0 - y * (X @ v[:d] + v[d] * fit_intercept))
        gradient = np.append(v[:d], 0.0)
        gradient[:d] -= 2.0 * C * X.T @ (y * slack)
        gradient[d] -= 2.0 * C * fit_intercept * (y @ slack)
        return 0.5 * v[:d] @ v[:d] + C * slack @ slack, gradient

    v = np.zeros(d + 1)
    for _ in range(5):
        v = minimize(value, v, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 0}).x
    return value(v)[0]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("make", [make_separable, make_nonseparable])
def test_interval_contains_the_least_objective(make, C, fit_intercept):
    data = make(60, 5, fit_intercept=fit_intercept, random_state=0)
    best = 1.0 / np.sqrt(2.0 * least_objective(data.X, data.y, C, fit_intercept))
    result = max_margin(data.X, data.y, fit_intercept=fit_intercept, C=C, tol=1e-3, max_iter=20_000)
    assert result.lower <= best * (1 + 1e-9)
    assert result.upper >= best * (1 - 1e-9)
    assert result.gap <= 1e-3
    # coef and intercept are the support vector machine itself
    w, b = result.coef, result.intercept
    slack = np.maximum(0.0, 1.0 - data.y * (data.X @ w + b))
    objective = 0.5 * w @ w + C * slack @ slack
    assert objective <= 0.5 / result.lower**2 * (1 + 1e-9)


@pytest.mark.parametrize("method", list(SOLVERS))
def test_every_method_takes_a_finite_C(method):
    data = make_nonseparable(30, 4, random_state=1)
    best = 1.0 / np.sqrt(2.0 * least_objective(data.X, data.y, 1.0, False))
    result = max_margin(data.X, data.y, method=method, fit_intercept=False, C=1.0, max_iter=500)
    assert result.lower <= best * (1 + 1e-9)
    assert result.upper >= best * (1 - 1e-9)


def test_slack_equals_the_wide_matrix():
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(20, 4)), np.where(rng.random(20) < 0.5, 1.0, -1.0)
    labels = as_labels(2, False, (signs > 0).astype(int))
    dual_set = labels.dual_set(Exponential())
    soft = Problem(DenseOperator(X), labels, dual_set, penalty=Penalty(float(1.0 / np.sqrt(3.0))))
    wide = Problem(DenseOperator(np.hstack([X, np.diag(signs) / np.sqrt(3.0)])), labels, dual_set)
    w, q = rng.normal(size=24), rng.random(20)
    centred = Problem.from_data(X, signs, C=1.5)
    rows = np.array([3, 17])
    few = Vertex(rows, q[rows])
    assert soft.radius == pytest.approx(wide.radius)
    for one, two in [
        (soft.scores(w), wide.scores(w)),
        (soft.gradient(q), wide.gradient(q)),
        (vertex_gradient(soft, few), vertex_gradient(wide, few)),
        (scores_in_double(soft, w), scores_in_double(wide, w)),
        (sharp_scores(soft, rows, w), sharp_scores(wide, rows, w)),
        (soft.dual_norm(q), wide.dual_norm(q)),
        (soft.norm(w), wide.norm(w)),
        (norm_bounds(soft, w), norm_bounds(wide, w)),
        (length_bound(soft, q), length_bound(wide, q)),
        (soft.row_norms, wide.row_norms),
        (centred.tight_radius, np.hypot(np.linalg.norm(X - X.mean(0), axis=1).max(), 3.0**-0.5)),
    ]:
        assert np.allclose(np.asarray(one, float), np.asarray(two, float), rtol=1e-12)


def test_certificates_agree_with_the_wide_matrix():
    data = make_nonseparable(20, 4, fit_intercept=True, random_state=2)
    wide = np.hstack([data.X, np.diag(data.y.astype(float))])
    soft_problem = Problem.from_data(data.X, data.y, C=0.5)
    wide_problem = Problem.from_data(wide, data.y, loss=Exponential())
    rng = np.random.default_rng(0)
    for _ in range(20):
        w, q = rng.normal(size=24), rng.random(20)
        for sharp in (False, True):
            one = certify(soft_problem, w, q, sharp=sharp)
            two = certify(wide_problem, w, q, sharp=sharp)
            assert one.margin == pytest.approx(two.margin, rel=1e-12)
            assert one.upper == pytest.approx(two.upper, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1e-40, 1e40, 1e140])
def test_C_keeps_its_meaning_at_any_scale(scale):
    """Two points at ±s, whose least objective is known in closed form."""
    X, C = np.array([[1.0, 0.0], [-1.0, 0.0]]) * scale, 1.3
    # with an intercept: min ½ω² + 2C(1 − sω)² = 2C/(1 + 4Cs²)
    best = np.sqrt((1.0 + 4.0 * C * scale**2) / (4.0 * C))
    result = max_margin(X, [1, -1], C=C)
    assert result.lower <= best * (1 + 1e-12)
    assert result.upper >= best * (1 - 1e-12)
    assert result.gap <= 1e-6


@pytest.mark.parametrize(
    ("scale", "C"), [(1e-300, 1.0), (1e-160, 1.3), (1e200, 1.0), (1e150, 1e99)]
)
def test_C_out_of_proportion_is_refused(scale, C):
    with pytest.raises(InputError, match="out of proportion"):
        max_margin(np.array([[1.0, 0.0], [-1.0, 0.0]]) * scale, [1, -1], C=C)


@pytest.mark.parametrize("y", [[0, 1, 0], [0, 1, 2]])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.filterwarnings("ignore::momentron.BudgetWarning")
def test_kernel_values_beyond_which_no_row_has_slack_give_an_interval(fit_intercept, y):
    """A Newton step without any row: its matrix is empty."""
    X = 1e150 * np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.5]])
    found = max_margin(X, y, kernel="linear", C=1e9, fit_intercept=fit_intercept)
    assert 0.0 <= found.lower <= found.upper


@pytest.mark.parametrize("seed", [4, 8, 29, 32])
@pytest.mark.parametrize("kernel", [None, "linear"])
def test_a_start_of_another_scale_does_not_stall(kernel, seed):
    """C‖x‖² is 1e-40: the weights of the hard margin are larger by as much."""
    X = 1e-20 * np.round(np.random.default_rng(seed).normal(size=(3, 3)), 1)
    hard = max_margin(X, [0, 1, 0], kernel=kernel)
    assert max_margin(X, [0, 1, 0], C=1.0, kernel=kernel, initial=hard).gap <= 1e-6


def test_sparse_equals_dense():
    data = make_nonseparable(40, 6, fit_intercept=True, random_state=3)
    options = {"C": 0.5, "tol": 1e-4, "max_iter": 20_000}
    one = max_margin(data.X, data.y, **options)
    two = max_margin(sp.csr_array(data.X), data.y, **options)
    assert one.lower == pytest.approx(two.lower, rel=2e-4)
    assert np.allclose(one.coef, two.coef, atol=1e-3)


@pytest.mark.parametrize("C", [0.0, -1.0, float("nan"), "1", True, 1e-200])
def test_bad_C(C):
    with pytest.raises(InputError, match="C="):
        max_margin([[0.0], [1.0]], [0, 1], C=C)


# --- the meaning of C: scikit-learn's ----------------------------------------------------------


def by_clarabel(X, y, C, fit_intercept):
    """(w, b) of min ½‖w‖² + C Σ ξ², to 1e-12."""
    clarabel = pytest.importorskip("clarabel")
    n, d = X.shape
    A = sp.csc_array(-np.hstack([y[:, None] * X, y[:, None] * float(fit_intercept), np.eye(n)]))
    P = sp.diags_array(np.r_[np.ones(d), 0.0, np.full(n, 2.0 * C)]).tocsc()
    if not fit_intercept:
        P = P + sp.diags_array(np.r_[np.zeros(d), 1.0, np.zeros(n)]).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(n)]
    x = clarabel.DefaultSolver(P, np.zeros(d + 1 + n), A, -np.ones(n), cones, settings).solve().x
    return np.asarray(x[:d]), float(x[d])


@pytest.mark.parametrize("C", [1e-3, 0.1, 1.0, 10.0])
def test_C_means_what_it_means_in_LinearSVC(C):
    for seed in range(3):
        data = make_nonseparable(80, 6, random_state=seed)
        ours = MaxMarginClassifier(C=C, fit_intercept=False, tol=1e-10).fit(data.X, data.y)
        theirs = LinearSVC(C=C, fit_intercept=False, tol=1e-12, max_iter=1_000_000)
        theirs.fit(data.X, data.y)
        found = ours.decision_function(data.X)
        assert np.abs(found - theirs.decision_function(data.X)).max() < 1e-6


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("C", [1e-3, 0.1, 1.0, 10.0])
def test_decision_values_are_those_of_a_quadratic_program(C, fit_intercept):
    for seed in range(3):
        data = make_nonseparable(80, 6, fit_intercept=fit_intercept, random_state=seed)
        ours = MaxMarginClassifier(C=C, fit_intercept=fit_intercept, tol=1e-10)
        w, b = by_clarabel(data.X, data.y, C, fit_intercept)
        found = ours.fit(data.X, data.y).decision_function(data.X)
        assert np.abs(found - (data.X @ w + b * fit_intercept)).max() < 1e-6
