"""What passes over a stream have proved.

Classifiers are remembered as copies, with what a pass saw of them, and found again by equality.
Weights are records made here, of passes, of rows that were read, or of other weights. A solver may
ask for sums Σ c_i q_i with c_i ≥ 0 of weights, which are too many to keep: their gradients Zᵀq are
computed here, with a bound on their rounding and a lower bound of Σ c_i, so that no solver can make
an upper bound ‖Zᵀμ‖ that no weights have.
"""

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from momentron.arithmetic.rounding import UNDERFLOW, down, gamma, norm_bounds, up
from momentron.certificate import Certificate, admitted, read_only
from momentron.dual.labels import Labels
from momentron.errors import SolverError
from momentron.solvers.checkpoint import unusable
from momentron.streams.blocks import Rows, in_float64
from momentron.streams.scan import ScanResult

KNOWN = 4  # classifiers whose last pass is remembered
LARGEST = 2.0**60  # entry of a classifier, so that products stay within single precision
MOST = 2.0**500  # a coefficient, or the mass of a sum: far from where a lower bound would overflow


@dataclass(frozen=True)
class BoundedGradient:
    """V = Σ c_i Zᵀq_i for weights q_i of mass 1 in the dual set and c_i ≥ 0, in the units of X.

    Attributes
    ----------
    vector : ndarray
        As computed; cannot be written to.
    error : float
        A bound on its distance from the true one.
    mass : float
        A lower bound of Σ c_i.
    """

    vector: np.ndarray
    error: float = 0.0
    mass: float = 1.0

    def __post_init__(self) -> None:
        self.vector.flags.writeable = False

    @property
    def bound(self) -> float:
        """A sure upper bound of ‖V‖ over its mass, and so of the best margin."""
        if not 0.0 < self.mass <= MOST:
            return math.inf
        bound = up(up(norm_bounds(self.vector)[1] + self.error) / self.mass)
        return math.inf if math.isnan(bound) else bound


def mixed(a: BoundedGradient, x: float, b: BoundedGradient, y: float) -> BoundedGradient:
    """x·a + y·b."""
    x, y = float(x), float(y)
    if not (0.0 <= x <= MOST and 0.0 <= y <= MOST):
        raise SolverError(f"weights cannot be mixed with coefficients {x} and {y}: give 0 or more")
    vector = x * a.vector + y * b.vector
    # three roundings per entry, of numbers no larger than these; what underflows is covered too
    size = up(x * norm_bounds(a.vector)[1] + y * norm_bounds(b.vector)[1])
    rounding = up(gamma(3) * size + 4.0 * vector.size * UNDERFLOW)
    error = up(x * a.error + y * b.error + rounding)
    mass = max(0.0, down(x * a.mass + y * b.mass))
    if not mass <= MOST:
        raise SolverError(f"these weights would have a mass of {mass:.3g}; scale them down")
    return BoundedGradient(vector, error, mass)


@dataclass(frozen=True)
class RowWeights:
    """Weights of some rows, which may be named more than once; every other row has none.

    Attributes
    ----------
    numbers, codes : ndarray of shape (m,)
    weights : ndarray of shape (m,), or (m, k)
    """

    numbers: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    @classmethod
    def none(cls, labels: Labels) -> "RowWeights":
        return cls(np.empty(0, int), np.empty(0, int), labels.zeros(0))

    def mixed(self, x: float, other: "RowWeights", y: float) -> "RowWeights":
        """x·these + y·the others, each row once, in the order of their numbers."""
        numbers = np.concatenate([self.numbers, other.numbers])
        codes = np.concatenate([self.codes, other.codes])
        weights = np.concatenate([x * self.weights, y * other.weights])
        rows, first, place = np.unique(numbers, return_index=True, return_inverse=True)
        total = np.zeros((rows.size, *weights.shape[1:]))
        np.add.at(total, place, weights)
        return RowWeights(rows, codes[first], total)


@dataclass(frozen=True, eq=False)
class Weights:
    """Dual weights of all the rows of a stream: made by the problem, and handed to solvers.

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
        self._labels, self._shape, self._longest = labels, shape, longest
        self._arcs = labels.arc_set()
        self._known: list[KnownMargin] = []
        self._upper = longest
        self._of_passes = math.inf  # the least bound that the weights of a single pass prove
        self.best_on_rows: Weights | None = None  # those with the least bound proved on rows
        self._made: WeakSet[Weights] = WeakSet()  # a copy, or one that says more, is refused
        nothing = BoundedGradient(np.zeros(shape), mass=0.0)
        none = RowWeights.none(labels)
        self.nothing = self._own(Weights(nothing, nothing.vector, 0.0, rows=none))

    # --- classifiers ---------------------------------------------------------------------------

    def copied(self, w: np.ndarray) -> np.ndarray:
        """A private copy of a proposed classifier, checked for shape, type and size."""
        w = admitted(w, self._shape, "w").astype(np.float64, copy=False)
        largest = float(np.abs(w).max(initial=0))
        if not largest <= LARGEST:  # NaN fails too
            raise SolverError(
                f"w has an entry of {largest:.3g} in size; entries must be finite and at most 2**60"
            )
        return read_only(w)

    def remember(self, w: np.ndarray, tops: np.ndarray) -> None:
        """Keep the last scan, and those with the largest margins; that of w = 0 tells nothing."""
        if not w.any():
            return
        tops = read_only(tops.copy())
        kept = [known for known in self._known if not np.array_equal(known.w, w)]
        kept.sort(key=lambda known: -known.margin)
        self._known = [*kept[: KNOWN - 1], KnownMargin(w, tops, self._margin(w, tops))]

    def _margin(self, w: np.ndarray, tops: np.ndarray) -> float:
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

    def _own(self, weights: Weights) -> Weights:
        self._made.add(weights)
        return weights

    def of_pass(self, result: ScanResult, flow: np.ndarray) -> Weights:
        """The weights that a pass gave to all the rows; flow is what the arcs weigh in all."""
        labels, error = self._labels, 0.0
        if labels.circulates:
            k, mass = labels.n_classes, float(result.totals.sum())
            vector = result.vectors / mass
            error = self._imbalance(result.totals.reshape(k, k) / mass, result.depth)
        elif labels.is_paired:
            vector = result.vectors / result.totals[0]
        else:
            vector = result.vectors @ (flow / result.totals)
        # the sums and the masses by which they are divided both err, each by its own chain
        gradient = self._gradient(vector, error, result.depth)
        self._of_passes = min(self._of_passes, gradient.bound)
        return self._own(Weights(gradient, gradient.vector))

    def on_rows(self, rows: Rows, weights: np.ndarray, upper: float = math.inf) -> Weights:
        """Weights on rows in memory, near the dual set; upper is what they prove there.

        They are scaled to mass 1, and how far they are from the dual set adds to the error. What
        cannot be weights counts as none.
        """
        labels = self._labels
        if not (weights.min(initial=0.0) >= 0.0 and 0.0 < weights.max(initial=0.0) < math.inf):
            return self.nothing
        shares = weights / weights.max()  # so that their sum is a number
        shares /= shares.sum()
        sums = np.asarray(in_float64(rows.X).T @ labels.block_mix(shares, rows.codes))
        vector = sums if labels.is_paired else sums.sum(axis=1)
        depth, error = rows.size + labels.n_classes, 0.0
        if labels.circulates:
            flow = np.zeros((labels.n_classes, labels.n_classes))
            np.add.at(flow, rows.codes, shares)
            error = self._imbalance(flow, depth)
        elif labels.fit_intercept:
            # as much weight more on the lighter class, and no less anywhere, is in balance
            apart = abs(float(shares[rows.codes == 1].sum() - shares[rows.codes == 0].sum()))
            error = up((apart + gamma(depth + 8)) * self._longest)
        gradient = self._gradient(vector, error, depth, down(1.0, depth + 8))
        own = RowWeights(rows.numbers, rows.codes, weights)
        found = self._own(Weights(gradient, gradient.vector, upper=upper, rows=own))
        best = self.best_on_rows
        if upper < (math.inf if best is None else best.upper):
            self.best_on_rows = found
        return found

    def _gradient(
        self, vector: np.ndarray, error: float, depth: int, mass: float = 1.0
    ) -> BoundedGradient:
        error += 2.0 * gamma(depth + 8) * self._longest
        return BoundedGradient(vector.reshape(self._shape), error, mass)

    def _imbalance(self, flow: np.ndarray, depth: int) -> float:
        """How far Zᵀq may be from that of weights that flow in circles, for a flow of mass 1.

        What is out of balance is led back along at most k − 1 arcs: see `Circulations`.
        """
        k = self._labels.n_classes
        rest = float(np.abs(flow.sum(axis=0) - flow.sum(axis=1)).sum())
        rest += 4.0 * gamma(depth + 2 * k + 8)
        return 0.5 * (k - 1) * rest * self._longest * (1.0 + 1e-9)

    def claimed(self, vector: np.ndarray, mass: float) -> Weights:
        """Weights that nothing proves."""
        vector = read_only(vector.reshape(self._shape))
        return self._own(Weights(self.nothing.proved, vector, mass))

    def require_own(self, q: Any) -> Weights:
        """Weights that a solver proposes, which must be of this problem."""
        if type(q) is Weights and q in self._made:
            return q
        raise SolverError(
            f"q is {type(q).__name__}, not weights that this problem gave; in blocks they come "
            "from evaluate or combination, or from mixing such weights"
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
        mass = x * one.mass + y * other.mass
        return self._own(Weights(proved, vector, mass, rows=rows))

    # --- both ----------------------------------------------------------------------------------

    def certificate(self, w: np.ndarray, q: Any) -> Certificate:
        """The interval that w and q prove, or the best of those known where w is not among them."""
        bound = self.require_own(q).bound
        self._upper = min(self._upper, self._of_passes if math.isinf(bound) else bound)
        known = self.of_or_best(w)
        margin = known.margin if known is not None and w.any() else 0.0
        return Certificate.from_bounds(margin, self._upper)


def weights_from_arrays(
    rows: Rows, arrays: dict[str, np.ndarray], labels: Labels
) -> tuple[np.ndarray, float]:
    """Weights of these rows and the bound that was claimed for them, from a checkpoint."""
    numbers, weights, upper = (arrays.get(name) for name in ("numbers", "weights", "upper"))
    if numbers is None or weights is None or upper is None:
        raise unusable("it has no weights")
    numbers = row_numbers(numbers)
    dual = labels.zeros(rows.size)
    is_real = weights.dtype.kind == "f" and upper.dtype.kind == "f" and upper.shape == ()
    if not is_real or weights.shape != (numbers.size, *dual.shape[1:]):
        raise unusable(f"its weights have shape {weights.shape} for {numbers.size} rows")
    if not (np.isfinite(weights).all() and (weights >= 0.0).all() and weights.any()):
        raise unusable("its weights are not all numbers of at least 0, or all of them are 0")
    dual[np.searchsorted(rows.numbers, numbers)] = weights
    if labels.is_paired:
        dual[np.arange(rows.size), rows.codes] = 0.0  # no row weighs against its own class
    return dual, 0.0 if np.isnan(upper) else float(upper)


def row_numbers(numbers: np.ndarray) -> np.ndarray:
    """Numbers of rows that a checkpoint names, checked."""
    is_list = numbers.ndim == 1 and numbers.dtype.kind in "iu" and numbers.size > 0
    if not is_list or numbers.min() < 0 or np.unique(numbers).size < numbers.size:
        raise unusable("its rows are not numbered by different whole numbers of at least 0")
    return numbers.astype(np.int64)


def worst_weights(labels: Labels, rows: Rows, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Weights of the rows in the dual set, on those that decide the margin of w.

    There is a row of every class, the one that w serves worst; b are the best intercepts where
    there are many classes. Without intercepts the worst row of all has all the weight, and of two
    classes each has half. Among many classes with intercepts, each row leads from its class to the
    one that it is nearest to; whoever follows these arcs runs in a circle in the end, and a circle
    is what the dual set asks for. With the best b all arcs are equally bad, as those of a cycle of
    least mean are.
    """
    scores = labels.block_scores(np.asarray(in_float64(rows.X) @ w), rows.codes)
    if not labels.is_paired:
        if labels.fit_intercept:
            return np.full(rows.size, 0.5)
        return (np.arange(rows.size) == int(scores.argmax())).astype(float)
    scores += b - b[rows.codes][:, None]
    nearest, worst = scores.argmax(axis=1), int(scores.max(axis=1).argmax())
    weights = np.zeros(scores.shape)
    if not labels.fit_intercept:
        weights[worst, nearest[worst]] = 1.0
        return weights
    row_of = dict(zip(rows.codes.tolist(), range(rows.size), strict=True))
    path = [worst]
    while (row := row_of[int(nearest[path[-1]])]) not in path:
        path.append(row)
    cycle = path[path.index(row) :]
    weights[cycle, nearest[cycle]] = 1.0 / len(cycle)
    return weights
