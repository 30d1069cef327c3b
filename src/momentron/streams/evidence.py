"""What passes over a stream have proved, kept where no solver can change it.

Classifiers are remembered as copies beside what a pass saw of them, and found again by equality;
the upper bound comes from images that passes brought, or from weights proved on rows in memory.
"""

import math
from dataclasses import dataclass

import numpy as np

from momentron.certificate import Certificate, admitted
from momentron.dualsets import DualSet
from momentron.errors import SolverError
from momentron.rounding import down, norm_bounds
from momentron.streams.averages import Image, RunningAverage, frozen

KNOWN = 4  # classifiers whose last look is remembered
LARGEST = 2.0**60  # entry of a classifier, so that products stay within single precision


@dataclass(frozen=True)
class Known:
    """A classifier, sure upper bounds of its arcs' scores, and what margin they prove."""

    w: np.ndarray
    tops: np.ndarray
    margin: float


class Evidence:
    """The classifiers and the upper bound that passes have proved.

    Parameters
    ----------
    arcs : DualSet
        With one constraint an arc; nobody else's.
    shape : tuple of int
        Of a classifier.
    longest : float
        An upper bound of max‖z‖, and so of the best margin.
    """

    def __init__(self, arcs: DualSet, shape: tuple[int, ...], longest: float) -> None:
        self._arcs, self._shape = arcs, shape
        self._known: list[Known] = []
        self._last: tuple[np.ndarray, Image] | None = None
        self._average = RunningAverage()
        self.upper = longest

    # --- classifiers ---------------------------------------------------------------------------

    def copied(self, w: np.ndarray) -> np.ndarray:
        """A proposed classifier as a copy of its own, checked for shape, type and size."""
        w = admitted(w, self._shape, "w").astype(np.float64, copy=False)
        largest = float(np.abs(w).max(initial=0))
        if not largest <= LARGEST:  # NaN fails too
            raise SolverError(
                f"w has an entry of {largest:.3g} in size; entries must be finite and at most 2**60"
            )
        return frozen(w)

    def remember(self, w: np.ndarray, tops: np.ndarray) -> None:
        """Keep the last look, and those with the largest margins."""
        tops = frozen(tops)
        kept = [known for known in self._known if not np.array_equal(known.w, w)]
        kept.sort(key=lambda known: -known.margin)
        self._known = [*kept[: KNOWN - 1], Known(w, tops, self._margin(w, tops))]

    def _margin(self, w: np.ndarray, tops: np.ndarray) -> float:
        if not w.any():
            return 0.0
        norm_low, norm_high = norm_bounds(w)
        margin = down(self._arcs.margin(tops))
        norm = norm_high if margin > 0.0 else norm_low
        margin = down(margin / norm) if norm > 0.0 else -math.inf
        return -math.inf if math.isnan(margin) else margin

    def of(self, w: np.ndarray) -> Known | None:
        """What is known of a classifier, if a pass has looked at it lately."""
        for known in self._known:
            if np.array_equal(known.w, w):
                return known
        return None

    @property
    def best(self) -> Known | None:
        """The classifier with the largest margin of those that are remembered."""
        return max(self._known, key=lambda known: known.margin, default=None)

    # --- weights -------------------------------------------------------------------------------

    def begin(self, first: Image | None) -> None:
        """The average begins with this image, or with none."""
        self._average = RunningAverage(first)
        self.upper = min(self.upper, self._average.bound)

    def remember_image(self, w: np.ndarray, image: Image) -> None:
        """Keep the image of the weights that belong to w, for `average`."""
        self._last = (w, image)
        if math.isinf(self._average.bound):  # better than nothing
            self.upper = min(self.upper, image.bound)

    def image_of(self, w: np.ndarray) -> Image | None:
        """The image of the weights of w, if w was the last that a pass weighed."""
        if self._last is None or not np.array_equal(self._last[0], w):
            return None
        return self._last[1]

    def average(self, image: Image, share: float) -> None:
        """Give these weights a share λ in the running average of all."""
        self._average.add(image, share)
        self.upper = min(self.upper, self._average.bound)

    # --- both ----------------------------------------------------------------------------------

    def certificate(self, w: np.ndarray) -> Certificate:
        """The interval that w proves, or the best of those known where w is not among them."""
        known = self.of(w) or self.best
        margin = known.margin if known is not None and w.any() else 0.0
        return Certificate.from_bounds(margin, self.upper)
