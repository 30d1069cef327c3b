"""What `max_margin` returns."""

from dataclasses import dataclass, field

import numpy as np

from momentron.certificate import Certificate
from momentron.status import Status
from momentron.trace import Trace


@dataclass(frozen=True)
class MarginResult:
    """A classifier, and a proven interval on the best margin; every number in the units of X.

    Attributes
    ----------
    status : Status
        How the solve ended; its value is a sentence.
    lower, upper : float
        The best margin lies between them: proven in float64, rounding included.
    gap : float
        (upper − lower)/upper.
    margin : float
        A proven lower bound on the margin of this classifier, which is the least
        y (x·coef + intercept)/‖coef‖ over the training rows: negative where it errs on one, −inf
        where nothing is proven. Where C = inf and it separates, it is `lower` but for rounding.
    coef : ndarray of shape (d,), or (k, d) for k ≥ 3 classes
        The classifier. With C = inf of unit length: y (x·coef + intercept) is a distance in the
        units of X. With a finite C in the scale of its problem, as support vector machines have it:
        ½‖w‖² + (C/2) Σ max(0, 1 − y (x·w + b))² is at most 1/(2 lower²), and at least 1/(2 upper²).
        Of unit length again where `is_fallback`.
        With a kernel: one number an example, w = Σ coef_i φ(x_i), so d is n.
    intercept : float, or ndarray of shape (k,)
    dual : ndarray of shape (n,), or (n, k)
        Weights q with γ̄ ≤ ‖Σ q_i y_i x_i‖ = upper (mass 1, or ½ a class with an intercept). With
        many classes, of each example and wrong label; what flows out of a class flows in where
        there are intercepts.
    n_iter : int
    seconds : float
    trace : Trace
    certificate : Certificate
    classes : ndarray of shape (k,)
        Of two, the second is the one with positive decision values.
    method : str
    is_fallback : bool
        Whether the method ended without a classifier worth the name: none that separates, or a soft
        margin far from the best. Then coef and intercept are those of a logistic regression
        (`momentron.fallback`).
    is_soft : bool
        Whether C was finite.
    """

    status: Status
    certificate: Certificate
    coef: np.ndarray = field(repr=False)
    intercept: float | np.ndarray
    dual: np.ndarray = field(repr=False)
    n_iter: int
    seconds: float
    trace: Trace = field(repr=False)
    classes: np.ndarray = field(repr=False)
    method: str
    is_fallback: bool = field(default=False, repr=False)
    is_soft: bool = field(default=False, repr=False)

    @property
    def lower(self) -> float:
        return self.certificate.lower

    @property
    def upper(self) -> float:
        return self.certificate.upper

    @property
    def gap(self) -> float:
        return self.certificate.gap

    @property
    def margin(self) -> float:
        return self.certificate.margin

    @property
    def support(self) -> np.ndarray:
        """Indices of the rows with a dual weight above rounding level."""
        weights = self.dual if self.dual.ndim == 1 else self.dual.sum(axis=1)
        return np.flatnonzero(weights > 1e-12 * weights.max(initial=0.0))

    def __repr__(self) -> str:
        return (
            f"MarginResult: {self.status}\n"
            f"  best margin in [{self.lower:.12g}, {self.upper:.12g}], gap {self.gap:.2e}\n"
            f"  method {self.method}, {self.n_iter} iterations, {self.seconds:.3f} s, "
            f"{self.support.size} of {self.dual.shape[0]} rows with weight"
        )
