"""Appendix B in general: its lemmas and theorem for four geometries, random λ_t and θ_t; and that
the library's methods are instances of it."""

import itertools
import math

import numpy as np
import pytest
from margins_known import KINDS, problem_of
from test_theorems import equality_lambda

from momentron import InputError
from momentron.datasets import make_separable
from momentron.solvers import (
    DualNesterov,
    GradientDescent,
    Momentum,
    NormalizedGradient,
    NormalizedGradientRoot,
)
from momentron.solvers.problem import Problem
from momentron.solvers.schedules import inverse_root_step, paper_lambda
from paper.mirror import (
    AcceleratedMirrorDescent,
    Entropy,
    Euclidean,
    MirrorDescent,
    PNorm,
    Regularizer,
    Smooth,
    onto_simplex,
    squared_length,
)

N, STEPS = 9, 60
GEOMETRIES = {
    "entropy": Entropy(),
    "Euclid": Euclidean(),
    "Euclid on the simplex": Euclidean(onto_simplex),
    "p-norm 1.2": PNorm(1.2),
    "p-norm 2": PNorm(2.0),
}
ON_SIMPLEX = ("entropy", "Euclid on the simplex")
geometries = pytest.mark.parametrize("name", GEOMETRIES)


def point(name, rng):
    """A point of C; now and then on its edge."""
    if name not in ON_SIMPLEX:
        return rng.normal(size=N)
    q = rng.dirichlet(np.ones(N))
    q[: rng.integers(0, N - 1)] = 0.0
    return q / q.sum()


def quadratic(name, rng):
    """(f, q̄) with f(q) = ‖A(q − q̄)‖²/2, 1-smooth in the geometry's norm, where q̄ is in C."""
    A, best = rng.normal(size=(N - 2, N)), point(name, rng)
    H = A.T @ A
    # uᵀHu ≤ max|H_ij| ‖u‖₁², and at most the largest eigenvalue times ‖u‖₂² ≤ ‖u‖_p²
    H /= np.abs(H).max() if name == "entropy" else np.linalg.norm(H, ord=2)
    f = Smooth(lambda q: 0.5 * float((q - best) @ H @ (q - best)), lambda q: H @ (q - best), N)
    return f, best


def run(method, steps=STEPS, start=None):
    """Every state, as copies: t = 0 … steps."""
    state = method.init(start)
    states = [vars(state).copy()]
    for _ in range(steps):
        method.step(state)
        states.append(vars(state).copy())
    return states


def scheduled(values):
    return lambda t: values[t]


# --- regularisers ----------------------------------------------------------------------------


@geometries
def test_a_regularizer_and_its_conjugate(name):
    """Fenchel–Young, ∇ω* as a derivative, and D(q′, q) ≥ α‖q′ − q‖²/2."""
    omega, rng = GEOMETRIES[name], np.random.default_rng(0)
    for _ in range(40):
        p = rng.normal(scale=rng.choice([0.1, 1.0, 10.0]), size=N)
        q, other = omega.mirror(p), point(name, rng)
        assert omega.divergence(q, p) == pytest.approx(0.0, abs=1e-9 * max(1.0, p @ p))
        square = omega.distance(other, q) ** 2
        assert omega.divergence(other, p) >= omega.strength * square / 2 - 1e-9 * max(1.0, p @ p)
        direction, step = rng.normal(size=N), 1e-6
        rise = omega.conjugate(p + step * direction) - omega.conjugate(p - step * direction)
        assert rise / (2 * step) == pytest.approx(q @ direction, rel=1e-3, abs=1e-4)


def test_strength_is_not_idle():
    """Twice the α that is claimed would be wrong for each of them."""
    for omega in GEOMETRIES.values():
        p, tightest = np.zeros(N), math.inf
        for seed in range(200):
            p = np.random.default_rng(seed).normal(size=N)
            p[2:] = -30.0 if omega.strength == 1.0 else 0.0
            near = omega.mirror(p + 1e-3 * np.eye(N)[0])
            square = omega.distance(near, omega.mirror(p)) ** 2
            if square > 0.0:
                tightest = min(tightest, 2 * omega.divergence(near, p) / square)
        assert tightest < 2 * omega.strength


@pytest.mark.parametrize("p", [np.zeros(4), np.array([5.0, 0, 0, 0]), np.arange(4.0)])
def test_projection_onto_the_simplex(p):
    q = onto_simplex(p)
    assert q.sum() == pytest.approx(1.0)
    assert np.all(q >= 0.0)
    for other in np.random.default_rng(0).dirichlet(np.ones(4), 50):
        assert (p - q) @ (other - q) <= 1e-12


def test_extreme_dual_variables():
    for name, omega in GEOMETRIES.items():
        for scale in (0.0, 1e-300, 1e100):
            q = omega.mirror(scale * np.arange(-4.0, 5.0))
            assert np.isfinite(q).all(), name


# --- the lemmas ------------------------------------------------------------------------------


@geometries
def test_lemma_b_4(name):
    """⟨p − p′, q′ − q⟩ = D(q, q_t) − D(q, q_{t+1}) − D(q_{t+1}, q_t)."""
    omega, rng = GEOMETRIES[name], np.random.default_rng(1)
    for _ in range(50):
        p, after, q = rng.normal(size=N), rng.normal(size=N), point(name, rng)
        reached = omega.mirror(after)
        right = omega.divergence(q, p) - omega.divergence(q, after) - omega.divergence(reached, p)
        assert (p - after) @ (reached - q) == pytest.approx(right, abs=1e-10)


@geometries
def test_dual_averaging_is_the_minimum_of_b_1(name):
    """q_{t+1} minimises ⟨∇f(ν_t), q⟩ + λ_t/(αθ_t) D(q, q_t) over C."""
    omega, rng = GEOMETRIES[name], np.random.default_rng(2)
    f, _ = quadratic(name, rng)
    states = run(AcceleratedMirrorDescent(f, omega, step=0.5), 5)
    for before, after in itertools.pairwise(states):
        weight = after["lam"] / (omega.strength * after["theta"])
        slope, p = f.gradient(after["nu"]), before["p"]

        def cost(q, slope=slope, p=p, weight=weight):
            return slope @ q + weight * omega.divergence(q, p)

        least = cost(after["q"])
        for _ in range(20):
            assert cost(point(name, rng)) >= least - 1e-10
            near = after["q"] + 1e-3 * (point(name, rng) - after["q"])
            assert cost(near) >= least - 1e-12


def lemma_b_3(f, omega, states, q):
    """(left, right) of Lemma B.3 at every t ≥ 1."""
    lam = np.array([s["lam"] for s in states[1:]])
    theta = np.array([s["theta"] for s in states[1:]])
    above = np.array([f.value(s["mu"]) - f.value(q) for s in states])
    distances = np.array([omega.divergence(q, s["p"]) for s in states])
    gaps = theta[:-1] / lam[:-1] ** 2 - theta[1:] * (1 - lam[1:]) / lam[1:] ** 2
    left = theta / lam**2 * above[1:] + np.r_[0.0, np.cumsum(gaps * above[1:-1])]
    right = (distances[0] - distances[1:]) / omega.strength
    return left, right + theta[0] * (1 - lam[0]) / lam[0] ** 2 * above[0]


@geometries
@pytest.mark.parametrize("seed", range(4))
def test_lemma_b_3_for_any_schedule(name, seed):
    """λ_t and θ_t are random in (0, 1], λ_0 ≠ 1 included, and q is any point of C."""
    omega, rng = GEOMETRIES[name], np.random.default_rng(seed)
    f, best = quadratic(name, rng)
    lam, theta = rng.uniform(0.05, 1.0, (2, STEPS))
    if seed % 2:
        lam[0] = 1.0
    method = AcceleratedMirrorDescent(
        f, omega, schedule=scheduled(lam), step=scheduled(theta), check_schedule=False
    )
    start = None if seed < 2 else rng.normal(size=N)
    states = run(method, start=start)
    for q in (best, *(point(name, rng) for _ in range(4))):
        left, right = lemma_b_3(f, omega, states, q)
        size = 1e-10 * (1.0 + np.abs(left) + np.abs(right)) * omega.strength**-1
        assert np.all(left <= right + size)
    finite = [math.isfinite(s["rate"]) for s in states[1:]]
    assert finite == sorted(finite, reverse=True)  # once broken, no rate is claimed again
    assert finite[0] == (lam[0] == 1.0)


def objectives(name, rng):
    """Some of which leave the inequalities little room: as round as smoothness admits, or flat."""
    aim, slope = point(name, rng), rng.normal(size=N)
    yield quadratic(name, rng)[0]
    yield Smooth(lambda q: 0.5 * float((q - aim) @ (q - aim)), lambda q: q - aim, N)
    yield Smooth(lambda q: float(slope @ q), lambda q: slope, N)


def assert_steps_of_lemma_b_3(f, omega, before, after, q):
    lam, theta, nu, alpha = after["lam"], after["theta"], after["nu"], omega.strength
    slope, scale, tiny = f.gradient(nu), lam / (alpha * theta), 1e-9 / alpha
    f_nu, f_mu, f_next, f_q = map(f.value, (nu, before["mu"], after["mu"], q))
    nearer = omega.divergence(q, before["p"]) - omega.divergence(q, after["p"])
    moved = omega.divergence(after["q"], before["p"])
    ahead, back = slope @ (before["q"] - q), slope @ (before["q"] - after["q"])
    assert f_nu - f_q <= (1 - lam) / lam * (f_mu - f_nu) + ahead + tiny  # (B.5)
    inner = scale * (before["p"] - after["p"]) @ (after["q"] - q)
    assert ahead == pytest.approx(back + inner, abs=tiny)  # (B.6)
    assert ahead == pytest.approx(back - scale * moved + scale * nearer, abs=tiny)
    assert back - scale * moved <= (f_nu - f_next) / lam + tiny  # (B.7)
    right = (1 - lam) / lam * (f_mu - f_nu) + (f_nu - f_next) / lam + scale * nearer
    assert f_nu - f_q <= slope @ (nu - q) + tiny <= right + 3 * tiny  # (B.8)
    left = theta / lam**2 * (f_next - f_q) - theta * (1 - lam) / lam**2 * (f_mu - f_q)
    assert left <= nearer / alpha + tiny / lam**2  # (B.9)


@geometries
def test_the_inequalities_inside_the_proof_of_lemma_b_3(name):
    """(B.5) to (B.9) at each step; (B.6) with q where the paper has q_t in the second line."""
    omega, rng = GEOMETRIES[name], np.random.default_rng(5)
    for f in objectives(name, rng):
        lam, theta = rng.uniform(0.05, 1.0, (2, STEPS))
        lam[0] = theta[0] = 1.0
        method = AcceleratedMirrorDescent(
            f, omega, schedule=scheduled(lam), step=scheduled(theta), check_schedule=False
        )
        for before, after in itertools.pairwise(run(method)):
            for q in (point(name, rng), after["nu"], before["q"]):
                assert_steps_of_lemma_b_3(f, omega, before, after, q)


def kept_schedule(rng):
    """Random λ_t within (B.10)."""
    lam = [1.0]
    for _ in range(STEPS - 1):
        least = 2.0 / (1.0 + math.sqrt(1.0 + 4.0 / lam[-1] ** 2))
        lam.append(least + rng.choice([0.0, rng.random()]) * (1.0 - least))
    return np.array(lam)


@geometries
@pytest.mark.parametrize("seed", range(3))
def test_theorem_b_12(name, seed):
    """f(μ_t) − f(q̄) ≤ λ_{t−1}²/α (D(q̄, q_0) − D(q̄, q_t)), with its last term."""
    omega, rng = GEOMETRIES[name], np.random.default_rng(seed)
    f, best = quadratic(name, rng)
    for schedule in (kept_schedule(rng), [equality_lambda()(t) for t in range(STEPS)]):
        assert np.all(np.square(1 / np.array(schedule)) <= np.cumsum(1 / np.array(schedule)) + 1e-9)
        states = run(AcceleratedMirrorDescent(f, omega, schedule=scheduled(schedule)))
        first = omega.divergence(best, states[0]["p"])
        for s in states[1:]:
            bound = s["lam"] ** 2 / omega.strength * (first - omega.divergence(best, s["p"]))
            assert f.value(s["mu"]) - f.value(best) <= bound + 1e-10
            assert s["rate"] == pytest.approx(s["lam"] ** 2 / omega.strength)
    states = run(AcceleratedMirrorDescent(f, omega))
    for t, s in enumerate(states[1:], start=1):
        assert f.value(s["mu"]) - f.value(best) <= 4 * first / (omega.strength * (t + 1) ** 2)


@geometries
def test_mirror_descent_never_rises_and_has_its_rate(name):
    omega, rng = GEOMETRIES[name], np.random.default_rng(3)
    f, best = quadratic(name, rng)
    theta = rng.uniform(0.1, 1.0, STEPS)
    states = run(MirrorDescent(f, omega, step=scheduled(theta)))
    values = np.array([f.value(s["q"]) for s in states])
    assert np.all(np.diff(values) <= 1e-12)
    first = omega.divergence(best, states[0]["p"])
    for t, s in enumerate(states[1:], start=1):
        assert np.array_equal(s["mu"], s["q"])
        assert s["rate"] == pytest.approx(1.0 / (omega.strength * theta[:t].sum()))
        assert values[t] <= s["rate"] * (first - omega.divergence(best, s["p"])) + 1e-10


def test_smoothness_scales_the_steps():
    f, _ = quadratic("entropy", np.random.default_rng(0))
    tall = Smooth(lambda q: 50 * f.value(q), lambda q: 50 * f.gradient(q), N, smoothness=50.0)
    a, b = (run(AcceleratedMirrorDescent(g, Entropy()))[-1] for g in (f, tall))
    assert np.allclose(a["mu"], b["mu"], rtol=1e-12)
    assert b["rate"] == pytest.approx(50 * a["rate"])


# --- the library's methods are instances -------------------------------------------------------


class Potential(Regularizer):
    """ψ*, known through ∇ψ and ψ as a dual set has them; α = 1/ρ."""

    def __init__(self, dual_set):
        self.dual_set, self.strength = dual_set, 1.0 / dual_set.rho

    def mirror(self, p):
        return self.dual_set.link(p)[0]

    def conjugate(self, p):
        return self.dual_set.link(p)[1]

    def value(self, q):
        raise NotImplementedError

    distance = Entropy.distance


def instance_of(problem):
    """φ(q) = ‖Zᵀq‖²/2 in units of R, and ψ*."""
    Z = np.array([problem.gradient(e).ravel() for e in np.eye(problem.size)])
    f = squared_length(Z)
    assert f.smoothness <= 1.0 + 1e-12 or problem.dual_set.fits_intercept
    one = Smooth(f.value, f.gradient, f.size)
    return one, Potential(problem.dual_set)


def problems():
    for kind in KINDS:
        yield kind, problem_of(kind)[0]
    data = make_separable(30, 4, margin=0.3, random_state=2)
    for loss in ("logistic", "shifted-logistic"):
        yield (
            loss,
            Problem.from_data(data.X, data.y, fit_intercept=False, loss=loss).for_solver(
                tight=True
            ),
        )


PROBLEMS = dict(problems())


def assert_same(problem, solver, method, steps=80):
    state, other = solver.init(problem), method.init()
    for _ in range(steps):
        solver.step(problem, state)
        method.step(other)
        assert np.abs(state.now.weights - other.q).max() <= 1e-10 * max(1.0, other.q.max())
        assert np.allclose(state.now.scores, other.p, rtol=1e-9, atol=1e-9)
    return state, other


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    "parameters",
    [{}, {"step": 0.5}, {"schedule": equality_lambda()}],
    ids=["paper", "half steps", "equality"],
)
def test_momentum_is_accelerated_mirror_descent(name, parameters):
    problem = PROBLEMS[name]
    method = AcceleratedMirrorDescent(*instance_of(problem), **parameters)
    assert_same(problem, Momentum(**parameters), method)
    state, other = assert_same(problem, DualNesterov(**parameters), method)
    assert np.allclose(state.mu, other.mu, rtol=1e-9, atol=1e-12)
    assert np.allclose(state.nu, other.nu, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_normalized_gradients_are_mirror_descent(name):
    problem = PROBLEMS[name]
    for solver, step in (
        (NormalizedGradient(), 1.0),
        (NormalizedGradientRoot(), inverse_root_step),
    ):
        assert_same(problem, solver, MirrorDescent(*instance_of(problem), step=step))


def test_gradient_descent_is_mirror_descent_with_steps_from_the_risk():
    """θ_t = η R(w_t) for the exponential loss (section 3.1)."""
    problem = PROBLEMS["simplex"]
    solver = GradientDescent(step=1.0)
    state, risks = solver.init(problem), []
    for _ in range(80):
        risks.append(problem.risk(state.now.psi))
        solver.step(problem, state)
    method = MirrorDescent(*instance_of(problem), step=scheduled(risks))
    assert_same(problem, solver, method)


def test_the_dual_objective_of_a_known_problem():
    data = make_separable(40, 4, margin=0.3, random_state=1)
    Z = -data.y[:, None] * data.X
    for norm, omega in (("l1", Entropy()), ("l2", Euclidean(onto_simplex))):
        f = squared_length(Z, norm)
        found = AcceleratedMirrorDescent(f, omega).minimize(max_iter=400)
        first = math.log(40) if norm == "l1" else 0.5  # D(q̄, q_0) is no more
        assert 0.0 <= f.value(found.mu) - data.margin**2 / 2 <= found.rate * first


# --- arguments and budgets ---------------------------------------------------------------------


def method(**options):
    f, _ = quadratic("entropy", np.random.default_rng(0))
    return AcceleratedMirrorDescent(f, Entropy(), **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: method(schedule=0.5).minimize(), "λ_0 = 0.5"),
        (lambda: method(schedule=0.0, check_schedule=False).minimize(), "λ_0 = 0.0; it must lie"),
        (lambda: method(step=1.5).minimize(), "θ_0 is 1.5"),
        (lambda: method(check_schedule="no"), "check_schedule='no' must be True or False"),
        (lambda: method().minimize(max_iter=0), "max_iter=0"),
        (lambda: method().minimize(max_time=-1), "max_time=-1"),
        (lambda: method().minimize(start=np.zeros(2)), "it must be 9 finite numbers"),
        (lambda: method().minimize(start=np.full(N, np.nan)), "it must be 9 finite numbers"),
        (lambda: PNorm(1.0), "p=1.0 must be a number above 1"),
        (lambda: Euclidean(onto=3), "onto=3 must be a function"),
        (lambda: Smooth(1.0, np.sum, 3), "value=1.0 must be a function"),
        (lambda: Smooth(np.sum, np.sum, 3, 0.0), "smoothness=0.0"),
        (lambda: Smooth(np.sum, np.sum, 0), "size=0"),
        (lambda: squared_length([[np.nan]]), "finite numbers"),
        (lambda: squared_length([[1.0]], "l3"), "choose 'l1' or 'l2'"),
        (
            lambda: AcceleratedMirrorDescent(Smooth(np.sum, np.sum, 3), Entropy()).minimize(),
            r"the gradient at step 0 has shape \(\); it must be \(3,\)",
        ),
        (
            lambda: MirrorDescent(Smooth(np.sum, lambda q: q / 0, 3), Entropy()).minimize(),
            "is not finite",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_cannot_be_minimised_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_runs_end_when_they_are_asked_to():
    assert method().minimize(max_iter=7).t == 7
    assert method().minimize(max_time=0.0, max_iter=10**9).t == 1
    assert method().minimize(callback=lambda state: state.t == 3).t == 3
    assert repr(PNorm(1.2)) == "PNorm(p=1.2)"
    assert paper_lambda(0) == 1.0
