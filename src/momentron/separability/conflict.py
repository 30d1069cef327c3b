"""A conflict: few rows, with weights, whose class averages coincide, so nothing separates them.

By Carathéodory's theorem d + 1 rows suffice, d + 2 with an intercept. Two equal rows with different
labels are a conflict of two rows, found by hashing before anything is solved.
"""

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.separability.basis import Basis, ExactWeights, pivot_order
from momentron.separability.cone import Cone
from momentron.separability.deadline import call_within_deadline
from momentron.solvers.rational.memory import TooLarge, require_memory
from momentron.solvers.rational.systems import pivot_columns, solve_whole

LARGEST_CROSSOVER = 2e9  # products: some seconds, and the verdict stands without a conflict
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

    Moves the weight of one pair after the other onto a basis, as the crossover of an interior
    point to a vertex does: O(n·r²) flops.
    """
    if (basis.boundary.size - basis.pairs.size) * float(basis.pairs.size) ** 2 > LARGEST_CROSSOVER:
        return None
    try:
        with np.errstate(all="ignore"):  # entries too far apart for floats: no conflict from them
            support, weights = _crossover(cone, basis, q)
        return exact_circuit(cone, support[weights > NEGLIGIBLE * weights.max()])
    except (TooLarge, ZeroDivisionError, np.linalg.LinAlgError):
        return None


def _crossover(cone: Cone, basis: Basis, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(r + 1 pairs, weights of them with Σ q a ≈ 0): a vertex of {q ≥ 0, Aᵀq = 0, Σq = 1}."""
    size = basis.columns.size + 1
    require_memory(24.0 * (basis.boundary.size + size) * size, "a crossover")
    part = cone.A[basis.boundary][:, basis.columns]
    V = part.toarray() if sp.issparse(part) else part
    V = np.column_stack([V / np.abs(V).max(axis=0), np.ones(len(V))])
    places, size = pivot_order(q[:, None] * V), V.shape[1]
    members, outside = places[:size].copy(), places[size:]
    inverse = call_within_deadline(2.0 * size**3, np.linalg.inv, V[members].T)
    shares = q / q.sum()
    weights = shares[members]
    waiting = [outside[np.argsort(q[outside])]]
    while waiting:
        require_time()
        group = waiting.pop()
        if group.size > 1:  # all at once, if no weight of a member falls below zero
            moved = weights + inverse @ (shares[group] @ V[group])
            if (moved >= 0.0).all():
                weights = moved
            else:
                waiting += [group[group.size // 2 :], group[: group.size // 2]]
            continue
        if group.size == 0:
            continue
        i = int(group[0])
        step = inverse @ V[i]  # a_i as a combination of the members
        amount = shares[i]
        falling = step < -1e-12
        limits = np.where(falling, weights / np.where(falling, -step, 1.0), np.inf)
        leaving = int(limits.argmin())
        if limits[leaving] >= amount:
            weights += amount * step
            continue
        weights += limits[leaving] * step
        weights[leaving] = amount - limits[leaving]
        members[leaving] = i
        row = inverse[leaving] / step[leaving]
        inverse -= np.outer(step, row)
        inverse[leaving] = row
    target = np.zeros(size)
    target[-1] = 1.0
    if not np.isfinite(inverse).all():
        raise np.linalg.LinAlgError("the basis is singular")
    sharp, *_ = call_within_deadline(
        30.0 * size**3, np.linalg.lstsq, V[members].T, target, rcond=None
    )
    return basis.boundary[members], np.maximum(sharp, 0.0)


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
