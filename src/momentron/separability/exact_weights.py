"""From a proposal in floats to exact weights: one regular system of integers.

Let B be independent pairs among the boundary pairs, and P as many columns of A in which they are
regular. All weights off B stay as proposed, which are short; those of B are the exact solution of
A[B, P]ᵀ q_B = −Σ q a over the rest. In the same way w on P follows exactly from w on the other
columns F, which stays as proposed: A[B, P] w_P = −A[B, F] w_F.

A *conflict* is few rows, with weights, whose class averages coincide, so that nothing separates
them: by Carathéodory's theorem d + 1 rows suffice, d + 2 with an intercept. Two equal rows with
different labels are one, found by hashing before anything is solved.

Where floats see too little, the projections of `projection` are made in rational numbers.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from flint import fmpz_mat

from momentron.arithmetic.clock import require_time
from momentron.separability.cone import Cone, ExactRows
from momentron.separability.projection import FEW, NotFound, least_squares, whole_multiples
from momentron.solvers.rational import (
    Point,
    TooLarge,
    Vector,
    Weights,
    as_lists,
    minor,
    nearest,
    primitive,
    require_memory,
    solve_many,
    solve_whole,
)
from momentron.verify.limits import MAX_BASIS

BYTES_PER_INTEGER = 150  # with its place in a list, and in a matrix
CHANGES = 4  # of coordinates, at most
FLAT = 1e-12  # of the largest sum of squares along an axis: less is seen badly
GUESS_FLOPS = 4e9  # of a guess in floats, which nothing can interrupt: a few seconds


@dataclass(frozen=True)
class ExactWeights:
    """Positive rational weights on pairs: numerator / denominator."""

    pairs: np.ndarray
    numerators: list[int]
    denominator: int = 1


class Span:
    """The span of some rows of integers.

    Attributes
    ----------
    rows : ndarray
        A basis, of the first members where these are independent.
    columns, free : list of int
        As many columns in which the basis is regular, and all others.
    """

    def __init__(self, of: ExactRows, members: np.ndarray) -> None:
        rows, self.columns = minor(of.residues(members))
        self.rows, self._of = np.sort(members[rows]), of
        self.free = np.setdiff1d(np.arange(of.places.shape[1]), self.columns).tolist()

    @cached_property
    def vectors(self) -> list[Vector]:
        return self._of.vectors(self.rows)

    def matrix(self) -> list[list[int]]:
        """The basis in its columns."""
        return [[a.get(c, 0) for c in self.columns] for a in self.vectors]

    def cancelling(self, total: Sequence[int]) -> tuple[list[int], int]:
        """(numerators, denominator) of the weights with which the basis sums to −total."""
        turned = list(map(list, zip(*self.matrix(), strict=True)))
        return solve_whole(turned, [-total[c] for c in self.columns])

    def null(self) -> dict[int, Vector]:
        """For each free coordinate the vector orthogonal to all rows that has no other free one."""
        vectors: dict[int, Vector] = {f: {f: 1} for f in self.free}
        touched = sorted(vectors.keys() & set[int]().union(*self.vectors))
        if touched:
            right = [[-a.get(f, 0) for f in touched] for a in self.vectors]
            solution, denominator = solve_many(self.matrix(), right)
            for f, column in zip(touched, zip(*solution, strict=True), strict=True):
                v = {c: v for c, v in zip(self.columns, column, strict=True) if v}
                v[f] = denominator
                vectors[f] = dict(sorted(zip(v, primitive([*v.values()]), strict=True)))
        return vectors


def one_sided_column(cone: Cone) -> list[int] | None:
    """Integers w of one coordinate with a·w ≥ 0 on every pair and > 0 on one, if there is one."""
    A = sp.csc_array(cone.rows.A)
    low, high = (ends.toarray().ravel() for ends in (A.min(axis=0), A.max(axis=0)))
    sided = np.flatnonzero((low >= 0.0) != (high <= 0.0))
    if sided.size == 0:
        return None
    w = [0] * cone.n_coordinates
    w[sided[0]] = 1 if high[sided[0]] > 0.0 else -1
    return w


def boundary_weights(
    cone: Cone, boundary: np.ndarray, basis: Span, q: np.ndarray
) -> tuple[list[ExactWeights], np.ndarray | None]:
    """(positive q on every boundary pair with Σ q a = 0 on all columns of the basis, None).

    Where the system is too large, short weights that nearly cancel, and the pairs on which a
    correction exists: the verifier bounds it with an approximate inverse, and refuses it unless
    there are as many pairs in the basis as columns in use.
    """
    rest = np.setdiff1d(boundary, basis.rows)
    numerators = primitive(whole_multiples(q[rest]))
    try:
        solution, denominator = basis.cancelling(cone.pairs.combine(numerators, rest))
    except TooLarge:
        if basis.rows.size > MAX_BASIS:
            raise
        q = q[boundary]
        numerators = [max(1, round(v / float(q.max()) * 2**53)) for v in q.tolist()]
        return [ExactWeights(boundary, numerators)], basis.rows
    if min(solution, default=1) <= 0:
        raise NotFound("weights of the basis are not positive")
    groups = [ExactWeights(rest, numerators), ExactWeights(basis.rows, solution, denominator)]
    return [group for group in groups if group.pairs.size], None


def exact_direction(cone: Cone, basis: Span, w: np.ndarray, bits: int) -> list[int]:
    """A recession direction in integers: a·w = 0 on the basis, and near the proposal elsewhere."""
    rounded = np.rint(w / np.abs(w).max() * 2.0**bits)
    rounded[basis.columns] = 0.0
    whole = cone.rows.whole(rounded)
    sides = cone.pairs.sides(whole, basis.rows)
    found, denominator = solve_whole(basis.matrix(), [-s for s in sides])
    answer = [v * denominator for v in whole]
    for c, v in zip(basis.columns, found, strict=True):
        answer[c] = v
    return answer


def duplicate_conflict(cone: Cone) -> ExactWeights | None:
    """Two equal rows with different labels, each against the class of the other, if there are any.

    Equal rows have equal sums with random factors.
    """
    X, kept = cone.X, cone.kept
    with np.errstate(all="ignore"):
        marks = (X @ np.random.default_rng(0).uniform(0.5, 1.0, X.shape[1]))[kept]
    _, first, place = np.unique(marks, return_index=True, return_inverse=True)
    pairs = np.column_stack([kept[first[place]], kept])
    for i, j in pairs[cone.codes[pairs[:, 0]] != cone.codes[pairs[:, 1]]].tolist():
        require_time()
        if not (X[[i]] != X[[j]]).nnz:
            return ExactWeights(cone.pairs_of([i, j], cone.codes[[j, i]]), [1, 1])
    return None


def circuit_conflict(cone: Cone, boundary: np.ndarray, one: int) -> ExactWeights | None:
    """One boundary pair and independent others, with positive weights that cancel exactly.

    The verdict stands without a conflict.
    """
    others = boundary[boundary != one]
    target = -cone.rows.dense(np.array([one]))[0]
    first = others[:: 1 + others.size // (FEW * target.size)]
    try:
        basis = Span(cone.pairs, cone.rows.project(target, others, first)[0])
        found, denominator = basis.cancelling(cone.pairs.combine([1], np.array([one])))
    except (NotFound, TooLarge, ZeroDivisionError):
        return None
    weights = ExactWeights(np.append(basis.rows, one), [*found, denominator])
    if min(found, default=0) <= 0 or any(cone.pairs.combine(weights.numerators, weights.pairs)):
        return None
    return weights


def project_exactly(points: list[Point], target: Point) -> tuple[Weights, Point]:
    """(λ > 0 on independent points, a multiple of r = Σ λ p − target); r is zero or the shortest.

    So p·r ≥ 0 for all points, and target·r < 0 unless r is zero.
    """
    guess: Weights = {}
    if len(points) * len(target) * min(len(points), len(target)) < GUESS_FLOPS:
        rows, tops = _in_floats(points)
        (goal,), (most,) = _in_floats([target])
        with suppress(NotFound):
            weights = least_squares(rows, goal)
            for i in np.flatnonzero(weights).tolist():
                guess[i] = Fraction(weights[i]) * most / tops[i]
    return nearest(points, target, guess)


def exact_pair(cone: Cone) -> tuple[Point, list[ExactWeights], ExactWeights | None]:
    """(w, boundary weights, a conflict), layer by layer as in `projection.propose`.

    w is empty if all overlap. The conflict has independent pairs, up to one relation. TooLarge is
    raised if all pairs in all coordinates do not fit into memory.
    """
    every, change = _points(cone)
    points, weights = as_lists(every), Weights()
    left, w, earlier = list(range(len(points))), [0] * cone.n_coordinates, [0] * len(points)
    while left:
        some = [points[i] for i in left]
        weights, r = project_exactly(some, [-sum(column) for column in zip(*some, strict=True)])
        if not any(r):
            break
        (sides,) = as_lists(fmpz_mat([r]) * every.transpose())
        # enough of the earlier directions that their strict pairs stay strict
        longer = 1 + max([0, *(-s // old for s, old in zip(sides, earlier, strict=True) if old)])
        w = [longer * old + v for old, v in zip(w, r, strict=True)]
        earlier = [longer * old + s for old, s in zip(earlier, sides, strict=True)]
        left = [i for i, s in enumerate(earlier) if not s]
    (w,) = as_lists(fmpz_mat([w]) * change.transpose())
    if not left:
        return w, [], None
    w = w if any(earlier) else []
    q = {i: 1 + weights.get(m, Fraction(0)) for m, i in enumerate(left)}
    one, *others = left
    weights, _ = project_exactly([points[i] for i in others], [-v for v in points[one]])
    conflict = {one: Fraction(1)} | {others[m]: v for m, v in weights.items()}
    return w, [whole_weights(q)], whole_weights(conflict)


def _points(cone: Cone) -> tuple[Any, Any]:
    """(the vectors of all pairs times T, the regular matrix T of integers).

    The columns of the product are alike in size, and a direction in which all pairs are short, as
    within rounding of a plane, is a column of its own: so that floats guess well.
    """
    d = cone.n_coordinates
    size = float(cone.size + d) * d * (BYTES_PER_INTEGER + cone.table.bits / 8)
    require_memory(size, f"{cone.size} pairs in integers")
    vectors = cone.pairs.vectors(np.arange(cone.size))
    points: Any = fmpz_mat([[a.get(c, 0) for c in range(d)] for a in vectors])
    change, n_flat = _diagonal([1] * d), d - points.rank()
    for _ in range(CHANGES):
        require_time()
        lengths = [max(map(int.bit_length, column)) for column in as_lists(points.transpose())]
        shifts = _diagonal([1 << max(lengths) - length if length else 1 for length in lengths])
        points, change = points * shifts, change * shifts
        rows = _in_floats(as_lists(points))[0]
        sizes, axes = np.linalg.eigh(rows.T @ rows)
        if np.count_nonzero(sizes < FLAT * sizes[-1]) <= n_flat:
            break
        turned: Any = fmpz_mat([[int(v) for v in row] for row in np.rint(axes * 2.0**50).tolist()])
        points, change = points * turned, change * turned
    return points, change


def _diagonal(values: list[int]) -> Any:
    return fmpz_mat([[v * (c == j) for j in range(len(values))] for c, v in enumerate(values)])


def _in_floats(points: list[Point]) -> tuple[np.ndarray, list[int]]:
    """(points over their largest entries, these entries)."""
    tops = [max(map(abs, p)) or 1 for p in points]
    return np.array([[v / top for v in p] for p, top in zip(points, tops, strict=True)]), tops


def whole_weights(q: Weights) -> ExactWeights:
    """Rational weights up to a factor, in integers without a common divisor."""
    pairs, common = sorted(q), math.lcm(*(v.denominator for v in q.values()))
    return ExactWeights(np.array(pairs), primitive([int(q[pair] * common) for pair in pairs]))
