"""What passes over a stream have proved.

Classifiers are remembered as copies, with what a pass saw of them, and found again by equality.
Weights are records made here, of passes, of rows that were read, or of other weights.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.arithmetic.rounding import down, norm_bounds
from momentron.certificate import Certificate, admitted, read_only
from momentron.dual.dualsets import DualSet
from momentron.dual.labels import Labels
from momentron.errors import SolverError
from momentron.streams.gradients import BoundedGradient, mixed
from momentron.streams.working_set import RowWeights

KNOWN = 4  # classifiers whose last pass is remembered
LARGEST = 2.0**60  # entry of a classifier, so that products stay within single precision


@dataclass(frozen=True, eq=False)
class Weights:
    """Dual weights of all the rows of a stream: made by the problem, and handed to solvers.

    Attributes
    ----------
    _source : Evidence
        Of the problem that made them; those of another problem are refused.
    proved : BoundedGradient
        What passes over these data have proved.
    vector : ndarray
        The gradient as solvers are told: the same, but for weights that a file speaks of.
    mass : float
        The sum of the weights as solvers are told.
    upper : float
        A sharper upper bound than the gradient's, where one was proved on the rows themselves.
    rows : RowWeights, optional
        The weights of single rows, where these are known.
    """

    _source: "Evidence"
    proved: BoundedGradient
    vector: np.ndarray
    mass: float = 1.0
    upper: float = math.inf
    rows: RowWeights | None = None

    @property
    def bound(self) -> float:
        return min(self.upper, self.proved.bound)


@dataclass(frozen=True)
class KnownMargin:
    """A classifier, sure upper bounds of its arcs' scores, and what margin they prove."""

    w: np.ndarray
    tops: np.ndarray
    margin: float


class Evidence:
    """The classifiers and the weights that passes have shown.

    Parameters
    ----------
    labels : Labels
    shape : tuple of int
        Of a classifier.
    longest : float
        An upper bound of max‖z‖, and so of the best margin.
    """

    def __init__(self, labels: Labels, shape: tuple[int, ...], longest: float) -> None:
        self._arcs: DualSet = labels.arc_set()
        self._shape = shape
        self._known: list[KnownMargin] = []
        self._upper = longest
        self._of_passes = math.inf  # the least bound that the weights of a single pass prove
        self.best_on_rows: Weights | None = None  # those with the least bound proved on rows
        nothing = BoundedGradient(np.zeros(shape), mass=0.0)
        self.nothing = Weights(self, nothing, nothing.vector, 0.0, rows=RowWeights.none(labels))

    # --- classifiers ---------------------------------------------------------------------------

    def copied(self, w: np.ndarray) -> np.ndarray:
        """A proposed classifier as a copy of its own, checked for shape, type and size."""
        w = admitted(w, self._shape, "w").astype(np.float64, copy=False)
        largest = float(np.abs(w).max(initial=0))
        if not largest <= LARGEST:  # NaN fails too
            raise SolverError(
                f"w has an entry of {largest:.3g} in size; entries must be finite and at most 2**60"
            )
        return read_only(w)

    def remember(self, w: np.ndarray, tops: np.ndarray) -> None:
        """Keep the last scan, and those with the largest margins."""
        tops = read_only(tops.copy())
        kept = [known for known in self._known if not np.array_equal(known.w, w)]
        kept.sort(key=lambda known: -known.margin)
        self._known = [*kept[: KNOWN - 1], KnownMargin(w, tops, self._margin(w, tops))]

    def _margin(self, w: np.ndarray, tops: np.ndarray) -> float:
        if not w.any():
            return 0.0
        norm_low, norm_high = norm_bounds(w)
        margin = down(self._arcs.margin(tops))
        norm = norm_high if margin > 0.0 else norm_low
        margin = down(margin / norm) if norm > 0.0 else -math.inf
        return -math.inf if math.isnan(margin) else margin

    def of(self, w: np.ndarray) -> KnownMargin | None:
        """What is known of a classifier, if a pass has evaluated it lately."""
        for known in self._known:
            if np.array_equal(known.w, w):
                return known
        return None

    def of_or_best(self, w: np.ndarray) -> KnownMargin | None:
        """The same, or else of the classifier with the largest margin of those remembered."""
        return self.of(w) or max(self._known, key=lambda known: known.margin, default=None)

    # --- weights -------------------------------------------------------------------------------

    def of_pass(self, gradient: BoundedGradient) -> Weights:
        """The weights that a pass gave to all the rows."""
        self._of_passes = min(self._of_passes, gradient.bound)
        return Weights(self, gradient, gradient.vector)

    def on_rows(self, gradient: BoundedGradient, rows: RowWeights, upper: float) -> Weights:
        """The weights of rows in memory; upper is what they prove there."""
        weights = Weights(self, gradient, gradient.vector, upper=upper, rows=rows)
        best = self.best_on_rows
        if upper < (math.inf if best is None else best.upper):
            self.best_on_rows = weights
        return weights

    def claimed(self, vector: np.ndarray, mass: float) -> Weights:
        """Weights that nothing proves."""
        return Weights(self, self.nothing.proved, read_only(vector.reshape(self._shape)), mass)

    def require_own(self, q: Any) -> Weights:
        """Weights that a solver proposes, which must be of this problem."""
        if type(q) is Weights and q._source is self:
            return q
        raise SolverError(
            f"q is {type(q).__name__}, not weights that this problem gave; in blocks they come "
            "from evaluate, from combination, and from mixing these"
        )

    def mix(self, a: Any, x: float, b: Any, y: float) -> Weights:
        """x·a + y·b."""
        one, other = self.require_own(a), self.require_own(b)
        proved = mixed(one.proved, x, other.proved, y)
        vector = proved.vector
        if one.vector is not one.proved.vector or other.vector is not other.proved.vector:
            with np.errstate(all="ignore"):
                vector = read_only(x * one.vector + y * other.vector)
        rows = None
        if one.rows is not None and other.rows is not None:
            rows = one.rows.mixed(x, other.rows, y)
        return Weights(self, proved, vector, x * one.mass + y * other.mass, rows=rows)

    # --- both ----------------------------------------------------------------------------------

    def certificate(self, w: np.ndarray, q: Any) -> Certificate:
        """The interval that w and q prove, or the best of those known where w is not among them."""
        bound = self.require_own(q).bound
        self._upper = min(self._upper, self._of_passes if math.isinf(bound) else bound)
        known = self.of_or_best(w)
        margin = known.margin if known is not None and w.any() else 0.0
        return Certificate.from_bounds(margin, self._upper)
