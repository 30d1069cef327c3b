"""A conflict: few rows, with weights, whose class averages coincide, so nothing separates them.

By Carathéodory's theorem d + 1 rows suffice, d + 2 with an intercept. Two equal rows with different
labels are a conflict of two rows, found by hashing before anything is solved.
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from momentron.arithmetic.clock import require_time, time_left
from momentron.separability.basis import Basis, ExactWeights
from momentron.separability.cone import Cone
from momentron.solvers.rational.memory import TooLarge
from momentron.solvers.rational.systems import pivot_columns, solve_whole

SOME = 20  # times the size of a conflict: pairs among which it is looked for first
LARGEST_PROGRAM = 4e6  # entries
SECONDS = 2.0  # of one program, which nothing can interrupt
NEGLIGIBLE = 1e-9  # weights below this share of the largest are rounding errors


def contradictory_rows(cone: Cone) -> tuple[int, int] | None:
    """Two equal rows with different labels, the first such pair, by one hash of all rows."""
    ends, columns, values = cone.rows
    size = cone.n_features + cone.fit_intercept
    factors = np.random.default_rng(0).integers(1, 2**63, size, np.uint64) | np.uint64(1)
    bits = values.view(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(29))) * factors[columns]
    running = np.append(np.uint64(0), np.cumsum(mixed ^ (mixed >> np.uint64(32))))
    kept = cone.kept
    marks = running[ends[kept + 1]] - running[ends[kept]]
    order = np.argsort(marks, kind="stable")
    is_first = np.append(True, marks[order][1:] != marks[order][:-1])
    firsts = order[np.maximum.accumulate(np.where(is_first, np.arange(order.size), 0))]
    pairs = np.column_stack([kept[firsts], kept[order]])
    pairs = pairs[cone.codes[pairs[:, 0]] != cone.codes[pairs[:, 1]]]
    for earlier, i in pairs[np.argsort(pairs[:, 1], kind="stable")].tolist():
        require_time()
        first, second = (slice(ends[m], ends[m + 1]) for m in (earlier, i))
        same = np.array_equal(columns[first], columns[second])
        if same and np.array_equal(values[first], values[second]):
            return earlier, i
    return None


def duplicate_conflict(cone: Cone, i: int, j: int) -> ExactWeights:
    """Two equal rows, each against the class of the other, with equal weights."""
    both = [cone.pair_of(i, cone.codes[j]), cone.pair_of(j, cone.codes[i])]
    return ExactWeights(np.array(both), [1, 1], 1)


def circuit_conflict(cone: Cone, basis: Basis, q: np.ndarray) -> ExactWeights | None:
    """At most r + 1 boundary pairs, of rank r, with positive weights that cancel exactly.

    HiGHS proposes a vertex of {q ≥ 0, Aᵀq = 0, Σq = 1}, of the heaviest pairs if these suffice; the
    verdict stands without a conflict.
    """
    size = basis.columns.size + 1
    heavy_first = np.argsort(-q, kind="stable")
    for n_pairs in (SOME * size, q.size):
        seconds = min(SECONDS, time_left())
        if seconds <= 0.0 or min(n_pairs, q.size) * size > LARGEST_PROGRAM:
            return None
        members = basis.boundary[heavy_first[:n_pairs]]
        part = sp.csr_array(cone.A[members][:, basis.columns])
        found = linprog(
            np.zeros(members.size),
            A_eq=sp.vstack([part.T, np.ones((1, members.size))]),
            b_eq=np.eye(size)[-1],
            method="highs-ds",
            options={"time_limit": seconds},
        )
        if found.status == 0:
            try:
                return exact_circuit(cone, members[found.x > NEGLIGIBLE * found.x.max()])
            except (TooLarge, ZeroDivisionError):
                return None
    return None


def exact_circuit(cone: Cone, support: np.ndarray) -> ExactWeights | None:
    """The positive weights that cancel on pairs with one relation; None if there are none."""
    if support.size < 2:
        return None
    columns = pivot_columns(cone.residues(support[:-1]), np.arange(cone.columns.size))
    if columns.size != support.size - 1:
        return None
    coordinates = cone.columns[columns].tolist()
    *vectors, last = cone.vectors(support)
    matrix = [[a.get(c, 0) for a in vectors] for c in coordinates]
    solution, denominator = solve_whole(matrix, [-last.get(c, 0) for c in coordinates])
    numerators = [*solution, denominator]
    if min(numerators) <= 0 or any(cone.combine(support, numerators)):
        return None
    return ExactWeights(support, numerators, 1)
