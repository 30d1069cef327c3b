"""A conflict: few rows, with weights, whose class averages coincide, so nothing separates them.

By Carathéodory's theorem d + 1 rows suffice, d + 2 with an intercept. Two equal rows with different
labels are a conflict of two rows, found by hashing before anything is solved.
"""

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.separability.basis import ExactWeights, combination
from momentron.separability.cone import Cone
from momentron.separability.projection import FEW, NotFound, Rows
from momentron.solvers.rational.memory import TooLarge


def duplicate_conflict(cone: Cone) -> ExactWeights | None:
    """Two equal rows with different labels, each against the class of the other, if there are any.

    Equal rows have equal sums with random factors.
    """
    X, kept = cone.design.floats(), cone.kept
    with np.errstate(all="ignore"):
        marks = (X @ np.random.default_rng(0).uniform(0.5, 1.0, X.shape[1]))[kept]
    order = np.argsort(marks, kind="stable")
    is_first = np.append(True, marks[order][1:] != marks[order][:-1])
    firsts = order[np.maximum.accumulate(np.where(is_first, np.arange(order.size), 0))]
    pairs = np.column_stack([kept[firsts], kept[order]])
    pairs = pairs[cone.codes[pairs[:, 0]] != cone.codes[pairs[:, 1]]]
    for i, j in pairs[np.argsort(pairs[:, 1], kind="stable")].tolist():
        require_time()
        first, second = (slice(*X.indptr[m : m + 2]) for m in (i, j))
        same = np.array_equal(X.indices[first], X.indices[second])
        if same and np.array_equal(X.data[first], X.data[second]):
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
        *vectors, last = cone.pairs.vectors(np.append(support, one))
        found = combination(vectors, {c: -v for c, v in last.items()})
    except (NotFound, TooLarge):
        return None
    if found is None or min(found[1], default=0) <= 0:
        return None
    chosen, numerators, denominator = found
    return ExactWeights(np.append(support[chosen], one), [*numerators, denominator], 1)
