"""Factors and products for the working-set solves: scipy's BLAS and LAPACK, with one thread each.

Products that are worth dividing are numpy's, in threads of our own; what takes long is cut.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.linalg import blas, lapack, qr

from momentron.arithmetic.cholesky import factor_in_place
from momentron.arithmetic.clock import require_time
from momentron.arithmetic.threads import MOST_PARTS, in_threads, own_threads, reading_parts

STRIP = 256  # rows of a large Gram matrix computed at a time, and columns reflected
PANEL = 64  # columns whose reflections are applied together
WRITTEN = 5_000_000  # entries between two looks at the clock
PIECE = 4e9  # flops between two looks at the clock: a tenth of a second


def matvec(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A v for a C-ordered A of either precision."""
    if A.shape[0] == 0 or A.shape[1] == 0:
        return np.zeros(A.shape[0])
    parts = reading_parts(A.shape[0], float(A.size))
    if len(parts) > 1:
        products = np.empty(A.shape[0])

        def multiply(rows: slice) -> None:
            products[rows] = A[rows] @ v.astype(A.dtype, copy=False)

        in_threads(multiply, parts)
        return products
    if A.dtype == np.float32:
        return blas.sgemv(1.0, A.T, v.astype(np.float32), trans=1).astype(np.float64)
    return blas.dgemv(1.0, A.T, v, trans=1)


def rmatvec(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Aᵀ v for a C-ordered A."""
    if A.shape[0] == 0 or A.shape[1] == 0:
        return np.zeros(A.shape[1])
    parts = reading_parts(A.shape[0], float(A.size))
    if len(parts) == 1:
        return blas.dgemv(1.0, A.T, v)
    sums = np.empty((len(parts), A.shape[1]))

    def combine(i: int) -> None:
        sums[i] = A[parts[i]].T @ v[parts[i]]

    in_threads(combine, range(len(parts)))
    return sums.sum(axis=0)


def add_to_diagonal(M: np.ndarray, values: np.ndarray | float) -> None:
    """M += diag(values), in place."""
    index = np.arange(M.shape[0])
    M[index, index] += values


def copied(M: np.ndarray) -> np.ndarray:
    """An F-ordered copy, some columns at a time."""
    copy = np.empty(M.shape, M.dtype, order="F")
    for part in column_parts(*M.shape):
        require_time()
        copy[:, part] = M[:, part]
    return copy


def column_parts(rows: int, columns: int) -> list[slice]:
    """Runs of columns with so few entries that to write them takes a fraction of a second."""
    return parts_of(columns, 1 + rows * columns // WRITTEN)


def cholesky(M: np.ndarray) -> np.ndarray:
    """The lower Cholesky factor of M (F-ordered, lower half read).

    Where rounding has made M indefinite, its diagonal is raised until the factor exists:
    rank-deficient working sets are ordinary, and the steps that use the factor correct themselves.
    """
    factor, exists = factor_in_place(copied(M))
    if exists:
        return factor
    diagonal = M.diagonal().copy()
    top = float(diagonal.max())
    if not np.isfinite(top):
        raise FloatingPointError("the matrix of a Newton step is not finite")
    raised, index = 0.0, np.arange(M.shape[0])
    while not exists:
        raised = max(100.0 * raised, 1e-15 * max(top, 1e-300))
        if raised > 1e3 * max(top, 1e-300):
            raise FloatingPointError("the matrix of a Newton step has no Cholesky factor")
        M[index, index] = diagonal + raised
        factor, exists = factor_in_place(copied(M))
    return factor


def cholesky_of(make: Callable[[], np.ndarray]) -> np.ndarray:
    """The factor of the matrix that `make` returns, in its place: no second copy of it."""
    factor, exists = factor_in_place(make())
    return factor if exists else cholesky(make())


def definite_factor(M: np.ndarray, smallest: float) -> np.ndarray | None:
    """The factor, in the matrix's place; None where a pivot is not above the smallest."""
    factor, exists = factor_in_place(M)
    return factor if exists and factor.diagonal().min() ** 2 >= smallest else None


def back_solve(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solve with a factor of either precision."""
    potrs = lapack.spotrs if factor.dtype == np.float32 else lapack.dpotrs
    pieces = pieces_for(2.0 * factor.size * (rhs.size // max(rhs.shape[0], 1)))
    if rhs.ndim == 1 or pieces == 1:
        return potrs(factor, rhs, lower=1)[0].astype(np.float64, copy=False)
    solution = np.empty(rhs.shape, order="F")
    for part in parts_of(rhs.shape[1], min(pieces, rhs.shape[1])):
        require_time()
        solution[:, part] = potrs(factor, rhs[:, part], lower=1)[0]
    return solution


def thin_qr(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Q, R) with A = QR and orthonormal columns in Q: Householder's, some columns at a time."""
    d, m = A.shape
    rank = min(d, m)
    if pieces_for(4.0 * d * m * rank) == 1:
        return qr(A, mode="economic", check_finite=False)
    R, Q, panels = np.array(A, order="F"), np.eye(d, rank, order="F"), []
    for start in range(0, rank, PANEL):
        require_time()
        own = slice(start, min(start + PANEL, rank))
        reflectors, tau, _, _ = lapack.dgeqrf(R[start:, own])
        R[start:, own] = np.triu(reflectors)
        panels.append((start, reflectors, tau))
        _reflect(reflectors, tau, R[start:, own.stop :], b"T")
    for start, reflectors, tau in reversed(panels):
        _reflect(reflectors, tau, Q[start:, start:], b"N")
    return Q, R[:rank]


def _reflect(reflectors: np.ndarray, tau: np.ndarray, columns: np.ndarray, way: bytes) -> None:
    """Apply a panel's reflections to the columns, in place."""
    for start in range(0, columns.shape[1], STRIP):
        require_time()
        part = columns[:, start : start + STRIP]
        part[...] = lapack.dormqr(b"L", way, reflectors, tau, part, PANEL * STRIP)[0]


def gram_product(A: np.ndarray) -> np.ndarray:
    """AAᵀ, both halves."""
    flops = float(A.shape[0]) ** 2 * A.shape[1]
    if pieces_for(flops) > MOST_PARTS:
        return _in_strips(A)
    return _sum_of_squares([A[:, part] for part in parts_of(A.shape[1], own_threads(flops))])


def symmetric_product(A: np.ndarray) -> np.ndarray:
    """AᵀA, both halves, F-ordered as factors want it."""
    return gram_product(A.T).T


def pieces_for(flops: float) -> int:
    """Into how many pieces so much arithmetic is cut, for deadlines and Ctrl-C to come between."""
    return 1 + int(flops / PIECE)


def parts_of(size: int, count: int) -> list[slice]:
    """Runs of nearly equal length that cover 0..size."""
    bounds = [size * i // count for i in range(count + 1)]
    return [slice(low, high) for low, high in pairwise(bounds)]


def _sum_of_squares(parts: list[np.ndarray]) -> np.ndarray:
    """Σ PPᵀ, a thread for each; numpy's product, since scipy's holds on to the interpreter."""
    if len(parts) == 1:
        return parts[0] @ parts[0].T
    products: list[np.ndarray] = [np.empty(0)] * len(parts)

    def multiply(i: int) -> None:
        products[i] = parts[i] @ parts[i].T  # numpy sees that this is symmetric

    in_threads(multiply, range(len(parts)))
    total = products[0]
    for product in products[1:]:
        total += product
    return total


def _in_strips(A: np.ndarray) -> np.ndarray:
    """AAᵀ, some rows at a time up to the diagonal; the rest by symmetry."""
    m, depth = A.shape
    out = np.empty((m, m))

    def fill(rows: slice) -> None:
        strip, mirrored = out[rows, : rows.stop], out[: rows.start, rows]
        pieces = pieces_for(2.0 * strip.size * depth)
        for number, part in enumerate(parts_of(depth, min(pieces, depth))):
            require_time()
            if number == 0:
                np.matmul(A[rows, part], A[: rows.stop, part].T, out=strip)
            else:
                strip += A[rows, part] @ A[: rows.stop, part].T
        mirrored[...] = strip[:, : rows.start].T

    strips = [slice(start, min(start + STRIP, m)) for start in range(0, m, STRIP)]
    in_threads(fill, strips[::-1])  # the long ones first
    return out


Map = Callable[[np.ndarray], np.ndarray]


def _vdot(u: np.ndarray, v: np.ndarray) -> float:
    return float(np.vdot(u, v))


class ConjugateGradients:
    """M x = rhs for a positive definite M, from x = 0 and as far as asked.

    Any x on the way leads downhill.

    Attributes
    ----------
    x, r : ndarray
        The solution so far, and the residual rhs − Mx.
    products : int
        Those with M so far.
    has_failed : bool
        Whether rounding has made a matrix indefinite.
    """

    def __init__(
        self,
        multiply: Map,
        rhs: np.ndarray,
        dot: Callable[[np.ndarray, np.ndarray], float] = _vdot,
    ) -> None:
        self.multiply, self.dot = multiply, dot
        self.x, self.r = np.zeros_like(rhs), rhs
        self.products = 0
        self.has_failed = False

    def run(self, precondition: Map, accuracy: float, limit: int, *, by_gain: bool = False) -> bool:
        """Whether the residual, as the preconditioner measures it, fell by that much.

        `by_gain` asks that of what the last product has gained, too, beside all gains so far: a
        preconditioner may see little of the residual.
        """
        p, rho, goal = self.x, 0.0, 0.0
        gain = total = 0.0
        for count in range(limit + 1):
            z = precondition(self.r)
            new = self.dot(self.r, z)
            if count == 0:
                goal = accuracy**2 * new
            if not new > 0.0:
                self.has_failed = bool(self.r.any())
                return not self.has_failed
            if new <= goal and not (by_gain and gain > accuracy**2 * total):
                return True
            if count == limit:
                break
            p = z if count == 0 else z + (new / rho) * p
            rho = new
            product = self.multiply(p)
            self.products += 1
            curvature = self.dot(p, product)
            if not curvature > 0.0:
                self.has_failed = True
                return False
            t = rho / curvature
            gain = t * rho
            total += gain
            self.x = self.x + t * p
            self.r = self.r - t * product
        return False
