"""Soft margins by products alone, and what a status says of steps that were not begun."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import BudgetWarning, MaxMarginClassifier, Status, max_margin
from momentron.arithmetic.linear_algebra import ConjugateGradients
from momentron.solvers.auto import Auto, AutoSettings, deadline
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Hinge
from momentron.solvers.auto.primal_form import PrimalForm, ProductForm
from momentron.solvers.auto.working_rows import SignedRows
from momentron.solvers.problem import Problem

PENALTY = pytest.mark.parametrize("penalty", ["squared_hinge", "hinge"])
INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True])
BY_PRODUCTS = Auto(AutoSettings(pass_seconds=0.0, pass_products=0))


def sparse_rows(n, d, entries, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    places = rng.integers(0, d, (n, entries)).ravel()
    values = rng.normal(size=n * entries)
    X = sp.csr_array((values, (np.repeat(np.arange(n), entries), places)), shape=(n, d))
    X.sum_duplicates()
    y = (X @ rng.normal(size=d) > 0).astype(int)
    y[rng.random(n) < noise] ^= 1
    return X, y


@pytest.fixture
def slow_machine(monkeypatch):
    """One on which factors take so long that none is begun within a minute."""
    monkeypatch.setattr(deadline, "FLOPS", 1e7)


@PENALTY
def test_sparse_rows_whose_factors_take_longer_than_the_time_given(penalty, slow_machine):
    X, y = sparse_rows(1500, 1000, 20)
    found = max_margin(X, y, C=0.1, penalty=penalty, max_time=60.0, tol=1e-4)
    assert found.status is Status.OPTIMAL and found.gap <= 1e-4
    assert found.seconds < 50.0
    assert not found.is_fallback


def test_the_same_answer_as_by_factors():
    for seed, penalty in enumerate(["squared_hinge", "hinge"] * 3):
        rng = np.random.default_rng(seed)
        X, y = sparse_rows(300, 60, 8, seed)
        options = {
            "C": 10.0 ** rng.uniform(-3.0, 1.0),
            "penalty": penalty,
            "fit_intercept": bool(seed % 3),
            "sample_weight": rng.uniform(0.1, 4.0, 300) if seed % 2 else None,
        }
        one = max_margin(X, y, method=BY_PRODUCTS, **options)
        other = max_margin(X, y, **options)
        assert one.gap <= 1e-6 and other.gap <= 1e-6, seed
        assert max(one.lower, other.lower) <= min(one.upper, other.upper), seed


@PENALTY
def test_tol_decides_when_to_stop(penalty):
    X, y = sparse_rows(2000, 300, 10)
    options = {"C": 1.0, "penalty": penalty, "method": BY_PRODUCTS}
    rough = max_margin(X, y, tol=1e-2, **options)
    fine = max_margin(X, y, tol=1e-9, **options)
    assert rough.gap <= 1e-2 and fine.gap <= 1e-9
    assert rough.passes < fine.passes
    assert rough.lower <= fine.upper and fine.lower <= rough.upper


@PENALTY
def test_a_warm_start(penalty):
    X, y = sparse_rows(2000, 300, 10)
    options = {"penalty": penalty, "method": BY_PRODUCTS}
    first = max_margin(X, y, C=0.1, **options)
    again = max_margin(X, y, C=0.11, initial=first, **options)
    cold = max_margin(X, y, C=0.11, **options)
    assert again.gap <= 1e-6
    assert max(again.lower, cold.lower) <= min(again.upper, cold.upper)
    assert again.passes <= cold.passes


@PENALTY
def test_memory_without_room_for_factors(penalty):
    """A d × d matrix of 600 features takes 5.8 MB."""
    X, y = sparse_rows(1200, 600, 10)
    found = max_margin(X, y, C=0.1, penalty=penalty, max_memory=10**6)
    whole = max_margin(X, y, C=0.1, penalty=penalty)
    assert found.status is Status.OPTIMAL
    assert found.lower <= whole.upper and whole.lower <= found.upper


@pytest.mark.slow
@PENALTY
def test_separable_rows_with_a_large_C(penalty):
    """A cold start goes there by smaller ones."""
    X, y = sparse_rows(700, 350, 10, noise=0.0)
    for C in (1e2, 1e4, 1e6):
        found = max_margin(X, y, C=C, penalty=penalty, max_memory=10**5)
        assert found.status is Status.OPTIMAL, (C, found.gap)
        assert found.n_iter < 40
    hard = max_margin(X, y)
    assert found.lower <= hard.upper * (1.0 + 1e-3) and found.upper >= hard.lower


@PENALTY
def test_memory_for_a_few_numbers_ends_with_an_answer_and_no_error(penalty):
    """Two classes are solved by products; of more, working sets of eleven pairs remain."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 300))
    for k in (2, 3):
        y = np.r_[np.arange(k), rng.integers(0, k, 40 - k)]
        whole = max_margin(X, y, C=1.0, penalty=penalty)
        for start in (None, whole):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BudgetWarning)
                found = max_margin(X, y, C=1.0, penalty=penalty, max_memory=2000, initial=start)
            assert found.status is (Status.OPTIMAL if k == 2 else Status.NO_ROOM)
            assert found.lower <= whole.upper and whole.lower <= found.upper


def test_the_estimator_goes_the_same_way(slow_machine):
    X, y = sparse_rows(1500, 1000, 20, noise=0.0)
    model = MaxMarginClassifier(C=1.0, max_time=60.0, tol=1e-3).fit(X, y)
    assert model.status_ is Status.OPTIMAL
    assert model.score(X, y) > 0.95


# --- what a status says --------------------------------------------------------------------------


@pytest.mark.parametrize("C", [math.inf, 1.0])
def test_a_step_that_is_not_begun_is_no_end_of_the_time(C, monkeypatch):
    """Overlapping classes through a kernel: the first factor would take minutes."""
    monkeypatch.setattr(deadline, "FLOPS", 1e5)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = rng.integers(0, 2, 500)
    found = max_margin(X, y, kernel="rbf", C=C, max_time=30.0)
    assert found.seconds < 20.0
    assert found.status is Status.NO_ROOM
    assert "time or memory left" in found.status


@PENALTY
def test_a_cache_without_room_for_the_pairs_ends_the_solve(penalty):
    """28 pairs of seven rows, and a cache for seven: rounds that exchange them had no end."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(7, 2)), np.r_[np.arange(5), rng.integers(0, 5, 2)]
    options = {"kernel": "laplacian", "gamma": 1.0, "C": 1e7, "penalty": penalty}
    with pytest.warns(BudgetWarning, match="cache_size"):
        found = max_margin(X, y, cache_size=1e-3, **options)
    assert found.n_iter <= 10
    assert found.status is Status.NO_ROOM
    whole = max_margin(X, y, **options)
    assert whole.status is Status.OPTIMAL
    assert 0.0 < found.lower <= whole.upper and whole.lower <= found.upper


def test_time_that_is_over_is_called_so():
    X, y = sparse_rows(2000, 300, 10)
    for penalty in ("squared_hinge", "hinge"):
        found = max_margin(X, y, C=1.0, penalty=penalty, max_time=1e-6)
        assert found.status is Status.TIME_BUDGET


def test_deadlines_tell_what_is_over_from_what_would_be(monkeypatch):
    left = 10.0
    monkeypatch.setattr(deadline, "time_left", lambda: left)
    asked = Deadline()
    assert not asked.has_passed() and not asked.has_passed(9.0 * deadline.FLOPS)
    assert asked.has_passed(11.0 * deadline.FLOPS)
    assert asked.has_refused and not asked.is_over
    late = Deadline()
    left = 0.4  # of ten seconds
    assert late.has_passed(deadline.FLOPS)
    assert late.is_over and not late.has_refused
    left = -1.0
    assert Deadline().has_passed()


# --- the parts -----------------------------------------------------------------------------------


def test_conjugate_gradients_solve():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 12)) * 10.0 ** rng.uniform(-2.0, 2.0, 12)
    M = A.T @ A + np.eye(12)
    rhs = rng.normal(size=12)
    for diagonal in (1.0, M.diagonal()):
        gradients = ConjugateGradients(lambda v: M @ v, rhs)
        assert gradients.run(lambda r, scale=diagonal: r / scale, 1e-13, 500)
        np.testing.assert_allclose(M @ gradients.x, rhs, atol=1e-8)
        np.testing.assert_allclose(rhs - M @ gradients.x, gradients.r, atol=1e-8)
    rough = ConjugateGradients(lambda v: M @ v, rhs)
    assert not rough.run(lambda r: r / M.diagonal(), 1e-13, 3)
    assert rough.x @ rhs > 0.0  # downhill
    nothing = ConjugateGradients(lambda v: M @ v, np.zeros(12))
    assert nothing.run(lambda r: r, 1e-3, 9) and not nothing.x.any()


@INTERCEPT
@pytest.mark.parametrize("is_sparse", [False, True])
def test_newton_steps_are_those_of_factors(is_sparse, fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.4)
    y = np.r_[0, 1, rng.integers(0, 2, 38)]
    dual_set = Problem.from_data(X, y, fit_intercept=fit_intercept).dual_set
    shares = rng.uniform(0.5, 2.0, 40)
    rows = SignedRows(sp.csr_array(X) if is_sparse else X, 2.0 * y - 1.0, dual_set, shares)
    by_products = ProductForm(rows, rows.squares(), Deadline(), (1e-12, 500))
    by_factors = PrimalForm(rows, Deadline())
    S = rng.random(40) < 0.6
    g = rng.normal(size=by_factors.A.k)
    for sigma in (1e-2, 1.0, 1e3):
        loss = Hinge(sigma, shares=shares)
        expected = by_factors.inverse(loss, S)(g)
        found = by_products.inverse(loss, S)(g)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def test_gaps_of_products_reach_the_digits_asked_for():
    X, y = sparse_rows(400, 50, 6)
    for C in (1e-3, 1.0, 100.0):
        found = max_margin(X, y, C=C, tol=1e-10, method=BY_PRODUCTS)
        assert found.gap <= 1e-10 and math.isfinite(found.upper), C
