"""Any optimiser of torch as a method: its steps, our certificate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.data.reprs import words_of
from momentron.errors import InputError, short
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
from momentron.status import Status

FARTHEST = 1e12  # ‖w‖ above which an optimiser has run away, and its run ends
OBJECTIVES = ("risk", "log-risk")


@dataclass
class TorchState(State):
    """w as a parameter of the optimiser, what the rows say of it, and an average of weights."""

    parameter: Any
    optimizer: Any
    scheduler: Any
    now: Evaluation
    mu: Any
    z_mu: np.ndarray
    is_over: bool = False


class TorchOptimizer(Solver):
    """Minimise the average loss with an optimiser of `torch.optim`, or one that follows its ways.

    Its gradients are those of the problem: of the loss, least over the intercepts, on rows divided
    by R. So it runs with and without intercepts, with many classes and on data in blocks, at two
    passes per iteration (one in blocks), or more where the optimiser asks for its closure again, as
    LBFGS does. Upper bounds come from an average of the dual weights that it meets. Not through a
    kernel, whose coefficients are no coordinates of a step. Needs the extra `ntk` (torch).

    Parameters
    ----------
    optimizer : callable
        ``torch.optim.Adam``, or any function that makes an optimiser of a list of parameters.
    objective : {"risk", "log-risk"}
        The average loss, as training has it; or its logarithm, whose gradient does not vanish as
        the loss does: with SGD that is normalised gradient descent.
    schedule : callable, optional
        Makes a learning-rate scheduler of the optimiser; it steps once per iteration.
    **options
        Of the optimiser, such as ``lr=0.1``.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> method = TorchOptimizer(torch.optim.Adam, lr=0.1)  # doctest: +SKIP
    >>> max_margin(X, y, method=method, max_iter=1000)  # doctest: +SKIP
    """

    name = "torch"
    warm_starts = True
    starts_anywhere = True

    def __init__(
        self,
        optimizer: Callable[..., Any],
        *,
        objective: str = "risk",
        schedule: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        if not callable(optimizer):
            raise InputError(
                f"optimizer={short(optimizer)} must be a class or function that makes an optimiser "
                "from a list of parameters, such as torch.optim.Adam"
            )
        if objective not in OBJECTIVES:
            raise InputError(f"objective={short(objective)} must be one of {OBJECTIVES}")
        self.optimizer = optimizer
        self.objective = objective
        self.schedule = schedule
        self.options = options
        self.name = getattr(optimizer, "__name__", "torch")  # type: ignore[misc]

    def __repr__(self) -> str:
        given = dict(self.options)
        if self.objective != OBJECTIVES[0]:
            given["objective"] = self.objective
        if self.schedule is not None:
            given["schedule"] = self.schedule
        words = [words_of(self.optimizer), *(f"{k}={words_of(v)}" for k, v in given.items())]
        return f"TorchOptimizer({', '.join(words)})"

    def init(self, problem: Any, options: RunOptions = DEFAULTS) -> TorchState:
        torch = _torch()
        if problem.operator.has_coefficient_per_row:
            raise InputError(f"method={self.name!r} does not support kernels; use 'momentum'")
        first = problem.start(options.start)
        parameter = torch.nn.Parameter(torch.from_numpy(first.w.copy()))
        optimizer = self.optimizer([parameter], **self.options)
        scheduler = None if self.schedule is None else self.schedule(optimizer)
        nothing = np.full_like(first.w, np.inf)
        return TorchState(parameter, optimizer, scheduler, first, first.weights, nothing)

    def step(self, problem: MarginProblem, state: TorchState) -> None:
        torch = _torch()

        def closure() -> Any:
            self._evaluate(problem, state)
            now, share = state.now, 2.0 / (state.t + 2.0)
            gradient = problem.gradient(now.weights)
            if not np.isfinite(state.z_mu).all():  # there is none yet
                state.mu, state.z_mu = now.weights, gradient.copy()
            else:  # μ ← (1 − λ)μ + λq and its image, λ = 2/(t + 2): later weights count for more
                state.mu = problem.mix(state.mu, 1.0 - share, now.weights, share)
                state.z_mu = (1.0 - share) * state.z_mu + share * gradient
            slope = 1.0 if self.objective == "log-risk" else problem.risk_slope(now.psi)
            state.parameter.grad = torch.from_numpy(slope * gradient)
            value = now.psi if self.objective == "log-risk" else problem.risk(now.psi)
            return torch.tensor(value, dtype=torch.float64)

        state.optimizer.step(closure)
        if state.scheduler is not None:
            state.scheduler.step()
        self._evaluate(problem, state)
        state.t += 1

    def _evaluate(self, problem: MarginProblem, state: TorchState) -> None:
        """Evaluate the parameter, unless it is where it was, or where nothing can be computed."""
        w = state.parameter.detach().numpy()
        state.is_over = state.is_over or not problem.norm(w) < FARTHEST
        if not state.is_over and not np.array_equal(w, state.now.w):
            state.now = problem.evaluate(w.copy(), state.now.near)

    def candidates(self, problem: MarginProblem, state: TorchState) -> Candidates:
        now = state.now
        return Candidates(
            primals=[Primal(now.w, now.scores, now.psi)],
            q=state.mu,
            upper=problem.upper(state.z_mu, state.mu),
            ending=Status.STALLED if state.is_over else None,
        )


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ImportError('TorchOptimizer needs torch: pip install "momentron[ntk]"') from None
    return torch
