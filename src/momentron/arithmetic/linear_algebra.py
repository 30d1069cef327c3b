"""Factors, systems and conjugate gradients: scipy's LAPACK, with one thread."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from momentron.arithmetic.clock import Work
from momentron.arithmetic.squares import factor_in_place


def add_to_diagonal(M: np.ndarray, values: np.ndarray | float) -> np.ndarray:
    """M + diag(values), in the place of M."""
    index = np.arange(M.shape[0])
    M[index, index] += values
    return M


def cholesky_of(make: Callable[[], np.ndarray]) -> np.ndarray:
    """The lower Cholesky factor of the matrix that `make` returns, in its place.

    The matrix is F-ordered, and only its lower half is read. Where rounding has made it indefinite,
    its diagonal is raised until the factor exists: rank-deficient working sets are ordinary, and
    the steps that use the factor correct themselves.
    """
    factor, exists = factor_in_place(make())
    raised = 0.0
    while not exists:
        M = make()
        top = max(float(M.diagonal().max()), 1e-300)
        if not np.isfinite(top):
            raise FloatingPointError("the matrix of a Newton step is not finite")
        raised = max(100.0 * raised, 1e-15 * top)
        if raised > 1e3 * top:
            raise FloatingPointError("the matrix of a Newton step has no Cholesky factor")
        factor, exists = factor_in_place(add_to_diagonal(M, raised))
    return factor


def back_solve(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solve with a factor of either precision."""
    if not rhs.size:  # no row has slack; LAPACK takes no empty matrix
        return np.zeros(rhs.shape)
    potrs = lapack.spotrs if factor.dtype == np.float32 else lapack.dpotrs
    return potrs(factor, rhs, lower=1)[0].astype(np.float64, copy=False)


def thin_qr(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Q, R) with A = QR and orthonormal columns in Q."""
    Q, R = Work(lambda _: np.linalg.qr(A)).result()
    return Q, R


Map = Callable[[np.ndarray], np.ndarray]


class ConjugateGradients:
    """M x = rhs for a positive definite M, from x = 0 and as far as asked.

    Any x on the way leads downhill.
    """

    def __init__(self, multiply: Map, rhs: np.ndarray) -> None:
        self.multiply = multiply
        self.x, self.r = np.zeros_like(rhs), rhs  # the solution so far, and rhs − Mx
        self.products = 0  # those with M so far
        self.has_failed = False  # whether rounding has made a matrix indefinite

    def run(self, precondition: Map, accuracy: float, limit: int, *, by_gain: bool = False) -> bool:
        """Whether the residual, as the preconditioner measures it, fell by that much.

        `by_gain` asks the same of what the last product has gained, compared with all gains so far:
        a preconditioner may see little of the residual.
        """
        p, rho, goal = self.x, 0.0, 0.0
        gain = total = 0.0
        for count in range(limit + 1):
            z = precondition(self.r)
            new = np.vdot(self.r, z)
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
            curvature = np.vdot(p, product)
            if not curvature > 0.0:
                self.has_failed = True
                return False
            t = rho / curvature
            gain = t * rho
            total += gain
            self.x = self.x + t * p
            self.r = self.r - t * product
        return False
