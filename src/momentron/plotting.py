"""Pictures; needs the extra `plot` (matplotlib), imported only when a picture is drawn."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from momentron.errors import InputError
from momentron.result import MarginResult
from momentron.safefiles import Pathname, require_writable
from momentron.trace import Trace


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise ImportError('pictures need matplotlib: pip install "momentron[plot]"') from None
    matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt

    return plt


def require_picture(path: Pathname) -> None:
    """Refuse a path to which no picture can be written, before there is one."""
    require_writable(path)
    suffix = Path(path).suffix
    known = _pyplot().Figure().canvas.get_supported_filetypes()
    if suffix[1:].lower() not in known:
        endings = ", ".join(f".{name}" for name in sorted(known))
        raise InputError(f"{path} has ending {suffix!r}; pictures have one of {endings}")


def picture_of(path: Pathname, figure: Any, dpi: int = 160) -> bytes:
    """A figure in the format that the path's ending names; the figure is closed."""
    stream = io.BytesIO()
    figure.savefig(stream, format=Path(path).suffix[1:].lower(), dpi=dpi)
    _pyplot().close(figure)
    return stream.getvalue()


def draw_race(traces: Mapping[str, Trace], best: MarginResult, *, title: str = "") -> Any:
    """Margins against passes over the data, one line a method (Figure 1 of the paper).

    The passes are on a log axis; the dashed line is the certified best margin, with its interval
    as a band where it is wide enough to be seen. Negative margins are cut off below.
    """
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7.0, 4.5), layout="constrained")
    for name, trace in traces.items():
        axes.plot(trace["passes"], trace["margin"], label=name, linewidth=1.6)
    middle = 0.5 * (best.lower + best.upper) if best.lower > 0.0 else best.upper
    axes.axhline(
        middle, color="black", linestyle="--", linewidth=1.0, label="best margin, certified"
    )
    axes.axhspan(best.lower, best.upper, color="black", alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    axes.set_ylim(-0.25 * best.upper, 1.1 * best.upper)
    axes.set_xlabel("passes over the data")
    axes.set_ylabel("margin")
    axes.set_title(title, parse_math=False)  # a file's name may have dollars
    axes.legend(loc="lower right", fontsize="small")
    return figure
