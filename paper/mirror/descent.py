"""The updates (B.1) and (B.2) of the paper: three sequences q, μ, ν, and p in the dual."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.arguments import as_count, as_flag, as_number
from momentron.errors import InputError
from momentron.solvers.schedules import (
    Schedule,
    as_schedule,
    checked_lambda,
    checked_share,
    checked_step,
    paper_lambda,
)
from paper.mirror.objective import Smooth
from paper.mirror.regularizers import Regularizer


@dataclass
class MirrorState:
    """After t steps.

    Attributes
    ----------
    t : int
    p, q : ndarray
        p_t, and q_t = ∇ω*(p_t).
    mu : ndarray
        μ_t, which nears the minimum.
    nu : ndarray
        ν_{t−1}, where the last gradient was taken.
    lam, theta : float
        λ_{t−1} and θ_{t−1}.
    rate : float
        f(μ_t) − f(q̄) ≤ rate · (D(q̄, q_0) − D(q̄, q_t)) for every minimum q̄ (Theorem B.12): with
        momentum λ_{t−1}² L/(α θ_{t−1}). Infinite where the schedule keeps no such promise.
    """

    t: int
    p: np.ndarray
    q: np.ndarray
    mu: np.ndarray
    nu: np.ndarray
    lam: float = 1.0
    theta: float = 1.0
    rate: float = math.inf


class AcceleratedMirrorDescent:
    r"""Nesterov's method in the geometry of a regulariser, by dual averaging.

    .. math::
        ν_t = (1-λ_t) μ_t + λ_t q_t, \quad
        p_{t+1} = p_t - \tfrac{α θ_t}{L λ_t} ∇f(ν_t), \quad
        q_{t+1} = ∇ω^*(p_{t+1}), \quad
        μ_{t+1} = (1-λ_t) μ_t + λ_t q_{t+1}

    With λ_t = 2/(t + 2) and θ_t = 1, f(μ_t) is within 4 L D(q̄, q_0)/(α (t + 1)²) of its least
    value. One gradient per step.

    Parameters
    ----------
    objective : Smooth
    regularizer : Regularizer
    schedule : callable
        t ↦ λ_t in (0, 1].
    step : float or callable
        θ_t in (0, 1].
    check_schedule : bool
        Whether to insist on (B.10), λ_0 = 1 and 1/λ_t² − 1/λ_t ≤ 1/λ_{t−1}². Without it any λ_t is
        taken: Lemma B.3 still holds, but the rate is infinite from where the condition breaks.

    References
    ----------
    Ji, Srebro, Telgarsky (2021), *Fast margin maximization via dual acceleration*, ICML, appendix
    B; Tseng (2008); Allen-Zhu and Orecchia (2017).

    Examples
    --------
    >>> import numpy as np
    >>> from paper.mirror import AcceleratedMirrorDescent, Euclidean, Smooth
    >>> aim = np.array([3.0, -1.0])
    >>> f = Smooth(lambda q: 0.5 * ((q - aim) ** 2).sum(), lambda q: q - aim, size=2)
    >>> AcceleratedMirrorDescent(f, Euclidean()).minimize(max_iter=200).mu.round(3)
    array([ 3., -1.])
    """

    def __init__(
        self,
        objective: Smooth,
        regularizer: Regularizer,
        *,
        schedule: Schedule = paper_lambda,
        step: float | Schedule = 1.0,
        check_schedule: bool = True,
    ) -> None:
        self.objective = objective
        self.regularizer = regularizer
        self.schedule = as_schedule(schedule)
        self.step_size = as_schedule(step)
        self.check_schedule = as_flag("check_schedule", check_schedule)

    def init(self, p: Any = None) -> MirrorState:
        """The state before the first step: μ_0 = q_0 = ∇ω*(p_0), where p_0 is 0 by default."""
        size = self.objective.size
        p = np.zeros(size) if p is None else np.array(p, dtype=float)
        if p.shape != (size,) or not np.isfinite(p).all():
            raise InputError(f"p has shape {p.shape}; it must be {size} finite numbers")
        q = self.regularizer.mirror(p)
        return MirrorState(0, p, q, q, q)

    def step(self, state: MirrorState) -> None:
        """Advance the state by one iteration, in place; its arrays are replaced, not changed."""
        t, objective = state.t, self.objective
        lam = self._lambda(state)
        theta = checked_step(self.step_size, t)
        scale = self.regularizer.strength / objective.smoothness
        state.nu = (1.0 - lam) * state.mu + lam * state.q
        gradient = objective.checked_gradient(state.nu, t)
        state.p = state.p - (scale * theta / lam) * gradient
        state.q = self.regularizer.mirror(state.p)
        state.mu = (1.0 - lam) * state.mu + lam * state.q
        state.rate = self._rate(state, lam, theta, scale)
        state.lam, state.theta, state.t = lam, theta, t + 1

    def minimize(
        self,
        *,
        start: Any = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        callback: Callable[[MirrorState], Any] | None = None,
    ) -> MirrorState:
        """The state after some steps, from p_0 = start.

        `max_time` is in seconds. The callback sees the state after each step, and ends the run by
        returning a true value.
        """
        as_count("max_iter", max_iter)
        wanted = "a number of at least 0, or None"
        seconds = math.inf if max_time is None else as_number("max_time", max_time, wanted)
        if seconds < 0.0:
            raise InputError(f"max_time={max_time!r} must be {wanted}")
        end = time.perf_counter() + seconds
        state = self.init(start)
        for _ in range(max_iter):
            self.step(state)
            if (callback is not None and callback(state)) or time.perf_counter() >= end:
                break
        return state

    def _lambda(self, state: MirrorState) -> float:
        if self.check_schedule:
            return checked_lambda(self.schedule, state.t, state.lam)
        return checked_share(self.schedule, state.t)

    def _rate(self, state: MirrorState, lam: float, theta: float, scale: float) -> float:
        """λ²L/(αθ), if no term of Lemma B.3's sum was negative."""
        if state.t == 0:
            holds = lam == 1.0
        else:
            holds = theta * (1.0 - lam) / lam**2 <= (1.0 + 1e-9) * state.theta / state.lam**2
            holds = holds and math.isfinite(state.rate)
        return lam**2 / (theta * scale) if holds else math.inf


class MirrorDescent(AcceleratedMirrorDescent):
    r"""Mirror descent, or dual averaging: λ_t = 1, and no momentum.

    .. math::
        p_{t+1} = p_t - \tfrac{α θ_t}{L} ∇f(q_t), \quad q_{t+1} = ∇ω^*(p_{t+1})

    f(q_t) never increases, so that Lemma B.3 gives it the rate L/(α Σθ_j): with θ_t = 1, O(1/t).

    Parameters
    ----------
    objective : Smooth
    regularizer : Regularizer
    step : float or callable
        θ_t in (0, 1].
    """

    def __init__(
        self, objective: Smooth, regularizer: Regularizer, *, step: float | Schedule = 1.0
    ) -> None:
        super().__init__(objective, regularizer, schedule=as_schedule(1.0), step=step)

    def _rate(self, state: MirrorState, lam: float, theta: float, scale: float) -> float:
        return 1.0 / (1.0 / state.rate + theta * scale)
