"""RaceDisplay: several methods side by side."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.views.display.style import (
    COSTS,
    INK,
    axes_for,
    colour_of,
    require_choice,
    text_of,
)

if TYPE_CHECKING:
    from momentron.result import MarginResult
    from momentron.views.trace import Trace

COLOURS = 7  # of the methods; the eighth is that of the best margin


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

    def __init__(self, traces: "Mapping[str, Trace]", best: "MarginResult") -> None:
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
        self.figure_, self.ax_ = axes_for(ax)
        best, lowest, self.lines_ = self.best, 0.0, []
        for number, (name, trace) in enumerate(self.traces.items()):
            line = "-" if number < COLOURS else ":"
            colour, margins = colour_of(number % COLOURS), trace["margin"]
            self.lines_ += self.ax_.plot(trace[x], margins, line, color=colour, label=text_of(name))
            lowest = min([lowest, *margins[np.isfinite(margins)].tolist()])
        middle = 0.5 * (best.lower + best.upper) if best.lower > 0.0 else best.upper
        label = "best margin, certified"
        self.ax_.axhline(middle, color=INK, linestyle="--", linewidth=1.0, label=label)
        self.ax_.axhspan(best.lower, best.upper, color=INK, alpha=0.12, linewidth=0)
        self.ax_.set_xscale("log")
        scale_to_best(self.ax_, middle or -lowest or 1.0, lowest)
        self.ax_.set_xlabel(COSTS[x])
        self.ax_.set_ylabel("margin, in units of the best")
        if title:
            self.ax_.set_title(text_of(title))
        if legend:
            self.ax_.legend(loc="upper left", fontsize="small")
        return self


def scale_to_best(axes: Any, best: float, lowest: float | None = None) -> None:
    """Linear up to the best margin either side of 0, logarithmic below: early margins are there.

    Down to −20 times the best, or to the lowest margin where one is named.
    """
    bottom = -20.0 * best if lowest is None else min(1.5 * lowest, -0.25 * best)
    axes.set_yscale("symlog", linthresh=best, linscale=1.3)
    axes.set_ylim(bottom, 1.5 * best)
    shares = [s for s in (-1000, -100, -10, -3, -1, -0.5, 0, 0.5, 1) if s * best >= bottom]
    if lowest is None or len(shares) > 7:
        shares = [share for share in shares if share >= -10 or share == shares[0]]
    labels = [f"{share:g}".replace("-", "−") for share in shares]
    axes.set_yticks([share * best for share in shares], labels)
    axes.minorticks_off()
