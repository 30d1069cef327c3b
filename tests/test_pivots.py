"""Pivots: from a support that is nearly right to the optimum; else they say that they do not."""

import time

import numpy as np
import pytest
from test_active_set import assert_optimal, coin_labels, gram_form

from momentron import max_margin
from momentron.arithmetic.clock import until
from momentron.solvers.auto.exchange import exchange, few_violators, pivot
from momentron.solvers.auto.settings import SETTINGS, AutoSettings
from momentron.solvers.auto.working_rows import on_support
from momentron.status import Status


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_from_a_support_with_a_few_wrong_rows(fit_intercept):
    ended = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 80))
        signs = coin_labels(rng, n)
        form = gram_form(rng.normal(size=(n, int(1.1 * n) + 2)), signs, fit_intercept)
        best = exchange(form, np.ones(n, bool))
        assert best is not None
        guess = best > 0.0
        wrong = rng.choice(n, size=min(3, n // 2), replace=False)
        guess[wrong] = ~guess[wrong]
        form.reset()
        lam = pivot(form, guess)
        if lam is None:  # dropped rows may leave a class without weight, or too many violators
            continue
        ended += 1
        assert_optimal(form, lam, signs, fit_intercept, 1e-7)
        assert np.allclose(lam, best, atol=1e-9 * best.max())
    assert ended >= 95


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_as_many_support_vectors_as_features(fit_intercept):
    """New rows below the margin of a problem whose support fills the space."""
    ended = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 40))
        n = 12 * d
        X = rng.normal(size=(n, d))
        signs = np.where(X @ rng.normal(size=d) + 0.3 * fit_intercept > 0.0, 1.0, -1.0)
        if abs(signs.sum()) == n:
            continue
        old = max_margin(X[: n - d], signs[: n - d], fit_intercept=fit_intercept, tol=1e-9)
        best = max_margin(X, signs, fit_intercept=fit_intercept, tol=1e-9)
        form = gram_form(X, signs, fit_intercept)
        guess = np.zeros(n, bool)
        guess[old.support] = old.dual > 1e-5 * old.dual.max()
        lam = pivot(form, guess)
        if lam is None:
            continue
        ended += 1
        assert_optimal(form, lam, signs, fit_intercept, 1e-7)
        assert 1.0 / form.norm() == pytest.approx(best.lower, rel=1e-6)
    assert ended >= 30


def test_rows_that_nothing_separates_are_left_to_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    assert pivot(gram_form(X, coin_labels(rng, 30)), np.arange(30) < 2) is None


@pytest.mark.parametrize("make", ["twins in the support", "opposite twins", "zero row", "no guess"])
def test_singular_matrices_are_left_to_others(make):
    rng = np.random.default_rng(2)
    X, signs = rng.normal(size=(10, 20)), np.ones(10)
    guess = np.arange(10) < 5
    if make == "twins in the support":
        X[1] = X[0]
    elif make == "opposite twins":
        X[6], signs[6] = X[0], -1.0
    elif make == "zero row":
        X[7] = 0.0
    else:
        guess[:] = False
    assert pivot(gram_form(X, signs), guess) is None


def test_many_violators_and_a_passed_deadline_end_them():
    rng = np.random.default_rng(3)
    signs = coin_labels(rng, 200)
    X = rng.normal(size=(200, 300))
    assert few_violators(1) < 100 < SETTINGS.pivots
    assert pivot(gram_form(X, signs), np.arange(200) < 1) is None
    with until(time.perf_counter() - 1.0):
        assert pivot(gram_form(X, signs), np.ones(200, bool)) is None


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_refits_with_new_rows_agree_with_cold_fits(fit_intercept):
    """About as many support vectors as features, after an interior point that blurs the weights."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 60))
    y = (X @ rng.normal(size=60) > 0.0).astype(int)
    for n in (2990, 2970, 2700):
        first = max_margin(X[:n], y[:n], fit_intercept=fit_intercept)
        warm = max_margin(X, y, fit_intercept=fit_intercept, initial=first, tol=1e-9)
        cold = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-9)
        assert warm.status is cold.status is Status.OPTIMAL
        assert warm.lower == pytest.approx(cold.lower, rel=1e-8)
        assert max(warm.lower, cold.lower) <= min(warm.upper, cold.upper)


def test_few_pivots_and_no_inverse_end_them(monkeypatch):
    rng = np.random.default_rng(5)
    signs = coin_labels(rng, 40)
    X = rng.normal(size=(40, 60))
    form = gram_form(X, signs)
    best = exchange(form, np.ones(40, bool))
    guess = best > 0.0
    guess[np.flatnonzero(guess)[:2]] = False
    assert pivot(form, guess) is not None
    assert pivot(gram_form(X, signs), guess, AutoSettings(pivots=1)) is None

    def singular(matrix):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "inv", singular)
    assert pivot(form, guess) is None


def test_the_support_is_where_weight_outweighs_slack():
    lam, p = np.array([2.0, 1e-9, 0.0, 3.0, 1.0]), np.array([1.0, 1.5, 0.5, 1.0, 1.1])
    kept = on_support(lam, p, np.ones(5), 4)
    assert kept.tolist() == [2.0, 0.0, 0.0, 3.0, 1.0]
    assert on_support(lam, p, np.ones(5), 2).tolist() == [2.0, 0.0, 0.0, 3.0, 0.0]


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_warm_soft_margins_of_tall_data(C):
    """Few rows with slack, or nearly all of them, from a start where it was the other way round."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(2000, 5))
    y = (X @ rng.normal(size=5) + 0.2 * rng.normal(size=2000) > 0.0).astype(int)
    cold = max_margin(X, y, C=C, tol=1e-9)
    for first in (1e-4, 1e3):
        warm = max_margin(X, y, C=C, tol=1e-9, initial=max_margin(X, y, C=first))
        assert warm.status is cold.status is Status.OPTIMAL
        assert warm.lower == pytest.approx(cold.lower, rel=1e-8)
