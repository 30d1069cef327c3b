"""The engine for many pairs: against exact solves on working sets, and against dense algebra."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import MaxMarginClassifier, Status, max_margin
from momentron.arithmetic.clock import OutOfTime, until
from momentron.dual.labels import as_labels
from momentron.errors import NotSeparableWarning
from momentron.rows import DenseOperator, SparseOperator
from momentron.solvers import Auto
from momentron.solvers.auto import AutoSettings
from momentron.solvers.auto.class_newton import ClassForm
from momentron.solvers.auto.class_systems import (
    ClassBlocks,
    Hessian,
    copy_of,
)
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Hinge
from momentron.solvers.auto.multiclass import ClassMargin
from momentron.solvers.problem import Problem


@pytest.fixture
def always(monkeypatch):
    """The engine for problems of any size."""
    set_threshold(monkeypatch, 0)


def set_threshold(monkeypatch, pairs):
    names = ("many_pairs", "many_soft_pairs", "many_split_pairs")
    set_numbers(monkeypatch, **dict.fromkeys(names, pairs))


def set_numbers(monkeypatch, **numbers):
    monkeypatch.setattr(Auto, "settings", replace(Auto.settings, **numbers))


def random_problem(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 31))
    n, d = int(rng.integers(k + 5, 201)), int(rng.integers(2, 51))
    y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    centres = rng.choice([0.5, 2.0, 6.0]) * rng.normal(size=(k, d))
    X = rng.normal(size=(n, d)) + centres[y] + rng.choice([0.0, 10.0])
    C = float(rng.choice([math.inf, math.inf, 0.001, 0.1, 1.0, 100.0, 1e4]))
    return X, y, {"C": C, "fit_intercept": bool(rng.integers(2))}


def both(X, y, monkeypatch, **options):
    """(by the engine, by exact solves on working sets)."""
    results = []
    for threshold in (0, 10**9):
        set_threshold(monkeypatch, threshold)
        results.append(max_margin(X, y, **options))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_intervals_overlap_those_of_exact_solves(seed, monkeypatch):
    X, y, options = random_problem(seed)
    ours, exact = both(X, y, monkeypatch, **options)
    assert ours.lower <= exact.upper and exact.lower <= ours.upper
    if exact.status is Status.NOT_SEPARABLE:  # a witness, by exact solves where it stands still
        assert ours.status is Status.NOT_SEPARABLE
    else:
        assert ours.gap <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("C", [math.inf, 0.25, 0.5])
def test_forms_of_data_agree(C, always):
    X, y, _ = random_problem(7)
    whole = max_margin(X, y, C=C)
    for form in (X.astype(np.float32), sp.csr_array(X), sp.csc_array(X), np.asfortranarray(X)):
        result = max_margin(form, y, C=C)
        assert result.gap <= 1e-6
        assert result.lower == pytest.approx(whole.lower, rel=1e-5)


def hessian_problem(has_border):
    rng = np.random.default_rng(3)
    X, labels = rng.normal(size=(9, 4)), rng.integers(0, 3, 9)
    active = rng.random((9, 3)) < 0.6
    active[np.arange(9), labels] = False
    pairs = as_labels(3, has_border, labels)
    width = 4 + has_border
    A = np.hstack([X, np.ones((9, 1))])[:, :width]
    ridge = np.diag(np.r_[np.ones(4), np.zeros(int(has_border))])
    dense = np.kron(ridge, np.eye(3))
    for i, c in enumerate(labels):
        for j in np.flatnonzero(active[i]):
            z = np.outer(A[i], np.eye(3)[c] - np.eye(3)[j]).ravel()
            dense += 2.5 * np.outer(z, z)
    return Hessian(DenseOperator(X), pairs, active, 2.5), dense, width


@pytest.mark.parametrize("has_border", [False, True])
def test_hessian_products_are_those_of_the_matrix(has_border):
    hessian, dense, width = hessian_problem(has_border)
    V = np.random.default_rng(4).normal(size=(width, 3))
    np.testing.assert_allclose(hessian.times(V).ravel(), dense @ V.ravel(), rtol=1e-12)


@pytest.mark.parametrize("has_border", [False, True])
@pytest.mark.parametrize("thin", [0.0, 100.0])
def test_class_blocks_are_the_inverse_of_the_diagonal_blocks(has_border, thin):
    hessian, dense, width = hessian_problem(has_border)
    blocks = ClassBlocks(hessian, AutoSettings(thin_block=thin))
    r = np.random.default_rng(5).normal(size=(width, 3))
    z = blocks.apply(r)
    for c in range(3):
        np.testing.assert_allclose(dense[c::3, c::3] @ z[:, c], r[:, c], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("has_border", [False, True])
def test_blocks_without_room_are_the_diagonal(has_border):
    """An intercept that was eliminated there had what rounding left of a negative number."""
    hessian, dense, width = hessian_problem(has_border)
    blocks = ClassBlocks(hessian, AutoSettings(thin_block=0.0, block_room=0))
    r = np.random.default_rng(5).normal(size=(width, 3))
    np.testing.assert_allclose(blocks.apply(r).ravel(), r.ravel() / dense.diagonal(), rtol=1e-12)


@pytest.mark.parametrize("C", [math.inf, 1.0])
def test_documents_in_few_steps_by_diagonals(C):
    """These took 227 and 78 steps."""
    n, d, k, length = 2000, 1500, 5, 60
    rng, y = np.random.default_rng(4), np.arange(n) % k
    words, topics = (d * rng.random((n, length)) ** 4).astype(int), rng.integers(0, d, (k, 300))
    is_own = rng.random((n, length)) < 0.3
    own = topics[y[:, None], rng.integers(0, 300, (n, length))]
    words[is_own] = own[is_own]
    places = np.repeat(np.arange(n), length), words.ravel()
    X = sp.csr_array((np.ones(words.size), places), (n, d))
    X.data = np.log1p(X.data)
    settings = AutoSettings(block_room=0, many_pairs=0)
    result = max_margin(X, y, C=C, tol=1e-3, method=Auto(settings))
    assert result.gap <= 1e-3
    assert result.n_iter <= 40


HELD = (100.0, 10**6), (0.0, 10**6), (0.0, 0)  # by rows, in full, as diagonals


@pytest.mark.parametrize("has_border", [False, True])
def test_rows_that_are_not_copied_give_the_same_products(has_border):
    rng = np.random.default_rng(6)
    X, index = rng.normal(size=(50, 7)), np.array([3, 8, 9, 40])
    centre = X.mean(axis=0)
    operator = DenseOperator(X)
    copy = copy_of(operator, index, centre, np.float64)
    V, A = rng.normal(size=(7 + has_border, 3)), rng.normal(size=(4, 3))
    labels = as_labels(3, has_border, np.array([0, 1, 2, 1]))
    active = labels.dual_of(rng.uniform(1.0, 2.0, 8))
    sparse = copy_of(SparseOperator(sp.csr_array(X - centre)), index, centre, np.float64)
    kinds = [Hessian(rows, labels, active, 1.0) for rows in (copy, sparse)]
    kinds.append(Hessian(operator.some(index), labels, active, 1.0, centre))
    held = [AutoSettings(thin_block=thin, block_room=room) for thin, room in HELD]

    def results(hessian):
        yield hessian.products(V)
        yield hessian.adjoint(A)
        yield from (ClassBlocks(hessian, settings).apply(V) for settings in held)

    for first, *others in zip(*map(results, kinds), strict=True):
        for other in others:
            np.testing.assert_allclose(first, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("fits_intercept", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_more_features_than_rows(form, fits_intercept, monkeypatch):
    rng = np.random.default_rng(5)
    y = np.arange(60) % 8
    X = rng.normal(size=(60, 300)) * (rng.random((60, 300)) < 0.2) + 0.3
    X[np.arange(60), y] += 2.0
    ours, exact = both(form(X), y, monkeypatch, fit_intercept=fits_intercept)
    assert ours.gap <= 1e-6 and exact.gap <= 1e-6
    assert ours.lower <= exact.upper and exact.lower <= ours.upper
    again = max_margin(form(X), y, fit_intercept=fits_intercept, initial=ours)
    assert again.gap <= 1e-6


def test_no_active_rows_at_all():
    none = np.array([], np.intp)
    rows = DenseOperator(np.ones((0, 3), np.float32))
    blocks = ClassBlocks(Hessian(rows, as_labels(4, True, none), np.zeros((0, 4)), 1.0))
    assert np.isfinite(blocks.apply(np.ones((4, 4)))).all()


def test_classes_that_are_far_apart(always):
    """A rough first step leaves no pair active there."""
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(20, 60))
    y = np.r_[np.arange(20), rng.integers(0, 20, 480)]
    X = centres[y] + 0.3 * rng.normal(size=(500, 60))
    assert max_margin(X, y, tol=1e-3).status is Status.OPTIMAL


@pytest.mark.slow
def test_little_memory_gives_a_wider_interval_and_no_lie(always):
    X, y, _ = random_problem(12)
    full, little = max_margin(X, y), max_margin(X, y, max_memory=10_000)
    assert little.lower <= full.upper
    assert full.lower <= little.upper


@pytest.mark.parametrize("fits_intercept", [False, True])
def test_a_gradient_is_the_slope_of_the_objective(fits_intercept):
    X, y, _ = random_problem(11)
    form = ClassForm(Problem.from_data(X, y, fit_intercept=fits_intercept), Deadline())
    loss = Hinge(0.1)
    rng = np.random.default_rng(0)
    W, b = 0.1 * rng.normal(size=form.point.x.shape), np.zeros(y.max() + 1)
    form.go_to(W, b)
    gradient = form._gradient(loss.weights(loss.at(form.p)))
    direction = form.towards(rng.normal(size=gradient.shape))
    seen = np.vstack([direction.dx, direction.db + form.centre @ direction.dx])  # from the centre

    def objective(t):
        form.go_to(W + t * direction.dx, b + t * direction.db)
        return 0.5 * form.norm() ** 2 + 0.05 * np.sum(np.maximum(1.0 - form.p, 0.0) ** 2)

    slope = (objective(1e-6) - objective(-1e-6)) / 2e-6
    assert slope == pytest.approx(float(np.vdot(gradient, seen[: len(gradient)])), rel=1e-6)


@pytest.mark.parametrize("shape", [(1500, 60, 6, 0.5, 30.0), (3000, 400, 8, 0.1, 10.0)])
def test_soft_margins_of_sparse_rows_far_from_the_origin(shape):
    """Two products per direction looked enough there, and the gap stayed at 0.7."""
    n, d, k, density, shift = shape
    rng, y = np.random.default_rng(1), np.arange(n) % k
    X = rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(k, d))[y] + shift
    X *= rng.random((n, d)) < density
    assert max_margin(sp.csr_array(X), y, C=1.0, tol=1e-4).gap <= 1e-4


def test_a_witness_where_nothing_separates(always):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 6, 300)
    result = max_margin(X, y)
    assert result.status is Status.NOT_SEPARABLE


def test_the_fallback_classifies_where_nothing_separates(always):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 800)
    X = rng.normal(size=(800, 5)) + 3.0 * rng.normal(size=(4, 5))[y]
    X[0] += 100.0  # an outlier: the intercepts of the worst pairs would be its own
    result = max_margin(X, y)
    assert result.lower == 0.0
    predicted = (X @ result.coef.T + result.intercept).argmax(axis=1)
    assert np.mean(predicted != y) < 0.2


@pytest.mark.clock
@pytest.mark.parametrize("C", [math.inf, 1.0])
@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3])
def test_time_outs_leave_valid_proposals(C, seconds, always):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 20, 3000)
    X = rng.normal(size=(3000, 100)) + 0.5 * rng.normal(size=(20, 100))[y]
    start = time.perf_counter()
    result = max_margin(X, y, C=C, max_time=seconds)
    assert time.perf_counter() - start < seconds + 0.5
    assert 0.0 <= result.lower <= result.upper < math.inf
    assert np.isfinite(result.coef).all() and np.isfinite(result.intercept).all()


def test_a_step_that_is_cut_short_changes_nothing(always):
    X, y, _ = random_problem(12)
    problem = Problem.from_data(X, y)
    work = ClassMargin(problem, Deadline())
    for _ in range(3):
        work.advance()
    point = work.form.point
    with until(time.perf_counter() - 1.0), pytest.raises(OutOfTime):
        work.advance()
    assert work.form.point is point


def test_a_soft_margin_is_never_below_that_of_zero(monkeypatch):
    """W = 0 with slack 1 for all has margin 1/√(2C · pairs), whatever the budget."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(3000, 50)), rng.integers(0, 10, 3000)
    problem = Problem.from_data(X, y, C=0.01)
    solver = Auto()
    state = solver.init(problem)
    monkeypatch.setattr(type(state.work), "advance", _out_of_time)
    solver.step(problem, state)
    candidates = solver.candidates(problem, state)
    margins = [problem.margin(primal.w, primal.scores) for primal in candidates.primals]
    least = 1.0 / math.sqrt(0.02 * problem.size)
    assert problem.to_units_of_x(max(margins)) >= least * (1.0 - 1e-9)


def _out_of_time(work):
    raise OutOfTime


def test_a_warm_start_takes_few_steps(always):
    X, y, _ = random_problem(13)
    for C in (math.inf, 0.1):
        cold = max_margin(X, y, C=C)
        warm = max_margin(X, y, C=C, initial=cold)
        assert warm.gap <= 1e-6
        assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("C", [math.inf, 3.0])
def test_kernels_agree_with_exact_solves(seed, C, monkeypatch):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 8))
    y = np.r_[np.arange(k), rng.integers(0, k, 140)]
    X = rng.normal(size=(y.size, 6)) + rng.normal(size=(k, 6))[y]
    set_numbers(monkeypatch, kernel_first=40)
    options = {"kernel": "rbf", "gamma": 0.2, "C": C, "fit_intercept": seed % 2 == 0}
    ours, exact = both(X, y, monkeypatch, **options)
    assert ours.lower <= exact.upper and exact.lower <= ours.upper
    assert ours.gap <= 1e-6


def test_estimators_keep_the_fallback(always):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 400)
    X = rng.normal(size=(400, 5)) + 2.0 * rng.normal(size=(4, 5))[y]
    X[0] += 100.0
    with pytest.warns(NotSeparableWarning):
        model = MaxMarginClassifier(C=np.inf).fit(X, y)
    assert model.result_.is_fallback and model.margin_ < 0.0
    assert model.score(X, y) > 0.75
