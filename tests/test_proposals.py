"""What LIBLINEAR and LIBSVM propose is a start: near the optimum, and believed by nobody."""

import _thread
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC, LinearSVC

from momentron import BudgetWarning, max_margin
from momentron.rows.kernels.choice import KernelChoice
from momentron.solvers.auto import Auto, AutoSettings, soft
from momentron.solvers.auto.newton import Hinge
from momentron.solvers.auto.proposals import LibSvm, best_intercept, liblinear
from momentron.solvers.auto.working_rows import SignedRows
from momentron.status import Status

PENALTIES = ("squared_hinge", "hinge")


def made_up_text(n=1100, d=1600, filled=12, seed=0):
    """Rows of unit length, a fifth of them of the second class, a tenth of the labels wrong."""
    rng = np.random.default_rng(seed)
    columns = np.minimum((d * rng.pareto(1.2, n * filled) / 40).astype(int), d - 1)
    X = sp.csr_array(
        (rng.exponential(size=n * filled), columns, np.arange(0, n * filled + 1, filled)), (n, d)
    )
    X.sum_duplicates()
    X = sp.csr_array(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))[:, None]))
    score = X @ rng.normal(size=d)
    return X, (score > np.quantile(score, 0.8)) ^ (rng.random(n) < 0.1)


def objective(X, y, w, b, C, penalty, weights=1.0):
    slack = np.maximum(1.0 - np.where(y, 1.0, -1.0) * (X @ w + b), 0.0)
    return 0.5 * w @ w + C * np.sum(weights * (slack if penalty == "hinge" else slack**2))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_intervals_hold_what_a_finer_solve_finds(penalty, C, fit_intercept):
    X, y = made_up_text()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    how = {"C": C, "penalty": penalty, "fit_intercept": fit_intercept, "sample_weight": weights}
    rough = max_margin(X, y, tol=1e-3, **how)
    fine = max_margin(X.toarray(), y, tol=1e-7, **how)
    assert rough.status is Status.OPTIMAL
    assert rough.lower <= fine.upper and fine.lower <= rough.upper
    value = objective(X, y, rough.coef, rough.intercept, C, penalty, weights)
    assert 1.0 / np.sqrt(2.0 * value) >= rough.lower * (1.0 - 1e-9)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_proposal_is_near_the_optimum_and_in_the_dual_set(penalty):
    X, y = made_up_text()
    signs, C = np.where(y, 1.0, -1.0), 1.0
    upper = np.full(y.size, C) if penalty == "hinge" else np.inf
    loss = Hinge(np.inf if penalty == "hinge" else 2.0 * C, upper)
    dual_set = _problem(X, y, penalty).dual_set
    rows = SignedRows(X, signs, dual_set, 1.0)
    w, b, alpha, passes = liblinear(rows, loss, np.ones(y.size), 1e-4)
    assert passes > 0
    assert (alpha >= 0.0).all() and (alpha <= upper).all()
    assert abs(signs @ alpha) <= 1e-9 * alpha.sum()
    if penalty == "hinge":
        assert np.linalg.norm(X.T @ (signs * alpha) - w) <= 0.02 * np.linalg.norm(w)
    best = max_margin(X, y, C=C, penalty=penalty, tol=1e-7)
    value = objective(X, y, w, b[0], C, penalty)
    assert value <= (1.0 + 1e-3) * objective(X, y, best.coef, best.intercept, C, penalty)


def _problem(X, y, penalty):
    from momentron.dual.losses import Exponential
    from momentron.rows.validation import TrainingData
    from momentron.solvers.problem import Problem

    data = TrainingData(X, np.array([False, True]), y.astype(int))
    how = {"loss": Exponential(), "kernel": None, "fit_intercept": True}
    return Problem.of(data, C=1.0, penalty=penalty, **how)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_intercept_is_the_best_of_many(penalty):
    rng = np.random.default_rng(0)
    p, signs = rng.normal(size=200), rng.choice([-1.0, 1.0], 200, p=[0.7, 0.3])
    costs = rng.uniform(0.5, 2.0, 200)
    loss = Hinge(1.0, costs) if penalty == "hinge" else Hinge(2.0, shares=costs)

    def value(b):
        slack = np.maximum(1.0 - p - b * signs, 0.0)
        return np.sum(costs * (slack if penalty == "hinge" else slack**2))

    found = value(best_intercept(loss, p, signs))
    assert found <= min(value(b) for b in np.linspace(-5.0, 5.0, 2001)) + 1e-9


LIES = {
    "nothing": lambda model, w: np.zeros_like(w),
    "the opposite": lambda model, w: -w,
    "noise": lambda model, w: np.random.default_rng(0).normal(size=w.shape),
    "far too long": lambda model, w: 1e200 * w,
    "not numbers": lambda model, w: np.full_like(w, np.nan),
}


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("lie", LIES)
def test_a_proposal_that_lies_costs_time_alone(lie, penalty, monkeypatch):
    X, y = made_up_text()
    honest = max_margin(X, y, C=1.0, penalty=penalty, tol=1e-6)
    fit = LinearSVC.fit

    def lying(self, X, y, sample_weight=None):
        fit(self, X, y, sample_weight)
        self.coef_ = LIES[lie](self, self.coef_)
        return self

    monkeypatch.setattr(LinearSVC, "fit", lying)
    found = max_margin(X, y, C=1.0, penalty=penalty, tol=1e-3)
    assert found.status is Status.OPTIMAL
    assert found.lower <= honest.upper and honest.lower <= found.upper


def test_rows_that_liblinear_refuses_are_solved_without_it(monkeypatch):
    def refuses(self, *data, **more):
        raise ValueError("Only sparse matrices with 32-bit integer indices are accepted.")

    monkeypatch.setattr(LinearSVC, "fit", refuses)
    X, y = made_up_text()
    assert max_margin(X, y, C=1.0, tol=1e-3).status is Status.OPTIMAL


def test_few_features_are_solved_without_it(monkeypatch):
    monkeypatch.setattr(soft, "liblinear", lambda *how: pytest.fail("factors are faster here"))
    X, y = made_up_text(d=200)
    assert max_margin(X, y, C=1.0, tol=1e-3).status is Status.OPTIMAL


@pytest.mark.clock
def test_a_proposal_that_takes_too_long_is_abandoned(monkeypatch):
    monkeypatch.setattr(LinearSVC, "fit", lambda *data, **more: time.sleep(5.0))
    X, y = made_up_text()
    begin = time.perf_counter()
    found = max_margin(X, y, C=1.0, tol=1e-3, max_time=0.5)
    assert time.perf_counter() - begin < 1.0
    assert found.status is Status.TIME_BUDGET and found.lower <= found.upper


# --- LIBSVM, for kernels --------------------------------------------------------------------------


def crossed(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0.0


def exact_optimum(X, y, **options):
    inside = Auto(AutoSettings(box_few_values=10**9))
    return max_margin(X, y, kernel="rbf", gamma=0.5, method=inside, **options)


@pytest.fixture
def fits(monkeypatch):
    """The kernels, and their cache in bytes, of LIBSVM's fits so far."""
    seen, fit = [], SVC.fit

    def count(self, X, y, sample_weight=None):
        seen.append((self.kernel, X.nbytes, 2**20 * self.cache_size))
        return fit(self, X, y, sample_weight)

    monkeypatch.setattr(SVC, "fit", count)
    return seen


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_intervals_through_a_kernel(penalty, C, fit_intercept, tol, fits):
    X, y = crossed()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    how = {"C": C, "penalty": penalty, "fit_intercept": fit_intercept, "sample_weight": weights}
    found = max_margin(X, y, kernel="rbf", gamma=0.5, tol=tol, **how)
    fine = exact_optimum(X, y, tol=1e-7, **how)
    assert fits and found.status is Status.OPTIMAL
    assert found.lower <= fine.upper and fine.lower <= found.upper


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("scale", [1e-40, 1.0, 1e40])
def test_what_libsvm_proposes_is_near_the_optimum(penalty, fit_intercept, scale):
    X, y = crossed()
    signs, every = np.where(y, 1.0, -1.0), np.arange(y.size)
    C = 1.0 / scale
    upper = np.full(y.size, C) if penalty == "hinge" else np.inf
    loss = Hinge(np.inf if penalty == "hinge" else 2.0 * C, upper)
    K = scale * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    kernel = KernelChoice("precomputed").operator(K)
    Y = signs[:, None] if fit_intercept else np.zeros((y.size, 0))
    sets = SimpleNamespace(kernel=kernel, signs=lambda W: signs[W])
    sets.dual_set = SimpleNamespace(some=lambda W: SimpleNamespace(columns=Y[W]))
    svm = LibSvm(sets, every, loss, y.size)
    alpha = svm.weights(1e-5, 0.3)
    assert (alpha >= 0.0).all() and (alpha <= upper).all()
    assert not fit_intercept or abs(signs @ alpha) <= 1e-9 * alpha.sum()
    best = exact_optimum(X, y, C=1.0, penalty=penalty, fit_intercept=fit_intercept)
    square = alpha @ (signs * (K @ (signs * alpha))) + np.sum(alpha * alpha / loss.stiffness)
    dual = scale * (alpha.sum() - 0.5 * square)
    assert dual >= 0.5 / best.upper**2 * (1.0 - 1e-4)


SVM_LIES = {
    "nothing": lambda a: np.zeros_like(a),
    "the opposite": lambda a: -a,
    "everything": lambda a: np.full_like(a, 1e6),
    "noise": lambda a: np.random.default_rng(0).normal(size=a.shape),
    "far too long": lambda a: 1e200 * a,
    "not numbers": lambda a: np.full_like(a, np.nan),
}


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("lie", SVM_LIES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_libsvm_that_lies_costs_time_alone(lie, penalty, fit_intercept, monkeypatch):
    X, y = crossed()
    how = {"C": 1.0, "penalty": penalty, "fit_intercept": fit_intercept}
    honest, fit = exact_optimum(X, y, **how), SVC.fit

    def lying(self, X, y, sample_weight=None):
        fit(self, X, y, sample_weight)
        self.dual_coef_ = SVM_LIES[lie](self.dual_coef_)
        return self

    monkeypatch.setattr(SVC, "fit", lying)
    for tol in (1e-3, 1e-6):
        found = max_margin(X, y, kernel="rbf", gamma=0.5, tol=tol, **how)
        assert found.status is Status.OPTIMAL
        assert found.lower <= honest.upper and honest.lower <= found.upper


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_libsvm_that_refuses(penalty, monkeypatch):
    def refuses(self, *data, **more):
        raise ValueError("The dual coefficients or intercepts are not finite.")

    monkeypatch.setattr(SVC, "fit", refuses)
    X, y = crossed()
    for cache_size in (1000.0, 4.0):  # the second leaves it no room for values
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            found = max_margin(X, y, kernel="rbf", penalty=penalty, C=1.0, cache_size=cache_size)
        assert found.status in (Status.OPTIMAL, Status.NO_ROOM)
        assert found.lower <= found.upper


@pytest.mark.parametrize("cache_size", [1.0, 4.0, 16.0])
def test_libsvm_keeps_to_the_memory_for_values(cache_size, fits):
    X, y = crossed(1000)
    how = {"C": 1.0, "penalty": "hinge", "tol": 1e-4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        found = max_margin(X, y, kernel="rbf", gamma=0.5, cache_size=cache_size, **how)
    whole = exact_optimum(X, y, **how)
    assert found.lower <= whole.upper and whole.lower <= found.upper
    least = 1.1 * 2**20  # which LIBSVM has in any case
    for kernel, n_bytes, cache in fits:
        values = n_bytes if kernel == "precomputed" else 0
        assert values + cache <= max(1e6 * cache_size, least)
    kernels = {kernel for kernel, *_ in fits}
    assert kernels == {1.0: set(), 4.0: {"rbf"}, 16.0: {"precomputed"}}[cache_size]


@pytest.mark.clock
@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_libsvm_that_takes_too_long_is_abandoned(penalty, monkeypatch):
    monkeypatch.setattr(SVC, "fit", lambda *data, **more: time.sleep(5.0))
    X, y = crossed()
    begin = time.perf_counter()
    found = max_margin(X, y, C=1.0, kernel="rbf", penalty=penalty, max_time=0.5)
    assert time.perf_counter() - begin < 1.5
    assert found.status is Status.TIME_BUDGET and found.lower <= found.upper


@pytest.mark.clock
def test_ctrl_c_ends_a_fit_of_libsvm(monkeypatch):
    def slow(*data, **more):
        _thread.interrupt_main()
        time.sleep(5.0)

    monkeypatch.setattr(SVC, "fit", slow)
    X, y = crossed()
    begin = time.perf_counter()
    found = max_margin(X, y, C=1.0, kernel="rbf", penalty="hinge")
    assert time.perf_counter() - begin < 2.0
    assert found.status is Status.INTERRUPTED and found.lower <= found.upper
