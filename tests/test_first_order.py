"""Momentum's averages, measured steps and warm starts; the smooth perceptron; FISTA on C."""

import math

import numpy as np
import pytest
from margins_known import corners

from momentron import max_margin
from momentron.datasets import make_separable
from momentron.dual.circulations import Circulations
from momentron.dual.dualsets import ClassBalanced, Simplex
from momentron.dual.losses import Exponential
from momentron.errors import InputError
from momentron.solvers import DualNesterov, Momentum, SimplexFista, SmoothPerceptron
from momentron.solvers.problem import Problem
from momentron.solvers.solver import RunOptions, Start

ROUNDING = 1e-9
SCHEMES = ["two", "two-intercept", "many", "many-intercept"]


def posed(scheme, loss="exponential"):
    """(problem in tight units, its best margin in them)."""
    fit_intercept = scheme.endswith("intercept")
    if scheme.startswith("two"):
        data = make_separable(90, 10, margin=0.2, fit_intercept=fit_intercept, random_state=5)
        X, y, margin = data.X, data.y, data.margin
    else:
        X, y, margin = corners(4, 12)
    problem = Problem.from_data(X, y, fit_intercept=fit_intercept, loss=loss)
    problem = problem.for_solver(tight=True)
    return problem, margin / problem.to_units_of_x(1.0)


def assert_encloses(found, best):
    low, high = found.interval
    assert low <= best + ROUNDING
    assert best <= high + ROUNDING


# --- the average of the later weights -----------------------------------------------------------


@pytest.mark.parametrize("step", [1.0, "adaptive"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_windows_are_averages_of_the_later_weights(scheme, step):
    """Their weights, images and scores are those of Σ (λ of the step) q_j over the later half."""
    problem, best = posed(scheme)
    solver = Momentum(step=step)
    state, seen, shares = solver.init(problem), [], []
    for t in range(70):
        seen.append(state.now.weights.copy())
        shares.append(state.lam)
        solver.step(problem, state)
        found = solver.candidates(problem, state)
        for primal in found.primals:
            assert np.allclose(problem.scores(primal.w), primal.scores, atol=1e-9)
            assert problem.margin(primal.w, primal.scores) <= best + ROUNDING
        assert found.upper >= best - ROUNDING
        if t == 0:
            continue
        power = 1 << (t.bit_length() - 1)  # the largest power of two that is at most t
        for begin, past in ((power // 2, state.late), (power, state.later)):
            expected = np.zeros(problem.size)
            for j in range(max(begin, 1), t + 1):
                expected = (1.0 - shares[j]) * expected + shares[j] * seen[j]
            q = state.mu - past.share * past.mu
            assert np.allclose(q, expected, rtol=1e-9, atol=1e-13)
            assert np.allclose(state.z_mu - past.share * past.z_mu, problem.gradient(q), atol=1e-12)
        assert np.allclose(-problem.gradient(state.mu), -state.z_mu, atol=1e-12)
        assert np.allclose(problem.scores(-state.z_mu), state.mu_scores, atol=1e-9)


def test_the_later_weights_forget_how_a_run_began():
    data = make_separable(1000, 20, margin=0.15, random_state=0)
    options = {"fit_intercept": False, "tol": 1e-6, "max_iter": 600}
    found = max_margin(data.X, data.y, method="momentum", **options)
    assert found.gap <= 1e-6
    assert found.lower <= data.margin <= found.upper
    assert found.trace["theorem_upper"][-1] > data.margin * (1.0 + 1e-3)  # that of μ_t alone
    assert np.all(np.diff(found.trace["passes"]) == 2)


@pytest.mark.parametrize("method", [Momentum(), Momentum(step="adaptive"), SmoothPerceptron()])
def test_blocks_know_the_images_of_averages(method):
    """Passes are those of the steps, and of the certificate of a pair that no step evaluated."""
    data = make_separable(120, 5, margin=0.3, random_state=3)
    options = {"method": method, "fit_intercept": False, "max_iter": 60, "tol": 0.0}
    here = max_margin(data.X, data.y, **options)
    there = max_margin(data.X, data.y, block_size=1500, **options)
    for column in ("margin", "lower", "upper"):
        assert np.allclose(there.trace[column], here.trace[column], rtol=1e-8, atol=1e-9)
    assert there.upper == pytest.approx(here.upper, rel=1e-9)
    steps = np.diff(there.trace["passes"])
    assert np.all(steps >= 1) if method.name == "momentum" else np.all(steps == 1)
    assert there.passes <= there.trace["passes"][-1] + 2


@pytest.mark.parametrize("step", [1.0, "adaptive"])
@pytest.mark.parametrize("block_size", [None, 1500])
def test_momentum_goes_on_from_its_checkpoint(step, block_size, tmp_path):
    data = make_separable(120, 5, margin=0.3, random_state=3)
    options = {"method": Momentum(step=step), "tol": 0.0, "block_size": block_size}
    straight = max_margin(data.X, data.y, max_iter=45, **options)
    for stop in (3, 21):
        max_margin(data.X, data.y, max_iter=stop, checkpoint=tmp_path / "state", **options)
    resumed = max_margin(data.X, data.y, max_iter=45, checkpoint=tmp_path / "state", **options)
    for column in ("margin", "lower", "upper", "theorem_lower"):
        assert np.array_equal(resumed.trace[column], straight.trace[column], equal_nan=True)


# --- measured steps -----------------------------------------------------------------------------

CASES = [(scheme, "exponential") for scheme in SCHEMES]
CASES += [("two", "logistic"), ("two", "shifted-logistic")]


@pytest.mark.parametrize(("scheme", "loss"), CASES)
def test_measured_steps_keep_the_inequality_and_the_theorem(scheme, loss):
    """(B.7) and λ's condition at every step; the interval, and the margin's bound, with A_t."""
    problem, best = posed(scheme, loss)
    solver = Momentum(step="adaptive")
    state, total, steps = solver.init(problem), 0.0, []
    for t in range(150):
        old, before, start = (
            (state.now.weights, state.now.psi, state.now.scores),
            state.gradient,
            state.lam,
        )
        rate = state.theta / state.lam**2
        solver.step(problem, state)
        moved = problem.gradient(state.now.weights - old[0])
        assert np.allclose(state.gradient - before, moved, atol=1e-12)
        distance = before_after(old, state)
        square = problem.norm(moved) ** 2
        sizes = 1.0 + abs(before_sizes(old)) + np.abs(old[2] - state.now.scores).max()
        noise = 1e-14 * sizes
        assert state.theta * square <= 2.0 * problem.rho * (distance + noise)
        assert state.theta * (1 - state.lam) / state.lam**2 <= (rate if t else 0.0) * (1 + 1e-9)
        assert 0.0 < state.lam <= (1.0 if t == 0 else start + 1.0)
        steps.append(state.theta)
        total += state.theta / state.lam
        assert state.theta / state.lam**2 == pytest.approx(total, rel=1e-9)
        margin = problem.margin(state.now.w, state.now.scores)
        excess = state.potential - problem.psi_zero
        assert 0.0 <= excess <= 1e-6
        bound = best - problem.rho * state.potential / (best * total)
        assert margin >= bound - ROUNDING
        found = solver.candidates(problem, state)
        if t > 0:
            assert_encloses(found, best)
    assert max(steps) > 1.0
    assert found.interval[0] > 0.0


def before_after(old, state):
    """D(q′, q) from ψ, scores and weights."""
    return old[1] - state.now.psi - float(state.now.weights @ (old[2] - state.now.scores))


def before_sizes(old):
    return abs(old[1]) + np.abs(old[2]).max()


def test_measured_steps_pay():
    data = make_separable(1000, 20, margin=0.15, random_state=0)
    passes = {}
    for step in (1.0, "adaptive"):
        options = {"fit_intercept": False, "tol": 1e-6, "max_iter": 2000}
        found = max_margin(data.X, data.y, method=Momentum(step=step), **options)
        assert found.gap <= 1e-6
        passes[step] = found.trace["passes"][-1]
    assert passes["adaptive"] < 0.5 * passes[1.0]


def test_a_loss_of_ones_own_with_a_rho_that_is_too_small_gets_shorter_steps():
    class Brave(Exponential):
        name = "brave"

        def rho(self, n):
            return 0.01

    problem, best = posed("two", Brave())
    solver = Momentum(step="adaptive")
    state = solver.init(problem)
    shortest = math.inf
    for t in range(150):
        solver.step(problem, state)
        shortest = min(shortest, state.theta)
        found = solver.candidates(problem, state)
        if t > 0 and found.interval is not None:
            assert_encloses(found, best)
    assert shortest < 1.0
    assert found.interval is not None and found.interval[0] > 0.0


def test_measured_steps_choose_their_own_schedule():
    with pytest.raises(InputError, match="step='adaptive' chooses λ_t itself"):
        Momentum(lambda t: 2.0 / (t + 2.0), step="adaptive")
    with pytest.raises(InputError, match="step='adaptive'"):
        DualNesterov(step="adaptive")
    with pytest.raises(InputError, match="step='fast'"):
        Momentum(step="fast")


# --- warm starts --------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1.0, "adaptive"])
@pytest.mark.parametrize("scheme", ["two", "two-intercept", "many-intercept"])
def test_the_interval_holds_after_any_start(scheme, step):
    """Random, good and wrong starts, short ones and ones of 1e6."""
    problem, best = posed(scheme)
    reference = Momentum(step="adaptive")
    state = reference.init(problem)
    for _ in range(100):
        reference.step(problem, state)
    rng, b = np.random.default_rng(0), np.zeros(problem.classes.size)
    starts = {
        "good": state.now.w,
        "wrong": -state.now.w,
        "random": rng.normal(size=state.now.w.shape),
    }
    for name, direction in starts.items():
        unit = direction / problem.norm(direction)
        for length in (0.1, 30.0, 1e6):
            start = Start(length * unit / problem.radius, b, np.empty(0))
            solver = Momentum(step=step)
            state = solver.init(problem, RunOptions(start=start))
            assert problem.norm(state.now.w) == pytest.approx(length)
            for t in range(30):
                solver.step(problem, state)
                found = solver.candidates(problem, state)
                if t > 0:
                    assert_encloses(found, best)
            if name == "good" and length == 1e6:  # the start is nearly the whole answer
                assert found.interval[0] > 0.999 * best


def test_a_start_above_psi_of_zero_has_no_interval_where_rho_is_proved_below():
    problem, _ = posed("two", "shifted-logistic")
    wrong = Start(np.full(10, 100.0), np.zeros(1), np.empty(0))
    solver = Momentum()
    state = solver.init(problem, RunOptions(start=wrong))
    assert state.now.psi > problem.psi_zero
    for _ in range(5):
        solver.step(problem, state)
    assert solver.interval(problem, state) is None


# --- the smooth perceptron ----------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_excessive_gap_of_the_smooth_perceptron(scheme):
    problem, best = posed(scheme)
    solver = SmoothPerceptron()
    state = solver.init(problem)
    for t in range(1, 120):
        solver.step(problem, state)
        mu = 4.0 / ((t + 1) * (t + 2))
        potential = mu * problem.evaluate(state.x / mu).psi
        gap = mu * problem.psi_zero - potential - 0.5 * problem.norm(state.x) ** 2
        assert 0.5 * problem.norm(state.z_y) ** 2 <= gap + ROUNDING
        assert np.allclose(-problem.gradient(state.q), state.x, atol=1e-12)
        assert state.q.sum() == pytest.approx(1.0) and state.y.sum() == pytest.approx(1.0)
        slack = mu * problem.psi_zero
        assert problem.margin(state.x, mu * state.seen.scores) >= best - slack / best - ROUNDING
        assert problem.norm(state.z_y) ** 2 <= best**2 + 2.0 * slack + ROUNDING


# --- accelerated projected gradient -------------------------------------------------------------


def dual_sets():
    codes, k = np.arange(30) % 3, 3
    source = np.repeat(codes, k - 1)
    target = np.array([[j for j in range(k) if j != c] for c in codes]).ravel()
    yield Simplex(40, Exponential())
    yield ClassBalanced(np.where(np.arange(41) % 3 > 0, 1, -1), Exponential())
    yield Circulations(source, target, k, Exponential())


@pytest.mark.parametrize("scale", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize(
    "dual_set", list(dual_sets()), ids=lambda dual_set: type(dual_set).__name__
)
def test_projections_are_the_nearest_points(dual_set, scale):
    """p = P(v) iff ⟨p − v, q − p⟩ ≥ 0 for all q in C: its least is at a vertex."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        v = scale * rng.normal(size=dual_set.size)
        p = dual_set.project(v)
        assert np.allclose(dual_set.normalize(p), p, atol=1e-14) and p.min() >= 0.0
        vertex = dual_set.vertex(v - p)
        least = float((p - v)[vertex.index] @ vertex.weight) - float((p - v) @ p)
        assert least >= -1e-13
        assert np.allclose(dual_set.project(p), p, atol=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_fista_certifies_fast_with_every_scheme(scheme):
    fit_intercept = scheme.endswith("intercept")
    if scheme.startswith("two"):
        data = make_separable(400, 12, margin=0.2, fit_intercept=fit_intercept, random_state=2)
        X, y, margin = data.X, data.y, data.margin
    else:
        X, y, margin = corners(4, 12)
    options = {"fit_intercept": fit_intercept, "tol": 1e-8, "max_iter": 600}
    found = max_margin(X, y, method="simplex-fista", **options)
    assert found.gap <= 1e-8
    assert found.lower <= margin * (1 + 1e-12) and margin * (1 - 1e-12) <= found.upper


def test_fista_begins_from_a_start_and_counts_its_passes():
    data = make_separable(400, 12, margin=0.2, random_state=2)
    options = {"fit_intercept": False, "method": SimplexFista()}
    first = max_margin(data.X, data.y, tol=1e-9, **options)
    again = max_margin(data.X, data.y, tol=1e-6, initial=first, **options)
    assert again.n_iter <= 3
    steps = np.diff(first.trace["passes"])
    assert steps.min() == 2 and steps.mean() < 3.0


def test_fista_solves_soft_margins():
    data = make_separable(60, 5, margin=0.2, random_state=2)
    options = {"C": 2.0, "tol": 1e-8}
    exact = max_margin(data.X, data.y, **options)
    found = max_margin(data.X, data.y, method="simplex-fista", **options)
    assert found.gap <= 1e-8
    assert found.lower == pytest.approx(exact.lower, rel=1e-7)
