"""What passes over a stream have proved, kept where no solver can change it.

Solvers hold classifiers, and tokens that stand for weights and for rows. Classifiers are remembered
as copies beside what a pass saw of them, and found again by equality. Tokens are found by identity:
what one stands for is recorded here alone, so that to forge, copy or change one gains nothing.
"""

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from momentron.certificate import Certificate, admitted
from momentron.dualsets import DualSet
from momentron.errors import SolverError
from momentron.labels import Labels
from momentron.rounding import down, norm_bounds
from momentron.streams.averages import BoundedGradient, frozen, mixed
from momentron.streams.working_set import Rows, RowWeights, WorkingSet

KNOWN = 4  # classifiers whose last pass is remembered
LARGEST = 2.0**60  # entry of a classifier, so that products stay within single precision


class Weights:
    """Stands for the dual weights of all the rows of a stream; has no content of its own."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True)
class Record:
    """What is known of weights.

    Attributes
    ----------
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
    """The classifiers, the weights and the rows that passes have shown.

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
        self._records: WeakKeyDictionary[Weights, Record] = WeakKeyDictionary()
        self._rows: WeakKeyDictionary[WorkingSet, Rows] = WeakKeyDictionary()
        self._upper = longest
        self._of_passes = math.inf  # the least bound that the weights of a single pass prove
        self._best: Weights | None = None
        nothing = BoundedGradient(frozen(np.zeros(shape)), mass=0.0)
        self.nothing = self.register(
            Record(nothing, nothing.vector, 0.0, rows=RowWeights.none(labels))
        )

    # --- classifiers ---------------------------------------------------------------------------

    def copied(self, w: np.ndarray) -> np.ndarray:
        """A proposed classifier as a copy of its own, checked for shape, type and size."""
        w = admitted(w, self._shape, "w").astype(np.float64, copy=False)
        largest = float(np.abs(w).max(initial=0))
        if not largest <= LARGEST:  # NaN fails too
            raise SolverError(
                f"w has an entry of {largest:.3g} in size; entries must be finite and at most 2**60"
            )
        return frozen(w)

    def remember(self, w: np.ndarray, tops: np.ndarray) -> None:
        """Keep the last scan, and those with the largest margins."""
        tops = frozen(tops)
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

    def register(self, record: Record) -> Weights:
        """A token that stands for these weights from now on."""
        token = Weights()
        self._records[token] = record
        if record.upper < math.inf and (
            self._best is None or record.upper < self._records[self._best].upper
        ):
            self._best = token
        return token

    def of_pass(self, gradient: BoundedGradient) -> Weights:
        """A token for the weights that a pass gave to all the rows."""
        self._of_passes = min(self._of_passes, gradient.bound)
        return self.register(Record(gradient, gradient.vector))

    def claimed(self, vector: np.ndarray, mass: float) -> Weights:
        """A token for weights that nothing proves."""
        nothing = self.record(self.nothing).proved
        return self.register(Record(nothing, frozen(vector.reshape(self._shape)), mass))

    def record(self, token: Any) -> Record:
        """What a token stands for."""
        found = self._records.get(token) if type(token) is Weights else None
        if found is None:
            raise SolverError(
                f"q is {type(token).__name__}, not weights that this problem gave; in blocks they "
                "come from evaluate, from combination, and from mixing these"
            )
        return found

    def mix(self, a: Any, x: float, b: Any, y: float) -> Weights:
        """A token for x·a + y·b."""
        one, other = self.record(a), self.record(b)
        proved = mixed(one.proved, x, other.proved, y)
        vector = proved.vector
        if one.vector is not one.proved.vector or other.vector is not other.proved.vector:
            with np.errstate(all="ignore"):
                vector = frozen(x * one.vector + y * other.vector)
        rows = None
        if one.rows is not None and other.rows is not None:
            rows = one.rows.mixed(x, other.rows, y)
        return self.register(Record(proved, vector, x * one.mass + y * other.mass, rows=rows))

    @property
    def best_on_rows(self) -> Weights | None:
        """Of the weights that were proved on rows in memory, those with the least upper bound."""
        return self._best

    # --- rows ----------------------------------------------------------------------------------

    def keep(self, rows: Rows) -> WorkingSet:
        """A token that stands for these rows from now on."""
        token = WorkingSet(rows.numbers.copy(), rows.codes.copy())
        self._rows[token] = rows
        return token

    def rows_of(self, token: Any) -> Rows:
        """The rows that a token stands for."""
        found = self._rows.get(token) if type(token) is WorkingSet else None
        if found is None:
            raise SolverError(f"{type(token).__name__} does not stand for rows of this problem")
        return found

    # --- both ----------------------------------------------------------------------------------

    def certificate(self, w: np.ndarray, q: Any) -> Certificate:
        """The interval that w and q prove, or the best of those known where w is not among them."""
        bound = self.record(q).bound
        self._upper = min(self._upper, self._of_passes if math.isinf(bound) else bound)
        known = self.of_or_best(w)
        margin = known.margin if known is not None and w.any() else 0.0
        return Certificate.from_bounds(margin, self._upper)
