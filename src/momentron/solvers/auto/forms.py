"""A working set seen through one of two forms: d × d matrices, or blocks of its Gram matrix.

A form is the rows and a current point (w, b) with its functional margins p = Aw + Yb. Newton's
method for soft margins and the interior point each ask it for a linear system of their own, and go
where the solution, a direction, says.
"""

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from momentron.dual.dualsets import DualSet
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.rows import WorkingRows
from momentron.solvers.auto.settings import AutoSettings

if TYPE_CHECKING:
    from momentron.solvers.auto.gram_form import GramForm


class Point(NamedTuple):
    """Where a form is: its coordinates x, intercepts b beside them, and functional margins p."""

    x: np.ndarray
    b: np.ndarray
    p: np.ndarray


class Direction(NamedTuple):
    """What a full step adds to a point, with ⟨w, dw⟩ and ‖dw‖², which is never negative."""

    dx: np.ndarray
    db: np.ndarray
    dp: np.ndarray
    slope: float
    curvature: float

    @classmethod
    def of(
        cls, dx: np.ndarray, db: np.ndarray, dp: np.ndarray, slope: float, curvature: float
    ) -> "Direction":
        """The same from inner products that round, such as duᵀK du.

        A ‖dw‖² that is not positive is that of dw = 0, which is legitimate: intercepts move, or
        coefficients that cancel. What ⟨w, dw⟩ is then is rounding, too, and a line search that
        believed it might find no end.
        """
        if not curvature > 0.0:
            slope = curvature = 0.0
        return cls(dx, db, dp, slope, curvature)

    def times(self, t: float) -> "Direction":
        """The same direction, t times as long."""
        dx, db, dp, slope, curvature = self
        return Direction(t * dx, t * db, t * dp, t * slope, t * t * curvature)


class InteriorDirection(NamedTuple):
    """What a full step of the interior point adds to x and b, to the slacks s and to λ."""

    dx: np.ndarray
    db: np.ndarray
    ds: np.ndarray
    dlam: np.ndarray


class SoftSystem(Protocol):
    """Newton's linear systems for the soft margin, with what is kept from one to the next."""

    def direction(
        self, S: np.ndarray, target: np.ndarray | float, C: float, *, rough: bool
    ) -> Direction:
        """To the minimiser of ½‖w‖² + (C/2) Σ_S s_i (target_i − p_i)², s the form's shares."""


class InteriorSystem(Protocol):
    """The linear system of the interior point at (λ, s), factored once."""

    def direction(self, rc: np.ndarray) -> InteriorDirection:
        """The direction for the residual rc of complementarity."""


class Bounds(NamedTuple):
    """An interval for the working set's margin, as far as float64 tells."""

    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """(upper − lower)/upper, infinite where there is no upper bound."""
        if not 0.0 < self.upper < math.inf:
            return math.inf
        return (self.upper - self.lower) / self.upper


UNBOUNDED = Bounds(-math.inf, math.inf)


def ratio(lam: np.ndarray, s: np.ndarray) -> np.ndarray:
    """λ/s, the weights of the interior point's systems, without overflow."""
    with np.errstate(over="ignore"):
        return np.minimum(lam / s, 1e290)


class Form(ABC):
    """A working set with a current point.

    Attributes
    ----------
    rows : WorkingRows
    squares : ndarray of shape (m,)
        ‖a_i‖², the intercept's column included.
    scale : float
        Mean of ‖a_i‖²: the unit of 1/C.
    point : Point
        To be replaced, not written to.
    soft : SoftSystem
    is_explicit : bool
        Whether there is more to know than a Gram matrix: margins can be had from the rows.
    """

    is_explicit: bool = True
    rows: WorkingRows
    deadline: Deadline
    settings: AutoSettings
    squares: np.ndarray
    scale: float
    point: Point
    soft: SoftSystem

    @property
    def m(self) -> int:
        return self.rows.m

    @property
    def p(self) -> np.ndarray:
        """Functional margins of the current point."""
        return self.point.p

    @property
    def dual_set(self) -> DualSet:
        """The intercepts' part."""
        return self.rows.dual_set

    @property
    def shares(self) -> float | np.ndarray:
        """The rows' own penalties over C: 1 where all are alike."""
        return self.rows.shares

    @property
    def length(self) -> float:
        """A typical ‖a_i‖."""
        return math.sqrt(self.scale)

    @property
    def gram(self) -> "GramForm | None":
        """Itself, where it has the Gram matrix that exchanges and pivots need."""
        return None

    @property
    @abstractmethod
    def step_flops(self) -> float:
        """The arithmetic of a Newton or interior-point step, roughly."""

    # --- the current point ---------------------------------------------------------------------

    @abstractmethod
    def reset(self) -> None:
        """Go to w = 0, b = 0."""

    @abstractmethod
    def margins(self, x: np.ndarray, b: np.ndarray, *, from_rows: bool = False) -> np.ndarray:
        """p of a point; from the rows themselves if asked."""

    def refresh(self, *, from_rows: bool = False) -> None:
        """Compute p anew, shedding rounding."""
        x, b, _ = self.point
        self.point = Point(x, b, self.margins(x, b, from_rows=from_rows))

    def move(self, direction: Direction, t: float) -> None:
        """Go t times a direction."""
        x, b, p = self.point
        dx, db, dp = direction[:3]
        self.point = Point(x + t * dx, b + t * db, p + t * dp)

    def follow(self, direction: InteriorDirection, t: float) -> None:
        """Go t times a direction of the interior point; p anew keeps its residuals honest."""
        x, b = self.point.x + t * direction.dx, self.point.b + t * direction.db
        self.point = Point(x, b, self.margins(x, b))

    @abstractmethod
    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        """Go to a given point, where w = Aᵀu up to rounding."""

    @abstractmethod
    def go_to_weights(self, u: np.ndarray, b: np.ndarray) -> None:
        """Go to w = Aᵀu and these intercepts."""

    @abstractmethod
    def norm(self) -> float:
        """‖w‖."""

    @abstractmethod
    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """(w, b)."""

    # --- systems -------------------------------------------------------------------------------

    @abstractmethod
    def along_mean(self) -> Direction:
        """Along Aᵀ1, the difference of the classes' sums: a first guess."""

    @abstractmethod
    def start_interior(self, lam: np.ndarray) -> None:
        """Go to where a cold interior point begins with these multipliers."""

    @abstractmethod
    def interior(self, lam: np.ndarray, s: np.ndarray) -> InteriorSystem:
        """The interior point's system here."""

    def reduced(self) -> "Form | None":
        """The same rows without the squares that cost this form digits, if there is such a form."""
        return None

    # --- bounds --------------------------------------------------------------------------------

    @abstractmethod
    def dual_norm(self, q: np.ndarray) -> float:
        """‖Aᵀq‖."""

    def project(self, q: np.ndarray, norm: float) -> tuple[np.ndarray, float]:
        """Weights near q with a smaller ‖Aᵀq‖, and that; q itself where none are known."""
        return q, norm

    def bounds(self, lam: np.ndarray) -> Bounds:
        """Of the current point and λ."""
        return self._bounds(lam, self.p)

    def true_bounds(self, lam: np.ndarray) -> Bounds:
        """The same with p anew, and from the rows themselves."""
        return self._bounds(lam, self.margins(self.point.x, self.point.b))

    def _bounds(self, lam: np.ndarray, p: np.ndarray) -> Bounds:
        q = self.dual_set.feasible_or_none(lam)
        norm = self.norm()
        if q is None or not norm > 0.0:
            return UNBOUNDED
        return Bounds(self.dual_set.worst(p) / norm, self.dual_norm(q))

    def gap_floor(self, upper: float) -> float:
        """The smallest relative gap that float64 can show: a·w rounds by about u‖a‖‖w‖."""
        return 2e-16 * self.length / upper if upper > 0.0 else math.inf

    def shows(self, tol: float, upper: float) -> bool:
        """Whether even a Gram matrix, which squares the margin, is right to a tenth of tol."""
        return 1e-14 * self.scale < 0.1 * tol * upper**2

    def is_solved(self, bounds: Bounds, tol: float) -> bool:
        """Whether a gap is within tol or at rounding level, or λ is a witness."""
        enough = 4.0 * max(tol, self.gap_floor(bounds.upper))
        return bounds.gap <= enough or self.has_vanished(bounds.upper)

    def has_vanished(self, upper: float) -> bool:
        """Whether weights with this ‖Aᵀq‖ are a witness."""
        return upper <= self.settings.vanished * self.length
