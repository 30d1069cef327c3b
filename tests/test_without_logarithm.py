"""γ(w_t) ≥ γ̄ − ψ(0)/‖w_t‖ ≥ γ̄ − ρψ(0)/(γ̄S_t): each step of the proof, and what follows.

The page docs/paper/without-the-logarithm.md has the proof; its numbered steps are those here.
"""

import math

import numpy as np
import pytest
import shares
from literal import dual_path, exponential, lone, lopsided
from makers import make_nonseparable
from margins_known import KINDS, corners
from margins_known import problem_of as problem_of_kind
from shares import Followed, copies
from test_losses import Brave, Omega
from test_statements import SCHEDULES, small
from test_theorems import Run, equality_lambda, slow_lambda

from momentron import max_margin
from momentron.dual.losses import Logistic
from momentron.solvers import Momentum
from momentron.solvers.problem import Problem

ROUNDING = 1e-9
KEPT = ("paper", "equality", "slow", "no momentum")  # the schedules that keep (B.10)
STEPS = {
    "1": 1.0,
    "1/4": 0.25,
    "falling": (np.arange(200) + 1.0) ** -0.5,
    "random": np.random.default_rng(0).uniform(0.1, 1.0, 200),
}
PROBLEMS = {
    "small": small(),
    "lopsided": (lopsided(60, 0.3), 0.3),
    "lone": (lone(60, 0.5), 0.5),
    "one row": (-np.eye(1), 1.0),
}


def is_covered(schedule, step):
    """θ_t(1 − λ_t)/λ_t² ≤ θ_{t−1}/λ_{t−1}², which steps that grow may break."""
    return step != "random" or schedule == "no momentum"


COVERED = [(s, step) for s in KEPT for step in STEPS if is_covered(s, step)]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("loss", shares.LOSSES)
@pytest.mark.parametrize(("schedule", "step"), COVERED)
def test_each_step_of_the_proof(problem, loss, schedule, step):
    Z, best = PROBLEMS[problem]
    options = {"lam": SCHEDULES[schedule], "theta": STEPS[step], "loss": shares.LOSSES[loss]}
    run = Followed(Z, best, **options)
    lam, theta, rho, fell = run.lam, run.theta, run.rho, run.psi0 - run.psi[1:]
    size = ROUNDING * np.maximum(1.0, np.abs(run.psi[1:]))
    # what is asked of the loss
    assert np.all(run.psi[1:] >= (run.path.w[1:] @ Z.T).max(axis=1) - size)
    assert np.all(run.mass >= 1 - ROUNDING)
    phi_mu, phi_nu, phi_next, falls, distance = shares.steps_of(run)
    change = np.diff(run.path.q, axis=0)
    assert np.all(distance >= theta * np.abs(change).sum(axis=1) ** 2 / (2 * rho) - size)
    assert np.all(np.linalg.norm(change @ Z, axis=1) <= np.abs(change).sum(axis=1) + size)
    # one step
    kept = phi_next / lam**2 - (1 - lam) / lam**2 * phi_mu + phi_nu / lam
    assert np.all(rho * falls >= theta * kept - rho * size)
    # the sum, its coefficients, and theirs
    inner = theta[:-1] / lam[:-1] ** 2 - theta[1:] * (1 - lam[1:]) / lam[1:] ** 2
    assert np.all(inner >= -ROUNDING / lam[1:] ** 2)
    total = theta / lam**2 + np.r_[0.0, np.cumsum(inner)]
    assert np.allclose(total, run.S, rtol=1e-12)
    assert np.all(run.z_mu >= best * (1 - ROUNDING))
    assert np.all(rho * fell >= best**2 * run.S / 2 + np.cumsum(theta * phi_nu / lam) - rho * size)
    # the theorem
    assert np.all(fell >= best * run.norm[1:] - size)  # (i)
    assert np.all(run.norm[1:] >= best * run.S / rho * (1 - ROUNDING))
    assert np.all(run.margin[1:] >= best - run.psi0 / run.norm[1:] - ROUNDING)  # (ii)
    assert np.all(run.margin[1:] >= best - rho * run.psi0 / (best * run.S) - ROUNDING)  # (iii)


def test_steps_that_grow_may_leave_the_theorem():
    """With momentum and θ_t that grow, a coefficient is negative: nothing is claimed."""
    lam, theta = np.array(SCHEDULES["paper"]), STEPS["random"]
    inner = theta[:-1] / lam[:-1] ** 2 - theta[1:] * (1 - lam[1:]) / lam[1:] ** 2
    assert inner.min() < 0.0


def kept_schedule(rng, steps):
    """Random λ_t within (B.10), now and then at equality."""
    lam = [1.0]
    while len(lam) < steps:
        least = 2.0 / (1.0 + math.sqrt(1.0 + 4.0 / lam[-1] ** 2))
        lam.append(least + rng.choice([0.0, 0.0, rng.random()]) * (1.0 - least))
    return lam


@pytest.mark.parametrize("seed", range(12))
def test_random_rows_copies_schedules_and_steps(seed):
    """Up to 10⁹ copies of each row; γ̄ is what `auto` certifies."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(2, 9)), int(rng.integers(2, 6))
    Z = rng.normal(size=(m, d)) * 10 ** rng.uniform(-1, 1)
    Z[:, 0] = -(10 ** rng.uniform(-2, 0.5, m))
    Z /= np.linalg.norm(Z, axis=1).max()
    signs = np.resize([1, -1], m)
    best = max_margin(-Z * signs[:, None], signs, fit_intercept=False, tol=1e-9).lower
    counts = np.round(10 ** rng.uniform(0, rng.choice([0, 3, 9]), m))
    theta = np.sort(rng.uniform(0.2, 1.0, 150))[::-1] if seed % 3 == 0 else 1.0
    for loss in shares.LOSSES.values():
        lam = kept_schedule(rng, 150)
        run = Followed(Z, best, lam=lam, theta=theta, loss=loss, counts=counts)
        for share in (shares.of_potential, shares.of_length, shares.of_rate):
            assert np.all(share(run, best) <= 1 + ROUNDING)


@pytest.mark.parametrize("theta", [1.5, 4.0, 30.0])
@pytest.mark.parametrize("problem", ["small", "lopsided", "lone"])
def test_steps_of_any_length_with_what_they_lack(problem, theta):
    """(i) and (ii) with ψ(0) + Σδ_j, where θ_t‖Zᵀ(q_{t+1} − q_t)‖² ≤ 2ρ(D_t + δ_t)."""
    Z, best = PROBLEMS[problem]
    run = Followed(Z, best, theta=theta)
    *_, distance = shares.steps_of(run)
    moved = np.linalg.norm(np.diff(run.path.q, axis=0) @ Z, axis=1)
    lacking = np.maximum(0.0, theta * moved**2 / 2 - distance)
    if theta == 1.5:  # long steps, of which some lack nothing
        assert np.any(lacking == 0.0)
    potential = run.psi0 + np.cumsum(lacking)
    assert np.all(best * run.norm[1:] <= (potential - run.psi[1:]) * (1 + ROUNDING))
    assert np.all(run.margin[1:] >= best - potential / run.norm[1:] - ROUNDING)
    if theta == 30.0:  # ψ(0) alone would be refuted
        assert np.any(best * run.norm[1:] > run.psi0 - run.psi[1:])


def test_one_row_is_solved_by_the_first_step():
    """n = 1: ψ(0) = 0 for the exponential loss."""
    run = Followed(np.array([[-0.6, 0.8]]), 1.0)
    assert run.psi0 == 0.0
    assert np.all(run.margin[1:] >= 1.0 - 1e-12)


def test_the_sums_of_the_schedules():
    t = np.arange(1, 10_001)
    assert np.allclose(np.cumsum(1 / shares.paper_schedule(t.size)), t * (t + 3) / 4, rtol=1e-12)
    lam = np.array([equality_lambda()(j) for j in range(2000)])
    assert np.allclose(np.cumsum(1 / lam), lam**-2, rtol=1e-9)  # (B.11) at equality
    roots = np.cumsum(t**-0.5)
    assert np.all(roots >= 2 * (np.sqrt(t + 1) - 1))


# --- the library: every dual set, schedule and loss ----------------------------------------------


SCHEDULED = {
    "paper": {},
    "equality": {"schedule": equality_lambda()},
    "slow": {"schedule": slow_lambda},
    "no momentum": {"schedule": lambda t: 1.0},
    "half steps": {"step": 0.5},
}


@pytest.mark.parametrize("name", SCHEDULED)
@pytest.mark.parametrize("kind", KINDS)
def test_every_dual_set_and_schedule(kind, name):
    problem, *_, margin = problem_of_kind(kind)
    run, best = Run(problem, Momentum(**SCHEDULED[name]), steps=300), margin / problem.radius
    for share in (shares.of_potential, shares.of_length, shares.of_rate):
        assert np.all(share(run, best) <= 1 + ROUNDING)
    # a little more than γ̄ would be refuted
    assert shares.of_potential(run, best).max() > (0.8 if name == "no momentum" else 0.97)
    assert shares.of_length(run, best).max() > 0.04


@pytest.mark.parametrize("loss", ["logistic", "shifted-logistic"])
@pytest.mark.parametrize("kind", ["simplex", "pairs"])
def test_every_loss(kind, loss):
    _, X, y, _, margin = problem_of_kind(kind)
    problem = Problem.from_data(X, y, fit_intercept=False, loss=loss).for_solver(tight=True)
    run, best = Run(problem, Momentum(), steps=300), margin / problem.radius
    for share in (shares.of_potential, shares.of_length, shares.of_rate):
        assert np.all(share(run, best) <= 1 + ROUNDING)


@pytest.mark.parametrize("loss", [Omega(), Logistic(smoothness=1), Brave()], ids=repr)
def test_a_loss_without_a_proof_has_what_its_steps_lacked_added(loss):
    """(i) and (ii) with ψ(0) + Σδ_j, which `Momentum` measures."""
    Z, best = small(60, 4, 0.05, seed=3)
    signs = np.tile([1, -1], 30)
    problem = Problem.from_data(-Z * signs[:, None], signs, fit_intercept=False, loss=loss)
    run = Run(problem.for_solver(tight=True), Momentum(), steps=200)
    potential = np.array(run.potential)
    assert np.all(best * run.norm[1:] <= (potential - run.psi[1:]) * (1 + ROUNDING))
    assert np.all(run.margin[1:] >= best - potential / run.norm[1:] - ROUNDING)


# --- how much of the constant is used -----------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "best", "used"),
    [(20, 0.5, 0.5), (1000, 0.9, 0.75), (10**6, 0.9, 0.78), (10**6, 0.99, 0.9)],
)
def test_copies_of_a_row_refute_a_smaller_constant(n, best, used):
    """γ(w_t) ≥ γ̄ − 4 ln n/(γ̄t(t + 3)) is violated with `used` times its 4, for every n here."""
    run = copies(lopsided, best, n)
    t = np.arange(1, 201)
    slack = 4 * math.log(n) / (best * t * (t + 3))
    assert np.all(run.margin[1:] >= best - slack)
    assert np.any(run.margin[1:] < best - used * slack)


def test_the_library_refutes_three_quarters_of_the_constant():
    """The same on rows that are really there, through `max_margin`."""
    n, best = 1000, 0.98
    Z, signs = lopsided(n, best), np.tile([1, -1], n // 2)
    options = {"method": "momentum", "fit_intercept": False, "tol": 0.0, "max_iter": 60}
    found = max_margin(-Z * signs[:, None], signs, **options).trace["margin"]
    t = np.arange(1, 61)
    slack = 4 * math.log(n) / (best * t * (t + 3))
    assert np.all(found >= best - slack - ROUNDING)
    assert np.any(found < best - 0.75 * slack)


@pytest.mark.parametrize(("k", "used"), [(3, 2 / 3), (4, 2 / 3), (10, 0.6)])
def test_many_classes_refute_a_smaller_constant(k, used):
    """γ_m(U_t) ≥ γ̄_m − 8 ln n/(γ̄_m t(t + 3)), N examples in each class but one."""
    X, y, best = corners(k, 1)
    repeats = np.r_[np.full(k - 1, 400), 1]
    X, y = X[:k].repeat(repeats, axis=0), np.arange(k).repeat(repeats)
    options = {"method": "momentum", "fit_intercept": False, "tol": 0.0, "max_iter": 60}
    found = max_margin(X, y, **options).trace["margin"]
    n, t = y.size * (k - 1), np.arange(1, 61)
    slack = 8 * math.log(n) / (best * t * (t + 3))
    assert np.all(found >= best - slack - ROUNDING)
    assert np.any(found < best - used * slack)
    printed = 4 * (1 + math.log(n)) * (1 + 2 * np.log(t + 1)) / (best * (t + 1) ** 2)
    assert np.all(found >= best - printed)  # the paper's constant 4


# --- what follows -------------------------------------------------------------------------------


def test_the_printed_constants_follow():
    """8 ln n/(t(t + 3)) ≤ 4(1 + ln n)(1 + 2 ln(t + 1))/(t + 1)² for all t, n ≥ 1."""
    n, t = np.geomspace(1, 1e300, 400)[:, None], np.geomspace(1, 1e12, 400).round()
    new = 8 * np.log(n) / (t * (t + 3))
    assert np.all(new <= 4 * (1 + np.log(n)) * (1 + 2 * np.log(t + 1)) / (t + 1) ** 2)
    assert np.all(t * (t + 3) >= (t + 1) ** 2)
    assert 1 + 2 * math.log(2) > 2


def test_scalars_bound_the_best_margin_from_above():
    """γ̄ ≤ (ψ(0) − ψ(Zw_t))/‖w_t‖, which no vector is needed for."""
    for run in (Followed(*small()), copies(lopsided, 0.3, 1000)):
        bound = (run.psi0 - run.psi[1:]) / run.norm[1:]
        assert np.all(bound >= run.best * (1 - ROUNDING))
        assert bound[-1] < 1.02 * run.best


def test_without_separation_the_potential_does_not_rise():
    """γ̄ = 0: (i) says ψ(Zw_t) ≤ ψ(0), and γ(w_t) ≥ −ψ(0)/‖w_t‖."""
    data = make_nonseparable(40, 4, random_state=1)
    Z = -data.y[:, None] * data.X / np.linalg.norm(data.X, axis=1).max()
    run = Followed(Z, 0.0, steps=1000)
    assert np.all(run.psi <= run.psi0)
    assert np.all(run.margin[1:] >= -run.psi0 / run.norm[1:])


# --- warm starts --------------------------------------------------------------------------------


STARTS = {
    "along ū": lambda Z, best, rng: -3.0 * np.linalg.pinv(Z) @ np.full(len(Z), best),
    "against ū": lambda Z, best, rng: 2.0 * np.linalg.pinv(Z) @ np.full(len(Z), best),
    "anywhere": lambda Z, best, rng: 5.0 * rng.normal(size=Z.shape[1]),
    "near 0": lambda Z, best, rng: 0.1 * rng.normal(size=Z.shape[1]),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("problem", ["small", "lopsided", "lone"])
def test_warm_starts(problem, start):
    """γ(w_t) ≥ γ̄ − (ψ(Zw_0) + γ̄‖w_0‖)/‖w_t‖, and the interval for γ̄ with U ≥ γ̄ in it."""
    Z, best = PROBLEMS[problem]
    w_0 = STARTS[start](Z, best, np.random.default_rng(1))
    lam = shares.paper_schedule(600)
    path = dual_path(Z, lam, link=exponential, start=w_0)
    length, psi = np.linalg.norm(w_0), path.psi[0]
    norms = np.linalg.norm(path.w[1:], axis=1)
    margins = -(path.w[1:] @ Z.T).max(axis=1) / norms
    moved = np.linalg.norm(path.w[1:] - w_0, axis=1)
    size = ROUNDING * np.maximum(1.0, np.abs(path.psi[1:]))
    assert np.all(psi - path.psi[1:] >= best * moved - size)
    assert psi + best * length >= 0.0
    assert np.all(margins >= best - (psi + best * length) / norms - ROUNDING)
    squares = np.square(path.mu[1:] @ Z).sum(axis=1)
    upper = np.sqrt(squares)  # an upper bound U on γ̄
    assert np.all(upper >= best * (1 - ROUNDING))
    lost = 2 * lam**2  # 2ρλ_{t−1}²
    assert np.all(squares - lost * (psi + best * length) <= best**2 + ROUNDING)
    low = np.sqrt(np.maximum(0.0, squares - lost * (psi + upper * length)))
    solved = quadratic_lower(squares, lost / 2, psi, length)
    assert np.all(low <= solved + ROUNDING)
    assert np.all(solved <= best + ROUNDING)
    assert solved[-1] > 0.9 * best


def quadratic_lower(squares, a, psi, length):
    """The γ that solves ‖Zᵀμ_t‖² − 2a(ψ(Zw_0) + γ‖w_0‖) = γ², or 0."""
    inside = np.maximum(0.0, squares - 2 * a * psi + (a * length) ** 2)
    return np.maximum(0.0, np.sqrt(inside) - a * length)


def test_warm_starts_cannot_leave_out_the_length():
    """ψ(Zw_0) alone, without γ̄‖w_0‖, would be refuted."""
    Z, best = PROBLEMS["lopsided"]
    w_0 = np.array([20.0, 0.0])  # ū, so that ψ(Zw_0) = ln n − γ̄‖w_0‖ is negative
    path = dual_path(Z, shares.paper_schedule(100), start=w_0)
    assert path.psi[0] < 0.0
    squares = np.square(path.mu[1:] @ Z).sum(axis=1)
    assert np.any(squares - 2 * path.lam**2 * path.psi[0] > best**2)
