"""The rows of a stream as a linear map: each product is a pass, unless it is remembered."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime
from momentron.arithmetic.rounding import UNDERFLOW, UNIT_ROUNDOFF, gamma, norm_bounds, up
from momentron.certificate import read_only
from momentron.rows import MatrixOperator, Operator, as_operator
from momentron.rows.operator import nonzero_rows, norm_upper_bounds
from momentron.streams.blocks import Rows
from momentron.streams.first_pass import FirstPassResult
from momentron.streams.scan import Findings, Scan, with_last_column
from momentron.streams.stream import Stream

KNOWN = 4  # classifiers, and weights, whose last products are remembered; the best one stays
SAME = 16  # roundings by which entries may differ from those of a classifier that is remembered,
SAME_WEIGHTS = 64  # and of weights, whose classes may have been scaled
FARTHEST = 2.0**200  # the largest factor, and size of a classifier, far from where floats vanish


@dataclass(eq=False)
class Known:
    """A vector, and its product with X or Xᵀ: neither changes."""

    vector: np.ndarray
    product: np.ndarray
    error: float = 0.0  # a bound on that of Xᵀa; infinite where nothing but a file says so
    size: float = 0.0  # an upper bound of Σ |a_i| ‖x_i‖
    # the larger the better: the margin of a classifier, or minus the bound that weights prove
    rank: float = -math.inf


class Memory(list[Known]):
    """The last vectors whose products were asked for, and the best one."""

    def __init__(self, roundings: int) -> None:
        super().__init__()
        self.roundings = roundings  # by which entries may differ from those that are remembered

    def keep(self, known: Known) -> None:
        self.insert(0, known)
        self[KNOWN:] = sorted(self[KNOWN:], key=lambda known: known.rank)[-1:]

    def find(self, vector: np.ndarray) -> tuple[float, Known] | None:
        """(factor, known): what is remembered of a vector, which is that many times as long."""
        for place, known in enumerate(self):
            factor = multiple_of(known.vector, vector, self.roundings)
            if factor is not None and 1.0 / FARTHEST < abs(factor) < FARTHEST:
                self.insert(0, self.pop(place))
                return factor, known
        return None

    @property
    def best(self) -> Known | None:
        ranked = [known for known in self if known.rank > -math.inf]
        return max(ranked, key=lambda known: known.rank, default=None)


class NotAtHand(Exception):
    """Rows that a sharper bound would need are not in memory."""


class BlockOperator(Operator):
    """The rows of a stream as a linear map: each product is a pass, unless it is remembered.

    A product is remembered for multiples of its vector, too. Of k columns of a classifier the
    differences of k − 1 from the last are multiplied; of k sums, which add up to zero since every
    row of the weights does, k − 1 are computed.
    """

    def __init__(self, stream: Stream, found: FirstPassResult, fit_intercept: bool) -> None:
        self.stream, self.fit_intercept = stream, fit_intercept
        self.classes, self.shape = found.classes, (found.n_rows, found.width)
        self._stored, self._mean = found.stored, found.centre
        self.row_norms = read_only(norm_upper_bounds(found.squares(), found.stored))
        self.radius = float(self.row_norms.max())
        # copies for solvers share what is remembered: classifiers w with Xw, and weights a with Xᵀa
        self.products = Memory(SAME)
        # coefficients of many classes are sums of weights
        self.sums = Memory(SAME_WEIGHTS + 2 * self.classes.size)
        self.at_hand: dict[str, Rows] = {}  # the rows of the working set, under "rows"; shared, too
        self.is_closed = False  # no pass from now on

    @property
    def passes(self) -> int:  # type: ignore[override]
        return self.stream.passes

    # --- passes --------------------------------------------------------------------------------

    def task(self, **options: Any) -> Scan:
        """A pass with these options."""
        return Scan(self.classes, self.fit_intercept, **options)

    def scan(self, task: Scan) -> Findings:
        """One pass; its products are remembered."""
        # of a narrower type, or of a class of its own, differences and products may be anything
        w, a = (None if v is None else np.array(v, np.float64) for v in (task.w, task.a))
        sent = w[:, :-1] - w[:, -1:] if w is not None and w.ndim == 2 else w
        given = a[:, :-1] if a is not None and a.ndim == 2 else a
        found: Findings = self._run(replace(task, w=sent, a=given))
        if w is not None and 1.0 / FARTHEST < np.abs(w).max(initial=0.0) < FARTHEST:
            self.products.keep(Known(w, read_only(found.all_products())))
        if a is not None:
            self.learn(a, found.sums, found.depth)
        return found

    def _run(self, task: Any) -> Any:
        if self.is_closed:
            raise OutOfTime
        return self.stream.run(task)

    def fetch(self, numbers: np.ndarray) -> Rows:
        """The named rows, in their order: a pass."""
        a, n_worst = np.zeros(self.shape[0]), self.classes.size * numbers.size
        a[numbers] = 1.0
        rows = self._run(self.task(a=a, n_worst=n_worst, bar=1.0)).lists[0].chosen()
        return rows.chosen(rows.places(numbers))

    # --- what is remembered --------------------------------------------------------------------

    def learn(self, a: np.ndarray, sums: np.ndarray, depth: int) -> None:
        """Remember Xᵀa, whose entries have that many roundings."""
        roundings, weights = depth + 8, np.abs(a)
        if a.ndim == 2:  # errors of k − 1 sums add up in the last, and those of weights in a row
            weights = np.einsum("ij->i", weights)
            sums = np.column_stack([sums, -sums.sum(axis=1)])
            roundings = math.ceil((1.0 + math.sqrt(a.shape[1])) * (roundings + 2 * a.shape[1]))
        size = up(float(weights @ self.row_norms), self.shape[0] + 8)
        self._keep_sum(a, sums, gamma(roundings) * size, size)

    def learn_mix(self, x: float, one: Known, y: float, other: Known, a: np.ndarray) -> None:
        """Remember Xᵀa for a = x·one + y·other, if it is that but for roundings."""
        sizes = np.abs(x * one.vector) + np.abs(y * other.vector)
        off = np.abs(a - (x * one.vector + y * other.vector))
        if not (off <= self.sums.roundings * UNIT_ROUNDOFF * sizes).all():
            return
        product = x * one.product + y * other.product
        size = up(abs(x) * one.size + abs(y) * other.size)
        error = abs(x) * one.error + abs(y) * other.error
        self._keep_sum(a, product, error + gamma(self.sums.roundings + 8) * size, size)

    def learn_rows(self, a: np.ndarray, rows: Rows) -> None:
        """Remember Xᵀa for weights of rows that are in memory; others know nothing of it."""
        numbers = nonzero_rows(a)
        if not np.isin(numbers, rows.numbers).all():
            return
        X = rows.X[rows.places(numbers)].astype(np.float64, copy=False)
        weights = a[numbers]
        self.learn(a, X.T @ (weights[:, :-1] if a.ndim == 2 else weights), numbers.size)

    def _keep_sum(self, a: np.ndarray, product: np.ndarray, error: float, size: float) -> None:
        error = up(error + self._underflow(product))
        known = Known(a.copy(), read_only(product), error, size)
        mass = float(np.abs(a).sum())
        if mass > 0.0:
            known.rank = -(float(np.linalg.norm(known.product)) + known.error) / mass
        self.sums.keep(known)

    def _underflow(self, product: np.ndarray) -> float:
        """What entries and weights below the smallest float may add up to."""
        return self.shape[0] * product.size * UNDERFLOW * (1.0 + self.radius)

    # --- products ------------------------------------------------------------------------------

    def scores_in_double(self, w: np.ndarray) -> np.ndarray:
        if not w.any():
            return np.zeros((self.shape[0], *w.shape[1:]))
        known = self.products.find(w)
        if known is None:
            return with_last_column(self.scan(self.task(w=w)).all_products())
        return with_last_column(known[0] * known[1].product)

    def _sum(self, a: np.ndarray, *, is_proved: bool = False) -> tuple[float, Known]:
        """(factor, known) with factor · known.product = Xᵀa."""
        found = self.sums.find(a)
        if found is None or (is_proved and not math.isfinite(found[1].error)):
            self.scan(self.task(a=a))
            return 1.0, self.sums[0]
        return found

    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        factor, known = self._sum(a)
        return factor * known.product

    apply, adjoint = scores_in_double, exact_adjoint

    def adjoint_norm_bound(
        self, a: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        rows = nonzero_rows(a)
        if sharp and (few := self._at_hand(rows)) is not None:
            return few.adjoint_norm_bound(a[rows], weighted_norms, sharp=True)
        factor, known = self._sum(np.asarray(a, np.float64), is_proved=True)
        product = factor * known.product
        rounding = gamma(2 * self.sums.roundings + 8) * weighted_norms
        error = up(abs(factor) * known.error + rounding + self._underflow(product))
        return up(norm_bounds(product)[1] + error)

    def score_depth(self, w: np.ndarray) -> int:
        # differences of columns are √3 times as long, and have one more rounding
        return (self._stored + 2 * SAME) * w.ndim

    def mean(self) -> np.ndarray:
        return self._mean

    # --- single rows ---------------------------------------------------------------------------

    def _at_hand(self, numbers: np.ndarray) -> MatrixOperator | None:
        """An operator of the named rows, if they are in memory."""
        rows = self.at_hand.get("rows")
        if rows is None or not np.isin(numbers, rows.numbers).all():
            return None
        return as_operator(rows.X[rows.places(numbers)]).as_matrix()

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        few = self._at_hand(index)
        if few is None:
            raise NotAtHand
        return few.sharp_scores(np.arange(index.size), w)

    def _needs_rows(self, *_: Any) -> np.ndarray:
        raise NotImplementedError(
            "rows in blocks cannot be read one by one; a method that needs them must say so in its "
            "class attribute needs_memory"
        )

    combine = products_at = _needs_rows  # type: ignore[assignment]


def multiple_of(known: np.ndarray, vector: np.ndarray, roundings: int = SAME) -> float | None:
    """The factor that makes one vector the other but for roundings of its entries, or None."""
    if known.shape != vector.shape:
        return None
    place = np.unravel_index(int(np.argmax(np.abs(known))), known.shape)
    factor = float(vector[place] / known[place]) if known[place] else 0.0
    same = roundings * UNIT_ROUNDOFF
    for rows in (slice(0, 64), slice(None)):  # most often the first ones tell
        error = np.abs(vector[rows] - factor * known[rows])
        if not (error <= same * np.abs(vector[rows])).all():
            return None
    return factor
