"""Projections onto cones in rational numbers, for data on which floats see too little.

The same questions as in `projection`, by the same algorithm, Lawson and Hanson's: each step makes
the residual shorter, and none rounds, so that it ends at the answer.
"""

import math
from fractions import Fraction

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.separability.basis import ExactWeights
from momentron.separability.cone import Cone
from momentron.separability.projection import NotFound, least_squares
from momentron.solvers.rational.memory import require_memory
from momentron.solvers.rational.systems import primitive, solve_whole

Point = list[int]
Weights = dict[int, Fraction]  # by point

BYTES_PER_INTEGER = 100  # with its place in a list
GUESS_FLOPS = 4e9  # of a guess in floats, which nothing can interrupt: a few seconds


def project_exactly(points: list[Point], target: Point) -> tuple[Weights, Point]:
    """(λ > 0 on independent points, a multiple of r = Σ λ p − target); r is zero or the shortest.

    So p·r ≥ 0 for all points, and target·r < 0 unless r is zero.
    """
    guess = _guess(points, target)
    try:
        return _descend(points, target, guess)
    except ZeroDivisionError:  # the points of the guess depend on each other
        return _descend(points, target, {})


def _guess(points: list[Point], target: Point) -> Weights:
    """Weights near the answer, in floats; none if these see nothing, or would take too long."""
    if len(points) * len(target) * min(len(points), len(target)) > GUESS_FLOPS:
        return {}
    tops = [max(map(abs, p)) or 1 for p in points]
    rows = [[v / top for v in p] for p, top in zip(points, tops, strict=True)]
    most = max(map(abs, target)) or 1
    try:
        weights = least_squares(np.array(rows), np.array([v / most for v in target]))
    except NotFound:
        return {}
    return {i: Fraction(weights[i]) * most / tops[i] for i in np.flatnonzero(weights).tolist()}


def _descend(points: list[Point], target: Point, weights: Weights) -> tuple[Weights, Point]:
    """From positive weights on independent points to the answer."""
    lengths = [max(map(int.bit_length, p)) for p in points]
    while True:
        support = list(weights)
        rows = [points[i] for i in support]
        matrix = [[dot(a, b) for b in rows] for a in rows]
        solution, common = solve_whole(matrix, [dot(a, target) for a in rows])
        best = {i: Fraction(v, common) for i, v in zip(support, solution, strict=True)}
        if min(solution, default=1) <= 0:
            step = min(weights[i] / (weights[i] - v) for i, v in best.items() if v <= 0)
            moved = {i: old + step * (best[i] - old) for i, old in weights.items()}
            weights = {i: v for i, v in moved.items() if v > 0}
            continue
        residual = [-common * v for v in target]
        for a, factor in zip(rows, solution, strict=True):
            residual = [old + factor * v for old, v in zip(residual, a, strict=True)]
        residual = primitive(residual)
        # sides of points of one order of magnitude
        sides = [dot(a, residual) << max(lengths) - e for a, e in zip(points, lengths, strict=True)]
        if min(sides, default=0) >= 0:
            return best, residual
        weights = best | {sides.index(min(sides)): Fraction(0)}


def dot(first: Point, second: Point) -> int:
    require_time()
    return sum(map(int.__mul__, first, second))


def exact_pair(cone: Cone) -> tuple[Point, list[ExactWeights], ExactWeights | None]:
    """(w, boundary weights, a conflict), layer by layer as in `projection.propose`.

    w is empty if all overlap. The conflict has independent pairs, up to one relation.

    Raises
    ------
    OutOfTime
        When the deadline comes first.
    TooLarge
        If all pairs in all coordinates do not fit into memory.
    """
    points, shifts = _points(cone)
    left, layers = list(range(len(points))), list[tuple[Point, list[int]]]()
    weights: Weights = {}
    while left:
        some = [points[i] for i in left]
        weights, r = project_exactly(some, [-sum(column) for column in zip(*some, strict=True)])
        if not any(r):
            break
        sides = [dot(a, r) for a in some]
        layers.append((r, [i for i, s in zip(left, sides, strict=True) if s > 0]))
        left = [i for i, s in zip(left, sides, strict=True) if s == 0]
    w = [0] * len(shifts) if layers else []
    for r, strict in reversed(layers):  # so much longer that the strict pairs stay strict
        longer = max(-dot(points[i], w) // dot(points[i], r) for i in strict)
        w = [max(1, longer + 1) * v + old for v, old in zip(r, w, strict=True)]
    w = [v << shift for v, shift in zip(w, shifts, strict=False)]
    if not left:
        return w, [], None
    q = {i: 1 + weights.get(m, Fraction(0)) for m, i in enumerate(left)}
    one, *others = left
    weights, _ = project_exactly([points[i] for i in others], [-v for v in points[one]])
    conflict = {one: Fraction(1)} | {others[m]: v for m, v in weights.items()}
    return w, [whole_weights(q)], whole_weights(conflict).primitive()


def _points(cone: Cone) -> tuple[list[Point], list[int]]:
    """(the vectors of all pairs with columns times 2^shift, the shifts): columns alike in size."""
    size = float(cone.size + cone.n_coordinates) * cone.n_coordinates
    size *= BYTES_PER_INTEGER + cone.table.bits / 8
    require_memory(size, f"{cone.size} pairs in integers")
    vectors = cone.vectors(np.arange(cone.size))
    lengths = [0] * cone.n_coordinates
    for vector in vectors:
        require_time()
        for c, v in vector.items():
            lengths[c] = max(lengths[c], v.bit_length())
    shifts = [max(lengths) - length if length else 0 for length in lengths]
    return [[a.get(c, 0) << shift for c, shift in enumerate(shifts)] for a in vectors], shifts


def whole_weights(q: Weights) -> ExactWeights:
    """Rational weights over one denominator."""
    pairs = sorted(q)
    common = math.lcm(*(q[pair].denominator for pair in pairs))
    return ExactWeights(np.array(pairs), [int(q[pair] * common) for pair in pairs], common)
