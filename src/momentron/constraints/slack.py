"""The soft margin as a hard one: every constraint gets a coordinate of its own.

    min ½‖w‖² + Σ C_i ξ_i²  s.t.  −⟨z_i, w⟩ ≥ 1 − ξ_i

is the hard-margin problem for the rows (z, −r e) with the root r = 1/√(2C) of each, whose kernel is
K + diag(r²), and for the classifier (w, ξ/r). Every method, every dual set and the certificate then
apply as they are.
"""

import numpy as np

from momentron.constraints.constraints import Constraints
from momentron.labels import Labels
from momentron.operators import Operator
from momentron.rounding import UNDERFLOW, UNIT_ROUNDOFF, norm_bounds, up


class Slack(Constraints):
    """Constraints with a slack each; a classifier is the flat array of w and ξ/r.

    Parameters
    ----------
    base : Constraints
    root : float, or ndarray of shape (n,)
        r = 1/√(2C), in the units of X: of all, or of each example. Right to three roundings, which
        the bounds allow for.
    """

    def __init__(self, base: Constraints, root: float | np.ndarray) -> None:
        self._base = base
        self.operator, self.labels, self.size = base.operator, base.labels, base.size
        self._roots = root
        self._set_root(root)
        self._shape = base.zeros().shape
        # a bound on √(‖z‖² + r²): three more roundings, and those of r
        self._set_norms(np.hypot(base.row_norms, self.root) * (1.0 + 12.0 * UNIT_ROUNDOFF))

    def _set_root(self, root: float | np.ndarray) -> None:
        """The roots of all constraints, from those of the examples."""
        if isinstance(root, float):
            self.root, self.stiffness, self.shares = root, 1.0 / root**2, 1.0
            return
        self.root = root[self.labels.examples(np.arange(self.size))]
        stiffness = self.root**-2.0
        self.stiffness = float(stiffness.mean())
        self.shares = stiffness / self.stiffness

    @property
    def is_soft(self) -> bool:
        return True

    def like(self, operator: Operator, labels: Labels, examples: np.ndarray) -> Constraints:
        root = self._roots if isinstance(self._roots, float) else self._roots[examples]
        return Slack(self._base.like(operator, labels, examples), root)

    def _root_at(self, index: np.ndarray | slice) -> float | np.ndarray:
        return self.root if isinstance(self.root, float) else self.root[index]

    def slack_scores(self, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return self._root_at(index) * weight

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
        """The flat array of w and ξ/r."""
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
        tail[index] = -self._root_at(index) * weight
        head = self.operator.combine(*self.labels.mix_at(index, weight))
        return self.join(head, tail) / self.divisor

    def norm(self, w: np.ndarray) -> float:
        head, tail = self.split(w)
        return float(np.hypot(self.operator.norm(head), np.sqrt(np.einsum("i,i->", tail, tail))))

    def dual_norm(self, q: np.ndarray) -> float:
        return float(np.hypot(self._base.dual_norm(q), np.linalg.norm(self.root * q)))

    def centred_radius(self) -> float:
        radius = float(np.hypot(self._base.centred_radius(), np.max(self.root)))
        return radius * (1.0 + 12.0 * UNIT_ROUNDOFF)

    def norm_bounds(self, w: np.ndarray) -> tuple[float, float]:
        head, tail = self.split(w)
        (low, high), (tail_low, tail_high) = self._base.norm_bounds(head), norm_bounds(tail)
        least = float(np.hypot(low, tail_low)) * (1.0 - 8.0 * UNIT_ROUNDOFF) - UNDERFLOW
        return max(0.0, least), up(float(np.hypot(high, tail_high)), 8) + UNDERFLOW

    def recomputed(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self.join(self._base.recomputed(head), tail)

    def cleared(self, w: np.ndarray, index: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self.join(self._base.cleared(head, index), tail)

    def exact_scores(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self._base.exact_scores(head) - self.root * tail

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        lift = np.asarray(self._root_at(index), np.longdouble) * tail[index]
        return self._base.sharp_scores(index, head) - lift

    def score_errors(
        self, index: np.ndarray | slice, w: np.ndarray, norm: float, unit: float, extra: int
    ) -> np.ndarray:
        head, tail = self.split(w)
        errors = self._base.score_errors(
            index, head, self._base.norm_bounds(head)[1], unit, extra + 2
        )
        # four roundings here, and those of the root, which is a float64 whatever the unit
        relative = up(4.0 * unit + 4.0 * UNIT_ROUNDOFF, 8)
        return errors + relative * np.abs(self._root_at(index) * tail[index])

    def adjoint_norm_bound(
        self, q: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        # what the slack adds to the weighted norms only loosens the base's share
        head = self._base.adjoint_norm_bound(q, weighted_norms, sharp=sharp)
        # roots that differ round once more each; what underflows is allowed for in the norm
        if isinstance(self.root, float):
            tail = self.root * norm_bounds(q)[1]
        else:
            tail = norm_bounds(self.root * q)[1]
        return up(float(np.hypot(head, tail)), 12)
