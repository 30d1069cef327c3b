"""Algorithm 1: batch momentum, which is dual Nesterov acceleration in disguise; and that itself."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.solvers.margin_problem import Evaluation, MarginProblem
from momentron.solvers.schedules import (
    Schedule,
    as_schedule,
    checked_lambda,
    checked_step,
    paper_lambda,
)
from momentron.solvers.solver import (
    DEFAULTS,
    Candidates,
    EvaluatedState,
    Primal,
    RunOptions,
    Solver,
)


@dataclass
class MomentumState(EvaluatedState):
    """w_t and g_t; μ and Zᵀμ lag one step behind, where they are free."""

    g: np.ndarray = field(default_factory=lambda: np.empty(0))
    mu: Any = None
    z_mu: np.ndarray = field(default_factory=lambda: np.empty(0))
    lam: float = 1.0
    theta: float = 1.0
    t_mu: int = 0
    potential: float = math.inf  # ψ(0) and what steps lacked; no theorem speaks of warm starts
    dual_rate: float = math.inf


class Momentum(Solver):
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
    warm_starts = True
    starts_anywhere = True

    def __init__(self, schedule: Schedule = paper_lambda, step: float | Schedule = 1.0) -> None:
        self.schedule = schedule
        self.step_size = as_schedule(step)

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> MomentumState:
        state = MomentumState.begin(problem, options)
        state.g, state.z_mu = np.zeros_like(state.w), np.full_like(state.w, np.inf)
        state.mu = problem.mix(problem.no_weights(), 1.0, state.q, 1.0, in_place=True)
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
        state.lam, state.theta, state.t_mu = lam, theta, t
        state.t = t + 1

    def candidates(self, problem: MarginProblem, state: MomentumState) -> Candidates:
        return Candidates(
            primals=[Primal(state.w, state.scores, state.psi)],
            q=state.mu,
            upper=problem.upper(state.z_mu, state.mu),
            interval=self.interval(problem, state),
        )

    def interval(self, problem: MarginProblem, state: MomentumState) -> tuple[float, float] | None:
        """Theorem 3.1, part 2, at t ≥ 1: ‖Zᵀμ_t‖² − 2 λ_{t−1}² ρ ψ(0)/θ ≤ γ̄² ≤ ‖Zᵀμ_t‖²."""
        if state.t_mu == 0 or math.isinf(state.potential):
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
class NesterovState(EvaluatedState):
    """q_t, μ_t, ν_t of the paper's section 3.2, with the primal w_t of its equation (3.3)."""

    mu: Any = None
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
        return Candidates(
            primals=[Primal(state.w, state.scores)],
            q=state.nu,
            upper=problem.upper(state.z_nu, state.nu),
        )
