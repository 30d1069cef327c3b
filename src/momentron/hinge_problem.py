"""The soft margin with the plain hinge: min ½‖w‖² + Σ C_i max(0, 1 − p_i), p functional margins.

Its dual weights live in a box, 0 ≤ α_i ≤ C_i, beside what intercepts ask. No further coordinate
turns that into a hard margin, so it is a problem of its own; what is certified is 1/√(2 · least
objective), as for the squared hinge.
"""

import math
from typing import Any

import numpy as np

from momentron.certificate import Certificate, admitted, box_weights, certify_hinge, objective_bound
from momentron.constraints import Constraints
from momentron.dualsets import DualSet
from momentron.errors import InputError, short
from momentron.margin_problem import SparseDual
from momentron.problem import Problem


class HingeProblem(Problem):
    """Constraints, a dual set, and the price of slack; a classifier is the flat array of w and b.

    Scores of a proposal are one number, the margin that it claims: 1/√(2P) in units of R.

    Parameters
    ----------
    constraints : Constraints
        Without slack.
    dual_set : DualSet
    C : float
    exponent : int
        X was divided by 2^exponent; prices and α are multiplied by 4^exponent.

    Attributes
    ----------
    prices : ndarray of shape (size,)
        C_i, in the units of the operator.
    """

    penalty = "hinge"

    def __init__(
        self,
        constraints: Constraints,
        dual_set: DualSet,
        C: float,
        *,
        exponent: int,
        classes: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        super().__init__(constraints, dual_set, exponent=exponent, classes=classes, weights=weights)
        self.longest = math.inf  # without any weights nothing is known of 1/√(2D)
        own = C * (np.ones(constraints.labels.codes.size) if weights is None else weights)
        with np.errstate(over="ignore", under="ignore"):
            own = np.ldexp(own, 2 * exponent)
        if not ((own > 1e-290).all() and (own < 1e290).all()):
            raise InputError(
                f"C={short(C)} is out of proportion to X, whose entries reach 2**{exponent}: "
                "C·max‖x‖² must lie between 1e-290 and 1e290; rescale X"
            )
        self.prices = own[constraints.labels.examples(np.arange(constraints.size))]
        self._shape = constraints.zeros().shape
        self._n_intercepts = constraints.labels.n_outputs

    @classmethod
    def posed_by(cls, problem: Problem, C: float) -> "HingeProblem":
        """The problem of the same rows, labels and weights with this price."""
        return cls(
            problem.constraints,
            problem.dual_set,
            C,
            exponent=problem.exponent,
            classes=problem.classes,
            weights=problem.weights,
        )

    # --- classifiers ---------------------------------------------------------------------------

    def zeros(self) -> np.ndarray:
        return np.zeros(math.prod(self._shape) + self._n_intercepts)

    def joined(self, w: np.ndarray, b: Any) -> np.ndarray:
        """The flat array of w and the intercepts."""
        shift = np.broadcast_to(np.asarray(b, np.float64), (self._n_intercepts,))
        return np.concatenate([w.ravel(), shift])

    def parts(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(w, b) of a classifier, as views; b is zero where there are no intercepts."""
        size = v.size - self._n_intercepts
        b = v[size:] if self.dual_set.fits_intercept else np.zeros(self._n_intercepts)
        return v[:size].reshape(self._shape), b

    def norm(self, w: np.ndarray) -> float:
        return self.constraints.norm(self.parts(w)[0])

    def margin(self, w: np.ndarray, scores: np.ndarray) -> float:
        return float(scores[0])

    def functional_margin(self, scores: np.ndarray) -> float:
        return float(scores[0])

    # --- for the loop and the result -----------------------------------------------------------

    @property
    def is_soft(self) -> bool:
        return True

    def admitted_w(self, w: Any) -> np.ndarray:
        return admitted(w, self.zeros().shape, "w")

    def certify(self, w: np.ndarray, q: np.ndarray, *, sharp: bool = False) -> Certificate:
        return certify_hinge(self, w, q, sharp=sharp)

    def solution(self, v: np.ndarray) -> tuple[np.ndarray, Any]:
        """(w, b) of a proposal, stretched as the certificate does; in units of the operator."""
        stretch = 1.0 + objective_bound(self, v)[1]
        w, b = self.parts(np.asarray(v, np.float64))
        b = stretch * b
        return stretch * self.constraints.recomputed(w), b if b.size > 1 else float(b[0])

    def sparse_dual(self, q: np.ndarray) -> SparseDual:
        """α itself: 0 ≤ α_i ≤ C_i and balanced, as other support vector machines have it."""
        labels = self.constraints.labels
        alpha = box_weights(self, q)
        with np.errstate(over="ignore", under="ignore"):
            alpha = np.ldexp(alpha, -2 * self.exponent)
        return SparseDual.above_rounding(
            np.arange(self.n_rows), labels.codes, labels.dual_of(alpha)
        )
