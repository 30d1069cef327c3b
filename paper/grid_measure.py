"""The kernels of one network of figure 4, and where their predictors are wrong."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from momentron.api import max_margin
from momentron.errors import InputError
from momentron.ntk.empirical import EmpiricalNTK
from momentron.ntk.kernel_array import block_matrix
from momentron.ntk.spectra import kernel_alignment
from momentron.result import MarginResult, labels_of
from momentron.solvers.problem import KernelChoice, Problem
from momentron.solvers.solver import Candidates
from momentron.views.progress import part_of
from paper.data import IMAGE, Sample, draw, require_end
from paper.grid import Cell, Course, Job, Training
from paper.grid_report import comparison
from paper.grid_statistics import PAIRS, TRACED, packed
from paper.method_curves import log_spaced, record
from paper.networks import Descent, Trained, build
from paper.runner import Measured, Report
from paper.two_layer import Unending

MEMORY = "2GB"
RIDGE = 1e-6  # times the diagonal
CHUNK = 500  # test images that pass the network at once
TRAINING = 0.5  # share of the work between the two looks, roughly


@dataclass(frozen=True)
class Look:
    """The kernel of a network at one epoch, and what its predictors make of the test images."""

    epoch: int
    ntk: EmpiricalNTK
    kernel: np.ndarray  # (n, n): traced over outputs, normalised
    cross: np.ndarray  # (n_test, n): the same of the test images with the training images
    best: MarginResult  # the maximum-margin predictor in the kernel
    # wrong, network_wrong: test images that this predictor gets wrong, and that the network itself
    # does
    wrong: np.ndarray
    network_wrong: np.ndarray


def begin(
    pool: Sample, cell: Cell, width: int, seed: int, training: Training, tests: int
) -> tuple[Sample, Descent]:
    """Draw the images of a seed, and build its network."""
    sample = draw(pool, seed, training.images, tests)
    model, y = build(cell, width, seed), torch.as_tensor(sample.y)
    images = torch.as_tensor(sample.X).reshape(-1, *IMAGE)
    return sample, Descent(model, images, y, step=cell.step, settings=training, seed=seed)


def take_look(model: nn.Module, sample: Sample, tol: float, report: Report, epoch: int = 0) -> Look:
    """The kernel of the network as it is, its predictor, and their errors."""
    ntk = EmpiricalNTK(model, input_shape=IMAGE, normalize=True, max_memory=MEMORY)
    kernel = ntk(sample.X)
    best = best_predictor(kernel, sample.y, tol)
    cross = ntk(sample.X_test, sample.X, progress=report)
    outputs = cross @ best.coef.T + best.intercept
    wrong = labels_of(outputs, best.classes) != sample.y_test
    network_wrong = network_answers(model, sample.X_test) != sample.y_test
    return Look(epoch, ntk, kernel, cross, best, wrong, network_wrong)


def measure_job(pool: Sample, job: Job, report: Report) -> Measured:
    """Train the network of a job, and look at its kernel before and after."""
    start = time.perf_counter()
    sample, descent = begin(pool, job.cell, job.width, job.seed, job.training, job.tests)
    edge = (1.0 - TRAINING) / 2.0
    looks = [take_look(descent.model, sample, job.tol, part_of(report, 0.0, edge))]
    pairs = [pair_reading(looks[0].ntk, sample, job.tol)]  # before the weights change
    trained = descent.until(job.training.max_epochs, part_of(report, edge, edge + TRAINING))
    assert trained is not None  # max_epochs ends it at the latest
    if trained.is_finite:
        tell = part_of(report, edge + TRAINING, 1.0)
        looks.append(take_look(descent.model, sample, job.tol, tell, trained.epochs))
        pairs.append(pair_reading(looks[1].ntk, sample, job.tol))
    return Measured(*_outcome(looks, pairs, trained, time.perf_counter() - start))


def best_predictor(kernel: np.ndarray, y: np.ndarray, tol: float) -> MarginResult:
    """The maximum-margin predictor in a kernel, certified.

    Networks compute in single precision: where that leaves a kernel that is not semidefinite, a
    little of its diagonal is added.
    """

    def fit(values: np.ndarray) -> MarginResult:
        return max_margin(values, y, kernel="precomputed", fit_intercept=False, tol=tol)

    try:
        best = fit(kernel)
    except InputError:
        best = fit(kernel + RIDGE * np.diag(np.diag(kernel)))
    require_end(best.status)
    return best


class PairReading(NamedTuple):
    """Bounds of the best margin on the rows ∇(A_c − A_j)(x), and where its direction errs."""

    lower: float
    upper: float
    wrong: np.ndarray


def pair_reading(ntk: EmpiricalNTK, sample: Sample, tol: float) -> PairReading:
    """The other reading, in which a row is the feature ∇(A_c − A_j)(x) itself.

    A direction θ classifies x by the largest ⟨θ, ∇A_o(x)⟩. It is kept as a combination of the
    training rows, and never written out.
    """
    kernel = block_matrix(ntk.pairs(sample.X, sample.y))
    # all rows have to be on one side; a problem needs two classes, so every other one is mirrored
    signs = np.where(np.arange(len(kernel)) % 2 == 0, 1, -1)
    kernel *= np.outer(signs, signs)
    best = best_predictor(kernel, signs, tol)
    n, rows = len(sample.y), np.arange(len(sample.y))
    combination = (np.ravel(best.coef) * signs).reshape(n, -1)
    lengths = np.sqrt(ntk.diagonal(sample.X, normalize=False))
    # an image on which every unit is dead has no features, as in the kernel
    combination *= np.divide(1.0, lengths, out=np.zeros(n), where=lengths > 0.0)[:, None]
    weights = np.zeros((n, combination.shape[1] + 1))
    is_wrong = np.ones(weights.shape, bool)
    is_wrong[rows, sample.y] = False
    weights[is_wrong] = -combination.ravel()
    weights[rows, sample.y] = combination.sum(axis=1)
    scores = ntk.jvp(sample.X_test, ntk.vjp(sample.X, weights))
    return PairReading(best.lower, best.upper, scores.argmax(axis=1) != sample.y_test)


def network_answers(model: nn.Module, X: np.ndarray) -> np.ndarray:
    """The network's own labels."""
    with torch.no_grad():
        chunks = torch.as_tensor(X).reshape(-1, *IMAGE).split(CHUNK)
        return torch.cat([model(chunk).argmax(dim=1) for chunk in chunks]).numpy()


def _outcome(
    looks: list[Look], pairs: list[PairReading], trained: Trained, seconds: float
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Columns with one row per look, and facts that hold every answer on the test images."""
    answers = {
        "kernel_error": (TRACED, [look.wrong for look in looks]),
        "pair_error": (PAIRS, [pair.wrong for pair in pairs]),
        "network_error": ("network_wrong", [look.network_wrong for look in looks]),
    }
    columns = {
        "iteration": np.array([look.epoch for look in looks]),
        "lower": np.array([look.best.lower for look in looks]),
        "upper": np.array([look.best.upper for look in looks]),
        "pair_lower": np.array([pair.lower for pair in pairs]),
        "pair_upper": np.array([pair.upper for pair in pairs]),
        **{name: np.mean(wrong, axis=1) for name, (_, wrong) in answers.items()},
        "alignment_first": np.array([kernel_alignment(l.kernel, looks[0].kernel) for l in looks]),
    }
    facts: dict[str, Any] = {
        "fitted": trained.fitted,
        "epochs": trained.epochs,
        "loss": trained.loss if math.isfinite(trained.loss) else None,
        "tests": int(looks[0].wrong.size),
        "seconds": round(seconds, 2),
    }
    return columns, facts | {name: [packed(w) for w in wrong] for name, wrong in answers.values()}


def follow(pool: Sample, course: Course, training: Training, seed: int, report: Report) -> Measured:
    """Train the network of a seed, and run Algorithm 2 in its kernel on the way."""
    sample, descent = begin(pool, course.cell, course.width, seed, training, course.tests)
    count = len(course.epochs) + 2
    parts = [part_of(report, i / count, (i + 1) / count) for i in range(count)]
    curves: list[Curve] = []
    trained = None
    for epoch, tell in zip((*course.epochs, training.max_epochs), parts, strict=False):
        trained = descent.until(epoch, _silent)
        if trained is not None and not trained.is_finite:
            break
        curves.append(measure_curve(descent, sample, course, tell))
        if trained is not None:
            break
    assert trained is not None  # max_epochs ends it at the latest
    if trained.fitted:
        descent.further(trained.epochs, _silent)
        curves.append(measure_curve(descent, sample, course, parts[-1]))
    compared = comparison(curves[0].wrong, curves[-1].wrong)
    facts = {"fitted": trained.fitted, "epochs": trained.epochs, **compared}
    return Measured(_below_each_other(curves), facts)


def _silent(share: float) -> None:
    """Of the training, which takes less time than the looks."""


class Curve(NamedTuple):
    """Algorithm 2 in the kernel of one look, and what its last predictor gets wrong.

    In the columns, what belongs to the look stands in each row.
    """

    columns: dict[str, np.ndarray]
    kernel: np.ndarray
    wrong: np.ndarray


def measure_curve(descent: Descent, sample: Sample, course: Course, report: Report) -> Curve:
    """Algorithm 2 in the kernel of the network as it is."""
    model = descent.model
    look = take_look(model, sample, course.tol, part_of(report, 0.0, 0.9), descent.epochs)
    classes = np.unique(sample.y)
    last = np.zeros(sample.y_test.size, bool)

    def errors(proposal: Candidates) -> dict[str, float]:
        scores = look.cross @ proposal.primals[0].w[0]
        last[:] = classes[scores.argmax(axis=1)] != sample.y_test
        return {"test_error": float(last.mean())}

    choice = KernelChoice("precomputed")
    pose = partial(Problem.from_data, look.kernel, sample.y, fit_intercept=False, kernel=choice)
    marks = log_spaced(course.iterations, course.per_decade)
    tell = part_of(report, 0.9, 1.0)
    curve = record(
        pose, Unending(), course.iterations, tell, extras=errors, marks=marks, random_state=0
    )
    columns = {n: curve[n] for n in ("iteration", "margin", "lower", "upper", "test_error")}
    numbers = {
        "epoch": look.epoch,
        "best_lower": look.best.lower,
        "best_upper": look.best.upper,
        "best_error": float(look.wrong.mean()),
        "network_error": float(look.network_wrong.mean()),
        "train_error": float(np.mean(network_answers(model, sample.X) != sample.y)),
    }
    columns |= {name: np.full(len(marks), number) for name, number in numbers.items()}
    return Curve(columns, look.kernel, last)


def _below_each_other(curves: list[Curve]) -> dict[str, np.ndarray]:
    """All curves in one table, with the alignment of each kernel with the last."""
    names = curves[0].columns
    columns = {name: np.concatenate([curve.columns[name] for curve in curves]) for name in names}
    aligned = [kernel_alignment(curve.kernel, curves[-1].kernel) for curve in curves]
    columns["alignment_last"] = np.repeat(aligned, len(columns["epoch"]) // len(curves))
    return columns
