"""Exchanges: where they end the optimality conditions hold; else they say that they do not."""

import numpy as np
import pytest

from momentron.arithmetic.clock import until
from momentron.dual.dualsets import ClassBalanced, Simplex
from momentron.dual.losses import Exponential
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.exchange import exchange
from momentron.solvers.auto.forms import Point
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.hard import solve_by_newton
from momentron.solvers.auto.working_rows import SignedRows


def gram_form(X, signs, fit_intercept=False):
    loss = Exponential()
    dual_set = ClassBalanced(signs, loss) if fit_intercept else Simplex(signs.size, loss)
    rows = SignedRows(np.ascontiguousarray(X, dtype=float), signs, dual_set)
    return GramForm(rows, rows.gram(), Deadline())


def assert_optimal(form, lam, signs, fit_intercept, tol):
    """λ is dual feasible, no margin is below 1, and those of the support are 1."""
    p = form.K @ lam + (signs * form.point.b[0] if fit_intercept else 0.0)
    assert np.allclose(form.p, p, rtol=tol)
    assert lam.min() >= 0.0
    assert p.min() >= 1.0 - tol
    assert np.abs(lam * (p - 1.0)).max() <= tol * lam.max()
    if fit_intercept:
        assert abs(lam @ signs) <= tol * lam.sum()


def coin_labels(rng, n):
    return np.where(rng.permutation(n) % 2 == 0, 1.0, -1.0)


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_where_exchanges_end_the_conditions_hold(fit_intercept):
    ended = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 80))
        d = int(n * rng.uniform(1.1, 5.0)) + 2
        signs = coin_labels(rng, n)
        form = gram_form(rng.normal(size=(n, d)) + 0.3 * rng.normal(size=d), signs, fit_intercept)
        lam = exchange(form, np.ones(n, bool))
        if lam is None:
            continue
        ended += 1
        assert_optimal(form, lam, signs, fit_intercept, 1e-9)
    assert ended >= 190


def test_any_guess_leads_to_the_same_end():
    rng = np.random.default_rng(1)
    signs = coin_labels(rng, 40)
    form = gram_form(rng.normal(size=(40, 90)), signs)
    best = exchange(form, np.ones(40, bool))
    for _ in range(50):
        form.reset()
        lam = exchange(form, rng.random(40) < rng.random())
        assert lam is None or np.allclose(lam, best, atol=1e-10 * best.max())


@pytest.mark.parametrize("make", ["twins", "opposite twins", "zero row", "too many rows"])
def test_singular_matrices_are_left_to_others(make):
    rng = np.random.default_rng(2)
    X, signs = rng.normal(size=(12, 30)), coin_labels(rng, 12)
    if make == "twins":
        X[1], signs[1] = X[0], signs[0]
    elif make == "opposite twins":
        X[1], signs[1] = X[0], -signs[0]
    elif make == "zero row":
        X[0] = 0.0
    else:
        X = X[:, :6]
    form = gram_form(X, signs)
    assert exchange(form, np.ones(12, bool)) is None
    assert not form.point.x.any()  # it stays where it was


def test_no_guess_and_no_time():
    rng = np.random.default_rng(3)
    signs = coin_labels(rng, 10)
    X = rng.normal(size=(10, 20))
    assert exchange(gram_form(X, signs), np.zeros(10, bool)) is None
    with until(0.0):
        assert exchange(gram_form(X, signs), np.ones(10, bool)) is None


def test_what_does_not_close_the_gap_is_not_taken():
    rng = np.random.default_rng(4)
    X, signs = rng.normal(size=(30, 60)), coin_labels(rng, 30)
    form = gram_form(X, signs)
    best = exchange(form, np.ones(30, bool))
    lam, is_solved = solve_by_newton(form, best, 1e-6, 1e5)
    assert is_solved
    assert lam is best
    form = gram_form(X[:, :20], signs)  # more rows than features
    assert exchange(form, np.ones(30, bool)) is None
    assert not form.point.x.any()
    # rows that differ in the eighth digit: squares have lost what tells them apart
    form = gram_form(X[0] + 1e-8 * X, signs)
    u, b, _ = form.point
    form.point = Point(u + 0.5, b, form.margins(u + 0.5, b))
    assert exchange(form, np.ones(30, bool)) is None
    assert np.array_equal(form.point.x, np.full(30, 0.5))
    lam, is_solved = solve_by_newton(form, np.ones(30), 1e-6, 1e5)
    assert not is_solved or form.bounds(lam).gap <= 4e-6
