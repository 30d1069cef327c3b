"""The soft margin with the plain hinge: min ½‖w‖² + Σ C_i max(0, 1 − p_i), p functional margins.

Its dual weights live in a box, 0 ≤ α_i ≤ C_i, besides what intercepts ask. No further coordinate
turns that into a hard margin, so it is a problem of its own; what is certified is 1/√(2 · least
objective), as for the squared hinge.
"""

import math
from functools import cached_property
from typing import Any

import numpy as np

from momentron.certificate import (
    Certificate,
    box_weights,
    certify_hinge,
    objective_bound,
    read_only,
    recomputed,
)
from momentron.errors import InputError, short
from momentron.solvers.certified_problem import SparseDual
from momentron.solvers.problem import Problem


class HingeProblem(Problem):
    """Rows, labels, and the price of slack; a classifier is the flat array of w and b.

    Scores of a proposal are one number, the margin that it claims: 1/√(2P) in units of R.

    Parameters
    ----------
    base : Problem
        The hard margin of the same rows, labels and weights. Its X was divided by 2^exponent:
        prices and α are multiplied by 4^exponent.
    C : float

    Attributes
    ----------
    prices : ndarray of shape (size,)
        C_i, in the units of the operator.
    """

    penalty = "hinge"

    def __init__(self, base: Problem, C: float) -> None:
        super().__init__(
            base.operator,
            base.labels,
            base.dual_set,
            exponent=base.exponent,
            classes=base.classes,
            weights=base.weights,
        )
        own = C * (np.ones(self.n_rows) if base.weights is None else base.weights)
        with np.errstate(over="ignore", under="ignore"):
            own = np.ldexp(own, 2 * base.exponent)
        if not ((own > 1e-290).all() and (own < 1e290).all()):
            raise InputError(
                f"C={short(C)} is out of proportion to X, whose entries reach 2**{base.exponent}: "
                "C·max‖x‖² must lie between 1e-290 and 1e290; rescale X"
            )
        self.prices = read_only(own[self.labels.examples(np.arange(self.size))])
        self._shape = base.zeros().shape
        self._n_intercepts = self.labels.n_outputs

    @cached_property
    def base(self) -> Problem:
        return self._hard()

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
        return self.operator.norm(self.parts(w)[0])

    def margin(self, w: np.ndarray, scores: np.ndarray) -> float:
        return float(scores[0])

    def functional_margin(self, scores: np.ndarray) -> float:
        return float(scores[0])

    # --- for the loop and the result -----------------------------------------------------------

    @property
    def is_soft(self) -> bool:
        return True

    @property
    def trivial_upper(self) -> float:
        return math.inf  # without any weights nothing is known of 1/√(2D)

    def certify(self, w: np.ndarray, q: np.ndarray, *, sharp: bool = False) -> Certificate:
        return certify_hinge(self, w, q, sharp=sharp)

    def solution(self, v: np.ndarray) -> tuple[np.ndarray, Any]:
        """(w, b) of a proposal, stretched as the certificate does; in units of the operator."""
        stretch = 1.0 + objective_bound(self, v)[1]
        w, b = self.parts(np.asarray(v, np.float64))
        b = stretch * b
        return stretch * recomputed(self.base, w), b if b.size > 1 else float(b[0])

    def sparse_dual(self, q: np.ndarray) -> SparseDual:
        """α itself: 0 ≤ α_i ≤ C_i and balanced, as other support vector machines have it."""
        alpha = box_weights(self, q)
        with np.errstate(over="ignore", under="ignore"):
            alpha = np.ldexp(alpha, -2 * self.exponent)
        return SparseDual.above_rounding(
            np.arange(self.n_rows), self.labels.codes, self.labels.dual_of(alpha)
        )
