"""What `max_margin` returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.certificate import Certificate
from momentron.display import MarginDisplay, MarginDistributionDisplay, TraceDisplay
from momentron.markup import card, escape, facts_table, number
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
        A proven lower bound on the margin of `coef` with its best intercept; with a finite C,
        of (coef, √C · slack). It equals `lower` where positive, but for the rounding of coef to
        float64 and to unit length; −inf where nothing is proven.
    coef : ndarray of shape (d,), or (k, d) for k ≥ 3 classes
        The classifier, of unit length: y (x·coef + intercept) is a distance in the units of X.
        With a finite C, (coef, √C · slack) has unit length. Divided by `lower`, coef and intercept
        are a support vector machine's in its usual scale.
        Where no positive margin was found, the method's last iterate.
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
        Whether coef and intercept are a soft margin's, which the method keeps for data that nothing
        separates.
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

    def plot(self, X: Any = None, y: Any = None, *, ax: Any = None, **options: Any) -> Any:
        """Draw what fits; needs the extra `plot` (matplotlib).

        Parameters
        ----------
        X, y : array-like, optional
            The data. Without them the picture is of the solve: the interval as it closes. With two
            features it is the boundary and the margin; with more, how far the rows are from it.
        ax : matplotlib Axes, optional
        **options
            Of the display's own `plot`.

        Returns
        -------
        TraceDisplay, MarginDisplay or MarginDistributionDisplay
        """
        if X is None:
            return TraceDisplay.from_result(self, ax=ax, **options)
        fitting = MarginDisplay if np.shape(X)[1] == 2 else MarginDistributionDisplay
        return fitting.from_result(self, X, y, ax=ax, **options)

    def _repr_html_(self) -> str:
        facts = {
            "relative gap": f"{self.gap:.2e}",
            "margin of this classifier": f"at least {number(self.margin, 12)}",
            "classes": ", ".join(map(str, self.classes.tolist()[:12])),
            "rows with weight": self.support.size,
            "coef": f"array of shape {self.coef.shape}",
            "intercept": self.intercept,
            "method": self.method,
            "iterations": self.n_iter,
            "seconds": f"{self.seconds:.3f}",
        }
        return card("MarginResult", escape(self.status), self.lower, self.upper, facts_table(facts))
