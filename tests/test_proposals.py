"""What LIBLINEAR proposes for sparse rows is a start: near the optimum, and believed by nobody."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from momentron import max_margin
from momentron.solvers.auto import soft
from momentron.solvers.auto.newton import Loss
from momentron.solvers.auto.proposals import best_intercept, liblinear
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
    loss = Loss(np.inf if penalty == "hinge" else 2.0 * C, upper)
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
    loss = Loss(1.0, costs) if penalty == "hinge" else Loss(2.0, shares=costs)

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
