"""MarginDisplay and MarginDistributionDisplay: a classifier and the rows around its boundary."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from momentron.errors import InputError
from momentron.views.display import style
from momentron.views.display.views import ClassifierDisplay, Fitted, signed_distances, view_of

MANY = 100  # marked rows above which rings are thin
LEGEND_CLASSES = 12  # more names than this hide the picture
FEW_CLASSES = 8  # that colours can tell apart


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
    >>> model = MaxMarginClassifier(C=float("inf")).fit(X, y)
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
        self.figure_, self.ax_ = style.axes_for(ax)
        self._draw_regions()
        self._draw_points(size)
        self.ax_.set_xlabel(style.text_of(self.view.names[0]))
        self.ax_.set_ylabel(style.text_of(self.view.names[1]))
        if self.view.note:
            self.ax_.set_title(self.view.note, fontsize="small", color=style.GREY, loc="left")
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
            return self.ax_.contour(
                x, y, of, levels=[at], colors=style.INK, linewidths=1.3, linestyles=line
            )

        if values.ndim == 2:
            winner, lead, margins = (values > 0.0).astype(float), values, [-margin, margin]
            self.boundary_ = contour(lead, 0.0)
        else:
            winner = values.argmax(axis=2).astype(float)
            best, second = np.moveaxis(np.sort(values, axis=2)[:, :, :-3:-1], 2, 0)
            lead, margins = best - second, [margin]
            for c in range(k):
                contour((winner == c).astype(float), 0.5)
        colours = [style.colour_of(c) for c in range(k)]
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
                c=style.colour_of(c),
                marker=style.marker_of(c),
                linewidths=0.4,
                edgecolors="white",
                label=style.text_of(label),
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
                edgecolors=style.INK,
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
            self.ax_.plot(*outline.T, color=style.colour_of(c), linewidth=1.2, zorder=2)
        label = "a point of both hulls"
        self.ax_.plot(*meeting, "*", color=style.INK, markersize=11, label=label, zorder=5)


class MarginDistributionDisplay(ClassifierDisplay):
    """A histogram of signed distances to the boundary, with the certified interval.

    Rows left of zero are on the wrong side. With three classes or more the distance is what the
    output of the true class is ahead of the best wrong one. Create one with `from_estimator`,
    `from_result` or `from_verdict`.

    Parameters
    ----------
    fitted : Fitted
        The classifier, with the certified interval on the best margin.
    X, y : the rows of the fit, or new ones

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    distances : ndarray of shape (n,)
        Positive on the right side of the boundary.
    bars_ : artists
    """

    def __init__(self, fitted: Fitted, X: Any, y: Any) -> None:
        if fitted.decide is None:
            raise InputError("there is no hyperplane to measure from: the classes overlap")
        self.fitted = fitted
        self.codes = fitted.codes(y)
        self.distances = signed_distances(np.asarray(fitted.decide(X)), self.codes)

    def plot(self, ax: Any = None, *, bins: int | str = "auto", legend: bool = True) -> Self:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            New ones by default.
        bins : int or str
            As in `numpy.histogram_bin_edges`.
        legend : bool
        """
        self.figure_, self.ax_ = style.axes_for(ax)
        fitted, distances, k = self.fitted, self.distances, self.fitted.classes.size
        edges = bin_edges(distances, bins)
        groups, names = [distances], [f"all {k} classes"]
        if k <= FEW_CLASSES:
            groups = [distances[self.codes == c] for c in range(k)]
            names = [style.text_of(label) for label in fitted.classes.tolist()]
        colours = [style.colour_of(c) for c in range(len(groups))]
        _, _, self.bars_ = self.ax_.hist(
            groups, edges, stacked=True, color=colours, label=names, alpha=0.85, linewidth=0
        )
        self.ax_.axvline(0.0, color=style.INK, linewidth=1.3)
        if edges[0] < 0.0:
            label = f"wrong side: {np.count_nonzero(distances <= 0.0)} of {distances.size}"
            self.ax_.axvspan(
                edges[0], 0.0, color=style.VERMILLION, alpha=0.08, linewidth=0, label=label
            )
        if 0.0 < fitted.upper < np.inf:
            label = f"best margin in [{fitted.lower:.6g}, {fitted.upper:.6g}]"
            dashed: dict[str, Any] = {"color": style.INK, "linestyle": "--", "linewidth": 1.1}
            self.ax_.axvspan(fitted.lower, fitted.upper, color=style.INK, alpha=0.25, linewidth=0)
            self.ax_.axvline(fitted.lower, **dashed)
            self.ax_.axvline(fitted.upper, label=label, **dashed)
        name = "signed distance to the boundary" if fitted.is_distance else "label × decision value"
        self.ax_.set_xlabel("lead of the true class over the best wrong one" if k > 2 else name)
        self.ax_.set_ylabel("rows")
        if legend:
            self.ax_.legend(fontsize="small", loc="best")
        return self


def bin_edges(distances: np.ndarray, bins: int | str, most: int = 60) -> np.ndarray:
    """Edges of bins from the smallest distance to the largest; a rule makes 10 to `most` bins."""
    low, high = float(distances.min()), float(distances.max())
    is_flat = not high - low > 1e-12 * max(abs(low), abs(high))
    if isinstance(bins, str):  # numpy refuses to part distances that are equal but for roundings
        found = 1 if is_flat else np.histogram_bin_edges(distances, bins).size - 1
        bins = min(max(found, 10), most)
    if is_flat:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)
