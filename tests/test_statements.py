"""Statements of the paper besides its theorems: identities, lemmas for other schedules, sections
1, 3.1 and 5. Each inequality has the paper's constant, or ours where the paper's has a slip."""

import math

import numpy as np
import pytest
import shares
from literal import algorithm_1, dual_path, exponential, lone, lopsided
from many_classes import blobs, explicit, orthogonal
from margins_known import KINDS, problem_of
from shares import Followed, copies
from test_theorems import assert_lemmas, equality_lambda, holds, slow_lambda

from momentron import max_margin
from momentron.datasets import make_separable
from momentron.dual.losses import LOSSES, Logistic, as_loss
from momentron.solvers import GradientDescent, Momentum
from momentron.solvers.schedules import paper_lambda

STEPS = 200


def rows_of_Z(problem):
    return np.array([problem.gradient(e).ravel() for e in np.eye(problem.size)])


def small(n=60, d=6, margin=0.2, seed=4):
    """(Z, γ̄) with ‖z_i‖ ≤ 1."""
    data = make_separable(n, d, n_support=4, margin=margin, random_state=seed)
    radius = np.linalg.norm(data.X, axis=1).max()
    return -data.y[:, None] * data.X / radius, data.margin / radius


def margins(Z, w):
    return -(w @ Z.T).max(axis=-1) / np.linalg.norm(w, axis=-1)


# --- Algorithm 1 and its momentum ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["simplex", "pairs"])
def test_algorithm_1_as_the_paper_writes_it(kind):
    problem, *_ = problem_of(kind)
    Z, solver = rows_of_Z(problem), Momentum()
    w, q, g = algorithm_1(Z, STEPS)
    state = solver.init(problem)
    for t in range(STEPS):
        solver.step(problem, state)
        scale = max(1.0, np.linalg.norm(w[t + 1]))
        assert np.linalg.norm(state.now.w.ravel() - w[t + 1]) <= 1e-12 * scale
        assert np.linalg.norm(state.g.ravel() - g[t]) <= 1e-12 * scale
        assert np.abs(state.now.weights - q[t + 1]).max() <= 1e-12 * scale


@pytest.mark.parametrize("kind", KINDS)
def test_the_momentum_is_a_weighted_sum_of_gradients(kind):
    """Lemma 3.4: g_t = Σ_j j/(t+1) Zᵀq_j, and Zᵀμ_t = 2 g_t/t, as vectors."""
    problem, *_ = problem_of(kind)
    solver = Momentum()
    state = solver.init(problem)
    total = np.zeros_like(state.now.w)
    for t in range(STEPS):
        total += t * problem.gradient(state.now.weights)  # q_t before the step
        solver.step(problem, state)
        assert np.allclose(state.g, total / (t + 1), rtol=0, atol=1e-12 * (t + 1))
        image = problem.gradient(state.mu)
        assert np.allclose(image, state.z_mu, rtol=0, atol=1e-12)
        if t > 0:
            assert np.allclose(image, 2 * state.g / t, rtol=0, atol=1e-12)


@pytest.mark.parametrize("schedule", [equality_lambda(), slow_lambda], ids=["equality", "slow"])
def test_the_momentum_of_other_schedules(schedule):
    """(C.5) and (C.6): g_t = β_t (g_{t−1} + Zᵀq_t), and Zᵀμ_t = λ_{t−1}(g_{t−1} + Zᵀq_t)."""
    problem, *_ = problem_of("simplex")
    solver = Momentum(schedule=schedule)
    state = solver.init(problem)
    solver.step(problem, state)
    for t in range(1, STEPS):
        before, gradient = state.g.copy(), problem.gradient(state.now.weights)
        solver.step(problem, state)
        last, lam = schedule(t - 1), schedule(t)
        sum_ = before + gradient
        assert np.allclose(state.g, last * (1 - lam) / lam * sum_, rtol=1e-12, atol=1e-12)
        assert np.allclose(problem.gradient(state.mu), last * sum_, rtol=1e-9, atol=1e-12)
        if lam != last:  # λ_t for λ_{t−1} would be wrong
            assert not np.allclose(state.g, (1 - lam) * sum_, rtol=1e-12, atol=1e-12)
            assert not np.allclose(problem.gradient(state.mu), lam * sum_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_normalised_gradient(loss):
    """(2.1) to (2.3) and (C.1): Zᵀ∇ψ(Zw) = ∇R(w)/(ℓ′(ψ)/n), with ∇ψ > 0 and ψ = ℓ⁻¹(nR)."""
    Z, _ = small()
    w = np.random.default_rng(0).normal(size=Z.shape[1])
    loss = as_loss(loss).for_size(len(Z))
    q, psi = loss.link(Z @ w)
    risk = np.exp(loss.log_value(Z @ w)).mean()
    gradient = Z.T @ np.exp(loss.log_slope(Z @ w)) / len(Z)
    slope = math.exp(loss.log_slope(np.array([psi]))[0])
    assert np.all(q > 0.0)
    assert np.exp(loss.log_value(np.array([psi])))[0] == pytest.approx(len(Z) * risk, rel=1e-12)
    assert np.allclose(Z.T @ q, gradient / (slope / len(Z)), rtol=1e-12)
    if loss.name == "exponential":
        assert np.allclose(Z.T @ q, gradient / risk, rtol=1e-12)


# --- the lemmas for other schedules ----------------------------------------------------------


def random_lambda(seed, start=1.0):
    """λ_t in (0, 1] that need not keep (B.10)."""
    lam = np.random.default_rng(seed).uniform(0.02, 1.0, STEPS)
    lam[0] = start
    return lam


SCHEDULES = {
    "paper": [paper_lambda(t) for t in range(STEPS)],
    "equality": [equality_lambda()(t) for t in range(STEPS)],
    "slow": [slow_lambda(t) for t in range(STEPS)],
    "no momentum": np.ones(STEPS),
    "random": random_lambda(0),
    "random too": random_lambda(1),
}


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_lemmas_on_psi_and_the_norm_for_any_schedule(name, loss):
    """Lemmas 3.5 and 3.6, C.7 and C.11: they ask for λ_0 = 1 and no more."""
    Z, best = small()
    run = Followed(Z, best, lam=SCHEDULES[name], loss=shares.LOSSES[loss])
    assert_lemmas(run, best)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_second_half_of_lemma_c_12(loss):
    """ψ(0) takes the place of ln n; for the exponential loss it is ln n."""
    run = Followed(*small(), loss=shares.LOSSES[loss])
    if loss == "exponential":
        assert run.psi0 == pytest.approx(math.log(run.n))
    assert holds(shares.of_lemma_c_12(run))
    lam, t = run.lam, np.arange(1, STEPS + 1)
    assert np.all(1 / lam[:-1] ** 2 - (1 - lam[1:]) / lam[1:] ** 2 >= 0.0)
    assert np.all(np.cumsum(lam) <= 2 * np.log(t + 1))


@pytest.mark.parametrize(("Z", "best"), [small(), (lopsided(60, 0.3), 0.3)], ids=["small", "hard"])
def test_the_inequalities_inside_the_proofs(Z, best):
    """(3.8) to (3.10), (C.8) to (C.10) and (C.13), for the exponential loss and λ_t = 2/(t + 2)."""
    run = Followed(Z, best)
    assert holds(shares.of_3_8(run))
    assert holds(shares.of_potential(run, best))  # (3.9) with γ̄ for γ̄/2, which is more
    assert holds(shares.of_last_display(run, best))  # (3.10)
    assert holds(shares.of_c_10(run))
    assert holds(shares.of_c_13(run))
    path, lam, psi = run.path, run.lam, run.psi
    phi_mu, phi_nu = run.z_mu**2 / 2, run.z_nu**2 / 2
    scores, q_bar = path.w @ Z.T, np.random.default_rng(0).dirichlet(np.ones(len(Z)))
    kl = (q_bar * (np.log(q_bar) - scores + psi[:, None])).sum(axis=1)  # D(q̄, q_t)
    seen = path.q.min(axis=1) > 1e-200  # no weight has vanished yet
    assert seen[:10].all()
    assert np.allclose(kl[seen], (q_bar * np.log(q_bar / path.q[seen])).sum(axis=1), rtol=1e-9)
    slope = path.nu @ Z @ Z.T @ q_bar  # ⟨∇φ(ν_t), q̄⟩
    assert np.allclose(-np.diff(kl), -np.diff(psi) - slope / lam, rtol=1e-9, atol=1e-9)  # (C.9)
    right = (1 - lam) / lam * phi_mu[:-1] - phi_mu[1:] / lam - lam * np.diff(kl)
    assert np.all(phi_nu - slope <= right + 1e-9)  # (C.8)
    assert not np.allclose(-np.diff(kl), -np.diff(psi) - 0.99 * slope / lam, rtol=1e-9, atol=1e-9)
    assert not np.allclose(-np.diff(kl), -0.99 * np.diff(psi) - slope / lam, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "shifted-logistic"])
@pytest.mark.parametrize("n", [6, 60])
def test_the_steps_of_lemma_c_7_for_other_losses(loss, n):
    """(C.8) to (C.10) where ρ is not 1; a hundredth more than 1/ρ is refuted."""
    Z, best = small(n, 3, 0.3)
    run, loss = Followed(Z, best, loss=as_loss(loss)), as_loss(loss).for_size(n)
    rho, path, lam = run.rho, run.path, run.lam
    fell, scores = -np.diff(path.psi), path.w @ Z.T
    phi_mu, phi_nu = run.z_mu**2 / 2, run.z_nu**2 / 2
    p_bar = np.random.default_rng(0).normal(size=n)
    q_bar, psi_bar = loss.link(p_bar)
    distance = path.psi - psi_bar - (scores - p_bar) @ q_bar  # D(q̄, q_t) with q̄ = ∇ψ(p̄)
    assert np.all(distance > 0.0)
    slope = path.nu @ Z @ Z.T @ q_bar
    assert np.allclose(-np.diff(distance), fell - slope / (rho * lam), atol=1e-9)  # (C.9)
    known = (1 - lam) / lam * phi_mu[:-1] - phi_mu[1:] / lam
    change = -lam * np.diff(distance)
    assert np.all(phi_nu - slope <= known + rho * change + 1e-10)  # (C.8)
    assert np.any(phi_nu - slope > known + 1.01 * rho * change + 1e-10)
    assert holds(shares.of_c_10(run))
    assert shares.of_c_10(run).max() > 1 / 1.01


@pytest.mark.parametrize(("n", "best"), [(20, 0.5), (200, 0.2), (1000, 0.05)])
def test_three_quarters_of_the_margin_come_soon(n, best):
    """Section 1.1 says γ̄/4 after 4√(ln n)/γ̄ steps: it is ¾γ̄, and half of the steps are too few."""
    assert 0.5 < shares.steps_to_three_quarters(lopsided, best, n) <= 1.0


# --- section 3.1 -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["simplex", "pairs"])
def test_gradient_descent_is_entropic_mirror_descent(kind):
    """q_{t+1} ∝ q_t ⊙ exp(−θ_t ZZᵀq_t) with θ_t = η_t R(w_t); R(w_t) does not increase."""
    problem, *_ = problem_of(kind)
    Z, solver = rows_of_Z(problem), GradientDescent(step=1.0)
    state = solver.init(problem)
    q, risk = np.full(problem.size, 1 / problem.size), 1.0
    for _ in range(STEPS):
        q = q * np.exp(-risk * (Z @ (Z.T @ q)))
        q /= q.sum()
        solver.step(problem, state)
        assert np.abs(state.now.weights - q).max() <= 1e-12
        before, risk = risk, np.exp(Z @ state.now.w.ravel()).mean()
        assert risk <= before
        assert problem.risk(state.now.psi) == pytest.approx(risk, rel=1e-10)


def test_without_separation_the_gradient_vanishes():
    """Section 3.1: φ(q_t) = ‖∇R‖²/(2R²) → 0 where min φ = 0."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 3))
    Z /= np.linalg.norm(Z, axis=1).max()
    Z[:3] = -Z[3:6]  # nothing separates a row from its opposite
    path = dual_path(Z, np.ones(3000))
    lengths = np.linalg.norm(path.q @ Z, axis=1)
    assert lengths[-1] < 1e-3 < lengths[0]
    assert np.all(np.diff(path.psi) <= 1e-12)


@pytest.mark.parametrize(("n", "best"), [(20, 0.5), (60, 0.3), (200, 0.2), (10**6, 0.9)])
def test_without_momentum_the_margin_comes_like_1_over_t(n, best):
    """Sections 1 and 3.1: γ̄ − γ(w_t) ≤ ln n/(γ̄t), and w_t/‖w_t‖ tends to ū.

    As −Zᵀq̄ = γ̄ū, the cosine is at least γ(w)/γ̄.
    """
    run = copies(lopsided, best, n, lam=np.ones(2000))  # ū = (1, 0)
    used = shares.of_rate(run, best)
    assert holds(used)
    assert used[-1] > 0.45  # from below, too: no faster than 1/t
    cosine = run.path.w[1:, 0] / run.norm[1:]
    assert np.all(cosine >= run.margin[1:] / best - 1e-12)
    assert cosine[-1] > 0.9999


@pytest.mark.parametrize(("n", "best"), [(20, 0.5), (10**6, 0.9)])
def test_steps_1_over_root_t_have_the_rate_1_over_root_t(n, best):
    """Section 1: γ̄ − γ(w_t) ≤ ln n/(2γ̄(√(t + 1) − 1)), for θ_t = 1/√(t + 1)."""
    t = np.arange(1, 4001)
    run = copies(lopsided, best, n, lam=np.ones(t.size), theta=t**-0.5)
    assert np.all(2 * (np.sqrt(t + 1) - 1) <= run.S)
    used = shares.of_rate(run, best)
    assert holds(used)
    assert used[-1] > 0.45  # no faster than 1/√t


@pytest.mark.parametrize("rows", [lopsided, lone])
@pytest.mark.parametrize(("n", "best"), [(3, 0.9), (20, 0.9), (20, 0.3)])
def test_gradient_descent_has_the_rate_1_over_log_t(rows, n, best):
    """Section 1: θ_t = R(w_t), so γ̄ − γ(w_t) ≤ ln n/‖w_t‖ ≤ ln n/ln(1 + γ̄t/n)."""
    run = shares.Descended(rows, best, n, 4000)
    assert holds(run.of_length())
    assert np.all(run.norm >= np.log1p(best * run.t / n) * (1 - 1e-9))
    assert holds(run.of_rate())
    assert np.all(np.diff(run.risk) <= 0.0)
    late = (best - run.margin) * np.log(run.t + 1)
    assert late[-1] > 0.5 * late[len(late) // 10]  # no faster than 1/ln t


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_optimal_weights_give_the_optimal_direction(fit_intercept, seed):
    """Lemma A.1: −Zᵀq̄ = γ̄ ū (section 3.1 has it without the sign)."""
    data = make_separable(50, 5, margin=0.3, fit_intercept=fit_intercept, random_state=seed)
    result = max_margin(data.X, data.y, fit_intercept=fit_intercept, tol=1e-10)
    image = result.full_dual() @ (-data.y[:, None] * data.X)
    unit = result.coef / np.linalg.norm(result.coef)
    assert np.allclose(-image, data.margin * unit, rtol=0, atol=1e-7)


# --- section 5 -------------------------------------------------------------------------------


def test_the_multiclass_risk_as_a_risk_of_the_reduction():
    """R_m(U)/(k − 1) = (1/n) Σ ℓ(√2 ⟨z, U⟩) with z = x (e_j − e_c)ᵀ/√2: sign and √2 are ours."""
    X, y = blobs(2, n=20, d=3)
    k, Z = 4, -explicit(X, y)[0] / math.sqrt(2)
    U = np.random.default_rng(0).normal(size=(3, k))
    F = X @ U
    differences = F - F[np.arange(20), y][:, None]
    risk = np.exp(differences[differences != 0.0]).sum() / 20
    assert risk / (k - 1) == pytest.approx(np.exp(math.sqrt(2) * Z @ U.ravel()).mean())
    # ∇R_m/R_m at U is √2 Zᵀq at √2 U: θ = 1 on Z is θ = ½ on R_m
    weights = np.exp(differences)
    weights[np.arange(20), y] -= weights.sum(axis=1)
    gradient = X.T @ weights / 20
    image = exponential(math.sqrt(2) * Z @ U.ravel())[0] @ Z
    assert np.allclose(gradient.ravel() / risk, math.sqrt(2) * image, rtol=1e-10)


def test_how_much_of_the_multiclass_constant_is_used():
    """Theorem 5.1 with its 4, and with 8 ln n/(γ̄_m t(t + 3)), which is less."""
    used, sharper = [], []
    for seed in range(28):
        rng, k = np.random.default_rng(seed), 3 + seed % 7
        lengths = 10 ** rng.uniform(-1.0 - seed % 2, 0.0, k)
        X, y, best = orthogonal(rng, lengths / lengths.max(), k)
        trace = max_margin(X, y, fit_intercept=False, method="momentum", max_iter=150, tol=0).trace
        n, t = y.size * (k - 1), np.arange(1, len(trace) + 1)
        unit = (1 + math.log(n)) * (1 + 2 * np.log(t + 1)) / (best * (t + 1) ** 2)
        used.append(((best - trace["margin"]) / (4 * unit)).max())
        slack = 8 * math.log(n) / (best * t * (t + 3))
        sharper.append(((best - trace["margin"]) / slack).max())
    assert 0.05 < max(used) < 1.0
    assert 0.2 < max(sharper) < 1.0


@pytest.mark.parametrize(
    ("Z", "best"), [small(1000, 6, 0.3, seed=1), (lopsided(2000, 0.3), 0.3)], ids=["1000", "2000"]
)
def test_logistic_statements_where_n_is_large(Z, best):
    """ρ = n, ‖q‖₁ between 1 and n, ψ(0) = ln(2ⁿ − 1), and the theorem with 4ρψ(0)."""
    run = Followed(Z, best, loss=Logistic())
    n = run.n
    assert run.rho == n
    assert run.psi0 == pytest.approx(n * math.log(2))
    assert np.all((run.mass >= 1) & (run.mass <= n))
    assert run.mass[0] == pytest.approx(n / 2)  # where the paper's proof takes 1
    assert_lemmas(run, best)
    assert holds(shares.of_rate(run, best))
    assert holds(shares.of_proposition(run, best))
    assert holds(shares.of_interval(run, best))
    assert np.all(run.z_mu >= best * (1 - 1e-12))
