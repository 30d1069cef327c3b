"""The soft margin as a hard one: every constraint gets a coordinate of its own.

    min ½‖w‖² + (C/2) Σ ξ²  s.t.  −⟨z, w⟩ ≥ 1 − ξ

is the hard-margin problem for the rows (z, −e/√C), whose kernel is K + I/C, and for the classifier
(w, √C ξ). Every method, every dual set and the certificate then apply as they are.
"""

import numpy as np

from momentron.constraints.base import Constraints
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
        self.base = base
        self.operator = base.operator
        self.root = root
        self.C = 1.0 / root**2
        self.size = base.size
        self._shape = base.zeros().shape
        # a bound on √(‖z‖² + 1/C): three more roundings
        self._set_norms(np.hypot(base.row_norms, root) * (1.0 + 8.0 * UNIT_ROUNDOFF))

    @property
    def codes(self) -> np.ndarray:
        return self.base.codes

    @property
    def label_roundings(self) -> int:
        return self.base.label_roundings + 2

    @property
    def radius_factor(self) -> float:
        return self.base.radius_factor

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(w, √C ξ)."""
        head = w[: w.size - self.size]
        return head.reshape(self._shape), w[w.size - self.size :]

    @staticmethod
    def join(w: np.ndarray, tail: np.ndarray) -> np.ndarray:
        """The flat array of w and √C ξ."""
        return np.concatenate([w.ravel(), tail])

    def zeros(self) -> np.ndarray:
        return self.join(self.base.zeros(), np.zeros(self.size))

    def examples(self, index: np.ndarray) -> np.ndarray:
        return self.base.examples(index)

    def coef_of(self, w: np.ndarray) -> np.ndarray:
        return self.base.coef_of(self.split(w)[0])

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        return self.base.from_coef(coef)

    def dual_of(self, q: np.ndarray) -> np.ndarray:
        return self.base.dual_of(q)

    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        return self.base.from_dual(dual)

    def from_products(self, products: np.ndarray) -> np.ndarray:
        return self.base.from_products(products)

    def some_from_products(self, index: np.ndarray, products: np.ndarray) -> np.ndarray:
        return self.base.some_from_products(index, products)

    def mix(self, q: np.ndarray) -> np.ndarray:
        return self.base.mix(q)

    def mix_some(self, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.base.mix_some(index, weight)

    def scores(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w / self.divisor)
        return self.from_products(self.operator.apply(head)) - self.root * tail

    def gradient(self, q: np.ndarray) -> np.ndarray:
        return self.join(self.operator.adjoint(self.mix(q)), -self.root * q) / self.divisor

    def combine(self, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
        tail = np.zeros(self.size)
        tail[index] = -self.root * weight
        head = self.operator.combine(*self.mix_some(index, weight))
        return self.join(head, tail) / self.divisor

    def norm(self, w: np.ndarray) -> float:
        head, tail = self.split(w)
        return float(np.hypot(self.operator.norm(head), np.sqrt(np.einsum("i,i->", tail, tail))))

    def dual_norm(self, q: np.ndarray) -> float:
        return float(np.hypot(self.base.dual_norm(q), self.root * np.linalg.norm(q)))

    def centred_radius(self) -> float:
        return float(np.hypot(self.base.centred_radius(), self.root)) * (1.0 + 8.0 * UNIT_ROUNDOFF)

    def norm_bounds(self, w: np.ndarray) -> tuple[float, float]:
        head, tail = self.split(w)
        (low, high), (tail_low, tail_high) = self.base.norm_bounds(head), norm_bounds(tail)
        least = float(np.hypot(low, tail_low)) * (1.0 - 8.0 * UNIT_ROUNDOFF) - UNDERFLOW
        return max(0.0, least), up(float(np.hypot(high, tail_high)), 8) + UNDERFLOW

    def refreshed(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self.join(self.base.refreshed(head), tail)

    def exact_scores(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self.base.exact_scores(head) - self.root * tail

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self.base.sharp_scores(index, head) - np.longdouble(self.root) * tail[index]

    def score_errors(
        self, index: np.ndarray | slice, w: np.ndarray, norm: float, unit: float, extra: int
    ) -> np.ndarray:
        head, tail = self.split(w)
        errors = self.base.score_errors(
            index, head, self.base.norm_bounds(head)[1], unit, extra + 2
        )
        return errors + up(4.0 * unit * self.root) * np.abs(tail[index])

    def adjoint_norm_bound(
        self, q: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        # what the slack adds to the weighted norms only loosens the base's share
        head = self.base.adjoint_norm_bound(q, weighted_norms, sharp=sharp)
        return up(float(np.hypot(head, self.root * norm_bounds(q)[1])), 8)
