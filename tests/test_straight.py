"""The straight path of small problems: the same answers as the long way, on any rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import Status, max_margin
from momentron.solvers.auto import Auto, AutoSettings, hard
from tests.oracles.margins import best_margin_squared

LONG_WAY = Auto(AutoSettings(straight_entries=0))


def drawn(seed):
    """Few rows of any degeneracy, separable or not."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 40)), int(rng.integers(1, 5))
    X = rng.integers(-3, 4, (n, d)).astype(float) if seed % 2 else rng.normal(size=(n, d))
    if seed % 3 == 0:
        X = np.column_stack([X, X[:, 0], np.ones(n)])  # a column twice, and one that is constant
    y = np.where(X @ rng.normal(size=X.shape[1]) > 0.1, 1, -1)
    if seed % 5 == 0:
        y = rng.choice([-1, 1], n)
    if seed % 7 == 0:
        X[rng.integers(n)] = 0.0
    if seed % 4 == 0:
        X, y = np.vstack([X, X[:3]]), np.r_[y, y[:3]]
    y[:2] = [-1, 1]
    return X, y


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_the_optimum_is_found_on_any_rows(fit_intercept, convert, monkeypatch):
    taken = []
    solve = hard.solve_straight
    monkeypatch.setattr(hard, "solve_straight", lambda search: taken.append(1) or solve(search))
    for seed in range(40):
        X, y = drawn(seed)
        result = max_margin(convert(X), y, fit_intercept=fit_intercept)
        square = float(best_margin_squared(X, y, fit_intercept))
        if square == 0.0:
            assert result.status is Status.NOT_SEPARABLE
            assert result.lower == 0.0
        else:
            assert result.status is Status.OPTIMAL
            assert result.lower**2 <= square * (1.0 + 1e-12)
            assert square * (1.0 - 1e-12) <= result.upper**2
            assert result.gap <= 1e-6
    assert taken


@pytest.mark.parametrize("tol", [1e-3, 1e-9, 1e-12])
def test_the_long_way_gives_the_same(tol):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 6))
    y = np.where(X @ rng.normal(size=6) > 0.2, 1, -1)
    one, two = max_margin(X, y, tol=tol), max_margin(X, y, tol=tol, method=LONG_WAY)
    assert one.status is two.status is Status.OPTIMAL
    assert max(one.lower, two.lower) <= min(one.upper, two.upper)


def test_too_few_pivots_lead_to_the_long_way():
    few = Auto(AutoSettings(straight_pivots=-10_000))
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 4))
    y = np.where(X @ rng.normal(size=4) > 0.0, 1, -1)
    result = max_margin(X, y, method=few)
    assert result.status is Status.OPTIMAL
    assert result.lower == pytest.approx(max_margin(X, y).lower, rel=1e-5)


def test_float32_and_integers():
    rng = np.random.default_rng(5)
    X = rng.integers(-9, 10, (60, 3))
    y = np.where(X @ [2, -1, 1] > 0, 1, -1)
    lowers = [max_margin(X.astype(kind), y).lower for kind in (int, np.float32, np.float64)]
    assert lowers == pytest.approx([lowers[0]] * 3, rel=1e-5)
