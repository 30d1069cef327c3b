"""Section 1.1 and Appendix F: perceptrons against their guarantees, Figure 1's parameters."""

import numpy as np
import pytest
from literal import lone, lopsided
from test_statements import small

from momentron import max_margin
from momentron.solvers import GradientDescent, Momentum, NormalizedGradient
from momentron.solvers.schedules import paper_lambda

STEPS = 1500
PROBLEMS = {
    "small": small(),
    "lopsided": (lopsided(200, 0.3), 0.3),
    "lone": (lone(40, 0.8), 0.8),
}


def traced(Z, method):
    """The columns of a run on rows with ‖z_i‖ ≤ 1."""
    signs = np.resize([1, -1], len(Z))
    options = {"fit_intercept": False, "tol": 0.0, "max_iter": STEPS}
    return max_margin(-Z * signs[:, None], signs, method=method, **options).trace


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_normalized_perceptron_maximises_the_margin(problem):
    """max_{j<t} γ(w_j) ≥ (γ̄²t − 1)/(γ̄t + 2 + ln t/γ̄) where this is positive; it tends to γ̄.

    W_t = t w_t adds the worst row at each step, W_{t+1} = W_t − z: ‖W_{t+1}‖² is at most
    ‖W_t‖² + 2γ(w_t)‖W_t‖ + 1. As γ̄t ≤ ‖W_t‖, that gives ‖W_t‖ ≤ γ̄t + 1 + ln t/(2γ̄); and, as a
    sum, γ̄²t² ≤ t + 2 max γ(w_j) Σ ‖W_j‖.
    """
    Z, best = PROBLEMS[problem]
    W, lengths, margins = np.zeros(Z.shape[1]), [], []
    for _ in range(STEPS):
        W = W - Z[(Z @ W).argmax()]
        lengths.append(np.linalg.norm(W))
        margins.append(-(Z @ W).max() / lengths[-1])
    t, lengths = np.arange(1, STEPS + 1), np.array(lengths)
    assert np.all(lengths >= best * t * (1 - 1e-12))
    assert np.all(lengths <= best * t + 1 + np.log(t) / (2 * best))
    so_far = np.maximum.accumulate(margins)
    bound = (best**2 * t[1:] - 1) / (best * t[1:] + 2 + np.log(t[1:]) / best)
    seen = bound > 0.0
    assert np.all(so_far[:-1][seen] >= bound[seen])
    if problem == "small":  # a fiftieth would be refuted
        assert np.any(so_far[:-1][seen] < best - 0.02 * (best - bound[seen]))
    trace = traced(Z, "normalized-perceptron")
    assert trace["margin"].max() == pytest.approx(so_far[-1], rel=1e-6)
    assert so_far[-1] > 0.98 * best


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_batch_perceptron_is_gradient_ascent_on_the_margin(problem):
    """Steps 1/√(t + 1) along the worst row, in the unit ball: the average lacks at most 3/√t."""
    Z, best = PROBLEMS[problem]
    w, mean, found = np.zeros(Z.shape[1]), np.zeros(Z.shape[1]), []
    for t in range(STEPS):
        w = w - Z[(Z @ w).argmax()] / np.sqrt(t + 1.0)
        w = w / max(1.0, np.linalg.norm(w))
        mean = mean + (w - mean) / (t + 1.0)
        found.append(-(Z @ mean).max())
    found, t = np.array(found), np.arange(1, STEPS + 1)
    assert np.all(found >= best - 3 / np.sqrt(t))
    trace = traced(Z, "batch-perceptron")
    assert trace["margin"][-1] == pytest.approx(found[-1] / np.linalg.norm(mean), rel=1e-9)


def test_the_parameters_of_figure_1():
    """Both gradient descents have step 1, and Algorithm 1 what Theorem 3.1 asks for."""
    for solver in (GradientDescent(), NormalizedGradient(), Momentum()):
        assert [solver.step_size(t) for t in (0, 1, 1000)] == [1.0] * 3
    assert Momentum().schedule is paper_lambda
    method_curves = pytest.importorskip("paper.method_curves")
    names = {method.name for method in method_curves.METHODS}
    assert names >= {"gradient-descent", "normalized-gradient", "momentum", "batch-perceptron"}
