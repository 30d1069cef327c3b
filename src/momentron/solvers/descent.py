"""Methods that follow a loss: gradient descent, and Algorithm 1 with its dual.

Gradient descent on the empirical risk has O(1/ln t); along normalised gradients it has O(1/t) with
θ = 1, and O(1/√t) with θ_t = 1/√(t + 1). Batch momentum is dual Nesterov acceleration in disguise.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from momentron.solvers.schedules import (
    Schedule,
    as_schedule,
    checked_lambda,
    checked_step,
    inverse_root_step,
    paper_lambda,
)
from momentron.solvers.solver import (
    DEFAULTS,
    Candidates,
    Evaluation,
    MarginProblem,
    Primal,
    RunOptions,
    Solver,
    State,
)


@dataclass
class DescentState(State):
    """w_t with what its evaluation found: scores, dual weights, ψ, and a start for the next one;
    and weights μ with their image Zᵀμ, which together are an upper bound.
    """

    w: np.ndarray
    scores: np.ndarray
    q: np.ndarray
    psi: float
    near: np.ndarray
    mu: np.ndarray
    z_mu: np.ndarray

    @classmethod
    def begin(cls, problem: MarginProblem, options: RunOptions) -> Self:
        first = problem.start(options.start)
        found = first.w, first.scores, first.weights, first.psi, first.near
        return cls(*found, problem.no_weights(), np.zeros_like(first.w))

    def evaluate(self, problem: MarginProblem) -> Evaluation:
        """Bring the rest in line with a w that has moved."""
        found = problem.evaluate(self.w, self.near)
        self.scores, self.q, self.psi = found.scores, found.weights, found.psi
        self.near = found.near
        return found


class LossMethod(Solver):
    """A method that follows a loss, from wherever it begins."""

    warm_starts = True
    starts_anywhere = True

    def candidates(self, problem: MarginProblem, state: Any) -> Candidates:
        return Candidates(
            primals=[Primal(state.w, state.scores, state.psi)],
            q=state.mu,
            upper=problem.upper(state.z_mu, state.mu),
        )


class Descent(LossMethod):
    """w_{t+1} = w_t − c_t Zᵀq_t with q_t = ∇ψ(Zw_t): two passes per iteration,
    one over data in blocks.

    μ is Σ c_j q_j, whose image is w_0 − w_t: its length over the mass of μ is an upper bound at no
    cost.
    """

    def __init__(self, step: float | Schedule = 1.0) -> None:
        self.step_size = as_schedule(step)

    @abstractmethod
    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        """c_t, the step along the normalised gradient Zᵀq_t."""

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> DescentState:
        return DescentState.begin(problem, options)

    def step(self, problem: MarginProblem, state: DescentState) -> None:
        size = self.coefficient(problem, state)
        state.mu = problem.mix(state.mu, 1.0, state.q, size, in_place=True)
        move = size * problem.gradient(state.q)
        state.z_mu += move
        state.w -= move
        state.evaluate(problem)
        state.t += 1


class GradientDescent(Descent):
    """w_{t+1} = w_t − η_t ∇R(w_t), R the average loss (least over the intercept, if there is one).

    Parameters
    ----------
    step : float or callable
        η_t > 0; the paper takes 1.

    References
    ----------
    Soudry, Hoffer, Nacson, Gunasekar, Srebro (2018), JMLR 19.
    """

    name = "gradient-descent"

    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        return float(self.step_size(state.t)) * problem.risk_slope(state.psi)


class NormalizedGradient(Descent):
    """w_{t+1} = w_t − (θ_t/ρ) ∇R(w_t)/R(w_t): momentum's method without the momentum.

    Parameters
    ----------
    step : float or callable
        θ_t; the paper takes 1.

    References
    ----------
    Ji and Telgarsky (2021), ALT (θ = 1); Nacson et al. (2019), AISTATS (θ_t = 1/√(t+1)).
    """

    name = "normalized-gradient"

    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        return float(self.step_size(state.t)) / problem.rho


class NormalizedGradientRoot(NormalizedGradient):
    """`NormalizedGradient` with θ_t = 1/√(t + 1)."""

    name = "normalized-gradient-root"

    def __init__(self) -> None:
        super().__init__(inverse_root_step)


@dataclass
class MomentumState(DescentState):
    """w_t and g_t; μ and Zᵀμ lag one step behind, where they are free."""

    g: np.ndarray = field(default_factory=lambda: np.empty(0))
    lam: float = 1.0
    theta: float = 1.0
    potential: float = math.inf  # ψ(0) and what steps lacked; no theorem speaks of warm starts
    dual_rate: float = math.inf


class Momentum(LossMethod):
    r"""Algorithm 1 of Ji, Srebro and Telgarsky (2021).

    .. math::
        g_t = β_t (g_{t-1} + Z^T q_t), \quad
        w_{t+1} = w_t - \tfrac{θ_t}{ρ} (g_t + Z^T q_t), \quad
        q_{t+1} = ∇ψ(Z w_{t+1})

    with β_t = λ_{t−1}(1 − λ_t)/λ_t. With the paper's λ_t = 2/(t + 2) and θ_t = 1 the margin is
    within O(ln n ln t / t²) of the best (Theorem 3.1). Two passes over the data per iteration, one
    over data in blocks.

    Parameters
    ----------
    schedule : callable
        t ↦ λ_t with λ_0 = 1 and 1/λ_t² − 1/λ_t ≤ 1/λ_{t−1}²; checked at every step.
    step : float or callable
        θ_t in (0, 1].
    """

    name = "momentum"

    def __init__(self, schedule: Schedule = paper_lambda, step: float | Schedule = 1.0) -> None:
        self.schedule = schedule
        self.step_size = as_schedule(step)

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> MomentumState:
        state = MomentumState.begin(problem, options)
        state.g, state.z_mu = np.zeros_like(state.w), np.full_like(state.w, np.inf)
        state.mu = problem.mix(state.mu, 1.0, state.q, 1.0, in_place=True)
        if options.start is None:
            state.potential = max(problem.psi_zero, state.psi)
        return state

    def step(self, problem: MarginProblem, state: MomentumState) -> None:
        t, previous = state.t, state.lam
        lam = checked_lambda(self.schedule, t, previous)
        theta = checked_step(self.step_size, t)
        gradient = problem.gradient(state.q)
        if t == 0:
            state.z_mu = gradient.copy()  # μ_0 = q_0
        else:
            # μ_t = (1 − λ_{t−1}) μ_{t−1} + λ_{t−1} q_t, and Zᵀμ_t = λ_{t−1}(g_{t−1} + Zᵀq_t)
            state.mu = problem.mix(state.mu, 1.0 - previous, state.q, previous, in_place=True)
            state.z_mu = previous * (state.g + gradient)
            # Alg. 1: g_t = β_t (g_{t−1} + Zᵀq_t)
            state.g += gradient
            state.g *= previous * (1.0 - lam) / lam
        state.dual_rate = _dual_rate(state, lam, theta)
        old = Evaluation(state.w, state.scores, state.q, state.psi, state.near)
        # Alg. 1: w_{t+1} = w_t − (θ_t/ρ)(g_t + Zᵀq_t)
        state.w = state.w - (theta / problem.rho) * (state.g + gradient)
        state.potential += problem.shortfall(old, state.evaluate(problem), theta)
        state.lam, state.theta, state.t = lam, theta, t + 1

    def candidates(self, problem: MarginProblem, state: MomentumState) -> Candidates:
        found = super().candidates(problem, state)
        found.interval = self.interval(problem, state)
        return found

    def interval(self, problem: MarginProblem, state: MomentumState) -> tuple[float, float] | None:
        """Theorem 3.1, part 2, at t ≥ 1: ‖Zᵀμ_t‖² − 2 λ_{t−1}² ρ ψ(0)/θ ≤ γ̄² ≤ ‖Zᵀμ_t‖²."""
        if state.t <= 1 or math.isinf(state.potential):  # the t of μ is one less
            return None
        norm = problem.norm(state.z_mu)
        slack = 2.0 * state.dual_rate * problem.rho * state.potential
        return math.sqrt(max(0.0, norm * norm - slack)), norm


def _dual_rate(state: MomentumState, lam: float, theta: float) -> float:
    """λ_{t−1}²/θ_{t−1}: the rate at which φ(μ_t) falls, as Lemma B.3 gives it.

    The lemma's sum must have no negative term, which needs θ_t(1 − λ_t)/λ_t² ≤ θ_{t−1}/λ_{t−1}²;
    θ_t that grow may break it, and then no rate is claimed from there on.
    """
    if state.t == 0:
        return 0.0
    if math.isinf(state.dual_rate) or not 0.0 < state.theta <= 1.0:
        return math.inf
    previous = state.lam**2 / state.theta
    holds = theta * (1.0 - lam) / lam**2 <= (1.0 + 1e-9) / previous
    return previous if holds else math.inf


@dataclass
class NesterovState(DescentState):
    """q_t, μ_t, ν_t of the paper's section 3.2, with the primal w_t of its equation (3.3)."""

    nu: Any = None
    z_nu: np.ndarray = field(default_factory=lambda: np.empty(0))
    lam: float = 1.0


class DualNesterov(Momentum):
    r"""Nesterov's method with the entropy as distance, on φ(q) = ‖Zᵀq‖²/2.

    .. math::
        ν_t = (1-λ_t) μ_t + λ_t q_t, \quad
        q_{t+1} = ∇ψ\big(p_t - \tfrac{θ_t}{ρ λ_t} Z Z^T ν_t\big), \quad
        μ_{t+1} = (1-λ_t) μ_t + λ_t q_{t+1}

    Its iterates are those of `Momentum`, at as many passes per iteration; it exists to show so.
    """

    name = "dual-nesterov"

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> Any:
        state = NesterovState.begin(problem, options)
        state.mu = state.nu = state.q
        state.z_nu = np.full_like(state.w, np.inf)
        return state

    def step(self, problem: MarginProblem, state: Any) -> None:
        lam = checked_lambda(self.schedule, state.t, state.lam)
        size = checked_step(self.step_size, state.t) / (lam * problem.rho)
        state.nu = problem.mix(state.mu, 1.0 - lam, state.q, lam)
        state.z_nu = problem.gradient(state.nu)
        state.w = state.w - size * state.z_nu
        state.evaluate(problem)
        state.mu = problem.mix(state.mu, 1.0 - lam, state.q, lam)
        state.lam = lam
        state.t += 1

    def candidates(self, problem: MarginProblem, state: Any) -> Candidates:
        found = LossMethod.candidates(self, problem, state)
        found.q, found.upper = state.nu, problem.upper(state.z_nu, state.nu)
        return found
