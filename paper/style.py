"""What the figures of the paper share beyond `momentron.display.style`: panels, lines, legend."""

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from momentron.display.style import INK, require, saved_figure, styled
from paper.methods import Method
from paper.recording import log_spaced

__all__ = ["INK", "draw_curve", "render", "require", "shared_legend", "thin", "two_panels"]
PNG_DPI = 115


def two_panels(title: str, *, sharey: bool = False) -> tuple[Any, Any]:
    """A figure with two panels side by side, and room below for the legend."""
    figure, panels = saved_figure(1, 2, size=(9.2, 4.3), sharey=sharey)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure, panels


def draw_curve(
    axes: Any, columns: Mapping[str, np.ndarray], x: str, y: str, method: Method
) -> None:
    """One method's line; momentum's, which the paper is about, above the others."""
    kept = thin(columns["iteration"])
    above = method.name == "momentum"
    axes.plot(
        columns[x][kept],
        columns[y][kept],
        color=method.colour,
        linestyle=method.line,
        linewidth=2.2 if above else 1.7,
        zorder=4 if above else 3,
        label=method.label,
    )


def thin(iterations: np.ndarray, per_decade: int = 150) -> np.ndarray:
    """The positions of rows that are enough for a smooth line on a log axis."""
    return np.flatnonzero(np.isin(iterations, log_spaced(int(iterations[-1]), per_decade)))


def shared_legend(figure: Any, panels: Any, *, columns: int = 3) -> None:
    """One legend for both panels, below them; each label once."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)


def render(draw: Callable[[], Any]) -> dict[str, bytes]:
    """The picture that `draw` makes, as PNG and as SVG, by suffix."""
    encoded = {}
    with styled():
        figure = draw()
        # without a date the same numbers give the same bytes
        for suffix, options in (("png", {"dpi": PNG_DPI}), ("svg", {"metadata": {"Date": None}})):
            stream = io.BytesIO()
            figure.savefig(stream, format=suffix, **options)
            encoded[suffix] = stream.getvalue()
    return encoded
