"""The last resort: the best margin in rational arithmetic, where floats see only roundings.

A margin below about 1e-15 of the rows' length is lost in the products of float64, and one below
1e-19 in extended precision; squares of small columns vanish altogether. There Wolfe's algorithm,
on the rows as whole numbers, starts at what the floats have found, and ends at the optimum itself.
"""

import math
import time
from fractions import Fraction

import numpy as np

from momentron.arithmetic.clock import OutOfTime, until
from momentron.certificate import WholePair, least_products, relative_gap, whole_rows
from momentron.rows.base import row_blocks
from momentron.solvers.auto.overlap import surely_overlaps
from momentron.solvers.auto.phases import End, Phase, Reason, Search, Settled
from momentron.solvers.problem import Problem
from momentron.solvers.rational.memory import TooLarge
from momentron.solvers.rational.nearest import Nearest, Wolfe

MANTISSA = 53
GUARD_BITS = 80  # of a proposed number, besides those that the ratio of row and margin takes


def after_floats(search: Search, end: Phase) -> Phase:
    """What follows the last round in floats: rational arithmetic where it is needed and small
    enough, or the end.

    Data that look as if nothing separated them may have a tiny margin; they are looked at once
    more where that is cheap, and at once, since the certificate of a vanished ‖Zᵀq‖ would end it.
    """
    if end.reason in FINAL or not search.sets.problem.takes_whole_pairs:
        return end
    settings, size = search.settings, float(search.size) * search.sets.width
    if search.answer.lower > 0.0:
        if size > settings.exact_entries:
            return end
        exactly = SettleExactly()
        return exactly.advance(search) if search.has_nearly_vanished() else exactly
    is_cheap = size <= settings.exact_overlap_entries and search.rank <= settings.exact_overlap_rank
    if not is_cheap or surely_overlaps(search):
        return end
    return SettleExactly().advance(search)


FINAL = (Reason.CONTRADICTION, Reason.MEMORY, Reason.SETTLED)


class SettleExactly(Phase):
    """The pair that floats have found, read exactly; then Wolfe's algorithm from there."""

    def advance(self, search: Search) -> Phase:
        settings = search.settings
        seconds = settings.exact_seconds
        if not search.answer.lower > 0.0:
            seconds = settings.exact_overlap_seconds
        try:
            with until(time.perf_counter() + seconds):
                search.settled = self._pair_of_floats(search) or self._optimum(search)
        except TooLarge:
            pass
        except OutOfTime:
            search.deadline.has_passed()  # whose time is it that is over?
        return End(Reason.SETTLED)

    def _pair_of_floats(self, search: Search) -> Settled | None:
        """The answer as it is, if only its certificate lost the digits."""
        answer, problem = search.answer, search.sets.problem
        if not answer.lower > 0.0:
            return None
        rows = np.flatnonzero(answer.lam > 0.0)
        weights = whole_rows(answer.lam[rows].astype(np.float64)[None, :])[0][0]
        pair = WholePair(_whole(answer.w), tuple(rows.tolist()), tuple(weights))
        found = settled(problem, pair)
        return found if relative_gap(found.lower, found.upper) <= search.tol else None

    def _optimum(self, search: Search) -> Settled | None:
        """The optimum itself, rounded to as many bits as keep all digits of the margin."""
        if min(search.size, search.rank) > search.settings.exact_support:
            return None
        problem = search.sets.problem
        points = SignedPoints(problem)
        norms = search.sets.operator.row_norms
        start = [int(rows[norms[rows].argmin()]) for rows in points.groups]
        found = Wolfe(points).run(_guess(search, points), start)
        return settled(problem, _shortened(found, points))


class SignedPoints:
    """y x of all rows as whole numbers in one unit; with an intercept, of each class."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        matrix = problem.operator.as_matrix()
        assert matrix is not None
        self.matrix = matrix
        self.signs = problem.labels.output_signs(slice(None))[:, 0]
        is_balanced = problem.dual_set.fits_intercept
        masks = [self.signs > 0.0, self.signs < 0.0] if is_balanced else [self.signs != 0.0]
        self.groups = [np.flatnonzero(mask) for mask in masks]
        self.n_groups = len(self.groups)
        self.exponent = self._least_exponent()
        self._vectors: dict[int, list[int]] = {}

    def _least_exponent(self) -> int:
        """The largest e such that every entry is a whole multiple of 2^e."""
        least = 0
        for part in row_blocks(*self.matrix.shape):
            rows = self.matrix.rows(np.arange(part.start, part.stop))
            least = min(least, whole_rows(rows)[1])
        return least

    def group(self, i: int) -> int:
        return int(self.n_groups == 2 and self.signs[i] < 0.0)

    def vector(self, i: int) -> list[int]:
        known = self._vectors.get(i)
        if known is None:
            rows, exponent = whole_rows(self.matrix.rows(np.array([i])))
            factor = int(self.signs[i]) << (exponent - self.exponent)
            known = self._vectors[i] = [factor * v for v in rows[0]]
        return known

    def lowest(self, x: list[int]) -> list[tuple[int, int]]:
        unit = Fraction(2) ** self.exponent
        return [(int(value / unit), i) for value, i in least_products(self.problem, tuple(x))]


def _guess(search: Search, points: SignedPoints) -> dict[int, Fraction]:
    """The weights that floats have found, no more than can be independent; none without any."""
    lam = search.answer.lam
    top = float(lam.max(initial=0.0))
    if not 0.0 < top < math.inf:
        return {}
    support = np.flatnonzero(lam > search.settings.support_share * top)
    support = support[np.argsort(-lam[support], kind="stable")][: search.rank]
    counts = {int(i): int(lam[i] / top * 2**30) + 1 for i in support}
    masses = [0] * points.n_groups
    for i, count in counts.items():
        masses[points.group(i)] += count
    if 0 in masses:
        return {}
    return {i: Fraction(count, masses[points.group(i)]) for i, count in counts.items()}


def _whole(w: np.ndarray) -> tuple[int, ...]:
    """A vector in float64 or extended precision, up to a power of two."""
    high = w.astype(np.float64)
    low = (w - high).astype(np.float64)
    (rows, _) = whole_rows(np.stack([high, low]))
    return tuple(a + b for a, b in zip(*rows, strict=True))


def _shortened(found: Nearest, points: SignedPoints) -> WholePair:
    """The optimum with no more bits than its margin's digits need; a witness stays exact."""
    common = math.lcm(*(weight.denominator for weight in found.weights.values()))
    rows, weights = tuple(found.weights), [int(v * common) for v in found.weights.values()]
    if not any(found.x):
        return WholePair(tuple(found.x), rows, tuple(weights))
    longest = math.frexp(points.problem.operator.radius)[1] - points.exponent
    combined = [
        sum(v * points.vector(i)[c] for i, v in zip(rows, weights, strict=True))
        for c in range(len(found.x))
    ]
    shortest = max(abs(v).bit_length() for v in combined) - common.bit_length()
    bits = max(longest - shortest, 0) + GUARD_BITS
    return WholePair(_cut(found.x, bits), rows, _cut(weights, bits))


def _cut(numbers: list[int], bits: int) -> tuple[int, ...]:
    """Whole numbers up to a common factor, the largest with so many bits."""
    surplus = max(abs(v).bit_length() for v in numbers) - bits
    return tuple(v >> surplus for v in numbers) if surplus > 0 else tuple(numbers)


def settled(problem: Problem, pair: WholePair) -> Settled:
    """A pair with what it proves, and its classifier's scores as floats see them."""
    certificate = problem.certify_whole(pair)
    unit = problem.to_units_of_x(1.0)
    w, q = pair.floats(problem.size)
    scores = problem.scores(w)
    if not problem.dual_set.fits_intercept:
        # floats may not tell the rows that decide from others: none has a score above the margin's
        lower = certificate.margin / unit
        np.minimum(scores, -lower * problem.norm(w), out=scores)
    return Settled(pair, w, q, scores, certificate.lower, certificate.upper)
