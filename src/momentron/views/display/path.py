"""PathDisplay: margins and errors against C."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.errors import InputError, short
from momentron.views.display.style import GREEN, INK, ORANGE, axes_for, colour_of

if TYPE_CHECKING:
    from momentron.result import MarginResult

MOST_TICKS = 8  # along C, besides that of ∞
BEYOND = 10.0  # times the largest finite C: where the hard margin, C = ∞, is drawn


class PathDisplay:
    """The certified interval, and the errors where they are known, along a path of C.

    `margin_path(...).plot()` makes one; `from_results` draws results of your own.

    Parameters
    ----------
    results : mapping of float to MarginResult, or to a list of them
        The result for each C; `inf` is the hard margin. Lists have one result per class, fitted
        against the rest, each drawn as a separate curve.
    errors : mapping of str to mapping of float to float, optional
        Curves of error rates by name, each from C to a rate.
    names : sequence of str, optional
        Names of the classes, if the results are lists.

    Attributes
    ----------
    ax_ : matplotlib Axes
    error_ax_ : matplotlib Axes or None
        The axes of the errors, on the right.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from momentron import max_margin
    >>> from momentron.views.display import PathDisplay
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [2.0, 4.0]], ["low", "low", "high", "high"]
    >>> results = {C: max_margin(X, y, C=C) for C in (0.1, 1.0, 10.0, float("inf"))}
    >>> display = PathDisplay.from_results(results)  # doctest: +SKIP
    """

    def __init__(
        self,
        results: "Mapping[float, Any]",
        errors: Mapping[str, Mapping[float, float]] | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        if not results:
            raise InputError("results is empty; a path needs at least one C")
        for C in results:
            if not C > 0.0:
                raise InputError(f"results has C={short(C)}; C must be above 0")
        self.results = dict(sorted(results.items()))
        self.names = names
        self.errors = {name: dict(sorted(curve.items())) for name, curve in (errors or {}).items()}

    @classmethod
    def from_results(
        cls,
        results: "Mapping[float, MarginResult | list[MarginResult]]",
        errors: Mapping[str, Mapping[float, float]] | None = None,
        *,
        ax: Any = None,
        **options: Any,
    ) -> "PathDisplay":
        """Draw a table of results, {C: result}, and error rates, {"test": {C: rate}}."""
        return cls(results, errors).plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, legend: bool = True) -> "PathDisplay":
        """Draw it in these axes, or in new ones."""
        self.figure_, self.ax_ = axes_for(ax)
        self.error_ax_: Any = None
        Cs = sorted({*self.results, *(C for curve in self.errors.values() for C in curve)})
        largest = max((C for C in Cs if np.isfinite(C)), default=1.0)
        place = {C: C if np.isfinite(C) else BEYOND * largest for C in Cs}
        self._draw_intervals([place[C] for C in self.results])
        self.ax_.set_xscale("log")
        self.ax_.set_ylim(bottom=0.0)
        self.ax_.set_xlabel("C")
        if self.errors:
            self._draw_errors(place)
        if np.inf in place:
            self._name_ticks(place)
        if legend:
            handles, names = self.ax_.get_legend_handles_labels()
            where: dict[str, Any] = {"loc": "best"}
            if self.error_ax_ is not None:
                more = self.error_ax_.get_legend_handles_labels()
                handles, names = handles + more[0], names + more[1]
                # "best" would look at the margins alone, and cover the errors
                where = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3}
            self.ax_.legend(handles, names, fontsize="small", **where)
        return self

    def _draw_intervals(self, at: list[float]) -> None:
        """A band for the margin of each C, or one for each class."""
        rows = [r if isinstance(r, list) else [r] for r in self.results.values()]
        n_curves = len(rows[0])
        for number, results in enumerate(zip(*rows, strict=True)):
            name, most = "margin", "margin, at most"
            if n_curves > 1:
                name = self.names[number] if self.names is not None else f"class {number}"
                most = "_hidden"  # which legends leave out
            lower = np.array([result.lower for result in results])
            upper = np.array([result.upper for result in results])
            upper = np.where(np.isfinite(upper), upper, np.nan)
            colour = colour_of(number)
            self.ax_.fill_between(at, lower, upper, color=colour, alpha=0.2, linewidth=0)
            self.ax_.plot(at, upper, ":", color=colour, label=most)
            self.ax_.plot(at, lower, "o-", color=colour, markersize=4, label=f"{name}, at least")
        is_soft = any(result.is_soft for row in rows for result in row)  # at C = ∞ the two agree
        self.ax_.set_ylabel("soft margin, 1/√(2·objective)" if is_soft else "certified margin")

    def _draw_errors(self, place: Mapping[float, float]) -> None:
        self.error_ax_ = self.ax_.twinx()
        self.error_ax_.grid(False)
        self.error_ax_.spines["right"].set_visible(True)
        for (name, curve), colour in zip(self.errors.items(), cycle((ORANGE, GREEN, INK))):
            at, rates = [place[C] for C in curve], list(curve.values())
            self.error_ax_.plot(at, rates, "s--", color=colour, markersize=4, label=name)
        self.error_ax_.set_ylabel("error")
        self.error_ax_.set_ylim(bottom=0.0)
        self.error_ax_.yaxis.set_major_formatter("{x:.1%}")

    def _name_ticks(self, place: Mapping[float, float]) -> None:
        """A tick for each C, or for some of many, and one for ∞ behind a line."""
        from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, NullFormatter

        infinity, names = place[np.inf], LogFormatterSciNotation()
        self.ax_.axvline(infinity, color=INK, linewidth=0.6, linestyle=":")
        finite = [C for C in place if np.isfinite(C)]
        self.ax_.set_xticks([*finite[:: -(-len(finite) // MOST_TICKS) or 1], infinity])
        names.set_axis(self.ax_.xaxis)
        called = FuncFormatter(lambda C, _=None: "∞" if infinity == C else str(names(C)))
        self.ax_.xaxis.set_major_formatter(called)
        self.ax_.xaxis.set_minor_formatter(NullFormatter())
