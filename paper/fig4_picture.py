"""The picture of figure 4: the caption's plot, ours, and the grid."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from momentron.display.evolution import KERNEL, NETWORK, TRAIN, scale_epochs
from momentron.display.style import BLUE, GREY, INK, VERMILLION, saved_figure
from paper import style
from paper.grid import Grid
from paper.grid_statistics import Outcome, by_cell
from paper.kernel_claims import Curves, by_epoch

SHOWN = ("test_error", "best_error", "network_error")
EARLY, LATE = 0.08, 0.85  # of the colour map, whose last shades are too light for lines


def draw_figure(title: str, followed: Curves, grid: Grid, networks: Sequence[Outcome]) -> Any:
    """Two panels per seed that is followed, and beside them the differences of all networks."""
    figure, panels = saved_figure(2, 3, size=(14.5, 7.6))
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    errors = np.concatenate([columns[n] for columns in followed.values() for n in SHOWN])
    limits = (max(0.0, float(errors.min()) - 0.03), min(1.0, float(errors.max()) + 0.03))
    for axes in panels[:, len(followed) : 2].flat:
        axes.set_axis_off()  # a seed that has not run yet
    for place, seed in enumerate(followed):
        draw_iterations(panels[0][place], followed[seed], f"Seed {seed}, as in the caption")
        draw_epochs(panels[1][place], by_epoch(followed[seed]), f"Seed {seed}, against epochs")
        for axes in panels[:, place]:
            axes.set_ylim(*limits)
    space = panels[0][2].get_gridspec()
    for axes in panels[:, 2]:
        axes.remove()
    wide = figure.add_subplot(space[:, 2])
    draw_grid(wide, grid, networks)
    style.shared_legend(figure, [panels[1][0], wide], columns=4)
    return figure


def draw_iterations(axes: Any, columns: Mapping[str, np.ndarray], title: str) -> None:
    """Test error against Algorithm 2's iterations, a curve per epoch: later ones lighter."""
    from matplotlib import colormaps

    epochs = np.unique(columns["epoch"])
    shades = colormaps["viridis"](np.linspace(EARLY, LATE, epochs.size))
    for epoch, shade in zip(epochs, shades, strict=True):
        rows = columns["epoch"] == epoch
        x, y = columns["iteration"][rows], columns["test_error"][rows]
        axes.plot(x, y, color=shade, linewidth=1.5, label=f"{epoch:,}")
    axes.legend(title="kernel of epoch", title_fontsize=8, fontsize=8)
    axes.set(xscale="log", title=title, xlabel="iterations of Algorithm 2", ylabel="test error")
    axes.set_xlim(1, float(columns["iteration"].max()))
    axes.yaxis.set_major_formatter("{x:.1%}")


def draw_epochs(axes: Any, looks: Mapping[str, np.ndarray], title: str) -> None:
    """Errors of the kernel's predictor, of the best one, and of the network."""
    epochs = looks["epoch"]
    lines = (
        ("network_error", NETWORK, "s-", "network"),
        ("test_error", KERNEL, "o-", "kernel predictor, Algorithm 2"),
        ("best_error", INK, ":", "kernel predictor, best margin"),
    )
    for name, colour, line, label in lines:
        axes.plot(epochs, looks[name], line, color=colour, markersize=4, label=label)
    fitted = epochs[np.flatnonzero(looks["train_error"] == 0.0)]
    if fitted.size:
        axes.axvline(fitted[0], color=TRAIN, linewidth=1.0, label="no training error from here")
    axes.set(title=title, ylabel="test error")
    axes.yaxis.set_major_formatter("{x:.1%}")
    scale_epochs(axes, epochs)


def draw_grid(axes: Any, grid: Grid, networks: Sequence[Outcome]) -> None:
    """Each network's difference, a line of points per cell; unfitted ones are hollow."""
    groups = by_cell([o for o in networks if o.loss is not None])
    axes.axvline(0.0, color=INK, linewidth=1.0)
    kinds = (
        (True, False, VERMILLION, "o", "fitted network of the grid"),
        (True, True, BLUE, "D", "the same, wider"),
        (False, False, GREY, "o", "unfitted network"),
    )
    for fitted, wider, colour, marker, label in kinds:
        points = [
            (100.0 * o.difference(), place)
            for place, cell in enumerate(grid.cells)
            for o in groups.get(cell, [])
            if o.fitted == fitted and (o.job.width > grid.screen.width) == wider
        ]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                marker,
                color=colour,
                fillstyle="full" if fitted else "none",
                markersize=5,
                alpha=0.8,
                label=label,
            )
    left, right = axes.get_xlim()
    axes.set_xlim(min(left, -1.0), max(right, 1.0))
    names = [cell.words.replace(" head", "").replace(" weights", "") for cell in grid.cells]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set(
        title="Last kernel less first\n(right of 0 the initial one is better)",
        xlabel="test error, percentage points",
    )
