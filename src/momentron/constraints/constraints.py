"""Z, as solvers and the certificate see it: the rows of X through their labels."""

import math

import numpy as np

from momentron.labels import Labels
from momentron.operators import Operator
from momentron.rounding import UNDERFLOW, gamma, up


class Constraints:
    """The rows z of Z, never built.

    `scores` and `gradient` are for solvers: in units of R, at the data's own precision. What is
    called exact or sharp is for the certificate, in the units of X.

    Parameters
    ----------
    operator : Operator
        X.
    labels : Labels

    Attributes
    ----------
    size : int
        How many rows Z has: the number of dual weights.
    row_norms : ndarray of shape (size,)
        Upper bounds of ‖z‖, in the units of X.
    radius : float
        The largest of them.
    divisor : float
        R, the unit of solvers: the radius, or a smaller one that serves the dual set.
    stiffness : float
        The mean of 2C, the second derivative of what slack costs; infinite where there is none.
    shares : float, or ndarray of shape (size,)
        The constraints' own 2C over that mean: 1 where all are alike.
    root : float, or ndarray of shape (size,)
        1/√(2C), in the units of X.
    """

    stiffness: float = math.inf
    shares: float | np.ndarray = 1.0
    root: float | np.ndarray = 0.0

    def __init__(self, operator: Operator, labels: Labels) -> None:
        self.operator = operator
        self.labels = labels
        self.size = labels.size
        self._set_norms(labels.row_norms(operator.row_norms))

    def _set_norms(self, row_norms: np.ndarray) -> None:
        self.row_norms = row_norms
        self.radius = float(row_norms.max(initial=0.0))
        self.divide_by(self.radius)

    def divide_by(self, radius: float) -> None:
        """Take this radius as the unit, if it is positive."""
        self.divisor = radius if radius > 0.0 else 1.0

    def like(self, operator: Operator, labels: Labels, examples: np.ndarray) -> "Constraints":
        """Constraints of this kind for some of the examples, seen through another operator."""
        return Constraints(operator, labels)

    # --- slack, of which there is none here ----------------------------------------------------

    @property
    def is_soft(self) -> bool:
        """Whether every constraint has a slack."""
        return False

    @property
    def base(self) -> "Constraints":
        """These constraints without slack."""
        return self

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(w, ξ/r) of a classifier, as views; the second is empty where there is no slack."""
        return w, w[:0]

    def slack_scores(self, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """What −Zᵀq adds to the slack part of a classifier for a q on the named rows."""
        return np.zeros(index.size)

    def with_slack(self, w: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """The classifier of w and slack ξ; w alone where there is none."""
        return w

    # --- as users see it -----------------------------------------------------------------------

    def coef_of(self, w: np.ndarray) -> np.ndarray:
        """The classifier as users see it: (d,), or (k, d) for many classes; no slack."""
        return self.labels.coef_of(self.operator.coefficients(self.split(w)[0]))

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        """The inverse of `coef_of`, for constraints without slack."""
        return self.operator.from_coefficients(self.labels.from_coef(coef))

    def dual_of(self, q: np.ndarray) -> np.ndarray:
        """The weights as users see them: (n,), or (n, k) with zeros on the true labels."""
        return self.labels.dual_of(q)

    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        """The inverse of `dual_of`; fewer rows than the problem's are its first ones."""
        return self.labels.from_dual(dual)

    # --- for solvers ---------------------------------------------------------------------------

    def zeros(self) -> np.ndarray:
        """The classifier w = 0, which has the shape of every classifier."""
        return self.operator.zeros(*self.labels.trailing)

    def mix(self, q: np.ndarray) -> np.ndarray:
        """The coefficients a with Zᵀq = Xᵀa."""
        return self.labels.mix(q)

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Zw / R."""
        return self.labels.scores(self.operator.apply(w / self.divisor))

    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Zᵀq / R."""
        return self.operator.adjoint(self.labels.mix(q)) / self.divisor

    def combine(self, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Zᵀq / R where q is zero but on the named rows: costs those rows alone."""
        return self.operator.combine(*self.labels.mix_at(index, weight)) / self.divisor

    def norm(self, w: np.ndarray) -> float:
        """‖w‖."""
        return self.operator.norm(w)

    def dual_norm(self, q: np.ndarray) -> float:
        """‖Zᵀq‖ in the units of X, computed in float64 over the rows where q is not zero."""
        return self.operator.adjoint_norm(self.labels.mix(q))

    def centred_radius(self) -> float:
        """max‖z‖ as seen from the mean of X: what counts where the classes' weights cancel."""
        return self.operator.centred_radius() * self.labels.radius_factor

    # --- for the certificate -------------------------------------------------------------------

    def norm_bounds(self, w: np.ndarray) -> tuple[float, float]:
        """Sure lower and upper bounds of ‖w‖."""
        return self.operator.norm_bounds(w)

    def recomputed(self, w: np.ndarray) -> np.ndarray:
        """w with all that is kept beside it computed anew."""
        return self.operator.recomputed(w)

    def exact_scores(self, w: np.ndarray) -> np.ndarray:
        """Zw in float64 arithmetic, whatever the data's type."""
        return self.labels.scores(self.operator.exact_scores(w))

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The named entries of Zw in extended precision, with roundings as in `exact_scores`."""
        rows, place = np.unique(self.labels.examples(index), return_inverse=True)
        return self.labels.scores_at(index, self.operator.sharp_scores(rows, w)[place])

    def score_errors(
        self, index: np.ndarray | slice, w: np.ndarray, norm: float, unit: float, extra: int
    ) -> np.ndarray:
        """Bounds on the error of the named scores, computed with a given unit roundoff.

        `norm` is an upper bound of ‖w‖, `extra` counts roundings beside those of the scores.
        """
        # |fl(x·w) − x·w| ≤ γ_d |x|·|w| ≤ γ_d ‖x‖ ‖w‖; underflow costs at most one unit per rounding
        depth = self.operator.score_depth(w) + self.labels.roundings
        magnitude = self.operator.magnitude(w, norm)
        relative = up(gamma(depth + extra, unit) + self.operator.kernel_error)
        errors = self.row_norms[index] * up(relative * magnitude) + depth * UNDERFLOW
        blur = self.operator.blur(w)
        if blur is None:
            return errors
        most = blur if blur.ndim == 1 else 2.0 * blur.max(axis=1)  # a score has two outputs then
        return (
            errors + (1.0 + 8.0 * gamma(1)) * most[self.labels.examples(_numbers(index, self.size))]
        )

    def is_blurred(self, w: np.ndarray) -> bool:
        """Whether some scores of a `recomputed` w rest on less than double precision."""
        return self.operator.blur(self.split(w)[0]) is not None

    def cleared(self, w: np.ndarray, index: np.ndarray) -> np.ndarray:
        """A `recomputed` w whose named scores rest on double precision."""
        return self.operator.cleared(w, np.unique(self.labels.examples(index)))

    def adjoint_norm_bound(
        self, q: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        """A sure upper bound of ‖Zᵀq‖ for q ≥ 0, given one of Σ q‖z‖."""
        bound = self.operator.adjoint_norm_bound(self.labels.mix(q), weighted_norms, sharp=sharp)
        if self.labels.roundings == 0:  # each coefficient is a weight or its negative
            return bound
        # the coefficients are sums of weights: each is right to so many roundings
        return up(bound + gamma(self.labels.roundings + 1) * weighted_norms)


def _numbers(index: np.ndarray | slice, size: int) -> np.ndarray:
    """The numbers that an index names."""
    return np.arange(size)[index] if isinstance(index, slice) else index
