"""The contract: every method on every kind of rows with every label scheme, or the reason why not.

The answers are known, and what a result claims is checked in exact arithmetic.
"""

from fractions import Fraction

import numpy as np
import pytest
from contract import ExactProblem

from momentron import InputError, Status, max_margin

TOL = 1e-6
STEPS = 40


@pytest.fixture
def run(solver, rows, problem, tmp_path):
    """`max_margin` on one cell of the matrix; a method that cannot run there must say why."""
    X = rows.make(problem, tmp_path)
    options = rows.options | {"fit_intercept": problem.scheme.fit_intercept, "random_state": 0}

    def fit(**more):
        return max_margin(X, problem.y, method=solver, tol=TOL, **options, **more)

    if rows.is_in_blocks and solver.needs_memory is not None:
        with pytest.raises(InputError) as error:
            fit()
        assert f"{solver.name!r} needs the data in memory: {solver.needs_memory}" in str(
            error.value
        )
        pytest.skip(f"declared: {solver.needs_memory}")
    return fit


def assert_holds(result, problem):
    assert result.lower <= result.upper
    assert Fraction(result.lower) ** 2 <= problem.margin_squared <= Fraction(result.upper) ** 2


def test_every_cell_of_the_matrix(run, solver, rows, problem):
    result = run(max_iter=STEPS)
    assert_holds(result, problem)
    assert result.method == solver.name
    assert result.n_rows == problem.y.size
    if rows.is_in_blocks:
        assert result.bytes_read >= 8 * problem.X.size * result.passes
    is_tight = result.gap <= TOL
    assert result.status is (Status.OPTIMAL if is_tight else Status.ITERATION_BUDGET)
    assert is_tight or result.n_iter == STEPS
    assert is_tight or solver.name != "auto"
    exact = ExactProblem(problem, has_kernel="kernel" in rows.options)
    assert_classifies(result, exact)
    assert_weighs(result, exact, rows.is_in_blocks)


@pytest.mark.slow
def test_one_iteration_is_enough_for_an_answer(run, problem):
    result = run(max_iter=1)
    assert result.n_iter == len(result.trace) == 1
    assert_holds(result, problem)


def assert_classifies(result, exact):
    """The classifier has the margin that is proven of it."""
    margin = exact.functional_margin(result.coef, result.intercept)
    squared_norm = exact.squared_norm(np.vectorize(Fraction)(result.coef))
    assert squared_norm == pytest.approx(1.0)
    proven = Fraction(result.margin)
    signed_square = margin * abs(margin) / squared_norm
    assert signed_square >= proven * abs(proven)
    assert result.lower == 0.0 or result.margin == pytest.approx(result.lower, rel=1e-9)


def assert_weighs(result, exact, is_in_blocks):
    """The weights are on few rows, in the dual set, and prove `upper`."""
    y, scheme = exact.problem.y, exact.problem.scheme
    assert np.all(np.diff(result.support) > 0)
    assert np.array_equal(result.support_labels, y[result.support])
    assert result.dual.shape[0] == result.support.size
    if result.support.size == 0:
        assert is_in_blocks  # where averages over all the rows are not kept
        return
    q = result.full_dual()
    assert q.min() >= 0.0 and q.sum() == pytest.approx(1.0)
    flows = np.array([q[y == label].sum() for label in result.classes])
    if scheme.n_classes == 2:
        assert not scheme.fit_intercept or flows == pytest.approx(0.5)
    else:
        assert np.all(q[np.arange(y.size), exact.codes] == 0.0)
        assert not scheme.fit_intercept or flows == pytest.approx(q.sum(axis=0))
    assert float(exact.squared_bound(q)) == pytest.approx(result.upper**2, rel=1e-9)


def test_products_of_computed_rows_are_those_of_their_floats(rows, problem, tmp_path):
    X = rows.make(problem, tmp_path)
    if not hasattr(X, "transposed_times"):
        pytest.skip("these rows are not computed")
    every = np.asarray(X.rows(np.arange(X.shape[0])))
    for index in (np.array([7]), np.arange(5, 8), np.array([9, 2, 9])):
        assert np.array_equal(X.rows(index), every[index])  # the same floats, alone or together
    rng = np.random.default_rng(0)
    for more in ((), (3,)):
        w, a = rng.normal(size=(X.shape[1], *more)), rng.normal(size=(X.shape[0], *more))
        np.testing.assert_allclose(X.times(w), every @ w, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(X.transposed_times(a), every.T @ a, rtol=1e-9, atol=1e-9)
