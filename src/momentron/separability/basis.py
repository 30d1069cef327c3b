"""From a proposal in floats to exact weights: one regular system of integers.

Let T be the boundary pairs, of rank r. Pick r independent pairs B of T and r columns P of A. All
weights off B stay as proposed, rounded to short integers; those of B are the exact solution of
A[B, P]ᵀ q_B = −Σ q a over the rest. In the same way w on P follows exactly from w on the other
columns F, which stays as proposed: A[B, P] w_P = −A[B, F] w_F.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.separability.cone import Cone, by_column
from momentron.separability.deadline import call_within_deadline
from momentron.separability.interior_point import Normal
from momentron.solvers.rational.memory import TooLarge, require_memory
from momentron.solvers.rational.systems import (
    Vector,
    pivot_columns,
    pivots,
    primitive,
    solve_rows,
)
from momentron.verify.limits import MAX_BASIS

MAX_COLUMNS = 12_000  # of a dense normal matrix
WEIGHT_BITS = 40  # of the largest weight off the basis


class NotExact(ArithmeticError):
    """No exact weights of the promised kind are near the proposal."""


@dataclass(frozen=True)
class ExactWeights:
    """Positive rational weights on pairs: numerator / denominator."""

    pairs: np.ndarray
    numerators: list[int]
    denominator: int


@dataclass(frozen=True)
class Basis:
    """r independent pairs among the boundary pairs, of rank r, and r independent columns of A."""

    boundary: np.ndarray
    pairs: np.ndarray
    columns: np.ndarray


def find_basis(cone: Cone, boundary: np.ndarray, q: np.ndarray, *, by_weight: bool) -> Basis:
    """A basis of the boundary pairs: pairs of large weight, columns with many entries.

    Sparse rows can be taken by weight alone; a dense elimination minds rounding, too.
    """
    A = cone.A[boundary]
    heavy_first = np.argsort(-q, kind="stable")
    residues = cone.residues(boundary)
    if by_weight and sp.issparse(A):
        rows, chosen = minor(residues, heavy_first)
        return Basis(boundary, np.sort(boundary[rows]), np.sort(np.array(chosen, np.int64)))
    columns = pivot_columns(residues, _fullest_first(residues))
    if columns.size == 0:
        return Basis(boundary, boundary[:0], columns)
    part = A[:, columns]
    part = part.toarray() if sp.issparse(part) else part.copy()
    part *= q[:, None]
    part /= np.maximum(part.max(axis=0), -part.min(axis=0))
    leading = pivot_order(part)[: columns.size]
    return Basis(boundary, np.sort(boundary[leading]), columns)


def _fullest_first(K: Any) -> np.ndarray:
    """The columns of a sparse matrix, those with the most entries first."""
    return np.argsort(-np.bincount(K.indices, minlength=K.shape[1]), kind="stable")


def minor(K: Any, order: np.ndarray) -> tuple[list[int], list[int]]:
    """(rows, columns) of a regular minor of full rank of a sparse matrix of residues.

    Rows are taken in an order, some at a time until the rank is reached; the first row with an
    entry in each column comes early, since only few rows may have a rare dummy.
    """
    columns = pivot_columns(K, _fullest_first(K))
    dense = sp.csr_array(K[:, columns])
    ordered = dense[order]
    _, firsts = np.unique(ordered.indices, return_index=True)
    early = np.searchsorted(ordered.indptr, firsts, side="right") - 1
    step = 2 * columns.size + 64
    found = np.zeros(0, np.int64)
    for start in range(0, order.size, step):
        require_time()
        part = np.arange(start, min(start + step, order.size))
        members = np.append(found, np.union1d(part, early) if start == 0 else part)
        found = members[pivots(ordered[members].toarray().T)]
        if found.size == columns.size:
            break
    return order[found].tolist(), columns.tolist()


def null_space(rows: list[Vector], pivot: list[int], free: list[int]) -> dict[int, Vector]:
    """For each free coordinate the vector orthogonal to all rows that has no other free one."""
    if not rows or not free:
        return {f: {f: 1} for f in free}
    solution, denominator = solve_rows(rows, pivot, [{f: -a.get(f, 0) for f in free} for a in rows])
    vectors = {f: {f: denominator} for f in free}
    for c, values in solution.items():
        for f, v in values.items():
            vectors[f][c] = v
    return {
        f: dict(sorted(zip(v, primitive([*v.values()]), strict=True))) for f, v in vectors.items()
    }


def pivot_order(matrix: np.ndarray) -> np.ndarray:
    """The rows of a tall matrix in the order in which elimination picks them as pivots."""
    n, d = matrix.shape
    _, swaps, _ = call_within_deadline(float(n) * d * min(n, d), sl.lapack.dgetrf, matrix)
    order = np.arange(len(matrix))
    for i, j in enumerate(swaps.tolist()):
        order[[i, j]] = order[[j, i]]
    return order


def one_sided_column(cone: Cone) -> list[int] | None:
    """Integers w of one coordinate with a·w ≥ 0 on every pair and > 0 on one, if there is one."""
    low, high = by_column(cone.A.min(axis=0)), by_column(cone.A.max(axis=0))
    sided = np.flatnonzero((low >= 0.0) | (high <= 0.0))  # columns of zeros were left out
    if sided.size == 0:
        return None
    w = [0] * cone.n_coordinates
    w[int(cone.columns[sided[0]])] = 1 if high[sided[0]] > 0.0 else -1
    return w


def refine_weights(cone: Cone, boundary: np.ndarray, q: np.ndarray) -> np.ndarray:
    """q with Aᵀq nearer to 0, each entry moved in proportion to its square."""
    A = cone.A[boundary]
    if A.shape[1] > MAX_COLUMNS:
        raise TooLarge(f"{A.shape[1]} columns; weights are refined for up to {MAX_COLUMNS}")
    require_memory(24.0 * A.shape[1] ** 2, f"a normal matrix of {A.shape[1]} columns")
    q = q.copy()
    for _ in range(3):
        normal = Normal(A, q * q)
        step = normal.solve(np.asarray(A.T @ q))
        moved = q - q * q * np.asarray(A @ step)
        if not (moved > 0.0).all():
            break
        q = moved
    return q


def exact_boundary(cone: Cone, basis: Basis, q: np.ndarray) -> list[ExactWeights]:
    """Positive q on every boundary pair with Σ q a = 0 on all columns of the basis, exactly."""
    short = np.maximum(1, np.rint(q / q.max() * 2.0**WEIGHT_BITS)).astype(np.int64)
    is_rest = ~np.isin(basis.boundary, basis.pairs)
    rest, numerators = basis.boundary[is_rest], short[is_rest].tolist()
    total = cone.combine(rest, numerators)
    equations: dict[int, Vector] = {c: {} for c in cone.columns[basis.columns].tolist()}
    for i, row in enumerate(cone.vectors(basis.pairs)):
        for c in equations.keys() & row.keys():
            equations[c][i] = row[c]
    unknowns = list(range(basis.pairs.size))
    right = [{0: -total[c]} for c in equations]
    found, denominator = solve_rows(list(equations.values()), unknowns, right)
    solution = [found[i].get(0, 0) for i in unknowns]
    if any(v <= 0 for v in solution):
        raise NotExact(f"{sum(v <= 0 for v in solution)} weights of the basis are not positive")
    groups = [ExactWeights(rest, numerators, 1), ExactWeights(basis.pairs, solution, denominator)]
    return [group for group in groups if group.pairs.size]


def exact_direction(cone: Cone, basis: Basis, w: np.ndarray, bits: int) -> list[int]:
    """A recession direction in integers: a·w = 0 on the basis, and near the proposal elsewhere."""
    w = w / np.abs(w).max()
    whole = [0] * cone.n_coordinates
    free = np.setdiff1d(np.arange(cone.columns.size), basis.columns)
    # weights of the scaled columns, brought back to those of X by exact powers of two
    shift = int(cone.exponents[free].max(initial=0))
    for position in free.tolist():
        value = round(float(w[position]) * 2**bits)
        whole[cone.columns[position]] = value << (shift - int(cone.exponents[position]))
    rows, sides = cone.vectors(basis.pairs), cone.sides(whole, basis.pairs)
    coordinates = cone.columns[basis.columns].tolist()
    found, denominator = solve_rows(rows, coordinates, [{0: -s} for s in sides])
    answer = [v * denominator for v in whole]
    for c in coordinates:
        answer[c] = found[c].get(0, 0)
    return answer


def enclosed_boundary(
    cone: Cone, basis: Basis, q: np.ndarray
) -> tuple[list[ExactWeights], np.ndarray]:
    """Short weights that nearly cancel, and the pairs on which a correction exists.

    The verifier bounds that correction with an approximate inverse; it needs as many pairs in the
    basis as there are columns in use.
    """
    if basis.pairs.size > MAX_BASIS:
        raise TooLarge(
            f"{basis.pairs.size} pairs in the basis; an enclosure has at most {MAX_BASIS}"
        )
    used = np.asarray((cone.A[basis.boundary] != 0).sum(axis=0))
    if np.count_nonzero(used) != basis.columns.size:
        raise NotExact("the columns are dependent; only an exact solution proves this")
    numerators = [max(1, round(v / float(q.max()) * 2**53)) for v in q.tolist()]
    return [ExactWeights(basis.boundary, numerators, 1)], basis.pairs
