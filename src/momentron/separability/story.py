"""The smallest story of an overlap: few rows, with weights, whose class averages coincide.

By Carathéodory's theorem d + 1 rows suffice, d + 2 with an intercept. Contradictory duplicates are
a story of two rows, found by hashing before anything is solved.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.clock import require_time
from momentron.separability.correction import Basis, Weights, pivot_order
from momentron.separability.limits import TooLarge, require_memory
from momentron.separability.patience import patiently
from momentron.separability.rational import pivot_columns, solve_whole
from momentron.separability.rows import Examples, PairRows

NEGLIGIBLE = 1e-9  # weights below this share of the largest are rounding errors


def contradictory_rows(examples: Examples) -> tuple[int, int] | None:
    """Two equal rows with different labels; the first such pair, in O(n·d)."""
    seen: dict[bytes, tuple[int, int]] = {}
    for i, name in enumerate(examples.data.row_digests()):
        code = int(examples.codes[i])
        first, label = seen.setdefault(name, (i, code))
        if label != code:
            return first, i
    return None


def duplicate_story(rows: PairRows, twins: tuple[int, int]) -> Weights:
    """The two rows, each against the other's class, with equal weights."""
    codes = rows.examples.codes
    pairs = [
        int(np.flatnonzero((rows.example == i) & (rows.other == codes[j]))[0])
        for i, j in (twins, twins[::-1])
    ]
    return Weights(np.array(pairs), [1, 1], 1)


def circuit_story(rows: PairRows, basis: Basis, q: np.ndarray) -> Weights | None:
    """At most r + 1 rows of the plane, of rank r, with positive weights that cancel exactly.

    Moves the weight of one row after the other onto a basis, as the crossover of an interior
    point to a vertex does: O(n·r²) flops.
    """
    try:
        with np.errstate(all="ignore"):  # entries too far apart for floats: no story from them
            support, weights = _crossover(rows, basis, q)
        return exact_circuit(rows, support[weights > NEGLIGIBLE * weights.max()])
    except (TooLarge, ZeroDivisionError, np.linalg.LinAlgError):
        return None


def _crossover(rows: PairRows, basis: Basis, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(r + 1 pairs, weights of them with Σ q a ≈ 0): a vertex of {q ≥ 0, Aᵀq = 0, Σq = 1}."""
    size = basis.columns.size + 1
    require_memory(24.0 * (basis.plane.size + size) * size, "a crossover")
    V = rows.dense(basis.plane, basis.columns)
    V = np.column_stack([V / np.abs(V).max(axis=0), np.ones(len(V))])
    places, size = pivot_order(q[:, None] * V), V.shape[1]
    members, outside = places[:size].copy(), places[size:]
    inverse = patiently(2.0 * size**3, np.linalg.inv, V[members].T)
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
    sharp = patiently(30.0 * size**3, np.linalg.lstsq, V[members].T, target, rcond=None)[0]
    return basis.plane[members], np.maximum(sharp, 0.0)


def exact_circuit(rows: PairRows, support: np.ndarray) -> Weights | None:
    """The positive weights that cancel on rows with one relation; None if there are none."""
    if support.size < 2:
        return None
    last, others = support[-1:], support[:-1]
    A: Any = rows.A[others]
    counts = np.asarray((A != 0).sum(axis=0)).ravel()
    columns = pivot_columns(sp.csr_array(A), np.argsort(-counts, kind="stable"))
    if columns.size != others.size:
        return None
    coordinates = rows.columns[columns].tolist()
    found = [rows.whole_row(pair) for pair in others.tolist()]
    matrix = [[row.get(c, 0) for row in found] for c in coordinates]
    final = rows.whole_row(int(last[0]))
    solution, denominator = solve_whole(matrix, [-final.get(c, 0) for c in coordinates])
    numerators = [*solution, denominator]
    if min(numerators) <= 0 or any(rows.combine(support, numerators)):
        return None
    return Weights(support, numerators, 1)
