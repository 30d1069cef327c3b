"""Sums of dual weights that are too many to keep: their gradients, and what those prove.

Every pass gives the gradient Zᵀq of weights q in the dual set. A solver may ask for sums

    Σ c_i q_i  with c_i ≥ 0,

and for nothing else: the gradients of the sums are computed here, with a bound on their rounding
and a lower bound of Σ c_i, so that no solver can make an upper bound ‖Zᵀμ‖ that no weights have.
"""

import math
from dataclasses import dataclass

import numpy as np

from momentron.errors import SolverError
from momentron.rounding import UNDERFLOW, down, gamma, norm_bounds, up

MOST = 2.0**500  # a coefficient, or the mass of a sum: far from where a lower bound would overflow


def frozen(array: np.ndarray) -> np.ndarray:
    """A copy in float64 that nobody can make writable again: its memory is that of `bytes`."""
    copy = np.asarray(array, np.float64)
    return np.frombuffer(copy.tobytes()).reshape(copy.shape)


@dataclass(frozen=True)
class BoundedGradient:
    """V = Σ c_i Zᵀq_i for weights q_i of mass 1 in the dual set and c_i ≥ 0, in the units of X.

    Attributes
    ----------
    vector : ndarray
        As computed; cannot be written to.
    error : float
        A bound on its distance from the true one.
    mass : float
        A lower bound of Σ c_i.
    """

    vector: np.ndarray
    error: float = 0.0
    mass: float = 1.0

    @property
    def bound(self) -> float:
        """A sure upper bound of ‖V‖ over its mass, and so of the best margin."""
        if not 0.0 < self.mass <= MOST:
            return math.inf
        bound = up(up(norm_bounds(self.vector)[1] + self.error) / self.mass)
        return math.inf if math.isnan(bound) else bound


def mixed(a: BoundedGradient, x: float, b: BoundedGradient, y: float) -> BoundedGradient:
    """x·a + y·b."""
    x, y = float(x), float(y)
    if not (0.0 <= x <= MOST and 0.0 <= y <= MOST):
        raise SolverError(f"weights cannot be mixed with coefficients {x} and {y}: give 0 or more")
    vector = x * a.vector + y * b.vector
    # three roundings per entry, of numbers no larger than these; what underflows is covered too
    size = up(x * norm_bounds(a.vector)[1] + y * norm_bounds(b.vector)[1])
    rounding = up(gamma(3) * size + 4.0 * vector.size * UNDERFLOW)
    error = up(x * a.error + y * b.error + rounding)
    mass = max(0.0, down(x * a.mass + y * b.mass))
    if not mass <= MOST:
        raise SolverError(f"these weights would have a mass of {mass:.3g}; scale them down")
    return BoundedGradient(frozen(vector), error, mass)
