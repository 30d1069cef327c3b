"""Pictures as objects, after scikit-learn's displays; drawing needs the extra `plot` (matplotlib).

Each has `from_…` constructors that compute and draw, `plot(ax=…)` to draw again, and the attributes
`ax_` and `figure_`. Importing this package does not import matplotlib.
"""

from momentron.views.display.boundary import MarginDisplay, MarginDistributionDisplay
from momentron.views.display.curves import RaceDisplay, TraceDisplay, TrackDisplay
from momentron.views.display.evolution import EvolutionDisplay
from momentron.views.display.path import PathDisplay

__all__ = [
    "EvolutionDisplay",
    "MarginDisplay",
    "MarginDistributionDisplay",
    "PathDisplay",
    "RaceDisplay",
    "TraceDisplay",
    "TrackDisplay",
]
