"""Wolfe's algorithm in rational arithmetic: the shortest vector of a convex hull, or of a sum of
two, which is the shortest way between two hulls.

Points are rows of whole numbers, in groups; weights are positive, with a sum of 1 in each group.
Every step is finite, and none rounds.
"""

import math
from fractions import Fraction

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.solvers.rational.systems import primitive, solve_whole

Weights = dict[int, Fraction]


class Wolfe:
    """The search for the shortest Σ q_i p_i.

    Parameters
    ----------
    points : ndarray of Python's integers, shape (n, d)
    groups : list of ndarray of int
        The points of each group.
    """

    def __init__(self, points: np.ndarray, groups: list[np.ndarray]) -> None:
        self.points, self.groups = points, groups
        # column g has ones for the points of group g
        self._members = np.zeros((points.shape[0], len(groups)), object)
        for g, group in enumerate(groups):
            self._members[group, g] = 1

    def run(self, guess: Weights, start: list[int]) -> tuple[Weights, np.ndarray]:
        """(q, a multiple of Σ q_i p_i), from a guess, which may be empty or of no use, or else from
        one point of each group.
        """
        if guess:
            try:
                return self._descend(guess)
            except ZeroDivisionError:  # points that depend on each other
                pass
        return self._descend(dict.fromkeys(start, Fraction(1)))

    def _descend(self, weights: Weights) -> tuple[Weights, np.ndarray]:
        while True:
            target = self._face_minimiser(list(weights))
            if min(target.values()) > 0:
                x = self._combined(target)
                entering = self._entering(x, list(target))
                if entering is None:
                    return target, x
                weights = {**target, entering: Fraction(0)}
                continue
            step = min(weights[i] / (weights[i] - v) for i, v in target.items() if v <= 0)
            moved = {i: a + step * (target[i] - a) for i, a in weights.items()}
            weights = {i: a for i, a in moved.items() if a > 0}

    def _combined(self, weights: Weights) -> np.ndarray:
        """A multiple of Σ q_i p_i without a common divisor."""
        common = math.lcm(*(weight.denominator for weight in weights.values()))
        numerators = np.array([int(weight * common) for weight in weights.values()], object)
        return np.array(primitive((numerators @ self.points[list(weights)]).tolist()), object)

    def _entering(self, x: np.ndarray, support: list[int]) -> int | None:
        """The point farthest below the plane of its group's support; None at the optimum."""
        require_time()
        products = self.points @ x
        lowest = [int(group[products[group].argmin()]) for group in self.groups]
        # all of the support of a group have the same product
        planes = [
            next(products[i] for i in support if self._members[i, g])
            for g in range(len(self.groups))
        ]
        depth, entering = min(
            (products[i] - plane, i) for i, plane in zip(lowest, planes, strict=True)
        )
        return entering if depth < 0 else None

    def _face_minimiser(self, support: list[int]) -> Weights:
        """The weights of any sign with the shortest sum: G u + E μ = 0, Eᵀu = 1."""
        points, members = self.points[support], self._members[support]
        m, n_groups = members.shape
        matrix = np.zeros((m + n_groups, m + n_groups), object)
        matrix[:m, :m] = points @ points.T
        matrix[:m, m:], matrix[m:, :m] = members, members.T
        solution, denominator = solve_whole(matrix.tolist(), [0] * m + [1] * n_groups)
        return {i: Fraction(v, denominator) for i, v in zip(support, solution, strict=False)}
