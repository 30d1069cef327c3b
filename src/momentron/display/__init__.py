"""Pictures as objects, after scikit-learn's displays; drawing needs the extra `plot` (matplotlib).

    MarginDisplay              the boundary and the margin in two dimensions, support vectors marked
    MarginDistributionDisplay  how far the rows are from the boundary, and the certified interval
    TraceDisplay               the interval closing during a solve
    PathDisplay                margins and errors against C

Each has `from_…` constructors that compute and draw, `plot(ax=…)` to draw again, and the attributes
`ax_` and `figure_`. Importing this package does not import matplotlib.
"""

from momentron.display.distribution import MarginDistributionDisplay
from momentron.display.margin import MarginDisplay
from momentron.display.path import PathDisplay
from momentron.display.trace import TraceDisplay

__all__ = ["MarginDisplay", "MarginDistributionDisplay", "PathDisplay", "TraceDisplay"]
