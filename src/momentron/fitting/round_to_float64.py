"""A classifier in float64 that keeps a margin which is known in whole numbers.

Rounding each entry of the best w to nearest may lose a margin that is tiny beside the rows: a long
row at the margin is then on either side of the plane. There is often another w, next to the best
one, whose roundings do no harm: moved by η along a direction in which every row gains more than its
own products round, at the price of the share η of the margin.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from momentron.arithmetic.clock import OutOfTime, time_left, until
from momentron.certificate import certify_whole_classifier, least_products, whole_rows
from momentron.solvers import as_solver
from momentron.solvers.loop import Budget, solve
from momentron.solvers.problem import Problem

UNIT_BITS = 64  # of 1, where a vector in whole numbers is brought to unit length
ENOUGH = 1e-9  # the share of the best margin that rounding may take without a second try
SHARES = (2.0**-48, 2.0**-42, 2.0**-36, 2.0**-30, 2.0**-24)  # of the margin, that are given up
ROUGH = 0.5  # the gap to which the direction is solved


class Held(NamedTuple):
    """w at unit length and b, in the units of the operator, with a sure bound on their margin."""

    coef: np.ndarray
    b: float
    margin: float


def held_in_floats(problem: Problem, w: tuple[int, ...], best: float, closing: float) -> Held:
    """The classifier in float64 next to w with the largest margin that was found.

    Parameters
    ----------
    problem : Problem
        Of two classes whose rows can be read.
    w : tuple of int
        A classifier in whole numbers.
    best : float
        Its margin, in the units of X.
    closing : float
        When the answer must be there.
    """
    coef = _at_unit_length(w)
    held = Held(coef, 0.0, -math.inf)
    try:
        with until(closing):
            held = _with_margin(problem, coef)
            if held.margin >= (1.0 - ENOUGH) * best:
                return held
            for other in _neighbours(problem, coef, held.b):
                tried = _with_margin(problem, other)
                if tried.margin > held.margin:
                    held = tried
                elif held.margin > 0.0:
                    break  # further away it only gets worse
    except OutOfTime:
        pass
    return held


def _at_unit_length(w: tuple[int, ...]) -> np.ndarray:
    """w over its length, each entry rounded once."""
    precision = 2 * UNIT_BITS
    length = math.isqrt(sum(v * v for v in w) << 2 * precision)
    return np.array([(v << precision) / length for v in w])


def _with_margin(problem: Problem, coef: np.ndarray) -> Held:
    """The best intercept for coef, rounded, and the margin of both, in whole numbers."""
    rows, exponent = whole_rows(coef[None, :])
    w, scale = tuple(rows[0]), Fraction(2) ** exponent
    if not problem.dual_set.fits_intercept:
        return Held(coef, 0.0, certify_whole_classifier(problem, w))
    (positive, _), (negative, _) = least_products(problem, w)
    b = float((negative - positive) / 2 * scale)
    return Held(coef, b, certify_whole_classifier(problem, w, Fraction(b) / scale))


def _neighbours(problem: Problem, coef: np.ndarray, b: float) -> Iterator[np.ndarray]:
    """coef with each entry changed by a share of itself, such that every row gains."""
    direction = _gaining(problem, coef, b)
    if direction is None:
        return
    for share in SHARES:
        moved = coef.astype(np.longdouble) * (1.0 + share * direction)
        yield (moved / np.sqrt((moved * moved).sum())).astype(np.float64)


def _gaining(problem: Problem, coef: np.ndarray, b: float) -> np.ndarray | None:
    """s with y Σ x_j coef_j s_j > 0 for all rows, in units of their roundings; b may change, too.

    Products with entries of any size are within the range of long doubles, where there are any.
    """
    matrix = problem.operator.as_matrix()
    assert matrix is not None
    rows = matrix.rows(np.arange(problem.n_rows)).astype(np.longdouble) * coef
    if b:
        rows = np.column_stack([rows, np.full(problem.n_rows, np.longdouble(b))])
    sizes = np.abs(rows).sum(axis=1)
    if not sizes.min() > 0.0:
        return None
    signs = problem.labels.output_signs(slice(None))[:, 0]
    if np.unique(signs).size < 2:
        return None
    scaled = (rows / sizes[:, None]).astype(np.float64)
    budget = Budget(tol=ROUGH, max_iter=100, max_time=max(0.0, time_left()))
    found = solve(Problem.from_data(scaled, signs, fit_intercept=False), as_solver("auto"), budget)
    if not found.certificate.lower > 0.0:
        return None
    direction = found.w.astype(np.float64)[: coef.size]
    return direction / float(np.abs(found.w).max())
