"""Balanced flows, circulations, minimum mean cycles: against closed forms and linear programs."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from momentron.arithmetic.rounding import EXTENDED_ROUNDOFF, UNIT_ROUNDOFF, gamma, up
from momentron.dual.flows import balance_flow, circulation, minimum_mean_cycle
from momentron.errors import InputError

INF = math.inf


def imbalance(flow):
    """Σ_c |outflow_c − inflow_c| of a nonnegative flow (float64 or longdouble), from above."""
    S = flow.astype(np.longdouble)
    np.fill_diagonal(S, 0.0)
    outflow, inflow = S.sum(axis=1), S.sum(axis=0)
    value, mass = np.abs(outflow - inflow).sum(), outflow.sum() + inflow.sum()
    # k terms to a sum, a difference, k of these in `value` and in `mass`: 2k + 2 roundings at most
    return up(float(value + mass * gamma(2 * S.shape[0] + 2, EXTENDED_ROUNDOFF)))


def ring(weights, k, absent):
    """c → c + 1 with the given weights, and no other arc."""
    matrix = np.full((k, k), absent)
    matrix[np.arange(k), (np.arange(k) + 1) % k] = weights
    return matrix


def random_log_flow(kind, k, scale, rng):
    L = rng.uniform(-scale, scale, (k, k))
    if kind == "sparse":
        L[rng.random((k, k)) < 0.7] = -INF
        order = rng.permutation(k)
        L[order, np.roll(order, 1)] = rng.uniform(-scale, scale, k)
    elif kind == "offsets":
        offset = rng.uniform(-scale, scale, k)
        L = rng.standard_normal((k, k)) + offset[:, None] - offset
    elif kind == "clusters":
        label = rng.integers(0, 3, k)
        L = rng.standard_normal((k, k)) - scale * (label[:, None] != label) * rng.random((k, k))
    elif kind == "triangular":
        L = rng.uniform(-1.0, 1.0, (k, k)) - np.tril(scale * rng.random((k, k)))
    np.fill_diagonal(L, -INF)
    return L


def log_total(L, b):
    return float(np.logaddexp.reduce((L + b[:, None] - b)[np.isfinite(L)]))


def assert_balances(L, result):
    assert imbalance(result.flow) <= 1.1e-14
    assert result.flow.sum() == pytest.approx(1.0, abs=1e-14)
    assert result.flow.min() >= 0.0 and not result.flow[~result.kept].any()
    b = result.log_scale
    exponent = (L + b[:, None] - b - result.log_total)[result.kept]
    scale = np.abs(L[result.kept]).max() + np.abs(b).max() + 1.0
    assert np.allclose(result.flow[result.kept], np.exp(exponent), rtol=0.0, atol=1e-15 * scale)


@pytest.mark.parametrize("kind", ["dense", "sparse", "offsets", "clusters", "triangular"])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e5, 1e6])
def test_every_class_gives_what_it_gets(kind, scale):
    rng = np.random.default_rng(int(scale))
    for k in [2, 3, 3, 4, 4, 7, 10, 10, 26, 105]:
        L = random_log_flow(kind, k, scale, rng)
        result = balance_flow(L)
        assert result.kept.sum() == np.isfinite(L).sum()
        assert_balances(L, result)


@pytest.mark.parametrize("there, back", [(0.0, 0.0), (3.0, -8.0), (1e5, -1e5), (-1e6, -3e5)])
def test_two_classes_have_a_closed_form(there, back):
    result = balance_flow(np.array([[7.0, there], [back, 7.0]]))
    expected = math.log(2.0) + (there + back) / 2.0
    assert result.log_total == pytest.approx(expected, rel=1e-15, abs=1e-14)
    assert np.allclose(result.flow, [[0.0, 0.5], [0.5, 0.0]], rtol=0.0, atol=1e-14)
    assert np.diff(result.log_scale)[0] == pytest.approx((there - back) / 2.0, abs=1e-13, rel=1e-13)


@pytest.mark.parametrize("k", [3, 10, 105])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_ring_has_a_closed_form(k, scale):
    weights = np.random.default_rng(k).uniform(-scale, scale, k)
    weights[-1] = -1e6  # one arc far below all others, on the only cycle
    result = balance_flow(ring(weights, k, -INF))
    expected = math.log(k) + math.fsum(weights) / k
    assert result.log_total == pytest.approx(expected, rel=1e-13)
    assert np.allclose(result.flow, ring(1.0 / k, k, 0.0), rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("seed", range(10))
def test_potentials_cancel(seed):
    # all numbers are multiples of 2⁻²⁰ below 2²², so that the sums are exact
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 12))
    L = np.round(rng.uniform(-4.0, 4.0, (k, k)) * 2**20) / 2**20
    offset = rng.integers(-(10**6), 10**6, k).astype(float)
    near, far = balance_flow(L), balance_flow(L + offset[:, None] - offset)
    assert far.log_total == pytest.approx(near.log_total, abs=1e-14, rel=1e-15)
    assert np.allclose(far.flow, near.flow, rtol=0.0, atol=1e-13)
    gauge = far.log_scale + offset - near.log_scale
    assert np.allclose(gauge, gauge.mean(), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_total_is_the_least(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 7))
    L = random_log_flow("dense", k, 5.0, rng)
    result = balance_flow(L)
    found = minimize(lambda b: log_total(L, b), np.zeros(k), method="BFGS", options={"gtol": 1e-9})
    assert result.log_total == pytest.approx(found.fun, abs=1e-10)
    assert log_total(L, result.log_scale) == pytest.approx(result.log_total, abs=1e-13)
    # weak duality: Σ p (L − ln p) ≤ ψ* ≤ ψ(b), for every circulation p and every b
    off = ~np.eye(k, dtype=bool)
    for _ in range(5):
        p = balance_flow(rng.standard_normal((k, k))).flow[off]
        assert p @ (L[off] - np.log(p)) <= result.log_total + 1e-12
        b = result.log_scale + 1e-3 * rng.standard_normal(k)
        assert result.log_total <= log_total(L, b) + 1e-13


@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_components_are_balanced_apart(scale):
    rng = np.random.default_rng(8)
    parts = [np.array([0, 3, 5]), np.array([1, 6]), np.array([2, 7, 8, 9])]  # class 4 is alone
    L = np.full((10, 10), -INF)
    totals = []
    for nodes in parts:
        block = rng.uniform(-scale, scale, (nodes.size, nodes.size))
        L[np.ix_(nodes, nodes)] = block
        totals.append(balance_flow(block).log_total)
    inside = np.isfinite(L) & ~np.eye(10, dtype=bool)
    for early, late in itertools.combinations([parts[0], np.array([4]), *parts[1:]], 2):
        L[np.ix_(early, late)] = scale  # heavy, but on no cycle
    result = balance_flow(L)
    assert np.array_equal(result.kept, inside)
    assert_balances(L, result)
    assert result.log_total == pytest.approx(np.logaddexp.reduce(totals), rel=1e-13)
    assert max(abs(result.log_scale[nodes].mean()) for nodes in parts) <= 1e-10


def test_without_a_cycle_nothing_flows():
    for case in (np.where(np.triu(np.ones((5, 5)), 1) > 0.0, 1.0, -INF), np.full((3, 3), -INF)):
        result = balance_flow(case, np.arange(len(case)))
        assert result.log_total == -INF
        assert not result.kept.any() and not result.flow.any() and not result.log_scale.any()


def test_parts_joined_by_next_to_nothing():
    rng = np.random.default_rng(2)
    L = rng.uniform(-1.0, 1.0, (8, 8))
    expected = np.logaddexp(balance_flow(L[:4, :4]).log_total, balance_flow(L[4:, 4:]).log_total)
    L[:4, 4:], L[4:, :4] = 10.0, -1e5
    result = balance_flow(L)
    assert_balances(L, result)
    assert result.log_total == pytest.approx(expected, rel=1e-13)
    assert result.kept[:4, 4:].all()


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_any_start_leads_to_the_same_flow(scale):
    rng = np.random.default_rng(4)
    for k in (2, 3, 10, 105):
        L = random_log_flow("dense", k, scale, rng)
        cold = balance_flow(L)
        nearby = balance_flow(L + 0.1 * rng.standard_normal((k, k))).log_scale
        for start in (nearby, rng.uniform(-1e6, 1e6, k), np.full(k, 123.0)):
            warm = balance_flow(L, start)
            assert warm.log_total == pytest.approx(cold.log_total, rel=1e-13)
            assert np.allclose(warm.flow, cold.flow, rtol=0.0, atol=1e-9)
            assert imbalance(warm.flow) <= 1.1e-14


@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-3, 1.0])
@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_a_flow_becomes_a_circulation(noise, dtype):
    unit = EXTENDED_ROUNDOFF if dtype == np.longdouble else UNIT_ROUNDOFF
    rng = np.random.default_rng(11)
    for k in [2, 3, 5, 10, 26, 105]:
        S = balance_flow(rng.standard_normal((k, k))).flow.astype(dtype)
        S *= dtype(3.0) * np.exp(noise * rng.standard_normal((k, k))).astype(dtype)
        kept = S.copy()
        M = circulation(S)
        assert M.dtype == dtype and np.array_equal(S, kept)
        assert imbalance(S * M) <= 4.0 * unit + (2 * k + 4) * EXTENDED_ROUNDOFF * 2.0
        assert float(abs((S * M).sum() - 1.0)) <= 8.0 * unit
        if noise <= 1e-3:
            assert np.allclose(3.0 * M[S > 0.0].astype(float), 1.0, atol=20.0 * noise + 1e-12)


def test_what_lies_on_no_cycle_is_cut():
    S = np.diag([9.0] * 4)
    S[[0, 1, 2, 3], [1, 0, 3, 2]] = [0.3, 0.3, 0.4, 0.1]
    on_cycle = np.eye(4)[[1, 0, 3, 2]] > 0.0
    S[0, 2], S[:2, 3] = 0.1, 0.2
    M = circulation(S)
    assert np.array_equal(M > 0.0, on_cycle)
    # each part keeps its total at the least: 2√(0.3·0.3) and 2√(0.4·0.1)
    assert (S * M)[on_cycle] == pytest.approx([0.3, 0.3, 0.2, 0.2], abs=1e-15)
    assert not circulation(np.triu(S, 1)).any()
    assert not circulation(np.zeros((3, 3))).any()


def test_circulations_of_any_scale_and_range():
    rng = np.random.default_rng(6)
    for k in (2, 3, 10):
        S = 10.0 ** rng.uniform(-250.0, 0.0, (k, k))
        M = circulation(S)
        assert imbalance(S * M) <= 1e-15
        assert (S * M).sum() == pytest.approx(1.0, abs=1e-14)
        assert np.array_equal(circulation(S * 2.0**900) * 2.0**900, M)
    assert not circulation(np.array([[0.0, 1.0], [1e-300, 0.0]])).any()
    with pytest.raises(InputError, match="scale the weights"):
        circulation(np.full((2, 2), 1e-310))


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_imbalance_is_an_upper_bound(dtype):
    rng = np.random.default_rng(5)
    for k in [2, 3, 10, 40]:
        S = rng.random((k, k)).astype(dtype) / dtype(3.0)
        if k % 2 == 0:
            S = S * circulation(S)
        exact = [[Fraction(*entry.as_integer_ratio()) for entry in row] for row in S]
        outflow = [sum(row) for row in exact]
        inflow = [sum(column) for column in zip(*exact, strict=True)]
        truth = sum(abs(o - i) for o, i in zip(outflow, inflow, strict=True))
        slack = truth / 10**15 + Fraction(8 * (k + 2) * EXTENDED_ROUNDOFF) * sum(outflow)
        assert truth <= Fraction(imbalance(S)) <= truth + slack
    assert imbalance(np.diag([1.0, 2.0])) < 1e-300
    assert imbalance(np.array([[0.0, 1.0], [0.0, 0.0]])) == pytest.approx(2.0)


def margin(D, b):
    spread = D + b[:, None] - b
    return float(np.min(spread[~np.eye(len(b), dtype=bool)]))


def cycle_mean(D, cycle):
    return math.fsum(D[cycle, np.roll(cycle, -1)]) / len(cycle)


def assert_optimal(D, result, tol=1e-13):
    """The cycle shows that no potential does better, the potential that no cycle is lower."""
    size = np.abs(D[np.isfinite(D)]).max()
    assert cycle_mean(D, result.cycle) == pytest.approx(result.value, rel=1e-15, abs=1e-300)
    assert len(set(result.cycle.tolist())) == result.cycle.size >= 2
    assert margin(D, result.potential) >= result.value - tol * size


def best_by_linear_program(D):
    """max t subject to D_cj + b_c − b_j ≥ t, over t and b with b_0 = 0."""
    k = D.shape[0]
    pairs = list(itertools.permutations(range(k), 2))
    A = np.zeros((len(pairs), k + 1))
    for row, (c, j) in enumerate(pairs):
        A[row, c], A[row, j], A[row, k] = -1.0, 1.0, 1.0
    objective, limits = np.r_[np.zeros(k), -1.0], [(0.0, 0.0)] + [(None, None)] * k
    return -linprog(objective, A, [D[pair] for pair in pairs], bounds=limits, method="highs").fun


@pytest.mark.parametrize("kind", ["normal", "integers", "offsets"])
def test_best_intercepts_agree_with_a_linear_program(kind):
    rng = np.random.default_rng(17)
    for _ in range(100):
        k = int(rng.integers(2, 9))
        D = rng.standard_normal((k, k))
        if kind == "integers":
            D = rng.integers(-3, 4, (k, k)).astype(float)
        elif kind == "offsets":
            offset = 100.0 * rng.standard_normal(k)
            D += offset[:, None] - offset
        best = best_by_linear_program(D)
        result = minimum_mean_cycle(D)
        assert result.value == pytest.approx(best, abs=1e-9)
        assert margin(D, result.potential) >= best - 1e-9
        assert_optimal(D, result)


@pytest.mark.parametrize("seed", range(40))
def test_no_cycle_is_lower(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    D = rng.standard_normal((k, k))
    if seed % 2:
        D[rng.random((k, k)) < 0.4] = INF
    orders = [o for m in range(2, k + 1) for o in itertools.permutations(range(k), m)]
    means = [cycle_mean(D, np.array(order)) for order in orders]
    result = minimum_mean_cycle(D)
    assert result.value == pytest.approx(min(means), rel=1e-14)
    if np.isfinite(result.value):
        assert_optimal(D, result)


@pytest.mark.parametrize("k", [3, 10, 26, 105])
def test_hard_graphs(k):
    rng = np.random.default_rng(k)
    classes = np.arange(k)
    sparse = np.where(rng.random((k, k)) < 0.1, rng.standard_normal((k, k)), INF)
    sparse[classes, (classes + 1) % k] = 3.0 + rng.standard_normal(k)
    longest = ((classes - classes[:, None]) % k) + 1e-3 * rng.random((k, k))
    wide = 10.0 ** rng.uniform(-5.0, 5.0, (k, k)) * rng.choice([-1.0, 1.0], (k, k))
    nearly_equal = 1.0 + 1e-9 * rng.standard_normal((k, k))
    for D in (sparse, wide, nearly_equal, rng.random((k, k))):
        assert_optimal(D, minimum_mean_cycle(D))
    for D in (longest, ring(rng.standard_normal(k), k, INF)):
        result = minimum_mean_cycle(D)
        assert_optimal(D, result)
        assert result.cycle.size == k


@pytest.mark.parametrize("common", [0.0, 0.1, -7.0])
def test_ties(common):
    result = minimum_mean_cycle(np.full((4, 4), common))
    assert result.value == common and result.cycle.size >= 2
    assert np.allclose(result.potential, 0.0, atol=1e-15)


def test_powers_of_two_change_nothing_else():
    rng = np.random.default_rng(9)
    for k in (2, 5, 12):
        D = rng.standard_normal((k, k))
        plain = minimum_mean_cycle(D)
        for power in (-995, -1, 30, 995):  # about 1e-300 to 1e300
            scaled = minimum_mean_cycle(np.ldexp(D, power))
            assert scaled.value == math.ldexp(plain.value, power)
            assert np.array_equal(scaled.potential, np.ldexp(plain.potential, power))
            assert np.array_equal(scaled.cycle, plain.cycle)


def test_pairs_that_do_not_occur():
    # 0 ⇄ 1 with mean 2, 2 ⇄ 3 with mean 1, arcs from the first to the second only, 4 a dead end
    D = np.full((5, 5), INF)
    D[[0, 1, 2, 3], [1, 0, 3, 2]] = [3.0, 1.0, -1.0, 3.0]
    D[0, 2], D[1, 4] = -50.0, -70.0
    result = minimum_mean_cycle(D)
    assert result.value == 1.0
    assert sorted(result.cycle) == [2, 3]
    assert margin(D, result.potential) >= 1.0 - 1e-13
    for case in (np.where(np.triu(np.ones((5, 5)), 1) > 0.0, -3.0, INF), np.full((3, 3), INF)):
        result = minimum_mean_cycle(case)
        assert result.value == INF and result.cycle.size == 0
        assert np.isfinite(result.potential).all()


def test_balance_at_great_scale_is_the_minimum_mean_cycle():
    rng = np.random.default_rng(12)
    for k in (2, 4, 10):
        D = rng.standard_normal((k, k))
        best = minimum_mean_cycle(D).value
        result = balance_flow(-1e4 * D)
        slack = math.log(k * k) / 1e4
        assert -slack - 1e-12 <= -result.log_total / 1e4 - best <= 1e-12
        assert margin(D, -result.log_scale / 1e4) >= best - slack - 1e-12


BAD_ENTRIES = {
    balance_flow: ((math.nan, INF, -1e16), r"above 1e\+15"),
    circulation: ((math.nan, INF, -1.0), "finite, ≥ 0"),
    minimum_mean_cycle: ((math.nan, -INF, 1e301), r"1e\+300 is the limit"),
}


@pytest.mark.parametrize("function", BAD_ENTRIES)
def test_bad_matrices_are_refused(function):
    entries, message = BAD_ENTRIES[function]
    for entry in entries:
        with pytest.raises(InputError, match=message):
            function(np.array([[0.0, entry], [1.0, 0.0]]))


def test_starts_are_checked_and_inputs_left_alone():
    with pytest.raises(InputError, match="start has"):
        balance_flow(np.zeros((2, 2)), np.array([0.0, math.nan]))
    L, start = np.eye(4), np.arange(4.0)
    balance_flow(L, start)
    minimum_mean_cycle(L)
    circulation(L)
    assert np.array_equal(L, np.eye(4)) and np.array_equal(start, np.arange(4.0))
