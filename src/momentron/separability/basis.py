"""From a proposal in floats to exact weights: one regular system of whole numbers.

Let T be the boundary pairs, of rank r. Pick r independent pairs B of T and r columns P of A. All
weights off B stay as proposed, rounded to short integers; those of B are the exact solution of
A[B, P]ᵀ q_B = −Σ q a over the rest. In the same way w on P follows exactly from w on the other
columns F, which stays as proposed: A[B, P] w_P = −A[B, F] w_F.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from momentron.separability.cone import Cone, by_column
from momentron.separability.interior_point import Normal
from momentron.separability.spans import sparse_minor
from momentron.solvers.rational.memory import TooLarge, require_memory
from momentron.solvers.rational.systems import pivot_columns, solve_rows
from momentron.verify.deadline import call_within_deadline
from momentron.verify.limits import MAX_BASIS

MAX_COLUMNS = 12_000  # of a dense normal matrix
MANY_PAIRS = 200  # of a basis, for which all rows are converted at once
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


def find_basis(cone: Cone, boundary: np.ndarray, q: np.ndarray, *, is_sparse: bool) -> Basis:
    """A basis of the boundary pairs: pairs of large weight, columns with many entries.

    Sparse rows are taken by weight alone, at little cost; a dense elimination minds rounding, too.
    """
    A = cone.A[boundary]
    if is_sparse and sp.issparse(A):
        heavy_first = np.argsort(-q[boundary], kind="stable")
        found = sparse_minor(cone.residues(boundary), heavy_first)
        if found is not None:
            return Basis(boundary, np.sort(boundary[found[0]]), np.sort(np.array(found[1], int)))
    counts = np.asarray((A != 0).sum(axis=0)).ravel()
    order, some = np.argsort(-counts, kind="stable"), 4 * counts.size + 64
    if boundary.size > 2 * some:  # the heaviest often suffice
        heavy = boundary[np.argpartition(-q[boundary], some)[:some]]
        columns = pivot_columns(cone.residues(heavy), order)
    if boundary.size <= 2 * some or columns.size < np.count_nonzero(counts):
        columns = pivot_columns(cone.residues(boundary), order)
    if columns.size == 0:
        return Basis(boundary, boundary[:0], columns)
    part = A[:, columns]
    part = part.toarray() if sp.issparse(part) else part.copy()
    part *= q[boundary][:, None]
    part /= np.maximum(part.max(axis=0), -part.min(axis=0))
    leading = pivot_order(part)[: columns.size]
    return Basis(boundary, np.sort(boundary[leading]), columns)


def pivot_order(matrix: np.ndarray) -> np.ndarray:
    """The rows of a tall matrix in the order in which elimination picks them as pivots."""
    n, d = matrix.shape
    _, swaps, _ = call_within_deadline(float(n) * d * min(n, d), sl.lapack.dgetrf, matrix)
    order = np.arange(len(matrix))
    for i, j in enumerate(swaps.tolist()):
        order[[i, j]] = order[[j, i]]
    return order


def one_sided_column(cone: Cone) -> list[int] | None:
    """Whole w of one coordinate with a·w ≥ 0 on every pair and > 0 on one, if there is one."""
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
    top = float(q.max())
    short = {
        int(pair): max(1, round(weight / top * 2**WEIGHT_BITS))
        for pair, weight in zip(basis.boundary.tolist(), q.tolist(), strict=True)
    }
    rest = np.setdiff1d(basis.boundary, basis.pairs)
    numerators = [short[pair] for pair in rest.tolist()]
    total = cone.combine(rest, numerators)
    coordinates = cone.columns[basis.columns].tolist()
    if basis.pairs.size > MANY_PAIRS:
        cone.keep_whole_rows()
    found = [cone.vector(pair) for pair in basis.pairs.tolist()]
    equations: dict[int, dict[int, int]] = {c: {} for c in coordinates}
    for i, row in enumerate(found):
        for c in equations.keys() & row.keys():
            equations[c][i] = row[c]
    unknowns = list(range(len(found)))
    solution, denominator = _whole(
        solve_rows(list(equations.values()), unknowns, [{0: -total[c]} for c in coordinates]),
        unknowns,
    )
    if any(v <= 0 for v in solution):
        raise NotExact(f"{sum(v <= 0 for v in solution)} weights of the basis are not positive")
    groups = [ExactWeights(rest, numerators, 1), ExactWeights(basis.pairs, solution, denominator)]
    return [group for group in groups if group.pairs.size]


def exact_direction(cone: Cone, basis: Basis, w: np.ndarray, bits: int) -> list[int]:
    """A whole recession direction: a·w = 0 on the basis, and near the proposal elsewhere."""
    w = w / np.abs(w).max()
    whole = np.zeros(cone.n_coordinates, object)
    free = np.setdiff1d(np.arange(cone.columns.size), basis.columns)
    # weights of the scaled columns, brought back to those of X by exact powers of two
    shift = int(cone.exponents[free].max(initial=0))
    for position in free.tolist():
        value = round(float(w[position]) * 2**bits)
        whole[cone.columns[position]] = value << (shift - int(cone.exponents[position]))
    found = [cone.vector(pair) for pair in basis.pairs.tolist()]
    right = [{0: -sum(v * int(whole[c]) for c, v in row.items())} for row in found]
    coordinates = cone.columns[basis.columns].tolist()
    solution, denominator = _whole(solve_rows(found, coordinates, right), coordinates)
    answer = [int(v) * denominator for v in whole]
    for c, v in zip(coordinates, solution, strict=True):
        answer[c] = v
    return answer


def _whole(solution: dict[int, dict[int, Fraction]], unknowns: list[int]) -> tuple[list[int], int]:
    """(numerators, positive denominator) of the only right side."""
    values = [solution[j].get(0, Fraction(0)) for j in unknowns]
    common = math.lcm(*(v.denominator for v in values))
    return [int(v * common) for v in values], common


def enclosed_boundary(
    cone: Cone, basis: Basis, q: np.ndarray
) -> tuple[list[ExactWeights], ExactWeights | None]:
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
        raise NotExact("the columns are dependent; install python-flint for an exact proof")
    top = float(q.max())
    numerators = [max(1, round(v / top * 2**53)) for v in q.tolist()]
    group = ExactWeights(basis.boundary, numerators, 1)
    return [group], ExactWeights(basis.pairs, [1] * basis.pairs.size, 1)
