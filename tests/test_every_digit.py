"""Margins of any size: the interval is true, and within `tol` where floats can tell."""

import time
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.every_digit import FAMILIES, campaign, misses
from benchmarks.hostile.exact import ExactProblem
from momentron import Status, max_margin

TINY = np.array([[1.0, 1e-40], [-1.0, 1e-40], [2.0, -1e-40], [-2.0, -1e-40]])
SIGNS = np.array([1, 1, -1, -1])


def exact_reach(X, y, result):
    """The signed square of the least y (x·coef + intercept)/‖coef‖, in rational arithmetic."""
    coef = [Fraction(float(v)) for v in result.coef]
    outputs = [
        sum(Fraction(float(v)) * c for v, c in zip(row, coef, strict=True))
        + Fraction(result.intercept)
        for row in X
    ]
    least = min(int(sign) * output for sign, output in zip(y, outputs, strict=True))
    return least * abs(least) / sum(c * c for c in coef)


@pytest.mark.parametrize("start", range(len(FAMILIES)), ids=lambda i: FAMILIES[i].__name__)
def test_the_interval_is_true_whatever_the_margin(start):
    for k in range(12):
        ((problem, result, _),) = campaign(start + k * len(FAMILIES), 1, 1e-6)
        assert not misses(problem, result)
        if problem.decades >= -6.0:
            assert result.status is Status.OPTIMAL
            assert result.gap <= 1e-6
            assert result.margin > 0.0
        reach = exact_reach(problem.X, problem.y, result)
        assert Fraction(result.margin) * abs(Fraction(result.margin)) <= reach
        assert np.linalg.norm(result.coef) == pytest.approx(1.0)


@pytest.mark.parametrize("scale", [1e-260, 1e-30, 1e30, 1e300])
def test_every_unit(scale):
    X = TINY * scale
    result = max_margin(X, SIGNS)
    truth = ExactProblem(X, SIGNS, True).optimum().margin_squared
    assert Fraction(result.lower) ** 2 <= truth <= Fraction(result.upper) ** 2


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_what_only_nearly_separates_is_proven_not_to(fit_intercept):
    X = np.array([[1.0, 1e-40], [1.0, 1e-40], [-1.0, 1e-40], [-1.0, -1e-40], [0.0, 1e-40]])
    y = np.array([1, -1, 1, -1, -1])
    X[1] += [0.0, 1e-60]  # close to row 0, and not equal to it
    X = np.vstack([X, [[0.5, -1e-40], [-0.5, 1e-39]]])
    y = np.r_[y, 1, -1]
    truth = ExactProblem(X, y, fit_intercept).optimum().margin_squared
    result = max_margin(X, y, fit_intercept=fit_intercept)
    assert Fraction(result.lower) ** 2 <= truth <= Fraction(result.upper) ** 2
    if truth == 0:
        assert result.status is Status.NOT_SEPARABLE


def test_the_time_is_kept():
    rng = np.random.default_rng(1)
    y = rng.choice([-1.0, 1.0], 600)
    X = rng.normal(size=(600, 40))
    X[:, 0] = 1e-100 * y * rng.uniform(1.0, 2.0, 600)
    begin = time.perf_counter()
    result = max_margin(X, y, max_time=0.3)
    assert time.perf_counter() - begin < 2.0
    assert result.lower >= 0.0
