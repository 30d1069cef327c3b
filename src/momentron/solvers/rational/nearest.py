"""Wolfe's algorithm in rational arithmetic: the shortest vector of a convex hull, or of a sum of
two, which is the shortest way between two hulls.

Points are vectors of whole numbers, in groups; weights are positive, with a sum of 1 in each group.
Every step is finite, and none rounds.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from momentron.arithmetic.clock import require_time
from momentron.solvers.rational.systems import primitive, solve_whole

Vector = list[int]
Weights = dict[int, Fraction]


class Points:
    """Whole points, in one group or in several.

    Attributes
    ----------
    vectors : list
    group_of : list of int
        The group of each point.
    groups : list of list of int
        The points of each group.
    """

    def __init__(self, vectors: list[Vector], group_of: list[int] | None = None) -> None:
        self.vectors = vectors
        self.group_of = group_of or [0] * len(vectors)
        self.groups: list[list[int]] = [[] for _ in range(max(self.group_of) + 1)]
        for i, group in enumerate(self.group_of):
            self.groups[group].append(i)

    def lowest(self, x: Vector) -> list[tuple[int, int]]:
        """(the least product with x, a point that has it) of every group."""
        return [min((dot(x, self.vectors[i]), i) for i in group) for group in self.groups]


@dataclass(frozen=True)
class Nearest:
    """Positive weights, and a multiple of Σ q_i p_i without a common divisor; zero if that is."""

    weights: Weights
    x: Vector


def dot(a: Vector, b: Vector) -> int:
    """The product of two whole vectors."""
    require_time()
    return sum(map(int.__mul__, a, b))


class Wolfe:
    """The search for the shortest Σ q_i p_i."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self._products: dict[tuple[int, int], int] = {}

    def run(self, guess: Weights, start: list[int]) -> Nearest:
        """From a guess, which may be empty or of no use, or else from one point of each group."""
        if guess:
            try:
                return self._descend(guess)
            except ZeroDivisionError:  # points that depend on each other
                pass
        return self._descend(dict.fromkeys(start, Fraction(1)))

    def _descend(self, weights: Weights) -> Nearest:
        while True:
            require_time()
            target = self._face_minimiser(list(weights))
            if min(target.values()) > 0:
                x = self._combined(target)
                entering = self._entering(x, target)
                if entering is None:
                    return Nearest(target, primitive(x))
                weights = {**target, entering: Fraction(0)}
                continue
            step = min(weights[i] / (weights[i] - v) for i, v in target.items() if v <= 0)
            moved = {i: a + step * (target[i] - a) for i, a in weights.items()}
            weights = {i: a for i, a in moved.items() if a > 0}

    def _combined(self, weights: Weights) -> Vector:
        """A multiple of Σ q_i p_i."""
        common = math.lcm(*(weight.denominator for weight in weights.values()))
        vectors = [self.points.vectors[i] for i in weights]
        numerators = [int(weight * common) for weight in weights.values()]
        return [dot(numerators, list(column)) for column in zip(*vectors, strict=True)]

    def _entering(self, x: Vector, support: Weights) -> int | None:
        """The point farthest below the plane of its group's support; None at the optimum."""
        planes: dict[int, int] = {}
        for i in support:
            group = self.points.group_of[i]
            if group not in planes:  # all of the support of a group have the same product
                planes[group] = dot(x, self.points.vectors[i])
        lowest = enumerate(self.points.lowest(x))
        depth, entering = min((product - planes[g], i) for g, (product, i) in lowest)
        return entering if depth < 0 else None

    def _face_minimiser(self, support: list[int]) -> Weights:
        """The weights of any sign with the shortest sum: G u + E μ = 0, Eᵀu = 1."""
        points, n_groups = self.points, len(self.points.groups)
        members = [[int(points.group_of[i] == g) for g in range(n_groups)] for i in support]
        matrix = [
            [*(self._product(i, j) for j in support), *own]
            for i, own in zip(support, members, strict=True)
        ]
        matrix += [[*column, *([0] * n_groups)] for column in zip(*members, strict=True)]
        solution, denominator = solve_whole(matrix, [0] * len(support) + [1] * n_groups)
        return {i: Fraction(v, denominator) for i, v in zip(support, solution, strict=False)}

    def _product(self, i: int, j: int) -> int:
        key = (min(i, j), max(i, j))
        if key not in self._products:
            self._products[key] = dot(self.points.vectors[i], self.points.vectors[j])
        return self._products[key]
