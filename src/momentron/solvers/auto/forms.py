"""A working set seen through one of two forms: d × d matrices, or blocks of its Gram matrix.

Both hold the functional margins p = Aw + Yb of their current point, and both answer the same
questions, so that Newton's method and the interior point are written once.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from momentron.clock import OutOfTime, time_left
from momentron.dualsets import DualSet
from momentron.solvers.auto.rows import WorkingRows

FLOPS = 2e10  # a cautious rate at which this kind of machine multiplies matrices


class Deadline:
    """The clock's, for working-set solves, which think in flops and remember that it was met."""

    def __init__(self) -> None:
        self.was_met = False

    def has_passed(self, flops: float = 0.0) -> bool:
        """Whether it has, or will have before that much arithmetic is done."""
        if time_left() < flops / FLOPS:
            self.was_met = True
        return self.was_met

    def require(self, flops: float) -> None:
        """Raise OutOfTime where that much arithmetic is more than there is time for."""
        if self.has_passed(flops):
            raise OutOfTime


class Form(ABC):
    """A working set with a current point (w, b), and directions from it.

    Attributes
    ----------
    rows : WorkingRows
    p : ndarray of shape (m,)
        Functional margins Aw + Yb of the current point.
    squares : ndarray of shape (m,)
        ‖a_i‖², the intercept's column included.
    scale : float
        Mean of ‖a_i‖²: the unit of 1/C.
    deadline : Deadline
    """

    rows: WorkingRows
    p: np.ndarray
    squares: np.ndarray
    scale: float
    deadline: Deadline

    @property
    def m(self) -> int:
        return self.rows.m

    @property
    def balance(self) -> DualSet:
        """The intercepts' part."""
        return self.rows.balance

    @property
    def length(self) -> float:
        """A typical ‖a_i‖."""
        return math.sqrt(self.scale)

    @property
    @abstractmethod
    def step_flops(self) -> float:
        """The arithmetic of a Newton or interior-point step, roughly."""

    # the current point

    @abstractmethod
    def reset(self) -> None:
        """Go to w = 0, b = 0."""

    @abstractmethod
    def refresh(self, *, from_rows: bool = False) -> None:
        """Compute p anew from the point, shedding rounding; from the rows themselves if asked."""

    @abstractmethod
    def norm(self) -> float:
        """‖w‖."""

    @abstractmethod
    def dual_norm(self, q: np.ndarray) -> float:
        """‖Aᵀq‖."""

    @abstractmethod
    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        """(w, b)."""

    @abstractmethod
    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        """Go to a given point, where w = Aᵀu up to rounding."""

    @abstractmethod
    def state(self) -> Any:
        """The point, to be given to `restore`."""

    @abstractmethod
    def restore(self, state: Any) -> None: ...

    # directions: each returns (dp, ⟨w, dw⟩, ‖dw‖²), and `move` follows the last one

    @abstractmethod
    def newton(
        self, S: np.ndarray, target: np.ndarray | float, C: float, *, rough: bool
    ) -> tuple[np.ndarray, float, float]:
        """Towards the minimiser of ½‖w‖² + (C/2) Σ_S (target_i − p_i)²."""

    @abstractmethod
    def along_mean(self) -> tuple[np.ndarray, float, float]:
        """Along Aᵀ1, the difference of the classes' sums: a first guess."""

    @abstractmethod
    def move(self, t: float) -> None:
        """Go t times the last direction."""

    # the interior point's half of the work

    @abstractmethod
    def ip_start(self, lam: np.ndarray) -> None: ...

    @abstractmethod
    def ip_factor(self, D: np.ndarray) -> None:
        """Factor I + AᵀDA, or K + D⁻¹."""

    @abstractmethod
    def ip_residual(self, lam: np.ndarray, s: np.ndarray) -> np.ndarray:
        """p − s − 1, with the dual residual kept inside."""

    @abstractmethod
    def ip_direction(
        self, rc: np.ndarray, rp: np.ndarray, lam: np.ndarray, s: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(ds, dλ) for the residuals rc of complementarity and rp of the constraints."""

    @abstractmethod
    def ip_move(self, t: float, lam: np.ndarray) -> None: ...


def bounds(form: Form, lam: np.ndarray) -> tuple[float, float]:
    """(lower, upper) on the working set's margin, from the current point and λ."""
    q = form.balance.normalised(lam)
    norm = form.norm()
    if q is None or not norm > 0.0:
        return -math.inf, math.inf
    return form.balance.worst(form.p) / norm, form.dual_norm(q)


def gap_of(lower: float, upper: float) -> float:
    """(upper − lower)/upper, infinite where there is no upper bound to speak of."""
    return (upper - lower) / upper if 0.0 < upper < math.inf else math.inf


def true_gap(form: Form, lam: np.ndarray) -> tuple[float, float]:
    """(gap, upper) from the rows themselves: a Gram matrix has squared the condition number.

    Of a kernel's rows nothing but the Gram matrix is known.
    """
    if not form.rows.is_explicit:
        lower, upper = bounds(form, lam)
        return gap_of(lower, upper), upper
    q = form.balance.normalised(lam)
    w, b = form.answer()
    norm = float(np.linalg.norm(w))
    if q is None or not norm > 0.0:
        return math.inf, math.inf
    p = form.rows.products(w) + form.balance.spread(b)
    upper = float(np.linalg.norm(form.rows.combine(q)))
    return gap_of(form.balance.worst(p) / norm, upper), upper


def gap_floor(form: Form, upper: float) -> float:
    """The smallest relative gap that float64 can show: a·w rounds by about u‖a‖‖w‖."""
    return 2e-16 * form.length / upper if upper > 0.0 else math.inf


def gram_shows(form: Form, tol: float, upper: float) -> bool:
    """Whether even a Gram matrix, which squares the margin, is right to a tenth of tol."""
    return 1e-14 * form.scale < 0.1 * tol * upper**2
