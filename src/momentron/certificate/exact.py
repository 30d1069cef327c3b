"""Sure bounds without any rounding, from w and q in whole numbers: two classes, rows of a matrix.

Where the best margin is so small compared with the rows that extended precision sees only its own
roundings, both ends are computed from the data as the dyadic rationals that they are. Only the
roots at the end are rounded, outward.
"""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.rounding import rational_root

if TYPE_CHECKING:
    from momentron.solvers.problem import Problem

BLOCK = 1 << 14  # entries that are read as whole numbers at a time


def takes_whole_numbers(problem: "Problem") -> bool:
    """Whether a problem has bounds in whole numbers."""
    is_plain = not (problem.is_soft or problem.labels.is_paired)
    return is_plain and problem.operator.as_matrix() is not None


def exact_margin(problem: "Problem", w: np.ndarray) -> float:
    """A sure lower bound on the margin of w, in the operator's units: right to one rounding."""
    square = int(w @ w)
    if square == 0:
        return 0.0
    groups, margins = problem.dual_set.groups, np.empty(problem.size, object)
    for part in np.array_split(np.arange(problem.size), 1 + problem.size * w.size // BLOCK):
        rows, unit = _signed_rows(problem, part)
        margins[part] = unit * (rows @ w)
    reach = sum((margins[group].min() for group in groups), Fraction(0)) / len(groups)
    size = reach * reach / square
    return rational_root(size) if reach >= 0 else -rational_root(size, up=True)


def exact_length(problem: "Problem", q: np.ndarray) -> float:
    """A sure upper bound on ‖Zᵀq‖ in the operator's units: right to one rounding.

    Weights below zero count as none; those of each group of the dual set get the same mass.
    """
    q = np.maximum(q, 0)
    masses = [int(q[rows].sum()) for rows in problem.dual_set.groups]
    if 0 in masses:
        return math.inf
    total = math.prod(masses)
    for rows, mass in zip(problem.dual_set.groups, masses, strict=True):
        q[rows] *= total // mass
    support = np.flatnonzero(q)
    signed, unit = _signed_rows(problem, support)
    vector = unit * (q[support] @ signed) / (total * len(masses))
    return rational_root(Fraction(vector @ vector), up=True)


def _signed_rows(problem: "Problem", index: np.ndarray) -> tuple[np.ndarray, Fraction]:
    """y x of some rows: whole numbers, and the power of two that they are multiples of."""
    matrix = problem.operator.as_matrix()
    assert matrix is not None
    require_time()
    signs = problem.labels.output_signs(index)
    rows, exponent = whole_numbers(matrix.rows(index) * signs)
    return rows, Fraction(2) ** exponent


def whole_numbers(values: np.ndarray) -> tuple[np.ndarray, int]:
    """(Python's integers, e) such that finite floats are their multiples by 2^e."""
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    least = int(exponents[mantissas != 0].min(initial=0))
    shifts = np.where(mantissas != 0, exponents - least, 0)
    return mantissas.astype(object) << shifts.astype(object), least - 53
