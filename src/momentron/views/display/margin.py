"""MarginDisplay: the boundary and the margin, in two dimensions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.views.display.style import GREY, INK, axes_for, colour_of, marker_of, text_of
from momentron.views.display.views import Fitted, View, as_rows, view_of

if TYPE_CHECKING:
    from momentron.result import MarginResult
    from momentron.separability.verdict import Verdict

MANY = 100  # marked rows above which rings are thin
LEGEND_CLASSES = 12  # more names than this hide the picture


class MarginDisplay:
    """The decision boundary, the margin around it and the rows, support vectors marked.

    Data of two features are drawn as they are. Of more features, two can be chosen; otherwise the
    rows are projected so that distances to the boundary stay exact. Create one with
    `from_estimator`, `from_result` or `from_verdict`.

    Parameters
    ----------
    fitted : Fitted
        The classifier.
    view : View
        The rows in two dimensions.
    codes : ndarray of shape (n,)
        Positions of the labels among the classes.
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
        self, fitted: Fitted, view: View, codes: np.ndarray, *, resolution: int = 160
    ) -> None:
        self.fitted = fitted
        self.view = view
        self.codes = codes
        self.resolution = resolution

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        features: Sequence[int | str] | None = None,
        resolution: int = 160,
        ax: Any = None,
        **options: Any,
    ) -> "MarginDisplay":
        """Draw a fitted classifier on its data.

        Parameters
        ----------
        estimator : MaxMarginClassifier, KernelMaxMarginClassifier, or a pipeline ending in one
        X : array-like of shape (n, d)
            The rows of the fit, so that the support vectors are found among them.
        y : array-like of shape (n,)
        features : two ints or names, optional
            Which features to draw; by default both of two, or a projection of more.
        resolution : int
        ax : matplotlib Axes, optional
        **options
            For `plot`.
        """
        fitted = Fitted.from_estimator(estimator)
        return cls._drawn(fitted, X, y, features, resolution, ax, options)

    @classmethod
    def from_result(
        cls,
        result: "MarginResult",
        X: Any,
        y: Any,
        *,
        features: Sequence[int | str] | None = None,
        resolution: int = 160,
        ax: Any = None,
        **options: Any,
    ) -> "MarginDisplay":
        """Draw what `max_margin` returned for these data; see `from_estimator`."""
        fitted = Fitted.from_result(result, as_rows(X))
        return cls._drawn(fitted, as_rows(X), y, features, resolution, ax, options)

    @classmethod
    def from_verdict(
        cls,
        verdict: "Verdict",
        X: Any,
        y: Any,
        *,
        features: Sequence[int | str] | None = None,
        resolution: int = 160,
        ax: Any = None,
        **options: Any,
    ) -> "MarginDisplay":
        """Draw the hyperplane of a proof, or the rows in conflict where there is none."""
        fitted = Fitted.from_verdict(verdict)
        return cls._drawn(fitted, as_rows(X), y, features, resolution, ax, options)

    @classmethod
    def _drawn(
        cls,
        fitted: Fitted,
        X: Any,
        y: Any,
        features: Sequence[int | str] | None,
        resolution: int,
        ax: Any,
        options: dict[str, Any],
    ) -> "MarginDisplay":
        view = view_of(fitted, X, features=features)
        display = cls(fitted, view, fitted.codes(y), resolution=resolution)
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, size: float = 22.0, legend: bool = True) -> "MarginDisplay":
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            New ones by default.
        size : float
            Of the points.
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
        k = self.fitted.classes.size
        if values.ndim == 2:
            winner, lead = (values > 0.0).astype(float), values
        else:
            winner = values.argmax(axis=2).astype(float)
            ordered = np.sort(values, axis=2)
            lead = ordered[:, :, -1] - ordered[:, :, -2]
        self.ax_.contourf(
            x,
            y,
            winner,
            levels=np.arange(k + 1) - 0.5,
            colors=[colour_of(c) for c in range(k)],
            alpha=0.10,
        )
        if values.ndim == 2:
            self.boundary_ = _contour(self.ax_, x, y, lead, 0.0, "-")
        else:
            for c in range(k):
                _contour(self.ax_, x, y, (winner == c).astype(float), 0.5, "-")
        margin = self.fitted.lower
        if margin > 0.0:
            for level in (-margin, margin) if values.ndim == 2 else (margin,):
                _contour(self.ax_, x, y, lead, level, "--")

    def _draw_points(self, size: float) -> None:
        points, classes = self.view.points, self.fitted.classes
        self.points_ = []
        for c, label in enumerate(classes.tolist()):
            chosen = points[self.codes == c]
            artist = self.ax_.scatter(
                chosen[:, 0],
                chosen[:, 1],
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
        marked = self.fitted.marked
        marked = marked[marked < len(points)]
        if marked.size:
            self.marked_ = self.ax_.scatter(
                points[marked, 0],
                points[marked, 1],
                s=(4.0 if marked.size <= MANY else 2.0) * size,
                facecolors="none",
                edgecolors=INK,
                linewidths=1.1 if marked.size <= MANY else 0.5,
                label=f"{marked.size} {self.fitted.marked_name}",
                zorder=4,
            )
        if self.fitted.weights is not None:
            self._draw_conflict(self.fitted.weights)

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


def _contour(
    ax: Any, x: np.ndarray, y: np.ndarray, values: np.ndarray, at: float, line: str
) -> Any:
    if not values.min() < at < values.max():
        return None  # outside the picture
    return ax.contour(x, y, values, levels=[at], colors=INK, linewidths=1.3, linestyles=line)
