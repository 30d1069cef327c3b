"""The running average of dual weights that are too many to keep: its image, and what that proves.

Every pass gives the image Zᵀq of weights q in the dual set. Whoever solves may ask for

    μ ← (1 − λ)μ + λq,

and for nothing else: the images, their sum and its mass stay here, so that no solver can make an
upper bound ‖Zᵀμ‖ that no weights have.
"""

import math
from dataclasses import dataclass

import numpy as np

from momentron.errors import InputError
from momentron.rounding import UNDERFLOW, down, gamma, norm_bounds, up


def frozen(array: np.ndarray) -> np.ndarray:
    """A copy in float64 that nobody can make writable again: its memory is that of `bytes`."""
    copy = np.asarray(array, np.float64)
    return np.frombuffer(copy.tobytes()).reshape(copy.shape)


@dataclass(frozen=True)
class Image:
    """Zᵀq for weights q of mass 1 in the dual set, in the units of X.

    Attributes
    ----------
    vector : ndarray
        As computed; cannot be written to.
    error : float
        A bound on its distance from the true one.
    """

    vector: np.ndarray
    error: float

    @property
    def bound(self) -> float:
        """A sure upper bound of ‖Zᵀq‖, and so of the best margin."""
        return up(norm_bounds(self.vector)[1] + self.error)


class RunningAverage:
    """V = Σ c_i Zᵀq_i with c_i ≥ 0, a bound on its error, and a lower bound of Σ c_i.

    It begins with one image, or with none: then it knows nothing until the first is added.
    """

    def __init__(self, first: Image | None = None) -> None:
        self._vector: np.ndarray | None = None if first is None else first.vector
        self._error = 0.0 if first is None else first.error
        self._mass = 0.0 if first is None else 1.0

    def add(self, image: Image, share: float) -> None:
        """V ← (1 − λ)V + λ Zᵀq, λ the share."""
        share = float(share)
        if not 0.0 <= share <= 1.0:
            raise InputError(f"the share λ = {share} of the new weights must lie in [0, 1]")
        kept = 1.0 - share  # rounded or not: it is the weight that the old ones get, and count with
        old = np.zeros_like(image.vector) if self._vector is None else self._vector
        vector = kept * old + share * image.vector
        # three roundings an entry, of numbers no larger than these; what underflows is covered too
        size = up(kept * norm_bounds(old)[1] + share * norm_bounds(image.vector)[1])
        rounding = up(gamma(3) * size + 4.0 * vector.size * UNDERFLOW)
        self._error = up(kept * self._error + share * image.error + rounding)
        self._mass = max(0.0, down(kept * self._mass + share))
        self._vector = vector

    @property
    def bound(self) -> float:
        """A sure upper bound of ‖V‖ over its mass, and so of the best margin."""
        if self._vector is None or self._mass <= 0.0:
            return math.inf
        bound = up(up(norm_bounds(self._vector)[1] + self._error) / self._mass)
        return math.inf if math.isnan(bound) else bound
