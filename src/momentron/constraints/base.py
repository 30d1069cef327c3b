"""What Z offers to solvers and to the certificate, whatever its rows are made of."""

from abc import ABC, abstractmethod

import numpy as np

from momentron.operators import Operator
from momentron.rounding import UNDERFLOW, gamma, up


class Constraints(ABC):
    """The rows z of Z, seen through the operator X and the labels: never built.

    `scores` and `gradient` are for solvers: in units of R, at the data's own precision. What is
    called exact or sharp is for the certificate, in the units of X.

    Attributes
    ----------
    operator : Operator
        X.
    size : int
        How many rows Z has: the number of dual weights.
    row_norms : ndarray of shape (size,)
        Upper bounds of ‖z‖, in the units of X.
    radius : float
        The largest of them.
    divisor : float
        R, the unit of solvers: the radius, or a smaller one that serves the dual set.
    """

    operator: Operator
    size: int
    row_norms: np.ndarray
    radius: float
    divisor: float

    def _set_norms(self, row_norms: np.ndarray) -> None:
        self.row_norms = row_norms
        self.radius = float(row_norms.max(initial=0.0))
        self.divide_by(self.radius)

    def divide_by(self, radius: float) -> None:
        """Take this radius as the unit, if it is positive."""
        self.divisor = radius if radius > 0.0 else 1.0

    # --- the labels' part --------------------------------------------------------------------

    @abstractmethod
    def from_products(self, products: np.ndarray) -> np.ndarray:
        """Zw from Xw."""

    @abstractmethod
    def some_from_products(self, index: np.ndarray, products: np.ndarray) -> np.ndarray:
        """The named entries of Zw, from the rows `examples(index)` of Xw."""

    @abstractmethod
    def examples(self, index: np.ndarray) -> np.ndarray:
        """The rows of X behind the named rows of Z."""

    @abstractmethod
    def mix(self, q: np.ndarray) -> np.ndarray:
        """The coefficients a with Zᵀq = Xᵀa."""

    @abstractmethod
    def mix_some(self, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows of X, coefficients) for a q that is zero but on the named rows of Z."""

    @property
    @abstractmethod
    def codes(self) -> np.ndarray:
        """The place of each example's label among the classes."""

    @property
    @abstractmethod
    def label_roundings(self) -> int:
        """Roundings that `from_products` and `mix` add to those of the operator."""

    @property
    @abstractmethod
    def radius_factor(self) -> float:
        """max‖z‖ over max‖x‖, rounded up."""

    @abstractmethod
    def coef_of(self, w: np.ndarray) -> np.ndarray:
        """The classifier as users see it: (d,), or (k, d) for many classes; no slack."""

    @abstractmethod
    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        """The inverse of `coef_of`, for constraints without slack."""

    @abstractmethod
    def dual_of(self, q: np.ndarray) -> np.ndarray:
        """The weights as users see them: (n,), or (n, k) with zeros on the true labels."""

    @abstractmethod
    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        """The inverse of `dual_of`; fewer rows than the problem's are its first ones."""

    # --- for solvers -------------------------------------------------------------------------

    @abstractmethod
    def zeros(self) -> np.ndarray:
        """The classifier w = 0, which has the shape of every classifier."""

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Zw / R."""
        return self.from_products(self.operator.apply(w / self.divisor))

    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Zᵀq / R."""
        return self.operator.adjoint(self.mix(q)) / self.divisor

    def combine(self, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Zᵀq / R where q is zero but on the named rows: costs those rows alone."""
        return self.operator.combine(*self.mix_some(index, weight)) / self.divisor

    def norm(self, w: np.ndarray) -> float:
        """‖w‖."""
        return self.operator.norm(w)

    def dual_norm(self, q: np.ndarray) -> float:
        """‖Zᵀq‖ in the units of X, computed in float64 over the rows where q is not zero."""
        return self.operator.adjoint_norm(self.mix(q))

    def centred_radius(self) -> float:
        """max‖z‖ as seen from the mean of X: what counts where the classes' weights cancel."""
        return self.operator.centred_radius() * self.radius_factor

    # --- for the certificate -----------------------------------------------------------------

    def norm_bounds(self, w: np.ndarray) -> tuple[float, float]:
        """Sure lower and upper bounds of ‖w‖."""
        return self.operator.norm_bounds(w)

    def refreshed(self, w: np.ndarray) -> np.ndarray:
        """w with all that is kept beside it computed anew."""
        return self.operator.refreshed(w)

    def exact_scores(self, w: np.ndarray) -> np.ndarray:
        """Zw in float64 arithmetic, whatever the data's type."""
        return self.from_products(self.operator.exact_scores(w))

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The named entries of Zw in extended precision, with roundings as in `exact_scores`."""
        rows, place = np.unique(self.examples(index), return_inverse=True)
        return self.some_from_products(index, self.operator.sharp_scores(rows, w)[place])

    def score_errors(
        self, index: np.ndarray | slice, w: np.ndarray, norm: float, unit: float, extra: int
    ) -> np.ndarray:
        """Bounds on the error of the named scores, computed with a given unit roundoff.

        `norm` is an upper bound of ‖w‖, `extra` counts roundings beside those of the scores.
        """
        # |fl(x·w) − x·w| ≤ γ_d |x|·|w| ≤ γ_d ‖x‖ ‖w‖; underflow costs at most one a rounding
        depth = self.operator.score_depth(w) + self.label_roundings
        magnitude = self.operator.magnitude(w, norm)
        relative = up(gamma(depth + extra, unit) + self.operator.kernel_error)
        return self.row_norms[index] * up(relative * magnitude) + depth * UNDERFLOW

    def adjoint_norm_bound(
        self, q: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        """A sure upper bound of ‖Zᵀq‖ for q ≥ 0, given one of Σ q‖z‖."""
        bound = self.operator.adjoint_norm_bound(self.mix(q), weighted_norms, sharp=sharp)
        # the coefficients are sums of weights: each is right to so many roundings
        return up(bound + gamma(self.label_roundings + 1) * weighted_norms)
