"""What a method is, and what it sees of a problem: in memory, on disk or on a cluster."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from momentron.arithmetic.rounding import UNIT_ROUNDOFF
from momentron.data.reprs import call_of
from momentron.dual.combination import mix_in_place
from momentron.dual.dualsets import DualSet
from momentron.dual.penalty import Penalty
from momentron.status import Status

COLD = np.empty(0)  # no nearby evaluation to start from


class BudgetWarning(ConvergenceWarning):
    """A budget ended the fit before the certified gap reached the tolerance."""


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


@dataclass
class Evaluation:
    """What the rows say of a classifier.

    Attributes
    ----------
    w : ndarray
    scores : ndarray of shape (size,)
        Zw: violations, the larger the worse.
    weights : ndarray of shape (size,)
        q = ∇ψ(Zw).
    psi : float
        ψ(Zw).
    near : ndarray
        What makes the next evaluation faster, if it is of a classifier nearby; it may be empty.
    """

    w: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    psi: float
    near: np.ndarray


class MarginProblem(ABC):
    """Find w with the largest margin: the least −⟨z, w⟩/‖w‖ over the rows z of Z, or over C.

    Solvers work in units of R, in which the theorems hold; `to_units_of_x` takes a margin back.
    Scores and dual weights are arrays of shape (size,), wherever the rows are. In blocks a product
    is a pass, unless passes have shown it: Zᵀq of weights that `evaluate` gave, and of a `mix` of
    such weights, is known.

    Attributes
    ----------
    classes : ndarray of shape (k,)
    n_rows : int
        The number of examples.
    radius : float
        R, the length that solvers take as the unit.
    exponent : int
        X was divided by 2^exponent.
    rho : float
        The smoothness of ψ: steps are divided by it.
    psi_zero : float
        ψ(0).
    w_shape : tuple of int
        The shape of a classifier w.
    dual_set : DualSet
        Which weights are allowed.
    penalty : Penalty
        What slack costs.
    size : int
        The number of constraints, and of dual weights.
    """

    classes: np.ndarray
    n_rows: int
    w_shape: tuple[int, ...]
    radius: float
    exponent: int
    rho: float
    psi_zero: float
    dual_set: DualSet
    penalty: Penalty
    size: int

    # --- classifiers ---------------------------------------------------------------------------

    def zeros(self) -> np.ndarray:
        """The classifier w = 0."""
        return np.zeros(self.w_shape)

    @abstractmethod
    def norm(self, w: np.ndarray) -> float:
        """‖w‖ in the space where the classifier lives, with slack or without."""

    @abstractmethod
    def scores(self, w: np.ndarray) -> np.ndarray:
        """Zw, in units of R: violations, the larger the worse."""

    def margin(self, w: np.ndarray, scores: np.ndarray) -> float:
        """γ(w): the least −⟨z, w⟩ for the best intercepts, over ‖w‖, in units of R; γ(0) = 0."""
        if self.penalty.has_box:
            return float(scores[0])
        norm = self.norm(w)
        return self.dual_set.margin(scores) / norm if norm > 0.0 else 0.0

    @abstractmethod
    def start(self, given: Start | None = None) -> Evaluation:
        """Evaluates w = 0 (no pass), or a given start (one pass; in memory only)."""

    def evaluate(self, w: np.ndarray, near: np.ndarray = COLD) -> Evaluation:
        """Scores, weights and ψ of a classifier: one pass.

        `near` is the `near` of the previous evaluation; it only speeds up the computation.
        """
        scores = self.scores(w)
        return Evaluation(w, scores, *self.dual_set.link_near(scores, near))

    @abstractmethod
    def combination(self) -> Any:
        """w = −Zᵀq, at zero, to be moved along the worst rows; see `momentron.dual.combination`."""

    # --- weights -------------------------------------------------------------------------------

    def no_weights(self) -> np.ndarray:
        """Weights that are all zero, to be added to."""
        return np.zeros(self.size)

    @abstractmethod
    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Zᵀq: a pass, or nothing where passes over blocks have shown it."""

    def mix(
        self, a: np.ndarray, x: float, b: np.ndarray, y: float, *, in_place: bool = False
    ) -> np.ndarray:
        """x·a + y·b for weights a and b, with x and y at least 0; in place, in the memory of a."""
        if not in_place:
            return x * a + y * b
        mix_in_place(a, x, b, y)
        return a

    def upper(self, gradient: np.ndarray, q: np.ndarray) -> float:
        """The upper bound ‖Zᵀq‖ over the sum of q, in units of R, for the gradient Zᵀq."""
        mass = float(q.sum())
        return self.norm(gradient) / mass if mass > 0.0 else math.inf

    # --- the loss ------------------------------------------------------------------------------

    def risk(self, psi: float) -> float:
        """R, the average loss (least over b), from ψ."""
        return self.dual_set.average(self.dual_set.loss.log_value(np.array([psi])))

    def risk_slope(self, psi: float) -> float:
        """The factor c with ∇R(w) = c Zᵀ∇ψ(Zw)."""
        return self.dual_set.average(self.dual_set.loss.log_slope(np.array([psi])))

    def potential(self, scores: np.ndarray) -> float:
        """ψ from the scores of an evaluation."""
        return self.dual_set.link(scores)[1]

    def shortfall(
        self, old: Evaluation, new: Evaluation, theta: float, square: float | None = None
    ) -> float:
        """What a step lacks of the inequality on which the theorems rest: 0 for a proved loss.

        With what all steps lacked added to ψ(0), the interval of Theorem 3.1 holds for any loss and
        any ρ. Infinite where nothing is known: a loss that is not proved needs the simplex.
        `square` is ‖Zᵀ(q′ − q)‖², if it is known: it is shorter than the bound ‖q′ − q‖₁², so that
        θ may exceed 1.
        """
        is_proved = self.dual_set.is_proved
        if is_proved and theta <= 1.0:
            return 0.0
        if self.dual_set.fits_intercept and not is_proved:
            return math.inf
        moved, q = old.scores - new.scores, new.weights
        # (B.7) is D(q′, q) ≥ θ ‖Zᵀ(q′ − q)‖²/(2ρ); D is a difference of ψ, here and there
        distance = old.psi - new.psi - float(q @ moved)
        square = float(np.abs(q - old.weights).sum()) ** 2 if square is None else square
        wanted = theta * square / (2.0 * self.rho)
        mass, top = float(q.sum()), float(new.scores.max())
        sizes = 1.0 + abs(old.psi) + abs(new.psi) + mass * float(np.abs(moved).max())
        rounding = 64.0 * UNIT_ROUNDOFF * sizes
        # ‖q‖₁ ≥ 1 keeps Zᵀμ above γ̄, and ψ ≥ max keeps D(q̄, q) below ψ(0)
        holds = is_proved or (mass >= 1.0 - rounding and new.psi >= top - rounding)
        lacking = max(0.0, wanted - distance) + rounding
        return lacking if holds and lacking < math.inf else math.inf

    # --- units ---------------------------------------------------------------------------------

    def to_units_of_x(self, value: float) -> float:
        """A margin in units of R, in the units of the data as passed."""
        if self.exponent == 0:
            return float(value * self.radius)
        with np.errstate(over="ignore", under="ignore"):
            return float(np.ldexp(value * self.radius, self.exponent))


@dataclass
class Primal:
    """A classifier w with its scores, and ψ if it is at hand, as `evaluate` gives them."""

    w: np.ndarray
    scores: np.ndarray
    psi: float | None = None


@dataclass(frozen=True)
class RunOptions:
    """What a run may spend, and where it begins; its method is told so.

    Attributes
    ----------
    tol : float
        The certified relative gap to reach.
    max_iter : int
        Iterations.
    deadline : float
        When to hand over what there is, on the clock of `time.perf_counter`.
    start : Start, optional
    random_state : int, Generator or None
        The seed of methods that draw.
    memory : int or None
        Bytes that the method may take besides X and the memory for kernel values; None: the
        default.
    """

    tol: float = 1e-6
    max_iter: int = 10_000
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
    gives_up : bool
        Whether margins below tol are left alone, whatever `Solver.vanishing` says.
    """

    primals: list[Primal]
    q: Any
    upper: float
    interval: tuple[float, float] | None = None
    ending: Status | None = None
    refined: tuple[np.ndarray, np.ndarray] | None = None
    gives_up: bool = False


DEFAULTS = RunOptions()


@dataclass
class State:
    """Base of all solver states: t counts completed steps."""

    t: int = field(default=0, init=False)


class Solver(ABC):
    """A method, without any data: all that changes lives in the state that `init` returns.

    Attributes are parameters: do not change them after construction. The problem that subclasses
    are given is a `MarginProblem`, whose verbs work for data in memory and in blocks alike; a
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
    vanishing : float
        Data count as not separable below this upper bound, in units of R, or below the tolerance.
    """

    name: ClassVar[str]
    default_max_iter: ClassVar[int] = 10_000
    uses_loss: ClassVar[bool] = True
    warm_starts: ClassVar[bool] = False
    starts_anywhere: ClassVar[bool] = False
    wants_tight_radius: ClassVar[bool] = True
    uses_working_sets: ClassVar[bool] = False
    needs_memory: ClassVar[str | None] = None
    vanishing: ClassVar[float] = math.inf

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__

    def __repr__(self) -> str:
        return call_of(self)

    @abstractmethod
    def init(self, problem: Any, options: RunOptions = DEFAULTS) -> Any:
        """The state before the first step; may cost passes."""

    @abstractmethod
    def step(self, problem: Any, state: Any) -> None:
        """Advance the state by one iteration, in place."""

    @abstractmethod
    def candidates(self, problem: Any, state: Any) -> Candidates:
        """What the state proposes now, at no pass; the next step may overwrite its arrays."""
