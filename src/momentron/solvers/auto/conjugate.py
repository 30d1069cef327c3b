"""Conjugate gradients: systems that are known by their products alone."""

from collections.abc import Callable

import numpy as np

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
