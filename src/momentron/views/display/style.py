"""How every picture looks: colours, frame and fonts, here and nowhere else.

matplotlib (the extra `plot`) is imported when something is drawn. The user's backend is never
chosen for them: pictures that are only saved are made without pyplot.
"""

import io
from pathlib import Path
from typing import Any

from momentron.data.safefiles import Pathname, require_writable
from momentron.errors import InputError, one_line
from momentron.views.markup import printable

# Okabe and Ito's colours, which colour-blind readers can tell apart
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, YELLOW = "#E69F00", "#56B4E9", "#F0E442"
INK, GREY = "#222222", "#767676"
CLASS_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, YELLOW, INK)
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # a second way to tell classes apart

SETTINGS: dict[str, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "svg.hashsalt": "momentron",
}
SIZE = (6.4, 4.2)  # inches of a picture with one panel


def require() -> None:
    """Fail before the work rather than after it, where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError('pictures need matplotlib: pip install "momentron[plot]"') from None


def styled(**more: Any) -> Any:
    """A context in which new axes look like ours; `more` are other settings of matplotlib."""
    require()
    import matplotlib

    return matplotlib.rc_context(SETTINGS | more)


def saved_figure(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = SIZE, sharey: bool = False
) -> tuple[Any, Any]:
    """A figure to be saved, and its axes: no pyplot and no window, and nothing to close."""
    with styled():
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        return figure, figure.subplots(rows, columns, sharey=sharey)


def shown_figure(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = SIZE
) -> tuple[Any, Any]:
    """A figure of pyplot and its axes: the user's backend shows it, in a window or a notebook."""
    require()
    from matplotlib import pyplot

    # outside of `styled`: a notebook's backend switches interactive mode on with its first figure,
    # which the end of the context would switch off again
    figure = pyplot.figure(figsize=size, layout="constrained")
    with styled():
        return figure, figure.subplots(rows, columns)


def axes_for(ax: Any) -> tuple[Any, Any]:
    """(figure, axes) to draw in: the user's, or new ones from pyplot, as scikit-learn does."""
    return shown_figure() if ax is None else (ax.figure, ax)


def colour_of(number: int) -> str:
    """The colour of a class, by its position."""
    return CLASS_COLOURS[number % len(CLASS_COLOURS)]


def marker_of(number: int) -> str:
    """The marker of a class; eight colours times eight markers before both repeat."""
    return CLASS_MARKERS[(number + number // len(CLASS_COLOURS)) % len(CLASS_MARKERS)]


def text_of(words: object) -> str:
    """Words from data as they are: dollars start no formula, underscores hide no legend entry."""
    shown = one_line(printable(words), 40).replace("$", r"\$")
    return f"\u200b{shown}" if shown.startswith("_") else shown


def require_picture(path: Pathname) -> None:
    """Refuse a path to which no picture can be written, before there is one."""
    require_writable(path)
    require()
    from matplotlib.backend_bases import FigureCanvasBase

    suffix = Path(path).suffix
    known = FigureCanvasBase.get_supported_filetypes()
    if suffix[1:].lower() not in known:
        endings = ", ".join(f".{name}" for name in sorted(known))
        raise InputError(f"{path} has suffix {suffix!r}; use one of {endings}")


def picture_of(path: Pathname, figure: Any, dpi: int = 160) -> bytes:
    """A figure in the format that the path's ending names."""
    stream = io.BytesIO()
    figure.savefig(stream, format=Path(path).suffix[1:].lower(), dpi=dpi)
    return stream.getvalue()
