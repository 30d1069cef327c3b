"""The soft margin as a hard one: every row gets a coordinate of its own.

    min ½‖w‖² + (C/2) Σ ξ_i²  s.t.  y_i(⟨w, x_i⟩ + b) ≥ 1 − ξ_i

is the hard-margin problem for the rows (x_i, y_i e_i/√C), whose kernel is K + I/C, and for the
classifier (w, √C ξ). Every method, every dual set and the certificate then apply as they are.
"""

import numpy as np

from momentron.operators.base import Operator
from momentron.rounding import UNIT_ROUNDOFF


class SoftOperator(Operator):
    """An operator with n more columns, diag(y)/√C; its vectors are (w, √C ξ), of length d + n.

    Parameters
    ----------
    base : Operator
    signs : ndarray of shape (n,)
        y_i = ±1.
    root : float
        1/√C, in the operator's units. The certificate is for this float, right to two roundings.
    """

    def __init__(self, base: Operator, signs: np.ndarray, root: float) -> None:
        self.base = base
        self.root = root
        self.C = 1.0 / root**2
        self.slack_column = signs * self.root
        n, d = base.shape
        self.shape = (n, d + n)
        # a bound on √(‖x‖² + 1/C): three more roundings
        self.row_norms = np.hypot(base.row_norms, self.root) * (1.0 + 8.0 * UNIT_ROUNDOFF)
        self.radius = float(self.row_norms.max())
        self.divide_by(self.radius)

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(w, √C ξ)."""
        d = self.base.shape[1]
        return w[:d], w[d:]

    def centred_radius(self) -> float:
        return float(np.hypot(self.base.centred_radius(), self.root)) * (1.0 + 8.0 * UNIT_ROUNDOFF)

    def _matvec(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self.base._matvec(head) + self.slack_column * tail

    def _rmatvec(self, a: np.ndarray) -> np.ndarray:
        return np.concatenate([self.base._rmatvec(a), self.slack_column * a])

    def combine(self, rows: np.ndarray, a: np.ndarray) -> np.ndarray:
        tail = np.zeros(self.shape[0])
        tail[rows] = self.slack_column[rows] * a
        head = self.base.combine(rows, a) * self.base.divisor
        return np.concatenate([head, tail]) / self.divisor

    def rows(self, index: np.ndarray) -> np.ndarray:
        tail = np.zeros((index.size, self.shape[0]))
        tail[np.arange(index.size), index] = self.slack_column[index]
        return np.hstack([self.base.rows(index), tail])

    def exact_scores(self, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        return self.base.exact_scores(head) + self.slack_column * tail

    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        return np.concatenate([self.base.exact_adjoint(a), self.slack_column * a])

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        head, tail = self.split(w)
        slack = self.slack_column[index].astype(np.longdouble) * tail[index]
        return self.base.sharp_scores(index, head) + slack

    def sharp_adjoint(self, a: np.ndarray) -> np.ndarray:
        slack = self.slack_column.astype(np.longdouble) * a
        return np.concatenate([self.base.sharp_adjoint(a), slack])

    @property
    def score_depth(self) -> int:
        return self.base.score_depth + 2

    def adjoint_depth(self, n_nonzero: int) -> int:
        return max(1, self.base.adjoint_depth(n_nonzero))
