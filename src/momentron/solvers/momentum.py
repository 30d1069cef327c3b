"""Algorithm 1, with fixed steps or steps that are measured, and its dual: Nesterov's method."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.dual.combination import mix_in_place
from momentron.errors import InputError
from momentron.solvers.descent import DescentState, LossMethod
from momentron.solvers.schedules import (
    Schedule,
    as_schedule,
    checked_lambda,
    checked_step,
    paper_lambda,
    require_share,
)
from momentron.solvers.solver import DEFAULTS, Candidates, MarginProblem, Primal, RunOptions

ADAPTIVE = "adaptive"
LONGER = 1.25  # how much longer a step may be than the one before
CAUTION = 0.5  # of the longest step that the last inequality admitted
SHORTEST = 1e-6  # where the search ends, whatever a loss of the user's own does


@dataclass
class Past:
    """μ_s, Zᵀμ_s, the scores of −Zᵀμ_s, and its share of μ_t: the rest of μ_t is of later q_j."""

    mu: np.ndarray
    z_mu: np.ndarray
    scores: np.ndarray
    mass: float
    share: float

    @classmethod
    def of(cls, state: "MomentumState") -> "Past":
        """μ_t as it is now."""
        mass = float(state.mu.sum())
        return cls(state.mu.copy(), state.z_mu, state.mu_scores.copy(), mass, 1.0)


@dataclass
class MomentumState(DescentState):
    """w_t and g_t; μ and Zᵀμ lag one step behind, where they are free."""

    g: np.ndarray = field(default_factory=lambda: np.empty(0))
    mu_scores: np.ndarray = field(default_factory=lambda: np.empty(0))  # those of −Zᵀμ
    late: Any = None  # μ_s for s between t/4 and t/2
    later: Any = None  # and between t/2 and t
    gradient: np.ndarray = field(default_factory=lambda: np.empty(0))  # Zᵀq_t, if it is known
    lam: float = 1.0
    theta: float = 1.0
    longest: float = 1.0  # θ_t to be tried next
    potential: float = math.inf  # ψ(Zw_0) and what steps lacked
    length: float = 0.0  # ‖w_0‖
    dual_rate: float = 0.0


class Momentum(LossMethod):
    r"""Algorithm 1 of Ji, Srebro and Telgarsky (2021).

    .. math::
        g_t = β_t (g_{t-1} + Z^T q_t), \quad
        w_{t+1} = w_t - \tfrac{θ_t}{ρ} (g_t + Z^T q_t), \quad
        q_{t+1} = ∇ψ(Z w_{t+1})

    with β_t = λ_{t−1}(1 − λ_t)/λ_t. With the paper's λ_t = 2/(t + 2) and θ_t = 1 the margin is
    within 4 ln n/(γ̄ t(t + 3)) of the best. Two passes over the data per iteration, one over data in
    blocks.

    Parameters
    ----------
    schedule : callable
        t ↦ λ_t with λ_0 = 1 and 1/λ_t² − 1/λ_t ≤ 1/λ_{t−1}²; checked at every step.
    step : float, callable or "adaptive"
        θ_t in (0, 1]. "adaptive": as long as the inequality (B.7) holds, most often above 1; each
        step that is too long costs the passes of an iteration. λ_t follows from the steps.

    Notes
    -----
    Weights are averaged over all q_t, which is the theorem's μ_t, and over the later half of them,
    which forgets how the run began: either bounds γ̄ from above, and minus the image of the later
    half is a classifier. Neither costs a pass.

    **Longer steps.** Lemma B.3 and Theorem 3.1 use the smoothness of ψ and of ‖Zᵀq‖²/2 in (B.7)
    alone, which is θ_t ‖Zᵀ(q_{t+1} − q_t)‖² ≤ 2ρ D(q_{t+1}, q_t) here, and can be measured. Times
    θ_t/λ_t, the inequalities of the steps telescope as before if θ_t(1 − λ_t)/λ_t² is at most
    A_t = θ_{t−1}/λ_{t−1}². With equality, which adaptive steps choose, A_t = Σ_{j<t} θ_j/λ_j, and

    .. math::
        \|Z^T μ_t\|^2 - \tfrac{2ρ}{A_t} D ≤ \barγ^2 ≤ \|Z^T μ_t\|^2, \qquad
        γ(w_t) ≥ \barγ - \frac{ρ ψ(0)}{\barγ A_t} \text{ from } w_0 = 0.

    **Warm starts.** D = D(q̄, q_0) = ψ*(q̄) + ψ(Zw_0) − ⟨w_0, Zᵀq̄⟩ is at most ψ(Zw_0) + γ̄ ‖w_0‖,
    since ψ is at least the largest score, so that ψ*(q̄) ≤ 0, and ‖Zᵀq̄‖ = γ̄.

    References
    ----------
    Ji, Srebro, Telgarsky (2021), *Fast margin maximization via dual acceleration*, ICML. A rate
    without ln t is in Wang, Hanashiro, Guha, Abernethy (2023), *On accelerated perceptrons and
    beyond*, ICLR.
    """

    name = "momentum"

    def __init__(self, schedule: Schedule = paper_lambda, step: Any = 1.0) -> None:
        self.schedule = schedule
        self.step_size: Any = as_schedule(step) if step != ADAPTIVE else step
        if self.step_size == ADAPTIVE and schedule is not paper_lambda:
            raise InputError("step='adaptive' chooses λ_t itself; leave schedule out")

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> MomentumState:
        state = MomentumState.begin(problem, options)
        first = state.now
        state.g, state.mu_scores = np.zeros_like(first.w), np.zeros_like(first.scores)
        state.late, state.later = Past.of(state), Past.of(state)
        if self.step_size == ADAPTIVE:
            state.gradient = problem.gradient(first.weights)
        state.length = problem.norm(first.w)
        # ρ may be proved where ψ ≤ ψ(0) alone
        if state.length == 0.0:
            state.potential = max(problem.psi_zero, first.psi)
        elif problem.rho == 1.0 or first.psi <= problem.psi_zero:
            state.potential = first.psi
        return state

    def step(self, problem: MarginProblem, state: MomentumState) -> None:
        t, share, search, old = state.t, state.lam, self.step_size == ADAPTIVE, state.now
        gradient = state.gradient if search else problem.gradient(old.weights)
        if t & (t - 1) == 0:
            state.late, state.later = state.later, Past.of(state)
        # μ_t = (1 − λ_{t−1}) μ_{t−1} + λ_{t−1} q_t, and Zᵀμ_t = λ_{t−1}(g_{t−1} + Zᵀq_t); μ_0 = q_0
        state.mu = problem.mix(state.mu, 1.0 - share, old.weights, share, in_place=True)
        summed = state.g + gradient
        state.z_mu = share * summed
        state.late.share *= 1.0 - share
        state.later.share *= 1.0 - share
        theta = max(state.longest, SHORTEST) if search else checked_step(self.step_size, t)
        square, most, shortest = None, theta, 1.0 if problem.dual_set.is_proved else SHORTEST
        while True:
            lam = self._lambda(state, theta)
            # Alg. 1: g_t = β_t (g_{t−1} + Zᵀq_t) and w_{t+1} = w_t − (θ_t/ρ)(g_t + Zᵀq_t)
            state.g = (share * (1.0 - lam) / lam) * summed
            w = old.w - (theta / problem.rho) * (state.g + gradient)
            state.now = new = problem.evaluate(w, old.near)
            if search:  # the longest step that (B.7) admits here
                state.gradient = problem.gradient(new.weights)
                square = problem.norm(state.gradient - gradient) ** 2
                distance = old.psi - new.psi - float(new.weights @ (old.scores - new.scores))
                most = 2.0 * problem.rho * distance / square if square > 0.0 else theta
            if theta <= max(most, shortest):
                break
            theta = max(min(CAUTION * most, theta / LONGER), 0.5 * theta, shortest)
        state.longest = max(min(CAUTION * most, LONGER * theta), theta / LONGER, shortest)
        state.potential += problem.shortfall(old, new, theta, square)
        state.dual_rate = _dual_rate(state, lam, theta)
        # m_t = (ρ/θ_t) Z(w_t − w_{t+1}) = Zg_t + ZZᵀq_t, and so, with g_t = β_t (g_{t−1} + Zᵀq_t),
        # ZZᵀμ_t = ((1 − λ_{t−1}) ZZᵀμ_{t−1} + λ_{t−1} m_t)/(1 + β_t)
        whole = 1.0 + share * (1.0 - lam) / lam
        factor = share * problem.rho / (theta * whole)
        mix_in_place(state.mu_scores, (1.0 - share) / whole, new.scores - old.scores, factor)
        state.lam, state.theta, state.t = lam, theta, t + 1

    def _lambda(self, state: MomentumState, theta: float) -> float:
        """λ_t: that of the schedule, or with θ_t (1 − λ_t)/λ_t² = θ_{t−1}/λ_{t−1}²."""
        if self.step_size != ADAPTIVE:
            return checked_lambda(self.schedule, state.t, state.lam)
        previous = require_share(state.t - 1, state.lam)
        ratio = state.theta / (previous**2 * theta) if state.t > 0 else 0.0
        return 2.0 / (1.0 + math.sqrt(1.0 + 4.0 * ratio))

    def candidates(self, problem: MarginProblem, state: MomentumState) -> Candidates:
        found = super().candidates(problem, state)
        if state.t > 1:
            mass, averages = float(state.mu.sum()), []
            for past in (state.late, state.later):
                image = state.z_mu - past.share * past.z_mu
                rest = mass - past.share * past.mass
                upper = problem.norm(image) / rest if rest > 0.0 else math.inf
                averages.append((upper, image, past))
            upper, image, past = min(averages, key=lambda average: average[0])
            scores = state.mu_scores - past.share * past.scores
            found.primals.append(Primal(-image, scores))
            if upper < found.upper:
                q = state.mu - past.share * past.mu
                found.q, found.upper = np.maximum(q, 0.0, out=q), upper
        found.interval = self.interval(problem, state)
        return found

    def interval(self, problem: MarginProblem, state: MomentumState) -> tuple[float, float] | None:
        """‖Zᵀμ_t‖² − 2ρ(ψ(Zw_0) + γ̄ ‖w_0‖)/A_t ≤ γ̄² ≤ ‖Zᵀμ_t‖² for t ≥ 1, up to rounding.

        Theorem 3.1, part 2, where w_0 = 0 and θ_t = 1. The first is γ̄² + 2bγ̄ ≥ c.
        """
        if state.t <= 1 or math.isinf(state.potential):  # the t of μ is one less
            return None
        norm = problem.norm(state.z_mu)
        slack = 2.0 * state.dual_rate * problem.rho
        b, c = 0.5 * slack * state.length, norm * norm - slack * state.potential
        return (c / (b + math.sqrt(b * b + c)) if c > 0.0 else 0.0), norm


def _dual_rate(state: MomentumState, lam: float, theta: float) -> float:
    """1/A_t = λ_{t−1}²/θ_{t−1}: the rate at which φ(μ_t) falls, as Lemma B.3 gives it.

    The lemma's sum must have no negative term, which needs θ_t(1 − λ_t)/λ_t² ≤ A_t; θ_t that grow
    may break it, and then no rate is claimed from there on.
    """
    if math.isinf(state.dual_rate) or not state.theta > 0.0:  # which only a checkpoint can be
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

    def __init__(self, schedule: Schedule = paper_lambda, step: float | Schedule = 1.0) -> None:
        super().__init__(schedule, as_schedule(step))

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> Any:
        state = NesterovState.begin(problem, options)
        state.mu = state.nu = state.now.weights
        state.z_nu = np.full_like(state.now.w, np.inf)
        return state

    def step(self, problem: MarginProblem, state: Any) -> None:
        lam = checked_lambda(self.schedule, state.t, state.lam)
        size = checked_step(self.step_size, state.t) / (lam * problem.rho)
        state.nu = problem.mix(state.mu, 1.0 - lam, state.now.weights, lam)
        state.z_nu = problem.gradient(state.nu)
        state.move_to(problem, state.now.w - size * state.z_nu)
        state.mu = problem.mix(state.mu, 1.0 - lam, state.now.weights, lam)
        state.lam = lam
        state.t += 1

    def candidates(self, problem: MarginProblem, state: Any) -> Candidates:
        found = LossMethod.candidates(self, problem, state)
        found.q, found.upper = state.nu, problem.upper(state.z_nu, state.nu)
        return found
