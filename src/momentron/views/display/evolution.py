"""EvolutionDisplay: a network's tangent kernel through training."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from momentron.data.arguments import require_choice
from momentron.data.safefiles import Pathname, write_atomically
from momentron.errors import InputError
from momentron.views.display import style

KERNEL, NETWORK, TRAIN = style.VERMILLION, style.BLUE, style.GREY
WIDE = (10.5, 3.4)  # inches of all three panels


class EvolutionDisplay:
    """Errors, margins and alignments against epochs, in three panels or one of them.

    Parameters
    ----------
    columns : mapping of str to ndarray
        The columns of `KernelEvolution`.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        self.columns = columns

    def plot(
        self,
        path: Pathname | None = None,
        *,
        ax: Any = None,
        show: str | None = None,
        title: str = "",
    ) -> "EvolutionDisplay":
        """Draw it.

        Parameters
        ----------
        path : path, optional
            Save the picture there, in the format given by the suffix, without a window.
        ax : matplotlib Axes, or three of them, optional
            Draw in these. By default the picture is saved, or new ones are made by pyplot.
        show : {"errors", "margins", "alignments"}, optional
            One panel instead of all three; needed if `ax` is a single one.
        title : str
        """
        panels = {"errors": self._errors, "margins": self._margins, "alignments": self._alignments}
        if show is not None:
            require_choice("show", show, panels)
        names = list(panels) if show is None else [show]
        self.figure_, self.axes_ = self._axes(ax, len(names), path is not None)
        for name, axes in zip(names, self.axes_, strict=True):
            panels[name](axes)
            scale_epochs(axes, self.columns["epoch"])
            axes.legend(fontsize="small")
        if title:
            self.figure_.suptitle(title, x=0.01, ha="left", fontsize=11)
        if path is not None:
            write_atomically(path, style.picture_of(path, self.figure_, dpi=115))
        return self

    def _axes(self, ax: Any, count: int, is_saved: bool) -> tuple[Any, list[Any]]:
        """The user's axes, or new ones: of pyplot where the picture is to be seen."""
        if ax is None:
            make = style.saved_figure if is_saved else style.shown_figure
            figure, axes = make(1, count, size=WIDE if count > 1 else style.SIZE)
            return figure, list(np.ravel(axes))
        given = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) != count:
            raise InputError(
                f"ax has {len(given)} axes for {count} panels; pass {count}, or show= one of "
                "'errors', 'margins', 'alignments'"
            )
        return given[0].figure, given

    def _draw(self, axes: Any, column: str, line: str, colour: str, label: str) -> None:
        """One column against the epochs."""
        epochs, values = self.columns["epoch"], self.columns[column]
        axes.plot(epochs, values, line, color=colour, markersize=4, label=label)

    def _errors(self, axes: Any) -> None:
        """Three lines: test errors of the kernel's predictor and the network, training error."""
        self._draw(axes, "train_error", "-", TRAIN, "network, training error")
        self._draw(axes, "network_error", "s-", NETWORK, "network")
        self._draw(axes, "kernel_error", "o-", KERNEL, "kernel predictor")
        axes.set_title("Test error", loc="left", fontsize=10)
        axes.set_ylim(bottom=0.0)
        axes.yaxis.set_major_formatter("{x:.0%}")

    def _margins(self, axes: Any) -> None:
        epochs, lower, upper = self.columns["epoch"], self.columns["lower"], self.columns["upper"]
        axes.fill_between(epochs, lower, upper, color=KERNEL, alpha=0.2, linewidth=0)
        self._draw(axes, "lower", "o-", KERNEL, "at least")
        self._draw(axes, "upper", ":", KERNEL, "at most")
        axes.set_title("Best margin in the kernel", loc="left", fontsize=10)
        axes.set_ylim(bottom=0.0)

    def _alignments(self, axes: Any) -> None:
        self._draw(axes, "alignment_first", "o-", style.PURPLE, "with the first")
        self._draw(axes, "alignment_last", "o-", style.GREEN, "with the last")
        axes.set_title("Alignment of kernels", loc="left", fontsize=10)


def scale_epochs(axes: Any, epochs: np.ndarray) -> None:
    """A log axis on which epoch 0 has its place; a tick for every epoch that has room."""
    top = max(int(epochs[-1]), 1)
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.5)
    axes.set_xlim(-0.1, 1.15 * top)
    ticks = [0, *(t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500) if t <= top)]
    ticks += [10**i for i in range(3, 10) if 10**i <= top]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("epochs")
