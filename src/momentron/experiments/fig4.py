"""Figure 4: the kernel of AlexNet while it is trained on 128 images of CIFAR-10."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.api import max_margin
from momentron.datasets import load
from momentron.display.style import INK, saved_figure
from momentron.errors import InputError
from momentron.experiments import style
from momentron.experiments.claims import Claim
from momentron.experiments.figure import Figure, Measured, Part, Report
from momentron.experiments.kernel_claims import (
    DOUBT,
    Curves,
    comparison,
    converged,
    errors_improve,
    identical,
    margins_found,
    margins_improve,
    preference,
    switches,
)
from momentron.experiments.recording import require_end
from momentron.experiments.sample import Sample
from momentron.ntk.evolution_table import KERNEL, NETWORK, TRAIN, scale_epochs

if TYPE_CHECKING:
    from torch import nn

    from momentron.ntk.evolution import Snapshot

SEEDS = (100, 13579)
"""The paper's."""
MORE_SEEDS = tuple(range(1, 11))
IMAGE = (3, 32, 32)
BEST = INK


@dataclass(frozen=True)
class Setting:
    """How the networks are trained, and looked at.

    Attributes
    ----------
    width : int
        Channels of AlexNet's first layer.
    lr : float
    batch_size : int
    epochs : tuple of int
        When to look at the kernel of the paper's seeds.
    few : int
        Test images for the other seeds, whose first and last kernel are looked at.
    tol : float
        Certified gap at which Algorithm 2 stops.
    max_iter : int
        Its iterations, at most.
    max_memory : str
    """

    width: int = 32
    lr: float = 0.01
    batch_size: int = 32
    epochs: tuple[int, ...] = (0, 1, 2, 5, 10, 20, 40, 80, 140, 200)
    few: int = 4000
    tol: float = 5e-3
    max_iter: int = 20_000
    max_memory: str = "2GB"


QUICK = Setting(width=8, lr=0.02, epochs=(0, 5, 40), few=200, tol=5e-2, max_iter=4000)


class Figure4(Figure):
    """Test errors of kernel predictors and of the network; which kernel each seed prefers.

    Parameters
    ----------
    sample : Sample
        Images as rows, standardised.
    setting : Setting
    seeds : sequence of int
        Followed at all epochs, on all test images.
    more : sequence of int
        Only counted: first kernel against last.
    quick : bool
    """

    name = "fig4"
    title = "Figure 4, the kernel of a network in training"
    seed = SEEDS[0]
    libraries = ("torch",)

    def __init__(
        self,
        sample: Sample,
        *,
        setting: Setting,
        seeds: Sequence[int] = SEEDS,
        more: Sequence[int] = MORE_SEEDS,
        quick: bool,
    ) -> None:
        super().__init__(sample, quick=quick)
        self.setting = setting
        self.seeds = tuple(seeds)
        self.more = tuple(seed for seed in dict.fromkeys(more) if seed not in self.seeds)

    @classmethod
    def from_cifar(cls, quick: bool, seeds: Sequence[int] = ()) -> "Figure4":
        """128 images, ten classes; the quick version has narrow networks and few test images.

        Parameters
        ----------
        quick : bool
        seeds : sequence of int
            To be counted besides those that are.
        """
        require_torch()
        if quick:
            return cls(cifar(64, 200), setting=QUICK, more=(1, *seeds), quick=True)
        return cls(cifar(128), setting=Setting(), more=(*MORE_SEEDS, *seeds), quick=False)

    def about(self) -> str:
        import torch

        s, epochs = self.setting, ", ".join(map(str, self.setting.epochs))
        return (
            f"{self.sample.title}, pixels standardised by channel, all ten classes. The network is "
            f"`momentron.ntk.alexnet(width={s.width})`: AlexNet adapted to 32 × 32 images, five "
            f"convolutions of {s.width}, {3 * s.width}, {6 * s.width}, {4 * s.width} and "
            f"{4 * s.width} channels and dense layers of {64 * s.width}, {64 * s.width} and 10, "
            + ("half the usual width, " if s.width == 32 else "")
            + "with He's initial weights and no initial biases: torch's own are smaller by √6 in "
            "each layer, which makes the first kernel almost constant, and training slow to leave "
            "it. The paper states neither, nor step size or batch size. Plain gradient steps of "
            f"{s.lr:g} on the cross entropy of {s.batch_size} images. The seed draws the weights "
            "and the order of the images; the images themselves are the same for all seeds, a "
            "stricter reading than one in which the seed draws these too. After epochs "
            f"{epochs} the kernel, normalised and traced over outputs, goes to Algorithm 2 "
            f"(aggressive, no intercepts; until the certified gap is {s.tol:g}, at most "
            f"{s.max_iter:,} iterations), and its predictor classifies all "
            f"{self.sample.y_test.size:,} test images. Of the other seeds "
            f"({', '.join(map(str, self.more))}) the first and the last kernel are compared, on "
            f"{min(s.few, self.sample.y_test.size):,} test images. A difference is beyond doubt "
            f"where it exceeds {DOUBT:g} standard errors of the images on which just one kernel "
            f"errs. torch {torch.__version__}."
        )

    def parts(self) -> list[Part]:
        s, n_test = self.setting, self.sample.y_test.size
        followed = [self._part(seed, s.epochs, n_test) for seed in self.seeds]
        ends, few = (s.epochs[0], s.epochs[-1]), min(s.few, n_test)
        return [*followed, *(self._part(seed, ends, few) for seed in self.more)]

    def _part(self, seed: int, epochs: tuple[int, ...], n_test: int) -> Part:
        import torch

        s = self.setting
        parameters = {
            "seed": seed,
            "epochs": list(epochs),
            "tests": n_test,
            "width": s.width,
            "lr": s.lr,
            "batch_size": s.batch_size,
            "tol": s.tol,
            "max_iter": s.max_iter,
            "torch": torch.__version__,
        }

        def measure(report: Report) -> Measured:
            return measure_seed(self.sample, s, seed, epochs, n_test, report)

        weight = float(len(epochs) * n_test + 20 * epochs[-1])
        return Part(part_name(seed), parameters, weight, measure)

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        followed = {seed: measured[part_name(seed)].columns for seed in self.seeds}
        every = {seed: measured[part_name(seed)] for seed in (*self.seeds, *self.more)}
        improves, does_not = self.seeds[0], self.seeds[-1]
        return [
            converged(every),
            identical(followed),
            margins_found(followed, self.setting.tol),
            preference(
                "The test error of the maximum-margin kernel predictor decreases in training "
                f"(seed {improves}).",
                "Figure 4 (a)",
                measured[part_name(improves)].facts,
                final=True,
            ),
            preference(
                f"Feature learning does not help (seed {does_not}): the initial kernel is better.",
                "Figure 4 (b)",
                measured[part_name(does_not)].facts,
                final=False,
            ),
            switches(every),
            margins_improve(every),
            errors_improve(every),
        ]

    def draw(self, measured: Mapping[str, Measured]) -> Any:
        figure, panels = saved_figure(2, 2, size=(9.2, 7.2))
        figure.suptitle(f"{self.title}: {self.sample.title}", x=0.01, ha="left", fontsize=11)
        followed = {seed: measured[part_name(seed)].columns for seed in self.seeds}
        for axes, seed in zip(panels[0], (self.seeds[0], self.seeds[-1]), strict=True):
            draw_errors(axes, followed[seed], f"Test error, seed {seed}")
        low = min(columns["kernel_error"].min() for columns in followed.values())
        for axes in panels[0]:
            axes.set_ylim(max(0.0, low - 0.05), 0.95)
        draw_margins(panels[1][0], followed)
        every = {seed: measured[part_name(seed)].facts for seed in (*self.seeds, *self.more)}
        draw_preferences(panels[1][1], every)
        style.shared_legend(figure, panels.ravel(), columns=3)
        return figure


def require_torch() -> None:
    """One line for those without torch."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise InputError('fig4 needs torch: pip install "momentron[ntk]"') from None


def cifar(rows: int, tests: int | None = None) -> Sample:
    """Images of CIFAR-10 as rows, evenly spaced, standardised by the channels of those to train on.

    Parameters
    ----------
    rows, tests : int
        Images to train and to test on; all the latter where None.
    """
    data = load("cifar10", subset=rows, dtype=np.float32)
    n_test = data.y_test.size
    kept = slice(None) if tests is None else np.arange(tests) * n_test // tests
    X, X_test = (images.reshape(-1, *IMAGE) for images in (data.X, data.X_test[kept]))
    mean, spread = (f(X, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    X, X_test = (((images - mean) / spread).reshape(len(images), -1) for images in (X, X_test))
    title = f"CIFAR-10, {len(X):,} images to train on, {len(X_test):,} to test on"
    return Sample(X, data.y, X_test, data.y_test[kept], title)


def he_alexnet(width: int, seed: int) -> "nn.Sequential":
    """AlexNet with weights uniform on ±√(6/fan-in) and no biases, to keep the signal's size."""
    import torch

    from momentron.ntk.networks import alexnet

    model = alexnet(10, width=width, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            # alexnet draws them on ±1/√(fan-in)
            parameter.mul_(math.sqrt(6.0) if parameter.ndim > 1 else 0.0)
    return model


def part_name(seed: int) -> str:
    return f"seed-{seed}"


def measure_seed(
    sample: Sample,
    setting: Setting,
    seed: int,
    epochs: tuple[int, ...],
    n_test: int,
    report: Report,
) -> Measured:
    """Train a network from a seed, and follow its kernel."""
    from momentron.ntk.evolution import kernel_evolution, predict

    start = time.perf_counter()
    kept = np.arange(n_test) * sample.y_test.size // n_test
    y_test = sample.y_test[kept]
    further: dict[str, list[float]] = {"seconds": [], "best_lower": [], "best_upper": []}
    further["best_error"] = []
    wrong: list[np.ndarray] = []

    def keep(snapshot: "Snapshot") -> None:
        best = max_margin(snapshot.kernel, sample.y, kernel="precomputed", fit_intercept=False)
        require_end(best.status)
        further["best_lower"].append(best.lower)
        further["best_upper"].append(best.upper)
        further["best_error"].append(float(np.mean(predict(best, snapshot.cross) != y_test)))
        wrong.append(predict(snapshot.result, snapshot.cross) != y_test)
        further["seconds"].append(time.perf_counter() - start)

    evolution = kernel_evolution(
        he_alexnet(setting.width, seed),
        (sample.X, sample.y),
        (sample.X_test[kept], y_test),
        epochs=epochs,
        lr=setting.lr,
        batch_size=setting.batch_size,
        seed=seed,
        method="adaptive",
        tol=setting.tol,
        max_iter=setting.max_iter,
        input_shape=IMAGE,
        max_memory=setting.max_memory,
        callback=keep,
        progress=report,
    )
    columns = evolution.to_dict()
    columns = {"iteration": columns.pop("epoch"), **columns}
    columns |= {name: np.array(values) for name, values in further.items()}
    return Measured(columns, comparison(wrong[0], wrong[-1]))


def draw_errors(axes: Any, columns: Mapping[str, np.ndarray], title: str) -> None:
    """Errors of the kernel's predictor, of the best one, and of the network."""
    epochs = columns["iteration"]
    lines = (
        ("network_error", NETWORK, "s-", "network"),
        ("kernel_error", KERNEL, "o-", "kernel predictor, Algorithm 2"),
        ("best_error", BEST, ":", "kernel predictor, best margin"),
    )
    for name, colour, line, label in lines:
        axes.plot(epochs, columns[name], line, color=colour, markersize=4, label=label)
    fitted = epochs[np.flatnonzero(columns["train_error"] == 0.0)]
    if fitted.size:
        axes.axvline(fitted[0], color=TRAIN, linewidth=1.0, label="no training error from here")
    axes.set(title=title, ylabel="test error")
    axes.yaxis.set_major_formatter("{x:.0%}")
    scale_epochs(axes, epochs)


def draw_margins(axes: Any, followed: Curves) -> None:
    """Margins of Algorithm 2 within the certified best; the second seed dashed."""
    for (seed, columns), line in zip(followed.items(), ("-", "--"), strict=False):
        axes.plot(
            columns["iteration"],
            columns["lower"],
            line,
            color=KERNEL,
            marker="o",
            markersize=4,
            label=f"margin of Algorithm 2, seed {seed}",
        )
        axes.plot(columns["iteration"], columns["best_lower"], ":", color=BEST)
        epochs = columns["iteration"]
    axes.set(title="Margin in the normalised kernel", ylabel="margin", ylim=(0.0, None))
    scale_epochs(axes, epochs)


def draw_preferences(axes: Any, every: Mapping[int, Mapping[str, Any]]) -> None:
    """Test error of the final kernel less that of the initial one, seed by seed."""
    places = range(len(every))
    differences = [100.0 * facts["difference"] for facts in every.values()]
    doubt = [100.0 * DOUBT * facts["standard error"] for facts in every.values()]
    axes.axhline(0.0, color=style.INK, linewidth=1.0)
    axes.errorbar(places, differences, yerr=doubt, fmt="o", color=NETWORK, markersize=4, capsize=2)
    axes.set_xticks(list(places), [str(seed) for seed in every], rotation=60, fontsize=8)
    axes.set(
        title="Final kernel against initial one: below 0 it is better",
        xlabel="seed",
        ylabel="test error, percentage points",
    )
