"""TraceDisplay, RaceDisplay and TrackDisplay: margins while something runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.data.arguments import require_choice
from momentron.errors import InputError, short
from momentron.views.display import style
from momentron.views.display.views import last_step
from momentron.views.trace import Table, Trace

if TYPE_CHECKING:
    from momentron.certificate import Certificate
    from momentron.result import MarginResult

# what traces are drawn against
COSTS = {"iteration": "iterations", "passes": "passes over the data", "seconds": "seconds"}
LONG = 30  # rows from which the horizontal axis is logarithmic, and points have no marks
TALL = 2.5  # times the final upper bound, above which first bounds are cut off
COLOURS = 7  # of the methods of a race; the eighth is that of the best margin
TRACKED = {
    "share": "share of the best margin, certified",
    "margin": "margin",
    "loss": "loss",
    "norm": "norm of the weights",
    "angle": "angle to the certified classifier, degrees",
}
UPPER = {"share": "share_upper", "margin": "margin_upper"}


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
        self, trace: Trace, certificate: "Certificate | None" = None, *, method: str = ""
    ) -> None:
        self.trace = trace
        self.certificate = certificate
        self.method = method

    @classmethod
    def from_result(
        cls, result: "MarginResult", *, ax: Any = None, **options: Any
    ) -> "TraceDisplay":
        """Draw the solve that `max_margin` returned; `options` are passed to `plot`."""
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
                raise InputError(f"label={short(label)}, but there is only one solve; leave it out")
            return cls.from_result(last.result_, ax=ax, **options)
        labels = last.classes_.tolist()
        if label not in labels:
            known = ", ".join(map(repr, labels))
            raise InputError(
                f"label={short(label)} must be one of {known}: each class has its own solve"
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
        self.figure_, self.ax_ = style.axes_for(ax)
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
        steps = {"marker": marks, "markersize": 4, "drawstyle": "steps-post"}
        shown = np.where(np.isfinite(upper), upper, np.nan)
        lines = [
            *self.ax_.plot(at, shown, color=style.VERMILLION, label="at most", **steps),
            *self.ax_.plot(at, lower, color=style.BLUE, label="at least", **steps),
        ]
        self.ax_.fill_between(
            at, lower, shown, step="post", color=style.BLUE, alpha=0.10, linewidth=0
        )
        last = float(shown[-1]) if np.isfinite(shown[-1]) else float(np.max(lower))
        if self.certificate is not None and np.isfinite(self.certificate.upper):
            low, high = self.certificate.lower, self.certificate.upper
            label = f"certified: [{low:.6g}, {high:.6g}]"
            self.ax_.axhspan(low, high, color=style.INK, alpha=0.25, linewidth=0)
            self.ax_.axhline(high, color=style.INK, linestyle="--", linewidth=1.0, label=label)
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
        name = self.method or "relative gap"
        lines = self.ax_.plot(at, gaps, color=style.BLUE, marker=marks, markersize=4, label=name)
        if np.isfinite(gaps).any():
            self.ax_.set_yscale("log")
        self.ax_.set_ylabel("relative gap, (upper − lower)/upper")
        return list(lines)


class RaceDisplay:
    """Margins of several methods against their cost (Figure 1 of the paper).

    Parameters
    ----------
    traces : mapping of str to Trace
    best : MarginResult
        The certified optimum.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of artists
    """

    def __init__(self, traces: Mapping[str, Trace], best: "MarginResult") -> None:
        self.traces = dict(traces)
        self.best = best

    def plot(
        self, ax: Any = None, *, x: str = "passes", title: str = "", legend: bool = True
    ) -> "RaceDisplay":
        """Draw it.

        The dashed line is the certified best margin, with its interval as a band where that can be
        seen. Margins are linear between minus the best and the best, and logarithmic below, so that
        every curve is in the picture from its first pass on.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            New ones by default.
        x : {"passes", "iteration", "seconds"}
        title : str
        legend : bool
        """
        require_choice("x", x, COSTS)
        self.figure_, self.ax_ = style.axes_for(ax)
        best, lowest, self.lines_ = self.best, 0.0, []
        for number, (name, trace) in enumerate(self.traces.items()):
            line = "-" if number < COLOURS else ":"
            colour, margins = style.colour_of(number % COLOURS), trace["margin"]
            self.lines_ += self.ax_.plot(
                trace[x], margins, line, color=colour, label=style.text_of(name)
            )
            lowest = min([lowest, *margins[np.isfinite(margins)].tolist()])
        middle = 0.5 * (best.lower + best.upper) if best.lower > 0.0 else best.upper
        label = "best margin, certified"
        self.ax_.axhline(middle, color=style.INK, linestyle="--", linewidth=1.0, label=label)
        self.ax_.axhspan(best.lower, best.upper, color=style.INK, alpha=0.12, linewidth=0)
        self.ax_.set_xscale("log")
        scale = middle or -lowest or 1.0
        scale_to_best(self.ax_, scale, min(1.5 * lowest, -0.25 * scale))
        self.ax_.set_xlabel(COSTS[x])
        self.ax_.set_ylabel("margin, in units of the best")
        if title:
            self.ax_.set_title(style.text_of(title))
        if legend:
            self.ax_.legend(loc="upper left", fontsize="small")
        return self


def scale_to_best(axes: Any, best: float, bottom: float) -> None:
    """Linear up to the best margin either side of 0, logarithmic below: early margins are there."""
    axes.set_yscale("symlog", linthresh=best, linscale=1.3)
    axes.set_ylim(bottom, 1.5 * best)
    shares = [s for s in (-1000, -100, -10, -3, -1, -0.5, 0, 0.5, 1) if s * best >= bottom]
    if len(shares) > 7:
        shares = [share for share in shares if share >= -10 or share == shares[0]]
    labels = [f"{share:g}".replace("-", "−") for share in shares]
    axes.set_yticks([share * best for share in shares], labels)
    axes.minorticks_off()


class TrackDisplay:
    """The looks of a `MarginTracker`: one column plotted against the steps.

    Parameters
    ----------
    looks : Looks

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : artist
    """

    def __init__(self, looks: Table[Any]) -> None:
        self.looks = looks

    def plot(
        self,
        ax: Any = None,
        *,
        y: str = "share",
        x: str = "step",
        label: str | None = None,
        legend: bool = True,
    ) -> "TrackDisplay":
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            New ones by default.
        y : {"share", "margin", "loss", "norm", "angle"}
        x : {"step", "loss", "norm"}
        label : str, optional
            What the legend calls the line: for several trackers in one picture.
        legend : bool
        """
        require_choice("y", y, TRACKED)
        require_choice("x", x, ("step", "loss", "norm"))
        if not len(self.looks):
            raise InputError("there is nothing to draw: call look first")
        self.figure_, self.ax_ = style.axes_for(ax)
        at, low = self.looks[x], self.looks[y]
        kept = np.isfinite(low)  # looks without an optimum have no share
        drawn: dict[str, Any] = {"marker": "o", "markersize": 3} if kept.sum() <= LONG else {}
        drawn |= {"color": style.BLUE} if ax is None else {}
        (self.line_,) = self.ax_.plot(at[kept], low[kept], label=label or TRACKED[y], **drawn)
        if y in UPPER:
            high = self.looks[UPPER[y]][kept]
            own = self.line_.get_color()
            self.ax_.fill_between(at[kept], low[kept], high, color=own, alpha=0.2, linewidth=0)
        if y == "share":
            self.ax_.axhline(1.0, color=style.INK, linestyle="--", linewidth=1.0)
            self.ax_.axhline(0.0, color=style.INK, linewidth=0.6)
        best = self.looks["best"]
        known = np.isfinite(best)
        if y == "margin" and known.any():
            self.ax_.plot(
                at[known], best[known], "--", color=style.INK, linewidth=1, label="best margin"
            )
        if y == "loss" and (low[kept] > 0.0).all():
            self.ax_.set_yscale("log")
        self.ax_.set_xlabel("step" if x == "step" else TRACKED[x])
        self.ax_.set_ylabel(TRACKED[y])
        if legend and (label or y == "margin"):
            self.ax_.legend(fontsize="small")
        return self
