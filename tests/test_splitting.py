"""Alternating directions for the joint margin: projections, inverses, and what they find."""

import math
import time
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import Status, max_margin
from momentron.arithmetic.clock import OutOfTime, until
from momentron.arithmetic.squares import inverse_in_place
from momentron.dual.labels import as_labels
from momentron.solvers import Auto
from momentron.solvers.auto import AutoSettings
from momentron.solvers.auto.class_kernel import SplitMargin
from momentron.solvers.auto.splitting import RELAXATION, ShiftedInverse, Splitting

NEVER = ("many_pairs", "many_soft_pairs", "many_split_pairs")
EXACT = replace(AutoSettings(), **dict.fromkeys(NEVER, 10**9))
SPLIT = replace(AutoSettings(), many_split_pairs=0)


def products(n, seed=0, width=None):
    A = np.random.default_rng(seed).normal(size=(n, width or n // 2))
    return A @ A.T / n


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 40, 513, 1300])
def test_inverses_in_strips(n, dtype):
    M = products(n) + np.eye(n)
    inverse = np.asfortranarray(M, dtype)
    assert inverse_in_place(inverse)[1]
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-6)
    assert np.abs(inverse @ M - np.eye(n)).max() < 2e4 * np.finfo(dtype).eps
    assert not inverse_in_place(np.asfortranarray(-M, dtype))[1]


@pytest.mark.parametrize("known", [1, 30, 99, 100])
def test_a_border_gives_the_inverse_of_the_whole(known):
    K = 3.0 * products(100)
    base = ShiftedInverse(K[:known, :known], 0.4)
    bordered = ShiftedInverse(K, 7.0, base)
    assert (bordered.rho, bordered.unit) == (base.rho, base.unit)
    expected = np.linalg.inv(K / base.unit + 0.4 * np.eye(100))
    np.testing.assert_allclose(bordered.factor.solve(np.eye(100)), expected, atol=2e-5)
    np.testing.assert_allclose(bordered.sums, expected.sum(axis=0), atol=2e-4)


def test_a_larger_shift_where_rounding_leaves_no_inverse():
    K = np.eye(50)
    K[0, 0] = -1.0
    assert ShiftedInverse(K, 0.5).rho > 0.5
    with pytest.raises(np.linalg.LinAlgError):
        ShiftedInverse(np.array([[1.0, 1e12], [1e12, 1.0]]), 0.5)


def threshold(v, c, hold):
    """t = v_c − h Σ_j max(0, t − v_j) by bisection."""
    others = np.delete(v, c)
    low, high = v.min() - 1e3, v.max() + 1e3
    for _ in range(200):
        t = 0.5 * (low + high)
        low, high = (t, high) if t < v[c] - hold * np.maximum(t - others, 0).sum() else (low, t)
    return t


@pytest.mark.parametrize("C", [math.inf, 0.7])
def test_projections_are_thresholds(C):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 6, 40)
    inverse = ShiftedInverse(products(40), 0.5)
    splitting = Splitting(inverse, as_labels(6, False, labels), C)
    for _ in range(5):
        before = splitting._Z.copy(), splitting._U.copy()
        splitting.advance(1)
        over = RELAXATION
        V = over * splitting._B + (1.0 - over) * before[0] + before[1]
        hold = 1.0 / (1.0 + 1.0 / (0.5 * inverse.unit * C))
        for v, z, c in zip(V.astype(float), splitting._Z, labels, strict=True):
            expected = hold * np.minimum(v - threshold(v, c, hold), 0.0)
            expected[c] = 0.0
            expected[c] = -expected.sum()
            np.testing.assert_allclose(z, expected, atol=1e-5)
        assert (splitting.weights() >= 0.0).all()


@pytest.mark.parametrize("fits_intercept", [False, True])
@pytest.mark.parametrize("C", [math.inf, 2.0])
def test_a_fixed_point_is_optimal(fits_intercept, C):
    """Margins are 1 − weight/C where there is weight, and no smaller elsewhere."""
    rng = np.random.default_rng(4)
    labels = np.arange(60) % 5
    K = products(60, 1, 200) + products(5, 2)[labels][:, labels]
    pairs = as_labels(5, fits_intercept, labels)
    splitting = Splitting(ShiftedInverse(K, 0.5), pairs, C)
    if fits_intercept:
        splitting.go_to(np.repeat(rng.random(60), 4), rng.normal(size=(60, 5)))
    for _ in range(100):
        splitting.advance(10)
        outputs = K @ splitting.coefficients()
        splitting.correct(outputs)
    weights = splitting.weights()
    np.testing.assert_allclose(splitting.coefficients(), -pairs.mix(weights), atol=1e-4)
    short = 1.0 - weights / C + pairs.scores(outputs + splitting.b)
    assert short.max() < 1e-4
    assert np.abs(short[weights > 1e-3]).max() < 1e-4
    if fits_intercept:
        np.testing.assert_allclose(pairs.mix(weights).sum(axis=0), 0.0, atol=1e-3)


def problem(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 25))
    n, d = int(rng.integers(k + 1, 120)), int(rng.integers(120, 300))
    y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    X = rng.normal(size=(n, d)) + rng.choice([0.0, 2.0]) * rng.normal(size=(k, d))[y]
    X *= 10.0 ** rng.uniform(-3.0, 3.0) * (1.0 + 100.0 * (rng.random((n, 1)) < 0.05))
    if seed % 3 == 0:
        X = sp.csr_array(X * (rng.random(X.shape) < 0.3))
    C = float(rng.choice([math.inf, math.inf, 1e-3, 1.0, 1e3]))
    weight = rng.uniform(0.1, 10.0, n) if math.isfinite(C) and seed % 2 else None
    return X, y, {"C": C, "fit_intercept": bool(rng.integers(2)), "sample_weight": weight}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_intervals_overlap_those_of_exact_solves(seed):
    X, y, options = problem(seed)
    ours = max_margin(X, y, method=Auto(SPLIT), **options)
    exact = max_margin(X, y, method=Auto(EXACT), **options)
    assert ours.lower <= exact.upper and exact.lower <= ours.upper
    assert ours.gap <= 1e-6


@pytest.mark.parametrize("scale", [1e-150, 1e-40, 1e40, 1e150])
def test_scales(scale):
    X, y, _ = problem(1)
    plain = max_margin(X, y, method=Auto(SPLIT))
    scaled = max_margin(scale * X, y, method=Auto(SPLIT))
    assert scaled.gap <= 1e-6
    assert scaled.lower <= scale * plain.upper and scale * plain.lower <= scaled.upper


@pytest.mark.parametrize("fits_intercept", [False, True])
def test_fine_tolerances_go_on_where_single_precision_ends(fits_intercept):
    X, y, _ = problem(2)
    settings = replace(SPLIT, split_finest=0.0)
    result = max_margin(X, y, method=Auto(settings), tol=1e-11, fit_intercept=fits_intercept)
    assert result.gap <= 1e-11


@pytest.mark.parametrize("kind", ["twins", "zero rows"])
def test_data_that_nothing_separates(kind):
    X, y, _ = problem(4)
    X, y = np.asarray(X[:40]).copy(), y[:40] % 3
    if kind == "twins":
        X[1] = X[0]
        y[:3] = 0, 1, 2
    else:
        X[:6] = 0.0
    result = max_margin(X, y, method=Auto(SPLIT), fit_intercept=False)
    assert result.status is Status.NOT_SEPARABLE
    assert result.lower <= 0.0


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_kernels_hand_over_to_exact_solves(kernel):
    """Overlap, and matrices of low rank, are not for alternating directions."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, 5, 120)
    if kernel == "rbf":
        X[1::2] = X[::2]
    result = max_margin(X, y, kernel=kernel, max_time=20.0)
    assert result.status is Status.NOT_SEPARABLE


@pytest.mark.parametrize("scale", [1e-100, 1e-25, 1e20, 1e60])
def test_scales_of_kernels(scale):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 8, 60)
    X = rng.normal(size=(60, 5)) + 4.0 * rng.normal(size=(8, 5))[y]
    assert max_margin(scale * X, y, kernel="linear").gap <= 1e-6


def clouds(n, k, seed=0):
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    return rng.normal(size=(n, 5)) + rng.normal(size=(k, 5))[y], y


def test_a_first_solve_that_is_cut_short_has_something_to_show(monkeypatch):
    X, y = clouds(400, 40)
    advance, calls = SplitMargin.advance, count()

    def cut(joint):
        if next(calls) == 5:
            raise OutOfTime
        advance(joint)

    with monkeypatch.context() as patch:
        patch.setattr(SplitMargin, "advance", cut)
        result = max_margin(X, y, kernel="rbf")
    assert result.status is Status.TIME_BUDGET
    assert result.lower <= result.upper < 0.02
    assert max_margin(X, y, kernel="rbf").gap <= 1e-6


@pytest.mark.parametrize("C", [math.inf, 2.0])
def test_kernels_from_a_warm_start(C):
    X, y = clouds(300, 12)
    cold = max_margin(X[:250], y[:250], kernel="rbf", gamma=0.3, C=C)
    warm = max_margin(X, y, kernel="rbf", gamma=0.3, C=C, initial=cold)
    again = max_margin(X, y, kernel="rbf", gamma=0.3, C=C)
    assert warm.gap <= 1e-6 and again.gap <= 1e-6
    assert warm.lower <= again.upper and again.lower <= warm.upper


def test_a_witness_for_many_rows_and_classes():
    rng = np.random.default_rng(7)
    y = np.r_[np.arange(10), rng.integers(0, 10, 5990)]
    X = np.maximum(rng.normal(size=(6000, 60)) + 0.3 * rng.normal(size=(10, 60))[y], 0.0)
    result = max_margin(X, y, max_time=60.0)
    assert result.status is Status.NOT_SEPARABLE
    assert result.upper <= 1e-10


def test_the_first_method_for_many_classes_of_few_wide_rows():
    """39,800 pairs of 200 examples, thousands of them with weight."""
    X = np.random.default_rng(0).normal(size=(200, 300))
    result = max_margin(X, np.arange(200))
    assert result.gap <= 1e-6
    assert np.count_nonzero(result.dual) > 5_000


def test_deadlines_are_heard():
    K = products(1500)
    with until(time.perf_counter()), pytest.raises(OutOfTime):
        ShiftedInverse(K, 0.5)
    splitting = Splitting(ShiftedInverse(K[:20, :20], 0.5), as_labels(3, True, np.arange(20) % 3))
    with until(time.perf_counter()), pytest.raises(OutOfTime):
        splitting.advance(10)
