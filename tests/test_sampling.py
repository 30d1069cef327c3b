"""Draws from dual weights, and classifiers that move along them."""

import math

import numpy as np
import pytest
from margins_known import KINDS, problem_of

from momentron.dual.circulations import draw_cycle, longer_cycles
from momentron.dual.combination import Combination, vertex_image
from momentron.dual.dualsets import pick


def test_pick_inverts_the_distribution_function():
    q = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    edges = np.array([0.0, 0.25, 0.75])
    assert [pick(q, edge)[0] for edge in edges] == [1, 3, 4]
    below = np.nextafter(np.array([0.25, 0.75, 1.0]), 0.0)
    assert [pick(q, edge)[0] for edge in below] == [1, 3, 4]
    assert [pick(3.0 * q, edge) for edge in edges] == [(1, 3.0), (3, 3.0), (4, 3.0)]


@pytest.mark.parametrize("size", [5, 1024, 3079])
def test_every_index_has_its_share_of_the_positions(size):
    """With whole multiples of 1/N, N even positions meet each index exactly N q_i times."""
    rng = np.random.default_rng(size)
    counts = rng.integers(0, 4, size) * (rng.random(size) < 0.5)
    counts[-1] += 2 ** int(np.ceil(np.log2(counts.sum() + 1))) - counts.sum()
    N = int(counts.sum())
    index, mass = zip(*(pick(counts / N, (place + 0.5) / N) for place in range(N)), strict=True)
    assert set(mass) == {1.0}
    assert np.array_equal(np.bincount(index, minlength=size), counts)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_stay_in_the_dual_set_and_have_the_right_mean(kind):
    problem, *_ = problem_of(kind)
    rng = np.random.default_rng(3)
    q, _ = problem.dual_set.link(rng.normal(size=problem.size))
    N = 2000
    total = np.zeros(problem.size)
    for _ in range(N):
        vertex = problem.dual_set.draw(q, rng)
        e = np.zeros(problem.size)
        e[vertex.index] = vertex.weight
        assert np.allclose(problem.dual_set.normalize(e), e, atol=1e-12)
        total += e
    assert np.all(np.abs(total / N - q) <= 5.0 * np.sqrt(q / N))
    bias = problem.norm(problem.gradient(total / N - q))
    assert bias <= 5.0 / math.sqrt(N)  # ‖Zᵀe‖ ≤ 1, so the mean of N is within 1/√N or so


def test_circulations_fall_into_cycles():
    flow = np.zeros((4, 4))
    for cycle, mass in (([0, 1], 0.2), ([2, 3], 0.1), ([0, 1, 2], 0.3), ([3, 2, 1, 0], 0.4)):
        flow[cycle, np.roll(cycle, -1)] += mass / len(cycle)
    N = 3000
    cycles = [draw_cycle(flow, (place + 0.5) / N) for place in range(N)]
    mean = np.zeros((4, 4))
    for cycle in cycles:
        mean[cycle, np.roll(cycle, -1)] += 1.0 / (N * cycle.size)
    assert np.allclose(mean, flow, atol=2.0 / N)
    rest = flow - np.minimum(flow, flow.T)
    masses, found = zip(*longer_cycles(rest), strict=True)
    assert sum(masses) == pytest.approx(rest.sum())
    assert all(cycle.size > 2 for cycle in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", [None, "linear", "rbf"])
@pytest.mark.parametrize("C", [math.inf, 2.0])
def test_combinations_keep_scores_and_weights_in_step(kind, kernel, C):
    problem, *_ = problem_of(kind, kernel=kernel, C=C)
    rng = np.random.default_rng(0)
    combination = Combination(problem)
    for _ in range(5):
        vertex = problem.dual_set.draw(np.full(problem.size, 1.0 / problem.size), rng)
        combination.move_along(vertex_image(problem, vertex), 0.7)
    combination.shrink(0.5)
    assert np.allclose(combination.w, -problem.gradient(combination.q), atol=1e-12)
    assert np.allclose(combination.scores(), problem.scores(combination.w), atol=1e-12)
