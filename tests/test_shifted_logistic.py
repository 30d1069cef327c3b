"""The shifted logistic loss: each step of its proof, and its theorem for every t at n ≥ 1,000."""

import math

import numpy as np
import pytest
import shares
from literal import lopsided
from shares import Followed, copies
from test_statements import small
from test_theorems import assert_lemmas, holds

from momentron import InputError, max_margin
from momentron.dual.losses import Exponential, Logistic, ShiftedLogistic

E = math.e / (math.e - 1.0)  # 1.58, the limit of ρ
SIZES = [1, 2, 10, 1000, 10**6]


def draw(rng, n, reach=8.0):
    """(loss, scores with ψ ≤ ψ(0)): most of them far on the good side, a few on the bad."""
    loss = ShiftedLogistic().for_size(n)
    scores = rng.normal(scale=reach, size=n)
    while loss.link(scores)[1] > loss.link(np.zeros(n))[1]:
        scores = scores - rng.exponential(1.0)
    return loss, scores


@pytest.mark.parametrize("n", SIZES)
def test_rho_and_the_first_potential_do_not_suffer_from_n(n):
    loss = ShiftedLogistic().for_size(n)
    q, psi = loss.link(np.zeros(n))
    assert q.sum() == pytest.approx(loss.rho(n), rel=1e-12)
    assert 1.0 <= loss.rho(n) <= E + 1e-12
    assert psi <= math.log(n) + math.log(math.e - 1.0) + 1e-9
    if n >= 1000:
        assert loss.rho(n) > E - 0.0012
        assert psi > math.log(n) + 0.54


@pytest.mark.parametrize("n", [2, 7, 50])
def test_the_mass_is_largest_at_the_start(n):
    """1 ≤ ‖∇ψ‖₁ ≤ n(1 − e^(−V/n))/(1 − e^(−V)), which grows with V, where ψ ≤ ψ(0)."""
    rng = np.random.default_rng(n)
    for _ in range(200):
        loss, scores = draw(rng, n)
        q, _ = loss.link(scores)
        V = np.exp(loss.log_value(scores)).sum()
        bound = n * math.expm1(-V / n) / math.expm1(-V)
        assert 1.0 - 1e-12 <= q.sum() <= bound * (1 + 1e-12)
        assert bound <= loss.rho(n)
    values = np.geomspace(1e-6, 50.0 * n, 400)
    assert np.all(np.diff(np.expm1(-values / n) / np.expm1(-values)) > -1e-15)


def hessian(loss, scores):
    q, psi = loss.link(scores)
    slopes, slope = np.exp(loss.log_slope(scores)), math.exp(loss.log_slope(np.array([psi]))[0])
    return np.diag(q * (1 - slopes)) - (1 - slope) * np.outer(q, q), q


@pytest.mark.parametrize("n", [2, 5, 9])
def test_the_mass_bounds_the_curvature(n):
    """0 < vᵀ∇²ψ v ≤ ‖∇ψ‖₁ ‖v‖∞², anywhere: the largest is at a vertex of the cube."""
    rng = np.random.default_rng(n)
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * n)).reshape(n, -1)
    for _ in range(60):
        loss = ShiftedLogistic(float(rng.normal()))
        scores = rng.normal(scale=3.0, size=n)
        H, q = hessian(loss, scores)
        assert np.linalg.eigvalsh(H)[0] > -1e-15
        assert np.einsum("is,ij,js->s", signs, H, signs).max() <= q.sum() * (1 + 1e-12)
        step = 1e-5
        for i in range(n):
            moved = scores + step * np.eye(n)[i]
            assert np.allclose((loss.link(moved)[0] - q) / step, H[i], atol=1e-4)


@pytest.mark.parametrize("n", [2, 6, 40])
def test_the_mass_bounds_the_smoothness_between_any_two_points(n):
    """D(q′, q) ≥ ‖q′ − q‖₁²/(2m), m the larger mass: what Lemma B.3 needs, and no more."""
    rng, tightest = np.random.default_rng(n), math.inf
    for _ in range(400):
        loss = ShiftedLogistic().for_size(n)
        p = rng.normal(scale=rng.choice([0.3, 1.0, 5.0]), size=n)
        other = p + rng.normal(scale=rng.choice([0.1, 1.0, 10.0]), size=n)
        (q, psi), (q_other, psi_other) = loss.link(p), loss.link(other)
        distance = psi - psi_other - q_other @ (p - other)
        square = np.abs(q - q_other).sum() ** 2
        mass = max(q.sum(), q_other.sum())
        assert distance >= square / (2 * mass) - 1e-12
        tightest = min(tightest, 2 * mass * distance / square)
    assert tightest < 2.0  # the constant is not idle


LARGE = {
    "2000": lambda: Followed(*small(2000, 6, 0.1), loss=ShiftedLogistic()),
    "5000": lambda: Followed(*small(5000, 6, 0.05), loss=ShiftedLogistic()),
    "3000 lopsided": lambda: Followed(lopsided(3000, 0.3), 0.3, loss=ShiftedLogistic()),
    "copies": lambda: copies(lopsided, 0.99, 10**6, loss=ShiftedLogistic()),
}


@pytest.mark.parametrize("name", LARGE)
def test_theorem_for_every_t(name):
    """γ(w_t) ≥ γ̄ − 4ρψ(0)/(γ̄t(t + 3)), with the lemmas behind it."""
    run = LARGE[name]()
    assert np.all((run.mass >= 1 - 1e-10) & (run.mass <= run.rho))
    assert np.all(run.psi <= run.psi0)
    assert_lemmas(run, run.best)
    assert holds(shares.of_rate(run, run.best))
    assert holds(shares.of_proposition(run, run.best))
    assert holds(shares.of_interval(run, run.best))
    assert np.all(run.z_mu >= run.best * (1 - 1e-12))
    if name == "copies":
        assert shares.of_rate(run, run.best).max() > 0.85  # less would be refuted


def test_the_interval_of_a_run_holds_and_closes():
    Z, best = small(2000, 6, 0.3, seed=1)
    signs = np.tile([1, -1], 1000)
    options = {"method": "momentum", "fit_intercept": False, "tol": 0.0, "max_iter": 600}
    shares = {}
    for loss in ("shifted-logistic", "logistic", "exponential"):
        trace = max_margin(-Z * signs[:, None], signs, loss=loss, **options).trace
        low, high = trace["theorem_lower"][1:], trace["theorem_upper"][1:]
        assert np.all(low <= best * (1 + 1e-10))
        assert np.all(high >= best * (1 - 1e-10))
        shares[loss] = trace["margin"][-1] / best, low[-1] / best
    assert shares["shifted-logistic"][0] > 0.998 > shares["logistic"][0]
    assert shares["shifted-logistic"][1] > 0.9 > shares["logistic"][1] == 0.0


def test_a_large_shift_is_the_exponential_loss_and_none_the_logistic():
    scores = np.random.default_rng(0).normal(size=20)
    for shifted, plain in (
        (ShiftedLogistic(60.0), Exponential()),
        (ShiftedLogistic(0), Logistic()),
    ):
        (q, psi), (q_plain, psi_plain) = shifted.link(scores), plain.link(scores)
        assert np.allclose(q, q_plain, rtol=1e-12)
        assert psi == pytest.approx(psi_plain, rel=1e-12)


def test_it_goes_without_intercept_and_in_memory_only():
    X, y = [[1.0], [-1.0], [2.0]], [1, 0, 1]
    with pytest.raises(InputError, match="set fit_intercept=False"):
        max_margin(X, y, method="momentum", loss="shifted-logistic")
    with pytest.raises(InputError, match="has no meaning for method='auto'"):
        max_margin(X, y, loss="shifted-logistic")
    many = max_margin(
        np.eye(3), [0, 1, 2], method="momentum", loss="shifted-logistic", fit_intercept=False
    )
    assert many.lower <= 1 / math.sqrt(2) <= many.upper
