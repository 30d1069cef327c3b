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


def shortest(
    points: np.ndarray, groups: list[np.ndarray], guess: Weights, start: list[int]
) -> tuple[Weights, np.ndarray]:
    """(q, a multiple of Σ q_i p_i) for the shortest Σ q_i p_i, from a guess or one point per group.

    Parameters
    ----------
    points : ndarray of Python's integers, shape (n, d)
    groups : list of ndarray of int
        The points of each group.
    guess : dict
        Weights to begin with, which may be empty or of no use.
    start : list of int
        One point of each group, to begin with where the guess is of no use.
    """
    # column g has ones for the points of group g
    members = np.zeros((points.shape[0], len(groups)), object)
    for g, group in enumerate(groups):
        members[group, g] = 1
    try:
        return _descend(points, groups, members, guess or dict.fromkeys(start, Fraction(1)))
    except ZeroDivisionError:  # points that depend on each other
        return _descend(points, groups, members, dict.fromkeys(start, Fraction(1)))


def _descend(
    points: np.ndarray, groups: list[np.ndarray], members: np.ndarray, weights: Weights
) -> tuple[Weights, np.ndarray]:
    while True:
        target = _face_minimiser(points, members, list(weights))
        if min(target.values()) > 0:
            common = math.lcm(*(weight.denominator for weight in target.values()))
            numerators = np.array([int(weight * common) for weight in target.values()], object)
            x = np.array(primitive((numerators @ points[list(target)]).tolist()), object)
            require_time()
            products = points @ x
            lowest = [int(group[products[group].argmin()]) for group in groups]
            # all of the support of a group have the same product; what is farthest below enters
            depth, entering = min(
                (products[i] - products[next(j for j in target if members[j, g])], i)
                for g, i in enumerate(lowest)
            )
            if depth >= 0:
                return target, x
            weights = {**target, entering: Fraction(0)}
            continue
        step = min(weights[i] / (weights[i] - v) for i, v in target.items() if v <= 0)
        moved = {i: a + step * (target[i] - a) for i, a in weights.items()}
        weights = {i: a for i, a in moved.items() if a > 0}


def _face_minimiser(points: np.ndarray, members: np.ndarray, support: list[int]) -> Weights:
    """The weights of any sign with the shortest sum: G u + E μ = 0, Eᵀu = 1."""
    points, members = points[support], members[support]
    m, n_groups = members.shape
    matrix = np.zeros((m + n_groups, m + n_groups), object)
    matrix[:m, :m] = points @ points.T
    matrix[:m, m:], matrix[m:, :m] = members, members.T
    solution, denominator = solve_whole(matrix.tolist(), [0] * m + [1] * n_groups)
    return {i: Fraction(v, denominator) for i, v in zip(support, solution, strict=False)}
