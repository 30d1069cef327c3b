"""What passes over blocks of rows have proved.

Classifiers are remembered as copies, with what a pass saw of them, and found again by equality.
Weights are records made here, of passes, of rows in memory, or of other weights. A solver may ask
for sums Σ c_i q_i with c_i ≥ 0 of weights, which are too many to keep: their gradients Zᵀq are
computed here, with a bound on their rounding and a lower bound of Σ c_i, so that no solver can make
an upper bound ‖Zᵀμ‖ that no weights have.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from momentron.arithmetic.rounding import UNDERFLOW, down, gamma, norm_bounds, up
from momentron.certificate.bounds import dual_bound, over_norm, to_user
from momentron.certificate.certified import Certificate, admitted, read_only
from momentron.certificate.passes import Findings
from momentron.errors import SolverError

if TYPE_CHECKING:
    from momentron.dual.labels import Labels
    from momentron.solvers.problem import Problem

KNOWN = 4  # classifiers whose last pass is remembered
LARGEST = 2.0**60  # entry of a classifier, so that products stay within single precision
MOST = 2.0**500  # a coefficient, or the mass of a sum: far from where a lower bound would overflow


@dataclass(frozen=True)
class BoundedGradient:
    """V = Σ c_i Zᵀq_i for weights q_i of mass 1 in the dual set and c_i ≥ 0, in the units of X."""

    vector: np.ndarray  # as computed; cannot be written to
    error: float = 0.0  # a bound on its distance from the true one
    mass: float = 1.0  # a lower bound of Σ c_i

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


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """Dual weights of all the rows of a stream: made by the problem, and handed to solvers."""

    proved: BoundedGradient  # by passes over these data
    vector: np.ndarray  # the same as solvers are told: another for weights that a file speaks of
    mass: float = 1.0  # the sum of the weights as solvers are told
    upper: float = math.inf  # a sharper bound than the gradient's, proved on the rows themselves
    rows: Any = None  # the weights of single rows, a SparseDual, where these are known

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

    `shape` is that of a classifier, `longest` an upper bound of max‖z‖, and so of the best margin,
    and `no_rows` is a SparseDual of no rows.
    """

    def __init__(
        self, labels: "Labels", shape: tuple[int, ...], longest: float, no_rows: Any
    ) -> None:
        self._labels, self._shape, self.longest = labels, shape, longest
        self._arcs = labels.arc_set()
        self._known: list[KnownMargin] = []
        self._upper = longest
        self._of_passes = math.inf  # the least bound that the weights of a single pass prove
        self._made: WeakSet[BlockWeights] = WeakSet()  # a copy, or one that says more, is refused
        nothing = BoundedGradient(np.zeros(shape), mass=0.0)
        self.nothing = self._own(BlockWeights(nothing, nothing.vector, 0.0, rows=no_rows))
        self.best_on_rows = self.nothing  # those with the least bound proved on rows

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
        margin = over_norm(down(self._arcs.margin(tops)), norm_bounds(w))
        kept = [known for known in self._known if not np.array_equal(known.w, w)]
        kept.sort(key=lambda known: -known.margin)
        self._known = [*kept[: KNOWN - 1], KnownMargin(w, read_only(tops.copy()), margin)]

    def of(self, w: np.ndarray) -> KnownMargin | None:
        """What is known of a classifier, if a pass has evaluated it lately."""
        return next((known for known in self._known if np.array_equal(known.w, w)), None)

    def of_or_best(self, w: np.ndarray) -> KnownMargin | None:
        """The same, or else of the classifier with the largest margin of those remembered."""
        return self.of(w) or max(self._known, key=lambda known: known.margin, default=None)

    # --- weights -------------------------------------------------------------------------------

    def _own(self, weights: BlockWeights) -> BlockWeights:
        self._made.add(weights)
        return weights

    def of_pass(self, found: Findings) -> BlockWeights:
        """The weights that a pass gave to all the rows."""
        labels, arcs, totals = self._labels, self._labels.arcs, found.totals
        mass, k = float(totals.sum()), labels.n_classes
        if labels.is_paired:  # the sums of all classes add up to zero
            vector = np.column_stack([found.vectors, -found.vectors.sum(axis=1)]) / mass
        else:  # every arc weighs the same, whatever its sum was
            vector = found.vectors @ (1.0 / (totals.size * totals))
        flow, lengths = totals[arcs] / mass, np.full(arcs.size, self.longest)
        error = self._arcs.mass_error(flow, lengths, self.longest, self.longest)
        # the sums and the masses by which they are divided both err, each by its own chain; the
        # errors of k − 1 sums add up in the last, to √(k − 1) times their length at most; and what
        # is out of balance between k classes is led back along at most k − 1 arcs
        chains = (math.sqrt(k) if labels.is_paired else 1.0) + (k if labels.circulates else 0.0)
        error += 2.0 * chains * gamma(found.depth + 2 * k + 8) * self.longest
        gradient = BoundedGradient(vector, up(error))
        self._of_passes = min(self._of_passes, gradient.bound)
        return self._own(BlockWeights(gradient, gradient.vector))

    def on_rows(self, problem: "Problem", q: np.ndarray, rows: Any) -> BlockWeights:
        """Weights of rows in memory, a part of all: what they prove there holds for all.

        `rows` are these weights for the result.
        """
        upper = to_user(problem, dual_bound(problem, q, sharp=True), math.inf)
        q = problem.dual_set.normalize(np.asarray(q, np.float64))
        vector = problem.operator.exact_adjoint(problem.labels.mix(q))
        longest = problem.longest
        error = problem.dual_set.mass_error(q, problem.row_norms, longest, longest)
        error += 2.0 * gamma(q.size + 8) * longest
        vector, error = np.ldexp(vector, problem.exponent), np.ldexp(up(error), problem.exponent)
        gradient = BoundedGradient(vector, float(error))
        found = self._own(BlockWeights(gradient, gradient.vector, upper=upper, rows=rows))
        if upper < self.best_on_rows.upper:
            self.best_on_rows = found
        return found

    def claimed(self, vector: np.ndarray, mass: float) -> BlockWeights:
        """Weights that nothing proves."""
        vector = read_only(vector.reshape(self._shape))
        return self._own(BlockWeights(self.nothing.proved, vector, mass))

    def require_own(self, q: Any) -> BlockWeights:
        """Weights that a solver proposes, which must be of this problem."""
        if type(q) is BlockWeights and q in self._made:
            return q
        raise SolverError(
            f"q is {type(q).__name__}, not weights that this problem gave; in blocks they come "
            "from evaluate or combination, or from mixing such weights"
        )

    def mix(self, a: Any, x: float, b: Any, y: float) -> BlockWeights:
        """x·a + y·b."""
        one, other = self.require_own(a), self.require_own(b)
        proved = mixed(one.proved, x, other.proved, y)
        with np.errstate(all="ignore"):
            vector = read_only(x * one.vector + y * other.vector)
        rows = None
        if one.rows is not None and other.rows is not None:
            rows = one.rows.mixed(x, other.rows, y)
        mass = x * one.mass + y * other.mass
        return self._own(BlockWeights(proved, vector, mass, rows=rows))

    # --- both ----------------------------------------------------------------------------------

    def certificate(self, w: np.ndarray, q: Any) -> Certificate:
        """The interval that w and q prove, or the best of those known where w is not among them."""
        bound = self.require_own(q).bound
        self._upper = min(self._upper, self._of_passes if math.isinf(bound) else bound)
        known = self.of_or_best(w)
        margin = known.margin if known is not None and w.any() else 0.0
        return Certificate.from_bounds(margin, self._upper)
