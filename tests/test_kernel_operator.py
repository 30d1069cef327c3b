"""The column cache and the kernel operator: counts, memory, and bounds in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from momentron.arithmetic.rounding import EXTENDED_ROUNDOFF, gamma
from momentron.certificate import certify
from momentron.datasets import make_separable
from momentron.dual.labels import as_labels
from momentron.dual.losses import Exponential
from momentron.rows import DenseOperator
from momentron.rows.column_cache import ColumnCache
from momentron.rows.kernel_rows import KernelOperator
from momentron.rows.kernels import GaussianKernel, LinearKernel
from momentron.solvers.problem import Problem
from tests.oracles.kernels import exact_kernel

# --- the cache -------------------------------------------------------------------------------


class Counted:
    """A symmetric matrix that counts the values asked of it."""

    def __init__(self, n, seed=0):
        A = np.random.default_rng(seed).normal(size=(n, n))
        self.K = A + A.T
        self.values = 0

    def __call__(self, rows, cols):
        block = self.K[rows][:, cols]
        self.values += block.size
        return block


@pytest.mark.parametrize("capacity", [0, 1, 7, 30, 300, 10_000])
@pytest.mark.parametrize("seed", range(4))
def test_any_requests_give_the_same_as_the_matrix(capacity, seed):
    rng = np.random.default_rng(seed)
    matrix = Counted(300, seed)
    limit = capacity * 300 * 8 + 100
    cache = ColumnCache(matrix, 300, limit)
    for turn in range(60):
        if turn == 40:
            limit //= 3
            cache.resize(limit)
        elif turn == 50:
            limit *= 4
            cache.resize(limit)
        known = cache.hits + cache.evaluations
        index = rng.permutation(300)[: rng.choice([0, 1, 3, 20, 200, 300])]
        if rng.random() < 0.3:
            index = np.sort(index)
        if rng.random() < 0.6:
            shape = (index.size,) if rng.random() < 0.5 else (index.size, 3)
            a = rng.normal(size=shape)
            assert np.allclose(cache.product(index, a), matrix.K[:, index] @ a, atol=1e-10)
            asked = 300 * index.size
        else:
            rows = rng.permutation(300)[: rng.choice([0, 2, 40])]
            assert np.array_equal(cache.block(rows, index), matrix.K[np.ix_(rows, index)])
            asked = rows.size * index.size
        assert cache.hits + cache.evaluations - known == asked
        assert cache.evaluations == matrix.values
        assert cache.nbytes <= limit
        assert cache.size <= min(300, limit // 2400)


@pytest.mark.parametrize("held", [0, 50, 600])
def test_a_symmetric_block_costs_little_more_than_half(held):
    matrix = Counted(700)
    cache = ColumnCache(matrix, 700, 10**8)
    rng = np.random.default_rng(0)
    index = rng.permutation(700)[:650]
    cache.product(rng.permutation(700)[:held], np.ones(held))
    before = matrix.values
    block = cache.block(index, index)
    assert np.array_equal(block, matrix.K[np.ix_(index, index)])
    left = 650 - np.count_nonzero(cache._slot_of[index] >= 0)
    assert matrix.values - before <= left * (left + 256) / 2


def test_the_least_recently_used_column_goes():
    matrix = Counted(20)
    cache = ColumnCache(matrix, 20, 3 * 160)
    one = np.ones(1)
    for column, new in [(0, 1), (1, 1), (2, 1), (0, 0), (3, 1), (0, 0), (2, 0), (1, 1), (3, 1)]:
        before = matrix.values
        cache.product(np.array([column]), one)
        assert matrix.values - before == 20 * new, column
    cache.resize(160)  # column 3 was the last
    before = matrix.values
    cache.product(np.array([3]), one)
    assert matrix.values == before
    # what this product needs is not dropped for its sake: one of four is found, always
    for _ in range(3):
        before = matrix.values
        cache.product(np.arange(4), np.ones(4))
        assert matrix.values - before == 60


def test_an_error_leaves_no_half_of_a_column():
    matrix = Counted(50)

    def failing(rows, cols):
        if matrix.values >= 100:
            raise RuntimeError("enough")
        return matrix(rows, cols)

    cache = ColumnCache(failing, 50, 10**6)
    cache.product(np.array([1, 2]), np.ones(2))
    with pytest.raises(RuntimeError):
        cache.product(np.array([2, 3]), np.ones(2))
    matrix.values = 0
    assert np.allclose(cache.product(np.array([3, 1]), np.ones(2)), matrix.K[:, [3, 1]].sum(1))
    assert matrix.values == 50


# --- the operator ----------------------------------------------------------------------------


@pytest.mark.parametrize("trailing", [(), (3,)])
@pytest.mark.parametrize("capacity", [0, 5, 100])
def test_linear_kernel_is_the_explicit_operator(trailing, capacity):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 6))
    K = X @ X.T
    operator = KernelOperator(LinearKernel().bind(X), capacity * 30 * 8)
    a = rng.normal(size=(30, *trailing)) * (rng.random((30, *trailing)) < 0.5)
    w, explicit = operator.adjoint(a), X.T @ a
    assert operator.passes == 1
    assert operator.zeros(*trailing).shape == w.shape == (3, 30, *trailing)
    assert np.allclose(operator.apply(3.0 * w - w), 2.0 * X @ explicit)
    assert operator.passes == 1
    rows = np.array([4, 9, 4])
    b = rng.normal(size=(3, *trailing))
    combined = operator.combine(rows, b)
    assert np.allclose(combined[1], X @ (X[rows].T @ b))
    assert np.allclose(operator.from_coefficients(operator.coefficients(combined)), combined)
    assert operator.norm(w) == pytest.approx(np.linalg.norm(explicit))
    assert operator.adjoint_norm(a) == pytest.approx(np.linalg.norm(explicit))
    assert np.allclose(operator.exact_adjoint(a), w)
    drifted = w.copy()
    drifted[1] += 1e-6
    assert np.allclose(operator.scores_in_double(operator.recomputed(drifted)), w[1], atol=1e-12)
    assert np.array_equal(operator.products_at(rows, w), w[1][rows])
    assert np.allclose(operator.block(rows, rows), K[np.ix_(rows, rows)])
    assert operator.centred_radius() == operator.radius >= np.sqrt(K.max())
    assert operator.as_kernel() is operator and operator.as_matrix() is None


def test_costs_are_columns_and_nothing_else():
    X = np.random.default_rng(0).normal(size=(60, 4))
    operator = KernelOperator(GaussianKernel(0.3).bind(X), 60 * 60 * 8)
    assert operator.evaluations == 0
    w = operator.combine(np.array([3, 9]), np.ones(2))
    assert operator.evaluations == 120
    operator.combine(np.array([9, 3, 10]), np.ones(3))
    assert operator.evaluations == 180
    operator.norm(w), operator.apply(w), operator.recomputed(w), operator.norm_bounds(w)
    operator.adjoint_norm_bound(w[0], 2.0, sharp=True)
    operator.sharp_scores(np.array([0, 1]), w)
    operator.block(np.array([10, 50]), np.array([3, 9]))
    assert operator.evaluations == 180
    operator.block(np.array([10, 50]), np.array([50, 51]))  # half of it is in column 10
    assert operator.evaluations == 182


@pytest.mark.parametrize("trailing", [(), (2,)])
@pytest.mark.parametrize("name", ["linear", "rbf", "whole"])
def test_bounds_bracket_the_exact_values(name, trailing):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9, 5))
    if name == "whole":
        X = rng.integers(-9, 9, size=(12, 4)).astype(float)
    kernel = GaussianKernel(0.3) if name == "rbf" else LinearKernel()
    n = X.shape[0]
    operator = KernelOperator(kernel.bind(X), 10**6)
    K = exact_kernel(kernel, X)
    a = rng.integers(-3, 4, size=(n, *trailing)).astype(float)
    if name != "whole":
        a = rng.normal(size=(n, *trailing)) * (a != 0)
        a[0] -= a.sum(axis=0)  # so that w is shorter than its terms
    w = operator.recomputed(np.stack([a, a, a]))
    columns = [[Fraction(float(v)) for v in column] for column in np.atleast_2d(a.T)]
    scores = [[sum(K[i][j] * c[j] for j in range(n)) for i in range(n)] for c in columns]
    square = sum(c[i] * s[i] for c, s in zip(columns, scores, strict=True) for i in range(n))
    low, high = operator.norm_bounds(w)
    assert Fraction(low) ** 2 <= square <= Fraction(high) ** 2
    assert high - low < 1e-11 * high
    for sharp in (False, True):
        bound = operator.adjoint_norm_bound(a, 1e9, sharp=sharp)
        assert square <= Fraction(bound) ** 2
        assert bound == pytest.approx(high, rel=1e-11)
    sharp = operator.sharp_scores(np.arange(n), w)
    units = {2.0**-53: operator.scores_in_double(w), EXTENDED_ROUNDOFF: sharp}
    for unit, computed in units.items():
        relative = Fraction(gamma(operator.score_depth(w), unit) + operator.kernel_error)
        limit = relative * Fraction(operator.magnitude(w, high))
        for values, exact in zip(np.atleast_2d(computed.T), scores, strict=True):
            for i in range(n):
                value = Fraction(*values[i].as_integer_ratio())
                assert abs(value - exact[i]) <= limit * Fraction(float(operator.row_norms[i]))


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_where_nearly_everything_cancels(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=7)
    X = np.stack([x, x + 2.0**-30 * rng.normal(size=7)])
    a = np.array([1.0, -1.0])
    square = sum((Fraction(float(p)) - Fraction(float(q))) ** 2 for p, q in X.T)
    operator = KernelOperator(LinearKernel().bind(X), 0)
    low, high = operator.norm_bounds(operator.recomputed(np.stack([a, a])))
    assert Fraction(low) ** 2 <= square <= Fraction(high) ** 2
    for sharp in (False, True):
        assert square <= Fraction(operator.adjoint_norm_bound(a, 1e9, sharp=sharp)) ** 2


def test_many_coefficients_are_taken_in_blocks():
    rng = np.random.default_rng(0)
    X, a = rng.normal(size=(1500, 3)), rng.normal(size=1500)
    operator = KernelOperator(LinearKernel().bind(X), 100 * 1500 * 8)
    norm = np.linalg.norm(X.T @ a)
    w = operator.adjoint(a)
    assert operator.evaluations == 1500**2
    assert operator.adjoint_norm(a) == pytest.approx(norm, rel=1e-10)
    assert operator.evaluations == 1500**2 + 1400**2  # 100 columns are there, and as many rows
    assert operator.adjoint_norm_bound(a, 1e9) == pytest.approx(norm, rel=1e-6)
    assert np.allclose(operator.sharp_scores(np.arange(1500), w).astype(float), w[1])


def test_zero_data_and_zero_classifiers():
    operator = KernelOperator(LinearKernel().bind(np.zeros((4, 2))), 0)
    assert operator.radius == 0.0
    assert operator.norm_bounds(operator.combine(np.array([1]), np.ones(1))) == (0.0, 0.0)
    operator = KernelOperator(GaussianKernel(1.0).bind(np.zeros((4, 2))), 0)
    assert operator.norm_bounds(operator.zeros()) == (0.0, 0.0)
    assert operator.adjoint_norm_bound(np.zeros(4), 0.0) == 0.0
    assert operator.magnitude(operator.zeros(2), 0.0) < 1e-300


@pytest.mark.parametrize("sharp", [False, True])
def test_certificates_through_a_kernel_hold_the_known_margin(sharp):
    data = make_separable(80, 5, margin=0.3, random_state=0)
    signs = np.where(data.y > 0, 1.0, -1.0)
    labels = as_labels(2, False, (data.y > 0).astype(int))
    q = np.random.default_rng(0).random(80) ** 8
    intervals = []
    for operator in (DenseOperator(data.X), KernelOperator(LinearKernel().bind(data.X), 10**6)):
        problem = Problem(operator, labels, labels.dual_set(Exponential()))
        w = operator.adjoint(signs * q)
        certificate = certify(problem, w, q, sharp=sharp)
        assert certificate.lower <= data.margin <= certificate.upper
        intervals.append([certificate.margin, certificate.upper])
    assert np.allclose(*intervals, rtol=1e-11)
