"""Projections onto cones in rational numbers, for data on which floats see too little.

The same questions as in `projection`; floats guess the answer.
"""

import math
from contextlib import suppress
from fractions import Fraction
from operator import mul
from typing import Any

import numpy as np
from flint import fmpz_mat

from momentron.arithmetic.clock import require_time
from momentron.separability.basis import ExactWeights
from momentron.separability.cone import Cone
from momentron.separability.projection import NotFound, least_squares
from momentron.solvers.rational.nearest import Point, Weights, nearest
from momentron.solvers.rational.systems import as_lists, require_memory

BYTES_PER_INTEGER = 150  # with its place in a list, and in a matrix
CHANGES = 4  # of coordinates, at most
FLAT = 1e-12  # of the largest sum of squares along an axis: less is seen badly
GUESS_FLOPS = 4e9  # of a guess in floats, which nothing can interrupt: a few seconds


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
    points, change = _points(cone)
    left, strict, w = list(range(len(points))), list[int](), list[int]()
    weights: Weights = {}
    while left:
        some = [points[i] for i in left]
        weights, r = project_exactly(some, [-sum(column) for column in zip(*some, strict=True)])
        if not any(r):
            break
        # so much of the earlier directions that their strict pairs stay strict
        longer = max((-dot(points[i], r) // dot(points[i], w) for i in strict), default=0)
        w = [max(1, longer + 1) * old + v for old, v in zip(w or [0] * len(r), r, strict=True)]
        sides = {i: dot(points[i], r) for i in left}
        strict += [i for i in left if sides[i] > 0]
        left = [i for i in left if sides[i] == 0]
    if w:
        (w,) = as_lists(fmpz_mat([w]) * change.transpose())
    if not left:
        return w, [], None
    q = {i: 1 + weights.get(m, Fraction(0)) for m, i in enumerate(left)}
    one, *others = left
    weights, _ = project_exactly([points[i] for i in others], [-v for v in points[one]])
    conflict = {one: Fraction(1)} | {others[m]: v for m, v in weights.items()}
    return w, [whole_weights(q)], whole_weights(conflict).primitive()


def dot(first: Point, second: Point) -> int:
    require_time()
    return sum(map(mul, first, second))


def _points(cone: Cone) -> tuple[list[Point], Any]:
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
    return as_lists(points), change


def _diagonal(values: list[int]) -> Any:
    return fmpz_mat([[v * (c == j) for j in range(len(values))] for c, v in enumerate(values)])


def _in_floats(points: list[Point]) -> tuple[np.ndarray, list[int]]:
    """(points over their largest entries, these entries)."""
    tops = [max(map(abs, p)) or 1 for p in points]
    return np.array([[v / top for v in p] for p, top in zip(points, tops, strict=True)]), tops


def whole_weights(q: Weights) -> ExactWeights:
    """Rational weights over one denominator."""
    pairs = sorted(q)
    common = math.lcm(*(q[pair].denominator for pair in pairs))
    return ExactWeights(np.array(pairs), [int(q[pair] * common) for pair in pairs], common)
