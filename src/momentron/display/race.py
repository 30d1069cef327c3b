"""Several methods side by side, for `momentron race`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from momentron.display.style import INK, colour_of, saved_figure, text_of

if TYPE_CHECKING:
    from momentron.result import MarginResult
    from momentron.trace import Trace


def draw_race(traces: "Mapping[str, Trace]", best: "MarginResult", *, title: str = "") -> Any:
    """Margins against passes over the data, one line per method (Figure 1 of the paper).

    The passes are on a log axis; the dashed line is the certified best margin, with its interval
    as a band where it is wide enough to be seen. Negative margins are cut off below.
    """
    figure, axes = saved_figure(size=(7.0, 4.5))
    for number, (name, trace) in enumerate(traces.items()):
        line = "-" if number < 7 else "--"
        axes.plot(trace["passes"], trace["margin"], line, color=colour_of(number % 7), label=name)
    middle = 0.5 * (best.lower + best.upper) if best.lower > 0.0 else best.upper
    axes.axhline(middle, color=INK, linestyle="--", linewidth=1.0, label="best margin, certified")
    axes.axhspan(best.lower, best.upper, color=INK, alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    axes.set_ylim(-0.25 * best.upper, 1.1 * best.upper)
    axes.set_xlabel("passes over the data")
    axes.set_ylabel("margin")
    axes.set_title(text_of(title))
    axes.legend(loc="lower right", fontsize="small")
    return figure
