"""A conflict: few rows, with weights, whose class averages coincide, so nothing separates them.

By Carathéodory's theorem d + 1 rows suffice, d + 2 with an intercept. Two equal rows with different
labels are a conflict of two rows, found by hashing before anything is solved.
"""

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.separability.basis import ExactWeights
from momentron.separability.cone import Cone
from momentron.separability.projection import FEW, NotFound, Rows
from momentron.solvers.rational.memory import TooLarge
from momentron.solvers.rational.systems import pivots, solve_whole


def duplicate_conflict(cone: Cone) -> ExactWeights | None:
    """Two equal rows with different labels, each against the class of the other, if there are any.

    Equal rows have equal sums with random factors.
    """
    ends, columns, values = cone.rows
    size = cone.n_features + cone.fit_intercept
    X = sp.csr_array((values, columns, ends), shape=(cone.n, size))
    kept = cone.kept
    with np.errstate(all="ignore"):
        marks = (X @ np.random.default_rng(0).uniform(0.5, 1.0, size))[kept]
    order = np.argsort(marks, kind="stable")
    is_first = np.append(True, marks[order][1:] != marks[order][:-1])
    firsts = order[np.maximum.accumulate(np.where(is_first, np.arange(order.size), 0))]
    pairs = np.column_stack([kept[firsts], kept[order]])
    pairs = pairs[cone.codes[pairs[:, 0]] != cone.codes[pairs[:, 1]]]
    for i, j in pairs[np.argsort(pairs[:, 1], kind="stable")].tolist():
        require_time()
        first, second = (slice(ends[m], ends[m + 1]) for m in (i, j))
        same = np.array_equal(columns[first], columns[second])
        if same and np.array_equal(values[first], values[second]):
            both = cone.pairs_of([i, j], cone.codes[[j, i]])
            return ExactWeights(both, [1, 1], 1)
    return None


def circuit_conflict(cone: Cone, rows: Rows, boundary: np.ndarray, one: int) -> ExactWeights | None:
    """One boundary pair and independent others, with positive weights that cancel exactly.

    The verdict stands without a conflict.
    """
    others = boundary[boundary != one]
    target = -rows.dense(np.array([one]))[0]
    first = others[:: 1 + others.size // (FEW * target.size)]
    try:
        support = rows.project(target, others, first).support
        return exact_circuit(cone, np.append(support, one))
    except (NotFound, TooLarge, ZeroDivisionError):
        return None


def exact_circuit(cone: Cone, support: np.ndarray) -> ExactWeights | None:
    """The positive weights that cancel on pairs with one relation; None if there are none."""
    if support.size < 2:
        return None
    coordinates = pivots(cone.residues(support[:-1]).toarray())
    if len(coordinates) != support.size - 1:
        return None
    *vectors, last = cone.vectors(support)
    matrix = [[a.get(c, 0) for a in vectors] for c in coordinates]
    solution, denominator = solve_whole(matrix, [-last.get(c, 0) for c in coordinates])
    numerators = [*solution, denominator]
    if min(numerators) <= 0 or any(cone.combine(support, numerators)):
        return None
    return ExactWeights(support, numerators, 1)
