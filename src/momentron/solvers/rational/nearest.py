"""The nearest point of a cone to a target in rational arithmetic, by Lawson and Hanson's algorithm.

Each step makes the residual shorter, and none rounds, so that it ends at the answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from flint import fmpz_mat

from momentron.arithmetic.clock import require_time
from momentron.solvers.rational.systems import as_lists, primitive, solve_whole

Point = list[int]
Weights = dict[int, Fraction]  # by point


def nearest(points: Sequence[Point], target: Point, guess: Weights) -> tuple[Weights, Point]:
    """(λ > 0 on independent points, a multiple of r = Σ λ p − target) with the shortest r.

    Parameters
    ----------
    points : sequence of lists of integers
    target : list of integers
    guess : dict
        Weights to begin with, which may be of no use: their points are dependent.
    """
    every: Any = fmpz_mat(len(points), len(target), [v for p in points for v in p])
    goal: Any = fmpz_mat([target])
    lengths = [max(map(int.bit_length, p)) for p in points]
    longest, weights = max(lengths, default=0), guess
    while True:
        require_time()
        support = list(weights)
        rows: Any = fmpz_mat(len(support), len(target), [v for i in support for v in points[i]])
        right = [v for (v,) in as_lists(rows * goal.transpose())]
        try:  # the normal equations
            solution, common = solve_whole(as_lists(rows * rows.transpose()), right)
        except ZeroDivisionError:  # the points of the guess depend on each other
            weights = {}
            continue
        best = {i: Fraction(v, common) for i, v in within_time(zip(support, solution, strict=True))}
        if min(solution, default=1) <= 0:
            signs = within_time(best.items())
            step = min(weights[i] / (weights[i] - v) for i, v in signs if v <= 0)
            moved = {i: old + step * (best[i] - old) for i, old in within_time(weights.items())}
            weights = {i: v for i, v in moved.items() if v > 0}
            continue
        residual = primitive(as_lists(fmpz_mat([solution]) * rows - goal * common)[0])
        (sides,) = as_lists(fmpz_mat([residual]) * every.transpose())
        # as if all points were of one order of magnitude
        sides = [v << longest - e for v, e in zip(sides, lengths, strict=True)]
        if min(sides, default=0) >= 0:
            return best, residual
        weights = best | {sides.index(min(sides)): Fraction(0)}


def within_time(items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """The same items, while there is time: each takes a while where numbers have many digits."""
    for item in items:
        require_time()
        yield item
