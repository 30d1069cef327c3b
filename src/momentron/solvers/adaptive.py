"""Algorithm 2: momentum along sampled rows, n kernel values per iteration."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.data.arguments import as_count, as_generator, as_number
from momentron.dual.combination import Combination, vertex_image
from momentron.errors import InputError, short
from momentron.solvers.problem import Problem
from momentron.solvers.schedules import (
    Schedule,
    as_schedule,
    checked_step,
    paper_momentum,
    sampling_step,
    sampling_steps,
)
from momentron.solvers.solver import DEFAULTS, Candidates, Primal, RunOptions, Solver, State
from momentron.status import Status

PARAMETER_SETS = ("aggressive", "theory")
USUAL_DELTA = 0.1
MOST_STEPS = 10**9
KEPT = 0.99  # the share of a mean dual that is worth its kernel values


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
    n_steps: float
    momentum: Combination | None = None
    mean: np.ndarray | None = None
    proposal: tuple[np.ndarray, float] | None = None


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
        speaks of; say how many by `n_steps` or by `epsilon`.
    step : float or callable, optional
        θ_t > 0 instead of the one above; "aggressive" only.
    momentum : float or callable, optional
        β_t in [0, 1] instead of the one above; "aggressive" only.
    batch : int
        Draws per iteration, all from the same q_t; their mean takes the place of one draw, and
        their kernel columns are computed as one block. The draws are stratified.
    n_steps : int, optional
        "theory": the length of the run.
    epsilon : float, optional
        "theory": run as long as the theorem asks for a margin of at least γ̄ − ε with probability
        1 − δ, in the units of X.
    delta : float, optional
        δ, 0.1 unless given; goes with `epsilon`.
    margin : float, optional
        A lower bound of γ̄ in the units of X; goes with `epsilon`. Without it γ̄ ≥ ε is assumed: if
        that is wrong, then the trivial lower bound 0 is within ε already.
    dual_every : int, optional
        Also bound γ̄ from above by the mean of the q_t themselves, weighted by t, after every so
        many iterations. This costs one pass over linear data; through a kernel, the values between
        the examples that carry 99 % of that mean.

    Notes
    -----
    w_t = −Zᵀα_t and g_t = Zᵀμ_t for weights that are kept, so that the length of each, over the
    mass of its weights, is an upper bound at no cost. Draws follow the scores, which make up for
    what earlier draws left uneven: these bounds are tighter than independent draws would make them.

    "theory" ends after the steps it planned, unless `max_iter` or the tolerance ends it sooner.

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
        batch: int = 1,
        n_steps: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        margin: float | None = None,
        dual_every: int | None = None,
    ) -> None:
        if parameters not in PARAMETER_SETS:
            raise InputError(
                f"parameters={short(parameters)} is not known; choose one of {list(PARAMETER_SETS)}"
            )
        self.parameters = parameters
        self.is_theory = parameters == "theory"
        plan = {"n_steps": n_steps, "epsilon": epsilon, "delta": delta, "margin": margin}
        if self.is_theory:
            _refuse({"step": step, "momentum": momentum}, "parameters='theory' sets its own")
            if (n_steps is None) == (epsilon is None):
                raise InputError(
                    "parameters='theory' needs the length of its run: give either n_steps or "
                    f"epsilon, not {'both' if epsilon is not None else 'neither'}"
                )
            if n_steps is not None:
                as_count("n_steps", n_steps)
                _refuse({"delta": delta, "margin": margin}, "it needs epsilon")
            _require_positive("epsilon", epsilon)
            _require_positive("margin", margin)
            _require_positive("delta", delta, 1.0)
        else:
            _refuse(plan, "it needs parameters='theory'")
        self.step_size = as_schedule(1.0 if step is None else step)
        self.momentum = as_schedule(paper_momentum if momentum is None else momentum, "momentum")
        self.batch = as_count("batch", batch)
        self.n_steps = n_steps
        self.epsilon = epsilon
        self.delta = USUAL_DELTA if delta is None else delta
        self.margin = margin
        self.dual_every = None if dual_every is None else as_count("dual_every", dual_every)
        if self.is_theory:
            self.default_max_iter = n_steps or MOST_STEPS  # type: ignore[misc]

    def init(self, problem: Problem, options: RunOptions = DEFAULTS) -> AdaptiveState:
        first, iterate = problem.start(), Combination(problem)
        scores, q, near = first.scores, first.weights, first.near
        if options.start is not None:
            iterate.begin(options.start.q, problem.norm(problem.start(options.start).w))
            scores = iterate.scores()
            q, _, near = problem.dual_set.link_near(scores, near)
        n_steps = self.planned_steps(problem)
        theta, beta = self.step_size, self.momentum
        if self.is_theory:
            theta = as_schedule(sampling_step(problem.dual_set.psi_zero, int(n_steps)))
            beta = as_schedule(0.0)
        return AdaptiveState(
            iterate=iterate,
            scores=scores,
            q=q,
            near=near,
            rng=as_generator(options.random_state),
            step_size=theta,
            beta=beta,
            n_steps=n_steps,
            mean=None if self.dual_every is None else np.zeros_like(first.weights),
        )

    def planned_steps(self, problem: Problem) -> float:
        """How many steps "theory" will take; infinitely many where nothing is planned."""
        if self.n_steps is not None:
            return self.n_steps
        if self.epsilon is None:
            return math.inf
        unit = problem.to_units_of_x(1.0)
        least = self.epsilon if self.margin is None else self.margin
        steps = sampling_steps(
            problem.dual_set.psi_zero, self.epsilon / unit, self.delta, least / unit
        )
        if not steps <= MOST_STEPS:
            raise InputError(
                f"epsilon={short(self.epsilon)} and delta={short(self.delta)} ask for {steps:.3g} "
                f"steps, above {MOST_STEPS}: take a larger epsilon, name a lower bound of the best "
                "margin as margin=..., or set n_steps"
            )
        return math.ceil(steps)

    def step(self, problem: Problem, state: AdaptiveState) -> None:
        t, iterate = state.t, state.iterate
        theta = checked_step(state.step_size, t, most=math.inf) / problem.dual_set.rho
        beta = float(state.beta(t))
        if not 0.0 <= beta <= 1.0:  # what was learned must not count for more as it ages
            raise InputError(f"the momentum β_{t} is {beta}; it must lie in [0, 1]")
        if state.mean is not None:
            state.mean += (t + 1.0) * state.q
        vertex = problem.dual_set.draw(state.q, state.rng, self.batch)
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
        state.proposal = None
        if state.mean is not None and self.dual_every and state.t % self.dual_every == 0:
            state.proposal = _bound_by_mean(problem, state.mean)

    def candidates(self, problem: Problem, state: AdaptiveState) -> Candidates:
        kept = [state.iterate] if state.momentum is None else [state.iterate, state.momentum]
        duals = [(combination.q, combination.upper()) for combination in kept]
        if state.proposal is not None:
            duals.append(state.proposal)
        q, upper = min(duals, key=lambda dual: dual[1])
        return Candidates(
            primals=[Primal(state.iterate.w, state.scores)],
            q=q,
            upper=upper,
            ending=Status.ITERATION_BUDGET if state.t >= state.n_steps else None,
        )


def _bound_by_mean(problem: Problem, mean: np.ndarray) -> tuple[np.ndarray, float]:
    """(q, ‖Zᵀq‖) for the mean dual weights, through a kernel without those that hardly count."""
    if not problem.operator.has_coefficient_per_row:
        q = problem.dual_set.normalize(mean)
        return q, problem.norm(problem.gradient(q))
    falling = np.sort(mean)[::-1]
    shares = np.cumsum(falling)
    least = falling[np.searchsorted(shares, KEPT * shares[-1])]
    q = problem.dual_set.normalize(np.where(mean >= least, mean, 0.0))
    return q, problem.dual_norm(q) / problem.radius


def _require_positive(name: str, value: float | None, limit: float = math.inf) -> None:
    wanted = "a number above 0" if math.isinf(limit) else f"a number in (0, {limit:g})"
    if value is not None and not 0.0 < as_number(name, value, wanted) < limit:
        raise InputError(f"{name}={short(value)} must be {wanted}")


def _refuse(values: dict[str, Any], reason: str) -> None:
    for name, value in values.items():
        if value is not None:
            raise InputError(f"{name}={short(value)} has no meaning here: {reason}; leave it out")
