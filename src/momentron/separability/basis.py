"""From a proposal in floats to exact weights: one regular system of integers.

Let B be independent pairs among the boundary pairs, and P as many columns of A in which they are
regular. All weights off B stay as proposed, which are short; those of B are the exact solution of
A[B, P]ᵀ q_B = −Σ q a over the rest. In the same way w on P follows exactly from w on the other
columns F, which stays as proposed: A[B, P] w_P = −A[B, F] w_F.

A *conflict* is few rows, with weights, whose class averages coincide, so that nothing separates
them: by Carathéodory's theorem d + 1 rows suffice, d + 2 with an intercept. Two equal rows with
different labels are one, found by hashing before anything is solved.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.separability.cone import Cone
from momentron.separability.projection import FEW, NotFound, whole_multiples
from momentron.solvers.rational.memory import TooLarge
from momentron.solvers.rational.systems import (
    Vector,
    minor,
    primitive,
    solve_many,
    solve_whole,
)
from momentron.verify.limits import MAX_BASIS


class NotExact(ArithmeticError):
    """No exact weights of the promised kind are near the proposal."""


@dataclass(frozen=True)
class ExactWeights:
    """Positive rational weights on pairs: numerator / denominator."""

    pairs: np.ndarray
    numerators: list[int]
    denominator: int

    def primitive(self) -> "ExactWeights":
        """The same up to a factor, in integers without a common divisor."""
        return ExactWeights(self.pairs, primitive(self.numerators), 1)


@dataclass(frozen=True)
class Basis:
    """A basis of the boundary pairs, and as many independent columns of A."""

    boundary: np.ndarray
    pairs: np.ndarray
    columns: list[int]


def find_basis(cone: Cone, boundary: np.ndarray, support: np.ndarray | None = None) -> Basis:
    """A basis of the boundary pairs, of those in the support first."""
    first = boundary[:0] if support is None else support
    members = np.append(first, np.setdiff1d(boundary, first))
    rows, columns = minor(cone.pairs.residues(members))
    return Basis(boundary, np.sort(members[rows]), columns)


def null_space(rows: list[Vector], pivots: list[int], free: list[int]) -> dict[int, Vector]:
    """For each free coordinate the vector orthogonal to all rows that has no other free one."""
    seen = set[int]().union(*rows)
    touched = [f for f in free if f in seen]
    vectors: dict[int, Vector] = {f: {f: 1} for f in free}
    if touched:
        matrix = [[a.get(c, 0) for c in pivots] for a in rows]
        right = [[-a.get(f, 0) for f in touched] for a in rows]
        solution, denominator = solve_many(matrix, right)
        for f, column in zip(touched, zip(*solution, strict=True), strict=True):
            found = {c: v for c, v in zip(pivots, column, strict=True) if v} | {f: denominator}
            vectors[f] = dict(sorted(zip(found, primitive([*found.values()]), strict=True)))
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


def exact_boundary(cone: Cone, basis: Basis, q: np.ndarray) -> list[ExactWeights]:
    """Positive q on every boundary pair with Σ q a = 0 on all columns of the basis, exactly."""
    rest = np.setdiff1d(basis.boundary, basis.pairs)
    numerators = primitive(whole_multiples(q[rest]))
    total = cone.pairs.combine(numerators, rest)
    vectors = cone.pairs.vectors(basis.pairs)
    matrix = [[a.get(c, 0) for a in vectors] for c in basis.columns]
    solution, denominator = solve_whole(matrix, [-total[c] for c in basis.columns])
    if any(v <= 0 for v in solution):
        raise NotExact(f"{sum(v <= 0 for v in solution)} weights of the basis are not positive")
    groups = [ExactWeights(rest, numerators, 1), ExactWeights(basis.pairs, solution, denominator)]
    return [group for group in groups if group.pairs.size]


def exact_direction(cone: Cone, basis: Basis, w: np.ndarray, bits: int) -> list[int]:
    """A recession direction in integers: a·w = 0 on the basis, and near the proposal elsewhere."""
    rounded = np.rint(w / np.abs(w).max() * 2.0**bits)
    rounded[basis.columns] = 0.0
    whole = cone.rows.whole(rounded)
    matrix = [[a.get(c, 0) for c in basis.columns] for a in cone.pairs.vectors(basis.pairs)]
    sides = cone.pairs.sides(whole, basis.pairs)
    found, denominator = solve_whole(matrix, [-s for s in sides])
    answer = [v * denominator for v in whole]
    for c, v in zip(basis.columns, found, strict=True):
        answer[c] = v
    return answer


def enclosed_boundary(
    cone: Cone, basis: Basis, q: np.ndarray
) -> tuple[list[ExactWeights], np.ndarray]:
    """Short weights that nearly cancel, and the pairs on which a correction exists.

    The verifier bounds that correction with an approximate inverse; it needs as many pairs in the
    basis as there are columns in use.
    """
    if basis.pairs.size > MAX_BASIS:
        raise TooLarge(
            f"{basis.pairs.size} pairs in the basis; an enclosure has at most {MAX_BASIS}"
        )
    used = np.asarray((cone.rows.A[basis.boundary] != 0).sum(axis=0))
    if np.count_nonzero(used) != len(basis.columns):
        raise NotExact("the columns are dependent; only an exact solution proves this")
    q = q[basis.boundary]
    numerators = [max(1, round(v / float(q.max()) * 2**53)) for v in q.tolist()]
    return [ExactWeights(basis.boundary, numerators, 1)], basis.pairs


def duplicate_conflict(cone: Cone) -> ExactWeights | None:
    """Two equal rows with different labels, each against the class of the other, if there are any.

    Equal rows have equal sums with random factors.
    """
    X, kept = cone.design.floats(), cone.kept
    with np.errstate(all="ignore"):
        marks = (X @ np.random.default_rng(0).uniform(0.5, 1.0, X.shape[1]))[kept]
    order = np.argsort(marks, kind="stable")
    is_first = np.append(True, marks[order][1:] != marks[order][:-1])
    firsts = order[np.maximum.accumulate(np.where(is_first, np.arange(order.size), 0))]
    pairs = np.column_stack([kept[firsts], kept[order]])
    pairs = pairs[cone.codes[pairs[:, 0]] != cone.codes[pairs[:, 1]]]
    for i, j in pairs[np.argsort(pairs[:, 1], kind="stable")].tolist():
        require_time()
        first, second = (slice(*X.indptr[m : m + 2]) for m in (i, j))
        same = np.array_equal(X.indices[first], X.indices[second])
        if same and np.array_equal(X.data[first], X.data[second]):
            both = cone.pairs_of([i, j], cone.codes[[j, i]])
            return ExactWeights(both, [1, 1], 1)
    return None


def circuit_conflict(cone: Cone, boundary: np.ndarray, one: int) -> ExactWeights | None:
    """One boundary pair and independent others, with positive weights that cancel exactly.

    The verdict stands without a conflict.
    """
    others = boundary[boundary != one]
    target = -cone.rows.dense(np.array([one]))[0]
    first = others[:: 1 + others.size // (FEW * target.size)]
    try:
        support = cone.rows.project(target, others, first).support
        rows, columns = minor(cone.pairs.residues(support))
        pairs = np.append(support[rows], one)
        *vectors, last = cone.pairs.vectors(pairs)
        matrix = [[a.get(c, 0) for a in vectors] for c in columns]
        numerators, denominator = solve_whole(matrix, [-last.get(c, 0) for c in columns])
    except (NotFound, TooLarge, ZeroDivisionError):
        return None
    weights = [*numerators, denominator]
    if min(numerators, default=0) <= 0 or any(cone.pairs.combine(weights, pairs)):
        return None
    return ExactWeights(pairs, weights, 1)
