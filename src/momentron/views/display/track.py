"""TrackDisplay: a model's margin while it trains."""

from typing import Any

import numpy as np

from momentron.errors import InputError
from momentron.views.display.style import BLUE, INK, axes_for, require_choice
from momentron.views.table import Table

WORDS = {
    "share": "share of the best margin, certified",
    "margin": "margin",
    "loss": "loss",
    "norm": "norm of the weights",
    "angle": "angle to the certified classifier, degrees",
}
UPPER = {"share": "share_upper", "margin": "margin_upper"}


class TrackDisplay:
    """The looks of a `MarginTracker`, one column against the steps.

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
        require_choice("y", y, WORDS)
        require_choice("x", x, ("step", "loss", "norm"))
        if not len(self.looks):
            raise InputError("there is nothing to draw: call look first")
        self.figure_, self.ax_ = axes_for(ax)
        at, low = self.looks[x], self.looks[y]
        kept = np.isfinite(low)  # looks without an optimum have no share
        style: dict[str, Any] = {"marker": "o", "markersize": 3} if kept.sum() <= 30 else {}
        style |= {"color": BLUE} if ax is None else {}
        (self.line_,) = self.ax_.plot(at[kept], low[kept], label=label or WORDS[y], **style)
        if y in UPPER:
            high = self.looks[UPPER[y]][kept]
            own = self.line_.get_color()
            self.ax_.fill_between(at[kept], low[kept], high, color=own, alpha=0.2, linewidth=0)
        if y == "share":
            self.ax_.axhline(1.0, color=INK, linestyle="--", linewidth=1.0)
            self.ax_.axhline(0.0, color=INK, linewidth=0.6)
        best = self.looks["best"]
        known = np.isfinite(best)
        if y == "margin" and known.any():
            self.ax_.plot(at[known], best[known], "--", color=INK, linewidth=1, label="best margin")
        if y == "loss" and (low[kept] > 0.0).all():
            self.ax_.set_yscale("log")
        self.ax_.set_xlabel("step" if x == "step" else WORDS[x])
        self.ax_.set_ylabel(WORDS[y])
        if legend and (label or y == "margin"):
            self.ax_.legend(fontsize="small")
        return self
