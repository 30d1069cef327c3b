"""Problems with each kind of dual set, whose best margin is known."""

import math

import numpy as np

from momentron.datasets import make_separable
from momentron.solvers.problem import KernelChoice, Problem

KINDS = ["simplex", "class-balanced", "pairs", "circulations"]


def corners(k, n_each, seed=0):
    """n_each multiples of e_c for each class c: the best margin is 1/√(k − 1), b = 0 included."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(k), n_each)
    lengths = 1.0 + 0.5 * rng.random(labels.size)
    lengths[::n_each] = 1.0
    return np.eye(k)[labels] * lengths[:, None], labels, 1.0 / math.sqrt(k - 1.0)


def problem_of(kind, *, C=math.inf, kernel=None):
    """A problem with each kind of dual set, and its best margin in units of X."""
    fit_intercept = kind in ("class-balanced", "circulations")
    if kind in ("simplex", "class-balanced"):
        data = make_separable(60, 4, margin=0.4, fit_intercept=fit_intercept, random_state=1)
        X, y, margin = data.X, data.y, data.margin
    else:
        X, y, margin = corners(4, 5)
    choice = None if kernel is None else KernelChoice(kernel)
    problem = Problem.from_data(X, y, fit_intercept=fit_intercept, C=C, kernel=choice).for_solver(
        tight=True
    )
    return problem, X, y, fit_intercept, margin


def vertex_gradient(problem, vertex):
    """Zᵀe for an e with few weights, as a classifier moves along it."""
    iterate = problem.combination()
    iterate.move(vertex, 1.0)
    return -iterate.w
