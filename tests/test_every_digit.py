"""Margins of any size: `tol` is reached, in rational arithmetic where floats see only roundings."""

import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import Status, max_margin
from momentron.certificate import certify
from momentron.errors import SolverError
from momentron.rows.kernels.choice import KernelChoice
from momentron.solvers.auto import Auto, AutoSettings
from momentron.solvers.problem import Problem
from tests.oracles.margins import ExactProblem
from tests.oracles.small_margins import FAMILIES, drawn, misses, solve

SMALL = np.array([[1.0, 1e-9], [-1.0, 1e-9], [2.0, -1e-9], [-2.0, -1e-9]])
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
def test_tol_is_reached_whatever_the_margin(start):
    for k in range(12):
        problem = drawn(start + k * len(FAMILIES))
        result = solve(problem)
        assert not misses(problem, result)
        assert result.lower > 0.0
        assert result.gap <= 1e-6
        is_held = result.margin > 0.0 or problem.decades >= -15.0  # by a classifier in float64
        assert result.status in ((Status.OPTIMAL,) if is_held else (Status.OPTIMAL, Status.STALLED))
        reach = exact_reach(problem.X, problem.y, result)
        assert Fraction(result.margin) * abs(Fraction(result.margin)) <= reach
        assert np.linalg.norm(result.coef) == pytest.approx(1.0)


@pytest.mark.parametrize("convert", [np.asfortranarray, sp.csr_array, lambda X: X.tolist()])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_every_layout(convert, fit_intercept):
    result = max_margin(convert(TINY), SIGNS, fit_intercept=fit_intercept)
    assert result.lower == pytest.approx(1e-40, rel=1e-12)
    result = max_margin(convert(SMALL), SIGNS, fit_intercept=fit_intercept)
    assert result.status is Status.OPTIMAL
    assert result.lower == pytest.approx(1e-9, rel=1e-6)
    assert result.margin == pytest.approx(1e-9, rel=1e-6)
    assert np.all(SIGNS * (SMALL @ result.coef + result.intercept) > 0.0)


@pytest.mark.parametrize("rows", [SMALL, TINY])
@pytest.mark.parametrize("scale", [1e-260, 1e-30, 1e30, 1e300])
def test_every_unit(rows, scale):
    X = rows * scale
    result = max_margin(X, SIGNS)
    truth = ExactProblem(X, SIGNS, True).optimum().margin_squared
    low, high = Fraction(result.lower) ** 2, Fraction(result.upper) ** 2
    assert low <= truth <= high
    if rows is SMALL or scale != 1e-260:  # where the margin is below the smallest float
        assert result.gap <= 1e-6


@pytest.mark.parametrize("height", [1e-9, 1e-30])
def test_float32_rows(height):
    X = np.array([[1.0, height], [-1.0, height], [2.0, -height], [-3.0, -height]], np.float32)
    result = max_margin(X, SIGNS)
    assert result.gap <= 1e-6
    assert result.lower == pytest.approx(height, rel=1e-6)


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
    else:
        assert result.gap <= 1e-6


def test_overlap_that_is_plain_takes_no_rational_arithmetic(monkeypatch):
    def fail(*_):
        raise AssertionError("called")

    monkeypatch.setattr("momentron.solvers.auto.last_digits.nearest", fail)
    rng = np.random.default_rng(0)
    dummies = np.eye(4)[rng.integers(4, size=120)]
    for X in (rng.normal(size=(120, 3)), np.column_stack([dummies, rng.integers(0, 3, (120, 2))])):
        for fit_intercept in (False, True):
            y = rng.choice([-1, 1], 120)
            assert max_margin(X, y, fit_intercept=fit_intercept).status is Status.NOT_SEPARABLE


@pytest.mark.clock
def test_the_time_is_kept():
    rng = np.random.default_rng(1)
    y = rng.choice([-1.0, 1.0], 600)
    X = rng.normal(size=(600, 40))
    X[:, 0] = 1e-100 * y * rng.uniform(1.0, 2.0, 600)
    begin = time.perf_counter()
    result = max_margin(X, y, max_time=0.3)
    assert time.perf_counter() - begin < 2.0
    assert result.lower >= 0.0


def test_too_large_for_rational_arithmetic_is_a_true_interval():
    settings = AutoSettings(exact_support=1)
    problem = drawn(2)  # tilted
    for seed in range(2, 70, 7):
        problem = drawn(seed)
        result = max_margin(
            problem.X,
            problem.y,
            fit_intercept=problem.fit_intercept,
            tol=1e-14,
            method=Auto(settings),
        )
        assert not misses(problem, result)


# --- the kernel of trust -------------------------------------------------------------------------


class Proposing(Auto):
    """Proposes a pair in whole numbers after each step."""

    def __init__(self, w, q):
        super().__init__()
        self.pair = np.array(w, object), np.array(q, object)

    def candidates(self, problem, state):
        return replace(super().candidates(problem, state), refined=self.pair)


EVEN = (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("w", "q"),
    [
        ((0, 1, 0), EVEN),
        ((0.0, 1.0), EVEN),
        ((True, 1), EVEN),
        (("0", "1"), EVEN),
        ((0, 1 << 1000), EVEN),
        ((0, 1), (1, 1, 1)),
        ((0, 1), (1, 1, 1, np.int64(1))),
        ((0, 1), (1, 1, 1, 1 << 100_000)),
    ],
)
def test_what_is_no_pair_of_whole_numbers_is_refused(w, q):
    with pytest.raises(SolverError, match="real numbers of shape"):
        max_margin(TINY, SIGNS, method=Proposing(w, q))


@pytest.mark.parametrize(
    ("w", "q"),
    [
        ((0, 1), EVEN),
        ((1, -5), EVEN),
        ((0, 0), EVEN),
        ((0, 1), (-7, 1, 3, 1)),
        ((0, 1), (0, 0, 0, 0)),
        ((0, 1), (1, 1, 0, 0)),
        ((3, 1 << 900), (1 << 900, 1, 0, 5)),
    ],
)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_no_pair_of_whole_numbers_makes_a_false_interval(w, q, fit_intercept):
    X = np.array([[0.5, 1.0], [-1.0, 2.0], [2.0, -1.5], [-1.0, -1.0]])
    truth = ExactProblem(X, SIGNS, fit_intercept).optimum().margin_squared
    problem = Problem.from_data(X, SIGNS, fit_intercept=fit_intercept)
    found = certify(problem, np.array(w, object), np.array(q, object))
    assert Fraction(found.lower) ** 2 <= truth
    assert found.upper == np.inf or truth <= Fraction(found.upper) ** 2


def test_whole_numbers_are_for_two_classes_of_rows():
    X, labels = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12)
    for problem in (
        Problem.from_data(X, labels % 3),
        Problem.from_data(X, labels % 2, C=1.0),
        Problem.from_data(X, labels % 2, C=1.0, penalty="hinge"),
        Problem.from_data(X, labels % 2, kernel=KernelChoice("rbf")),
    ):
        w, q = np.zeros(problem.w_shape, object), np.ones(problem.size, object)
        with pytest.raises(SolverError, match="real numbers of shape"):
            problem.admitted_pair(w, q)
