"""The certificate, a proven interval on the best margin; and arrays of solvers, in and out."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.certificate.picture import card, number
from momentron.errors import ContradictionError, SolverError

MOST_BITS = 1000  # of a whole number that is proposed: float64 has it in its range


@dataclass(frozen=True)
class Certificate:
    """A proven interval on the best margin γ̄, in the units of X.

    Attributes
    ----------
    lower, upper : float
        lower ≤ γ̄ ≤ upper. lower is never negative, since γ(0) = 0.
    margin : float
        A proven lower bound on the margin of the classifier itself; negative if it errs.

    Raises
    ------
    ContradictionError
        If lower exceeds upper. Both are sure, so the data were not the same for both.
    """

    lower: float
    upper: float
    margin: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:  # NaN on either side, too
            raise ContradictionError(
                f"proven bounds contradict each other: lower {self.lower!r}, upper {self.upper!r}. "
                "The data must have changed while they were read: a file or memory map, an array "
                "that another thread writes to, or a kernel whose values differ from call to call; "
                "if none did, please report a bug"
            )

    @classmethod
    def from_bounds(cls, margin: float, upper: float) -> "Certificate":
        """The interval that a margin of some w and an upper bound prove; NaN bounds nothing."""
        margin = -math.inf if math.isnan(margin) else margin
        upper = math.inf if math.isnan(upper) else upper
        return cls(lower=max(0.0, margin), upper=max(0.0, upper), margin=margin)

    def with_margin(self, margin: float, *, is_bound: bool) -> "Certificate":
        """The certificate with another classifier's proven margin, which may raise `lower`."""
        lower = max(self.lower, margin) if is_bound else self.lower
        return Certificate(lower, self.upper, margin)

    @property
    def width(self) -> float:
        return self.upper - self.lower

    @property
    def gap(self) -> float:
        """(upper − lower)/upper, and 0 where both are 0."""
        return relative_gap(self.lower, self.upper)

    def _repr_html_(self) -> str:
        sentence = "no classifier has a margin above this interval, and one reaches its lower end"
        details = (
            f"lower {float(self.lower)!r}<br>upper {float(self.upper)!r}<br>"
            f"relative gap {self.gap:.2e}<br>margin of the candidate at least "
            f"{number(self.margin, 12)}"
        )
        return card("Certificate", sentence, self.lower, self.upper, details)


def relative_gap(lower: float, upper: float) -> float:
    """(upper − lower)/upper, the quantity that `tol` bounds; 0 where estimates have crossed."""
    if upper <= lower:
        return 0.0
    if not math.isfinite(upper):
        return float("inf")
    return 1.0 - lower / upper


def admitted(values: Any, shape: tuple[int, ...], name: str, *, whole: bool = False) -> np.ndarray:
    """A private copy of a proposed w or q, as float64, or in extended precision if it came so.

    Where `whole` numbers are admitted, an array of Python's integers stays one.

    Values that are not finite pass: they bound nothing, which is what the bounds will say.

    Raises
    ------
    SolverError
        Unless it is an array of real numbers of exactly this shape.
    """
    try:
        copy = np.array(values, copy=True, order="C", subok=False)
    except (TypeError, ValueError) as error:
        raise SolverError(f"{name} is not an array of numbers: {error}") from None
    if whole and copy.dtype == object:
        whole = all(type(value) is int and value.bit_length() <= MOST_BITS for value in copy.flat)
        if whole and copy.shape == shape:
            return copy
    if copy.dtype.kind not in "fiu" or copy.shape != shape:
        raise SolverError(
            f"{name} has type {copy.dtype} and shape {copy.shape}; this problem needs real numbers "
            f"of shape {shape}"
        )
    return copy if copy.dtype == np.longdouble else copy.astype(np.float64, copy=False)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that numpy refuses to make writeable again; of what has no buffer, a copy."""
    try:
        return np.asarray(memoryview(array).toreadonly())  # type: ignore[arg-type]
    except (ValueError, TypeError, BufferError):
        duplicate = array.copy()
        duplicate.flags.writeable = False
        return duplicate
