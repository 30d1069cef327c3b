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
    by_epochs,
    converged,
    errors_improve,
    followed_details,
    grid_details,
    identical,
    intermediate_best,
    margins_found,
    margins_improve,
    not_testable,
    switches,
    switches_nearby,
    switches_unfitted,
)
from paper.grid_statistics import Outcome, by_cell, judge, most_mixed, outcome_of
from paper.judge import Claim
from paper.method_curves import shared_legend
from paper.runner import Figure, Measured, Part, Report

SHOWN = ("test_error", "best_error", "network_error")
EARLY, LATE = 0.08, 0.85  # of the colour map, whose last shades are too light for lines


def draw_figure(
    title: str, followed: Mapping[int, Measured], grid: Grid, networks: Sequence[Outcome]
) -> Any:
    """Two panels per seed that is followed, and next to them the differences of all networks."""
    looks = by_epochs(followed)
    figure, panels = saved_figure(2, 3, size=(14.5, 7.6))
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    errors = np.concatenate([part.columns[n] for part in followed.values() for n in SHOWN])
    limits = (max(0.0, float(errors.min()) - 0.03), min(1.0, float(errors.max()) + 0.03))
    for axes in panels[:, len(followed) : 2].flat:
        axes.set_axis_off()  # a seed that has not run yet
    for place, seed in enumerate(followed):
        draw_iterations(panels[0][place], followed[seed].columns, f"Seed {seed}, as in the caption")
        draw_epochs(panels[1][place], looks[seed], f"Seed {seed}, against epochs")
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
        ("network_error", NETWORK, "s-", "network (90% is a guess)"),
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
    cells = sorted(grid.cells, key=lambda cell: cell != grid.course.cell)  # the paper's first
    axes.axvline(0.0, color=INK, linewidth=1.0)
    kinds = (
        (True, False, VERMILLION, "o", "fitted network of the grid"),
        (True, True, BLUE, "D", "the same, wider"),
        (False, False, GREY, "o", "unfitted network"),
    )
    for fitted, wider, colour, marker, label in kinds:
        points = [
            (100.0 * o.difference(), place)
            for place, cell in enumerate(cells)
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
    names = [cell.words.replace(" head", "").replace(" weights", "") for cell in cells]
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
    checked=(201,),
    checked_tests=200,
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
    def from_cifar(cls, quick: bool) -> "Figure4":
        """The grid as registered; the quick version has two cells of narrow networks."""
        try:
            import torch  # noqa: F401
        except ImportError:
            raise InputError('fig4 needs torch: pip install "momentron[ntk]"') from None
        return cls(cifar_pool(), grid=QUICK if quick else Grid(), quick=quick)

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
            "checked": ", ".join(map(str, self.grid.checked)),
            "checked_tests": self.grid.checked_tests,
            "torch": torch.__version__,
        }

    def parts(self) -> list[Part]:
        screen = [self._job_part(job) for job in self._screen()]
        first = len(self.grid.cells)  # the grid with one seed, then the curves, then more seeds
        followed = [self._followed_part(seed) for seed in (*SAID, *self.grid.checked)]
        return [*screen[:first], *followed, *screen[first:]]

    def parts_after(self, measured: Mapping[str, Measured]) -> list[Part]:
        if not all(job.name in measured for job in self._screen()):
            return []
        cells = most_mixed(self.grid, self._outcomes(self._screen(), measured))
        stages = (self.grid.large, self.grid.wide)
        return [self._job_part(job) for stage in stages for job in jobs_of(self.grid, stage, cells)]

    def can_show(self, measured: Mapping[str, Measured]) -> bool:
        return bool(self._followed(measured)) and any(j.name in measured for j in self._screen())

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        followed, checked = self._followed(measured), self._checked(measured)
        looks, more = by_epochs(followed), by_epochs(checked)
        screen, large, _ = self._stages(measured)
        every, course = [*screen, *large], self.grid.course
        nearby = {
            o.job.seed: o.difference() for o in every if o.fitted and o.job.cell == course.cell
        }
        for seed, part in {**followed, **checked}.items():
            if part.facts["fitted"]:
                nearby.setdefault(seed, part.facts["difference"])
        return [
            converged(followed, every),
            identical(looks, every),
            margins_found(looks),
            *(
                not_testable(f"{SAID[seed][0]} (seed {seed}).", SAID[seed][1], part.facts)
                for seed, part in followed.items()
            ),
            switches_nearby(nearby, self.grid),
            switches(judge(self.grid, screen, large), every),
            switches_unfitted(self.grid, screen, large),
            intermediate_best(looks, more, course.epochs[-1]),
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
        looks = by_epochs({**self._followed(measured), **self._checked(measured)})
        return followed_details(looks) + grid_details(grid, stages, judge(grid, screen, large))

    def draw(self, measured: Mapping[str, Measured]) -> Any:
        networks = [*chain.from_iterable(self._stages(measured))]
        return draw_figure(f"{self.title}: CIFAR-10", self._followed(measured), self.grid, networks)

    def _stages(self, measured: Mapping[str, Measured]) -> list[list[Outcome]]:
        """The networks that ran of the screen, of the large and of the wide stage."""
        grid = self.grid
        return [
            self._outcomes(jobs_of(grid, stage, grid.cells), measured)
            for stage in (grid.screen, grid.large, grid.wide)
        ]

    def _followed(self, measured: Mapping[str, Measured]) -> dict[int, Measured]:
        return {seed: measured[part_name(seed)] for seed in SAID if part_name(seed) in measured}

    def _checked(self, measured: Mapping[str, Measured]) -> dict[int, Measured]:
        seeds = self.grid.checked
        return {seed: measured[part_name(seed)] for seed in seeds if part_name(seed) in measured}

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
        if seed not in SAID:
            course = replace(course, tests=self.grid.checked_tests)

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
