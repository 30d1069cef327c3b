"""Kernel values in single precision: their bounds hold, and certificates that rest on them too."""

from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import max_margin
from momentron.arithmetic.rounding import gamma
from momentron.certificate import certify_margin, classifier_bounds
from momentron.certificate.bounds import recomputed
from momentron.rows import KernelOperator, kernel_rows
from momentron.rows.column_cache import SquareStore
from momentron.rows.kernels import GaussianKernel, PolynomialKernel
from momentron.rows.kernels.pairwise import SingleScores
from momentron.solvers.problem import KernelChoice, Problem
from momentron.status import Status


def points(seed, n, d, scale=1.0, offset=0.0, *, is_positive=False):
    X = np.random.default_rng(seed).normal(size=(n, d)) + offset
    return scale * (np.abs(X) if is_positive else X)


def bound_kernel(seed):
    """A kernel over rows of some shape, scale and offset, and its rows."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 2, 7, 399, 400, 401, 900]))
    scale = 2.0 ** float(rng.integers(-90, 90))
    X = points(seed, 60, d, scale, float(rng.choice([0.0, 0.5])), is_positive=bool(seed % 2))
    X[0] = 0.0
    if seed % 5 == 0 and d > 1:
        X[:, rng.permutation(d)[: d // 3 + 1]] = 0.0  # features that are left out
    square = float((X**2).sum(axis=1).max())
    if seed % 3:
        return GaussianKernel(float(rng.choice([1e-3, 0.3, 3.0])) / square).bind(X)
    return PolynomialKernel(1.0 / square, int(rng.integers(1, 5)), float(rng.random())).bind(X)


@pytest.mark.parametrize("seed", range(60))
def test_every_value_is_within_its_bound(seed):
    bound = bound_kernel(seed)
    # without memory for the rows themselves, these are rounded each time
    single, every = bound.single_scores(10**7 if seed % 2 else 0), slice(None)
    values, exact = single.values(every, every).astype(np.float64), bound.block(every, every)
    assert values.dtype == np.float64 and single.values(every, every).dtype == np.float32
    limit = np.outer(single.weights, single.weights)
    if single.is_relative:
        limit = limit * values
    known = bound.relative_error * np.outer(bound.row_norms, bound.row_norms)
    assert (np.abs(values - exact) <= limit + known).all()
    assert limit.max() < 0.02 * max(1.0, exact.max())


@pytest.mark.parametrize("seed", range(40))
def test_every_score_is_within_its_bound(seed):
    bound, rng = bound_kernel(seed), np.random.default_rng(seed)
    shape = (60,) if seed % 2 else (60, 3)
    a = rng.normal(size=shape) * 10.0 ** rng.uniform(-3, 3, shape) * 2.0 ** rng.integers(-300, 300)
    index = np.sort(rng.permutation(60)[: rng.integers(1, 61)])
    rough = bound.single_scores(10**7)
    for _ in range(2):  # computed, and from the cache
        scores, error = rough.scores(index, a[index])
        exact = bound.block(slice(None), index).astype(np.longdouble) @ a[index]
        norms = bound.row_norms
        sums = np.tensordot(norms[index], np.abs(a[index]), axes=1)
        known = (bound.relative_error + gamma(8)) * np.multiply.outer(norms, sums)
        assert (np.abs(scores - exact) <= error + known).all()


def exact_value(kernel, x, z):
    """K(x, z) of the floats as they are, to sixty digits."""
    pairs = [(Decimal(float(a)), Decimal(float(b))) for a, b in zip(x, z, strict=True)]
    if isinstance(kernel, GaussianKernel):
        return (-Decimal(kernel.gamma) * sum((a - b) ** 2 for a, b in pairs)).exp()
    t = Decimal(kernel.gamma) * sum(a * b for a, b in pairs) + Decimal(kernel.coef0)
    return t**kernel.degree


@pytest.mark.parametrize("seed", range(40))
def test_every_value_is_within_its_bound_of_the_exact_one(seed):
    rng = np.random.default_rng(seed)
    X = points(seed, 9, int(rng.integers(1, 5)), 2.0 ** float(rng.integers(-400, 400)))
    if seed % 3 == 0:
        X *= 10.0 ** rng.uniform(-50, 0, (9, 1))  # rows of very different lengths
    X[0], X[1] = 0.0, X[2]
    square = float((X**2).sum(axis=1).max())
    gamma_ = 10.0 ** rng.uniform(-3, 3) / square
    kernel = GaussianKernel(gamma_) if seed % 2 else PolynomialKernel(gamma_, 1 + seed % 4, 0.3)
    single = kernel.bind(X).single_scores(10**7)
    values = single.values(slice(None), slice(None))
    with localcontext(prec=60):
        for (i, j), value in np.ndenumerate(values):
            error = abs(Decimal(float(value)) - exact_value(kernel, X[i], X[j]))
            limit = Decimal(float(single.weights[i] * single.weights[j]))
            if single.is_relative:
                limit = limit * Decimal(float(value)) + Decimal(2.0**-125)
            assert error <= limit


def test_features_that_are_zero_in_all_rows_are_not_held():
    X = points(0, 50, 30)
    X[:, ::3] = 0.0
    bound = GaussianKernel(0.01).bind(X)
    single, not_held = bound.single_scores(10**7), bound.single_scores(0)
    values = single.values(slice(0, 20), slice(None))
    assert single.points.take(slice(None)).shape == (50, 20)
    assert not_held.points.take(slice(None)).shape == (50, 30)
    assert values == pytest.approx(not_held.values(slice(0, 20), slice(None)), rel=1e-5)


@pytest.mark.parametrize("is_held", [False, True])
def test_sparse_rows_that_are_nearly_dense(is_held):
    X = points(3, 60, 40) * (np.random.default_rng(3).random((60, 40)) < 0.2)
    dense, bound = GaussianKernel(0.05).bind(X), GaussianKernel(0.05).bind(sp.csr_array(X))
    single, every = bound.single_scores(10**7 if is_held else 0), slice(None)
    values, exact = single.values(every, every).astype(np.float64), dense.block(every, every)
    limit = np.outer(single.weights, single.weights) * values + dense.relative_error
    assert (np.abs(values - exact) <= limit).all()
    few = sp.random_array((60, 40), density=0.01, rng=np.random.default_rng(0), format="csr")
    assert GaussianKernel(0.05).bind(few).single_scores(10**7) is None


def test_rows_whose_squares_are_hardly_there():
    X = 7e-155 * np.random.default_rng(0).uniform(-1.0, 1.0, (20, 1))  # 1/‖x‖² overflows
    for formula in (GaussianKernel(5e296), PolynomialKernel(1.0, 2, 1.0)):
        bound = formula.bind(X)
        values = bound.single_scores(10**7).values(slice(None), slice(None))
        assert values == pytest.approx(bound.block(slice(None), slice(None)), abs=1e-5)


def test_coefficients_next_to_the_largest_float():
    bound = GaussianKernel(0.1).bind(points(0, 30, 2))
    a, index = np.full(1, 1.7e308), np.array([3])
    scores, error = bound.single_scores(10**6).scores(index, a)
    exact = bound.block(slice(None), index) @ a
    assert (np.abs(scores - exact) <= error).all() and (error < 1e304).all()


@dataclass(frozen=True)
class Wider(GaussianKernel):
    """A user's kernel with a formula of its own, and none in single precision."""

    def fill(self, A, B, squares_a, squares_b, out):
        super().fill(A, B, squares_a, squares_b, out)
        np.sqrt(out, out=out)


def test_a_kernel_with_its_own_formula_is_not_computed_by_another_s():
    X = points(0, 30, 2)
    assert GaussianKernel(1.0).bind(X).single_scores(10**7) is not None
    assert Wider(1.0).bind(X).single_scores(10**7) is None


def test_rows_that_were_to_be_held_when_ctrl_c_came(monkeypatch):
    single = GaussianKernel(0.1).bind(points(0, 30, 2)).single_scores(10**7)

    def interrupt(index):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(single.points, "_rounded", interrupt)
        with pytest.raises(KeyboardInterrupt):
            single.points.hold()
    assert single.points._held is None


def test_what_a_square_store_returns_is_a_copy():
    K = np.arange(36.0).reshape(6, 6) + np.arange(36.0).reshape(6, 6).T
    store = SquareStore(lambda rows, cols: K[rows][:, cols], 6)
    store.values(np.array([4, 1, 3]), 10**9)[...] = 0.0
    for _ in range(2):
        rows, scores = store.scores(np.array([1]), np.ones(1))
        assert np.array_equal(scores, K[rows, 1])
        rows[...], scores[...] = 0, 0.0


def test_nothing_is_claimed_where_single_precision_tells_too_little():
    X = points(0, 50, 4)
    assert GaussianKernel(1e8).bind(X).single_scores(10**7) is None
    assert GaussianKernel(1e-30).bind(X).single_scores(10**7) is None
    assert PolynomialKernel(1e10, 3, 0.0).bind(X).single_scores(10**7) is None
    assert GaussianKernel(1.0).bind(1e-30 * np.ones((4, 2))).single_scores(10**7) is None


@pytest.fixture
def rough(monkeypatch):
    """Single precision for however few rows, whoever asks."""
    monkeypatch.setattr(kernel_rows, "MANY_ROWS", 1)
    monkeypatch.setattr(SingleScores, "serves", lambda *_: True)


def problem(seed, *, fit_intercept=True, classes=2, kernel="rbf"):
    X = points(seed, 150, 6)
    y = np.random.default_rng(seed).integers(0, classes, 150)
    choice = KernelChoice(kernel, cache_size=1.0)
    return Problem.from_data(X, y, fit_intercept=fit_intercept, kernel=choice)


def scores_in_double(problem, w):
    """Zw in extended precision, from kernel values in double precision."""
    K = problem.operator.kernel.block(slice(None), slice(None)).astype(np.longdouble)
    return problem.labels.scores(K @ w[0])


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("classes", [2, 4])
def test_margins_of_any_classifier_are_bounded(rough, seed, classes):
    rng = np.random.default_rng(seed)
    kernel_name = "rbf" if seed % 3 else "poly"
    p = problem(seed, fit_intercept=bool(seed % 2), classes=classes, kernel=kernel_name)
    assert p.operator.is_rough
    a = rng.normal(size=p.zeros()[0].shape)
    a[rng.permutation(150)[: rng.integers(0, 140)]] = 0.0
    w = np.stack([a, rng.normal(size=a.shape), rng.normal(size=a.shape)])  # two lies
    margin = certify_margin(p, w)
    true = p.dual_set.margin(scores_in_double(p, w).astype(np.float64))
    again = recomputed(p, w)
    assert p.operator.single_errors(again) is not None or not (a == 0.0).any()
    true /= p.norm(p.normalised(w))
    assert margin <= true + 1e-12 * abs(true)
    assert margin >= true - 1e-9 * abs(true)  # as sharp as double precision alone
    assert certify_margin(p, 2.0**-600 * w) == pytest.approx(margin, rel=1e-9)


def test_what_was_made_in_extended_precision_comes_back_as_it_is_asked_for(rough):
    p = problem(0)
    w = p.zeros()
    w[0, :20] = np.arange(20.0)  # the same numbers in both
    certify_margin(p, w.astype(np.longdouble), sharp=True)
    assert p.normalised(w).dtype == np.float64


@pytest.mark.parametrize("seed", range(20))
def test_a_classifier_with_its_own_intercept(rough, seed):
    p, rng = problem(seed), np.random.default_rng(seed)
    a = np.where(rng.random(150) < 0.3, rng.normal(size=150), 0.0)
    w = p.normalised(np.stack([a, a, a]))
    w = w / p.norm(w)
    b = float(rng.normal())
    outputs = p.operator.kernel.block(slice(None), slice(None)) @ w[0] + b
    true = float(-p.labels.scores(outputs).max())
    assert classifier_bounds(p, w, b)[0] <= true + 1e-12
    assert classifier_bounds(p, w, b, products=w[1])[0] <= true + 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_objectives_of_the_hinge(rough, seed):
    X, rng = points(seed, 150, 6), np.random.default_rng(seed)
    y = rng.integers(0, 2, 150)
    options = {"kernel": "rbf", "C": 1.0, "penalty": "hinge", "tol": 1e-8}
    rough_result = max_margin(X, y, **options)
    K = GaussianKernel(1.0 / (6 * X.var())).bind(X).block(slice(None), slice(None))
    exact = max_margin(K, y, **{**options, "kernel": "precomputed"})
    assert rough_result.status is Status.OPTIMAL
    assert rough_result.lower <= exact.upper and exact.lower <= rough_result.upper


@pytest.mark.slow
@pytest.mark.parametrize("kernel_name", ["rbf", "poly"])
@pytest.mark.parametrize("C", [np.inf, 10.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_same_interval_as_in_double_precision(kernel_name, C, classes):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1300, 8))
    y = np.digitize(X[:, 0] * X[:, 1], np.linspace(-0.5, 0.5, classes - 1))
    options = {"kernel": kernel_name, "gamma": 0.5, "coef0": 1.0, "C": C, "tol": 1e-9}
    found = max_margin(X, y, max_time=60.0, **options)
    K = found_kernel(kernel_name, X)
    exact = max_margin(K, y, **{**options, "kernel": "precomputed"}, max_time=60.0)
    assert found.lower <= exact.upper * (1.0 + 1e-9)
    assert exact.lower <= found.upper * (1.0 + 1e-9)
    assert found.status is exact.status


def found_kernel(name, X):
    kernel = GaussianKernel(0.5) if name == "rbf" else PolynomialKernel(0.5, 3, 1.0)
    return kernel.bind(X).block(slice(None), slice(None))


def test_memory_for_single_precision_is_the_cache_s():
    X = points(1, 1500, 4)
    operator = KernelOperator(GaussianKernel(0.1).bind(X), 4 * 1500 * 100)
    operator.combine(np.arange(400), np.ones(400), rough=True)
    assert operator._single.nbytes <= 4 * 1500 * 100
    operator.reserve(4 * 1500 * 60)
    assert operator._single.nbytes <= 4 * 1500 * 40


def test_rows_are_rounded_when_values_are_asked_for():
    X = points(4, 1200, 5)
    operator = KernelOperator(GaussianKernel(0.1).bind(X), 10**8)
    operator.combine(np.arange(5), np.ones(5))
    assert operator._single.points._held is None
    operator.combine(np.arange(5), np.ones(5), rough=True)
    assert operator._single.points._held is not None
    assert operator.adjoint_norm(np.ones(1200)) > 0.0
    assert operator._cache.size == 5  # a norm of all rows fills no cache


def test_double_precision_serves_who_takes_no_columns_in_single():
    X = points(3, 1200, 4)
    operator = KernelOperator(GaussianKernel(0.1).bind(X), 10**8)
    a = np.where(np.arange(1200) % 3, 0.0, 1.0)
    w = np.stack([a, a, a])
    assert operator.single_errors(operator.recomputed(w)) is None  # a first-order method's, say
    operator = KernelOperator(GaussianKernel(0.1).bind(X), 10**8)
    operator.combine(np.arange(5), np.ones(5), rough=True)
    assert operator.single_errors(operator.recomputed(w)) is not None
    dense = np.ones((3, 1200))
    assert (
        operator.single_errors(operator.recomputed(dense)) is None
    )  # hardly a row is left to be rough


def test_scores_of_many_weights_come_from_the_matrix_that_is_kept(monkeypatch):
    monkeypatch.setattr(kernel_rows, "MANY_ROWS", 10)
    bound = GaussianKernel(0.1).bind(points(5, 40, 3))
    operator, a = KernelOperator(bound, 10**7), np.random.default_rng(5).normal(size=40)
    operator.square(np.arange(40))
    before = operator.evaluations
    w = operator.recomputed(operator.classifier(a, np.zeros(40)))
    assert operator.evaluations == before
    exact = bound.block(slice(None), slice(None)).astype(np.longdouble) @ a
    assert np.abs(w[1] - exact).max() <= gamma(44) * np.abs(a).sum() and not w[2].any()
