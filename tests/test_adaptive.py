"""Algorithm 2: its draws, its cost in kernel values, its theorem, its bounds."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from literal import lopsided
from margins_known import KINDS, corners, problem_of
from scipy.stats import binom

from momentron import Status, max_margin
from momentron.datasets import make_separable
from momentron.errors import InputError
from momentron.solvers import Adaptive, BatchPerceptron
from momentron.solvers.problem import KernelChoice, Problem
from momentron.solvers.schedules import sampling_steps
from momentron.solvers.solver import RunOptions


def sampling_gap(psi_zero, n_steps, delta, margin):
    """ε with γ(w_t) ≥ γ̄ − ε at probability 1 − δ, after t steps of `sampling_step`.

    The last line of the proof of the paper's theorem on sampling, in units of R and with ψ(0) for
    ln n; `margin` is γ̄, or less.
    """
    lost = 2.0 * math.sqrt(psi_zero) + math.sqrt(8.0 * math.log(2.0 / delta))
    return lost / (margin * math.sqrt(n_steps)) + math.sqrt(8.0 / (delta * n_steps))


class Counted:
    """x·x′ + 1, which counts its calls and values."""

    def __init__(self):
        self.calls, self.values = [], 0

    def __call__(self, A, B):
        self.calls.append((A.shape[0], B.shape[0]))
        self.values += A.shape[0] * B.shape[0]
        return A @ B.T + 1.0


# --- the algorithm ---------------------------------------------------------------------------


def rows_of_Z(problem):
    return np.array([problem.gradient(e).ravel() for e in np.eye(problem.size)])


@pytest.mark.parametrize("kind", ["simplex", "pairs"])
@pytest.mark.parametrize("parameters", [{}, {"step": 0.3, "momentum": 0.5}, {"momentum": 0.0}])
def test_algorithm_2_as_the_paper_writes_it(kind, parameters):
    problem, *_ = problem_of(kind)
    Z, rng = rows_of_Z(problem), np.random.default_rng(7)
    solver = Adaptive(**parameters)
    state = solver.init(problem, RunOptions(random_state=7))
    w = g = np.zeros(Z.shape[1])
    q = np.full(problem.size, 1.0 / problem.size)
    for t in range(300):
        z = Z[np.searchsorted(np.cumsum(q), rng.random(), side="right")]
        beta = parameters.get("momentum", t / (t + 1.0))
        g = beta * (g + z)
        w = w - parameters.get("step", 1.0) * (g + z)
        q = np.exp(Z @ w - (Z @ w).max())
        q /= q.sum()
        solver.step(problem, state)
        assert np.allclose(state.iterate.w.ravel(), w, atol=1e-9)
        assert np.allclose(state.scores, Z @ w, atol=1e-9)
        assert np.allclose(-Z.T @ state.iterate.q, w, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [math.inf, 2.0])
def test_a_linear_kernel_makes_the_same_run_as_the_data(kind, C):
    _, X, y, fit_intercept, _ = problem_of(kind)
    X = X + 0.01 * np.random.default_rng(0).normal(size=X.shape)  # no two classes are alike
    options = {"fit_intercept": fit_intercept, "C": C, "max_iter": 150, "random_state": 5}
    runs = [
        max_margin(data, y, method="adaptive", kernel=kernel, **options)
        for data, kernel in ((X, None), (sp.csr_array(X), None), (X, "linear"))
    ]
    if fit_intercept:  # the kernel's radius is seen from the origin, so that its steps differ
        runs.pop()
    for other in runs[1:]:
        for column in ("margin", "upper"):
            assert np.allclose(runs[0].trace[column], other.trace[column], rtol=1e-8, atol=1e-10)
        assert np.allclose(runs[0].full_dual(), other.full_dual(), atol=1e-9)


@pytest.mark.parametrize("kernel", [None, "linear"])
def test_a_pair_touches_two_labels(kernel):
    problem, *_ = problem_of("pairs", kernel=kernel)
    solver = Adaptive(momentum=0.0)
    state = solver.init(problem, RunOptions(random_state=0))
    for _ in range(20):
        before = state.iterate.w.copy()
        solver.step(problem, state)
        changed = (state.iterate.w != before).reshape(-1, 4).any(axis=0)
        assert changed.sum() == 2


def test_the_seed_makes_the_run():
    _, X, y, *_ = problem_of("simplex")

    def run(seed):
        result = max_margin(X, y, method="adaptive", max_iter=40, random_state=seed)
        return result.trace["margin"]

    assert np.array_equal(run(3), run(3))
    assert np.array_equal(run(3), run(np.random.default_rng(3)))
    assert not np.array_equal(run(3), run(4))
    with pytest.raises(InputError, match="random_state='three' must be an integer"):
        run("three")


# --- cost ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["adaptive", "batch-perceptron"])
@pytest.mark.parametrize("kind", ["simplex", "pairs"])
def test_n_kernel_values_an_iteration(method, kind):
    _, X, y, *_ = problem_of(kind)
    kernel, seen = Counted(), []
    max_margin(
        X,
        y,
        method=method,
        kernel=kernel,
        cache_size=1e-6,
        fit_intercept=False,
        max_iter=30,
        random_state=0,
        tol=0.0,
        callback=lambda row: seen.append((row.evaluations, kernel.values)),
    )
    evaluations, values = np.array(seen).T
    assert np.all(np.diff(values) == X.shape[0])
    assert np.all(np.diff(evaluations) == X.shape[0])


def test_algorithm_1_needs_n_squared_kernel_values_an_iteration():
    _, X, y, *_ = problem_of("simplex")
    kernel, seen = Counted(), []
    max_margin(
        X,
        y,
        method="momentum",
        kernel=kernel,
        cache_size=1e-6,
        fit_intercept=False,
        max_iter=10,
        tol=0.0,
        callback=lambda row: seen.append(kernel.values),
    )
    assert np.all(np.diff(seen) == X.shape[0] ** 2)


@pytest.mark.parametrize("method", ["adaptive", "batch-perceptron"])
def test_columns_in_memory_are_not_computed_again(method):
    data = make_separable(60, 4, margin=0.4, random_state=1)
    kernel, solver = Counted(), Adaptive() if method == "adaptive" else BatchPerceptron()
    problem = Problem.from_data(
        data.X, data.y, fit_intercept=False, kernel=KernelChoice(kernel, cache_size=10.0)
    )
    start, drawn = kernel.values, set()
    state = solver.init(problem, RunOptions(random_state=0))
    for _ in range(200):
        before = state.iterate.q.copy()
        solver.step(problem, state)
        drawn |= set(np.flatnonzero((state.iterate.q > 0.0) & (before == 0.0)).tolist())
    assert kernel.values - start == 60 * len(drawn)
    assert len(drawn) < 60


# --- the theorem -----------------------------------------------------------------------------


def run_theory(problem, solver, seed):
    state = solver.init(problem, RunOptions(random_state=seed))
    for _ in range(solver.n_steps):
        solver.step(problem, state)
    return problem.margin(state.iterate.w, state.scores), problem.norm(state.iterate.w)


@pytest.mark.slow
def test_theorem_holds_in_its_share_of_runs_binary():
    """γ(w_t) ≥ γ̄ − ε with probability 1 − δ; ‖w_t‖ ≥ γ̄ √(t ln n) always."""
    best, delta, epsilon, n_runs = 0.9, 0.2, 0.7, 80
    X, signs = -lopsided(8, best), np.array([1, -1] * 4)
    problem = Problem.from_data(2.0 * X * signs[:, None], signs, fit_intercept=False)
    steps = math.ceil(sampling_steps(problem.dual_set.psi_zero, epsilon, delta, best))
    solver = Adaptive("theory", n_steps=steps)
    first = (32 * math.log(8) + 64 * math.log(2 / delta)) / (best * epsilon) ** 2
    assert steps == max(math.ceil(first), math.ceil(32 / (delta * epsilon**2)))
    margins, norms = np.array([run_theory(problem, solver, seed) for seed in range(n_runs)]).T
    tightest = sampling_gap(math.log(8), steps, delta, best)
    assert 0.8 * epsilon < tightest < epsilon
    failures = np.count_nonzero(margins < best - tightest)
    most = binom.isf(1e-6, n_runs, delta)  # more failures would refute the theorem
    assert failures <= most < np.count_nonzero(margins < best - 0.01 * tightest)
    assert np.all(margins <= best + 1e-12)
    assert np.all(norms >= best * math.sqrt(steps * math.log(8)) - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n_runs"), [("pairs", 8), ("circulations", 3)])
def test_theorem_holds_in_its_share_of_runs_multiclass(kind, n_runs):
    X, y, margin = corners(3, 1)
    problem = Problem.from_data(X, y, fit_intercept=kind == "circulations")
    problem = problem.for_solver(tight=True)
    best, delta, n_steps = margin / problem.radius, 0.3, 2500
    gap = sampling_gap(problem.dual_set.psi_zero, n_steps, delta, best)
    assert gap < best  # so that the theorem says something
    solver = Adaptive("theory", n_steps=n_steps)
    margins = np.array([run_theory(problem, solver, seed)[0] for seed in range(n_runs)])
    assert np.mean(margins >= best - gap) >= 1.0 - delta


def test_the_steps_the_theorem_asks_for_are_enough():
    for psi, delta, margin, epsilon in np.random.default_rng(0).uniform(0.01, 0.9, (100, 4)):
        steps = math.ceil(sampling_steps(10 * psi, epsilon, delta, margin))
        assert sampling_gap(10 * psi, steps, delta, margin) <= epsilon * (1.0 + 1e-12)
        assert sampling_gap(10 * psi, max(1, steps // 9), delta, margin) > epsilon / 3.0


def test_theory_ends_where_it_planned_to():
    _, X, y, fit_intercept, _ = problem_of("simplex")
    options = {"fit_intercept": fit_intercept, "random_state": 0}
    result = max_margin(X, y, method=Adaptive("theory", n_steps=25), **options)
    assert (result.n_iter, result.status) == (25, Status.ITERATION_BUDGET)
    result = max_margin(X, y, method=Adaptive("theory", n_steps=25), max_iter=7, **options)
    assert result.n_iter == 7


# --- bounds ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", [None, "linear"])
def test_bounds_bracket_the_known_margin(kind, kernel):
    _, X, y, fit_intercept, margin = problem_of(kind)
    result = max_margin(
        X,
        y,
        method="adaptive",
        kernel=kernel,
        fit_intercept=fit_intercept,
        max_iter=1500,
        tol=1e-9,
        random_state=0,
    )
    assert result.lower <= margin * (1 + 1e-12)
    assert result.upper >= margin * (1 - 1e-12)
    assert result.gap <= 0.01
    upper = result.trace["upper"]
    assert np.all(upper >= margin * (1 - 1e-9))
    assert np.all(np.diff(upper) <= 0.0)


def test_logistic_draws_carry_the_mass_of_the_weights():
    data = make_separable(10, 3, margin=0.3, random_state=2)
    problem = Problem.from_data(data.X, data.y, fit_intercept=False, loss="logistic")
    solver = Adaptive()
    state = solver.init(problem, RunOptions(random_state=0))
    mass = state.q.sum()
    assert mass > 2.0
    solver.step(problem, state)
    assert state.iterate.q.sum() == pytest.approx(mass / problem.dual_set.rho)


# --- parameters ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"parameters": "bold"}, "choose one of"),
        ({"parameters": "theory"}, "needs the length of its run: give n_steps"),
        ({"parameters": "theory", "n_steps": 0}, "integer of at least 1"),
        ({"parameters": "theory", "n_steps": 5, "step": 0.1}, "sets its own"),
        ({"n_steps": 5}, "needs parameters='theory'"),
        ({"step": "long"}, "step='long' must be a number or a function"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        Adaptive(**parameters)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (Adaptive(step=0.0), r"θ_0 is 0.0; it must be positive"),
        (Adaptive(momentum=lambda t: 0.5 * t), r"β_3 is 1.5; it must lie in"),
    ],
)
def test_schedules_are_checked_as_they_run(solver, message):
    with pytest.raises(InputError, match=message):
        max_margin([[1.0], [-1.0], [2.0]], [1, 0, 1], method=solver, tol=0.0)


# --- figure 3 --------------------------------------------------------------------------------
