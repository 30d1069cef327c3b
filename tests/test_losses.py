"""Losses: ψ and ∇ψ against high precision, stability, what a loss of one's own must keep."""

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from scipy.special import wrightomega

from momentron import max_margin
from momentron.datasets import make_separable
from momentron.dual.losses import LOSSES, Exponential, Logistic, Loss, ShiftedLogistic, as_loss
from momentron.errors import InputError
from momentron.solvers import Momentum
from momentron.solvers.problem import Problem

getcontext().prec = 150


class Omega(Loss):
    """ℓ + ln ℓ = z, so that ℓ′ = ℓ/(1 + ℓ): all that another loss takes. ‖∇ψ‖₁ ≥ 1, ρ = n."""

    name = "omega"

    def log_value(self, z):
        return z - wrightomega(z)

    def log_slope(self, z):
        value = wrightomega(z)
        return z - value - np.log1p(value)

    def inverse(self, log_value):
        return float(log_value + np.exp(log_value))

    def rho(self, n):
        return float(n)


class Quadratic(Loss):
    """ℓ(z) = (1 + e^z)² − 1: tail 2e^z, but ‖∇ψ‖₁ < 1, since ℓ′ is a convex function of ℓ."""

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
    if loss not in ("logistic", "shifted-logistic"):
        raise KeyError(f"say here what ψ is for {loss!r}")
    shift = Decimal(math.log(len(values)) if loss == "shifted-logistic" else 0.0)
    total = sum((1 + (v - shift).exp()).ln() for v in values)
    return (total.exp() - 1).ln() + shift


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shift", [-200.0, -37.0, -5.0, 0.0, 3.0, 50.0])
def test_psi_against_high_precision(loss, shift):
    scores = np.array([-1.0, 0.5, 2.0, -30.0]) + shift
    _, psi = as_loss(loss).for_size(4).link(scores)
    assert psi == pytest.approx(float(reference_psi(loss, scores)), rel=1e-13, abs=1e-13)


SIZED = {name: kind().for_size(6) for name, kind in LOSSES.items()}
ALL = [*SIZED.values(), ShiftedLogistic(0.7), Quadratic(), Omega()]
STABLE = [Exponential(), Logistic(), ShiftedLogistic(0.7)]


@pytest.mark.parametrize("loss", ALL, ids=lambda loss: loss.name)
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


@pytest.mark.parametrize("loss", STABLE, ids=lambda loss: loss.name)
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
    largest = float(loss.log_value(scores[[scores.argmax()]])[0])
    assert psi <= loss.inverse(largest + math.log(4.0)) + 1e-6 * (1.0 + abs(psi))  # Σℓ ≤ 4 max ℓ


def test_huge_scores_of_both_signs():
    for loss in STABLE:
        q, psi = loss.link(np.array([-1e8, 0.0, 1e8]))
        assert q[2] == pytest.approx(1.0)
        assert q[0] == 0.0
        assert psi == pytest.approx(1e8)


def test_rho():
    assert Exponential().rho(50) == 1.0
    assert Logistic().rho(50) == 50.0
    assert Logistic(smoothness=1).rho(50) == 1.0
    assert ShiftedLogistic().rho(50) == ShiftedLogistic(math.log(50)).rho(50)
    assert 1.0 < ShiftedLogistic().rho(50) < math.e / (math.e - 1)
    assert ShiftedLogistic(0.0).rho(50) == pytest.approx(25.0)
    assert ShiftedLogistic(1e5).rho(50) == pytest.approx(1.0)
    assert ShiftedLogistic(-1e5).rho(50) == pytest.approx(50.0)


def test_what_is_proved_and_for_whom():
    class Mine(Exponential):
        pass

    assert Exponential().is_proved(9)
    assert not Mine().is_proved(9)
    assert Logistic().is_proved(9)
    assert Logistic(smoothness=4.6).is_proved(9)  # n/2 would do: the mass of the first weights
    assert not Logistic(smoothness=4.5).is_proved(9)
    assert ShiftedLogistic().is_proved(9)
    assert not Omega().is_proved(9)


def test_reprs_make_the_same_loss():
    assert repr(Logistic()) == "Logistic()"
    assert repr(Logistic(smoothness=1)) == "Logistic(smoothness=1.0)"
    assert repr(ShiftedLogistic(2.0)) == "ShiftedLogistic(shift=2.0)"


# --- a loss of one's own -----------------------------------------------------------------------


def run_momentum(loss, steps=400, n=6, d=2, margin=0.8):
    """(γ̄, the intervals that were claimed, those that ρ and ψ(0) alone would give)."""
    data = make_separable(n, d, n_support=3, margin=margin, random_state=3)
    problem = Problem.from_data(data.X, data.y, fit_intercept=False, loss=loss).for_solver(
        tight=True
    )
    solver = Momentum()
    state = solver.init(problem)
    claimed, unmeasured = [], []
    for _ in range(steps):
        solver.step(problem, state)
        claimed.append(solver.interval(problem, state))
        square = np.linalg.norm(state.z_mu) ** 2
        slack = 2 * state.dual_rate * problem.rho * problem.psi_zero
        unmeasured.append((max(0.0, square - slack) ** 0.5, square**0.5))
    return data.margin / problem.radius, claimed[1:], unmeasured[1:]


def misses(best, intervals):
    return sum(not low <= best + 1e-10 <= high + 2e-10 for low, high in intervals)


def test_a_loss_that_keeps_the_contract_has_its_interval():
    best, claimed, _ = run_momentum(Omega())
    assert misses(best, claimed) == 0
    assert claimed[-1][0] > 0.99 * best


def test_a_loss_with_too_little_mass_has_no_interval():
    """Without the check, the theorem's interval would miss γ̄."""
    best, claimed, unmeasured = run_momentum(Quadratic())
    assert all(interval is None for interval in claimed)
    assert misses(best, unmeasured) > 0
    data = make_separable(6, 2, n_support=3, margin=0.8, random_state=3)
    options = {"method": "momentum", "fit_intercept": False, "max_iter": 60}
    trace = max_margin(data.X, data.y, loss=Quadratic(), **options).trace
    assert np.isnan(trace["theorem_lower"]).all()
    trace = max_margin(data.X, data.y, loss=Omega(), **options).trace
    assert np.isfinite(trace["theorem_lower"][1:]).all()


class Brave(Exponential):
    """The exponential loss with a ρ that is far too small."""

    name = "brave"

    def rho(self, n):
        return 0.002


def test_a_wrong_smoothness_costs_width_but_not_truth():
    best, claimed, unmeasured = run_momentum(Brave(), n=60, d=4, margin=0.05)
    assert misses(best, claimed) == 0
    assert misses(best, unmeasured) > 0


class Liar(Exponential):
    """Weights that are no gradient, and a potential that is none: only ψ ≥ max and mass ≥ 1."""

    name = "liar"

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def link(self, scores):
        q, psi = super().link(scores + self.rng.normal(scale=3.0, size=scores.size))
        psi = max(psi, scores.max()) + self.rng.exponential()
        return q * (1.0 + self.rng.random()), float(psi)


@pytest.mark.parametrize("seed", range(5))
def test_not_even_a_lie_makes_the_interval_wrong(seed):
    """Its proof takes the numbers as they are: nowhere that q is the gradient of ψ."""
    best, claimed, unmeasured = run_momentum(Liar(seed), n=30, d=3, margin=0.3)
    assert misses(best, claimed) == 0
    assert all(interval is not None for interval in claimed)
    assert misses(best, unmeasured) > 0


def test_a_loss_of_one_s_own_has_no_interval_with_intercepts():
    data = make_separable(20, 3, margin=0.3, fit_intercept=True, random_state=0)
    options = {"method": "momentum", "max_iter": 20}
    assert np.isnan(
        max_margin(data.X, data.y, loss=Brave(), **options).trace["theorem_lower"]
    ).all()
    plain = max_margin(data.X, data.y, **options).trace["theorem_lower"]
    assert np.isfinite(plain[1:]).all()


@pytest.mark.parametrize("loss", ["shifted-logistic", Logistic(smoothness=1), Omega()], ids=repr)
def test_a_resumed_run_keeps_what_was_measured(loss, tmp_path):
    data = make_separable(40, 3, margin=0.3, random_state=0)
    options = {"method": "momentum", "fit_intercept": False, "loss": loss, "tol": 0.0}
    whole = max_margin(data.X, data.y, max_iter=60, **options).trace
    path = tmp_path / "run"
    for most in (25, 60):
        parts = max_margin(data.X, data.y, max_iter=most, checkpoint=path, **options).trace
    for column in ("margin", "theorem_lower", "theorem_upper"):
        assert np.array_equal(parts[column], whole[column], equal_nan=True)


def test_the_logistic_loss_with_the_steps_of_the_exponential():
    best, claimed, _ = run_momentum(Logistic(smoothness=1), n=1000, d=5, margin=0.3)
    assert misses(best, claimed) == 0
    few, claimed, _ = run_momentum(Logistic(smoothness=1))
    assert misses(few, claimed) == 0
    assert claimed[-1][0] > 0.99 * few


class Falling(Omega):
    name = "falling"

    def log_value(self, z):
        return -np.asarray(z)


class Steep(Omega):
    name = "steep"

    def log_slope(self, z):
        return super().log_slope(z) + 1.0


class Lost(Omega):
    name = "lost"

    def inverse(self, log_value):
        return log_value


class Broken(Omega):
    name = "broken"

    def log_value(self, z):
        return np.full(np.shape(z), np.nan)


class Flat(Omega):
    name = "flat"

    def rho(self, n):
        return 0.0


class Nameless(Omega):
    name = None


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (Falling(), "log_value must increase"),
        (Steep(), "log_slope is not the logarithm of the slope"),
        (Lost(), "inverse does not undo log_value"),
        (Broken(), "log_value must give one finite number per score"),
        (Flat(), r"rho\(n\)=0.0 must be a positive"),
        (Nameless(), "Nameless has no name"),
        (Omega, r"pass an instance: loss=Omega\(\)"),
    ],
)
def test_what_is_no_loss_is_refused(loss, words):
    with pytest.raises(InputError, match=words):
        max_margin([[1.0], [-1.0]], [1, 0], method="momentum", fit_intercept=False, loss=loss)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Logistic(smoothness=0.0), "smoothness=0.0 must be a positive"),
        (lambda: Logistic(smoothness="n"), "smoothness='n' must be a positive"),
        (lambda: Logistic(smoothness=math.nan), "smoothness=nan must be"),
        (lambda: ShiftedLogistic(math.inf), "shift=inf must be a finite number"),
        (lambda: ShiftedLogistic(True), "shift=True must be a finite number"),
        (lambda: ShiftedLogistic().log_value(np.zeros(2)), r"for_size\(n\)"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_unknown_loss():
    with pytest.raises(InputError, match="choose one of"):
        as_loss("hinge")
