"""What `max_margin` returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.certificate import Certificate
from momentron.certificate.picture import card, number
from momentron.data.saved_state import Marked
from momentron.errors import counted
from momentron.status import Predictor, Status
from momentron.views.display import MarginDisplay, MarginDistributionDisplay, TraceDisplay
from momentron.views.markup import escape, facts_table
from momentron.views.trace import Trace


@dataclass(frozen=True)
class MarginResult(Marked):
    """A classifier, and a proven interval on the best margin; every number in the units of X.

    Attributes
    ----------
    status : Status
        How the solve ended; its value is a sentence.
    lower, upper : float
        The best margin lies between them: proven in float64, rounding included. With a finite C
        they bound 1/√(2 · least objective) instead, which may be larger than any margin.
    gap : float
        (upper − lower)/upper.
    margin : float
        A proven lower bound on the margin of this classifier, which is the least
        y (x·coef + intercept)/‖coef‖ over the training rows: negative if it misclassifies one, −inf
        if nothing is proven. If C = inf and it separates, it equals `lower` up to rounding.
    coef : ndarray of shape (d,), or (k, d) for k ≥ 3 classes
        The classifier. With C = inf, of unit length: y (x·coef + intercept) is a distance in the
        units of X. With a finite C, in the scale of its problem, as in support vector machines:
        ½‖w‖² + Σ C_i max(0, 1 − y (x·w + b))² is at most 1/(2 lower²), and at least 1/(2 upper²),
        whatever the status (see Notes). With penalty="hinge", the same holds for
        ½‖w‖² + Σ C_i max(0, 1 − y (x·w + b)). Of unit length again if `is_fallback`.
        With a kernel: one number per example, w = Σ coef_i φ(x_i), so d is n.
    intercept : float, or ndarray of shape (k,)
    support : ndarray of shape (s,)
        The rows with a dual weight above rounding level, by number, in sorted order.
    dual : ndarray of shape (s,), or (s, k)
        The weights of these rows: q with γ̄ ≤ ‖Σ q_i y_i x_i‖ = upper (mass 1, or ½ per class with
        an intercept). With three or more classes: one per example and wrong label, which with
        intercepts balance for each class. `full_dual` has a weight for every row. Rows with less
        than 1e-12 of the largest weight are left out of both: the length is `upper` up to that
        share of the rows' lengths.
        With penalty="hinge" they are α itself, 0 ≤ α_i ≤ C_i and w = Σ α_i y_i x_i up to the gap.
    support_labels : ndarray of shape (s,)
        The labels of these rows.
    n_rows, n_iter, passes : int
        Rows of the data, iterations, and passes over the data, the first pass over blocks included.
    bytes_read : int
        Bytes of blocks read, in all passes.
    seconds, pass_seconds : float
        Time in total, and for reading blocks.
    trace : Trace
    certificate : Certificate
    classes : ndarray of shape (k,)
        With two classes, the second has positive decision values.
    method : str
    is_fallback : bool
        Whether the method ended without a useful classifier: none that separates, or a soft
        margin far from the best. Then coef and intercept come from a logistic regression
        (`momentron.fitting.fallback`), or from whatever there was time for.
    predictor : Predictor
        Which classifier coef and intercept are; as text, such as "a logistic regression".
    is_soft : bool
        Whether C was finite.
    penalty : str
        How slack was penalised, if C was finite: "squared_hinge" or "hinge".

    Notes
    -----
    The bound on the objective of a soft margin is on the floats returned, in exact arithmetic and
    for the C_i = C · weight as float64 has it, but for their rounding: with

        δ = 2⁻⁵⁰ (m + 16) (1 + max_i Σ_j |x_ij| |coef_j| + |b|),

    m the numbers in a row of coef and x_ij the kernel's values where there is a kernel, it is

        ½‖w‖² + Σ C_i max(0, 1 − δ − y (x·w + b))² ≤ (1 + 2⁻⁵⁰ (m + n + 16)) / (2 lower²),

    n the number of slacks; the same without the square for the plain hinge. It holds unless
    `is_fallback`, and as long as coef does not underflow.
    """

    status: Status
    certificate: Certificate
    coef: np.ndarray = field(repr=False)
    intercept: float | np.ndarray
    support: np.ndarray = field(repr=False)
    dual: np.ndarray = field(repr=False)
    support_labels: np.ndarray = field(repr=False)
    n_rows: int
    n_iter: int
    passes: int
    seconds: float
    trace: Trace = field(repr=False)
    classes: np.ndarray = field(repr=False)
    method: str
    is_fallback: bool = field(default=False, repr=False)
    predictor: Predictor = field(default=Predictor.MARGIN, repr=False)
    is_soft: bool = field(default=False, repr=False)
    penalty: str = field(default="squared_hinge", repr=False)
    bytes_read: int = field(default=0, repr=False)
    pass_seconds: float = field(default=0.0, repr=False)

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

    def full_dual(self) -> np.ndarray:
        """The weights of all rows, shape (n,) or (n, k): zero except on the support."""
        full = np.zeros((self.n_rows, *self.dual.shape[1:]), self.dual.dtype)
        full[self.support] = self.dual
        return full

    def __repr__(self) -> str:
        what = "soft margin, 1/√(2·objective)," if self.is_soft else "best margin"
        return (
            f"MarginResult: {self.status}\n"
            f"  {what} in [{self.lower:.12g}, {self.upper:.12g}], gap {self.gap:.2e}\n"
            f"  method {self.method}, {counted(self.n_iter, 'iteration')}, "
            f"{counted(self.passes, 'pass')} over {self.n_rows} rows, "
            f"{self.seconds:.3f} s, {self.support.size} rows with weight"
        )

    def plot(self, X: Any = None, y: Any = None, *, ax: Any = None, **options: Any) -> Any:
        """Draw the solve or the data; needs the extra `plot` (matplotlib).

        Parameters
        ----------
        X, y : array-like, optional
            The data. Without them the picture shows the solve: the interval as it closes. With two
            features it shows the boundary and the margin; with more, the distances of the rows.
        ax : matplotlib Axes, optional
        **options
            Passed to the `plot` method of the display.

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
            "classifier": self.predictor,
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


def labels_of(outputs: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The classes that the outputs of a classifier name, shape (n,) or (n, k)."""
    if outputs.ndim == 1:
        return classes[(outputs > 0.0).astype(int)]
    return classes[outputs.argmax(axis=1)]
