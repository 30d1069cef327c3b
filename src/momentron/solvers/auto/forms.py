"""A form: the rows of a working set, a current point, and one way to solve Newton's systems.

The point is (w, b) with its functional margins p = Aw + Yb. Newton's method and the interior point
each ask the form for a direction, the solution of a linear system. Systems are solved by a Gram
matrix (`gram_form`), by d × d matrices, or by conjugate gradients (both in `primal_form`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.working_rows import SignedRows

NEAREST = 8  # rows that hold w where none is between the bounds
VANISHED = 1e-13  # ‖Aᵀq‖ in units of ‖a‖ at which q is a witness


class Point(NamedTuple):
    """Where a form is: coordinates x, intercepts b not among them, and functional margins p."""

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


class Bounds(NamedTuple):
    """An interval for a margin, as far as float64 tells; a soft one is 1/√(2P) = 1/√(2D)."""

    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """(upper − lower)/upper, infinite where there is no upper bound.

        None is left at P = 0, which is the least there is: a working set of one class has it.
        """
        if self.lower == math.inf:
            return 0.0
        if not 0.0 < self.upper < math.inf:
            return math.inf
        return (self.upper - self.lower) / self.upper


def margin_of(objective: float) -> float:
    """The soft margin 1/√(2P) of an objective; infinite where it is not positive."""
    return 1.0 / math.sqrt(2.0 * objective) if objective > 0.0 else math.inf


class Hinge(NamedTuple):
    """The loss of some rows, smoothed around weights with stiffness σ times the rows' shares."""

    sigma: float
    upper: float | np.ndarray = math.inf
    centre: float | np.ndarray = 0.0
    shares: float | np.ndarray = 1.0

    @property
    def stiffness(self) -> float | np.ndarray:
        return self.sigma * self.shares

    @property
    def is_boxed(self) -> bool:
        return isinstance(self.upper, np.ndarray)

    def at(self, p: np.ndarray) -> np.ndarray:
        """α + σ(1 − p), not yet in the box."""
        return self.centre + self.stiffness * (1.0 - p)

    def weights(self, z: np.ndarray) -> np.ndarray:
        """The same in the box; np.clip takes three times as long for few numbers."""
        z = np.maximum(z, 0.0)
        return np.minimum(z, self.upper) if self.is_boxed else z

    def is_between(self, z: np.ndarray) -> np.ndarray:
        """Where there is curvature."""
        return (z > 0.0) & (z < self.upper) if self.is_boxed else z > 0.0

    def primal(self, norm: float, p: np.ndarray) -> float:
        """The objective of a classifier with this norm and these margins."""
        if not isinstance(self.upper, np.ndarray):
            slack = np.maximum(1.0 - p, 0.0)
            return 0.5 * norm * norm + 0.5 * float(np.sum(self.stiffness * slack * slack))
        # a little longer, as the certificate has it: C times rounding is no slack
        return min(
            0.5 * (t * norm) * (t * norm) + float(self.upper @ np.maximum(1.0 - t * p, 0.0))
            for t in (1.0, 1.0 + 1e-12, 1.0 + 1e-10)
        )

    def shortest(self, q: np.ndarray, length: float) -> float:
        """The bound 1/√(2D) for the best multiple of q in the dual set, with ‖Zᵀq‖, r counted."""
        if not isinstance(self.upper, np.ndarray):
            return length
        used = q > 0.0
        most = float(np.min(self.upper[used] / q[used]))
        if length * length * most <= 1.0:
            dual = most - 0.5 * (most * length) * (most * length)
            return margin_of(dual)
        return length

    def some(self, index: np.ndarray | slice) -> "Hinge":
        """The same of some of the rows."""
        own = (part[index] if isinstance(part, np.ndarray) else part for part in self[1:])
        return Hinge(self.sigma, *own)


NO_SLACK = Hinge(math.inf)


Solve = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Movable(ABC):
    """What Newton's method moves: a current point, and directions from it."""

    deadline: Deadline
    scale: float  # mean of ‖a_i‖²: the unit of 1/σ
    point: Point  # to be replaced, not written to

    @property
    def p(self) -> np.ndarray:
        """Functional margins of the current point."""
        return self.point.p

    def newton_flops(self, size: int) -> float:
        """The arithmetic of a Newton step with that many rows between the bounds, roughly."""
        return 0.0

    @abstractmethod
    def direction(
        self, loss: Hinge, weights: np.ndarray, between: np.ndarray, *, rough: bool = False
    ) -> Direction:
        """Newton's: to the minimiser where the rows outside `between` keep these weights."""

    @abstractmethod
    def norm(self) -> float:
        """‖w‖."""

    def leaves(self, weights: np.ndarray) -> float:
        """What the last direction left of its system, as a share of the largest weight."""
        return 0.0

    def nearest_rows(self) -> np.ndarray:
        """A mask of the rows nearest to the margin: some that hold w."""
        distance = np.abs(self.p - 1.0)
        most = min(NEAREST, distance.size - 1)
        return distance <= np.partition(distance, most)[most]

    def move(self, direction: Direction, t: float) -> None:
        """Go t times a direction."""
        x, b, p = self.point
        dx, db, dp = direction[:3]
        self.point = Point(x + t * dx, b + t * db, p + t * dp)


class Form(Movable):
    """A working set with a current point, of as many coordinates and intercepts as `sizes` says.

    `scale` is the mean of ‖a_i‖².
    """

    has_factors: bool = True  # whether systems are solved by factors, not by products
    gram: np.ndarray | None = None  # K of all its rows, with which x are weights u, w = Aᵀu
    squares: np.ndarray | None = None  # ‖a_i‖² where x is w, with the column of an intercept in it

    def __init__(
        self, rows: SignedRows, scale: float, sizes: tuple[int, int], deadline: Deadline
    ) -> None:
        self.rows, self.m, self.deadline = rows, rows.m, deadline
        self.dual_set, self.shares = rows.dual_set, rows.shares
        self.Y = rows.dual_set.columns  # those of the intercepts
        self.scale = max(scale, 1e-300)
        self.length = math.sqrt(self.scale)  # a typical ‖a_i‖
        self.point = Point(*map(np.zeros, (*sizes, rows.m)))

    # --- the current point ---------------------------------------------------------------------

    def reset(self) -> None:
        """Go to w = 0, b = 0."""
        self.point = Point(*map(np.zeros_like, self.point))

    @abstractmethod
    def image(self, x: np.ndarray) -> np.ndarray:
        """What coordinates add to the margins."""

    def margins(self, x: np.ndarray, b: np.ndarray) -> np.ndarray:
        """p of a point."""
        return self.image(x) + self.dual_set.spread(b)

    def refresh(self) -> None:
        """Compute p again, without accumulated rounding."""
        x, b, _ = self.point
        self.point = Point(x, b, self.margins(x, b))

    @abstractmethod
    def at_weights(self, u: np.ndarray, b: np.ndarray, w: np.ndarray | None = None) -> Point:
        """The point w = Aᵀu, which may be known, with these intercepts."""

    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        """Go to a given point, where w = Aᵀu up to rounding."""
        self.point = self.at_weights(u, b, w)

    @abstractmethod
    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """(w, b)."""

    # --- systems -------------------------------------------------------------------------------

    @abstractmethod
    def system(self, loss: Hinge, between: np.ndarray, *, rough: bool = False) -> Solve:
        """Newton's system here: from weights to the (dx, db) towards them.

        Rows between the bounds lose σ times what their margins gain; the others keep theirs.
        """

    @abstractmethod
    def slopes(self, dx: np.ndarray, image: np.ndarray) -> tuple[float, float]:
        """(⟨w, dw⟩, ‖dw‖²)."""

    def direction(
        self, loss: Hinge, weights: np.ndarray, between: np.ndarray, *, rough: bool = False
    ) -> Direction:
        dx, db = self.system(loss, between, rough=rough)(weights)
        image, make = self.image(dx), Direction if self.gram is None else Direction.of
        return make(dx, db, image + self.dual_set.spread(db), *self.slopes(dx, image))

    @abstractmethod
    def block(self, index: np.ndarray) -> np.ndarray:
        """K of some of the rows, C-ordered."""

    def part(self, index: np.ndarray, weights: np.ndarray) -> "Form":
        """Some of more rows than coordinates at the same point; the others keep these weights."""
        raise NotImplementedError

    def forget(self) -> None:
        """Give up the memory of what is kept from one direction to the next."""

    # --- bounds --------------------------------------------------------------------------------

    @abstractmethod
    def dual_norm(self, q: np.ndarray) -> float:
        """‖Aᵀq‖."""

    def bounds(self, alpha: np.ndarray, loss: Hinge = NO_SLACK) -> Bounds:
        """Of the current point and α."""
        q, norm, length = self.dual_set.feasible_or_none(alpha), self.norm(), math.inf
        if q is not None:
            ridge = np.linalg.norm(q / np.sqrt(loss.stiffness))
            length = loss.shortest(q, math.hypot(self.dual_norm(q), ridge))
        if loss is not NO_SLACK:
            return Bounds(margin_of(loss.primal(norm, self.p)), length)
        return Bounds(self.dual_set.worst(self.p) / norm if norm > 0.0 else -math.inf, length)

    def gap_floor(self, upper: float) -> float:
        """The smallest relative gap that float64 can show: a·w rounds by about u‖a‖‖w‖."""
        return 2e-16 * self.length / upper if upper > 0.0 else math.inf

    def is_solved(self, bounds: Bounds, tol: float) -> bool:
        """Whether a hard margin's gap is within tol or at rounding level, or λ is a witness."""
        enough = max(tol, 4.0 * self.gap_floor(bounds.upper))
        return bounds.gap <= enough or self.has_vanished(bounds.upper)

    def has_vanished(self, upper: float) -> bool:
        """Whether weights with this ‖Aᵀq‖ are a witness."""
        return upper <= VANISHED * self.length
