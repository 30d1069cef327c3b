"""The three verbs of a method: init, step, candidates."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from momentron.data.reprs import call_of
from momentron.solvers.margin_problem import Evaluation, MarginProblem
from momentron.status import Status


class BudgetWarning(ConvergenceWarning):
    """A budget ended the fit before the certified gap reached the tolerance."""


@dataclass
class Primal:
    """A classifier w with its scores, and ψ if it is at hand, as `evaluate` gives them."""

    w: np.ndarray
    scores: np.ndarray
    psi: float | None = None


@dataclass(frozen=True)
class Start:
    """Where a warm start begins, in the units of the rows.

    Attributes
    ----------
    w, b : ndarray
        That of a result has functional margin 1; one that a user names has any length.
    q : ndarray
        Dual weights of the first rows; none where a user names the classifier alone.
    """

    w: np.ndarray
    b: np.ndarray
    q: np.ndarray


@dataclass(frozen=True)
class RunOptions:
    """What a run tells its method: when it may stop, and where it begins.

    Attributes
    ----------
    tol : float
        The certified relative gap to reach.
    deadline : float
        When to hand over what there is, on the clock of `time.perf_counter`.
    start : Start, optional
    random_state : int, Generator or None
        The seed of methods that draw.
    memory : int or None
        Bytes that the method may take besides X and the memory for kernel values.
    """

    tol: float = 1e-6
    deadline: float = math.inf
    start: Start | None = None
    random_state: Any = None
    memory: int | None = None


@dataclass
class Candidates:
    """What a method proposes after a step. Nothing here is trusted: the certificate checks it.

    Attributes
    ----------
    primals : list of Primal
        The first is the current iterate, whose margin the trace shows.
    q : ndarray of shape (n,)
        Dual weights, of any positive mass.
    upper : float
        ‖Zᵀq‖ / mass of q, as the method computed it, in units of R.
    interval : (float, float), optional
        A further interval on γ̄ that the method's own theory gives (Theorem 3.1, part 2).
    ending : Status, optional
        Why the method can do no better than this: STALLED, NO_ROOM or TIME_BUDGET.
    refined : (ndarray, ndarray), optional
        (w, q) with more digits than float64 has, for a gap that float64 cannot close: in extended
        precision, or in whole numbers (see `certify`).
    """

    primals: list[Primal]
    q: Any
    upper: float
    interval: tuple[float, float] | None = None
    ending: Status | None = None
    refined: tuple[np.ndarray, np.ndarray] | None = None


DEFAULTS = RunOptions()


@dataclass
class State:
    """Base of all solver states: t counts completed steps."""

    t: int = field(default=0, init=False)


@dataclass
class EvaluatedState(State):
    """w_t with what its evaluation found: scores, dual weights, ψ, and a start for the next one."""

    w: np.ndarray
    scores: np.ndarray
    q: Any
    psi: float
    near: np.ndarray

    @classmethod
    def begin(cls, problem: MarginProblem, options: RunOptions) -> Self:
        first = problem.start(options.start)
        return cls(first.w, first.scores, first.weights, first.psi, first.near)

    def evaluate(self, problem: MarginProblem) -> Evaluation:
        """Bring the rest in line with a w that has moved."""
        found = problem.evaluate(self.w, self.near)
        self.scores, self.q, self.psi = found.scores, found.weights, found.psi
        self.near = found.near
        return found


class Solver(ABC):
    """A method, without any data: all that changes lives in the state that `init` returns.

    Subclasses are frozen in spirit: their attributes are parameters, set once. The problem that
    they are given is a `MarginProblem`, whose verbs work for data in memory and in blocks alike; a
    method that asks for more declares it.

    Attributes
    ----------
    name : str
        What results, tables and messages call the method; the class's own name where it sets none.
    default_max_iter : int
        The budget when the user names none.
    uses_loss : bool
        Whether the method follows the loss.
    warm_starts : bool
        Whether it begins from `RunOptions.start`.
    starts_anywhere : bool
        Whether it begins from a start without dual weights, too.
    wants_tight_radius : bool
        Whether its steps depend on the unit R.
    uses_working_sets : bool
        Whether it solves sets of rows exactly. It then keeps to `RunOptions.memory`, solves the
        plain hinge, and of data in blocks is given working sets, a problem in memory each.
    needs_memory : str or None
        Why the method cannot run on data in blocks, as the user reads it; None where it can.
    """

    name: ClassVar[str]
    default_max_iter: ClassVar[int] = 10_000
    uses_loss: ClassVar[bool] = True
    warm_starts: ClassVar[bool] = False
    starts_anywhere: ClassVar[bool] = False
    wants_tight_radius: ClassVar[bool] = True
    uses_working_sets: ClassVar[bool] = False
    needs_memory: ClassVar[str | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__

    def __repr__(self) -> str:
        return call_of(self)

    @abstractmethod
    def init(self, problem: Any, options: RunOptions = DEFAULTS) -> Any:
        """The state before the first step; may cost passes."""

    def vanishing(self, tol: float) -> float:
        """The upper bound, in units of R, below which data count as not separable."""
        return tol

    @abstractmethod
    def step(self, problem: Any, state: Any) -> None:
        """Advance the state by one iteration, in place."""

    @abstractmethod
    def candidates(self, problem: Any, state: Any) -> Candidates:
        """What the state proposes now, at no pass; the next step may overwrite its arrays."""
