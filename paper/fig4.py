"""Figure 4: the kernel of AlexNet while it is trained on 128 images of CIFAR-10."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from momentron.errors import InputError
from momentron.views.display.evolution import KERNEL, NETWORK, TRAIN, scale_epochs
from momentron.views.display.style import BLUE, GREY, INK, VERMILLION, saved_figure
from paper.data import cifar_pool
from paper.grid import (
    CONVOLUTIONAL,
    DENSE,
    HE,
    Cell,
    Course,
    Grid,
    Job,
    Stage,
    Training,
    jobs_of,
)
from paper.grid_report import (
    Curves,
    by_epoch,
    converged,
    errors_improve,
    grid_details,
    identical,
    margins_found,
    margins_improve,
    not_testable,
    switches,
)
from paper.grid_statistics import Outcome, by_cell, judge, most_mixed, outcome_of
from paper.judge import Claim
from paper.method_curves import shared_legend
from paper.runner import Figure, Measured, Part, Report

SHOWN = ("test_error", "best_error", "network_error")
EARLY, LATE = 0.08, 0.85  # of the colour map, whose last shades are too light for lines


def draw_figure(title: str, followed: Curves, grid: Grid, networks: Sequence[Outcome]) -> Any:
    """Two panels per seed that is followed, and next to them the differences of all networks."""
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
    shared_legend(figure, [panels[1][0], wide], columns=4)
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
        title="Last kernel minus first\n(right of 0 the initial one is better)",
        xlabel="test error, percentage points",
    )


SAID = {
    100: (
        "The test error of the maximum-margin kernel predictor decreases in training",
        "Figure 4 (a)",
    ),
    13579: ("Feature learning does not help: the initial kernel is better", "Figure 4 (b)"),
}
"""The paper's seeds, what it says of them, and where."""


QUICK = Grid(
    cells=(Cell(DENSE, True, 0.1, HE), Cell(CONVOLUTIONAL, False, 0.1, HE)),
    training=Training(images=40, batch_size=8, loss=0.1, max_epochs=150, stuck_epoch=100),
    screen=Stage((201, 202), 200, 6),
    large=Stage((301, 302), 200, 6),
    wide=Stage((301,), 200, 8),
    least_fitted=1,
    course=Course(
        Cell(CONVOLUTIONAL, False, 0.1, HE), 6, epochs=(0, 10), tests=200, iterations=1000
    ),
)


@dataclass
class Figure4(Figure):
    """Which kernel a seed prefers, in a grid that was registered before it ran.

    The sample is the pool of images to draw from.
    """

    name = "fig4"
    title = "Figure 4, the kernel of a network in training"
    seed = next(iter(SAID))
    libraries = ("torch",)

    _: KW_ONLY
    grid: Grid

    @classmethod
    def from_cifar(cls, quick: bool, seeds: Sequence[int] = ()) -> "Figure4":
        """The grid as registered; the quick version has two cells of narrow networks.

        The seeds are for the large stage, besides those registered.
        """
        try:
            import torch  # noqa: F401
        except ImportError:
            raise InputError('fig4 needs torch: pip install "momentron[ntk]"') from None
        grid = QUICK if quick else Grid()
        every = tuple(dict.fromkeys((*grid.large.seeds, *seeds)))
        grid = replace(grid, large=replace(grid.large, seeds=every))
        return cls(cifar_pool(), grid=grid, quick=quick)

    def numbers(self) -> dict[str, Any]:
        import torch

        course = self.grid.course
        return {
            "title": self.sample.title,
            "images": self.grid.training.images,
            "cell": course.cell.words,
            "width": course.width,
            "half": ", half the usual" if course.width == 32 else "",
            "epochs": ", ".join(map(str, course.epochs)),
            "iterations": course.iterations,
            "tests": course.tests,
            "seeds": " and ".join(map(str, SAID)),
            "torch": torch.__version__,
        }

    def parts(self) -> list[Part]:
        screen = [self._job_part(job) for job in self._screen()]
        first = len(self.grid.cells)  # the grid with one seed, then the curves, then more seeds
        return [*screen[:first], *map(self._followed_part, SAID), *screen[first:]]

    def parts_after(self, measured: Mapping[str, Measured]) -> list[Part]:
        if not all(job.name in measured for job in self._screen()):
            return []
        cells = most_mixed(self.grid, self._outcomes(self._screen(), measured))
        stages = (self.grid.large, self.grid.wide)
        return [self._job_part(job) for stage in stages for job in jobs_of(self.grid, stage, cells)]

    def can_show(self, measured: Mapping[str, Measured]) -> bool:
        return bool(self._followed(measured)) and any(j.name in measured for j in self._screen())

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        followed = self._followed(measured)
        looks = {seed: by_epoch(part.columns) for seed, part in followed.items()}
        screen, large, _ = self._stages(measured)
        every = [*screen, *large]
        return [
            converged(followed, every),
            identical(looks, every),
            margins_found(looks),
            *(
                not_testable(f"{SAID[seed][0]} (seed {seed}).", SAID[seed][1], part.facts)
                for seed, part in followed.items()
            ),
            switches(judge(self.grid, screen, large), every),
            margins_improve(every),
            errors_improve(every),
        ]

    def details(self, measured: Mapping[str, Measured]) -> str:
        grid, (screen, large, wide) = self.grid, self._stages(measured)
        stages = {
            f"Screen, {grid.screen.tests:,} test images": (screen, len(self._screen())),
            f"Large stage, {grid.large.tests:,} test images": (
                large,
                grid.mixed * len(grid.large.seeds),
            ),
            f"Wide stage, width {grid.wide.width}": (wide, grid.mixed * len(grid.wide.seeds)),
        }
        return grid_details(grid, stages, judge(grid, screen, large))

    def draw(self, measured: Mapping[str, Measured]) -> Any:
        followed = {seed: part.columns for seed, part in self._followed(measured).items()}
        networks = [*chain.from_iterable(self._stages(measured))]
        return draw_figure(f"{self.title}: CIFAR-10", followed, self.grid, networks)

    def _stages(self, measured: Mapping[str, Measured]) -> list[list[Outcome]]:
        """The networks that ran of the screen, of the large and of the wide stage."""
        grid = self.grid
        return [
            self._outcomes(jobs_of(grid, stage, grid.cells), measured)
            for stage in (grid.screen, grid.large, grid.wide)
        ]

    def _followed(self, measured: Mapping[str, Measured]) -> dict[int, Measured]:
        names = {seed: part_name(seed) for seed in SAID}
        return {seed: measured[name] for seed, name in names.items() if name in measured}

    def _screen(self) -> list[Job]:
        return jobs_of(self.grid, self.grid.screen, self.grid.cells)

    def _outcomes(self, jobs: Sequence[Job], measured: Mapping[str, Measured]) -> list[Outcome]:
        there = [job for job in jobs if job.name in measured]
        return [outcome_of(j, measured[j.name].columns, measured[j.name].facts) for j in there]

    def _job_part(self, job: Job) -> Part:
        import torch

        def measure(report: Report) -> Measured:
            from paper.grid_measure import measure_job

            return measure_job(self.sample, job, report)

        parameters = {**asdict(job), "torch": torch.__version__}
        return Part(job.name, parameters, job.cost, measure)

    def _followed_part(self, seed: int) -> Part:
        import torch

        course, training = self.grid.course, self.grid.training

        def measure(report: Report) -> Measured:
            from paper.grid_measure import follow

            return follow(self.sample, course, training, seed, report)

        parameters = {
            "seed": seed,
            "course": asdict(course),
            "training": asdict(training),
            "torch": torch.__version__,
        }
        cost = (0.005 * course.tests + 10.0) * (len(course.epochs) + 2) * (course.width / 32.0) ** 2
        return Part(part_name(seed), parameters, cost, measure)


def part_name(seed: int) -> str:
    return f"seed-{seed}"
