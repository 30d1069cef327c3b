"""What `MarginResult` promises of a soft margin's classifier and weights, in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from momentron import Status, max_margin
from momentron.fitting.fallback import OPEN
from momentron.solvers.problem import Problem
from tests.oracles.soft_margins import SoftProblem, criss_cross, rational
from tests.oracles.soft_results import Judged, Posed


def posed(X, y, options, weights=None):
    X, y = np.asarray(X, float), np.asarray(y)
    rows = rational(X)
    K = rows * rows.transpose()
    weights = np.ones(y.size) if weights is None else np.asarray(weights)
    return Posed(X, y, options, K if "kernel" in options else rows, K, weights)


def test_a_stalled_soft_margin_returns_the_classifier_of_its_certificate():
    weights = [1e-8, 1e4, 1e-5, 1e6]
    options = {"penalty": "hinge", "fit_intercept": True, "tol": 1e-6}
    given = posed([[1.0], [-1.0], [2.0], [-2.0]], [0, 1, 1, 1], options, weights)
    found = max_margin(given.X, given.y, C=1e5, sample_weight=weights, **options)
    assert not found.is_fallback
    assert Judged(given, 1e5, found).classifier() is None
    assert given.refutes(1e5, found) is None


@pytest.mark.parametrize("kernel", [None, "linear"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("penalty", ["hinge", "squared_hinge"])
def test_classifiers_attain_what_is_certified_with_weights_over_18_decades(
    penalty, n_classes, kernel
):
    seen = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(n_classes + 1, 8)), int(rng.integers(1, 3))
        X = rng.integers(-3, 4, (n, d)).astype(float)
        y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]
        weights = 2.0 ** rng.integers(-30, 31, n)
        options = {"penalty": penalty, "fit_intercept": bool(seed % 2), "tol": 1e-6}
        if kernel:
            options["kernel"] = kernel
        given, C = posed(X, y, options, weights), 10.0 ** rng.integers(-6, 7)
        found = max_margin(X, y, C=C, sample_weight=weights, **options)
        assert given.refutes(C, found) is None, seed
        seen.add(found.status)
    assert Status.OPTIMAL in seen


def test_a_classifier_of_a_budget_attains_what_is_certified():
    """Cut short, far from the best: the classifier is the fallback, or the certificate's own."""
    own = 0
    for seed in (4, 19, 29, 33, 39):
        rng = np.random.default_rng(seed)
        n = 40
        X = np.ldexp(np.rint(rng.normal(size=(n, 2)) * 64.0), -6)
        y = np.r_[0, 1, (X[2:, 0] > 0).astype(int)]
        options = {"penalty": "squared_hinge", "fit_intercept": bool(seed % 2), "tol": 1e-9}
        given = posed(X, y, options)
        C = 10.0 ** rng.integers(-2, 5)
        for max_iter in (20, 60, 200):
            found = max_margin(X, y, C=C, method="momentum", max_iter=max_iter, **options)
            own += not found.is_fallback and found.gap > OPEN
            assert Judged(given, C, found).classifier() is None, seed
    assert own > 0


def test_the_weights_of_a_hinge_are_balanced_though_what_was_proposed_is_not():
    """All at C = 1e-4, three rows against two: what proves `upper` is balanced, and returned."""
    X, y = np.array([[1.0], [2.0], [3.0], [-1.0], [0.5]]), np.array([1, 1, 1, 0, 0])
    problem = Problem.from_data(X, y, C=1e-4, penalty="hinge")
    proposed = problem.prices.copy()
    upper = problem.certify(problem.zeros(), proposed).upper
    rows, weights = problem.support(proposed)
    alpha, signs = np.zeros(5), 2.0 * y - 1.0
    alpha[rows] = weights
    assert abs(signs @ alpha) <= 1e-12 * alpha.sum()
    assert (alpha >= 0.0).all() and (alpha <= 1e-4).all()
    value = alpha.sum() - 0.5 * float((signs * alpha) @ X[:, 0]) ** 2
    assert 1.0 / math.sqrt(2.0 * value) <= upper * (1.0 + 1e-12)


def test_a_soft_margin_is_never_called_not_separable():
    """Two equal rows with different labels, and a C at which rounding hides all slack."""
    X = [[-0.75], [0.25], [0.25], [-1.625], [-0.09375]]
    for C in (7e9, 7e11, 7e13):
        found = max_margin(
            X, [1, 3, 2, 0, 0], C=C, kernel="rbf", gamma=1.0, fit_intercept=False, tol=1e-3
        )
        assert found.status in (Status.OPTIMAL, Status.STALLED)


# --- the oracle itself ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_squared", [False, True])
def test_the_exact_optimum_of_two_points(is_squared):
    """x = ±1 without an intercept: w = min(1, 2C), or 4C/(1 + 4C) for squared slack."""
    K = rational([[1.0, -1.0], [-1.0, 1.0]])
    for C in (Fraction(1, 8), Fraction(1, 2), Fraction(5)):
        problem = SoftProblem(K, [1, 0], [C, C], is_squared=is_squared, fit_intercept=False)
        w = 4 * C / (1 + 4 * C) if is_squared else min(Fraction(1), 2 * C)
        slack = (1 - w) ** 2 if is_squared else 1 - w
        assert problem.least() == w * w / 2 + 2 * C * slack
        F = rational([[float(w)], [-float(w)]])
        if Fraction(float(w)) == w:
            assert problem.objective(F, rational(float(w) ** 2)[0, 0], 0.0) == problem.least()


def test_a_singular_guess_is_no_answer():
    M = rational([[1.0, 1.0], [1.0, 1.0]])
    q = rational([[-1.0], [-1.0]])
    assert criss_cross(M, q, [0, 1]) is None
    assert criss_cross(M, q, []) == {0: 1}
