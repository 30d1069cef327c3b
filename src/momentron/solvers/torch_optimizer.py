"""Any optimiser of torch as a method: its steps, our certificate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.data.arguments import require_choice
from momentron.errors import InputError, short
from momentron.solvers.descent import DescentState, LossMethod
from momentron.solvers.solver import DEFAULTS, Candidates, MarginProblem, RunOptions
from momentron.status import Status

FARTHEST = 1e12  # ‖w‖ above which an optimiser has run away, and its run ends
OBJECTIVES = ("risk", "log-risk")


@dataclass
class TorchState(DescentState):
    """w as a parameter of the optimiser, besides what the rows say of it."""

    parameter: Any = None
    optimizer: Any = None
    scheduler: Any = None
    is_over: bool = False


class TorchOptimizer(LossMethod):
    """Minimise the average loss with an optimiser of `torch.optim`, or one that follows its ways.

    Its gradients are those of the problem: of the loss, least over the intercepts, on rows divided
    by R. So it runs with and without intercepts, with many classes and on data in blocks, at two
    passes per iteration (one in blocks), or more where the optimiser asks for its closure again, as
    LBFGS does. Upper bounds come from an average of the dual weights that it meets. Not through a
    kernel, whose coefficients are no coordinates of a step. Needs the extra `ntk` (torch).

    SGD with lr=η on the rows themselves is lr=ηR² here, Adam lr=ηR. To train an intercept like a
    weight, append a column of ones to X and pass fit_intercept=False.

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
        require_choice("objective", objective, OBJECTIVES)
        self.optimizer = optimizer
        self.objective = objective
        self.schedule = schedule
        self.options = options
        self.name = getattr(optimizer, "__name__", "torch")  # type: ignore[misc]

    def init(self, problem: Any, options: RunOptions = DEFAULTS) -> TorchState:
        try:
            import torch
        except ImportError:
            raise ImportError('TorchOptimizer needs torch: pip install "momentron[ntk]"') from None
        if problem.operator.has_coefficient_per_row:
            raise InputError(f"method={self.name!r} does not support kernels; use 'momentum'")
        state = TorchState.begin(problem, options)
        state.parameter = torch.nn.Parameter(torch.from_numpy(state.now.w.copy()))
        state.optimizer = self.optimizer([state.parameter], **self.options)
        if self.schedule is not None:
            state.scheduler = self.schedule(state.optimizer)
        return state

    def step(self, problem: MarginProblem, state: TorchState) -> None:
        import torch

        def closure() -> Any:
            self._evaluate(problem, state)
            share, gradient = 2.0 / (state.t + 2.0), problem.gradient(state.now.weights)
            # μ ← (1 − λ)μ + λq and its image, λ = 2/(t + 2): later weights count for more
            state.mu = problem.mix(state.mu, 1.0 - share, state.now.weights, share)
            state.z_mu = (1.0 - share) * state.z_mu + share * gradient
            slope, value = 1.0, state.now.psi
            if self.objective == "risk":
                slope, value = problem.risk_slope(value), problem.risk(value)
            state.parameter.grad = torch.from_numpy(slope * gradient)
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
            state.move_to(problem, w.copy())

    def candidates(self, problem: MarginProblem, state: TorchState) -> Candidates:
        found = super().candidates(problem, state)
        found.ending = Status.STALLED if state.is_over else None
        return found
