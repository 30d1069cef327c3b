"""A conflict: few rows, with weights, whose class averages coincide, so nothing separates them.

By Carathéodory's theorem d + 1 rows suffice, d + 2 with an intercept. Two equal rows with different
labels are a conflict of two rows, found by hashing before anything is solved.
"""

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.clock import require_time
from momentron.separability.basis import Basis, ExactWeights, pivot_order
from momentron.separability.memory import TooLarge, require_memory
from momentron.separability.pairs import Pairs
from momentron.separability.rational import pivot_columns, solve_whole
from momentron.verify.deadline import call_within_deadline

NEGLIGIBLE = 1e-9  # weights below this share of the largest are rounding errors


def contradictory_rows(pairs: Pairs) -> tuple[int, int] | None:
    """Two equal rows with different labels; the first such pair, in O(n·d)."""
    seen: dict[bytes, tuple[int, int]] = {}
    data = pairs.data
    for first, last, _, columns, values in data.blocks():
        ends = np.cumsum(data.lengths[first:last])[:-1]
        parts = zip(np.split(columns, ends), np.split(values, ends), strict=True)
        for i, (own_columns, own_values) in enumerate(parts, first):
            require_time()
            name = hashlib.blake2b(own_columns.tobytes() + own_values.tobytes()).digest()
            earlier, label = seen.setdefault(name, (i, int(pairs.codes[i])))
            if label != pairs.codes[i]:
                return earlier, i
    return None


def duplicate_conflict(pairs: Pairs, i: int, j: int) -> ExactWeights:
    """Two equal rows, each against the class of the other, with equal weights."""
    both = [pairs.pair_of(i, pairs.codes[j]), pairs.pair_of(j, pairs.codes[i])]
    return ExactWeights(np.array(both), [1, 1], 1)


def circuit_conflict(pairs: Pairs, basis: Basis, q: np.ndarray) -> ExactWeights | None:
    """At most r + 1 boundary pairs, of rank r, with positive weights that cancel exactly.

    Moves the weight of one pair after the other onto a basis, as the crossover of an interior
    point to a vertex does: O(n·r²) flops.
    """
    try:
        with np.errstate(all="ignore"):  # entries too far apart for floats: no conflict from them
            support, weights = _crossover(pairs, basis, q)
        return exact_circuit(pairs, support[weights > NEGLIGIBLE * weights.max()])
    except (TooLarge, ZeroDivisionError, np.linalg.LinAlgError):
        return None


def _crossover(pairs: Pairs, basis: Basis, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(r + 1 pairs, weights of them with Σ q a ≈ 0): a vertex of {q ≥ 0, Aᵀq = 0, Σq = 1}."""
    size = basis.columns.size + 1
    require_memory(24.0 * (basis.boundary.size + size) * size, "a crossover")
    part = pairs.A[basis.boundary][:, basis.columns]
    V = part.toarray() if sp.issparse(part) else part
    V = np.column_stack([V / np.abs(V).max(axis=0), np.ones(len(V))])
    places, size = pivot_order(q[:, None] * V), V.shape[1]
    members, outside = places[:size].copy(), places[size:]
    inverse = call_within_deadline(2.0 * size**3, np.linalg.inv, V[members].T)
    weights = q[members] / q.sum()
    for i in outside[np.argsort(q[outside])].tolist():
        require_time()
        step = inverse @ V[i]  # a_i as a combination of the members
        amount = q[i] / q.sum()
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


def exact_circuit(pairs: Pairs, support: np.ndarray) -> ExactWeights | None:
    """The positive weights that cancel on pairs with one relation; None if there are none."""
    if support.size < 2:
        return None
    last, others = support[-1:], support[:-1]
    A: Any = pairs.A[others]
    counts = np.asarray((A != 0).sum(axis=0)).ravel()
    columns = pivot_columns(sp.csr_array(A), np.argsort(-counts, kind="stable"))
    if columns.size != others.size:
        return None
    coordinates = pairs.columns[columns].tolist()
    vectors = [pairs.vector(pair) for pair in others.tolist()]
    matrix = [[a.get(c, 0) for a in vectors] for c in coordinates]
    final = pairs.vector(int(last[0]))
    solution, denominator = solve_whole(matrix, [-final.get(c, 0) for c in coordinates])
    numerators = [*solution, denominator]
    if min(numerators) <= 0 or any(pairs.combine(support, numerators)):
        return None
    return ExactWeights(support, numerators, 1)
