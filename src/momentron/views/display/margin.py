"""MarginDisplay: the boundary and the margin, in two dimensions."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from momentron.views.display.style import GREY, INK, axes_for, colour_of, marker_of, text_of
from momentron.views.display.views import ClassifierDisplay, Fitted, view_of

MANY = 100  # marked rows above which rings are thin
LEGEND_CLASSES = 12  # more names than this hide the picture


class MarginDisplay(ClassifierDisplay):
    """The decision boundary, the margin around it and the rows, support vectors marked.

    Data of two features are drawn as they are. Of more features, two can be chosen; otherwise the
    rows are projected so that distances to the boundary stay exact. Create one with
    `from_estimator`, `from_result` or `from_verdict`, which take these options as well.

    Parameters
    ----------
    fitted : Fitted
        The classifier.
    X, y : the rows of the fit, so that the support vectors are found among them
    features : two ints or names, optional
        Which features to draw; by default both of two, or a projection of more.
    names : sequence of str, optional
        What the features are called; by default the columns of a data frame.
    resolution : int
        Points of the grid along each axis, on which the boundary is computed.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : artists
        One per class.
    marked_ : artist or None
        The rings around support vectors.
    boundary_ : contour set or None

    Examples
    --------
    >>> from momentron import MaxMarginClassifier
    >>> from momentron.views.display import MarginDisplay
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [2.0, 4.0]], ["low", "low", "high", "high"]
    >>> model = MaxMarginClassifier().fit(X, y)
    >>> display = MarginDisplay.from_estimator(model, X, y)  # doctest: +SKIP
    """

    def __init__(
        self,
        fitted: Fitted,
        X: Any,
        y: Any,
        *,
        features: Sequence[int | str] | None = None,
        names: Sequence[str] | None = None,
        resolution: int = 160,
    ) -> None:
        self.fitted = fitted
        self.view = view_of(fitted, X, features=features, names=names)
        self.codes = fitted.codes(y)
        self.resolution = resolution

    def plot(self, ax: Any = None, *, size: float = 22.0, legend: bool = True) -> Self:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            New ones by default.
        size : float
            The size of the points.
        legend : bool
        """
        self.figure_, self.ax_ = axes_for(ax)
        self._draw_regions()
        self._draw_points(size)
        self.ax_.set_xlabel(text_of(self.view.names[0]))
        self.ax_.set_ylabel(text_of(self.view.names[1]))
        if self.view.note:
            self.ax_.set_title(self.view.note, fontsize="small", color=GREY, loc="left")
        if legend and self.fitted.classes.size <= LEGEND_CLASSES:
            self.ax_.legend(fontsize="small", loc="best")
        return self

    def _draw_regions(self) -> None:
        x, y, values = self.view.grid(self.resolution)
        self.ax_.set_xlim(x[0], x[-1])
        self.ax_.set_ylim(y[0], y[-1])
        self.boundary_ = None
        if values is None:
            return
        k, margin = self.fitted.classes.size, self.fitted.lower

        def contour(of: np.ndarray, at: float, line: str = "-") -> Any:
            if not of.min() < at < of.max():
                return None  # outside the picture
            style: dict[str, Any] = {"colors": INK, "linewidths": 1.3, "linestyles": line}
            return self.ax_.contour(x, y, of, levels=[at], **style)

        if values.ndim == 2:
            winner, lead, margins = (values > 0.0).astype(float), values, [-margin, margin]
            self.boundary_ = contour(lead, 0.0)
        else:
            winner = values.argmax(axis=2).astype(float)
            best, second = np.moveaxis(np.sort(values, axis=2)[:, :, :-3:-1], 2, 0)
            lead, margins = best - second, [margin]
            for c in range(k):
                contour((winner == c).astype(float), 0.5)
        colours = [colour_of(c) for c in range(k)]
        levels = np.arange(k + 1) - 0.5
        self.ax_.contourf(x, y, winner, levels=levels, colors=colours, alpha=0.10)
        if margin > 0.0:
            for level in margins:
                contour(lead, level, "--")

    def _draw_points(self, size: float) -> None:
        points, fitted = self.view.points, self.fitted
        self.points_ = []
        for c, label in enumerate(fitted.classes.tolist()):
            artist = self.ax_.scatter(
                *points[self.codes == c].T,
                s=size,
                c=colour_of(c),
                marker=marker_of(c),
                linewidths=0.4,
                edgecolors="white",
                label=text_of(label),
                zorder=3,
            )
            self.points_.append(artist)
        self.marked_ = None
        marked = fitted.marked[fitted.marked < len(points)]
        if marked.size:
            self.marked_ = self.ax_.scatter(
                *points[marked].T,
                s=(4.0 if marked.size <= MANY else 2.0) * size,
                facecolors="none",
                edgecolors=INK,
                linewidths=1.1 if marked.size <= MANY else 0.5,
                label=f"{marked.size} {fitted.marked_name}",
                zorder=4,
            )
        if fitted.weights is not None:
            self._draw_conflict(fitted.weights)

    def _draw_conflict(self, weights: np.ndarray) -> None:
        """The hulls of the rows in conflict, and the point that both have."""
        marked = self.fitted.marked
        for c in range(2):
            own = self.codes[marked] == c
            corners = self.view.points[marked[own]]
            meeting = weights[own] @ corners / weights[own].sum()
            angles = np.arctan2(*(corners - meeting).T[::-1])
            outline = np.vstack([corners[np.argsort(angles)], corners[np.argmin(angles)]])
            self.ax_.plot(*outline.T, color=colour_of(c), linewidth=1.2, zorder=2)
        label = "a point of both hulls"
        self.ax_.plot(*meeting, "*", color=INK, markersize=11, label=label, zorder=5)
