"""The soft margin as a hard one: every constraint gets a coordinate of its own.

    min ½‖w‖² + (C/2) Σ ξ²  s.t.  −⟨z, w⟩ ≥ 1 − ξ

is the hard-margin problem for the rows (z, −e/√C), whose kernel is K + I/C, and for the classifier
(w, √C ξ). Every method, every dual set and the certificate then apply as they are.
"""

import numpy as np

from momentron.constraints.constraints import Constraints
from momentron.labels import Labels
from momentron.operators import Operator
from momentron.rounding import UNDERFLOW, UNIT_ROUNDOFF, norm_bounds, up


class Slack(Constraints):
    """Constraints with a slack each; a classifier is the flat array of w and √C ξ.

    Parameters
    ----------
    base : Constraints
    root : float
        1/√C, in the units of X. The certificate is for this float, right to two roundings.
    """

    def __init__(self, base: Constraints, root: float) -> None:
        self._base = base
        self.operator, self.labels, self.size = base.operator, base.labels, base.size
        self.root = root
        self.C = 1.0 / root**2
        self._shape = base.zeros().shape
        # a bound on √(‖z‖² + 1/C): three more roundings
        self._set_norms(np.hypot(base.row_norms, root) * (1.0 + 8.0 * UNIT_ROUNDOFF))

    def like(self, operator: Operator, labels: Labels) -> Constraints:
        return Slack(self._base.like(operator, labels), self.root)

    @property
    def base(self) -> Constraints:
        return self._base

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        head = w[: w.size - self.size]
        return head.reshape(self._shape), w[w.size - self.size :]

    def with_slack(self, w: np.ndarray, slack: np.ndarray) -> np.ndarray:
        return self.join(w, slack / self.root)

    @staticmethod
    def join(w: np.ndarray, tail: np.ndarray) -> np.ndarray:
        """The flat array of w and √C ξ."""
        return np.concatenate([w.ravel(), tail])

    def zeros(self) -> np.ndarray:
        return self.join(self._base.zeros(), np.zeros(self.size))

    def scores(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w / self.divisor)
        return self.labels.scores(self.operator.apply(head)) - self.root * tail

    def gradient(self, q: np.ndarray) -> np.ndarray:
        return self.join(self.operator.adjoint(self.labels.mix(q)), -self.root * q) / self.divisor

    def combine(self, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
        tail = np.zeros(self.size)
        tail[index] = -self.root * weight
        head = self.operator.combine(*self.labels.mix_at(index, weight))
        return self.join(head, tail) / self.divisor

    def norm(self, w: np.ndarray) -> float:
        head, tail = self.split(w)
        return float(np.hypot(self.operator.norm(head), np.sqrt(np.einsum("i,i->", tail, tail))))

    def dual_norm(self, q: np.ndarray) -> float:
        return float(np.hypot(self._base.dual_norm(q), self.root * np.linalg.norm(q)))

    def centred_radius(self) -> float:
        return float(np.hypot(self._base.centred_radius(), self.root)) * (1.0 + 8.0 * UNIT_ROUNDOFF)

    def norm_bounds(self, w: np.ndarray) -> tuple[float, float]:
        head, tail = self.split(w)
        (low, high), (tail_low, tail_high) = self._base.norm_bounds(head), norm_bounds(tail)
        least = float(np.hypot(low, tail_low)) * (1.0 - 8.0 * UNIT_ROUNDOFF) - UNDERFLOW
        return max(0.0, least), up(float(np.hypot(high, tail_high)), 8) + UNDERFLOW

    def recomputed(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self.join(self._base.recomputed(head), tail)

    def exact_scores(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self._base.exact_scores(head) - self.root * tail

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self._base.sharp_scores(index, head) - np.longdouble(self.root) * tail[index]

    def score_errors(
        self, index: np.ndarray | slice, w: np.ndarray, norm: float, unit: float, extra: int
    ) -> np.ndarray:
        head, tail = self.split(w)
        errors = self._base.score_errors(
            index, head, self._base.norm_bounds(head)[1], unit, extra + 2
        )
        return errors + up(4.0 * unit * self.root) * np.abs(tail[index])

    def adjoint_norm_bound(
        self, q: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        # what the slack adds to the weighted norms only loosens the base's share
        head = self._base.adjoint_norm_bound(q, weighted_norms, sharp=sharp)
        return up(float(np.hypot(head, self.root * norm_bounds(q)[1])), 8)
