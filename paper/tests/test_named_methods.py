"""The methods of other papers: their theorems, or how far they get."""

import numpy as np
import pytest

from momentron import max_margin
from momentron.datasets import make_separable
from momentron.errors import InputError
from momentron.solvers.problem import Problem
from paper.named_methods import AcceleratedSmoothing, ProgressiveRescaling, sublinear_perceptron


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 0.02])
def test_smoothing_converges_to_a_fixed_suboptimal_margin(epsilon, fit_intercept):
    data = make_separable(120, 8, margin=0.3, fit_intercept=fit_intercept, random_state=0)
    problem = Problem.from_data(data.X, data.y, fit_intercept=fit_intercept).for_solver(tight=True)
    solver, best = AcceleratedSmoothing(epsilon), data.margin / problem.radius
    state = solver.init(problem)
    for t in range(1, 600):
        solver.step(problem, state)
        shortest = best - epsilon - 2.0 * problem.psi_zero / (epsilon * (t + 1) ** 2)
        margin = problem.margin(state.x, problem.scores(state.x))
        assert margin >= shortest
        found = solver.candidates(problem, state)
        assert problem.margin(state.y, problem.scores(state.y)) <= best + 1e-9
        assert found.upper >= best - 1e-9
    assert margin < best - 1e-4 * epsilon  # where it stays


def test_progressive_rescaling_reaches_the_direction():
    data = make_separable(200, 6, margin=0.3, random_state=1)
    options = {"fit_intercept": False, "tol": 0.0, "max_iter": 2000}
    found = max_margin(data.X, data.y, method=ProgressiveRescaling(), **options)
    plain = max_margin(data.X, data.y, method="normalized-gradient", **options)
    assert data.margin * 0.999 < found.lower <= data.margin <= found.upper
    assert data.margin - found.lower < 0.1 * (data.margin - plain.lower)
    with pytest.raises(InputError, match=r"ratio=1.0 must be a finite number above 1"):
        ProgressiveRescaling(1.0)


def test_the_sublinear_perceptron_counts_entries_and_learns():
    data = make_separable(300, 20, margin=0.5, random_state=0)
    Z = -data.y[:, None] * data.X / np.linalg.norm(data.X, axis=1).max()
    best = data.margin / np.linalg.norm(data.X, axis=1).max()
    looks = list(sublinear_perceptron(Z, 8000, every=1000, random_state=0))
    assert [look.iteration for look in looks] == list(range(1000, 8001, 1000))
    assert all(look.entries == 320 * look.iteration for look in looks)
    margins = [-(Z @ look.w).max() / np.linalg.norm(look.w) for look in looks]
    assert 0.5 * best < margins[-1] <= best
