"""Pictures of a report, written as SVG: they take the page's colours, in light and in dark."""

import math

import numpy as np

from momentron.views.display.distribution import FEW_CLASSES, MarginDistributionDisplay, bin_edges
from momentron.views.display.views import Fitted, View
from momentron.views.markup import escape, number

WIDTH, HEIGHT = 460.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 452.0, 10.0, 258.0  # the frame, within the picture
MOST_POINTS = 1500
COLOURS = 8  # class names .c0 to .c7 of the page's style


class Frame:
    """Places of data in the picture, with ticks and names."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.x, self.y = x, y

    def across(self, value: float) -> float:
        """The horizontal place."""
        return LEFT + (RIGHT - LEFT) * (value - self.x[0]) / (self.x[1] - self.x[0])

    def up(self, value: float) -> float:
        """The vertical place."""
        return BOTTOM - (BOTTOM - TOP) * (value - self.y[0]) / (self.y[1] - self.y[0])

    def drawn(self, title: str, names: tuple[str, str], inside: str) -> str:
        """The whole picture."""
        parts = [
            f'<svg class="picture" role="img" aria-label="{escape(title)}" '
            f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}">',
            f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" '
            f'height="{BOTTOM - TOP}"/>',
        ]
        for tick in ticks(*self.x):
            at = self.across(tick)
            parts.append(
                f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{BOTTOM}"/>'
            )
            parts.append(_text(at, BOTTOM + 15, number(tick, 4), "middle"))
        for tick in ticks(*self.y):
            at = self.up(tick)
            parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            )
            parts.append(_text(LEFT - 5, at + 4, number(tick, 4), "end"))
        middle = 0.5 * (TOP + BOTTOM)
        parts.append(f'<svg x="0" y="0" width="{WIDTH:g}" height="{BOTTOM:g}">{inside}</svg>')
        parts.append(_text(0.5 * (LEFT + RIGHT), HEIGHT - 8, shortened(names[0]), "middle"))
        parts.append(
            f'<text transform="rotate(-90)" x="{-middle}" y="13" text-anchor="middle">'
            f"{escape(shortened(names[1], 40))}</text></svg>"
        )
        return "".join(parts)


def histogram(display: MarginDistributionDisplay) -> str:
    """Rows against signed distance, one colour per class, with the certified interval."""
    distances, k = display.distances, display.classes.size
    edges = bin_edges(distances, most=40)
    codes = display.codes if k <= FEW_CLASSES else np.zeros_like(display.codes)
    counts = [np.histogram(distances[codes == c], edges)[0] for c in range(int(codes.max()) + 1)]
    top = int(np.sum(counts, axis=0).max())
    low, high = min(0.0, float(edges[0])), max(0.0, float(edges[-1]))
    pad = 0.02 * (high - low)
    frame = Frame((low - pad, high + pad), (0.0, 1.06 * top))
    parts, stacked = [], np.zeros(edges.size - 1)
    if edges[0] < 0.0:
        parts.append(_box(frame, float(edges[0]), 0.0, 0.0, 1.06 * top, "wrong"))
    for c, heights in enumerate(counts):
        for b in np.flatnonzero(heights):
            parts.append(
                _box(
                    frame,
                    float(edges[b]),
                    float(edges[b + 1]),
                    float(stacked[b]),
                    float(stacked[b] + heights[b]),
                    f"bar c{c}",
                )
            )
        stacked += heights
    parts.append(_upright(frame, 0.0, "boundary"))
    if 0.0 < display.upper < math.inf:
        parts += [_upright(frame, end, "margin") for end in (display.lower, display.upper)]
    return frame.drawn("histogram of signed distances", (display.name, "rows"), "".join(parts))


def scatter(fitted: Fitted, view: View, codes: np.ndarray) -> str:
    """The rows in two dimensions, with the boundary, the margin, and the marked rows ringed."""
    points = view.points
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.06 * np.where(high > low, high - low, 1.0)
    low, high = low - pad, high + pad
    frame = Frame((float(low[0]), float(high[0])), (float(low[1]), float(high[1])))
    parts = []
    if view.decide is not None and fitted.classes.size == 2:
        parts.append(_line(frame, view, 0.0, "boundary"))
        if fitted.lower > 0.0:
            parts += [_line(frame, view, t, "margin") for t in (-fitted.lower, fitted.lower)]
    marked = fitted.marked[:MOST_POINTS]
    kept = np.union1d(np.linspace(0, len(points) - 1, min(len(points), MOST_POINTS)), marked)
    for i in kept.astype(int).tolist():
        x, y = frame.across(float(points[i, 0])), frame.up(float(points[i, 1]))
        parts.append(_mark(x, y, int(codes[i])))
    for i in marked.tolist():
        x, y = frame.across(float(points[i, 0])), frame.up(float(points[i, 1]))
        parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
    if fitted.weights is not None:
        own = codes[fitted.marked] == 0
        meeting = fitted.weights[own] @ points[fitted.marked[own]] / fitted.weights[own].sum()
        x, y = frame.across(float(meeting[0])), frame.up(float(meeting[1]))
        parts.append(f'<path class="meeting" d="M{x - 7:.1f} {y:.1f}h14M{x:.1f} {y - 7:.1f}v14"/>')
    return frame.drawn("the rows in two dimensions", view.names, "".join(parts))


def legend(names: list[str]) -> str:
    """Classes with their colours and shapes."""
    entries = []
    for c, name in enumerate(names):
        mark = _mark(7.0, 7.0, c, 4.0)
        entries.append(
            '<span class="entry"><svg viewBox="0 0 14 14" width="14" height="14" '
            f'aria-hidden="true">{mark}</svg>'
            f" {escape(shortened(name, 30))}</span>"
        )
    return f'<p class="legend">{" ".join(entries)}</p>'


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within a range.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / about))
    step *= next(m for m in (1.0, 2.0, 5.0, 10.0) if (high - low) / (m * step) <= about + 1e-9)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first
    return [round((first + j) * step, 12 - math.floor(math.log10(step))) for j in range(count + 1)]


def shortened(text: object, most: int = 52) -> str:
    """The text, cut where it is too long for its place."""
    words = str(text)
    return words if len(words) <= most else words[: most - 1] + "…"


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _mark(x: float, y: float, code: int, size: float = 3.0) -> str:
    """A point: shape and colour both tell the class."""
    name = f"point c{code % COLOURS}"
    shape = code % 3
    if shape == 0:
        return f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'
    if shape == 1:
        corner, side = (x - size, y - size), 2 * size
        return (
            f'<rect class="{name}" x="{corner[0]:.1f}" y="{corner[1]:.1f}" '
            f'width="{side}" height="{side}"/>'
        )
    tip = f"M{x:.1f} {y - 1.3 * size:.1f}l{1.3 * size:.1f} {2.3 * size:.1f}h{-2.6 * size:.1f}z"
    return f'<path class="{name}" d="{tip}"/>'


def _box(frame: Frame, x0: float, x1: float, y0: float, y1: float, name: str) -> str:
    left, right, low, high = frame.across(x0), frame.across(x1), frame.up(y0), frame.up(y1)
    return (
        f'<rect class="{name}" x="{left:.1f}" y="{high:.1f}" width="{right - left:.1f}" '
        f'height="{low - high:.1f}"/>'
    )


def _upright(frame: Frame, value: float, name: str) -> str:
    at = frame.across(value)
    return f'<line class="{name}" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{BOTTOM}"/>'


def _line(frame: Frame, view: View, level: float, name: str) -> str:
    """Where the decision value, linear in the picture, has this level: cut at the frame."""
    assert view.decide is not None
    zero, *units = (float(v) for v in view.decide(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])))
    a, b = (value - zero for value in units)
    ends = []
    for x in frame.x:
        if b and frame.y[0] <= (level - zero - a * x) / b <= frame.y[1]:
            ends.append((x, (level - zero - a * x) / b))
    for y in frame.y:
        if a and frame.x[0] <= (level - zero - b * y) / a <= frame.x[1]:
            ends.append(((level - zero - b * y) / a, y))
    if len(ends) < 2:
        return ""
    (x0, y0), (x1, y1) = min(ends), max(ends)
    return (
        f'<line class="{name}" x1="{frame.across(x0):.1f}" y1="{frame.up(y0):.1f}" '
        f'x2="{frame.across(x1):.1f}" y2="{frame.up(y1):.1f}"/>'
    )
