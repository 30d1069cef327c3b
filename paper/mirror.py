"""Mirror descent, plain and accelerated: the engine of the paper's Appendix B, for any smooth f.

`AcceleratedMirrorDescent` minimises a smooth convex function over a convex set, whose geometry a
`Regularizer` gives: the entropy, Euclidean distance, p-norms, or one of your own. `MirrorDescent`
is the same without momentum. The first-order methods of `momentron.solvers` are instances, in
which f(q) is ‖Zᵀq‖²/2 and the regulariser is the conjugate ψ* of a loss's potential.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax, xlogy

from momentron.data.arguments import as_count, as_flag, as_number
from momentron.data.reprs import call_of
from momentron.dual.losses import log_sum_exp
from momentron.errors import InputError
from momentron.solvers.schedules import (
    Schedule,
    as_schedule,
    checked_lambda,
    checked_step,
    paper_lambda,
    require_share,
)


@dataclass(frozen=True)
class Smooth:
    """A convex function f of n numbers whose gradient is Lipschitz.

    Parameters
    ----------
    value : callable
        q ↦ f(q).
    gradient : callable
        q ↦ ∇f(q), an array of shape (n,).
    size : int
        n.
    smoothness : float
        L with ‖∇f(q) − ∇f(q′)‖_* ≤ L ‖q − q′‖ on C, in the norm of the regulariser it goes with.
        The theorems hold only if this is so; nothing here can check it.
    """

    value: Callable[[np.ndarray], float]
    gradient: Callable[[np.ndarray], np.ndarray]
    size: int
    smoothness: float = 1.0

    def __post_init__(self) -> None:
        for name in ("value", "gradient"):
            if not callable(getattr(self, name)):
                raise InputError(f"{name}={getattr(self, name)!r} must be a function of q")
        as_count("size", self.size)
        wanted = "a positive, finite number"
        if not 0.0 < as_number("smoothness", self.smoothness, wanted) < np.inf:
            raise InputError(f"smoothness={self.smoothness!r} must be {wanted}")

    def checked_gradient(self, q: np.ndarray, t: int) -> np.ndarray:
        """∇f(q) as a finite array of shape (n,)."""
        gradient = np.asarray(self.gradient(q), dtype=float)
        if gradient.shape != (self.size,):
            raise InputError(
                f"the gradient at step {t} has shape {gradient.shape}; it must be ({self.size},)"
            )
        if not np.isfinite(gradient).all():
            raise InputError(f"the gradient at step {t} is not finite; rescale f or its start")
        return gradient


def squared_length(Z: Any, norm: str = "l1") -> Smooth:
    """φ(q) = ‖Zᵀq‖²/2: on the simplex, its least value is γ̄²/2, and 0 where nothing separates.

    Parameters
    ----------
    Z : array of shape (n, d)
        With rows z_i = −y_i x_i.
    norm : {"l1", "l2"}
        That of the regulariser: φ is max‖z_i‖² smooth in ℓ1, and ‖Z‖² smooth in ℓ2.

    Examples
    --------
    >>> from paper.mirror import AcceleratedMirrorDescent, Entropy, squared_length
    >>> f = squared_length([[-1.0, -0.5], [-1.0, 0.5], [-2.0, 0.0]])
    >>> found = AcceleratedMirrorDescent(f, Entropy()).minimize(max_iter=500)
    >>> round((2 * f.value(found.mu)) ** 0.5, 3)  # the best margin of these rows is 1
    1.0
    """
    Z = np.array(Z, dtype=float)
    if Z.ndim != 2 or 0 in Z.shape or not np.isfinite(Z).all():
        raise InputError(f"Z must be a matrix of finite numbers; its shape is {Z.shape}")
    if norm not in ("l1", "l2"):
        raise InputError(f"norm={norm!r} is not known; choose 'l1' or 'l2'")
    bound = np.linalg.norm(Z, axis=1).max() if norm == "l1" else np.linalg.norm(Z, ord=2)
    return Smooth(
        lambda q: 0.5 * float(np.sum((q @ Z) ** 2)),
        lambda q: np.asarray(Z @ (q @ Z)),
        Z.shape[0],
        float(bound) ** 2 or 1.0,
    )


class Regularizer(ABC):
    """A closed ω on a convex set C that is α-strongly convex in some norm.

    Dual variables p live in the whole space; ∇ω* takes them to C. That, ω* and ω are all that the
    methods and their lemmas use, so ω need not be differentiable (paper, (B.2)).

    Attributes
    ----------
    strength : float
        α, with D(q′, q) ≥ α ‖q′ − q‖²/2.
    """

    strength: float = 1.0

    def __repr__(self) -> str:
        return call_of(self)

    @abstractmethod
    def mirror(self, p: np.ndarray) -> np.ndarray:
        """∇ω*(p): the q of C with the largest ⟨p, q⟩ − ω(q)."""

    @abstractmethod
    def conjugate(self, p: np.ndarray) -> float:
        """ω*(p): that largest value."""

    @abstractmethod
    def value(self, q: np.ndarray) -> float:
        """ω(q), for q in C."""

    @abstractmethod
    def distance(self, q: np.ndarray, other: np.ndarray) -> float:
        """‖q − other‖ in the norm in which ω is strongly convex."""

    def divergence(self, q: np.ndarray, p: np.ndarray) -> float:
        """D(q, ∇ω*(p)) = ω(q) + ω*(p) − ⟨p, q⟩: never negative, and 0 for q = ∇ω*(p)."""
        return self.value(q) + self.conjugate(p) - float(p @ q)


class Entropy(Regularizer):
    """ω(q) = Σ q ln q on the simplex: 1-strongly convex in ℓ1; D is the KL divergence."""

    def mirror(self, p: np.ndarray) -> np.ndarray:
        return np.asarray(softmax(p))

    def conjugate(self, p: np.ndarray) -> float:
        return log_sum_exp(p)

    def value(self, q: np.ndarray) -> float:
        return float(xlogy(q, q).sum())  # 0 ln 0 is 0

    def distance(self, q: np.ndarray, other: np.ndarray) -> float:
        return float(np.abs(q - other).sum())


class Euclidean(Regularizer):
    """ω(q) = ‖q‖²/2 on C: 1-strongly convex in ℓ2; the methods are projected gradient descent.

    Parameters
    ----------
    onto : callable, optional
        The projection onto C, such as `onto_simplex`; the whole space without it.
    """

    def __init__(self, onto: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        if onto is not None and not callable(onto):
            raise InputError(f"onto={onto!r} must be a function that projects onto C, or None")
        self.onto = onto

    def mirror(self, p: np.ndarray) -> np.ndarray:
        return p.copy() if self.onto is None else np.asarray(self.onto(p), dtype=float)

    def conjugate(self, p: np.ndarray) -> float:
        q = self.mirror(p)
        return float(p @ q) - self.value(q)

    def value(self, q: np.ndarray) -> float:
        return 0.5 * float(q @ q)

    def distance(self, q: np.ndarray, other: np.ndarray) -> float:
        return float(np.linalg.norm(q - other))


class PNorm(Regularizer):
    """ω(q) = ‖q‖_p²/2 on the whole space: (p − 1)-strongly convex in ℓp, for 1 < p ≤ 2.

    Between the entropy and Euclid: near 1 it suits gradients whose largest entry is small.

    Parameters
    ----------
    p : float
        In (1, 2].
    """

    def __init__(self, p: float = 1.5) -> None:
        wanted = "a number above 1 and at most 2"
        if not 1.0 < as_number("p", p, wanted) <= 2.0:
            raise InputError(f"p={p!r} must be {wanted}")
        self.p = float(p)
        self.strength = self.p - 1.0
        self._dual = self.p / (self.p - 1.0)

    def mirror(self, p: np.ndarray) -> np.ndarray:
        top = float(np.abs(p).max(initial=0.0))
        if top == 0.0:
            return np.zeros_like(p)
        share = np.abs(p) / top  # powers of it neither overflow nor all vanish
        length = float(np.sum(share**self._dual)) ** (1.0 / self._dual)
        return np.asarray(np.sign(p) * (share / length) ** (self._dual - 1.0) * length * top)

    def conjugate(self, p: np.ndarray) -> float:
        return 0.5 * self._length(p, self._dual) ** 2

    def value(self, q: np.ndarray) -> float:
        return 0.5 * self._length(q, self.p) ** 2

    def distance(self, q: np.ndarray, other: np.ndarray) -> float:
        return self._length(q - other, self.p)

    def _length(self, x: np.ndarray, power: float) -> float:
        top = float(np.abs(x).max(initial=0.0))
        return top * float(np.sum(np.abs(x / top) ** power)) ** (1.0 / power) if top > 0.0 else 0.0


def onto_simplex(p: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex {q ≥ 0, Σq = 1}, by one sort."""
    p = p - p.max()  # which moves p along (1, …, 1), and the nearest point not at all
    ordered = np.sort(p)[::-1]
    excess = np.cumsum(ordered) - 1.0
    count = np.arange(1, p.size + 1)
    last = int(np.flatnonzero(ordered - excess / count > 0.0)[-1])
    return np.asarray(np.maximum(p - excess[last] / (last + 1.0), 0.0))


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
        if self.check_schedule:
            lam = checked_lambda(self.schedule, t, state.lam)
        else:
            lam = require_share(t, float(self.schedule(t)))
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
