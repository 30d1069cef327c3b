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
    distances : ndarray of shape (n,)
        Positive on the right side of the boundary.
    codes : ndarray of shape (n,)
        Positions of the labels among `classes`.
    classes : ndarray
    lower, upper : float
        The certified interval on the best margin.
    is_distance : bool
        Whether these are distances, not scaled by a soft margin.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : artists
    """

    def __init__(
        self,
        distances: np.ndarray,
        codes: np.ndarray,
        classes: np.ndarray,
        *,
        lower: float,
        upper: float,
        is_distance: bool = True,
    ) -> None:
        self.distances = distances
        self.codes = codes
        self.classes = classes
        self.lower = lower
        self.upper = upper
        self.is_distance = is_distance

    @classmethod
    def of(cls, fitted: Fitted, X: Any, y: Any) -> Self:
        """The distances of these rows, those of the fit or new ones; not drawn yet."""
        if fitted.decide is None:
            raise InputError("there is no hyperplane to measure from: the classes overlap")
        codes = fitted.codes(y)
        return cls(
            signed_distances(np.asarray(fitted.decide(X)), codes),
            codes,
            fitted.classes,
            lower=fitted.lower,
            upper=fitted.upper,
            is_distance=fitted.is_distance,
        )

    @property
    def name(self) -> str:
        """What the horizontal axis is."""
        if self.classes.size > 2:
            return "lead of the true class over the best wrong one"
        return "signed distance to the boundary" if self.is_distance else "label × decision value"

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
        edges = bin_edges(self.distances, bins)
        if self.classes.size <= FEW_CLASSES:
            groups = [self.distances[self.codes == c] for c in range(self.classes.size)]
            names = [text_of(label) for label in self.classes.tolist()]
        else:
            groups, names = [self.distances], [f"all {self.classes.size} classes"]
        colours = [colour_of(c) for c in range(len(groups))]
        _, _, self.bars_ = self.ax_.hist(
            groups, edges, stacked=True, color=colours, label=names, alpha=0.85, linewidth=0
        )
        self.ax_.axvline(0.0, color=INK, linewidth=1.3)
        if edges[0] < 0.0:
            wrong = int(np.count_nonzero(self.distances <= 0.0))
            label = f"wrong side: {wrong} of {self.distances.size}"
            self.ax_.axvspan(edges[0], 0.0, color=VERMILLION, alpha=0.08, linewidth=0, label=label)
        self._draw_interval()
        self.ax_.set_xlabel(self.name)
        self.ax_.set_ylabel("rows")
        if legend:
            self.ax_.legend(fontsize="small", loc="best")
        return self

    def _draw_interval(self) -> None:
        if not 0.0 < self.upper < np.inf:
            return
        label: str | None = f"best margin in [{self.lower:.6g}, {self.upper:.6g}]"
        self.ax_.axvspan(self.lower, self.upper, color=INK, alpha=0.25, linewidth=0)
        for end in (self.lower, self.upper):
            self.ax_.axvline(end, color=INK, linestyle="--", linewidth=1.1, label=label)
            label = None


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
