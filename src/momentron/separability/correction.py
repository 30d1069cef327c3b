"""From a numeric proposal to exact weights: one regular system of whole numbers.

Let T be the rows on the plane, of rank r. Pick r independent rows B of T and r columns P. All
weights off B stay as proposed, rounded to short integers; those of B are the exact solution of
A[B, P]ᵀ q_B = −Σ q a over the rest. In the same way w on P follows exactly from w off P, which
stays as proposed: A[B, P] w_P = −A[B, F] w_F.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from momentron.separability.canonical import MAX_BASIS
from momentron.separability.limits import TooLarge, require_memory
from momentron.separability.patience import patiently
from momentron.separability.proposal import Normal
from momentron.separability.rational import pivot_columns, solve_whole
from momentron.separability.rows import PairRows

MAX_COLUMNS = 12_000  # of a dense normal matrix
WEIGHT_BITS = 40  # of the largest weight off the basis


class NotExact(ArithmeticError):
    """The proposal has no exact neighbour of the kind it promises."""


@dataclass(frozen=True)
class Weights:
    """Positive rational weights on pairs: numerator / denominator."""

    pairs: np.ndarray
    numerators: list[int]
    denominator: int


@dataclass(frozen=True)
class Basis:
    """r independent rows and columns of the rows on the plane, of rank r."""

    plane: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    """Positions in `PairRows.A`."""


def find_basis(rows: PairRows, plane: np.ndarray, q: np.ndarray) -> Basis:
    """A basis among the rows on the plane: rows of large weight, columns with many entries."""
    A = rows.A[plane]
    counts = np.asarray((A != 0).sum(axis=0)).ravel()
    columns = pivot_columns(A, np.argsort(-counts, kind="stable"))
    if columns.size == 0:
        return Basis(plane, plane[:0], columns)
    part = A[:, columns]
    part = part.toarray() if sp.issparse(part) else part.copy()
    part *= q[plane][:, None]
    part /= np.maximum(part.max(axis=0), -part.min(axis=0))
    leading = pivot_order(part)[: columns.size]
    return Basis(plane, np.sort(plane[leading]), columns)


def pivot_order(matrix: np.ndarray) -> np.ndarray:
    """The rows of a tall matrix in the order in which elimination picks them as pivots."""
    n, d = matrix.shape
    _, swaps, _ = patiently(float(n) * d * min(n, d), sl.lapack.dgetrf, matrix)
    order = np.arange(len(matrix))
    for i, j in enumerate(swaps.tolist()):
        order[[i, j]] = order[[j, i]]
    return order


def one_sided_column(rows: PairRows) -> list[int] | None:
    """Whole w with a·w ≥ 0 on every row and > 0 on one, that looks at one column; or None."""
    low, high = (
        np.asarray(end.todense() if sp.issparse(end) else end).ravel()
        for end in (rows.A.min(axis=0), rows.A.max(axis=0))
    )
    sided = np.flatnonzero((low >= 0.0) | (high <= 0.0))  # columns of zeros were left out
    if sided.size == 0:
        return None
    w = [0] * rows.n_coordinates
    w[int(rows.columns[sided[0]])] = 1 if high[sided[0]] > 0.0 else -1
    return w


def refine(rows: PairRows, plane: np.ndarray, q: np.ndarray) -> np.ndarray:
    """q with Aᵀq nearer to 0, each entry moved in proportion to its square."""
    A = rows.A[plane]
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


def exact_plane(rows: PairRows, basis: Basis, q: np.ndarray) -> list[Weights]:
    """Positive q on every pair of the plane with Σ q a = 0 on all pivot columns, exactly."""
    top = float(q.max())
    short = {
        int(pair): max(1, round(weight / top * 2**WEIGHT_BITS))
        for pair, weight in zip(basis.plane.tolist(), q.tolist(), strict=True)
    }
    rest = np.setdiff1d(basis.plane, basis.rows)
    numerators = [short[pair] for pair in rest.tolist()]
    total = rows.combine(rest, numerators)
    coordinates = rows.columns[basis.columns].tolist()
    rows.examples.keep_whole_rows()
    found = [rows.whole_row(pair) for pair in basis.rows.tolist()]
    matrix = [[row.get(c, 0) for row in found] for c in coordinates]
    solution, denominator = solve_whole(matrix, [-total[c] for c in coordinates])
    if any(v <= 0 for v in solution):
        raise NotExact(f"{sum(v <= 0 for v in solution)} weights of the basis are not positive")
    groups = [Weights(rest, numerators, 1), Weights(basis.rows, solution, denominator)]
    return [group for group in groups if group.pairs.size]


def exact_direction(rows: PairRows, basis: Basis, w: np.ndarray, bits: int) -> list[int]:
    """Whole w by coordinate, with a·w = 0 on the basis, near the proposal off the pivots."""
    w = w / np.abs(w).max()
    whole = np.zeros(rows.n_coordinates, object)
    free = np.setdiff1d(np.arange(rows.columns.size), basis.columns)
    # weights of the scaled columns, brought back to those of X by exact powers of two
    shift = int(rows.exponents[free].max(initial=0))
    for position in free.tolist():
        value = round(float(w[position]) * 2**bits)
        whole[rows.columns[position]] = value << (shift - int(rows.exponents[position]))
    found = [rows.whole_row(pair) for pair in basis.rows.tolist()]
    right = [-sum(v * int(whole[c]) for c, v in row.items()) for row in found]
    coordinates = rows.columns[basis.columns].tolist()
    matrix = [[row.get(c, 0) for c in coordinates] for row in found]
    solution, denominator = solve_whole(matrix, right)
    answer = [int(v) * denominator for v in whole]
    for c, v in zip(coordinates, solution, strict=True):
        answer[c] = v
    return answer


def enclosed_plane(
    rows: PairRows, basis: Basis, q: np.ndarray
) -> tuple[list[Weights], Weights | None]:
    """Short weights that nearly cancel, and the rows on which a correction exists.

    The verifier bounds that correction with an approximate inverse; it needs as many basis rows as
    there are columns in use.
    """
    if basis.rows.size > MAX_BASIS:
        raise TooLarge(f"{basis.rows.size} basis rows; an enclosure has at most {MAX_BASIS}")
    used = np.asarray((rows.A[basis.plane] != 0).sum(axis=0))
    if np.count_nonzero(used) != basis.columns.size:
        raise NotExact("the columns are dependent; install python-flint for an exact proof")
    top = float(q.max())
    numerators = [max(1, round(v / top * 2**53)) for v in q.tolist()]
    group = Weights(basis.plane, numerators, 1)
    return [group], Weights(basis.rows, [1] * basis.rows.size, 1)
