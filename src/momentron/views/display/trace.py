"""TraceDisplay: the interval closing during a solve."""

from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.errors import InputError, short
from momentron.views.display.style import BLUE, COSTS, INK, VERMILLION, axes_for, require_choice
from momentron.views.display.views import last_step

if TYPE_CHECKING:
    from momentron.certificate import Certificate
    from momentron.result import MarginResult
    from momentron.views.trace import Trace

LONG = 30  # rows from which the horizontal axis is logarithmic
TALL = 2.5  # times the final upper bound, above which first bounds are cut off


class TraceDisplay:
    """The bounds on the best margin as a solve found them, and the certified interval at its end.

    Create one with `from_result` or `from_estimator`.

    Parameters
    ----------
    trace : Trace
    certificate : Certificate, optional
        Drawn as the band that the bounds close in on.
    method : str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : artists

    Examples
    --------
    >>> from momentron import max_margin
    >>> from momentron.views.display import TraceDisplay
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [2.0, 4.0]], ["low", "low", "high", "high"]
    >>> result = max_margin(X, y, method="momentum")
    >>> display = TraceDisplay.from_result(result, x="passes")  # doctest: +SKIP
    """

    def __init__(
        self, trace: "Trace", certificate: "Certificate | None" = None, *, method: str = ""
    ) -> None:
        self.trace = trace
        self.certificate = certificate
        self.method = method

    @classmethod
    def from_result(
        cls, result: "MarginResult", *, ax: Any = None, **options: Any
    ) -> "TraceDisplay":
        """Draw the solve that `max_margin` returned; `options` are those of `plot`."""
        display = cls(result.trace, result.certificate, method=result.method)
        return display.plot(ax=ax, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, label: Any = None, ax: Any = None, **options: Any
    ) -> "TraceDisplay":
        """Draw the solve of a fitted classifier, or of the last step of a pipeline.

        Where every class was fitted against the rest, `label` names the class whose solve is meant.
        """
        last = last_step(estimator, "result_")
        if not isinstance(last.result_, list):
            if label is not None:
                raise InputError(f"label={short(label)}, but there is one solve; leave it out")
            return cls.from_result(last.result_, ax=ax, **options)
        labels = last.classes_.tolist()
        if label not in labels:
            known = ", ".join(map(repr, labels))
            raise InputError(
                f"label={short(label)} must be one of {known}: each class has a solve of its own"
            )
        return cls.from_result(last.result_[labels.index(label)], ax=ax, **options)

    def plot(
        self, ax: Any = None, *, x: str = "iteration", gap: bool = False, legend: bool = True
    ) -> "TraceDisplay":
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            New ones by default.
        x : {"iteration", "passes", "seconds"}
        gap : bool
            Draw the relative gap on a log axis instead of the two bounds.
        legend : bool
        """
        require_choice("x", x, COSTS)
        if not len(self.trace):
            raise InputError("the trace is empty: the solve ended before its first iteration")
        self.figure_, self.ax_ = axes_for(ax)
        at = self.trace[x].astype(float)
        marks = "o" if at.size <= LONG else ""
        self.lines_ = self._draw_gap(at, marks) if gap else self._draw_bounds(at, marks)
        if at.size > LONG and at[at > 0.0].size > 1:
            self.ax_.set_xscale("log")
        self.ax_.set_xlabel(COSTS[x])
        if legend:
            self.ax_.legend(fontsize="small", loc="best")
        return self

    def _draw_bounds(self, at: np.ndarray, marks: str) -> list[Any]:
        lower, upper = self.trace["lower"], self.trace["upper"]
        style = {"marker": marks, "markersize": 4, "drawstyle": "steps-post"}
        shown = np.where(np.isfinite(upper), upper, np.nan)
        lines = [
            *self.ax_.plot(at, shown, color=VERMILLION, label="at most", **style),
            *self.ax_.plot(at, lower, color=BLUE, label="at least", **style),
        ]
        self.ax_.fill_between(at, lower, shown, step="post", color=BLUE, alpha=0.10, linewidth=0)
        last = float(shown[-1]) if np.isfinite(shown[-1]) else float(np.max(lower))
        if self.certificate is not None and np.isfinite(self.certificate.upper):
            low, high = self.certificate.lower, self.certificate.upper
            label = f"certified: [{low:.6g}, {high:.6g}]"
            self.ax_.axhspan(low, high, color=INK, alpha=0.25, linewidth=0)
            self.ax_.axhline(high, color=INK, linestyle="--", linewidth=1.0, label=label)
            last = high
        if last > 0.0:
            tallest = float(np.nanmax(shown)) if np.isfinite(shown).any() else last
            self.ax_.set_ylim(0.0, 1.08 * min(tallest, TALL * last))
        self.ax_.set_ylabel("best margin")
        return lines

    def _draw_gap(self, at: np.ndarray, marks: str) -> list[Any]:
        lower, upper = self.trace["lower"], self.trace["upper"]
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps = np.where(upper > lower, 1.0 - lower / upper, np.nan)
        style = {"color": BLUE, "marker": marks, "markersize": 4}
        lines = self.ax_.plot(at, gaps, label=self.method or "relative gap", **style)
        if np.isfinite(gaps).any():
            self.ax_.set_yscale("log")
        self.ax_.set_ylabel("relative gap, (upper − lower)/upper")
        return list(lines)
