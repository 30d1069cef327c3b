"""Algorithm 2: momentum along sampled rows, n kernel values per iteration."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.data.arguments import as_count, as_generator
from momentron.dual.combination import Combination, vertex_image
from momentron.errors import InputError, short
from momentron.solvers.problem import Problem
from momentron.solvers.schedules import (
    Schedule,
    as_schedule,
    checked_step,
    paper_momentum,
    sampling_step,
)
from momentron.solvers.solver import DEFAULTS, Candidates, Primal, RunOptions, Solver, State
from momentron.status import Status

PARAMETER_SETS = ("aggressive", "theory")


@dataclass
class AdaptiveState(State):
    """w_t as a combination of rows, with scores and dual weights; and the momentum −g_t."""

    iterate: Combination
    scores: np.ndarray
    q: np.ndarray
    near: np.ndarray
    rng: np.random.Generator
    step_size: Schedule
    beta: Schedule
    momentum: Combination | None = None


class Adaptive(Solver):
    r"""Algorithm 2 of Ji, Srebro and Telgarsky (2021).

    .. math::
        e_t \sim q_t, \quad g_t = β_t (g_{t-1} + Z^T e_t), \quad
        w_{t+1} = w_t - \tfrac{θ_t}{ρ} (g_t + Z^T e_t), \quad
        q_{t+1} = ∇ψ(Z w_{t+1})

    Zᵀq_t is replaced by the row of one example, drawn from q_t; with many classes by the row of an
    example and a wrong label, which changes two columns of w. This costs n kernel values, where
    Algorithm 1 needs n², or one pass over linear data. Draws stay in the dual set: with an
    intercept an example of each class is drawn, half and half, and with many intercepts a cycle of
    classes, most often of two (see `momentron.dual.circulations`); each example costs n values.

    Parameters
    ----------
    parameters : {"aggressive", "theory"}
        "aggressive": θ_t = 1 and β_t = t/(t + 1), those of Algorithm 1; a heuristic that does well.
        "theory": β_t = 0 and θ_t = √(ln n / t) for a run of t steps, which is what the theorem
        speaks of.
    step : float or callable, optional
        θ_t > 0 instead of the one above; "aggressive" only.
    momentum : float or callable, optional
        β_t in [0, 1] instead of the one above; "aggressive" only.
    n_steps : int, optional
        "theory": the length of the run. For a margin of at least γ̄ − ε with probability 1 − δ the
        theorem asks for `momentron.solvers.schedules.sampling_steps`.

    Notes
    -----
    w_t = −Zᵀα_t and g_t = Zᵀμ_t for weights that are kept, so that the length of each, over the
    mass of its weights, is an upper bound at no cost. Draws follow the scores, which make up for
    what earlier draws left uneven: these bounds are tighter than independent draws would make them.

    "theory" ends after its steps, unless `max_iter` or the tolerance ends it sooner.

    References
    ----------
    Ji, Srebro, Telgarsky (2021), *Fast margin maximization via dual acceleration*, ICML, section 4.

    Examples
    --------
    >>> from momentron import max_margin
    >>> from momentron.solvers import Adaptive
    >>> X, y = [[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]], [1, 1, 0, 0]
    >>> result = max_margin(
    ...     X, y, method=Adaptive("theory", n_steps=500), kernel="linear", random_state=0
    ... )
    >>> bool(result.lower <= 1.5 <= result.upper), result.n_iter
    (True, 500)
    """

    name = "adaptive"
    warm_starts = True
    needs_memory = "each of its iterations draws single rows, not blocks"

    def __init__(
        self,
        parameters: str = "aggressive",
        *,
        step: float | Schedule | None = None,
        momentum: float | Schedule | None = None,
        n_steps: int | None = None,
    ) -> None:
        if parameters not in PARAMETER_SETS:
            raise InputError(
                f"parameters={short(parameters)} is not known; choose one of {list(PARAMETER_SETS)}"
            )
        if parameters == "theory":
            _refuse({"step": step, "momentum": momentum}, "parameters='theory' sets its own")
            if n_steps is None:
                raise InputError("parameters='theory' needs the length of its run: give n_steps")
            self.default_max_iter = as_count("n_steps", n_steps)  # type: ignore[misc]
        else:
            _refuse({"n_steps": n_steps}, "it needs parameters='theory'")
        self.parameters = parameters
        self.step_size = as_schedule(1.0 if step is None else step)
        self.momentum = as_schedule(paper_momentum if momentum is None else momentum, "momentum")
        self.n_steps = n_steps

    def init(self, problem: Problem, options: RunOptions = DEFAULTS) -> AdaptiveState:
        first, iterate = problem.start(), Combination(problem)
        scores, q, near = first.scores, first.weights, first.near
        if options.start is not None:
            iterate.begin(options.start.q, problem.norm(problem.start(options.start).w))
            scores = iterate.scores()
            q, _, near = problem.dual_set.link_near(scores, near)
        theta, beta = self.step_size, self.momentum
        if self.n_steps is not None:
            theta = as_schedule(sampling_step(problem.dual_set.psi_zero, self.n_steps))
            beta = as_schedule(0.0)
        return AdaptiveState(
            iterate=iterate,
            scores=scores,
            q=q,
            near=near,
            rng=as_generator(options.random_state),
            step_size=theta,
            beta=beta,
        )

    def step(self, problem: Problem, state: AdaptiveState) -> None:
        t, iterate = state.t, state.iterate
        theta = checked_step(state.step_size, t, most=math.inf) / problem.dual_set.rho
        beta = float(state.beta(t))
        if not 0.0 <= beta <= 1.0:  # what was learned must not count for more as it ages
            raise InputError(f"the momentum β_{t} is {beta}; it must lie in [0, 1]")
        vertex = problem.dual_set.draw(state.q, state.rng)
        minus_row = vertex_image(problem, vertex)
        # Alg. 2: g_t = β_t (g_{t−1} + Zᵀe_t) and w_{t+1} = w_t − θ_t (g_t + Zᵀe_t); −g is kept, so
        # that both are combinations with weights of one sign
        iterate.move_along(minus_row, theta)
        if beta > 0.0:
            if state.momentum is None:
                state.momentum = Combination(problem)
            state.momentum.move_along(minus_row, 1.0)
            iterate.follow(state.momentum, beta, theta)
        else:
            state.momentum = None
        state.scores = iterate.scores()
        state.q, _, state.near = problem.dual_set.link_near(state.scores, state.near)
        state.t = t + 1

    def candidates(self, problem: Problem, state: AdaptiveState) -> Candidates:
        kept = [state.iterate] if state.momentum is None else [state.iterate, state.momentum]
        duals = [(combination.q, combination.upper()) for combination in kept]
        q, upper = min(duals, key=lambda dual: dual[1])
        is_over = self.n_steps is not None and state.t >= self.n_steps
        return Candidates(
            primals=[Primal(state.iterate.w, state.scores)],
            q=q,
            upper=upper,
            ending=Status.ITERATION_BUDGET if is_over else None,
        )


def _refuse(values: dict[str, Any], reason: str) -> None:
    for name, value in values.items():
        if value is not None:
            raise InputError(f"{name}={short(value)} has no meaning here: {reason}; leave it out")
