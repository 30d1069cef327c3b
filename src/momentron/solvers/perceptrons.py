"""Perceptrons: steps along the worst examples, which are averaged or projected."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.dual.combination import mix_in_place
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
class PerceptronState(State):
    """w = −Zᵀq, to be moved along the worst examples."""

    iterate: Any
    before: float  # how many steps a warm start counts for


def begun(
    problem: MarginProblem, options: RunOptions, length: float | None = None
) -> tuple[Any, float]:
    """(w, steps that it counts for): w = 0, or a start brought to some length.

    A start counts for (R/γ)² steps, which is how many mistakes lead a perceptron to the margin γ:
    otherwise the first steps would be so long that nothing of the start would be left.
    """
    iterate, start = problem.combination(), options.start
    if start is None:
        return iterate, 0.0
    iterate.begin(start.q, length)
    return iterate, problem.norm(problem.start(start).w) ** 2


class NormalizedPerceptron(Solver):
    """w_{t+1} = (1 − θ_t) w_t − θ_t z_{i_t}, θ_t = 1/(t + 1), i_t the worst example for w_t.

    w_t = −Zᵀq_t with q_t in the dual set, so ‖w_t‖ is its own upper bound. One pass per iteration;
    two where many classes of data in blocks have intercepts.

    References
    ----------
    Ramdas and Peña (2016), *Towards a deeper geometric, analytic and algorithmic understanding of
    margins*, Optimization Methods and Software 31.
    """

    name = "normalized-perceptron"
    warm_starts = True
    uses_loss = False

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> PerceptronState:
        return PerceptronState(*begun(problem, options))

    def step(self, problem: MarginProblem, state: PerceptronState) -> None:
        share, iterate = 1.0 / (state.t + 1.0 + state.before), state.iterate
        vertex = iterate.vertex()
        iterate.shrink(1.0 - share)
        iterate.move(vertex, share)
        iterate.scores()  # which is where data in blocks are read
        state.t += 1

    def candidates(self, problem: MarginProblem, state: PerceptronState) -> Candidates:
        iterate = state.iterate
        return Candidates(
            primals=[Primal(iterate.w, iterate.scores())], q=iterate.q, upper=iterate.upper()
        )


@dataclass
class BatchPerceptronState(PerceptronState):
    """The last iterate, as a combination of the worst examples, and the running average."""

    mean_w: np.ndarray
    mean_scores: np.ndarray


class BatchPerceptron(NormalizedPerceptron):
    """Step along the worst example, project to the unit ball, average (slack 0).

    η_t = η_0/√(t + 1) with η_0 = 1/√max K_ii, which is 1 in units of R. One pass per iteration,
    or n kernel values unless the worst example's are in memory. With an intercept the worst of each
    class is taken, half and half.

    The iterate is −Zᵀq, with weights q that the projections shrink as they do the iterate: ‖Zᵀq‖
    over their mass is an upper bound.

    References
    ----------
    Cotter, Shalev-Shwartz, Srebro (2012), *The kernelized stochastic batch perceptron*, ICML.
    """

    name = "batch-perceptron"

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> BatchPerceptronState:
        means = problem.zeros(), np.zeros_like(problem.start().scores)
        return BatchPerceptronState(*begun(problem, options, length=1.0), *means)

    def step(self, problem: MarginProblem, state: Any) -> None:
        iterate = state.iterate
        iterate.move(iterate.vertex(), (state.t + 1.0 + state.before) ** -0.5)
        length = problem.norm(iterate.w)
        if length > 1.0:
            iterate.shrink(1.0 / length)
        share = 1.0 / (state.t + 1.0)
        mix_in_place(state.mean_w, 1.0 - share, iterate.w, share)
        mix_in_place(state.mean_scores, 1.0 - share, iterate.scores(), share)
        state.t += 1

    def candidates(self, problem: MarginProblem, state: Any) -> Candidates:
        found = super().candidates(problem, state)
        found.primals.insert(0, Primal(state.mean_w, state.mean_scores))
        return found


@dataclass
class SmoothState(State):
    """x = −Zᵀq with the evaluation of x/μ, and y with its image."""

    x: np.ndarray
    q: np.ndarray
    y: np.ndarray
    z_y: np.ndarray
    before: float  # how many steps a warm start counts for
    mu: float
    seen: Evaluation  # of x/μ
    gradient: np.ndarray  # Zᵀ∇ψ(Zx/μ)


class SmoothPerceptron(Solver):
    r"""The accelerated perceptron: Nesterov's excessive gap technique for the largest margin.

    .. math::
        x_{t+1} = (1 - θ_t)(x_t - θ_t Z^T y_t) - θ_t^2 Z^T ∇ψ(Zx_t/μ_t), \quad
        y_{t+1} = (1 - θ_t) y_t + θ_t ∇ψ(Zx_{t+1}/μ_{t+1})

    with θ_t = 2/(t + 3) and μ_t = 4/((t + 1)(t + 2)). Each step keeps

    .. math::
        \tfrac{1}{2} \|Z^T y_t\|^2 ≤ μ_t ψ(0) - μ_t ψ(Zx_t/μ_t) - \tfrac{1}{2} \|x_t\|^2.

    Since ‖Zᵀy‖ ≥ γ̄ and ψ is at least the largest score, the margin of x_t is at least
    γ̄ − 4ψ(0)/(γ̄ (t + 1)(t + 2)), as Algorithm 1 has it, and ‖Zᵀy_t‖² ≤ γ̄² + 8ψ(0)/((t + 1)(t + 2)).
    Since x_t = −Zᵀq with q in the dual set, too, ‖x_t‖ is another upper bound. Two passes per
    iteration, one over data in blocks. A warm start, which counts for √ψ(0) R/γ steps, is not
    covered by the theorem.

    References
    ----------
    Soheili and Peña (2012), *A smooth perceptron algorithm*, SIAM J. Optim. 22; as a game in Wang,
    Hanashiro, Guha, Abernethy (2023), *On accelerated perceptrons and beyond*, ICLR.
    """

    name = "smooth-perceptron"
    warm_starts = True
    uses_loss = False

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> SmoothState:
        iterate, mistakes = begun(problem, options)
        is_cold, before = options.start is None, math.sqrt(problem.psi_zero * mistakes)
        q = problem.start().weights.copy() if is_cold else iterate.q
        mu = 4.0 / ((before + 1.0) * (before + 2.0))
        image = problem.gradient(q)
        found = problem.evaluate(-image / mu)
        gradient = problem.gradient(found.weights)
        y, z_y = (found.weights.copy(), gradient) if is_cold else (q.copy(), image)
        return SmoothState(-image, q, y, z_y, before, mu, found, gradient)

    def step(self, problem: MarginProblem, state: SmoothState) -> None:
        t = state.t + state.before
        theta, rest = 2.0 / (t + 3.0), (t + 1.0) / (t + 3.0)
        state.mu = 4.0 / ((t + 2.0) * (t + 3.0))
        state.x = rest * (state.x - theta * state.z_y) - theta * theta * state.gradient
        added = problem.mix(state.y, rest * theta, state.seen.weights, theta * theta)
        state.q = problem.mix(state.q, rest, added, 1.0, in_place=True)
        state.seen = problem.evaluate(state.x / state.mu, state.seen.near)
        state.gradient = problem.gradient(state.seen.weights)
        state.y = problem.mix(state.y, rest, state.seen.weights, theta, in_place=True)
        state.z_y = rest * state.z_y + theta * state.gradient
        state.t += 1

    def candidates(self, problem: MarginProblem, state: SmoothState) -> Candidates:
        pairs = (state.x, state.q), (state.z_y, state.y)
        (_, q), upper = min(((pair, problem.upper(*pair)) for pair in pairs), key=lambda p: p[1])
        return Candidates(primals=[Primal(state.x, state.mu * state.seen.scores)], q=q, upper=upper)
