"""`auto`: every operator, dual set and kind of data, to machine precision; and degenerate data."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from makers import make_nonseparable, make_sparse_separable, make_touching

from momentron import Status, max_margin
from momentron.datasets import make_separable
from momentron.dual.dualsets import Simplex
from momentron.dual.losses import Exponential
from momentron.solvers.auto import newton
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Direction
from momentron.solvers.auto.interior import interior_point
from momentron.solvers.auto.primal_form import PrimalForm, SpannedForm, primal_form, reduced_form
from momentron.solvers.auto.working_rows import SignedRows

CONTAINERS = {"dense": np.asarray, "fortran": np.asfortranarray, "csr": sp.csr_array}
SHAPES = [(2, 1), (40, 3), (30, 60), (300, 20), (900, 12), (2500, 40)]


def solve(data, container="dense", **options):
    X = CONTAINERS[container](data.X)
    return max_margin(X, data.y, fit_intercept=data.fit_intercept, max_time=30.0, **options)


def support_size(n, d, fit_intercept):
    return min(n, 2 if fit_intercept else 1) if d == 1 else min(n, d, 6)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_separable(shape, fit_intercept, dtype, container):
    data = make_separable(
        *shape,
        n_support=support_size(*shape, fit_intercept),
        fit_intercept=fit_intercept,
        margin=0.1,
        dtype=dtype,
        random_state=1,
    )
    result = solve(data, container, tol=1e-12)
    assert result.status is Status.OPTIMAL
    assert result.gap <= 1e-12
    known = 1e-5 if dtype == np.float32 else 1e-12
    assert result.lower <= data.margin * (1 + known)
    assert result.upper >= data.margin * (1 - known)
    if dtype == np.float64:
        assert np.linalg.norm(result.coef - data.coef) < 1e-6
        assert result.intercept == pytest.approx(data.intercept, abs=1e-6)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("make", [make_nonseparable, make_touching])
@pytest.mark.parametrize("shape", [(40, 3), (300, 20), (2500, 10)], ids=str)
def test_no_margin(shape, make, fit_intercept, dtype, container):
    data = make(*shape, fit_intercept=fit_intercept, dtype=dtype, random_state=2)
    result = solve(data, container)
    assert result.status is Status.NOT_SEPARABLE
    assert result.lower == 0.0
    radius = np.linalg.norm(np.asarray(data.X, float), axis=1).max()
    assert result.upper <= 1e-12 * radius
    assert np.all(np.isfinite(result.coef))
    if fit_intercept:
        assert result.full_dual()[data.y > 0].sum() == pytest.approx(0.5)


def degenerate():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), np.repeat([1, -1], 30)
    X[:, 0] += 4.0 * y
    wide = rng.normal(size=(20, 200))
    yield "duplicate rows", np.repeat(X, 4, axis=0), np.repeat(y, 4)
    yield "collinear features", np.hstack([X, X @ rng.normal(size=(5, 4))]), y
    yield "rank one", np.outer(X[:, 0], rng.normal(size=7)), y
    yield "zero column", np.hstack([X, np.zeros((60, 2))]), y
    yield "two rows", X[[0, 59]], y[[0, 59]]
    yield "one row against many", X[29:], y[29:]
    yield "all rows support", wide, np.where(np.arange(20) % 2, 1, -1)
    yield "lattice", np.array([[i, j] for i in range(6) for j in range(6)], float), LATTICE
    yield "scaled features", X * 10.0 ** np.arange(-4, 1), y
    yield "offset", X + 1e5, y
    yield "identity", np.eye(12), np.where(np.arange(12) < 5, 1, -1)


LATTICE = np.array([1 if i + j > 4 else -1 for i in range(6) for j in range(6)])


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("case", list(degenerate()), ids=lambda case: case[0])
def test_degenerate(case, fit_intercept):
    _, X, y = case
    result = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-9, max_time=30.0)
    assert result.status.is_final
    if result.status is Status.OPTIMAL:
        decision = y * (X @ result.coef + result.intercept)
        assert decision.min() >= result.lower * (1 - 1e-9)
    else:
        norm = np.linalg.norm((y * result.full_dual()) @ X)
        assert norm <= 1e-12 * np.linalg.norm(X, axis=1).max()


def clarabel_direction(X, y, fit_intercept):
    clarabel = pytest.importorskip("clarabel")
    n, d = X.shape
    k = d + int(fit_intercept)
    A = np.column_stack([X, np.ones(n)]) if fit_intercept else X
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    P = sp.csc_array(np.diag([1.0] * d + [0.0] * (k - d)))
    cones = [clarabel.NonnegativeConeT(n)]
    A = sp.csc_array(-A * y[:, None])
    found = clarabel.DefaultSolver(P, np.zeros(k), A, -np.ones(n), cones, settings).solve()
    w = np.array(found.x)[:d]
    return str(found.status), w / np.linalg.norm(w)


@pytest.mark.parametrize("chunk", range(10))
def test_agrees_with_clarabel(chunk):
    """500 random small problems: the same direction to 1e-8."""
    for index in range(50):
        rng = np.random.default_rng([chunk, index])
        n, d = int(rng.integers(4, 60)), int(rng.integers(2, 30))
        X = rng.normal(size=(n, d))
        y = np.where(X @ rng.normal(size=d) > 0.0, 1.0, -1.0)
        y[:2] = [1.0, -1.0]
        X += 0.5 * np.outer(y, rng.normal(size=d))
        fit_intercept = bool(index % 2)
        result = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-12)
        if result.status is Status.NOT_SEPARABLE:
            continue
        assert result.status is Status.OPTIMAL, (chunk, index)
        status, direction = clarabel_direction(X, y, fit_intercept)
        if status == "Solved":
            assert np.linalg.norm(direction - result.coef) < 1e-8, (chunk, index)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_tiny_margins_reach_the_tolerance_in_extended_precision(fit_intercept):
    """R/γ of 1e5: no float64 classifier has a gap of 1e-12, and the interval has it still."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 12))
    y = np.where(X @ rng.normal(size=12) > 0.0, 1, -1)
    result = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-12, max_time=30.0)
    assert result.upper < 1e-3 * np.linalg.norm(X, axis=1).max()
    assert result.status is Status.OPTIMAL
    assert result.gap <= 1e-12
    assert result.margin <= result.upper
    decision = y * (X @ result.coef + result.intercept)
    assert decision.min() == pytest.approx(result.margin, rel=1e-9)


def test_large_sparse():
    data = make_sparse_separable(5000, 4000, density=0.002, n_support=30, random_state=0)
    result = solve(data, "csr", tol=1e-12)
    assert result.status is Status.OPTIMAL
    assert result.lower == pytest.approx(data.margin, rel=1e-10)


@pytest.mark.clock
@pytest.mark.parametrize("budget", [0.05, 0.3])
@pytest.mark.parametrize("C", [np.inf, 1.0])
def test_time_budget_is_kept(budget, C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 600))
    y = rng.choice([-1, 1], 6000)
    begin = time.perf_counter()
    result = max_margin(X, y, C=C, tol=1e-12, max_time=budget)
    spent = time.perf_counter() - begin
    budgets = (Status.TIME_BUDGET, Status.NO_ROOM)
    assert result.status in (*budgets, Status.OPTIMAL, Status.NOT_SEPARABLE)
    assert result.upper > 0.0
    assert spent < budget + 0.5


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_warm_start_with_more_rows(fit_intercept):
    data = make_separable(3000, 15, fit_intercept=fit_intercept, random_state=5)
    options = {"fit_intercept": fit_intercept, "tol": 1e-10}
    first = max_margin(data.X[:2970], data.y[:2970], **options)
    warm = max_margin(data.X, data.y, initial=first, **options)
    cold = max_margin(data.X, data.y, **options)
    assert warm.status is Status.OPTIMAL
    assert warm.lower == pytest.approx(cold.lower, rel=1e-9)
    assert warm.n_iter <= cold.n_iter


def test_warm_path_over_C():
    data = make_nonseparable(400, 10, fit_intercept=True, random_state=5)
    result = None
    for C in np.logspace(-2, 2, 20):
        result = max_margin(data.X, data.y, C=C, initial=result, tol=1e-9)
        assert result.status is Status.OPTIMAL
        cold = max_margin(data.X, data.y, C=C, tol=1e-9)
        assert result.lower == pytest.approx(cold.lower, rel=1e-8)


def test_warm_start_from_nonsense_is_harmless():
    data = make_separable(900, 8, random_state=6)
    other = max_margin(data.X[::-1], -data.y, fit_intercept=False, max_iter=1)
    result = max_margin(data.X, data.y, fit_intercept=False, initial=other, tol=1e-9)
    assert result.status is Status.OPTIMAL
    assert result.lower == pytest.approx(data.margin, rel=1e-8)


def test_initial_is_refused_where_it_makes_no_sense():
    data = make_separable(30, 3, random_state=0)
    first = max_margin(data.X, data.y)
    with pytest.raises(ValueError, match="3 features but X has 2"):
        max_margin(data.X[:, :2], data.y, initial=first)


def test_a_sample_of_zeros_is_no_verdict_on_the_others():
    # 1,900 zero rows and few others: the zeros alone are a witness, and must be the whole of it
    X = np.zeros((2000, 3))
    X[:100] = np.random.default_rng(0).normal(size=(100, 3))
    y = np.arange(2000) % 2
    result = max_margin(X, y, fit_intercept=False)
    assert result.status is Status.NOT_SEPARABLE
    assert np.linalg.norm(result.full_dual() @ (X * np.where(y == 1, 1.0, -1.0)[:, None])) <= 1e-12


@pytest.mark.parametrize(("slope", "is_far"), [(-1.0, False), (-100.0, False), (-1e5, True)])
def test_line_searches_may_leave_out_the_rows_that_do_not_count(slope, is_far):
    rng = np.random.default_rng(0)
    r, dp = rng.normal(size=500) - 1.0, rng.normal(size=500)
    direction = Direction(dp, dp[:0], dp, slope, 1.0)
    t = newton.line_search(direction, r, newton.Hinge(1.0))
    assert (t > 2.0) == is_far

    def slope_at(t):
        return slope + t - np.maximum(r - t * dp, 0.0) @ dp

    assert t < 1e-6 if slope_at(0.0) > 0.0 else abs(slope_at(t)) <= 1e-3 * abs(slope_at(0.0))


def test_no_time_to_choose_pairs():
    X, y = np.random.default_rng(0).normal(size=(3000, 5)), np.arange(3000) % 20
    assert max_margin(X, y, max_time=1e-6).status is Status.TIME_BUDGET


@pytest.mark.parametrize("shape", [(150, 150), (200, 400)])
@pytest.mark.parametrize("offset", [1e5, 1e7])
def test_rows_far_from_the_origin_cost_no_digits(shape, offset):
    """A Gram matrix has lost the margin here, and there are too many entries for rationals."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=shape), rng.choice([-1, 1], shape[0])
    X[:, 0] += offset
    result = max_margin(X, y, fit_intercept=False)
    assert result.status is Status.OPTIMAL
    assert result.gap <= 1e-6


@pytest.mark.parametrize("shape", [(20, 50), (50, 40)])
def test_reduced_rows_show_the_margin_of_the_rows_themselves(shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    signs = np.where(X @ rng.normal(size=shape[1]) > 0.0, 1.0, -1.0)
    form = reduced_form(SignedRows(X, signs, Simplex(shape[0], Exponential())), Deadline())
    lam = interior_point(form, 1e-10).alpha
    bounds, (w, _) = form.bounds(lam), form.answer()
    assert bounds.gap <= 1e-8
    assert bounds.lower == pytest.approx(np.min(signs * (X @ w)) / np.linalg.norm(w), rel=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("overlap", [False, True])
def test_columns_of_zeros_change_nothing(fit_intercept, overlap):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 40))
    y = np.sign(X @ rng.normal(size=40) + 0.3)
    if overlap:
        y[:60] *= -1.0
    wide = np.zeros((900, 70))
    places = np.sort(rng.permutation(70)[:40])
    wide[:, places] = X
    plain, padded = (max_margin(data, y, fit_intercept=fit_intercept) for data in (X, wide))
    assert plain.status is padded.status
    assert plain.lower <= padded.upper and padded.lower <= plain.upper
    assert not np.delete(padded.coef, places).any()
    used = np.flatnonzero(wide.any(axis=0))
    rows = SignedRows(wide, y, Simplex(900, Exponential()))
    form = primal_form(rows, Deadline())
    assert isinstance(form, SpannedForm) and np.array_equal(form.B.indices, np.arange(used.size))
    assert np.array_equal(np.flatnonzero(np.diff(form.B.indptr)), used)
    form.warm(np.arange(70.0), np.zeros(0), np.zeros(900))
    np.testing.assert_allclose(form.p, y * (wide @ np.arange(70.0)), atol=1e-10)
    assert np.array_equal(form.answer()[0], np.where(wide.any(axis=0), np.arange(70.0), 0.0))
    assert type(primal_form(SignedRows(X, y, rows.dual_set), Deadline())) is (PrimalForm)
