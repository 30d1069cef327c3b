"""MarginDistributionDisplay: how far the rows are from the boundary."""

from typing import Any, Self

import numpy as np

from momentron.errors import InputError
from momentron.views.display.style import INK, VERMILLION, axes_for, colour_of, text_of
from momentron.views.display.views import ClassifierDisplay, Fitted, signed_distances

FEW_CLASSES = 8  # that colours can tell apart


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
        self.figure_, self.ax_ = axes_for(ax)
        fitted, distances, k = self.fitted, self.distances, self.fitted.classes.size
        edges = bin_edges(distances, bins)
        groups, names = [distances], [f"all {k} classes"]
        if k <= FEW_CLASSES:
            groups = [distances[self.codes == c] for c in range(k)]
            names = [text_of(label) for label in fitted.classes.tolist()]
        colours = [colour_of(c) for c in range(len(groups))]
        _, _, self.bars_ = self.ax_.hist(
            groups, edges, stacked=True, color=colours, label=names, alpha=0.85, linewidth=0
        )
        self.ax_.axvline(0.0, color=INK, linewidth=1.3)
        if edges[0] < 0.0:
            label = f"wrong side: {np.count_nonzero(distances <= 0.0)} of {distances.size}"
            self.ax_.axvspan(edges[0], 0.0, color=VERMILLION, alpha=0.08, linewidth=0, label=label)
        if 0.0 < fitted.upper < np.inf:
            label = f"best margin in [{fitted.lower:.6g}, {fitted.upper:.6g}]"
            dashed: dict[str, Any] = {"color": INK, "linestyle": "--", "linewidth": 1.1}
            self.ax_.axvspan(fitted.lower, fitted.upper, color=INK, alpha=0.25, linewidth=0)
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
