"""Accelerated projected gradient on the dual set, in Euclidean geometry."""

import math
from dataclasses import dataclass

import numpy as np

from momentron.solvers.solver import (
    DEFAULTS,
    Candidates,
    MarginProblem,
    Primal,
    RunOptions,
    Solver,
    State,
)

SHRINK = 0.9  # by which the curvature is tried smaller in each iteration
NOISE = 1e-12  # of a length: differences below it are rounding


@dataclass
class FistaState(State):
    """q and its predecessor, with their images Zᵀq and the scores of −Zᵀq."""

    q: np.ndarray
    image: np.ndarray
    scores: np.ndarray
    old_q: np.ndarray
    old_image: np.ndarray
    old_scores: np.ndarray
    curvature: float = 1.0  # L
    pace: float = 1.0  # t_k of FISTA


class SimplexFista(Solver):
    r"""FISTA on the dual problem, with a line search and restarts.

    .. math::
        \min_{q ∈ C} \tfrac{1}{2} \|Z^T q\|^2: \quad
        y = q_t + \tfrac{s - 1}{s'} (q_t - q_{t-1}), \quad
        q_{t+1} = P_C(y - \tfrac{1}{L} Z Z^T y)

    P_C is the projection onto the dual set C, for which see `DualSet.project`. L is 0.9 times the
    last one, and doubled until ‖Zᵀ(q_{t+1} − y)‖² ≤ L ‖q_{t+1} − y‖², which for a quadratic is the
    condition of FISTA; s′ follows from s and both L, so that the rate O(1/t²) holds while L moves.
    Where ⟨ZZᵀy, q_{t+1} − q_t⟩ > 0 the extrapolation begins again, and convergence is linear once
    the support is found. −Zᵀq is the classifier. Two passes per iteration, one more for each
    doubling. It does not follow the loss.

    References
    ----------
    Beck and Teboulle (2009), *A fast iterative shrinkage-thresholding algorithm*, SIAM J. Imaging
    Sci. 2; Scheinberg, Goldfarb, Bai (2014), Found. Comput. Math. 14 (L that falls); O'Donoghue and
    Candès (2015), *Adaptive restart for accelerated gradient schemes*, Found. Comput. Math. 15.
    """

    name = "simplex-fista"
    uses_loss = False
    warm_starts = True

    def init(self, problem: MarginProblem, options: RunOptions = DEFAULTS) -> FistaState:
        q = problem.start().weights
        if options.start is not None:
            iterate = problem.combination()
            iterate.begin(options.start.q)
            q = iterate.q
        image = problem.gradient(q)
        scores = problem.scores(-image)
        return FistaState(q, image, scores, q, image, scores)

    def step(self, problem: MarginProblem, state: FistaState) -> None:
        largest = max(1.0, float(problem.size))  # ‖Z‖² ≤ Σ ‖z‖²
        curvature, pace = SHRINK * state.curvature, state.pace
        while True:
            growth = curvature / state.curvature
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * growth * pace * pace))
            beta = (pace - 1.0) / following
            y = state.q + beta * (state.q - state.old_q)
            image = state.image + beta * (state.image - state.old_image)
            scores = state.scores + beta * (state.scores - state.old_scores)
            q = problem.dual_set.project(y + scores / curvature)
            new_image = problem.gradient(q)
            bent, moved = problem.norm(new_image - image), float(np.linalg.norm(q - y))
            noise = NOISE * problem.norm(image)
            if bent <= math.sqrt(curvature) * moved + noise or curvature >= largest:
                break
            curvature = min(2.0 * curvature, largest)
        # −⟨∇f(y), q_{t+1} − q_t⟩ < 0: O'Donoghue and Candès restart
        is_uphill = float(scores @ (q - state.q)) < 0.0
        state.old_q, state.old_image, state.old_scores = state.q, state.image, state.scores
        state.q, state.image, state.scores = q, new_image, problem.scores(-new_image)
        state.curvature, state.pace = curvature, 1.0 if is_uphill else following
        state.t += 1

    def candidates(self, problem: MarginProblem, state: FistaState) -> Candidates:
        return Candidates(
            primals=[Primal(-state.image, state.scores)],
            q=state.q,
            upper=problem.upper(state.image, state.q),
        )
