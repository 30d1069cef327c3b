"""Losses: ψ and ∇ψ against high precision, stability, and a third loss in a few lines."""

from decimal import Decimal, getcontext

import numpy as np
import pytest

from momentron.errors import InputError
from momentron.losses import Exponential, Logistic, Loss, as_loss
from momentron.problem import Problem
from momentron.solvers import Momentum

getcontext().prec = 150


class Quadratic(Loss):
    """ℓ(z) = (1 + e^z)² − 1: tail 2e^z. All that a third loss takes."""

    name = "quadratic"

    def log_value(self, z):
        return z + np.logaddexp(np.log(2.0), z)

    def log_slope(self, z):
        return np.log(2.0) + z + np.logaddexp(0.0, z)

    def inverse(self, log_value):
        # e^z = √(1 + v) − 1 = v / (√(1 + v) + 1)
        root = 0.5 * np.logaddexp(0.0, log_value)
        return float(log_value - np.logaddexp(root, 0.0))

    def rho(self, n):
        return float(2 * n)


def reference_psi(loss, scores):
    values = [Decimal(float(s)) for s in scores]
    if loss == "exponential":
        return sum(v.exp() for v in values).ln()
    total = sum((1 + v.exp()).ln() for v in values)
    return (total.exp() - 1).ln()


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("shift", [-200.0, -37.0, -5.0, 0.0, 3.0, 50.0])
def test_psi_against_high_precision(loss, shift):
    scores = np.array([-1.0, 0.5, 2.0, -30.0]) + shift
    _, psi = as_loss(loss).link(scores)
    assert psi == pytest.approx(float(reference_psi(loss, scores)), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("loss", [Exponential(), Logistic(), Quadratic()], ids=lambda l: l.name)
@pytest.mark.parametrize("seed", range(5))
def test_gradient_is_the_derivative_of_psi(loss, seed):
    scores = np.random.default_rng(seed).normal(size=6)
    q, _ = loss.link(scores)
    step = 1e-6
    for i in range(6):
        moved = scores.copy()
        moved[i] += step
        above = loss.link(moved)[1]
        moved[i] -= 2 * step
        below = loss.link(moved)[1]
        assert q[i] == pytest.approx((above - below) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("loss", [Exponential(), Logistic()], ids=lambda l: l.name)
@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_stable_for_huge_scores(loss, scale, sign):
    scores = sign * scale * np.array([1.0, 0.99, 0.5, 1.0])
    q, psi = loss.link(scores)
    assert np.all(np.isfinite(q))
    assert np.isfinite(psi)
    assert np.all(q >= 0.0)
    assert q.sum() >= 1.0 - 1e-6  # ulp of 1e8 is 1.5e-8
    assert psi >= scores.max()
    assert psi <= max(scores.max() + np.log(4.0), 4 * np.logaddexp(0.0, scores.max())) + 1e-6


def test_huge_scores_of_both_signs():
    for loss in (Exponential(), Logistic()):
        q, psi = loss.link(np.array([-1e8, 0.0, 1e8]))
        assert q[2] == pytest.approx(1.0)
        assert q[0] == 0.0
        assert psi == pytest.approx(1e8)


def test_rho():
    assert Exponential().rho(50) == 1.0
    assert Logistic().rho(50) == 50.0


def test_third_loss_runs_through_the_method():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) + 4.0
    y = np.repeat([0, 1], 15)
    X[y == 0] *= -1.0
    problem = Problem.from_data(X, y, fit_intercept=False, loss=Quadratic())
    solver = Momentum()
    state = solver.init(problem)
    for _ in range(200):
        solver.step(problem, state)
    assert problem.margin(state.w, state.scores) > 0.0


def test_unknown_loss():
    with pytest.raises(InputError, match="choose one of"):
        as_loss("hinge")
