"""The soft margin as a hard one: every constraint gets a coordinate of its own.

    min ½‖w‖² + Σ C_i ξ_i²  s.t.  −⟨z_i, w⟩ ≥ 1 − ξ_i

is the hard-margin problem for the rows (z, −r e) with the root r = 1/√(2C) of each, whose kernel is
K + diag(r²), and for the classifier (w, ξ/r). Every method, every dual set and the certificate then
apply as they are.
"""

import numpy as np

from momentron.certificate import read_only
from momentron.dual.labels import Labels


class Slack:
    """A slack for each constraint; a classifier is the flat array of w and ξ/r.

    Parameters
    ----------
    labels : Labels
    roots : float, or ndarray of shape (n,)
        r = 1/√(2C), in the units of X: of all, or of each example. Right to three roundings, which
        the bounds allow for.
    shape : tuple of int
        Of w.

    Attributes
    ----------
    root : float, or ndarray of shape (size,)
        The roots of the constraints.
    stiffness : float
        The mean of 2C, the second derivative of what slack costs.
    shares : float, or ndarray of shape (size,)
        The constraints' own 2C over that mean: 1 where all are alike.
    """

    root: float | np.ndarray
    shares: float | np.ndarray

    def __init__(self, labels: Labels, roots: float | np.ndarray, shape: tuple[int, ...]) -> None:
        self.roots, self.size, self._shape = roots, labels.size, shape
        if isinstance(roots, float):
            self.root, self.stiffness, self.shares = roots, 1.0 / roots**2, 1.0
            return
        self.roots = read_only(roots)
        self.root = read_only(roots[labels.examples(np.arange(self.size))])
        stiffness = self.root**-2.0
        self.stiffness = float(stiffness.mean())
        self.shares = read_only(stiffness / self.stiffness)

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(w, ξ/r) of a classifier, as views."""
        cut = w.size - self.size
        return w[:cut].reshape(self._shape), w[cut:]

    @staticmethod
    def join(w: np.ndarray, tail: np.ndarray) -> np.ndarray:
        """The flat array of w and ξ/r."""
        return np.concatenate([w.ravel(), tail])

    def root_at(self, index: np.ndarray | slice) -> float | np.ndarray:
        """The roots of the named constraints."""
        return self.root if isinstance(self.root, float) else self.root[index]
